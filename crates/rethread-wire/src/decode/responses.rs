//! OpenAI Responses.
//!
//! Source: the types of the official Python SDK (openai 3.57). Finished items are taken from
//! `output_item.done` or the terminal event; what came in pieces counts only for an item that was
//! never finished. Items are told apart by `output_index`, or by their id where there is none
//! (llama.cpp).

use std::borrow::Cow;
use std::collections::HashMap;

use rethread_core::{
    Json, ModelError, ModelErrorKind, ModelEvent, Stop, StopReason, ToolCall, Usage,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::raw::{Joined, Members, Object, Raw, edited, literal, number, sendable};
use super::template::Template;
use super::{
    BREAK, Failure, Parts, Protocol, cut_free_text, free_text_call, native_arguments, parse,
    readable, show,
};
use crate::Api;
use crate::error::stream_error;
use crate::ids::Ids;

#[derive(Debug, Default)]
pub(super) struct Responses {
    id: String,
    /// The response goes on without this connection.
    background: bool,
    sequence: Option<u64>,
    items: Vec<Item>,
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
    calls: usize,
    ids: Ids,
    reasoning: bool,
    end: Option<End>,
    usage: Option<Usage>,
    /// An event that brings a piece of text for an item.
    template: Template<Target>,
}

/// What a piece of text is for.
#[derive(Clone, Copy, Debug)]
struct Target {
    item: usize,
    /// The part of a reasoning summary.
    part: Option<u64>,
    refusal: bool,
}

/// How the provider says the response ended.
#[derive(Debug)]
struct End {
    status: String,
    incomplete: Option<String>,
}

#[derive(Debug)]
struct Item {
    kind: Kind,
    /// The item as it began.
    added: String,
    /// The item when it was finished.
    done: Option<String>,
    /// Visible text, reasoning or arguments that came in pieces.
    pieces: Joined,
    refusal: bool,
    /// The part of the item the last piece was of.
    part: Option<u64>,
    /// The place among the calls, and the call's id.
    call: usize,
    id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Message,
    Reasoning,
    Function,
    Custom,
    Other,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    sequence_number: Option<Raw<'a>>,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(default)]
    summary_index: Option<u64>,
    #[serde(borrow, default)]
    item_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    item: Option<Raw<'a>>,
    #[serde(borrow, default)]
    delta: Option<Raw<'a>>,
    #[serde(borrow, default)]
    response: Option<Raw<'a>>,
    #[serde(borrow, default)]
    error: Option<Raw<'a>>,
    // Padding.
    #[serde(borrow, default)]
    obfuscation: Option<Raw<'a>>,
}

impl Protocol for Responses {
    fn event(&mut self, json: &str, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        if let Some((target, piece)) = self.template.fit(json) {
            self.piece(target, piece, out);
            return Ok(());
        }
        let Some(event) = parse::<Event<'_>>(json)? else {
            return Ok(());
        };
        if let Some(sequence) = event.sequence_number.and_then(number) {
            self.sequence = Some(sequence);
        }
        match event.kind.as_deref().unwrap_or("") {
            "response.output_text.delta"
            | "response.refusal.delta"
            | "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.function_call_arguments.delta"
            | "response.custom_tool_call_input.delta" => {
                let piece = event.delta.and_then(literal);
                if let (Some(target), Some(piece)) = (self.target(&event), piece) {
                    self.piece(target, piece, out);
                    // The sequence numbers of a response that can be continued are read.
                    if !self.background {
                        let unread = [event.sequence_number, event.obfuscation];
                        let unread = unread.map(|raw| raw.map(RawValue::get));
                        self.template.learn(json, target, piece, &unread);
                    }
                }
            }
            "response.output_item.added" => {
                if let Some(raw) = event.item {
                    let at = self.place(&event, raw);
                    self.begin(at, raw, out);
                }
            }
            "response.output_item.done" => {
                if let Some(raw) = event.item {
                    let at = self.place(&event, raw);
                    self.begin(at, raw, out);
                    self.finish(at, raw, out);
                    out.extend(self.handle().map(ModelEvent::Handle));
                }
            }
            "error" => return Err(stream_error(Api::OpenAiResponses, json).into()),
            kind => {
                if let Some(response) = event.response {
                    self.response(kind, &Members::read(response.get()), json, out)?;
                } else if event.error.is_some() {
                    return Err(stream_error(Api::OpenAiResponses, json).into());
                }
            }
        }
        Ok(())
    }

    fn document(&mut self, json: &str, out: &mut Vec<ModelEvent>) -> Result<bool, Failure> {
        let response = Members::read(json);
        let is_response = response.string("object").as_deref() == Some("response")
            || response
                .get("output")
                .is_some_and(|raw| raw.get().starts_with('['));
        if is_response {
            self.response("", &response, json, out)?;
        }
        Ok(is_response)
    }

    fn has_output(&self) -> bool {
        self.items
            .iter()
            .any(|item| item.done.is_some() || !item.pieces.is_empty())
            || self.calls > 0
    }

    fn stop(&self) -> Option<Stop> {
        let end = self.end.as_ref()?;
        let raw = end.incomplete.as_deref().unwrap_or(&end.status);
        let mut stop = Stop::from_raw(raw, self.calls > 0);
        if end.incomplete.is_none() && end.status != "completed" {
            stop.reason = match end.status.as_str() {
                "cancelled" | "failed" => StopReason::Interrupted,
                _ => StopReason::Other,
            };
        }
        if stop.reason.is_normal() {
            let refusal = self.items.iter().find_map(Item::refusal_text);
            if let Some(refusal) = refusal {
                stop.reason = StopReason::Refusal;
                stop.message = Some(refusal);
            }
        }
        Some(stop)
    }

    fn parts(&mut self, reason: StopReason) -> Parts {
        let mut parts = Parts::default();
        let (mut text, mut refusal) = (Joined::default(), Joined::default());
        let mut reasoning = Joined::default();
        // What goes back of each item, and whether that is the item itself.
        let mut kept: Vec<Kept> = Vec::new();
        let last = self.items.len().saturating_sub(1);
        for (at, item) in self.items.iter().enumerate() {
            let whole = item.done.as_deref();
            kept.push(match item.kind {
                Kind::Message => {
                    let mut own = Joined::default();
                    item.text(&mut own, &mut refusal);
                    text.append(&own);
                    match whole {
                        Some(done) if !(reason == StopReason::Refusal && is_incomplete(done)) => {
                            Kept::Item(done.to_owned())
                        }
                        _ if own.is_empty() => Kept::Nothing,
                        _ => Kept::Instead(bare_message(&own)),
                    }
                }
                Kind::Reasoning => {
                    let mut own = Joined::default();
                    item.reasoning(&mut own);
                    if !reasoning.is_empty() && !own.is_empty() {
                        reasoning.push_str(BREAK);
                    }
                    reasoning.append(&own);
                    whole.map_or(Kept::Nothing, |done| Kept::Reasoning(done.to_owned()))
                }
                Kind::Function | Kind::Custom => {
                    let cut =
                        whole.is_none_or(is_incomplete) || (!reason.is_normal() && at == last);
                    let call = item.call(cut);
                    let goes_back = call.is_decoded() && !reason.withholds_calls();
                    let item = whole
                        .filter(|_| goes_back)
                        .map(|done| item.given_back(done, &call));
                    parts.calls.push(call);
                    item.map_or(Kept::Nothing, Kept::Item)
                }
                Kind::Other => whole
                    .filter(|done| !(is_incomplete(done) && reason.withholds_calls()))
                    .map_or(Kept::Nothing, |done| Kept::Item(done.to_owned())),
            });
        }
        parts.native = together(kept, reason.withholds_calls())
            .into_iter()
            .filter_map(sendable)
            .collect();
        parts.text = if text.is_empty() {
            refusal.text()
        } else {
            text.text()
        };
        parts.reasoning = readable(&reasoning);
        parts.usage = self.usage.clone();
        parts
    }

    fn handle(&self) -> Option<Json> {
        if !self.background || self.id.is_empty() {
            return None;
        }
        let mut handle = Object::new();
        handle.string("response_id", &self.id);
        if let Some(sequence) = self.sequence {
            handle.raw("starting_after", &sequence.to_string());
        }
        Json::parse(&handle.end()).ok()
    }
}

/// What goes back of an item.
#[derive(Debug)]
enum Kept {
    Item(String),
    Reasoning(String),
    /// Something that stands for the item, without its id.
    Instead(String),
    Nothing,
}

/// Leaves out each reasoning item whose own item was left out: the provider takes the two only
/// together. `broken` when the response broke off, so that a last one never got its item.
fn together(kept: Vec<Kept>, broken: bool) -> Vec<String> {
    let mut out = Vec::new();
    // A reasoning item that waits for its own, and whether one was left out since.
    let mut waiting: Option<String> = None;
    let mut left_out = false;
    for item in kept {
        match item {
            Kept::Reasoning(raw) => {
                out.extend(waiting.replace(raw).filter(|_| !left_out));
                left_out = false;
            }
            Kept::Item(raw) => {
                out.extend(waiting.take());
                out.push(raw);
            }
            Kept::Instead(raw) => {
                waiting = None;
                out.push(raw);
            }
            // Another item of the same step may still follow.
            Kept::Nothing => left_out = true,
        }
    }
    out.extend(waiting.filter(|_| !left_out && !broken));
    out
}

impl Responses {
    /// Reads a response object, of an event or of a whole body.
    fn response(
        &mut self,
        kind: &str,
        response: &Members<'_>,
        json: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), Failure> {
        if let Some(id) = response.string("id") {
            self.id = id;
        }
        if response
            .get("background")
            .is_some_and(|raw| raw.get() == "true")
        {
            self.background = true;
        }
        if let Some(usage) = response.get("usage") {
            self.usage = Some(usage_of(usage));
        }
        let status = match kind {
            "response.completed" => "completed".to_owned(),
            "response.incomplete" => "incomplete".to_owned(),
            "response.failed" => "failed".to_owned(),
            "response.cancelled" => "cancelled".to_owned(),
            _ => response.string("status").unwrap_or_default(),
        };
        match status.as_str() {
            "" | "in_progress" | "queued" => {
                out.extend(self.handle().map(ModelEvent::Handle));
                return Ok(());
            }
            "failed" => {
                return Err(if response.get("error").is_some() {
                    stream_error(Api::OpenAiResponses, json)
                } else {
                    ModelError::new(
                        ModelErrorKind::Server,
                        "the provider says the response failed",
                    )
                }
                .into());
            }
            _ => {}
        }
        let output = response.list("output");
        let finished = self.items.iter().filter(|item| item.done.is_some()).count();
        if output.len() >= finished {
            for (index, raw) in output.iter().enumerate() {
                let at = self.terminal_place(index, raw);
                self.begin(at, raw, out);
                self.finish(at, raw, out);
            }
        }
        self.end = Some(End {
            incomplete: response.object("incomplete_details").string("reason"),
            status,
        });
        Ok(())
    }

    /// The place of the item an event is about; a new one if it is not known.
    fn place(&mut self, event: &Event<'_>, item: Raw<'_>) -> usize {
        let id = Members::read(item.get()).string("id").unwrap_or_default();
        let known = match event.output_index {
            Some(index) => self.by_index.get(&index).copied(),
            None => self.by_id.get(&id).copied(),
        };
        let at = known.unwrap_or(self.items.len());
        if let Some(index) = event.output_index {
            self.by_index.insert(index, at);
        }
        if !id.is_empty() {
            self.by_id.insert(id, at);
        }
        at
    }

    /// The place of an item of the terminal response, which lists them in order.
    fn terminal_place(&self, index: usize, item: Raw<'_>) -> usize {
        let id = Members::read(item.get()).string("id").unwrap_or_default();
        self.by_id
            .get(&id)
            .or_else(|| self.by_index.get(&(index as u64)))
            .copied()
            .unwrap_or(index)
            .min(self.items.len())
    }

    /// Adds an item if there is none at that place yet.
    fn begin(&mut self, at: usize, raw: Raw<'_>, out: &mut Vec<ModelEvent>) {
        if at < self.items.len() {
            return;
        }
        let members = Members::read(raw.get());
        let kind = match members.string("type").as_deref() {
            Some("message") => Kind::Message,
            Some("reasoning") => Kind::Reasoning,
            Some("function_call") => Kind::Function,
            Some("custom_tool_call") => Kind::Custom,
            _ => Kind::Other,
        };
        let mut id = String::new();
        if matches!(kind, Kind::Function | Kind::Custom) {
            let name = members.string("name").unwrap_or_default();
            let came = members.string("call_id").unwrap_or_default();
            id = self.ids.take(&came, &[&self.id, &name]);
            out.push(ModelEvent::ToolCall {
                index: self.calls,
                id: id.clone(),
                name,
            });
        }
        // An event that names no item means this one now.
        self.template = Template::default();
        self.items.push(Item {
            kind,
            added: raw.get().to_owned(),
            done: None,
            pieces: Joined::default(),
            refusal: false,
            part: None,
            call: self.calls,
            id,
        });
        self.calls += usize::from(matches!(kind, Kind::Function | Kind::Custom));
    }

    /// What the piece of an event is for.
    fn target(&self, event: &Event<'_>) -> Option<Target> {
        let at = match (event.output_index, event.item_id.as_deref()) {
            (Some(index), _) => self.by_index.get(&index).copied(),
            (None, Some(id)) => self.by_id.get(id).copied(),
            (None, None) => None,
        };
        Some(Target {
            item: at.or_else(|| self.items.len().checked_sub(1))?,
            part: event.summary_index,
            refusal: event.kind.as_deref() == Some("response.refusal.delta"),
        })
    }

    fn piece(&mut self, target: Target, piece: &str, out: &mut Vec<ModelEvent>) {
        let Some(item) = self.items.get_mut(target.item) else {
            return;
        };
        match item.kind {
            Kind::Function | Kind::Custom => {
                let index = item.call;
                let text = item.pieces.push(piece);
                show(out, text, |text| ModelEvent::ToolCallDelta { index, text });
            }
            Kind::Reasoning => {
                // A new part of a summary, or another item's reasoning after one.
                let another = item.part != target.part || item.pieces.is_empty();
                if another && self.reasoning {
                    if !item.pieces.is_empty() {
                        item.pieces.push_str(BREAK);
                    }
                    out.push(ModelEvent::Reasoning(BREAK.to_owned()));
                }
                item.part = target.part;
                let text = item.pieces.push(piece);
                self.reasoning |= !text.is_empty();
                show(out, text, ModelEvent::Reasoning);
            }
            Kind::Message | Kind::Other => {
                item.refusal |= target.refusal;
                show(out, item.pieces.push(piece), ModelEvent::Text);
            }
        }
    }

    /// Keeps an item as it was finished, and shows what of it did not come in pieces.
    fn finish(&mut self, at: usize, raw: Raw<'_>, out: &mut Vec<ModelEvent>) {
        let Some(item) = self.items.get_mut(at) else {
            return;
        };
        let first = item.done.is_none();
        item.done = Some(raw.get().to_owned());
        if !first || !item.pieces.is_empty() {
            return;
        }
        let mut text = Joined::default();
        match item.kind {
            Kind::Message => {
                let mut refusal = Joined::default();
                item.text(&mut text, &mut refusal);
                let text = if text.is_empty() { refusal } else { text };
                show(out, text.to_str(), ModelEvent::Text);
            }
            Kind::Reasoning => {
                item.reasoning(&mut text);
                if !text.is_empty() && self.reasoning {
                    out.push(ModelEvent::Reasoning(BREAK.to_owned()));
                }
                self.reasoning |= !text.is_empty();
                show(out, text.to_str(), ModelEvent::Reasoning);
            }
            Kind::Function | Kind::Custom => {
                let index = item.call;
                let text = item.arguments().to_str();
                show(out, text, |text| ModelEvent::ToolCallDelta { index, text });
            }
            Kind::Other => {}
        }
    }
}

impl Item {
    /// Adds the visible text and the refusal of a message.
    fn text(&self, text: &mut Joined, refusal: &mut Joined) {
        let Some(done) = &self.done else {
            let into = if self.refusal { refusal } else { text };
            into.append(&self.pieces);
            return;
        };
        for part in Members::read(done).list("content") {
            let part = Members::read(part.get());
            let (key, into) = match part.string("type").as_deref() {
                Some("output_text") => ("text", &mut *text),
                Some("refusal") => ("refusal", &mut *refusal),
                _ => continue,
            };
            if let Some(piece) = part.get(key).and_then(literal) {
                into.push(piece);
            }
        }
    }

    fn refusal_text(&self) -> Option<String> {
        if self.kind != Kind::Message {
            return None;
        }
        let (mut text, mut refusal) = (Joined::default(), Joined::default());
        self.text(&mut text, &mut refusal);
        (!refusal.is_empty()).then(|| refusal.to_str())
    }

    /// Adds the readable reasoning: the summary, or the text itself of open models.
    fn reasoning(&self, into: &mut Joined) {
        let Some(done) = &self.done else {
            into.append(&self.pieces);
            return;
        };
        let item = Members::read(done);
        let texts = |key| {
            let parts = item.list(key).into_iter();
            parts.filter_map(|part| Members::read(part.get()).get("text").and_then(literal))
        };
        let mut summary: Vec<&str> = texts("summary").collect();
        if summary.is_empty() {
            summary = texts("content").collect();
        }
        for text in summary {
            if !into.is_empty() {
                into.push_str(BREAK);
            }
            into.push(text);
        }
    }

    /// The arguments of a call as they came: those of the finished item, else the pieces.
    fn arguments(&self) -> Joined {
        let key = if self.kind == Kind::Custom {
            "input"
        } else {
            "arguments"
        };
        let mut joined = Joined::default();
        let item = Members::read(self.done.as_ref().unwrap_or(&self.added));
        match item.get(key) {
            Some(raw) if self.done.is_some() || self.pieces.is_empty() => match literal(raw) {
                Some(whole) => {
                    joined.push(whole);
                }
                None => {
                    joined.push_str(raw.get());
                }
            },
            _ => joined.append(&self.pieces),
        }
        joined
    }

    /// The call; `cut` when its text may not be all of it.
    fn call(&self, cut: bool) -> ToolCall {
        let item = Members::read(self.done.as_ref().unwrap_or(&self.added));
        let name = item.string("name").unwrap_or_default();
        let arguments = self.arguments();
        if self.kind == Kind::Function {
            return ToolCall::from_text(&self.id, name, &arguments.to_str());
        }
        let mut call = free_text_call(&self.id, &name, &arguments);
        if cut {
            cut_free_text(&mut call, &arguments);
        }
        call
    }

    /// A call's item as it is given back.
    fn given_back(&self, done: &str, call: &ToolCall) -> String {
        let item = Members::read(done);
        let mut set = Vec::new();
        if item.string("call_id").as_deref() != Some(call.id.as_str()) {
            set.push((
                "call_id",
                rethread_core::Text::new(&call.id).literal().to_owned(),
            ));
        }
        if self.kind == Kind::Function {
            let arguments = native_arguments(call, &self.arguments());
            if item.get("arguments").map(|raw| raw.get()) != Some(&arguments) {
                set.push(("arguments", arguments));
            }
        }
        if set.is_empty() {
            done.to_owned()
        } else {
            edited(&item, &set, &[])
        }
    }
}

fn is_incomplete(item: &str) -> bool {
    let status = Members::read(item).string("status");
    matches!(status.as_deref(), Some("incomplete" | "in_progress"))
}

/// A message that stands for one that was cut or filtered. It has no id, so it needs no reasoning item
/// before it.
fn bare_message(text: &Joined) -> String {
    let mut part = Object::new();
    part.string("type", "output_text");
    part.raw("text", &text.literal());
    part.raw("annotations", "[]");
    let mut message = Object::new();
    message.string("type", "message");
    message.string("role", "assistant");
    message.list("content", &[part.end()]);
    message.end()
}

fn usage_of(raw: Raw<'_>) -> Usage {
    let counts = Members::read(raw.get());
    let input = counts.object("input_tokens_details");
    let mut usage = Usage::default();
    usage.input = counts.number("input_tokens");
    usage.output = counts.number("output_tokens");
    usage.cache_read = input.number("cached_tokens");
    usage.cache_write = input.number("cache_write_tokens");
    usage.reasoning = counts
        .object("output_tokens_details")
        .number("reasoning_tokens");
    usage
}
