//! Anthropic Messages.
//!
//! Source: the types of the official Python SDK (anthropic 1.17) and the provider's documentation of
//! streaming. Blocks are told apart by their `index` and may overlap.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rethread_core::{ModelEvent, Stop, StopReason, Text, ToolCall, Usage};
use serde::Deserialize;

use super::raw::{Joined, Members, Object, Raw, edited, literal, sendable, string};
use super::template::Template;
use super::{BREAK, Failure, Parts, Protocol, parse, readable, set, show};
use crate::Api;
use crate::error::stream_error;
use crate::ids::Ids;

#[derive(Debug, Default)]
pub(super) struct Messages {
    id: String,
    blocks: Vec<Block>,
    /// The newest block of each index.
    by_index: BTreeMap<u64, usize>,
    calls: usize,
    ids: Ids,
    reasoning: bool,
    stop_reason: Option<String>,
    stop_sequence: Option<String>,
    stop_details: Option<String>,
    transformations: Option<String>,
    usage: Option<Tokens>,
    /// An event that brings a piece of text for a block.
    template: Template<Target>,
}

/// What a piece of text is for: a block, and its input or what it says.
#[derive(Clone, Copy, Debug)]
struct Target {
    block: usize,
    is_input: bool,
}

/// Token counts as they are sent: cumulative, and absent where nothing changed.
#[derive(Debug, Default)]
struct Tokens {
    input: Option<u64>,
    cache_write: Option<u64>,
    cache_read: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
}

#[derive(Debug)]
struct Block {
    index: u64,
    kind: Kind,
    /// The block as it began.
    start: String,
    /// Text or thinking.
    text: Joined,
    /// The JSON text of a call's input.
    input: Joined,
    signature: Option<String>,
    citations: Vec<String>,
    /// What deltas of unknown kinds added.
    more: Vec<(String, More)>,
    /// The place among the calls, and the call's id.
    call: usize,
    id: String,
    closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    ToolUse,
    ServerToolUse,
    /// Not given back: the provider refuses it in a request.
    OutputOnly,
    Other,
}

/// A member that came in pieces, or whole.
#[derive(Debug)]
enum More {
    Text(Joined),
    Value(String),
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    content_block: Option<Raw<'a>>,
    #[serde(borrow, default)]
    message: Option<Raw<'a>>,
    #[serde(borrow, default)]
    usage: Option<Raw<'a>>,
    #[serde(borrow, default)]
    error: Option<Raw<'a>>,
    #[serde(borrow, default)]
    input_transformations: Option<Raw<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<Raw<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Raw<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<Raw<'a>>,
    #[serde(borrow, default)]
    signature: Option<Raw<'a>>,
    #[serde(borrow, default)]
    citation: Option<Raw<'a>>,
    #[serde(borrow, default)]
    stop_reason: Option<Raw<'a>>,
    #[serde(borrow, default)]
    stop_sequence: Option<Raw<'a>>,
    #[serde(borrow, default)]
    stop_details: Option<Raw<'a>>,
}

impl Protocol for Messages {
    fn event(&mut self, json: &str, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        if let Some((target, piece)) = self.template.fit(json) {
            self.piece(target, piece, out);
            return Ok(());
        }
        let Some(event) = parse::<Event<'_>>(json)? else {
            return Ok(());
        };
        match event.kind.as_deref().unwrap_or("") {
            "content_block_delta" => {
                let block = self.block(event.index);
                if let (Some(delta), Some(block)) = (event.delta, block) {
                    self.delta(block, &delta, json, out);
                }
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.start(event.index.unwrap_or(self.blocks.len() as u64), block, out);
                }
            }
            "content_block_stop" => {
                let block = self.block(event.index);
                if let Some(block) = block.and_then(|at| self.blocks.get_mut(at)) {
                    block.closed = true;
                }
            }
            "message_start" => {
                if let Some(message) = event.message {
                    self.message(&Members::read(message.get()));
                }
            }
            "message_delta" => {
                if let Some(delta) = &event.delta {
                    self.stop_reason = delta
                        .stop_reason
                        .and_then(string)
                        .or(self.stop_reason.take());
                    self.stop_sequence = delta.stop_sequence.and_then(string);
                    self.stop_details = delta.stop_details.map(|raw| raw.get().to_owned());
                }
                self.usage(event.usage);
                if let Some(raw) = event.input_transformations {
                    self.transformations = Some(raw.get().to_owned());
                }
            }
            // An error also comes without a type, from servers that speak OpenAI otherwise.
            "error" => return Err(stream_error(Api::AnthropicMessages, json).into()),
            _ if event.error.is_some() => {
                return Err(stream_error(Api::AnthropicMessages, json).into());
            }
            _ => {}
        }
        Ok(())
    }

    fn document(&mut self, json: &str, out: &mut Vec<ModelEvent>) -> Result<bool, Failure> {
        let message = Members::read(json);
        if message
            .get("content")
            .is_none_or(|raw| !raw.get().starts_with('['))
            || message.get("error").is_some()
        {
            return Ok(false);
        }
        self.message(&message);
        for (index, block) in message.list("content").into_iter().enumerate() {
            self.start(index as u64, block, out);
            if let Some(block) = self.blocks.last_mut() {
                block.closed = true;
            }
        }
        self.stop_reason = message.string("stop_reason");
        self.stop_sequence = message.string("stop_sequence");
        self.stop_details = message.get("stop_details").map(|raw| raw.get().to_owned());
        Ok(true)
    }

    fn has_output(&self) -> bool {
        // Text and thinking begin empty.
        self.blocks.iter().any(|block| {
            !matches!(block.kind, Kind::Text | Kind::Thinking)
                || block.is_signed()
                || !block.text.is_empty()
                || !block.citations.is_empty()
                || !block.more.is_empty()
        })
    }

    fn stop(&self) -> Option<Stop> {
        let raw = self.stop_reason.as_deref()?;
        let has_calls = self.blocks.iter().any(|block| block.kind == Kind::ToolUse);
        let mut stop = Stop::from_raw(raw, has_calls);
        let details = self.stop_details.as_deref().map(Members::read);
        if let Some(details) = &details {
            stop.category = details.string("category");
            stop.message = details.string("explanation");
        } else if stop.reason == StopReason::Refusal {
            stop.category = None;
        }
        let mut detail = Object::new();
        if let Some(sequence) = &self.stop_sequence {
            detail.string("stop_sequence", sequence);
        }
        if let Some(details) = &details {
            for (key, value) in details.iter() {
                if !matches!(key, "type" | "category" | "explanation") {
                    detail.raw(key, value.get());
                }
            }
        }
        if let Some(raw) = &self.transformations {
            detail.raw("input_transformations", raw);
        }
        if !detail.is_empty() {
            stop.detail = sendable(detail.end());
        }
        Some(stop)
    }

    fn parts(&mut self, reason: StopReason) -> Parts {
        // Blocks that share an index stay in the order in which they began.
        self.blocks.sort_by_key(|block| block.index);
        let mut parts = Parts::default();
        let (mut text, mut reasoning) = (Joined::default(), Joined::default());
        let cut_short = !(reason.is_normal() || reason == StopReason::Paused);
        let answered = self.answered_server_tools(cut_short);
        for block in &self.blocks {
            let start = Members::read(&block.start);
            let item = match block.kind {
                Kind::Text => {
                    text.append(&block.text);
                    // The provider refuses text that is blank.
                    let blank = block.text.text().is_blank();
                    (!blank).then(|| block.with(&start, "text"))
                }
                Kind::Thinking => {
                    if !reasoning.is_empty() && !block.text.is_empty() {
                        reasoning.push_str(BREAK);
                    }
                    reasoning.append(&block.text);
                    block.is_signed().then(|| block.with(&start, "thinking"))
                }
                Kind::ToolUse => {
                    let name = start.string("name").unwrap_or_default();
                    let call = ToolCall::from_text(&block.id, name, &block.input_text(&start));
                    let item = (call.is_decoded() && !reason.withholds_calls()).then(|| {
                        let id = Text::new(&call.id).literal().to_owned();
                        let set = [("id", id), ("input", call.arguments.get().to_owned())];
                        edited(&start, &set, &[])
                    });
                    parts.calls.push(call);
                    item
                }
                Kind::ServerToolUse => {
                    let id = start.string("id").unwrap_or_default();
                    let call = ToolCall::from_text("", "", &block.input_text(&start));
                    // One without its result goes back only where the provider itself carries on.
                    let goes_back = call.is_decoded() && (!cut_short || answered.contains(&id));
                    goes_back.then(|| {
                        let set = [("input", call.arguments.get().to_owned())];
                        edited(&start, &set, &[])
                    })
                }
                Kind::OutputOnly => None,
                Kind::Other => block.is_whole(cut_short).then(|| block.with(&start, "")),
            };
            parts.native.extend(item.and_then(sendable));
        }
        parts.text = text.text();
        parts.reasoning = readable(&reasoning);
        parts.usage = self.usage.as_ref().map(Tokens::total);
        parts
    }
}

impl Messages {
    fn message(&mut self, message: &Members<'_>) {
        self.id = message.string("id").unwrap_or_default();
        self.usage(message.get("usage"));
        if let Some(raw) = message.get("input_transformations") {
            self.transformations = Some(raw.get().to_owned());
        }
    }

    fn usage(&mut self, raw: Option<Raw<'_>>) {
        let Some(raw) = raw else { return };
        let usage = Members::read(raw.get());
        let details = usage.object("output_tokens_details");
        let tokens = self.usage.get_or_insert_default();
        set(&mut tokens.input, usage.number("input_tokens"));
        set(
            &mut tokens.cache_write,
            usage.number("cache_creation_input_tokens"),
        );
        set(
            &mut tokens.cache_read,
            usage.number("cache_read_input_tokens"),
        );
        set(&mut tokens.output, usage.number("output_tokens"));
        set(&mut tokens.thinking, details.number("thinking_tokens"));
    }

    /// The place of the newest block of an index.
    fn block(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(index) => self.by_index.get(&index).copied(),
            None => self.blocks.len().checked_sub(1),
        }
    }

    fn start(&mut self, index: u64, raw: Raw<'_>, out: &mut Vec<ModelEvent>) {
        let members = Members::read(raw.get());
        let kind = match members.string("type").as_deref() {
            Some("text") => Kind::Text,
            Some("thinking") => Kind::Thinking,
            Some("tool_use") => Kind::ToolUse,
            Some("server_tool_use" | "mcp_tool_use") => Kind::ServerToolUse,
            Some("container_upload") => Kind::OutputOnly,
            _ => Kind::Other,
        };
        let mut id = members.string("id").unwrap_or_default();
        let name = members.string("name").unwrap_or_default();
        if kind == Kind::ToolUse {
            id = self.ids.take(&id, &[&self.id, &name]);
            out.push(ModelEvent::ToolCall {
                index: self.calls,
                id: id.clone(),
                name,
            });
        }
        // The index now means this block.
        self.template = Template::default();
        self.by_index.insert(index, self.blocks.len());
        self.blocks.push(Block {
            index,
            kind,
            start: raw.get().to_owned(),
            text: Joined::default(),
            input: Joined::default(),
            signature: members
                .get("signature")
                .and_then(literal)
                .map(str::to_owned),
            citations: Vec::new(),
            more: Vec::new(),
            call: self.calls,
            id,
            closed: false,
        });
        let at = self.blocks.len() - 1;
        self.calls += usize::from(kind == Kind::ToolUse);
        let begin = match kind {
            Kind::Text => members.get("text"),
            Kind::Thinking => members.get("thinking"),
            _ => None,
        };
        if let Some(piece) = begin.and_then(literal) {
            let target = Target {
                block: at,
                is_input: false,
            };
            self.piece(target, piece, out);
        }
    }

    /// Adds a piece of text to a block.
    fn piece(&mut self, target: Target, piece: &str, out: &mut Vec<ModelEvent>) {
        let Some(block) = self.blocks.get_mut(target.block) else {
            return;
        };
        if target.is_input {
            let text = block.input.push(piece);
            if block.kind == Kind::ToolUse {
                let index = block.call;
                show(out, text, |text| ModelEvent::ToolCallDelta { index, text });
            }
            return;
        }
        let first = block.text.is_empty();
        let text = block.text.push(piece);
        if block.kind != Kind::Thinking {
            return show(out, text, ModelEvent::Text);
        }
        if first && self.reasoning && !text.is_empty() {
            out.push(ModelEvent::Reasoning(BREAK.to_owned()));
        }
        self.reasoning |= !text.is_empty();
        show(out, text, ModelEvent::Reasoning);
    }

    fn delta(&mut self, at: usize, delta: &Delta<'_>, json: &str, out: &mut Vec<ModelEvent>) {
        let kind = delta.kind.as_deref().unwrap_or("");
        let piece = match kind {
            "text_delta" => delta.text,
            "thinking_delta" => delta.thinking,
            "input_json_delta" => delta.partial_json,
            _ => None,
        };
        if let Some(piece) = piece.and_then(literal) {
            let target = Target {
                block: at,
                is_input: kind == "input_json_delta",
            };
            self.piece(target, piece, out);
            return self.template.learn(json, target, piece, &[]);
        }
        let Some(block) = self.blocks.get_mut(at) else {
            return;
        };
        match kind {
            "text_delta" | "thinking_delta" | "input_json_delta" => {}
            // It comes once and whole.
            "signature_delta" => {
                if let Some(signature) = delta.signature.and_then(literal) {
                    block.signature = Some(signature.to_owned());
                }
            }
            "citations_delta" => {
                block
                    .citations
                    .extend(delta.citation.map(|raw| raw.get().to_owned()));
            }
            // A block of a kind not known here, such as the beta `compaction`, is kept whole: strings are
            // pieces, anything else replaces.
            _ if block.kind == Kind::Other => {
                for (key, value) in Members::read(json).object("delta").iter() {
                    if key != "type" {
                        block.add(key, value);
                    }
                }
            }
            _ => {}
        }
    }

    /// The ids of the server's own calls whose result came.
    fn answered_server_tools(&self, cut_short: bool) -> Vec<String> {
        let blocks = self.blocks.iter();
        blocks
            .filter(|block| block.kind == Kind::Other && block.is_whole(cut_short))
            .filter_map(|block| Members::read(&block.start).string("tool_use_id"))
            .collect()
    }
}

impl Block {
    /// Whether a signature came; at first there is an empty one.
    fn is_signed(&self) -> bool {
        self.signature.as_deref().is_some_and(|s| s.len() > 2)
    }

    /// Whether nothing of the block is missing, given whether the response was cut short.
    fn is_whole(&self, cut_short: bool) -> bool {
        self.closed || !cut_short
    }

    fn add(&mut self, key: &str, value: Raw<'_>) {
        let at = self.more.iter().position(|(name, _)| name == key);
        let known = at.and_then(|at| self.more.get_mut(at));
        match (known, literal(value)) {
            (Some((_, More::Text(joined))), Some(piece)) => {
                joined.push(piece);
            }
            (Some((_, more)), _) => *more = More::Value(value.get().to_owned()),
            (None, Some(piece)) => {
                let mut joined = Joined::default();
                if let Some(begin) = Members::read(&self.start).get(key).and_then(literal) {
                    joined.push(begin);
                }
                joined.push(piece);
                self.more.push((key.to_owned(), More::Text(joined)));
            }
            (None, None) => {
                let value = More::Value(value.get().to_owned());
                self.more.push((key.to_owned(), value));
            }
        }
    }

    /// The block as it is given back, with its text under `key`.
    fn with(&self, start: &Members<'_>, key: &str) -> String {
        let mut set: Vec<(&str, String)> = Vec::new();
        if !key.is_empty() {
            set.push((key, self.text.literal()));
        }
        if let Some(signature) = &self.signature {
            set.push(("signature", signature.clone()));
        }
        if !self.citations.is_empty() {
            let mut all: Vec<&str> = start
                .list("citations")
                .iter()
                .map(|raw| raw.get())
                .collect();
            all.extend(self.citations.iter().map(String::as_str));
            set.push(("citations", format!("[{}]", all.join(","))));
        }
        for (key, more) in &self.more {
            let value = match more {
                More::Text(joined) => joined.literal(),
                More::Value(value) => value.clone(),
            };
            set.push((key.as_str(), value));
        }
        edited(start, &set, &[])
    }

    /// The JSON text of a call's input. Most servers send it in pieces, some whole at the start.
    fn input_text(&self, start: &Members<'_>) -> String {
        if self.input.is_empty() {
            start
                .get("input")
                .map(|raw| raw.get().to_owned())
                .unwrap_or_default()
        } else {
            self.input.to_str()
        }
    }
}

impl Tokens {
    fn total(&self) -> Usage {
        let mut usage = Usage::default();
        let parts = [self.input, self.cache_write, self.cache_read];
        usage.input = parts
            .into_iter()
            .flatten()
            .fold(None, |sum: Option<u64>, part| {
                Some(sum.unwrap_or(0).saturating_add(part))
            });
        usage.output = self.output;
        usage.cache_read = self.cache_read;
        usage.cache_write = self.cache_write;
        usage.reasoning = self.thinking;
        usage
    }
}
