//! The program from outside: what it prints, how it ends, and what it survives.

// A helper that panics fails its test, as it should.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod answers;
mod bad_input;
mod crash;
mod demo;
mod help;
mod histories;
mod http;
mod kill;
mod look;
mod program;
mod runs;
mod tools;
mod wire;
