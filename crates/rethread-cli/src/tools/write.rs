//! `write_file`, and how a file is replaced.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;

use rethread_core::ToolError;
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::root::{Place, Root, failed};

pub(super) fn write_file(root: &Root, path: &str, content: &str) -> Result<String, ToolError> {
    let place = root.find(path, true)?;
    replace(&place, path, content)?;
    Ok(format!("wrote {} bytes to {path}", content.len()))
}

/// Writes a file beside the old one and puts it in its place: whoever looks, and whenever the
/// process dies, the file is the old one or the new one.
pub(super) fn replace(place: &Place, path: &str, content: &str) -> Result<(), ToolError> {
    if place.name == "." {
        return Err(failed(path, Errno::ISDIR));
    }
    // Tells whether the old file is an ordinary one that may be written.
    let mode = match place.file(path, OFlags::WRONLY)? {
        Some(old) => old.metadata().ok().map(|metadata| metadata.mode() & 0o7777),
        None => None,
    };
    // Random, since process numbers repeat and a killed process leaves its file behind.
    let fresh = format!(".rethread-{}.tmp", uuid::Uuid::now_v7().simple());
    let directory = place.directory.as_fd();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(directory, &fresh, flags, Mode::from_raw_mode(0o666))
        .map_err(|error| failed(path, error))?;
    let written = write_all(File::from(file), content, mode)
        .and_then(|()| Ok(renameat(directory, &fresh, directory, &place.name)?));
    if let Err(error) = written {
        // The half-written file is in nobody's way; the error is what counts.
        let _ = unlinkat(directory, &fresh, AtFlags::empty());
        return Err(ToolError::new(format!(
            "`{path}` cannot be written: {error}"
        )));
    }
    // The result will be on record as done, so it has to outlive a power loss as well.
    let _ = rustix::fs::fsync(directory);
    Ok(())
}

fn write_all(mut file: File, content: &str, mode: Option<u32>) -> std::io::Result<()> {
    if let Some(mode) = mode {
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode as rustix::fs::RawMode))?;
    }
    file.write_all(content.as_bytes())?;
    file.sync_all()
}
