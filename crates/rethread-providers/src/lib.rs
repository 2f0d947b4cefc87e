//! HTTP clients of the language model APIs, and the script model.

mod http;
mod script;
mod services;

pub use http::{HttpModel, Timeouts};
pub use script::{SCRIPT_API, Script, ScriptError, ScriptModel, script_tools};
pub use services::{Anthropic, Gemini, OpenAiChat, OpenAiResponses};
