//! Durable agent sessions without I/O: the words, the history, the resume table and the run.
//!
//! A session is an append-only list of [`Record`]s. Everything else (the conversation the model
//! sees, where it was interrupted, what a person is shown) is a function of that list.

mod agent;
mod conversation;
mod driver;
mod error;
mod event;
mod extension;
mod history;
mod machine;
mod memory;
mod message;
mod model;
mod projection;
mod record;
mod reply;
mod resume;
mod run;
mod schema;
mod session;
mod stop;
mod store;
mod tail;
mod text;
pub mod texts;
mod tool;
mod toolbox;
mod typed_tool;

use std::future::Future;
use std::pin::Pin;

pub use agent::{Agent, AgentBuilder};
pub use error::{Error, ModelError, ModelErrorKind, StoreError, ToolError};
pub use event::Event;
pub use extension::{Extension, RunContext};
pub use history::{History, Problem};
pub use memory::MemoryStore;
pub use message::{
    Assistant, Body, Content, Message, Origin, Part, Role, ToolCall, ToolResult, Undecoded, Usage,
};
pub use model::{LeftOut, Model, ModelEvent, ModelStream, Prompt, PromptOptions};
pub use projection::{Emit, Projection};
pub use record::{
    Budget, CallApproved, CallKey, CallStarted, CallSuspended, Entry, Failure, Forked, Imported,
    LateResult, Limits, Mark, Outcome, Record, RunEnded, RunKind, RunStarted, SetAside, Setup,
    Step, Timestamp, Wait,
};
pub use reply::Reply;
pub use resume::{
    CallState, Cause, NotResumable, ResumeKind, ResumePoint, Unanswered, resume_point,
};
pub use run::Run;
pub use session::{Answer, DryRun, Session, SessionWriter, Status, read_history, read_status};
pub use stop::{Stop, StopReason};
pub use store::{
    Commit, Committed, Draft, Head, Holder, Lease, LeaseInfo, ListQuery, Page, Row, Store, Summary,
    Writer,
};
pub use text::{Json, Text, has_lone_surrogate};
pub use tool::{Permission, Repeat, Tool, ToolContext, ToolOutput, ToolSpec};
#[doc(hidden)]
pub use typed_tool::generated as __private;
pub use typed_tool::{AsJson, FnTool, IntoToolOutput, ToolArgument, tool_fn};

/// A boxed future, as the object-safe traits of this crate return them.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
