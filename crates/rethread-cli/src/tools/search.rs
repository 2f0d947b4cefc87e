//! `search`.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;

use regex_lite::{Regex, RegexBuilder};
use rethread_core::ToolError;
use rustix::fs::{FileType, OFlags};

use super::list::entries;
use super::output::cut;
use super::root::{Root, failed, open_directory, open_file};

/// How many matching lines one call gives.
const MAX_LINES: usize = 200;
/// How much of a matching line is given, in bytes.
const MAX_LINE: usize = 300;
/// The largest file that is searched, in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;
/// How many files are searched.
const MAX_FILES: usize = 20_000;
/// How deep directories are searched.
const MAX_DEPTH: usize = 64;
/// How large a compiled pattern may be, in bytes.
const MAX_PATTERN: usize = 1024 * 1024;

pub(super) fn search(
    root: &Root,
    pattern: &str,
    path: &str,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<String, ToolError> {
    let mut found = Found {
        pattern: Pattern::new(pattern)?,
        is_cancelled,
        out: String::new(),
        lines: 0,
        files: 0,
        skipped: 0,
        full: None,
    };
    let place = root.find(path, false)?;
    let shown = path.trim_end_matches('/').trim_start_matches("./");
    let shown = if shown == "." { "" } else { shown };
    match open_directory(place.directory.as_fd(), &place.name) {
        Ok(directory) => found.directory(directory.as_fd(), shown, 0),
        Err(rustix::io::Errno::NOTDIR) => {
            match open_file(place.directory.as_fd(), &place.name, OFlags::RDONLY) {
                Ok(Some(file)) => found.file(file, shown),
                Ok(None) => return Err(failed(path, rustix::io::Errno::NOENT)),
                Err(error) => return Err(failed(path, error)),
            }
        }
        Err(error) => return Err(failed(path, error)),
    }
    if let Some(why) = found.full {
        found.out.push_str(&format!("[stopped: {why}]\n"));
    } else if found.lines == 0 {
        found.out = format!("[no match in {} files]\n", found.files);
    }
    if found.skipped > 0 {
        found.out.push_str(&format!(
            "[{} not searched: larger than {} MiB, binary or unreadable]\n",
            found.skipped,
            MAX_FILE >> 20
        ));
    }
    Ok(found.out)
}

enum Pattern {
    Regex(Regex),
    Plain(String),
}

impl Pattern {
    fn new(pattern: &str) -> Result<Self, ToolError> {
        if pattern.is_empty() {
            return Err(ToolError::new("`pattern` is empty"));
        }
        let regex = RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build();
        Ok(regex.map_or_else(|_| Self::Plain(pattern.to_owned()), Self::Regex))
    }

    fn matches(&self, line: &str) -> bool {
        match self {
            Self::Regex(regex) => regex.is_match(line),
            Self::Plain(text) => line.contains(text.as_str()),
        }
    }
}

struct Found<'a> {
    pattern: Pattern,
    is_cancelled: &'a dyn Fn() -> bool,
    out: String,
    lines: usize,
    files: usize,
    skipped: usize,
    full: Option<&'static str>,
}

impl Found<'_> {
    fn directory(&mut self, directory: BorrowedFd<'_>, path: &str, depth: usize) {
        // What cannot be read is passed over, as it would be by any search.
        let Ok(entries) = entries(directory) else {
            return;
        };
        for (name, kind) in entries {
            if self.full.is_some() {
                return;
            }
            if name.as_bytes().starts_with(b".") {
                continue;
            }
            let below = join(path, &name);
            match kind {
                FileType::Directory if depth < MAX_DEPTH => {
                    if let Ok(next) = open_directory(directory, &name) {
                        self.directory(next.as_fd(), &below, depth + 1);
                    }
                }
                FileType::RegularFile => {
                    if let Ok(Some(file)) = open_file(directory, &name, OFlags::RDONLY) {
                        self.file(file, &below);
                    }
                }
                _ => {}
            }
        }
    }

    fn file(&mut self, file: File, path: &str) {
        if (self.is_cancelled)() {
            self.full = Some("cancelled");
            return;
        }
        if self.files + self.skipped >= MAX_FILES {
            self.full = Some("too many files; search a directory below");
            return;
        }
        let mut bytes = Vec::new();
        if file.take(MAX_FILE + 1).read_to_end(&mut bytes).is_err()
            || bytes.len() as u64 > MAX_FILE
            || bytes.contains(&0)
        {
            self.skipped += 1;
            return;
        }
        self.files += 1;
        let text = String::from_utf8_lossy(&bytes);
        for (number, line) in (1..).zip(text.lines()) {
            if !self.pattern.matches(line) {
                continue;
            }
            if self.lines == MAX_LINES {
                self.full = Some("too many matches; make the pattern narrower");
                return;
            }
            self.lines += 1;
            let (line, rest) = match cut(line.trim_end(), MAX_LINE) {
                short if short.len() < line.trim_end().len() => (short, "…"),
                whole => (whole, ""),
            };
            self.out
                .push_str(&format!("{path}:{number}: {line}{rest}\n"));
        }
    }
}

fn join(path: &str, name: &OsString) -> String {
    let name = name.to_string_lossy();
    match path {
        "" => name.into_owned(),
        path => format!("{path}/{name}"),
    }
}
