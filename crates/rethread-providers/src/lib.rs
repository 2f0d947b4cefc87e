//! HTTP clients of the language model APIs, and the script model.

mod script;

pub use script::{SCRIPT_API, Script, ScriptError, ScriptModel};
