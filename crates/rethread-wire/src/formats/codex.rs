//! The rollout file of Codex: one line each for the session, the items of the Responses API, and
//! events.
//!
//! Source: files of version 0.2 and later, in which every line is `{"timestamp","type","payload"}`; in
//! earlier ones the items stand there bare.

use std::collections::HashMap;

use rethread_core::{Json, Message, Origin, Stop, StopReason, Text};

use super::lines::lines;
use super::parts::{json_text, lead_in};
use super::{Loaded, responses};
use crate::Api;
use crate::decode::raw::{Members, elements};

pub(super) fn read(text: &str, loaded: &mut Loaded) {
    let lines = lines(text, &mut loaded.problems);
    let mut rollout = Rollout::default();
    for line in lines {
        rollout.line(line.number, line.json, loaded);
    }
    rollout.flush(loaded);
    let lead = lead_in(&mut loaded.messages);
    loaded.instructions = rollout.instructions.or(lead);
}

#[derive(Default)]
struct Rollout {
    items: Vec<(usize, Json)>,
    origin: Option<Origin>,
    instructions: Option<Text>,
    provider: Option<String>,
}

impl Rollout {
    fn line(&mut self, number: usize, json: Json, loaded: &mut Loaded) {
        let line = Members::read(json.get());
        let kind = line.string("type").unwrap_or_default();
        let Some(payload) = line.get("payload") else {
            // An item as it is, or the head of an older file.
            if let Some(text) = line.get("instructions") {
                self.instructions = Some(json_text(text)).filter(|text| !text.is_blank());
            } else if !kind.is_empty() {
                drop(line);
                self.items.push((number, json));
            } else if line.get("record_type").is_none() {
                loaded.problem("bad_record", number, "the line is no item of a session");
            }
            return;
        };
        let payload_json = || Json::parse(payload.get()).ok();
        let members = Members::read(payload.get());
        match kind.as_str() {
            "session_meta" => {
                let base = members
                    .object("base_instructions")
                    .get("text")
                    .map(json_text);
                let text = base.or_else(|| members.get("instructions").map(json_text));
                self.instructions = text
                    .filter(|text| !text.is_blank())
                    .or(self.instructions.take());
                self.provider = members.string("model_provider").or(self.provider.take());
            }
            "turn_context" => {
                self.flush(loaded);
                let provider = self.provider.as_deref().unwrap_or("openai");
                self.origin = members
                    .string("model")
                    .map(|model| Origin::new(Api::OpenAiResponses.as_str(), provider, model));
            }
            "response_item" => match members.string("type").as_deref() {
                // A snapshot of the work tree, for undoing.
                Some("ghost_snapshot") => {}
                _ => self.items.extend(payload_json().map(|json| (number, json))),
            },
            "compacted" => self.compacted(number, &members, loaded),
            "event_msg" => match members.string("type").as_deref() {
                Some("turn_aborted") => self.aborted(loaded),
                Some("thread_rolled_back") => {
                    let turns = members.number("num_turns").unwrap_or(0);
                    self.rolled_back(number, turns, loaded);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn flush(&mut self, loaded: &mut Loaded) {
        let items = std::mem::take(&mut self.items);
        if !items.is_empty() {
            responses::messages(items, &HashMap::new(), self.origin.as_ref(), loaded);
        }
    }

    /// From here on another history is sent: the one that is given, or the summary.
    fn compacted(&mut self, number: usize, payload: &Members<'_>, loaded: &mut Loaded) {
        self.flush(loaded);
        let history = payload
            .get("replacement_history")
            .map(elements)
            .unwrap_or_default();
        if history.is_empty() {
            let text = payload.get("message").map(json_text).unwrap_or_default();
            loaded.messages.push((number, Message::summary(text)));
            return;
        }
        for (_, message) in &mut loaded.messages {
            message.in_context = false;
        }
        for raw in history {
            self.items
                .extend(Json::parse(raw.get()).ok().map(|json| (number, json)));
        }
        self.flush(loaded);
    }

    /// The turn was ended by the person. A response it ends with was not the last word.
    fn aborted(&mut self, loaded: &mut Loaded) {
        self.flush(loaded);
        if let Some((_, message)) = loaded.messages.last_mut()
            && let rethread_core::Body::Assistant(response) = &mut message.body
            && response.tool_calls.is_empty()
        {
            let stop = Stop::new(StopReason::Interrupted);
            response
                .stop
                .get_or_insert(stop.with_message("the turn was aborted"));
        }
    }

    /// The last turns do not count any more.
    fn rolled_back(&mut self, number: usize, turns: u64, loaded: &mut Loaded) {
        self.flush(loaded);
        let users = loaded
            .messages
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, (_, message))| {
                message.in_context && matches!(message.body, rethread_core::Body::User(_))
            });
        let turns = usize::try_from(turns).unwrap_or(usize::MAX);
        let Some(start) = users.take(turns).last().map(|(at, _)| at) else {
            return;
        };
        for (_, message) in loaded.messages.iter_mut().skip(start) {
            message.in_context = false;
        }
        let detail = "turns before this were taken back; they are kept and not sent";
        loaded.problem("rolled_back", number, detail);
    }
}
