//! Writing: many jobs in one transaction.

use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use rethread_core::{
    Commit, Committed, Draft, Lease, StoreError, Summary, Timestamp, Writer as Right,
};
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::busy::patiently;
use super::file::File;
use super::read::{LeaseRow, int, key, keys};
use crate::holder::this_process;
use crate::queue::Engine;

/// Something to write.
pub(super) enum Job {
    Commit(WriteCommit),
    Renew(Held),
    Release(Held),
    Draft(Held, String),
    Delete(String),
}

/// A commit that owns what it writes, since whoever asked for it may be gone when it is done.
pub(super) struct WriteCommit {
    session: Arc<str>,
    right: WriteRight,
    after: u64,
    rows: Vec<Vec<u8>>,
    summary: Option<Summary>,
    drop_draft: bool,
    release: bool,
}

enum WriteRight {
    Claim {
        ttl: Duration,
        create: bool,
        force: bool,
    },
    Lease(Held),
}

/// A lease, without the part that keeps it alive.
#[derive(Clone)]
pub(super) struct Held {
    session: Arc<str>,
    fence: u64,
    ttl: Duration,
}

impl From<&Lease> for Held {
    fn from(lease: &Lease) -> Self {
        Self {
            session: lease.session.clone(),
            fence: lease.fence,
            ttl: lease.ttl,
        }
    }
}

impl WriteCommit {
    pub(super) fn new(commit: &Commit<'_>) -> Self {
        let (session, right) = match commit.writer {
            Right::Claim { ttl, create, force } => (
                commit.session.into(),
                WriteRight::Claim { ttl, create, force },
            ),
            Right::Lease(lease) if *lease.session == *commit.session => {
                (lease.session.clone(), WriteRight::Lease(lease.into()))
            }
            // The lease of one session gives no right to another.
            Right::Lease(lease) => (
                commit.session.into(),
                WriteRight::Lease(Held {
                    session: commit.session.into(),
                    fence: 0,
                    ttl: lease.ttl,
                }),
            ),
        };
        Self {
            session,
            right,
            after: commit.after,
            rows: commit.rows.to_vec(),
            summary: commit.summary.cloned(),
            drop_draft: commit.drop_draft,
            release: commit.release,
        }
    }
}

impl Job {
    pub(super) fn renew(lease: &Lease) -> Self {
        Self::Renew(lease.into())
    }

    pub(super) fn release(lease: &Lease) -> Self {
        Self::Release(lease.into())
    }

    pub(super) fn draft(lease: &Lease, draft: &Draft) -> serde_json::Result<Self> {
        Ok(Self::Draft(lease.into(), serde_json::to_string(draft)?))
    }

    pub(super) fn delete(session: &str) -> Self {
        Self::Delete(session.to_owned())
    }

    /// Whether it must survive a power loss. After one no process holds a lease or streams.
    fn is_lasting(&self) -> bool {
        matches!(self, Self::Commit(_) | Self::Delete(_))
    }
}

/// The connection that writes.
#[derive(Debug)]
pub(super) struct Writer {
    connection: Connection,
    /// Whether lasting jobs wait for the disk.
    full: bool,
    /// Whether the connection waits for the disk now; `None` when that is not known.
    waits: Option<bool>,
}

impl Writer {
    pub(super) fn new(connection: Connection, full: bool) -> Self {
        Self {
            connection,
            full,
            waits: None,
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Makes the connection ready for a transaction that waits for the disk, or does not.
    fn prepare(&mut self, waits: bool) -> rusqlite::Result<()> {
        if !self.connection.is_autocommit() {
            // A panic or a failed rollback left a transaction open.
            self.connection.execute_batch("ROLLBACK")?;
        }
        if self.waits != Some(waits) {
            self.waits = None;
            let level = if waits { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.waits = Some(waits);
        }
        Ok(())
    }
}

type Output = Result<Committed, StoreError>;

impl Engine for File {
    type Job = Job;
    type Output = Output;

    fn run(&self, jobs: Vec<Job>) -> Vec<Output> {
        let Some(writer) = &self.writer else {
            let refuse = |_| Err(self.io("writing", "it was opened for reading only"));
            return jobs.iter().map(refuse).collect();
        };
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = writer.full && jobs.iter().any(Job::is_lasting);
        if let Err(error) = writer
            .prepare(waits)
            .and_then(|()| self.begin(&writer.connection))
        {
            return self.fail_all(&jobs, error);
        }
        let connection = &writer.connection;
        match self.transaction(connection, &jobs) {
            Ok(outputs) => outputs,
            Err(error) if jobs.len() == 1 => vec![Err(self.failure("writing", error))],
            // One of them cannot be written; which one shows when each is on its own.
            Err(_) => jobs
                .iter()
                .map(|job| self.run_alone(connection, job))
                .collect(),
        }
    }

    fn undelivered(&self, output: Output) -> Option<Job> {
        // Nobody could give back this lease, and other processes would wait for its time to run
        // out.
        let lease = output.ok()?.lease?;
        Some(Job::release(&lease))
    }

    fn lost(&self) -> Output {
        Err(self.io("writing", "the task that wrote for this one panicked"))
    }
}

impl File {
    fn begin(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut begin = connection.prepare_cached("BEGIN IMMEDIATE")?;
        patiently(self.busy_timeout(), || begin.execute([])).map(drop)
    }

    fn fail_all(&self, jobs: &[Job], error: rusqlite::Error) -> Vec<Output> {
        let first = self.failure("writing", error);
        let why = std::error::Error::source(&first)
            .map_or_else(|| first.to_string(), ToString::to_string);
        let rest = jobs
            .iter()
            .skip(1)
            .map(|_| Err(self.io("writing", why.clone())));
        std::iter::once(Err(first))
            .chain(rest.collect::<Vec<_>>())
            .collect()
    }

    fn run_alone(&self, connection: &Connection, job: &Job) -> Output {
        self.begin(connection)
            .and_then(|()| self.transaction(connection, std::slice::from_ref(job)))
            .map_err(|error| self.failure("writing", error))
            .and_then(|outputs| outputs.into_iter().next().unwrap_or_else(|| self.lost()))
    }

    /// Does jobs in the transaction that was begun, and ends it. A job that is refused has written
    /// nothing and does not disturb the others; a failure undoes all of them.
    fn transaction(&self, connection: &Connection, jobs: &[Job]) -> rusqlite::Result<Vec<Output>> {
        let mut outputs: Vec<Output> = Vec::with_capacity(jobs.len());
        let result = (|| {
            for job in jobs {
                outputs.push(self.perform(connection, job)?);
            }
            let mut commit = connection.prepare_cached("COMMIT")?;
            patiently(self.busy_timeout(), || commit.execute([])).map(drop)
        })();
        match result {
            Ok(()) => {
                for (job, output) in jobs.iter().zip(&outputs) {
                    self.forget_lease(job, output);
                }
                Ok(outputs)
            }
            Err(error) => {
                for lease in outputs
                    .iter()
                    .flatten()
                    .filter_map(|done| done.lease.as_ref())
                {
                    self.leases().remove(&lease.session, lease.fence);
                }
                if !connection.is_autocommit() {
                    connection.execute_batch("ROLLBACK")?;
                }
                Err(error)
            }
        }
    }
}

/// What the session's row says after a commit of the writer who holds it, if it still does and
/// knows the last record.
const KEEP: &str = "UPDATE sessions SET last = ?4, updated = ?5, messages = messages + ?6,
    state = coalesce(?7, state), title = coalesce(?8, title), load_from = coalesce(?9, load_from),
    lease_until = ?10, lease_since = iif(?10 IS NULL, NULL, lease_since),
    holder = iif(?10 IS NULL, NULL, holder)
    WHERE id = ?1 AND fence = ?2 AND last = ?3 AND holder IS NOT NULL";

/// What it says after a commit that takes the lease.
const TAKE: &str = "UPDATE sessions SET last = ?2, updated = ?3, messages = messages + ?4,
    state = coalesce(?5, state), title = coalesce(?6, title), load_from = coalesce(?7, load_from),
    fence = ?8, holder = ?9, lease_since = ?10, lease_until = ?11 WHERE id = ?1";

/// A session's first fence is its id times this. Ids are never used again, so the fences of a
/// session that was deleted and made again go on growing.
const FENCES: i64 = 1 << 20;

impl File {
    /// Does one job. Whether it is refused is decided before anything is written.
    fn perform(&self, connection: &Connection, job: &Job) -> rusqlite::Result<Output> {
        match job {
            Job::Commit(commit) => match &commit.right {
                WriteRight::Claim { ttl, create, force } => {
                    self.claim(connection, commit, *ttl, *create, *force)
                }
                WriteRight::Lease(held) => self.keep(connection, commit, held),
            },
            Job::Renew(held) => {
                let renew = "UPDATE sessions SET lease_until = ?3
                    WHERE id = ?1 AND fence = ?2 AND holder IS NOT NULL";
                let until = Timestamp::now().after(held.ttl).0;
                match self.id(connection, held)? {
                    Some(id) if execute(connection, renew, (id, int(held.fence), until))? > 0 => {
                        Ok(Ok(NOTHING))
                    }
                    _ => Ok(Err(fenced(&held.session))),
                }
            }
            Job::Release(held) => {
                let release = "UPDATE sessions
                    SET holder = NULL, lease_since = NULL, lease_until = NULL
                    WHERE id = ?1 AND fence = ?2";
                if let Some(id) = self.id(connection, held)? {
                    execute(connection, release, (id, int(held.fence)))?;
                }
                Ok(Ok(NOTHING))
            }
            Job::Draft(held, body) => {
                let insert = "INSERT OR REPLACE INTO drafts
                    SELECT id, ?3 FROM sessions
                    WHERE id = ?1 AND fence = ?2 AND holder IS NOT NULL";
                match self.id(connection, held)? {
                    Some(id) if execute(connection, insert, (id, int(held.fence), body))? > 0 => {
                        Ok(Ok(NOTHING))
                    }
                    _ => Ok(Err(fenced(&held.session))),
                }
            }
            Job::Delete(session) => self.delete(connection, session),
        }
    }

    fn claim(
        &self,
        connection: &Connection,
        commit: &WriteCommit,
        ttl: Duration,
        create: bool,
        force: bool,
    ) -> rusqlite::Result<Output> {
        let session = &*commit.session;
        let now = Timestamp::now();
        let conflict = |found: i64| {
            Ok(Err(StoreError::Conflict {
                session: session.to_owned(),
                expected: commit.after,
                found: found.unsigned_abs(),
            }))
        };
        let (id, fence) = match self.find(connection, session)? {
            Some((_, _, lease)) if !force && self.is_live(session, &lease) => {
                return Ok(Err(busy(session, &lease)));
            }
            Some((_, last, _)) if last != int(commit.after) => return conflict(last),
            Some((id, _, lease)) => (id, lease.fence),
            None if !create => {
                return Ok(Err(StoreError::NotFound {
                    session: session.to_owned(),
                    store: self.name().to_owned(),
                }));
            }
            None if commit.after != 0 => return conflict(0),
            None => {
                let insert = "INSERT INTO sessions(name, created, updated) VALUES(?1, ?2, ?2)";
                execute(connection, insert, (session, now.0))?;
                let id = connection.last_insert_rowid();
                (id, id.saturating_mul(FENCES))
            }
        };
        let fence = fence.saturating_add(1);
        let lease = (!commit.release).then(|| Lease {
            session: commit.session.clone(),
            fence: fence.unsigned_abs(),
            ttl,
            alive: Arc::new(()),
        });
        if let Some(lease) = &lease {
            self.leases().insert(lease, id);
        }
        let holder = lease.as_ref().map(|_| holder_json());
        let (since, until) = match lease {
            Some(_) => (Some(now.0), Some(now.after(ttl).0)),
            None => (None, None),
        };
        let last = self.append(connection, id, commit)?;
        let (messages, state, title, load_from) = summary(commit);
        execute(
            connection,
            TAKE,
            params![
                id,
                int(last),
                now.0,
                messages,
                state,
                title,
                load_from,
                fence,
                holder,
                since,
                until
            ],
        )?;
        Ok(Ok(Committed { lease, last }))
    }

    fn keep(
        &self,
        connection: &Connection,
        commit: &WriteCommit,
        held: &Held,
    ) -> rusqlite::Result<Output> {
        let Some(id) = self.id(connection, held)? else {
            return Ok(Err(fenced(&held.session)));
        };
        let now = Timestamp::now();
        let until = (!commit.release).then(|| now.after(held.ttl).0);
        let last = commit.after.saturating_add(commit.rows.len() as u64);
        let (messages, state, title, load_from) = summary(commit);
        let (fence, after) = (int(held.fence), int(commit.after));
        let kept = execute(
            connection,
            KEEP,
            params![
                id,
                fence,
                after,
                int(last),
                now.0,
                messages,
                state,
                title,
                load_from,
                until
            ],
        )?;
        if kept == 0 {
            let found = "SELECT last FROM sessions
                WHERE id = ?1 AND fence = ?2 AND holder IS NOT NULL";
            let found: Option<i64> = connection
                .prepare_cached(found)?
                .query_row((id, fence), |row| row.get(0))
                .optional()?;
            return Ok(Err(match found {
                Some(found) => StoreError::Conflict {
                    session: held.session.to_string(),
                    expected: commit.after,
                    found: found.unsigned_abs(),
                },
                None => fenced(&held.session),
            }));
        }
        self.append(connection, id, commit)?;
        Ok(Ok(Committed { lease: None, last }))
    }

    /// Writes the rows, and drops the draft; gives the last sequence number.
    fn append(
        &self,
        connection: &Connection,
        id: i64,
        commit: &WriteCommit,
    ) -> rusqlite::Result<u64> {
        let mut insert = connection.prepare_cached("INSERT INTO records VALUES(?1, ?2)")?;
        let mut last = commit.after;
        for row in &commit.rows {
            last = last.saturating_add(1);
            // Text where it is, for the sake of people and of SQLite's JSON functions.
            match std::str::from_utf8(row) {
                Ok(text) => insert.execute((key(id, last)?, text))?,
                Err(_) => insert.execute((key(id, last)?, row))?,
            };
        }
        if commit.drop_draft {
            execute(connection, "DELETE FROM drafts WHERE session = ?1", (id,))?;
        }
        Ok(last)
    }

    fn delete(&self, connection: &Connection, session: &str) -> rusqlite::Result<Output> {
        let Some((id, _, lease)) = self.find(connection, session)? else {
            return Ok(Ok(NOTHING));
        };
        if self.is_live(session, &lease) {
            return Ok(Err(busy(session, &lease)));
        }
        let (first, last) = keys(id);
        execute(
            connection,
            "DELETE FROM records WHERE key BETWEEN ?1 AND ?2",
            (first, last),
        )?;
        execute(connection, "DELETE FROM drafts WHERE session = ?1", (id,))?;
        execute(connection, "DELETE FROM sessions WHERE id = ?1", (id,))?;
        Ok(Ok(NOTHING))
    }

    /// Id, last record and lease of a session.
    fn find(
        &self,
        connection: &Connection,
        session: &str,
    ) -> rusqlite::Result<Option<(i64, i64, LeaseRow)>> {
        let find = "SELECT id, last, fence, holder, lease_since, lease_until
            FROM sessions WHERE name = ?1";
        connection
            .prepare_cached(find)?
            .query_row((session,), |row| {
                Ok((row.get(0)?, row.get(1)?, LeaseRow::read(row, 2)?))
            })
            .optional()
    }

    /// The id of the session of a lease; `None` when another has taken it since.
    fn id(&self, connection: &Connection, held: &Held) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.leases().id(&held.session, held.fence) {
            return Ok(Some(id));
        }
        connection
            .prepare_cached("SELECT id FROM sessions WHERE name = ?1 AND fence = ?2")?
            .query_row((&*held.session, int(held.fence)), |row| row.get(0))
            .optional()
    }

    /// Forgets the lease of a job that gave it back or lost it.
    fn forget_lease(&self, job: &Job, output: &Output) {
        let held = match (job, output) {
            (Job::Release(held), _) => held,
            (Job::Renew(held) | Job::Draft(held, _), Err(StoreError::Fenced { .. })) => held,
            (Job::Commit(commit), output) => match (&commit.right, output) {
                (WriteRight::Lease(held), Err(StoreError::Fenced { .. })) => held,
                (WriteRight::Lease(held), Ok(_)) if commit.release => held,
                _ => return,
            },
            _ => return,
        };
        self.leases().remove(&held.session, held.fence);
    }
}

/// This process, as `sessions.holder` says it.
fn holder_json() -> &'static str {
    static JSON: OnceLock<String> = OnceLock::new();
    // A struct of two strings and a number can always be encoded.
    JSON.get_or_init(|| serde_json::to_string(this_process()).unwrap_or_default())
}

const NOTHING: Committed = Committed {
    lease: None,
    last: 0,
};

fn execute(connection: &Connection, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql)?.execute(params)
}

type SummaryColumns<'a> = (i64, Option<&'a str>, Option<&'a str>, Option<i64>);

fn summary(commit: &WriteCommit) -> SummaryColumns<'_> {
    match &commit.summary {
        None => (0, None, None, None),
        Some(summary) => (
            int(summary.messages),
            Some(&summary.state),
            summary.title.as_deref(),
            summary.load_from.map(int),
        ),
    }
}

fn fenced(session: &str) -> StoreError {
    StoreError::Fenced {
        session: session.to_owned(),
    }
}

fn busy(session: &str, lease: &LeaseRow) -> StoreError {
    StoreError::Busy {
        session: session.to_owned(),
        holder: lease.holder(),
        since: Timestamp(lease.since.unwrap_or_default()),
    }
}
