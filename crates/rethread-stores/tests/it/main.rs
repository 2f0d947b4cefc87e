//! The stores keep their promises, also among processes and on damaged files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod child;
mod sqlite;
mod sqlite_file;
mod sqlite_processes;
