//! Sessions in one SQLite file. `docs/stores/sqlite.md` describes the file.

mod busy;
mod failure;
mod file;
mod read;
mod schema;
mod write;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::{
    BoxFuture, Commit, Committed, Draft, Head, Lease, ListQuery, Page, Row, Store, StoreError,
};

use crate::queue::Queue;
use file::{Access, File};
use write::{Job, WriteCommit};

/// Keeps sessions in one SQLite file. Clones share it; any number of handles and processes may use
/// the file at once.
///
/// Writes of tasks that run at the same time share a transaction, so that many sessions wait for
/// the disk together. Reads and writes are done by the task that asks for them, on its own thread,
/// and need no runtime: without contention a future is done when it is first polled. A write waits
/// for the disk (0.1 to 10 ms as a rule) and for other processes that write to the same file, at
/// most as long as [`SqliteOptions::busy_timeout`] says.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("sessions.db");
/// use rethread_core::{ListQuery, Store};
/// use rethread_stores::SqliteStore;
///
/// let store = SqliteStore::open(path).await?;
/// for head in store.list(&ListQuery::default()).await? {
///     println!("{}: {}", head.session, head.state);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SqliteStore {
    queue: Arc<Queue<File>>,
}

/// How a file of sessions is opened.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    synchronous: Synchronous,
    busy_timeout: Duration,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// When it is on the disk: it survives a power loss.
    #[default]
    Full,
    /// When the operating system has it: it survives the death of the process, but the last writes
    /// may be missing after a power loss. The file stays whole.
    Normal,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(10),
        }
    }
}

impl SqliteOptions {
    /// Full durability, and 10 s to wait for other processes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// When a write counts as done.
    #[must_use]
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// How long to wait for another process that writes to the same file, before it is an error.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Opens a file for reading and writing; makes it when it does not exist.
    ///
    /// # Errors
    /// See [`SqliteStore::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        File::open(path.as_ref(), self, Access::Create).map(SqliteStore::new)
    }

    /// Opens a file for reading and writing; makes nothing when it does not exist.
    ///
    /// # Errors
    /// See [`SqliteStore::open_existing`].
    pub fn open_existing(&self, path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        File::open(path.as_ref(), self, Access::Existing).map(SqliteStore::new)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// See [`SqliteStore::open_read_only`].
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        File::open(path.as_ref(), self, Access::ReadOnly).map(SqliteStore::new)
    }
}

impl SqliteStore {
    fn new(file: File) -> Self {
        Self {
            queue: Arc::new(Queue::new(file)),
        }
    }

    /// Opens a file for reading and writing; makes it when it does not exist.
    ///
    /// # Errors
    /// [`StoreError::NotAStore`] for a file of another program, [`StoreError::NewerFormat`] for one
    /// of a newer version (neither is changed), [`StoreError::Io`] when it cannot be opened.
    #[allow(
        clippy::unused_async,
        reason = "a store that has to connect waits here, and programs should change from one to \
                  another by changing one line"
    )]
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_blocking(path)
    }

    /// [`open`](Self::open) outside of async code.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_blocking(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        SqliteOptions::new().open(path)
    }

    /// Opens a file for reading and writing; makes nothing when it does not exist.
    ///
    /// # Errors
    /// [`StoreError::Io`] when there is no such file, otherwise as of [`open`](Self::open).
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        SqliteOptions::new().open_existing(path)
    }

    /// Opens a file for reading. No row is written, nothing is flushed, and a log that a killed
    /// process left behind stays as it is; every write is refused.
    ///
    /// SQLite may place its `-shm` and an empty `-wal` file beside the store, as for any reader.
    ///
    /// # Errors
    /// As of [`open_existing`](Self::open_existing).
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        SqliteOptions::new().open_read_only(path)
    }

    /// The file's path, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file().path()
    }

    fn file(&self) -> &File {
        self.queue.engine()
    }

    async fn write(&self, job: Job) -> Result<Committed, StoreError> {
        // On a runtime with one thread nobody else can come while a write goes on, so tasks that
        // are ready get the chance before.
        let linger =
            self.file().leases().are_many() && tokio::runtime::Handle::try_current().is_ok();
        self.queue.submit(job, linger).await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStore").field(&self.path()).finish()
    }
}

impl Store for SqliteStore {
    fn commit<'a>(&'a self, commit: Commit<'a>) -> BoxFuture<'a, Result<Committed, StoreError>> {
        Box::pin(self.write(Job::Commit(WriteCommit::new(&commit))))
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.write(Job::renew(lease)).await.map(drop) })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.write(Job::release(lease)).await.map(drop) })
    }

    fn head<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Head>, StoreError>> {
        Box::pin(async move { self.file().head(session) })
    }

    fn read<'a>(
        &'a self,
        session: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move { self.file().rows(session, page) })
    }

    fn set_draft<'a>(
        &'a self,
        lease: &'a Lease,
        draft: &'a Draft,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let job = Job::draft(lease, draft).map_err(|error| self.file().io("a draft", error))?;
            self.write(job).await.map(drop)
        })
    }

    fn draft<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Draft>, StoreError>> {
        Box::pin(async move { self.file().draft(session) })
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> BoxFuture<'a, Result<Vec<Head>, StoreError>> {
        Box::pin(async move { self.file().list(query) })
    }

    fn delete<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.write(Job::delete(session)).await.map(drop) })
    }
}
