//! Where sessions are kept, a feature each: `sqlite` (the default).
//!
//! Every store keeps the promises of [`Store`](rethread_core::Store), which `check_store` of
//! `rethread-testkit` tests, and has a page under `docs/stores` that says how to read it without
//! this crate.

mod holder;
#[cfg(feature = "sqlite")]
mod leases;
#[cfg(feature = "sqlite")]
mod queue;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use holder::{is_known_dead, this_process};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOptions, SqliteStore, Synchronous};
