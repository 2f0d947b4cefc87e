//! rethread's own JSON: a list of messages, or a message or record a line.

use std::collections::HashMap;

use rethread_core::{Entry, Json, Message, Record, Timestamp};

use super::Loaded;
use super::document::{document, elements_so_far};
use super::lines::lines;
use crate::decode::raw::Members;

/// The members by which a record is known; each is one kind of entry.
pub(super) const ENTRIES: [&str; 11] = [
    "message",
    "run_started",
    "run_ended",
    "call_started",
    "call_suspended",
    "call_approved",
    "late_result",
    "set_aside",
    "setup",
    "imported",
    "forked",
];

pub(super) fn read(text: &str, loaded: &mut Loaded) {
    let start = text.trim_start_matches(|char: char| char == '\0' || char.is_ascii_whitespace());
    let mut items = Vec::new();
    if start.starts_with('[') {
        let end = start.trim_end_matches(|char: char| char == '\0' || char.is_ascii_whitespace());
        let (elements, whole) = elements_so_far(end);
        for (at, raw) in elements.iter().enumerate() {
            items.extend(Json::parse(raw.get()).ok().map(|json| (at, json)));
        }
        if end.len() < start.trim_end().len() {
            loaded.problem(
                "nul_padding",
                items.len(),
                "the file is padded with NUL bytes",
            );
        }
        if !whole {
            let detail =
                "the list was cut off while it was written; what is not whole is set aside";
            loaded.problem("torn_tail", items.len(), detail);
        }
    } else if is_wrapper(start) {
        let document = document(text, loaded);
        items = document.items.into_iter().enumerate().collect();
    } else {
        let lines = lines(text, &mut loaded.problems);
        items.extend(lines.into_iter().map(|line| (line.number, line.json)));
    }
    take(items, loaded);
}

/// Whether a text is one object with a list of messages, as `show` prints it.
fn is_wrapper(text: &str) -> bool {
    let members = Members::read(text.trim_end());
    members.get("role").is_none()
        && members
            .get("messages")
            .is_some_and(|raw| raw.get().starts_with('['))
}

fn take(items: Vec<(usize, Json)>, loaded: &mut Loaded) {
    let (mut entries, mut has_records) = (Vec::new(), false);
    let mut seen: HashMap<u64, String> = HashMap::new();
    // Records are numbered anew by their places; this tells the new number of an old one.
    let mut numbers: HashMap<u64, u64> = HashMap::new();
    for (line, json) in items {
        let members = Members::read(json.get());
        if members.get("role").is_some() {
            match json.decode::<Message>() {
                Ok(message) => entries.push((line, Timestamp::default(), Entry::message(message))),
                Err(error) => bad(loaded, line, "message", &error),
            }
            continue;
        }
        let seq = members.number("seq");
        if seq.is_none() && !ENTRIES.iter().any(|name| members.get(name).is_some()) {
            let detail = "this is neither a message nor a record; it is set aside";
            loaded.problem("bad_record", line, detail);
            continue;
        }
        if let Some(seq) = seq {
            if seen.get(&seq).is_some_and(|text| text == json.get()) {
                let detail = format!("the record {seq} stands there for the second time");
                loaded.problem("duplicate_record", line, detail);
                continue;
            }
            if seen.insert(seq, json.get().to_owned()).is_some() {
                let detail = format!("another record has the number {seq}, too; both are kept");
                loaded.problem("duplicate_record", line, detail);
            }
        }
        match Record::decode(seq.unwrap_or(0), json.get().as_bytes()) {
            Ok(record) => {
                has_records = true;
                let mut entry = record.entry;
                renumber(&mut entry, &numbers);
                entries.push((line, record.at, entry));
                if let Some(seq) = seq {
                    numbers.insert(seq, entries.len() as u64);
                }
            }
            Err(error) => bad(loaded, line, "record", &error),
        }
    }
    for (line, _, entry) in &entries {
        if let Some(message) = entry.as_message() {
            loaded.messages.push((*line, message.clone()));
        }
    }
    if has_records {
        let records = (1..)
            .zip(entries)
            .map(|(seq, (_, at, entry))| Record { seq, at, entry });
        loaded.records = Some(records.collect());
    }
}

/// Makes what names another record name it by its new number.
fn renumber(entry: &mut Entry, numbers: &HashMap<u64, u64>) {
    let new = |old: &mut u64| {
        // A record that was lost has no number; none has this one.
        *old = numbers.get(old).copied().unwrap_or(u64::MAX);
    };
    match entry {
        Entry::Message(_, mark) => {
            if let Some(call) = &mut mark.call {
                new(&mut call.message);
            }
        }
        Entry::CallStarted(started) => started
            .calls
            .iter_mut()
            .for_each(|call| new(&mut call.message)),
        Entry::CallSuspended(suspended) => new(&mut suspended.call.message),
        Entry::CallApproved(approved) => new(&mut approved.call.message),
        Entry::LateResult(late) => new(&mut late.call.message),
        Entry::SetAside(aside) => new(&mut aside.record),
        _ => {}
    }
}

fn bad(loaded: &mut Loaded, line: usize, what: &str, error: &serde_json::Error) {
    let detail = format!("the {what} cannot be read and is set aside: {error}");
    loaded.problem("bad_record", line, detail);
}
