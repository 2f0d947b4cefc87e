//! History files.

use std::path::Path;

use rethread_core::{Entry, Imported, Json, Message, Problem, Record};

use crate::failure::Failure;

/// How many records in a row may be missing for the numbers of those after them to be kept.
const MAX_MISSING: u64 = 1000;

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

/// Takes a message, or a record as `export` writes it. Records keep their numbers, which other
/// records call them by: one that is missing leaves its place empty.
fn take(history: &mut History, at: u64, json: &str) {
    #[derive(serde::Deserialize)]
    struct Numbered {
        seq: Option<u64>,
    }
    if let Ok(message) = serde_json::from_str::<Message>(json) {
        history.entries.push(Entry::message(message));
        return;
    }
    let entry = match Record::decode(at, json.as_bytes()).map(|record| record.entry) {
        Ok(Entry::Unknown(_)) => Err("is no message".to_owned()),
        Ok(entry) => Ok(entry),
        Err(error) => Err(format!("cannot be read: {error}")),
    };
    match entry {
        Ok(entry) => {
            let seq = serde_json::from_str::<Numbered>(json)
                .ok()
                .and_then(|n| n.seq);
            let missing = seq
                .unwrap_or(0)
                .saturating_sub(history.entries.len() as u64 + 1);
            if missing <= MAX_MISSING {
                let nothing = (0..missing).map(|_| Entry::Unknown(Json::empty_object()));
                history.entries.extend(nothing);
            }
            history.entries.push(entry);
        }
        Err(why) => history.problems.push(Problem {
            at,
            detail: format!("item {at} {why}"),
        }),
    }
}
