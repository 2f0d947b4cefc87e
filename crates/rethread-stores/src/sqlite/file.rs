//! The open file: its connections, and how they are made.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rethread_core::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::busy::patiently;
use super::failure::failure;
use super::schema::{self, Format};
use super::write::Writer;
use super::{SqliteOptions, Synchronous};
use crate::leases::Leases;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Create,
    Existing,
    ReadOnly,
}

/// An open file.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    /// The path in messages.
    name: String,
    busy_timeout: Duration,
    leases: Arc<Leases>,
    /// Used by the leader of the queue, and by readers while nobody writes.
    pub(super) writer: Option<Mutex<Writer>>,
    /// Opened by the first who reads while another writes.
    reader: Mutex<Option<Connection>>,
}

impl File {
    pub(super) fn open(
        path: &Path,
        options: &SqliteOptions,
        access: Access,
    ) -> Result<Self, StoreError> {
        let mut file = Self {
            path: path.to_owned(),
            name: path.display().to_string(),
            busy_timeout: options.busy_timeout,
            leases: Arc::default(),
            writer: None,
            reader: Mutex::new(None),
        };
        if path.as_os_str().is_empty() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "the path is empty");
            return Err(file.io("opening", error));
        }
        if access == Access::ReadOnly {
            file.reader = Mutex::new(Some(file.open_to_read()?));
        } else {
            let connection = file.open_to_write(access)?;
            let full = options.synchronous == Synchronous::Full;
            file.writer = Some(Mutex::new(Writer::new(connection, full)));
        }
        file.leases = Leases::of(path);
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn leases(&self) -> &Leases {
        &self.leases
    }

    pub(super) fn busy_timeout(&self) -> Duration {
        self.busy_timeout
    }

    pub(super) fn io(
        &self,
        action: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> StoreError {
        StoreError::Io {
            store: self.name.clone(),
            action,
            source: source.into(),
        }
    }

    pub(super) fn failure(&self, action: &'static str, error: rusqlite::Error) -> StoreError {
        failure(&self.name, action, error)
    }

    /// Reads, on the connection that writes if nobody does, or else on one of its own.
    pub(super) fn reading<T>(
        &self,
        read: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let result = if let Some(writer) = &self.writer
            && let Ok(writer) = writer.try_lock()
        {
            patiently(self.busy_timeout, || read(writer.connection()))
        } else {
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            let reader = match &mut *reader {
                Some(reader) => reader,
                none => none.insert(self.open_to_read()?),
            };
            patiently(self.busy_timeout, || read(reader))
        };
        result.map_err(|error| self.failure("reading", error))
    }

    fn open_to_write(&self, access: Access) -> Result<Connection, StoreError> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        if access == Access::Create {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        } else {
            self.must_exist()?;
        }
        let log_is_left = self.has_log();
        let opening = |error| self.failure("opening", error);
        let (connection, format) = self
            .connect(&plain(&self.path), flags)
            .map_err(|error| self.explain(error))?;
        if let Err(error) = schema::check(&self.name, format) {
            // Closing as the last user would otherwise write the log into the file.
            if log_is_left {
                connection
                    .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
                    .map_err(opening)?;
            }
            return Err(error);
        }
        if connection.is_readonly(rusqlite::MAIN_DB).map_err(opening)? {
            let help = "the file may not be written; change its permissions";
            let error = io::Error::new(io::ErrorKind::PermissionDenied, help);
            return Err(self.io("opening", error));
        }
        if format != Format::Store(schema::KNOWN) {
            let making = |error| self.failure("making the tables", error);
            let format = patiently(self.busy_timeout, || schema::migrate(&connection));
            schema::check(&self.name, format.map_err(making)?)?;
        }
        self.configure(&connection).map_err(opening)?;
        Ok(connection)
    }

    fn configure(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mode = |sql| {
            patiently(self.busy_timeout, || {
                connection.query_row(sql, [], |row| row.get::<_, String>(0))
            })
        };
        if mode("PRAGMA journal_mode")? != "wal" {
            // Where it cannot be (a network file system), SQLite stays with a journal, which is
            // slower and as safe.
            mode("PRAGMA journal_mode = WAL")?;
        }
        // Gives back what a burst made the log grow to.
        connection.pragma_update(None, "journal_size_limit", 64 << 20)
    }

    fn open_to_read(&self) -> Result<Connection, StoreError> {
        self.must_exist()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let opened = match self.connect(&plain(&self.path), flags) {
            Err(error) if is_not_writable(&error) && self.has_log() => {
                let help = "the log beside it cannot be read because the folder may not be \
                            written; copy the file and its -wal file to another folder";
                return Err(self.io("opening", help));
            }
            // A reader, too, needs SQLite's `-shm` file. Where it can neither be found nor made,
            // nobody writes; and without a log all there is stands in the file.
            Err(error) if is_not_writable(&error) => {
                self.connect(&immutable(&self.path), flags | OpenFlags::SQLITE_OPEN_URI)
            }
            opened => opened,
        };
        let (connection, format) = opened.map_err(|error| self.explain(error))?;
        schema::check(&self.name, format)?;
        if format == Format::Empty {
            return Err(StoreError::NotAStore {
                store: self.name.clone(),
                reason: "it is empty".to_owned(),
            });
        }
        Ok(connection)
    }

    fn connect(&self, path: &Path, flags: OpenFlags) -> rusqlite::Result<(Connection, Format)> {
        // A connection is never used by two threads at once, so it needs no mutex of its own.
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        // Waiting is done by `patiently`.
        connection.busy_timeout(Duration::ZERO)?;
        let format = patiently(self.busy_timeout, || schema::recognise(&connection))?;
        Ok((connection, format))
    }

    fn must_exist(&self) -> Result<(), StoreError> {
        match fs::metadata(&self.path) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.io("opening", error)),
        }
    }

    /// Whether a log with content lies beside the file.
    fn has_log(&self) -> bool {
        let mut log = OsString::from(&self.path);
        log.push("-wal");
        fs::metadata(log).is_ok_and(|log| log.len() > 0)
    }

    fn explain(&self, error: rusqlite::Error) -> StoreError {
        if error.sqlite_error_code() != Some(ErrorCode::CannotOpen) {
            return self.failure("opening", error);
        }
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            let missing = format!("the folder {} does not exist", folder.display());
            return self.io("opening", io::Error::new(io::ErrorKind::NotFound, missing));
        }
        let help = "check that it is a file, and that it and its folder may be written";
        self.io(
            "opening",
            io::Error::new(io::ErrorKind::PermissionDenied, help),
        )
    }
}

fn is_not_writable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
    )
}

/// A path that SQLite takes for nothing but a path.
fn plain(path: &Path) -> PathBuf {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.starts_with(b":") || bytes.starts_with(b"file:") {
        Path::new(".").join(path)
    } else {
        path.to_owned()
    }
}

/// The URI of a file that nobody changes, see <https://sqlite.org/uri.html#uriimmutable>.
fn immutable(path: &Path) -> PathBuf {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri.into()
}
