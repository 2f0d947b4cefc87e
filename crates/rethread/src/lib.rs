//! Durable sessions for LLM agents: keeps the work, says exactly where it stopped, and carries on.

#[cfg(feature = "blocking")]
pub mod blocking;
pub mod prelude;

#[doc(hidden)]
pub use rethread_core::__private;
pub use rethread_core::*;
/// ```
/// use rethread::{Tool, ToolContext, ToolError, tool};
///
/// /// Writes a text file.
/// #[tool(serial, timeout_secs = 30, ask = "Write {path}?")]
/// async fn write_file(
///     context: ToolContext,
///     /// Where, from the working directory.
///     path: String,
///     content: String,
///     /// Whether to add to what is there.
///     append: Option<bool>,
/// ) -> Result<String, ToolError> {
///     context.progress(format!("writing {path}"));
///     if append == Some(true) {
///         return Err(ToolError::new("a file can only be written whole; give all of it"));
///     }
///     Ok(format!("wrote {} bytes", content.len()))
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() {
///     assert_eq!(write_file.spec().description, "Writes a text file.");
///
///     // It can still be called.
///     let context = ToolContext::detached("call-1");
///     let written = write_file(context, "a.txt".into(), "abc".into(), None).await;
///     assert_eq!(written.unwrap(), "wrote 3 bytes");
/// }
/// ```
pub use rethread_macros::tool;
#[cfg(feature = "providers")]
pub use rethread_providers::*;
#[cfg(feature = "sqlite")]
pub use rethread_stores::{SqliteOptions, SqliteStore, Synchronous};
