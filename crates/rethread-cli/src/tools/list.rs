//! `list_files`, and how a directory is read.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;

use rethread_core::ToolError;
use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

use super::root::{Root, failed, open_directory};

/// How many names one call gives.
const MAX_NAMES: usize = 1000;
/// How many names of a directory are read before they are sorted.
const MAX_READ: usize = 100_000;

pub(super) fn list_files(root: &Root, path: &str) -> Result<String, ToolError> {
    let place = root.find(path, false)?;
    let directory = open_directory(place.directory.as_fd(), &place.name)
        .map_err(|error| failed(path, error))?;
    let entries = entries(directory.as_fd()).map_err(|error| failed(path, error))?;
    if entries.is_empty() {
        return Ok("[the directory is empty]".to_owned());
    }
    let mut out = String::new();
    for (name, kind) in entries.iter().take(MAX_NAMES) {
        out.push_str(&name.to_string_lossy());
        out.push_str(match kind {
            FileType::Directory => "/\n",
            FileType::Symlink => "@\n",
            _ => "\n",
        });
    }
    if let Some(more) = entries
        .len()
        .checked_sub(MAX_NAMES)
        .filter(|more| *more > 0)
    {
        out.push_str(&format!("[and {more} more]\n"));
    }
    Ok(out)
}

/// The names in a directory and what they are, in order.
pub(super) fn entries(directory: BorrowedFd<'_>) -> Result<Vec<(OsString, FileType)>, Errno> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(directory)?.take(MAX_READ) {
        let entry = entry?;
        let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| {
                    FileType::from_raw_mode(stat.st_mode)
                }),
            known => known,
        };
        entries.push((name, kind));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}
