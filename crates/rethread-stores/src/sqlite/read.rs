//! Reading.

use std::cell::RefCell;

use rethread_core::{Draft, Head, Holder, LeaseInfo, ListQuery, Page, Row, StoreError, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OptionalExtension};

use super::file::File;
use crate::holder::{is_known_dead, this_process};

/// A page of rows ends when it has so many bytes.
const PAGE_BYTES: usize = 1 << 20;

/// The bits of a key that hold the sequence number.
const SEQ_BITS: u32 = 32;

/// The key of a record.
///
/// # Errors
/// When there are 2³² records in the session or 2³¹ sessions.
pub(super) fn key(id: i64, seq: u64) -> rusqlite::Result<i64> {
    match (i32::try_from(id), u32::try_from(seq)) {
        (Ok(id), Ok(seq)) => Ok(i64::from(id) << SEQ_BITS | i64::from(seq)),
        _ => Err(rusqlite::Error::IntegralValueOutOfRange(0, int(seq))),
    }
}

/// The least and the greatest key of a session's records.
pub(super) fn keys(id: i64) -> (i64, i64) {
    let first = id << SEQ_BITS;
    (first, first | i64::from(u32::MAX))
}

/// A number as SQLite keeps it.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The columns of a lease.
#[derive(Debug)]
pub(super) struct LeaseRow {
    pub(super) fence: i64,
    holder: Option<String>,
    pub(super) since: Option<i64>,
    until: Option<i64>,
}

impl LeaseRow {
    /// Reads `fence, holder, lease_since, lease_until` from a column on.
    pub(super) fn read(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            fence: row.get(at)?,
            holder: row.get(at + 1)?,
            since: row.get(at + 2)?,
            until: row.get(at + 3)?,
        })
    }

    pub(super) fn holder(&self) -> Holder {
        let known = self
            .holder
            .as_deref()
            .and_then(|json| serde_json::from_str(json).ok());
        known.unwrap_or_else(|| Holder {
            host: "an unknown machine".to_owned(),
            pid: 0,
            instance: String::new(),
        })
    }
}

impl File {
    /// Whether a lease is in force.
    pub(super) fn is_live(&self, session: &str, lease: &LeaseRow) -> bool {
        self.is_live_unless(session, lease, is_known_dead)
    }

    fn is_live_unless(
        &self,
        session: &str,
        lease: &LeaseRow,
        is_dead: impl Fn(&Holder) -> bool,
    ) -> bool {
        if lease.holder.is_none() || lease.until.unwrap_or(0) <= Timestamp::now().0 {
            return false;
        }
        let holder = lease.holder();
        if holder == *this_process() {
            self.leases().is_alive(session, lease.fence.unsigned_abs())
        } else {
            !is_dead(&holder)
        }
    }

    pub(super) fn head(&self, session: &str) -> Result<Option<Head>, StoreError> {
        let head = format!("{HEAD} WHERE name = ?1");
        let found = self.reading(|connection| {
            let mut statement = connection.prepare_cached(&head)?;
            statement.query_row((session,), HeadRow::read).optional()
        })?;
        Ok(found.map(|row| row.head(self, is_known_dead)))
    }

    pub(super) fn list(&self, query: &ListQuery) -> Result<Vec<Head>, StoreError> {
        let prefix = query.prefix.as_deref().unwrap_or("");
        let limit = query.limit.unwrap_or(usize::MAX);
        let list = format!("{HEAD} ORDER BY updated DESC, id DESC");
        let found = self.reading(|connection| {
            let mut statement = connection.prepare_cached(&list)?;
            let rows = statement.query_map((), HeadRow::read)?;
            // Told apart here: LIKE and GLOB would read more into a prefix than it says.
            rows.filter(|row| {
                row.as_ref()
                    .map_or(true, |row| row.name.starts_with(prefix))
            })
            .take(limit)
            .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        // Sessions that are being written are mostly held by the same few processes.
        let known = RefCell::new(None::<(Holder, bool)>);
        let is_dead = |holder: &Holder| {
            let mut known = known.borrow_mut();
            match &*known {
                Some((other, dead)) if other == holder => *dead,
                _ => {
                    let dead = is_known_dead(holder);
                    *known = Some((holder.clone(), dead));
                    dead
                }
            }
        };
        Ok(found
            .into_iter()
            .map(|row| row.head(self, is_dead))
            .collect())
    }

    pub(super) fn rows(&self, session: &str, page: Page) -> Result<Vec<Row>, StoreError> {
        let rows = self.reading(|connection| match id(connection, session)? {
            Some(id) => rows(connection, id, page).map(Some),
            None => Ok(None),
        })?;
        rows.ok_or_else(|| StoreError::NotFound {
            session: session.to_owned(),
            store: self.name().to_owned(),
        })
    }

    pub(super) fn draft(&self, session: &str) -> Result<Option<Draft>, StoreError> {
        let draft: Option<String> = self.reading(|connection| {
            connection
                .prepare_cached(
                    "SELECT body FROM drafts
                     WHERE session = (SELECT id FROM sessions WHERE name = ?1)",
                )?
                .query_row((session,), |row| row.get(0))
                .optional()
        })?;
        // A draft is only ever shown; one that cannot be read is as good as none.
        Ok(draft.and_then(|draft| serde_json::from_str(&draft).ok()))
    }
}

const HEAD: &str = "SELECT name, last, load_from, messages, state, title, created, updated,
    fence, holder, lease_since, lease_until FROM sessions";

struct HeadRow {
    name: String,
    last: i64,
    load_from: i64,
    messages: i64,
    state: String,
    title: Option<String>,
    created: i64,
    updated: i64,
    lease: LeaseRow,
}

impl HeadRow {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            name: row.get(0)?,
            last: row.get(1)?,
            load_from: row.get(2)?,
            messages: row.get(3)?,
            state: row.get(4)?,
            // Only for people to read; a title that is damaged must not hide its session.
            title: match row.get_ref(5)? {
                ValueRef::Text(title) => Some(String::from_utf8_lossy(title).into_owned()),
                _ => None,
            },
            created: row.get(6)?,
            updated: row.get(7)?,
            lease: LeaseRow::read(row, 8)?,
        })
    }

    fn head(self, file: &File, is_dead: impl Fn(&Holder) -> bool) -> Head {
        let lease = self.lease.holder.is_some().then(|| LeaseInfo {
            fence: self.lease.fence.unsigned_abs(),
            holder: self.lease.holder(),
            since: Timestamp(self.lease.since.unwrap_or_default()),
            until: Timestamp(self.lease.until.unwrap_or_default()),
            live: file.is_live_unless(&self.name, &self.lease, is_dead),
        });
        Head {
            session: self.name,
            last: self.last.unsigned_abs(),
            load_from: self.load_from.unsigned_abs(),
            messages: self.messages.unsigned_abs(),
            state: self.state,
            title: self.title,
            created: Timestamp(self.created),
            updated: Timestamp(self.updated),
            lease,
        }
    }
}

fn id(connection: &Connection, session: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM sessions WHERE name = ?1")?
        .query_row((session,), |row| row.get(0))
        .optional()
}

/// A page of a session's rows.
fn rows(connection: &Connection, id: i64, page: Page) -> rusqlite::Result<Vec<Row>> {
    let (first, last) = keys(id);
    let at = |seq: u64| first | i64::from(u32::try_from(seq).unwrap_or(u32::MAX));
    let (sql, from, to, limit) = match page {
        Page::After { seq, .. } if seq >= u64::from(u32::MAX) => return Ok(Vec::new()),
        Page::After { seq, limit } => (
            "SELECT key, body FROM records WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3",
            at(seq) + 1,
            last,
            limit,
        ),
        Page::Before { seq: 0, .. } => return Ok(Vec::new()),
        Page::Before { seq, limit } => (
            "SELECT key, body FROM records WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3",
            first,
            // Beyond the numbers there can be, the end is the end.
            if seq > u64::from(u32::MAX) {
                last
            } else {
                at(seq) - 1
            },
            limit,
        ),
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query((from, to, int(limit as u64)))?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while bytes < PAGE_BYTES {
        match next(&mut found) {
            Ok(Some(row)) => {
                bytes += row.body.len();
                rows.push(row);
            }
            Ok(None) => break,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                drop(found);
                drop(statement);
                return rows_one_by_one(connection, id, page);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(rows)
}

fn next(found: &mut rusqlite::Rows<'_>) -> rusqlite::Result<Option<Row>> {
    let Some(row) = found.next()? else {
        return Ok(None);
    };
    let key: i64 = row.get(0)?;
    Ok(Some(Row {
        seq: key.unsigned_abs() & u64::from(u32::MAX),
        body: body(row.get_ref(1)?),
    }))
}

/// The bytes of a body. Rows are text or bytes; what else an edit by hand may have left is given
/// as text, for the reader to set aside.
fn body(value: ValueRef<'_>) -> Vec<u8> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        ValueRef::Integer(number) => number.to_string().into_bytes(),
        ValueRef::Real(number) => number.to_string().into_bytes(),
        ValueRef::Null => Vec::new(),
    }
}

/// A page of a file with damaged parts. A row that lies in one is given without content, for the
/// reader to set aside.
fn rows_one_by_one(connection: &Connection, id: i64, page: Page) -> rusqlite::Result<Vec<Row>> {
    let last: i64 = connection
        .prepare_cached("SELECT last FROM sessions WHERE id = ?1")?
        .query_row((id,), |row| row.get(0))?;
    let last = last.unsigned_abs();
    let (seqs, limit): (Box<dyn Iterator<Item = u64>>, usize) = match page {
        Page::After { seq, limit } => (Box::new(seq.saturating_add(1)..=last), limit),
        Page::Before { seq, limit } => {
            (Box::new((1..=last.min(seq.saturating_sub(1))).rev()), limit)
        }
    };
    let mut statement =
        connection.prepare_cached("SELECT key, body FROM records WHERE key = ?1")?;
    let (mut rows, mut bytes, mut missing) = (Vec::new(), 0, 0);
    for seq in seqs {
        let mut found = statement.query((key(id, seq)?,))?;
        match next(&mut found) {
            Ok(Some(row)) => {
                bytes += row.body.len();
                rows.push(row);
            }
            Ok(None) => missing += 1,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                rows.push(Row {
                    seq,
                    body: Vec::new(),
                });
            }
            Err(error) => return Err(error),
        }
        // What a damaged file says its last record is need not be so.
        if rows.len() >= limit || bytes >= PAGE_BYTES || missing > 10_000 {
            break;
        }
    }
    Ok(rows)
}
