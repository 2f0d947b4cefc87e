//! Suites that say whether an implementation keeps the promises of rethread's traits, and a
//! simulator that stops runs wherever they can be stopped.

mod simulator;
mod store_suite;

pub use simulator::{Fault, Invariant, Report, Simulator, Violation, simulate};
pub use store_suite::{StoreFixture, check_store};
