//! The facade as a user sees it.

// The helpers of tests fail as tests do.
#![allow(clippy::panic, clippy::unwrap_used)]

mod refused;
mod tool;
