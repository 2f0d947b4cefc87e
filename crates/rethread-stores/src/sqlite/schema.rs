//! The format of the file: how it is recognised, made and brought up to date.

use rethread_core::StoreError;
use rusqlite::{Connection, Result};

/// `PRAGMA application_id` of a store: "rthd".
const APPLICATION_ID: i64 = 0x7274_6864;

/// What brings a file from one format to the next; the first makes it. `PRAGMA user_version` is
/// how many of them a file has seen. Entries are only ever added.
///
/// A record's key is its session's id in the upper 32 bits and its sequence number in the lower:
/// rows of a session lie together, and appending costs less than half of what it does with a key
/// of two columns.
const FORMATS: &[&str] = &["
    CREATE TABLE sessions(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        last INTEGER NOT NULL DEFAULT 0,
        load_from INTEGER NOT NULL DEFAULT 0,
        messages INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL DEFAULT 'empty',
        title TEXT,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        fence INTEGER NOT NULL DEFAULT 0,
        holder TEXT,
        lease_since INTEGER,
        lease_until INTEGER);
    CREATE TABLE records(key INTEGER PRIMARY KEY, body NOT NULL);
    CREATE TABLE drafts(session INTEGER PRIMARY KEY, body TEXT NOT NULL);
"];

/// The format this version writes.
pub(super) const KNOWN: i64 = FORMATS.len() as i64;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// There is nothing in it.
    Empty,
    /// A store of this format.
    Store(i64),
    /// Something else.
    Foreign(&'static str),
}

/// Looks what a file is; writes nothing.
pub(super) fn recognise(connection: &Connection) -> Result<Format> {
    // Enough for every file that is not being made just now.
    if let (APPLICATION_ID, version @ 1..) = numbers(connection)? {
        return Ok(Format::Store(version));
    }
    let transaction = connection.unchecked_transaction()?;
    recognise_within(&transaction)
}

fn recognise_within(transaction: &Connection) -> Result<Format> {
    let numbers = numbers(transaction)?;
    let objects: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (numbers, objects) {
        ((APPLICATION_ID, version @ 1..), _) => Format::Store(version),
        ((0, 0), 0) => Format::Empty,
        ((0 | APPLICATION_ID, _), _) => Format::Foreign("it has tables of another program"),
        _ => Format::Foreign("it belongs to another program"),
    })
}

fn numbers(connection: &Connection) -> Result<(i64, i64)> {
    let number = |sql| connection.query_row(sql, [], |row| row.get(0));
    Ok((
        number("PRAGMA application_id")?,
        number("PRAGMA user_version")?,
    ))
}

/// Refuses what is no store or a newer one.
pub(super) fn check(store: &str, format: Format) -> std::result::Result<(), StoreError> {
    match format {
        Format::Foreign(reason) => Err(StoreError::NotAStore {
            store: store.to_owned(),
            reason: reason.to_owned(),
        }),
        Format::Store(found) if found > KNOWN => Err(StoreError::NewerFormat {
            store: store.to_owned(),
            found: found.unsigned_abs(),
            known: KNOWN.unsigned_abs(),
        }),
        Format::Empty | Format::Store(_) => Ok(()),
    }
}

/// Brings a file to the newest format, unless another process did, or made something else of it,
/// meanwhile; gives what it is then.
pub(super) fn migrate(connection: &Connection) -> Result<Format> {
    // Exclusive, so that a file that is not yet in WAL mode is locked against readers at once and
    // not only at the commit, which could then have to wait.
    connection.execute_batch("BEGIN EXCLUSIVE")?;
    let result = steps(connection).and_then(|format| {
        connection.execute_batch("COMMIT")?;
        Ok(format)
    });
    if result.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    result
}

fn steps(transaction: &Connection) -> Result<Format> {
    let seen = match recognise_within(transaction)? {
        Format::Empty => 0,
        Format::Store(version) if version < KNOWN => version,
        other => return Ok(other),
    };
    for format in FORMATS.iter().skip(usize::try_from(seen).unwrap_or(0)) {
        transaction.execute_batch(format)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", KNOWN)?;
    Ok(Format::Store(KNOWN))
}
