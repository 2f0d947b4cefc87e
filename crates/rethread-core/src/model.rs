//! The model a session talks to.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;

use crate::{Assistant, Json, Message, ModelError, Origin, ToolSpec};

/// A language model behind some API.
pub trait Model: Send + Sync + fmt::Debug {
    /// The api, provider and model. Opaque items go back only to an equal origin.
    fn origin(&self) -> &Origin;

    /// Begins a conversation with this model. Messages are pushed in order as they are read from
    /// the store or made, so a request is built while the history loads and never encoded twice.
    fn prompt(&self, options: &PromptOptions) -> Box<dyn Prompt>;
}

/// A conversation as one model is sent it.
pub trait Prompt: Send + Sync {
    /// Adds a message. The run guarantees the order: every call of a response is answered, once,
    /// directly after it.
    fn push(&mut self, message: &Message);

    /// Calls the model with all that was pushed. The stream ends with [`ModelEvent::Done`] or with
    /// an error; an error after the first output counts as an interrupted response.
    fn send(&mut self) -> ModelStream;

    /// What had to be left out since this was last asked, such as another provider's opaque items.
    fn left_out(&mut self) -> Vec<LeftOut> {
        Vec::new()
    }
}

/// What a request carries besides its messages.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PromptOptions {
    /// The instructions.
    pub instructions: Option<Arc<str>>,
    /// The tools.
    pub tools: Arc<[ToolSpec]>,
    /// The most tokens of a response; `None` for the adapter's default.
    pub max_output: Option<u32>,
    /// A JSON schema the answer must fit, where the API takes one.
    pub response_schema: Option<Json>,
}

impl PromptOptions {
    /// Options with instructions and tools.
    #[must_use]
    pub fn new(instructions: Option<Arc<str>>, tools: Arc<[ToolSpec]>) -> Self {
        Self {
            instructions,
            tools,
            ..Self::default()
        }
    }
}

/// A response as it comes.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// A piece of a response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// More of the visible text.
    Text(String),
    /// More of the readable reasoning.
    Reasoning(String),
    /// The model begins to ask for a tool.
    ToolCall {
        /// The place of the call in the response, from 0.
        index: usize,
        /// The call's id.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's argument text.
    ToolCallDelta {
        /// The place of the call in the response, from 0.
        index: usize,
        /// The text.
        text: String,
    },
    /// What the provider can continue this response with if it breaks off here.
    Handle(Json),
    /// The whole response; nothing comes after it.
    Done(Box<Assistant>),
}

/// Something a request could not carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// What it was, such as `thinking` or `reasoning`.
    pub item: String,
    /// Why it could not go.
    pub reason: String,
}
