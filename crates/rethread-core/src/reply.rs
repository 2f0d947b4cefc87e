//! What a run ended with.

use crate::{Assistant, Content, Run, Session, Stop, StopReason, Usage};

/// The response a run ended with.
#[derive(Debug, Clone)]
pub struct Reply {
    session: Session,
    message: Assistant,
    usage: Usage,
}

impl Reply {
    pub(crate) fn new(session: Session, message: Assistant, usage: Usage) -> Self {
        Self {
            session,
            message,
            usage,
        }
    }

    /// The visible text.
    #[must_use]
    pub fn text(&self) -> String {
        self.message.content.to_text()
    }

    /// The whole response.
    #[must_use]
    pub fn message(&self) -> &Assistant {
        &self.message
    }

    /// How it stopped, if it did not end normally; then the session can be resumed, or
    /// [`resume_point`](Session::resume_point) says why not.
    #[must_use]
    pub fn stop(&self) -> Option<&Stop> {
        self.message
            .stop
            .as_ref()
            .filter(|stop| !stop.reason.is_normal())
    }

    /// Whether the response ended normally.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(
            self.message.stop_reason(),
            StopReason::EndTurn | StopReason::ToolUse
        )
    }

    /// The tokens the run took.
    #[must_use]
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Asks the next thing in the same session; nothing is loaded again.
    pub fn ask(&self, content: impl Into<Content>) -> Run {
        self.session.run(content)
    }
}
