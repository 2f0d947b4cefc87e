//! Code that takes part in runs.

use std::sync::Arc;

use crate::{BoxFuture, Event, Failure, Outcome, RunKind, Tool};

/// Code that takes part in the runs of an agent. Every method has a default that does nothing.
pub trait Extension: Send + Sync {
    /// The name, for errors.
    fn name(&self) -> &str;

    /// Tools it brings.
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    /// Called before the first record of a run is written, for a resume as for any run. An error
    /// stops the run before anything is written.
    fn before_run<'a>(&'a self, run: &'a RunContext) -> BoxFuture<'a, Result<(), String>> {
        let _ = run;
        Box::pin(async { Ok(()) })
    }

    /// Called for every event, in order. Should return quickly: the run waits.
    fn on_event(&self, run: &RunContext, event: &Event) {
        let _ = (run, event);
    }

    /// Called when the run is over, however it ended.
    fn after_run<'a>(
        &'a self,
        run: &'a RunContext,
        outcome: Outcome,
        error: Option<&'a Failure>,
    ) -> BoxFuture<'a, ()> {
        let _ = (run, outcome, error);
        Box::pin(async {})
    }
}

/// What an extension is told about a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunContext {
    /// The session.
    pub session: Arc<str>,
    /// The run's id.
    pub run: String,
    /// What began it; a resume has no new message.
    pub kind: RunKind,
}
