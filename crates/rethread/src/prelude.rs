//! What most programs need: `use rethread::prelude::*;`.

pub use crate::{
    Agent, Answer, Content, Error, Event, Message, Model, Reply, ResumeKind, ResumePoint, Run,
    Session, Store, Tool, ToolContext, ToolError, tool, tool_fn,
};
