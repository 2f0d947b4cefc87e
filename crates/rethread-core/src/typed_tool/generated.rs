//! What the code made by `#[tool]` uses. Not meant to be used by hand, and no stable interface.

use std::collections::HashMap;
use std::fmt;
use std::panic::resume_unwind;

use super::arguments::{decode, parameters};
pub use super::{IntoToolOutput, ToolArgument};
pub use crate::{
    BoxFuture, Json, Permission, Repeat, Text, Tool, ToolContext, ToolError, ToolOutput, ToolSpec,
};
pub use schemars;
pub use serde;

/// What is known of the arguments' type. That it can be read is asked for in one place, so that a
/// type that cannot is one error.
pub struct Arguments<A> {
    parameters: fn() -> Json,
    decode: fn(&Json) -> Result<A, ToolError>,
}

impl<A> fmt::Debug for Arguments<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments").finish_non_exhaustive()
    }
}

impl<A: serde::de::DeserializeOwned + schemars::JsonSchema> Arguments<A> {
    /// Of a type.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it must be const")]
    pub const fn new() -> Self {
        Self {
            parameters: parameters::<A>,
            decode: decode::<A>,
        }
    }
}

impl<A> Arguments<A> {
    /// Their schema.
    #[must_use]
    pub fn parameters(&self) -> Json {
        (self.parameters)()
    }

    /// Reads those of a call.
    ///
    /// # Errors
    /// When they do not fit the type.
    pub fn decode(&self, arguments: &Json) -> Result<A, ToolError> {
        (self.decode)(arguments)
    }
}

/// Asks for leave with a prompt made of pieces: a text and the argument that follows it.
#[must_use]
pub fn ask(pieces: &[(&str, Option<&str>)], arguments: &Json) -> Permission {
    let arguments: HashMap<String, Json> = arguments.decode().unwrap_or_default();
    let mut prompt = String::new();
    for (text, argument) in pieces {
        prompt.push_str(text);
        let Some(value) = argument.and_then(|name| arguments.get(name)) else {
            continue;
        };
        match Text::from_json(value.clone()) {
            Some(text) => prompt.push_str(&text.to_str()),
            None => prompt.push_str(value.get()),
        }
    }
    Permission::Ask { prompt }
}

/// Runs a plain function where it may block, if there is a Tokio runtime.
///
/// # Errors
/// When the function fails, or the runtime shuts down before it could start.
///
/// # Panics
/// When the function panics.
pub async fn blocking<R: IntoToolOutput>(
    function: impl FnOnce() -> R + Send + 'static,
) -> Result<ToolOutput, ToolError> {
    let work = move || function().into_tool_output();
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return work();
    };
    match runtime
        .spawn_blocking(work)
        .await
        .map_err(|e| e.try_into_panic())
    {
        Ok(output) => output,
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => Err(ToolError::new(
            "the program shut down before the tool started",
        )),
    }
}
