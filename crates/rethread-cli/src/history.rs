//! History files.

use std::path::Path;

use rethread_core::{Entry, Imported, Json, Message, Problem, Record};

use crate::failure::Failure;

/// What a file holds.
pub(crate) struct History {
    pub(crate) format: &'static str,
    pub(crate) entries: Vec<Entry>,
    pub(crate) problems: Vec<Problem>,
}

impl History {
    /// The records, and the one that says where they came from.
    pub(crate) fn into_entries(self) -> (Vec<Entry>, Entry) {
        let imported = Imported {
            format: self.format.to_owned(),
            problems: self
                .problems
                .into_iter()
                .map(|problem| problem.detail)
                .collect(),
        };
        (self.entries, Entry::Imported(imported))
    }
}

/// Reads a file in a format, or in the one it is recognised to have.
pub(crate) fn read(path: &Path, format: Option<&str>) -> Result<History, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::file("read", path, &error))?;
    if format.is_some_and(|format| format != "rethread") {
        return Err(Failure::usage("only the format rethread is read so far"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut history = History {
        format: "rethread",
        entries: Vec::new(),
        problems: Vec::new(),
    };
    if let Ok(items) = serde_json::from_str::<Vec<Json>>(&text) {
        for (at, item) in (0..).zip(items) {
            take(&mut history, at, item.get());
        }
    } else {
        for (at, line) in (1..).zip(text.lines()) {
            if !line.trim().is_empty() {
                take(&mut history, at, line);
            }
        }
    }
    if history.entries.is_empty() && !history.problems.is_empty() {
        return Err(Failure::usage(format!(
            "`{}` is no history",
            path.display()
        )));
    }
    Ok(history)
}

fn take(history: &mut History, at: u64, json: &str) {
    if let Ok(message) = serde_json::from_str::<Message>(json) {
        history.entries.push(Entry::message(message));
        return;
    }
    match Record::decode(at, json.as_bytes()).map(|record| record.entry) {
        Ok(entry) if !matches!(entry, Entry::Unknown(_)) => history.entries.push(entry),
        Ok(_) => history.problems.push(Problem {
            at,
            detail: format!("item {at} is no message"),
        }),
        Err(error) => history.problems.push(Problem {
            at,
            detail: format!("item {at} cannot be read: {error}"),
        }),
    }
}
