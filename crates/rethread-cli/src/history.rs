//! History files.

use std::path::Path;

use rethread_core::{Entry, Imported, Record};
use rethread_wire::formats::{self, FileProblem, Format, Loaded};

use crate::failure::Failure;
use crate::term;

/// Reads a file in a format, or in the one it is recognised to have.
pub(crate) fn read(path: &Path, format: Option<&str>) -> Result<Loaded, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::file("read", path, &error))?;
    let wrong = |why: String| Failure::usage(format!("`{}`: {why}", path.display()));
    let format = match format {
        Some(name) => name
            .parse::<Format>()
            .map_err(|error| Failure::usage(error.to_string()))?,
        None => formats::recognise(&bytes).map_err(|error| wrong(error.to_string()))?,
    };
    let loaded = formats::read(&bytes, format);
    if loaded.is_unreadable() {
        return Err(wrong(format!(
            "this is no history in the format {format}: {}",
            details(&loaded.problems).join("; ")
        )));
    }
    Ok(loaded)
}

/// The records of a file, and the one that says where they came from.
pub(crate) fn entries(loaded: &Loaded) -> (Vec<Entry>, Entry) {
    let entries = match &loaded.records {
        Some(records) => records.iter().map(entry).collect(),
        None => loaded
            .messages
            .iter()
            .map(|(_, message)| Entry::message(message.clone()))
            .collect(),
    };
    let imported = Imported {
        format: loaded.format.as_str().to_owned(),
        problems: details(&loaded.problems),
    };
    (entries, Entry::Imported(imported))
}

fn entry(record: &Record) -> Entry {
    record.entry.clone()
}

/// Tells a person what could not be read.
pub(crate) fn warn(loaded: &Loaded) {
    for detail in details(&loaded.problems) {
        term::warning(&detail);
    }
}

fn details(problems: &[FileProblem]) -> Vec<String> {
    problems
        .iter()
        .map(|problem| format!("{}: {}", problem.line, problem.detail))
        .collect()
}
