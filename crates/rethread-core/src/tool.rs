//! The tools a model may ask for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{BoxFuture, CallKey, Content, Json, ToolError, Wait};

/// A tool a model may ask for.
pub trait Tool: Send + Sync {
    /// What the model is told, and how the tool may be run.
    fn spec(&self) -> &ToolSpec;

    /// Whether a call may start at once or must wait for a person's leave. Pure: it is asked before
    /// the call is recorded as started, and again after a crash.
    fn permission(&self, arguments: &Json) -> Permission {
        let _ = arguments;
        Permission::Start
    }

    /// Does the work. `arguments` is a JSON object that fits [`ToolSpec::parameters`].
    fn call<'a>(
        &'a self,
        context: ToolContext,
        arguments: Json,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
}

/// What a model is told about a tool, and how it may be run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// A JSON schema of its arguments, an object.
    pub parameters: Json,
    /// Whether it may run beside other calls of the same response.
    pub parallel: bool,
    /// Whether it may be run again on its own after an interruption.
    pub repeat: Repeat,
    /// How long a call may take; after that it counts as possibly still running.
    pub timeout: Option<Duration>,
}

impl ToolSpec {
    /// A tool that runs in parallel and is never repeated on its own.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Json) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            parallel: true,
            repeat: Repeat::Never,
            timeout: None,
        }
    }

    /// Runs alone: after the calls before it, before those after it.
    #[must_use]
    pub fn serial(mut self) -> Self {
        self.parallel = false;
        self
    }

    /// May be run again on its own after an interruption.
    #[must_use]
    pub fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }

    /// Limits how long a call may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// Whether a tool may be run again on its own when a run was interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeat {
    /// Never: the model is told the call's state and decides.
    #[default]
    Never,
    /// If the call had not started.
    IfNotStarted,
    /// Even if it may have run: its effect is the same however often it runs.
    Always,
}

/// Whether a call may start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permission {
    /// At once.
    Start,
    /// Only after a person's leave.
    Ask {
        /// What to ask.
        prompt: String,
    },
}

/// What a tool gives back.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolOutput {
    /// A result.
    Content(Content),
    /// The work goes on elsewhere: the call is suspended until it is answered.
    Deferred {
        /// What it waits for.
        wait: Wait,
        /// What to tell whoever answers.
        prompt: Option<String>,
    },
}

impl<T: Into<Content>> From<T> for ToolOutput {
    fn from(content: T) -> Self {
        Self::Content(content.into())
    }
}

/// What a tool is told about its call.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The session.
    pub session: Arc<str>,
    /// The provider's id of the call.
    pub call_id: String,
    /// The call.
    pub call: CallKey,
    /// The fence of the lease under which the call started. A system that remembers the greatest
    /// one it saw can refuse a writer that was replaced.
    pub fence: u64,
    /// Ends when the run is cancelled or the call's time is up.
    pub cancellation: CancellationToken,
    pub(crate) progress: Option<Arc<dyn Fn(String) + Send + Sync>>,
}

impl ToolContext {
    /// The same on every attempt of this call, for systems that take an idempotency key.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        self.call.idempotency_key(&self.session)
    }

    /// Tells watchers how far the work is. Not stored.
    pub fn progress(&self, message: impl Into<String>) {
        if let Some(progress) = &self.progress {
            progress(message.into());
        }
    }

    /// A context outside any run, for testing a tool by itself.
    #[must_use]
    pub fn detached(call_id: impl Into<String>) -> Self {
        Self {
            session: Arc::from("detached"),
            call_id: call_id.into(),
            call: CallKey {
                message: 0,
                index: 0,
            },
            fence: 0,
            cancellation: CancellationToken::new(),
            progress: None,
        }
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("session", &self.session)
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}
