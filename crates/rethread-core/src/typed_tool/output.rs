//! What a function may give back as a tool.

use std::borrow::Cow;
use std::fmt::Display;

use serde::Serialize;

use crate::{Content, Json, Part, Text, ToolError, ToolOutput};

/// What a function may give back to become a tool: text, numbers, [`Content`], [`ToolOutput`],
/// nothing (the model is told `done`), raw [`Json`], anything that can be serialized inside
/// [`AsJson`], or a `Result` of one of these whose error is `Display`: its text goes to the model.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing a tool can give back",
    label = "this does not become a tool's result",
    note = "give back a `String`, `()`, a number, a `Content`, a `ToolOutput`, or a `Result` of one of them",
    note = "wrap a value that implements `serde::Serialize`: `AsJson(value)`"
)]
pub trait IntoToolOutput {
    /// The output, or the error the model is told.
    ///
    /// # Errors
    /// When the function failed, or its value cannot be serialized.
    fn into_tool_output(self) -> Result<ToolOutput, ToolError>;
}

/// A value given back as its JSON text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsJson<T>(
    /// The value.
    pub T,
);

impl<T: Serialize> IntoToolOutput for AsJson<T> {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        match Json::encode(&self.0) {
            Ok(json) => json.into_tool_output(),
            Err(error) => Err(ToolError::new(format!(
                "the tool has run, but its result cannot be written as JSON: {error}"
            ))),
        }
    }
}

impl<T: IntoToolOutput, E: Display> IntoToolOutput for Result<T, E> {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        match self {
            Ok(value) => value.into_tool_output(),
            // With `#` errors that know their causes tell them too.
            Err(error) => Err(ToolError::new(format!("{error:#}"))),
        }
    }
}

// The notes above list what may be given back, so the compiler need not.
#[diagnostic::do_not_recommend]
impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self)
    }
}

#[diagnostic::do_not_recommend]
impl IntoToolOutput for Content {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::Content(self))
    }
}

#[diagnostic::do_not_recommend]
impl IntoToolOutput for () {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        "done".into_tool_output()
    }
}

macro_rules! content {
    ($($type:ty: $value:ident => $content:expr;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl IntoToolOutput for $type {
            fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
                let $value = self;
                Content::from($content).into_tool_output()
            }
        }
    )*};
}

content! {
    String: text => text;
    &str: text => text;
    Cow<'_, str>: text => &*text;
    Text: text => text;
    Vec<Part>: parts => parts;
    Json: json => json.get();
}

macro_rules! scalars {
    ($($type:ty)*) => {content! { $($type: value => value.to_string();)* }};
}

scalars! { bool char f32 f64 i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize }
