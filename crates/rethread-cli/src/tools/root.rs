//! A directory that paths cannot leave.
//!
//! A path is walked one component at a time, each opened relative to the directory before it and
//! never through a link: links are read and walked like the rest of the path. `..` goes back to the
//! directory that was opened before, so nothing that is moved or replaced while a path is walked
//! leads outside.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rethread_core::ToolError;
use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

/// How many links a path may lead through.
const MAX_LINKS: u32 = 32;

/// A directory that paths cannot leave.
#[derive(Debug)]
pub(super) struct Root {
    directory: OwnedFd,
    path: PathBuf,
}

/// A place below the root: an open directory and a name in it that was no link.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: OwnedFd,
    pub(super) name: OsString,
}

impl Root {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let path = path.canonicalize()?;
        let directory = rustix::fs::open(&path, OPEN_DIRECTORY, Mode::empty())?;
        Ok(Self { directory, path })
    }

    /// Where the directory is, for a child process to begin in.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Walks a path. With `make`, directories that are missing on the way are made.
    pub(super) fn find(&self, path: &str, make: bool) -> Result<Place, ToolError> {
        let said = |what: &str| ToolError::new(format!("`{path}` {what}"));
        let outside = || said("leads out of the working directory; give a path inside it");
        if path.starts_with('/') {
            return Err(said(
                "is absolute; give a path relative to the working directory",
            ));
        }
        let mut todo = components(path.as_bytes());
        let mut walked: Vec<OwnedFd> = Vec::new();
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                walked.pop().ok_or_else(outside)?;
                continue;
            }
            let here = walked.last().unwrap_or(&self.directory);
            match readlinkat(here, &name, Vec::new()) {
                Ok(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(said("leads through too many links"));
                    }
                    if target.as_bytes().starts_with(b"/") {
                        return Err(outside());
                    }
                    let mut target = components(target.as_bytes());
                    target.append(&mut todo);
                    todo = target;
                    continue;
                }
                // It is there and no link; or it is not there, which its use will tell.
                Err(Errno::INVAL | Errno::NOENT) => {}
                Err(error) => return Err(failed(path, error)),
            }
            if todo.is_empty() {
                let directory = match walked.pop() {
                    Some(directory) => directory,
                    None => self.again().map_err(|error| failed(path, error))?,
                };
                return Ok(Place { directory, name });
            }
            let next = match openat(here, &name, OPEN_DIRECTORY, Mode::empty()) {
                Err(Errno::NOENT) if make => {
                    match rustix::fs::mkdirat(here, &name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(failed(path, error)),
                    }
                    openat(here, &name, OPEN_DIRECTORY, Mode::empty())
                }
                other => other,
            };
            walked.push(next.map_err(|error| failed(path, error))?);
        }
        // The path names a directory that is open already.
        let directory = match walked.pop() {
            Some(directory) => directory,
            None => self.again().map_err(|error| failed(path, error))?,
        };
        Ok(Place {
            directory,
            name: OsString::from("."),
        })
    }

    fn again(&self) -> Result<OwnedFd, Errno> {
        openat(&self.directory, ".", OPEN_DIRECTORY, Mode::empty())
    }
}

const OPEN_DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Does not wait for a pipe's other end, should the name be one.
const OPEN_FILE: OFlags = OFlags::NOFOLLOW
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens a file if it is an ordinary one; `None` when there is none of the name.
pub(super) fn open_file(
    directory: BorrowedFd<'_>,
    name: &OsString,
    access: OFlags,
) -> Result<Option<File>, Errno> {
    match openat(directory, name, access | OPEN_FILE, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
        Ok(file) => {
            let file = File::from(file);
            let ordinary = file
                .metadata()
                .is_ok_and(|metadata| metadata.file_type().is_file());
            if ordinary {
                Ok(Some(file))
            } else {
                Err(Errno::ISDIR)
            }
        }
    }
}

/// Opens a directory below another.
pub(super) fn open_directory(directory: BorrowedFd<'_>, name: &OsString) -> Result<OwnedFd, Errno> {
    openat(directory, name, OPEN_DIRECTORY, Mode::empty())
}

impl Place {
    /// Opens the file of this place.
    pub(super) fn file(&self, path: &str, access: OFlags) -> Result<Option<File>, ToolError> {
        open_file(self.directory.as_fd(), &self.name, access).map_err(|error| failed(path, error))
    }
}

fn components(path: &[u8]) -> VecDeque<OsString> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
        .map(|name| OsString::from_vec(name.to_vec()))
        .collect()
}

/// What a model is told when a path cannot be used.
pub(super) fn failed(path: &str, error: Errno) -> ToolError {
    let what = match error {
        Errno::NOENT => "does not exist".to_owned(),
        Errno::ISDIR => "is not an ordinary file".to_owned(),
        Errno::NOTDIR => "is not a directory, or leads through something that is none".to_owned(),
        Errno::LOOP => "became a link while it was opened".to_owned(),
        Errno::ACCESS | Errno::PERM => "may not be used: permission denied".to_owned(),
        other => format!("cannot be used: {other}"),
    };
    ToolError::new(format!("`{path}` {what}"))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    fn read(root: &Root, path: &str) -> Result<String, String> {
        let place = root.find(path, false).map_err(|error| error.message)?;
        let file = place
            .file(path, OFlags::RDONLY)
            .map_err(|error| error.message)?;
        let mut text = String::new();
        file.ok_or("none")?.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    #[test]
    fn no_path_leads_out_and_links_inside_are_followed() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("secret"), "secret").unwrap();
        let inside = base.path().join("work");
        std::fs::create_dir_all(inside.join("a/b")).unwrap();
        std::fs::write(inside.join("a/f"), "inside").unwrap();
        let link = |target: &str, name: &str| symlink(target, inside.join(name)).unwrap();
        link("a/f", "good");
        link("../f", "a/b/up");
        link("a/b", "dir");
        link("../secret", "out");
        link("/etc", "etc");
        link("..", "parent");
        link("a/b/../../..", "sly");
        link("round", "round");
        let root = Root::open(&inside).unwrap();
        for path in [
            "a/f", "./a//f", "good", "a/b/up", "dir/up", "a/b/../f", "dir/../f",
        ] {
            assert_eq!(read(&root, path).unwrap(), "inside", "{path}");
        }
        for path in [
            "../secret",
            "a/../../secret",
            "/etc/passwd",
            "out",
            "etc/passwd",
            "parent/secret",
            "sly/secret",
            "round",
            "",
            ".",
            "a",
            "nothing",
            "a/f/x",
            "x\0y",
        ] {
            let error = read(&root, path).unwrap_err();
            assert!(!error.is_empty() && !error.contains("secret`: "), "{path}");
        }
        assert!(root.find("../x", true).is_err());
        assert!(root.find("parent/new/x", true).is_err());
        assert!(!base.path().join("new").exists());
    }

    proptest::proptest! {
        /// Whatever a path is made of: what it opens is inside, and the very thing the system finds.
        #[test]
        fn what_is_opened_is_inside(
            names in proptest::collection::vec(
                proptest::sample::select(vec!["a", "b", "f", "..", ".", "", "up", "in", "out", "top"]),
                1..8,
            ),
        ) {
            let base = tempfile::tempdir().unwrap();
            let inside = base.path().join("work");
            std::fs::create_dir_all(inside.join("a/b")).unwrap();
            for directory in ["", "a", "a/b", ".."] {
                let directory = inside.join(directory);
                std::fs::write(directory.join("f"), "x").unwrap();
                symlink("..", directory.join("up")).unwrap();
                symlink("a/b", directory.join("in")).unwrap();
                symlink("../../f", directory.join("out")).unwrap();
                symlink("/", directory.join("top")).unwrap();
            }
            let root = Root::open(&inside).unwrap();
            let path = names.join("/");
            let opened = root
                .find(&path, false)
                .and_then(|place| place.file(&path, OFlags::RDONLY));
            if let Ok(Some(file)) = opened {
                // The system wants a directory before a `/` that ends a path; a model need not.
                let plain: Vec<_> = components(path.as_bytes()).into();
                let real = plain.iter().fold(inside, |path, name| path.join(name));
                let real = real.canonicalize().unwrap();
                proptest::prop_assert!(real.starts_with(root.path()), "{path}");
                let (ours, theirs) = (file.metadata().unwrap(), real.metadata().unwrap());
                proptest::prop_assert_eq!(ours.ino(), theirs.ino());
            }
        }
    }
}
