//! The tools a run has from the start: files and a shell, confined to the working directory.
//!
//! File tools cannot leave the directory, whatever the path says and whatever changes while they
//! run, see [`root`]. The shell can do what its user can; that is why each command is asked for.

mod edit;
mod list;
mod output;
mod read;
mod root;
mod search;
mod shell;
mod write;

use std::path::Path;
use std::sync::Arc;

use rethread_core::{Repeat, Tool, ToolContext, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use self::root::Root;

#[derive(Deserialize, JsonSchema)]
struct ReadFile {
    /// The file, relative to the working directory.
    path: String,
    /// The first line to give; 1 unless given.
    #[serde(default)]
    from_line: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
struct WriteFile {
    /// The file, relative to the working directory. Missing directories are made.
    path: String,
    /// All the file is to hold.
    content: String,
}

#[derive(Deserialize, JsonSchema)]
struct EditFile {
    /// The file, relative to the working directory.
    path: String,
    /// The text to replace. It must stand in the file exactly once.
    old: String,
    /// What to put in its place.
    new: String,
}

#[derive(Deserialize, JsonSchema)]
struct ListFiles {
    /// The directory, relative to the working directory; the working directory unless given.
    #[serde(default)]
    path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// A regular expression, or plain text if it is none.
    pattern: String,
    /// The file or directory to search, relative to the working directory; all of it unless given.
    #[serde(default)]
    path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Shell {
    /// The command, run by `sh -c` in the working directory.
    command: String,
}

/// The tools, for a directory. With `yes` those that change something do not ask.
pub(crate) fn tools(directory: &Path, yes: bool) -> std::io::Result<Vec<Arc<dyn Tool>>> {
    let root = Arc::new(Root::open(directory)?);
    let ask = move |prompt: String| (!yes).then_some(prompt);
    let at = |path: Option<String>| path.unwrap_or_else(|| ".".to_owned());

    let here = Arc::clone(&root);
    let read_file = tool_fn(
        "read_file",
        "Reads a text file. A long one is cut; go on with `from_line`.",
        move |_: ToolContext, args: ReadFile| {
            let root = Arc::clone(&here);
            blocking(move || read::read_file(&root, &args.path, args.from_line.unwrap_or(1)))
        },
    )
    .repeat(Repeat::Always);

    let here = Arc::clone(&root);
    let list_files = tool_fn(
        "list_files",
        "Lists a directory. The names of directories end in `/`.",
        move |_: ToolContext, args: ListFiles| {
            let root = Arc::clone(&here);
            blocking(move || list::list_files(&root, &at(args.path)))
        },
    )
    .repeat(Repeat::Always);

    let here = Arc::clone(&root);
    let search = tool_fn(
        "search",
        "Finds the lines of text files that match a pattern. Hidden files and directories are left out.",
        move |context: ToolContext, args: Search| {
            let root = Arc::clone(&here);
            let cancelled = context.cancellation;
            blocking(move || {
                search::search(&root, &args.pattern, &at(args.path), &|| {
                    cancelled.is_cancelled()
                })
            })
        },
    )
    .repeat(Repeat::Always);

    let here = Arc::clone(&root);
    let write_file = tool_fn(
        "write_file",
        "Writes a file whole, in place of what it held.",
        move |_: ToolContext, args: WriteFile| {
            let root = Arc::clone(&here);
            blocking(move || write::write_file(&root, &args.path, &args.content))
        },
    )
    .serial()
    .ask(move |args| {
        ask(format!(
            "Write {} bytes to {}?",
            args.content.len(),
            args.path
        ))
    });

    let here = Arc::clone(&root);
    let edit_file = tool_fn(
        "edit_file",
        "Replaces a piece of a text file.",
        move |_: ToolContext, args: EditFile| {
            let root = Arc::clone(&here);
            blocking(move || edit::edit_file(&root, &args.path, &args.old, &args.new))
        },
    )
    .serial()
    .ask(move |args| ask(format!("Edit {}?", args.path)));

    let shell = tool_fn(
        "shell",
        "Runs a command with `sh -c`, without input, for at most ten minutes, and gives what it prints.",
        move |context: ToolContext, args: Shell| {
            shell::shell(Arc::clone(&root), context.cancellation, args.command)
        },
    )
    .serial()
    .ask(move |args| ask(format!("Run `{}`?", args.command)));

    Ok(vec![
        Arc::new(read_file),
        Arc::new(write_file),
        Arc::new(edit_file),
        Arc::new(list_files),
        Arc::new(search),
        Arc::new(shell),
    ])
}

/// Runs work that waits for files on a thread of its own.
async fn blocking(
    work: impl FnOnce() -> Result<String, ToolError> + Send + 'static,
) -> Result<String, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(ToolError::new("the tool broke down while it ran")),
    }
}
