//! The attribute `#[tool]` of rethread. Use it as `rethread::tool`, which shows it at work.

mod expand;
mod function;
mod options;

use proc_macro::TokenStream;

/// Makes a function a tool.
///
/// The doc comment of the function tells the model what the tool does, the doc comments of its
/// parameters what they mean. The function becomes a value of the same name that implements `Tool`
/// and can still be called.
///
/// A parameter is anything owned that implements `serde::Deserialize` and `schemars::JsonSchema`;
/// an `Option` may be left out. `#[serde(…)]` and `#[schemars(…)]` on a parameter work as on a
/// field. The first parameter may be a `ToolContext`. What may be given back is described on
/// `IntoToolOutput`. An `async fn` runs on the task of the run; a plain `fn` may block and runs on
/// a thread for that.
///
/// Options, all of which may be left out:
///
/// * `serial`: runs alone, not beside other calls of the same response
/// * `repeat = "if_not_started"` or `"always"`: may be run again on its own after an interruption
/// * `timeout_secs = 30`: how long a call may take, in seconds
/// * `ask = "Run {command}?"`: asks a person before a call starts; `{…}` is a parameter
/// * `name = "…"`: another name than the function's
/// * `description = "…"`: another description than the doc comment
/// * `crate = path`: where the crate `rethread` is, if it was renamed
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(options.into(), item.into()).into()
}
