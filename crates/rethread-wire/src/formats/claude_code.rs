//! The session file of Claude Code: one entry a line, linked by `parentUuid`.
//!
//! Source: files that version 1 and 2 wrote. A response stands there in several lines, one for each
//! block, with the id of the message in common; results of parallel calls are side branches of it.
//! Entries of sub-agents are marked `isSidechain`.

use std::collections::{HashMap, HashSet};

use rethread_core::{Body, Json, Message, Origin};

use super::lines::lines;
use super::parts::name_results;
use super::{Loaded, anthropic};
use crate::Api;
use crate::decode::raw::{Members, Object};
use crate::rules::anthropic::{Kind as BlockKind, Turn};

/// An entry that may be part of the conversation.
struct Entry {
    line: usize,
    uuid: String,
    parent: Option<String>,
    json: Json,
    kind: Kind,
    /// The id of the response it is a piece of.
    response: String,
    /// The ids of calls it makes or answers.
    calls: Vec<String>,
    sidechain: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    User,
    Assistant,
    /// What an error of the service was shown as.
    Synthetic,
    /// The summary that stands for what came before.
    Summary,
    Boundary,
    /// Something that is linked and not sent.
    Other,
}

pub(super) fn read(text: &str, loaded: &mut Loaded) {
    let lines = lines(text, &mut loaded.problems);
    let mut entries: Vec<Entry> = Vec::new();
    let mut seen = HashSet::new();
    for line in lines {
        let said = Members::read(line.json.get())
            .object("message")
            .get("role")
            .is_some();
        let Some(entry) = entry(line.number, line.json) else {
            if said {
                loaded.problem(
                    "bad_record",
                    line.number,
                    "an entry without a uuid is set aside",
                );
            }
            continue;
        };
        if seen.insert(entry.uuid.clone()) {
            entries.push(entry);
        } else {
            let detail = format!(
                "the entry `{}` stands there for the second time",
                entry.uuid
            );
            loaded.problem("duplicate_record", line.number, detail);
        }
    }
    aside(
        &entries,
        Entry::is_of_agent,
        "sidechain",
        "of a sub-agent",
        loaded,
    );
    aside(
        &entries,
        |entry| entry.kind == Kind::Synthetic && !entry.sidechain,
        "synthetic_message",
        "an error that was shown as an answer",
        loaded,
    );
    let chosen = branch(&entries, loaded);
    let off = |entry: &Entry| {
        let said = matches!(entry.kind, Kind::User | Kind::Assistant) && !entry.sidechain;
        said && !chosen.contains(entry.uuid.as_str())
    };
    aside(
        &entries,
        off,
        "other_branch",
        "of a branch that was given up",
        loaded,
    );
    let kept = entries
        .iter()
        .filter(|entry| chosen.contains(entry.uuid.as_str()));
    messages(&kept.collect::<Vec<_>>(), loaded);
}

impl Entry {
    /// What the pieces of one response have in common.
    fn piece_of(&self) -> &str {
        match self.response.as_str() {
            "" => &self.uuid,
            response => response,
        }
    }

    fn is_of_agent(&self) -> bool {
        self.sidechain && matches!(self.kind, Kind::User | Kind::Assistant)
    }
}

/// Tells once of entries that are set aside.
fn aside(
    entries: &[Entry],
    which: impl Fn(&Entry) -> bool,
    rule: &'static str,
    what: &str,
    loaded: &mut Loaded,
) {
    let mut found = entries.iter().filter(|entry| which(entry));
    if let Some(first) = found.next() {
        let more = found.count();
        let detail = match more {
            0 => format!("an entry {what} is set aside"),
            more => format!("{} entries {what} are set aside", more + 1),
        };
        loaded.problem(rule, first.line, detail);
    }
}

fn entry(line: usize, json: Json) -> Option<Entry> {
    let members = Members::read(json.get());
    let is = |name: &str| members.get(name).is_some_and(|raw| raw.get() == "true");
    let uuid = members.string("uuid")?;
    let message = members.object("message");
    let word = members.string("type").unwrap_or_default();
    let kind = match word.as_str() {
        "user" if is("isCompactSummary") => Kind::Summary,
        "user" if is("isVisibleInTranscriptOnly") => Kind::Other,
        "user" => Kind::User,
        "assistant"
            if is("isApiErrorMessage")
                || message.string("model").as_deref() == Some("<synthetic>") =>
        {
            Kind::Synthetic
        }
        "assistant" => Kind::Assistant,
        "system" if members.string("subtype").as_deref() == Some("compact_boundary") => {
            Kind::Boundary
        }
        _ => Kind::Other,
    };
    let mut calls = Vec::new();
    for block in message.list("content") {
        let block = Members::read(block.get());
        match block.string("type").as_deref() {
            Some("tool_use") => calls.extend(block.string("id")),
            Some("tool_result") => calls.extend(block.string("tool_use_id")),
            _ => {}
        }
    }
    let parent = members
        .string("parentUuid")
        .or_else(|| members.string("logicalParentUuid"));
    let response = message.string("id").unwrap_or_default();
    let sidechain = is("isSidechain");
    drop(message);
    drop(members);
    Some(Entry {
        line,
        uuid,
        parent,
        kind,
        response,
        calls,
        sidechain,
        json,
    })
}

/// The entries of the conversation: from the last one said back to the first, with the other pieces of
/// its responses and the results of their calls. Where a link leads nowhere, it goes on with the entry
/// before in the file.
fn branch<'a>(entries: &'a [Entry], loaded: &mut Loaded) -> HashSet<&'a str> {
    let places: HashMap<&str, usize> = entries
        .iter()
        .enumerate()
        .map(|(at, entry)| (entry.uuid.as_str(), at))
        .collect();
    let of_main = |entry: &Entry| !entry.sidechain;
    let said = |entry: &Entry| matches!(entry.kind, Kind::User | Kind::Assistant | Kind::Summary);
    let mut next = entries
        .iter()
        .rposition(|entry| of_main(entry) && said(entry));
    let mut chosen = HashSet::new();
    while let Some(at) = next {
        let Some(entry) = entries.get(at) else { break };
        if !chosen.insert(entry.uuid.as_str()) {
            break;
        }
        let before = || entries.get(..at).unwrap_or(&[]).iter().rposition(of_main);
        next = match &entry.parent {
            // Without a parent it is the first one, or the first after a summary.
            None => None,
            Some(parent) => match places.get(parent.as_str()) {
                Some(parent) if *parent != at => Some(*parent),
                _ => {
                    let before = before();
                    let detail = match before {
                        Some(_) => {
                            "the entry it follows is missing; it is put behind the one before it in the file"
                        }
                        None => "the entry it follows is missing",
                    };
                    if said(entry) || before.is_some() {
                        loaded.problem("missing_parent", entry.line, detail);
                    }
                    before
                }
            },
        };
    }
    // Pieces of the same responses, and results of their calls: side branches that are not given up.
    let mut responses: HashSet<&str> = HashSet::new();
    let mut calls: HashSet<&str> = HashSet::new();
    for entry in entries
        .iter()
        .filter(|entry| chosen.contains(entry.uuid.as_str()))
    {
        if entry.kind == Kind::Assistant && !entry.response.is_empty() {
            responses.insert(&entry.response);
        }
    }
    for entry in entries.iter().filter(|entry| of_main(entry)) {
        let belongs = entry.kind == Kind::Assistant && responses.contains(entry.response.as_str());
        if belongs || (chosen.contains(entry.uuid.as_str()) && entry.kind == Kind::Assistant) {
            chosen.insert(&entry.uuid);
            calls.extend(entry.calls.iter().map(String::as_str));
        }
    }
    let answered: HashSet<&str> = entries
        .iter()
        .filter(|entry| entry.kind == Kind::User && chosen.contains(entry.uuid.as_str()))
        .flat_map(|entry| entry.calls.iter().map(String::as_str))
        .collect();
    for entry in entries
        .iter()
        .filter(|entry| of_main(entry) && entry.kind == Kind::User)
    {
        let answers = |id: &String| calls.contains(id.as_str()) && !answered.contains(id.as_str());
        if !entry.calls.is_empty() && entry.calls.iter().any(answers) {
            chosen.insert(&entry.uuid);
        }
    }
    chosen
}

/// Puts the pieces of responses together.
fn messages(entries: &[&Entry], loaded: &mut Loaded) {
    let mut pieces: HashMap<&str, Vec<&Entry>> = HashMap::new();
    for entry in entries.iter().filter(|entry| entry.kind == Kind::Assistant) {
        pieces.entry(entry.piece_of()).or_default().push(entry);
    }
    for entry in entries {
        let members = Members::read(entry.json.get());
        let Some(message) = members.get("message") else {
            continue;
        };
        match entry.kind {
            Kind::User | Kind::Summary => {
                let turn = Json::parse(message.get())
                    .ok()
                    .as_ref()
                    .and_then(Turn::read);
                for message in turn
                    .iter()
                    .flat_map(|turn| anthropic::messages(turn, None, None))
                {
                    let message = match message.body {
                        Body::User(content) if entry.kind == Kind::Summary => {
                            Message::summary(content)
                        }
                        _ => message,
                    };
                    loaded.messages.push((entry.line, message));
                }
            }
            // The response stands where its first piece does.
            Kind::Assistant => {
                if let Some(pieces) = pieces.remove(entry.piece_of()) {
                    response(&pieces, loaded);
                }
            }
            Kind::Synthetic | Kind::Boundary | Kind::Other => {}
        }
    }
    name_results(&mut loaded.messages);
}

fn response(pieces: &[&Entry], loaded: &mut Loaded) {
    let (mut blocks, mut stop, mut model, mut line) = (Vec::new(), None, None, 0);
    for piece in pieces {
        let message = Members::read(piece.json.get()).object("message");
        let list = message.list("content");
        blocks.extend(list.iter().map(|raw| raw.get().to_owned()));
        if let Some(text) = message.get("content").and_then(crate::decode::raw::literal) {
            blocks.push(crate::rules::anthropic::text_block(text));
        }
        stop = message.string("stop_reason").or(stop);
        model = message.string("model").or(model);
        if line == 0 {
            line = piece.line;
        }
    }
    // Files exist in which a block stands in two pieces.
    let mut seen = HashSet::new();
    blocks.retain(|block| seen.insert(block.clone()) || !block.contains("\"tool_use\""));
    let mut object = Object::new();
    object.string("role", "assistant");
    object.list("content", &blocks);
    let turn = Json::parse(&object.end())
        .ok()
        .as_ref()
        .and_then(Turn::read);
    let origin =
        model.map(|model| Origin::new(Api::AnthropicMessages.as_str(), "anthropic", model));
    let said = stop.as_deref().map(Some);
    let Some(turn) = turn else { return };
    let only_thinking = !turn.blocks().is_empty()
        && turn
            .blocks()
            .iter()
            .all(|block| block.kind == BlockKind::Thinking && !block.sound);
    for message in anthropic::messages(&turn, origin.as_ref(), said) {
        if only_thinking && anthropic::is_empty(&message) {
            continue;
        }
        loaded.messages.push((line, message));
    }
}
