//! Histories of another form, written afresh.

use std::collections::HashSet;

use rethread_core::{
    CallState, Emit, Entry, History, Json, Message, Origin, Projection, PromptOptions, ResumeKind,
    ToolResult, resume_point, texts,
};

use super::{Change, Repaired, answered, list_name};
use crate::decode::raw::{Members, Object};
use crate::formats::Loaded;
use crate::rules::neutral::{Rounds, sent};
use crate::rules::pair::Match;
use crate::rules::{Target, call_named};
use crate::{Api, Encoder};

pub(super) fn repair(loaded: &Loaded, api: Api, target: &Target, append: Option<&str>) -> Repaired {
    let mut changes = told(loaded);
    let history = match &loaded.records {
        Some(_) => loaded.history(),
        None => in_order(loaded),
    };
    let end = loaded.messages.last().map_or(0, |(at, _)| at + 1);
    let mut entries: Vec<Entry> = history
        .records()
        .iter()
        .map(|record| record.entry.clone())
        .collect();
    let point = resume_point(&history);
    let mut add = |changes: &mut Vec<Change>, message: Message, detail: &str| {
        changes.push(Change {
            at: end,
            what: "added",
            id: None,
            detail: detail.to_owned(),
        });
        entries.push(Entry::message(message));
    };
    let mut closings = Vec::new();
    if let Ok(point) = &point {
        // What is known of each call of the last response.
        let mut responses = history.records().iter().rev();
        let response = responses.find_map(|record| record.entry.as_message()?.as_assistant());
        for open in &point.unanswered {
            let call =
                response.and_then(|response| response.tool_calls.get(open.call.index as usize));
            if let Some(call) = call.filter(|_| open.state != CallState::Unknown) {
                let words = texts::closing_result(call, open.state);
                closings.push((open.call, ToolResult::failure(call, words)));
            }
        }
    }
    let kind = point.as_ref().ok().map(|point| point.kind);
    match (append, kind) {
        (Some(text), _) => add(
            &mut changes,
            Message::user(text),
            "the message of the user that was given",
        ),
        (None, Some(ResumeKind::RetryResponse)) => {
            let detail = "the instruction to start the response again that broke off";
            add(&mut changes, Message::agent(texts::RETRY_NOTICE), detail);
        }
        (None, Some(ResumeKind::ContinueResponse)) => {
            let detail = "the instruction to go on where the output limit was reached";
            add(&mut changes, Message::agent(texts::CONTINUE_NOTICE), detail);
        }
        _ => {}
    }
    let closings = closings
        .into_iter()
        .map(|(key, result)| Entry::result(key, result));
    entries.extend(closings);
    let records = (1..)
        .zip(entries)
        .map(|(seq, entry)| rethread_core::Record {
            seq,
            at: rethread_core::Timestamp::default(),
            entry,
        });
    let history = History::new(records.collect());
    let mut messages: Vec<Message> = Vec::new();
    let mut projection = Projection::default();
    let mut emit = |emit: Emit<'_>| match emit {
        Emit::Reset => messages.clear(),
        Emit::Message(message) => messages.push(message.clone()),
    };
    for record in history.records() {
        projection.push(record, &mut emit);
    }
    projection.flush(&mut emit);
    let request = encode(loaded, api, target, &messages, &mut changes, end);
    changes.sort_by_key(|change| change.at);
    Repaired { request, changes }
}

/// The messages with every result behind the response that asks for it, also where other responses
/// came between.
fn in_order(loaded: &Loaded) -> History {
    let all: Vec<&Message> = loaded.messages.iter().map(|(_, message)| message).collect();
    let bare: Vec<&Message> = all
        .iter()
        .copied()
        .filter(|message| message.in_context)
        .collect();
    let rounds = Rounds::of(&bare);
    let mut batches = rounds.batches.iter().zip(&rounds.pairs.answers).peekable();
    let moved: HashSet<usize> = rounds
        .pairs
        .answers
        .iter()
        .flatten()
        .flatten()
        .filter_map(|result| rounds.results.get(*result).copied())
        .collect();
    let mut out = Vec::with_capacity(bare.len());
    for (at, message) in bare.iter().enumerate() {
        if moved.contains(&at) {
            continue;
        }
        out.push((*message).clone());
        if let Some((_, slots)) = batches.next_if(|(batch, _)| **batch == at) {
            let results = slots
                .iter()
                .flatten()
                .filter_map(|result| rounds.results.get(*result));
            out.extend(
                results
                    .filter_map(|at| bare.get(*at))
                    .map(|message| (*message).clone()),
            );
        }
    }
    History::from_messages(out)
}

/// What is left out, closed or moved, as the projection does it.
fn told(loaded: &Loaded) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |what, at, id: &str, detail: String| {
        changes.push(Change {
            at,
            what,
            id: (!id.is_empty()).then(|| id.to_owned()),
            detail,
        });
    };
    let sent = sent(&loaded.messages);
    let bare: Vec<&Message> = sent.iter().map(|(_, message)| *message).collect();
    let place = |at: usize| sent.get(at).map_or(0, |(place, _)| *place);
    let rounds = Rounds::of(&bare);
    for (at, what) in rounds.results.iter().zip(&rounds.pairs.results) {
        let result = bare.get(*at).and_then(|message| message.as_tool());
        let id = result.map_or("", |result| result.call_id.as_str());
        match what {
            Match::Answer { .. } => {}
            Match::Extra => {
                let detail = format!("a second result for the call `{id}`");
                add("set_aside", place(*at), id, detail);
            }
            Match::Foreign => {
                let detail = format!("a result for `{id}`, which no call before it asks for");
                add("set_aside", place(*at), id, detail);
            }
        }
    }
    for (at, slots) in rounds.batches.iter().zip(&rounds.pairs.answers) {
        let response = bare.get(*at).and_then(|message| message.as_assistant());
        let calls = response.map_or(&[][..], |response| &response.tool_calls);
        let rest = bare.iter().skip(at + 1);
        let until = rest
            .take_while(|message| message.as_assistant().is_none())
            .count()
            + at;
        let rest = bare.iter().skip(at + 1);
        let run = rest
            .take_while(|message| message.as_tool().is_some())
            .count()
            + at;
        for (call, slot) in calls.iter().zip(slots) {
            let result = slot.and_then(|result| rounds.results.get(result));
            let named = call_named(&call.name, &call.id);
            match result {
                // The records of a session say what became of a result that came so late.
                Some(result) if *result > until && loaded.records.is_some() => {
                    let detail =
                        format!("the result of {named}, which came after another response");
                    add("set_aside", place(*result), &call.id, detail);
                    add("answered", place(*at), &call.id, answered(call));
                }
                Some(result) if *result > run => {
                    add(
                        "moved",
                        place(*result),
                        &call.id,
                        format!("the result of {named}, directly behind it"),
                    );
                }
                Some(_) => {}
                None => add("answered", place(*at), &call.id, answered(call)),
            }
        }
    }
    changes
}

/// Writes messages as a request and tells what it cannot hold.
fn encode(
    loaded: &Loaded,
    api: Api,
    target: &Target,
    messages: &[Message],
    changes: &mut Vec<Change>,
    end: usize,
) -> Json {
    // Opaque items go back to the model that made the last of them.
    let made = messages
        .iter()
        .rev()
        .filter_map(|message| message.as_assistant()?.origin.clone());
    let origin = made
        .into_iter()
        .find(|origin| origin.api == api.as_str())
        .unwrap_or_else(|| Origin::new(api.as_str(), "", ""));
    let mut options = PromptOptions::default();
    options.instructions = loaded
        .instructions
        .as_ref()
        .map(|text| text.to_str().as_ref().into());
    let mut encoder = Encoder::new(
        api,
        origin.clone(),
        &options,
        target.encoder(api, &origin.model),
    );
    for message in messages {
        encoder.push(message);
    }
    let body = encoder.body().to_vec();
    for left in encoder.left_out() {
        changes.push(Change {
            at: end,
            what: "removed",
            id: None,
            detail: format!("{}: {}", left.item, left.reason),
        });
    }
    let text = String::from_utf8(body).unwrap_or_default();
    let members = Members::read(&text);
    let mut request = Object::new();
    for name in [
        list_name(api),
        "system",
        "instructions",
        "systemInstruction",
    ] {
        if let Some(value) = members.get(name) {
            request.raw(name, value.get());
        }
    }
    Json::parse(&request.end()).unwrap_or_else(|_| Json::empty_object())
}
