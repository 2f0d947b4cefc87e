//! Sessions over the public interface, with a model and tools made for the purpose.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail so

mod doubles;
mod recovery;
