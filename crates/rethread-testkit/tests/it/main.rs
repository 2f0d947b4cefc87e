//! The suites accept what keeps the promises and notice what does not.

mod simulator;
mod stores;
