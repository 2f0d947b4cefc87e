//! Errors, one type per boundary.

use std::time::Duration;

use crate::{Failure, Holder, NotResumable, ResumePoint, Timestamp};

/// A store failed or refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another live writer holds the session.
    #[error(
        "session `{session}` is in use by {holder}; wait until it is done, or fork the session"
    )]
    Busy {
        /// The session.
        session: String,
        /// Who holds it.
        holder: Holder,
        /// Since when.
        since: Timestamp,
    },
    /// The session has moved on since it was read.
    #[error("session `{session}` has moved on: its last record is {found}, not {expected}")]
    Conflict {
        /// The session.
        session: String,
        /// What the writer believed.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// The lease was taken over by another writer.
    #[error("session `{session}` was taken over by another writer; nothing was written")]
    Fenced {
        /// The session.
        session: String,
    },
    /// There is no such session.
    #[error("there is no session `{session}` in {store}")]
    NotFound {
        /// The session.
        session: String,
        /// The store.
        store: String,
    },
    /// The store was written by a newer version.
    #[error("{store} has format {found}, this version reads up to {known}; use a newer rethread")]
    NewerFormat {
        /// The store.
        store: String,
        /// Its format.
        found: u64,
        /// The newest known.
        known: u64,
    },
    /// The store belongs to another program or is damaged as a whole.
    #[error("{store} is not a rethread store: {reason}")]
    NotAStore {
        /// The store.
        store: String,
        /// Why not.
        reason: String,
    },
    /// Reading or writing failed.
    #[error("{store}: {action} failed")]
    Io {
        /// The store.
        store: String,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A record cannot be read.
    #[error("record {seq} of session `{session}` cannot be read")]
    Damaged {
        /// The session.
        session: String,
        /// The record.
        seq: u64,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// What kind of failure a model call met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The connection broke or timed out before any output.
    Interrupted,
    /// Too many requests.
    RateLimited,
    /// The service is overloaded.
    Overloaded,
    /// The service failed.
    Server,
    /// The account has nothing left.
    Quota,
    /// The request does not fit into the context window.
    ContextFull,
    /// The model or a filter declined the request.
    Refusal,
    /// The key is missing or wrong.
    Auth,
    /// The key may not do this.
    Permission,
    /// There is no such model or path.
    NotFound,
    /// The service refuses the history; [`ModelError::rule`] says by which rule.
    HistoryRejected,
    /// The request has too many bytes.
    TooLarge,
    /// The request is wrong in another way.
    InvalidRequest,
    /// What answered does not speak the API.
    NotAnApi,
    /// Anything else.
    Other,
}

impl ModelErrorKind {
    /// The name in `--json` output and in stored failures.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Quota => "quota",
            Self::ContextFull => "context_full",
            Self::Refusal => "refusal",
            Self::Auth => "auth",
            Self::Permission => "permission",
            Self::NotFound => "not_found",
            Self::HistoryRejected => "history_rejected",
            Self::TooLarge => "too_large",
            Self::InvalidRequest => "invalid_request",
            Self::NotAnApi => "not_an_api",
            Self::Other => "other",
        }
    }
}

/// A model call failed before its first output. A response that breaks off after that is no error:
/// it is stored with the stop `interrupted`.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ModelError {
    /// The class of the failure.
    pub kind: ModelErrorKind,
    /// The provider's own message, or one that says what happened.
    pub message: String,
    /// The provider's own code.
    pub code: Option<String>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// For [`ModelErrorKind::HistoryRejected`]: the rule.
    pub rule: Option<String>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// How long the service asks to wait.
    pub retry_after: Option<Duration>,
    /// What caused it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ModelError {
    /// An error of a kind. Retryable if the kind is one that passes by itself.
    #[must_use]
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        let retryable = matches!(
            kind,
            ModelErrorKind::Interrupted
                | ModelErrorKind::RateLimited
                | ModelErrorKind::Overloaded
                | ModelErrorKind::Server
        );
        Self {
            kind,
            message: message.into(),
            code: None,
            status: None,
            rule: None,
            retryable,
            retry_after: None,
            source: None,
        }
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// How long the service asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What a run's end keeps of it.
    #[must_use]
    pub fn to_failure(&self) -> Failure {
        Failure {
            kind: self.kind.as_str().to_owned(),
            code: self.code.clone(),
            message: self.message.clone(),
        }
    }
}

/// A tool failed. The message goes to the model, so it should say what the model can do about it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// What the model is told.
    pub message: String,
}

impl ToolError {
    /// An error with what the model is told.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

/// A run did not reach an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model call failed.
    #[error("the model call failed: {0}")]
    Model(#[source] ModelError),
    /// There is nothing to resume.
    #[error("nothing to resume: {0}")]
    NotResumable(#[from] NotResumable),
    /// Calls wait for an answer from outside.
    #[error("the session waits for an answer: {}", .0.description())]
    Suspended(Box<ResumePoint>),
    /// No call of the session has this id.
    #[error("session `{session}` has no call `{call}`")]
    UnknownCall {
        /// The session.
        session: String,
        /// The id.
        call: String,
    },
    /// The call has its answer.
    #[error("call `{call}` of session `{session}` was answered before")]
    AlreadyAnswered {
        /// The session.
        session: String,
        /// The id.
        call: String,
    },
    /// A call does not wait for a person's leave, so it can be neither approved nor denied.
    #[error(
        "call `{call}` of session `{session}` does not wait for leave to start; answer it with its result"
    )]
    NotWaiting {
        /// The session.
        session: String,
        /// The call's id.
        call: String,
    },
    /// The session exists.
    #[error("session `{session}` exists already; choose another id")]
    Exists {
        /// The session.
        session: String,
    },
    /// The step limit is reached.
    #[error("the step limit of {limit} is reached; an explicit resume grants a new allowance")]
    StepLimit {
        /// The limit.
        limit: u32,
    },
    /// The token limit is reached.
    #[error("the token limit of {limit} is reached; an explicit resume grants a new allowance")]
    TokenLimit {
        /// The limit.
        limit: u64,
    },
    /// The caller cancelled.
    #[error("the run was cancelled; the session can be resumed")]
    Cancelled,
    /// An extension's hook failed.
    #[error("extension `{name}` failed: {message}")]
    Extension {
        /// The extension.
        name: String,
        /// Why.
        message: String,
    },
    /// The agent or a request to it is not set up right.
    #[error("{0}")]
    Setup(String),
}

impl Error {
    /// Whether the run broke off in a way a resume can pick up.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        match self {
            Self::Model(error) => error.is_retryable(),
            Self::Cancelled | Self::StepLimit { .. } | Self::TokenLimit { .. } => true,
            _ => false,
        }
    }

    /// Whether doing the same again later may help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Model(error) => error.is_retryable(),
            Self::Store(StoreError::Busy { .. } | StoreError::Conflict { .. }) => true,
            _ => false,
        }
    }

    /// What a run's end keeps of it.
    #[must_use]
    pub fn to_failure(&self) -> Failure {
        let kind = match self {
            Self::Model(error) => return error.to_failure(),
            Self::Store(_) => "store",
            Self::NotResumable(_) => "not_resumable",
            Self::Suspended(_) => "suspended",
            Self::StepLimit { .. } => "step_limit",
            Self::TokenLimit { .. } => "token_limit",
            Self::Cancelled => "cancelled",
            Self::Extension { .. } => "extension",
            _ => "other",
        };
        Failure {
            kind: kind.to_owned(),
            code: None,
            message: self.to_string(),
        }
    }

    /// How long the service asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Model(error) => error.retry_after(),
            _ => None,
        }
    }
}
