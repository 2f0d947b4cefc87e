//! Where sessions are kept.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{BoxFuture, Json, StoreError, Timestamp};

/// Keeps sessions: append-only lists of records, the right to append, and a summary of each.
///
/// What a store promises:
/// - [`commit`](Store::commit) is atomic: all of it is durable when it returns, or none of it is.
/// - It refuses when the position is not what the writer believes ([`StoreError::Conflict`]), when
///   the lease was taken over ([`StoreError::Fenced`]) and when another live writer holds the
///   session ([`StoreError::Busy`]); then nothing was written.
/// - Rows come back byte for byte.
/// - Reading a few rows at the end, and the head, costs the same at any length.
///
/// `check_store` in `rethread-testkit` tests all of this.
pub trait Store: Send + Sync + fmt::Debug {
    /// Takes, keeps or gives back the lease and appends rows, in one step.
    fn commit<'a>(&'a self, commit: Commit<'a>) -> BoxFuture<'a, Result<Committed, StoreError>>;

    /// Makes a lease last its full time again.
    fn renew<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Gives a lease back without appending. No error when it is no longer held.
    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The session's summary row; `None` for an unknown session.
    fn head<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Head>, StoreError>>;

    /// Rows of a session in the order asked for. May give fewer than asked for when there are no
    /// more, or when a page would be too large; never none when there is one.
    fn read<'a>(
        &'a self,
        session: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;

    /// Keeps the draft of the response that is streaming, in place of the one before. Survives the
    /// death of the process; need not survive a power loss.
    fn set_draft<'a>(
        &'a self,
        lease: &'a Lease,
        draft: &'a Draft,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The draft, if a response was streaming when the last writer stopped.
    fn draft<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Draft>, StoreError>>;

    /// Summary rows, newest first.
    fn list<'a>(&'a self, query: &'a ListQuery) -> BoxFuture<'a, Result<Vec<Head>, StoreError>>;

    /// Deletes a session that no live writer holds. No error for an unknown one.
    fn delete<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// What to append, and with what right.
#[derive(Debug)]
pub struct Commit<'a> {
    /// The session.
    pub session: &'a str,
    /// The right to append.
    pub writer: Writer<'a>,
    /// The sequence number of the last record the writer knows; 0 for an empty session. The rows
    /// take the numbers after it.
    pub after: u64,
    /// Encoded records, see [`Record::encode`](crate::Record::encode).
    pub rows: &'a [Vec<u8>],
    /// What the summary row says from now on; `None` leaves it.
    pub summary: Option<&'a Summary>,
    /// Whether the draft is dropped.
    pub drop_draft: bool,
    /// Whether the lease is given back.
    pub release: bool,
}

/// The right to append.
#[derive(Debug, Clone, Copy)]
pub enum Writer<'a> {
    /// Takes the lease. Refused while another live writer holds it.
    Claim {
        /// How long the lease lasts when it is not renewed.
        ttl: Duration,
        /// Whether a session that does not exist is made; otherwise it is an error.
        create: bool,
        /// Takes the lease even from a live writer, who is fenced out.
        force: bool,
    },
    /// Holds it.
    Lease(&'a Lease),
}

/// What a commit did.
#[derive(Debug)]
pub struct Committed {
    /// The lease that was taken; `None` when the writer had one already or gave it back.
    pub lease: Option<Lease>,
    /// The sequence number of the last record.
    pub last: u64,
}

/// The right to append to a session. Fences grow: of two leases of a session the one with the
/// greater number is in force, and the other can no longer write.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The session.
    pub session: Arc<str>,
    /// The fence.
    pub fence: u64,
    /// How long it lasts when it is not renewed.
    pub ttl: Duration,
    /// Alive while any clone of the lease is; a store can tell from it that the run is over.
    pub alive: Arc<()>,
}

/// A stored record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its sequence number.
    pub seq: u64,
    /// The encoded record.
    pub body: Vec<u8>,
}

/// Which rows to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// Rows after a sequence number, oldest first.
    After {
        /// The last row that is not wanted; 0 for the beginning.
        seq: u64,
        /// At most so many.
        limit: usize,
    },
    /// Rows before a sequence number, newest first.
    Before {
        /// The first row that is not wanted; `u64::MAX` for the end.
        seq: u64,
        /// At most so many.
        limit: usize,
    },
}

/// What a session's summary row says, written with every commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// The resume kind or the reason against one, such as `recover_tools` or `completed`: what a
    /// resume would find if the run stopped here.
    pub state: String,
    /// A title; `None` leaves the one there is.
    pub title: Option<String>,
    /// The record from which the conversation is loaded: the last summary. `None` leaves it.
    pub load_from: Option<u64>,
    /// How many of the rows are messages.
    pub messages: u64,
}

/// A session's summary row.
#[derive(Debug, Clone)]
pub struct Head {
    /// The session.
    pub session: String,
    /// The sequence number of its last record; 0 when there is none.
    pub last: u64,
    /// The record from which the conversation is loaded; 0 for the beginning.
    pub load_from: u64,
    /// How many records are messages.
    pub messages: u64,
    /// See [`Summary::state`].
    pub state: String,
    /// The title.
    pub title: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
    /// The lease that was last taken and not given back.
    pub lease: Option<LeaseInfo>,
}

impl Head {
    /// Whether a live writer holds the session.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.live)
    }
}

/// A lease as others see it.
#[derive(Debug, Clone)]
pub struct LeaseInfo {
    /// The fence.
    pub fence: u64,
    /// Who holds it.
    pub holder: Holder,
    /// Since when.
    pub since: Timestamp,
    /// Until when, unless it is renewed.
    pub until: Timestamp,
    /// Whether it is in force: its time has not run out and its holder is not known to be dead.
    pub live: bool,
}

/// Who holds a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The machine's name.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// What tells this process from others with its number, on this and other machines.
    #[serde(default)]
    pub instance: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)
    }
}

/// The text of a response still streaming.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// When it was last written.
    pub at: Timestamp,
    /// The visible text so far.
    pub text: String,
    /// What the provider can continue the response with, such as a response id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Json>,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Only sessions whose id begins so.
    pub prefix: Option<String>,
    /// At most so many; `None` for all.
    pub limit: Option<usize>,
}
