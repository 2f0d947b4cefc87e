//! `read_file`.

use std::io::Read as _;

use rethread_core::ToolError;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::output::cut;
use super::root::{Root, failed};

/// The largest file that is read, in bytes.
pub(super) const MAX_FILE: u64 = 8 * 1024 * 1024;
/// How much of a file one call gives, in bytes.
const MAX_OUTPUT: usize = 64 * 1024;

pub(super) fn read_file(root: &Root, path: &str, from_line: u64) -> Result<String, ToolError> {
    let text = read_text(root, path)?;
    let skip = usize::try_from(from_line.saturating_sub(1)).unwrap_or(usize::MAX);
    let start: usize = text.split_inclusive('\n').take(skip).map(str::len).sum();
    let wanted = text.get(start..).unwrap_or_default();
    if wanted.is_empty() {
        return Ok(match text.is_empty() {
            true => "[the file is empty]".to_owned(),
            false => format!("[the file has {} lines]", text.lines().count()),
        });
    }
    if wanted.len() <= MAX_OUTPUT {
        return Ok(wanted.to_owned());
    }
    // Whole lines, unless a line alone is too long.
    let piece = cut(wanted, MAX_OUTPUT);
    let lines = piece.matches('\n').count();
    let piece = match piece.rfind('\n') {
        Some(end) => piece.get(..=end).unwrap_or(piece),
        None => piece,
    };
    let next = from_line.max(1).saturating_add(lines.max(1) as u64);
    Ok(format!(
        "{piece}\n[cut here: the file has {} bytes; go on with from_line {next}]",
        text.len()
    ))
}

/// Reads a text file of a moderate size.
pub(super) fn read_text(root: &Root, path: &str) -> Result<String, ToolError> {
    let place = root.find(path, false)?;
    let file = place
        .file(path, OFlags::RDONLY)?
        .ok_or_else(|| failed(path, Errno::NOENT))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ToolError::new(format!("`{path}` cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(ToolError::new(format!(
            "`{path}` is larger than {} MiB; search it instead",
            MAX_FILE / 1024 / 1024
        )));
    }
    String::from_utf8(bytes).map_err(|_| ToolError::new(format!("`{path}` is not a text file")))
}
