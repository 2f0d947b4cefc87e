//! Durable agent sessions without I/O: the words, the history, the resume table and the run.
//!
//! A session is an append-only list of [`Record`]s. Everything else (the conversation the model
//! sees, where it was interrupted, what a person is shown) is a function of that list.

mod error;
mod history;
mod message;
mod model;
mod record;
mod resume;
mod stop;
mod store;
mod tail;
mod text;
mod tool;

use std::future::Future;
use std::pin::Pin;

pub use error::{Error, ModelError, ModelErrorKind, StoreError, ToolError};
pub use history::{History, Problem};
pub use message::{
    Assistant, Body, Content, Message, Origin, Part, Role, ToolCall, ToolResult, Undecoded, Usage,
};
pub use model::{LeftOut, Model, ModelEvent, ModelStream, Prompt, PromptOptions};
pub use record::{
    Budget, CallApproved, CallKey, CallStarted, CallSuspended, Entry, Failure, Forked, Imported,
    LateResult, Mark, Outcome, Record, RunEnded, RunKind, RunStarted, SetAside, Setup, Step,
    Timestamp, Wait,
};
pub use resume::{
    CallState, Cause, NotResumable, ResumeKind, ResumePoint, Unanswered, resume_point,
};
pub use stop::{Stop, StopReason};
pub use store::{
    Commit, Committed, Draft, Head, Holder, Lease, LeaseInfo, ListQuery, Page, Row, Store, Summary,
    Writer,
};
pub use text::{Json, Text, has_lone_surrogate};
pub use tool::{Permission, Repeat, Tool, ToolContext, ToolOutput, ToolSpec};

/// A boxed future, as the object-safe traits of this crate return them.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
