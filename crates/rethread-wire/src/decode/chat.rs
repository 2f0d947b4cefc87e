//! OpenAI Chat Completions and the many servers that copy it.
//!
//! Source: the types of the official Python SDK (openai 3.57), and what other servers were seen to
//! send: ids repeated or missing, calls without an index, reasoning in fields of their own.

use rethread_core::{ModelEvent, Stop, StopReason, ToolCall, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::raw::{Joined, Members, Object, Raw, elements, literal, sendable, string};
use super::template::Template;
use super::{
    Failure, Parts, Protocol, cut_free_text, free_text_call, native_arguments, parse, readable,
    show,
};
use crate::Api;
use crate::error::stream_error;
use crate::ids::Ids;

#[derive(Debug, Default)]
pub(super) struct Chat {
    id: String,
    content: Vec<Part>,
    /// Whether the content came as a text, if only an empty one.
    has_content: bool,
    /// What is shown of the reasoning, whichever field it came in.
    reasoning: Joined,
    reasoning_field: Option<Joined>,
    reasoning_content: Option<Joined>,
    details: Vec<Detail>,
    refusal: Joined,
    annotations: Vec<String>,
    extra_content: Option<String>,
    calls: Vec<Call>,
    ids: Ids,
    finish_reason: Option<String>,
    native_finish_reason: Option<String>,
    usage: Option<Usage>,
    template: Template<Target>,
}

/// What a piece of text is for.
#[derive(Clone, Copy, Debug)]
enum Target {
    Content,
    Reasoning,
    Arguments(usize),
}

/// A piece of the content. Most servers send one text; Mistral also lists.
#[derive(Debug)]
enum Part {
    Text(Joined),
    Thinking(Joined),
    Other(String),
}

/// An entry of `reasoning_details`.
#[derive(Debug)]
struct Detail {
    kind: String,
    index: Option<u64>,
    fields: Vec<(String, Field)>,
}

#[derive(Debug)]
enum Field {
    Joined(Joined),
    Raw(String),
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    /// The id that came.
    came: String,
    id: String,
    name: String,
    arguments: Joined,
    /// A custom tool takes free text.
    custom: bool,
    /// Whatever else the call carries, such as a signature of the model behind the server.
    extra: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    id: Option<Raw<'a>>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    usage: Option<Raw<'a>>,
    #[serde(borrow, default)]
    error: Option<Raw<'a>>,
    // Not read, but different in every chunk.
    #[serde(borrow, default)]
    created: Option<Raw<'a>>,
    #[serde(borrow, default)]
    obfuscation: Option<Raw<'a>>,
    #[serde(borrow, default)]
    p: Option<Raw<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Raw<'a>>,
    #[serde(borrow, default)]
    native_finish_reason: Option<Raw<'a>>,
    #[serde(borrow, default)]
    error: Option<Raw<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Raw<'a>>,
    #[serde(borrow, default)]
    reasoning_content: Option<Raw<'a>>,
    #[serde(borrow, default)]
    reasoning: Option<Raw<'a>>,
    #[serde(borrow, default)]
    reasoning_details: Option<Raw<'a>>,
    #[serde(borrow, default)]
    refusal: Option<Raw<'a>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<ToolPiece<'a>>>,
    #[serde(borrow, default)]
    annotations: Option<Raw<'a>>,
    #[serde(borrow, default)]
    extra_content: Option<Raw<'a>>,
}

/// A tool call or a piece of one.
struct ToolPiece<'a>(Members<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for ToolPiece<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Members::deserialize(deserializer).map(Self)
    }
}

impl Protocol for Chat {
    fn event(&mut self, json: &str, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        if let Some((target, piece)) = self.template.fit(json) {
            self.piece(target, piece, out);
            return Ok(());
        }
        let Some(chunk) = parse::<Chunk<'_>>(json)? else {
            return Ok(());
        };
        if chunk.error.is_some() {
            return Err(stream_error(Api::OpenAiChat, json).into());
        }
        let only = self.only_piece(&chunk);
        let unread = [chunk.created, chunk.obfuscation, chunk.p].map(|raw| raw.map(RawValue::get));
        self.chunk(chunk, out)?;
        if let Some((target, piece)) = only {
            self.template.learn(json, target, piece, &unread);
        }
        Ok(())
    }

    fn document(&mut self, json: &str, out: &mut Vec<ModelEvent>) -> Result<bool, Failure> {
        let Some(chunk) = parse::<Chunk<'_>>(json)? else {
            return Ok(false);
        };
        if chunk.error.is_some() || chunk.choices.is_none() {
            return Ok(false);
        }
        self.chunk(chunk, out)?;
        Ok(true)
    }

    fn has_output(&self) -> bool {
        !self.calls.is_empty()
            || !self.refusal.is_empty()
            || !self.reasoning.is_empty()
            || !self.details.is_empty()
            || self.content.iter().any(|part| match part {
                Part::Text(text) | Part::Thinking(text) => !text.is_empty(),
                Part::Other(_) => true,
            })
    }

    fn stop(&self) -> Option<Stop> {
        let raw = self.finish_reason.as_deref()?;
        let mut stop = Stop::from_raw(raw, !self.calls.is_empty());
        if !self.refusal.is_empty() {
            if stop.reason.is_normal() {
                stop.reason = StopReason::Refusal;
            }
            stop.message = Some(self.refusal.to_str());
        }
        if let Some(native) = self
            .native_finish_reason
            .as_deref()
            .filter(|native| *native != raw)
        {
            let mut detail = Object::new();
            detail.string("native_finish_reason", native);
            stop.detail = sendable(detail.end());
        }
        Some(stop)
    }

    fn parts(&mut self, reason: StopReason) -> Parts {
        let mut text = Joined::default();
        for part in &self.content {
            if let Part::Text(piece) = part {
                text.append(piece);
            }
        }
        let mut calls: Vec<ToolCall> = self.calls.iter().map(Call::finished).collect();
        if !reason.is_normal()
            && let (Some(came), Some(call)) = (self.calls.last(), calls.last_mut())
            && came.custom
        {
            cut_free_text(call, &came.arguments);
        }
        let native = self.native(&text, &calls, reason).and_then(sendable);
        Parts {
            text: if text.is_empty() {
                self.refusal.text()
            } else {
                text.text()
            },
            reasoning: readable(&self.reasoning),
            calls,
            native: native.into_iter().collect(),
            usage: self.usage.clone(),
        }
    }
}

impl Chat {
    /// The piece of text that is all a chunk brings.
    fn only_piece<'a>(&self, chunk: &Chunk<'a>) -> Option<(Target, &'a str)> {
        let [choice] = chunk.choices.as_deref()? else {
            return None;
        };
        let delta = choice.delta.as_ref()?;
        let more = chunk.usage.is_some()
            || choice.index.is_some_and(|index| index != 0)
            || choice.message.is_some()
            || choice.finish_reason.is_some()
            || choice.native_finish_reason.is_some()
            || choice.error.is_some()
            || delta.reasoning.is_some()
            || delta.reasoning_details.is_some()
            || delta.refusal.is_some()
            || delta.annotations.is_some()
            || delta.extra_content.is_some();
        if more {
            return None;
        }
        match (
            delta.content,
            delta.reasoning_content,
            delta.tool_calls.as_deref(),
        ) {
            (Some(content), None, None) => Some((Target::Content, literal(content)?)),
            (None, Some(reasoning), None) => Some((Target::Reasoning, literal(reasoning)?)),
            (None, None, Some([ToolPiece(piece)])) => {
                let only = piece
                    .iter()
                    .all(|(key, _)| matches!(key, "index" | "function"));
                let function = piece.object("function");
                let only = only && function.iter().all(|(key, _)| key == "arguments");
                let index = piece.number("index").filter(|_| only)?;
                let at = self
                    .calls
                    .iter()
                    .rposition(|call| call.index == Some(index))?;
                Some((Target::Arguments(at), literal(function.get("arguments")?)?))
            }
            _ => None,
        }
    }

    fn piece(&mut self, target: Target, piece: &str, out: &mut Vec<ModelEvent>) {
        match target {
            Target::Content => {
                self.has_content = true;
                self.text(piece, out);
            }
            Target::Reasoning => {
                self.reasoning_content.get_or_insert_default().push(piece);
                show(out, self.reasoning.push(piece), ModelEvent::Reasoning);
            }
            Target::Arguments(index) => {
                if let Some(call) = self.calls.get_mut(index) {
                    let text = call.arguments.push(piece);
                    show(out, text, |text| ModelEvent::ToolCallDelta { index, text });
                }
            }
        }
    }

    fn chunk(&mut self, chunk: Chunk<'_>, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        if self.id.is_empty() {
            self.id = chunk.id.and_then(string).unwrap_or_default();
        }
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage_of(usage));
        }
        for choice in chunk.choices.into_iter().flatten() {
            // Several candidates are never asked for; if they come all the same, the first is the
            // answer. Mixed they would say nothing.
            if choice.index.is_some_and(|index| index != 0) {
                continue;
            }
            if let Some(error) = choice.error {
                return Err(stream_error(Api::OpenAiChat, error.get()).into());
            }
            if let Some(delta) = choice.delta.or(choice.message) {
                self.delta(delta, out);
            }
            // Some servers send an empty reason with every chunk.
            let reason = choice.finish_reason.and_then(string);
            if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
                self.finish_reason = Some(reason);
            }
            if let Some(native) = choice.native_finish_reason.and_then(string) {
                self.native_finish_reason = Some(native);
            }
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut Vec<ModelEvent>) {
        let shown = self.reasoning.len();
        for (field, piece) in [
            (&mut self.reasoning_content, delta.reasoning_content),
            (&mut self.reasoning_field, delta.reasoning),
        ] {
            if let Some(piece) = piece.and_then(literal) {
                field.get_or_insert_default().push(piece);
                // Servers that send both fields send the same in both.
                if self.reasoning.len() == shown {
                    show(out, self.reasoning.push(piece), ModelEvent::Reasoning);
                }
            }
        }
        if let Some(details) = delta.reasoning_details {
            for detail in elements(details) {
                let piece = self.detail(&Members::read(detail.get()));
                if let Some(piece) = piece.filter(|_| self.reasoning.len() == shown) {
                    show(out, self.reasoning.push(piece), ModelEvent::Reasoning);
                }
            }
        }
        if let Some(content) = delta.content {
            self.content(content, out);
        }
        if let Some(piece) = delta.refusal.and_then(literal) {
            let text = self.refusal.push(piece);
            if self.content.is_empty() {
                show(out, text, ModelEvent::Text);
            }
        }
        let batch = delta.tool_calls.as_ref().map_or(0, Vec::len);
        for (at, piece) in delta.tool_calls.into_iter().flatten().enumerate() {
            self.call(&piece.0, at, batch, out);
        }
        for annotation in delta.annotations.map(elements).unwrap_or_default() {
            self.annotations.push(annotation.get().to_owned());
        }
        if let Some(extra) = delta.extra_content {
            self.extra_content = Some(extra.get().to_owned());
        }
    }

    fn content(&mut self, raw: Raw<'_>, out: &mut Vec<ModelEvent>) {
        if let Some(piece) = literal(raw) {
            self.has_content = true;
            return self.text(piece, out);
        }
        for part in elements(raw) {
            let members = Members::read(part.get());
            match members.string("type").as_deref() {
                Some("text") => {
                    if let Some(piece) = members.get("text").and_then(literal) {
                        self.text(piece, out);
                    }
                }
                Some("thinking") => self.thinking(&members, out),
                _ => self.content.push(Part::Other(part.get().to_owned())),
            }
        }
    }

    fn text(&mut self, piece: &str, out: &mut Vec<ModelEvent>) {
        if piece.len() <= 2 {
            return;
        }
        if !matches!(self.content.last(), Some(Part::Text(_))) {
            self.content.push(Part::Text(Joined::default()));
        }
        if let Some(Part::Text(joined)) = self.content.last_mut() {
            show(out, joined.push(piece), ModelEvent::Text);
        }
    }

    /// Mistral's reasoning: a list of texts inside the content.
    fn thinking(&mut self, members: &Members<'_>, out: &mut Vec<ModelEvent>) {
        if !matches!(self.content.last(), Some(Part::Thinking(_))) {
            self.content.push(Part::Thinking(Joined::default()));
        }
        for text in members.list("thinking") {
            let text = Members::read(text.get());
            let Some(piece) = text.get("text").and_then(literal) else {
                continue;
            };
            if let Some(Part::Thinking(joined)) = self.content.last_mut() {
                joined.push(piece);
            }
            show(out, self.reasoning.push(piece), ModelEvent::Reasoning);
        }
    }

    /// Merges an entry of `reasoning_details` and gives back what it shows.
    fn detail<'a>(&mut self, piece: &Members<'a>) -> Option<&'a str> {
        let kind = piece.string("type").unwrap_or_default();
        let index = piece.number("index");
        let same = |detail: &&mut Detail| detail.kind == kind && detail.index == index;
        let known = match index {
            Some(_) => self.details.iter_mut().find(same),
            // Without an index only what follows directly belongs together.
            None => self.details.last_mut().filter(same),
        };
        let detail = match known {
            Some(detail) => detail,
            None => {
                self.details.push(Detail {
                    kind,
                    index,
                    fields: Vec::new(),
                });
                self.details.last_mut()?
            }
        };
        let mut shown = None;
        for (key, value) in piece.iter() {
            let text = literal(value).filter(|_| matches!(key, "text" | "summary"));
            shown = shown.or(text);
            detail.merge(key, value, text);
        }
        shown
    }

    fn call(&mut self, piece: &Members<'_>, at: usize, batch: usize, out: &mut Vec<ModelEvent>) {
        let custom = piece.get("custom").is_some();
        let function = piece.object(if custom { "custom" } else { "function" });
        let came = piece.string("id").unwrap_or_default();
        let name = function.string("name").unwrap_or_default();
        let arguments = function.get(if custom { "input" } else { "arguments" });
        let index = piece.number("index");
        let begun = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None if !came.is_empty() => self.calls.iter().rposition(|call| call.came == came),
            None if !name.is_empty() => None,
            // More of what began: by position when several come at once, else of the last.
            None if batch > 1 => Some(at),
            None => self.calls.len().checked_sub(1),
        };
        let open = begun.filter(|at| {
            self.calls.get(*at).is_some_and(|call| {
                let another_id = !came.is_empty() && !call.came.is_empty() && call.came != came;
                // Whole calls under one index, told apart by nothing but their names.
                let another = came.is_empty() && !name.is_empty() && call.is_whole();
                !another_id && !another
            })
        });
        let at = open.unwrap_or(self.calls.len());
        if open.is_none() {
            // The index now means this call.
            self.template = Template::default();
            let id = self.ids.take(&came, &[&self.id, &name]);
            out.push(ModelEvent::ToolCall {
                index: at,
                id: id.clone(),
                name: name.clone(),
            });
            self.calls.push(Call {
                index,
                came: came.clone(),
                id,
                name: name.clone(),
                arguments: Joined::default(),
                custom,
                extra: Vec::new(),
            });
        }
        let Some(call) = self.calls.get_mut(at) else {
            return;
        };
        if call.name.is_empty() {
            call.name = name;
        }
        if let Some(arguments) = arguments {
            let text = match literal(arguments) {
                Some(piece) => call.arguments.push(piece),
                // Some servers send the object itself.
                None => call.arguments.push_str(arguments.get()),
            };
            show(out, text, |text| ModelEvent::ToolCallDelta {
                index: at,
                text,
            });
        }
        for (key, value) in piece.iter() {
            let known = matches!(key, "index" | "id" | "type" | "function" | "custom");
            if !known && value.get() != "null" {
                call.extra.retain(|(name, _)| name != key);
                call.extra.push((key.to_owned(), value.get().to_owned()));
            }
        }
    }

    /// The assistant message as it is given back, if there is anything a server takes.
    fn native(&self, text: &Joined, calls: &[ToolCall], reason: StopReason) -> Option<String> {
        let calls: Vec<String> = self
            .calls
            .iter()
            .zip(calls)
            .filter(|(_, call)| call.is_decoded() && !reason.withholds_calls())
            .map(|(came, call)| came.native(call))
            .collect();
        if text.is_empty() && calls.is_empty() {
            return None;
        }
        let mut message = Object::new();
        message.raw("role", "\"assistant\"");
        if self
            .content
            .iter()
            .any(|part| !matches!(part, Part::Text(_)))
        {
            let parts: Vec<String> = self.content.iter().map(Part::native).collect();
            message.list("content", &parts);
        } else if self.has_content || !text.is_empty() {
            message.raw("content", &text.literal());
        } else {
            message.raw("content", "null");
        }
        if !self.refusal.is_empty() {
            message.raw("refusal", &self.refusal.literal());
        }
        if let Some(reasoning) = &self.reasoning_content {
            message.raw("reasoning_content", &reasoning.literal());
        }
        if let Some(reasoning) = &self.reasoning_field {
            message.raw("reasoning", &reasoning.literal());
        }
        if !self.details.is_empty() {
            let details: Vec<String> = self.details.iter().map(Detail::native).collect();
            message.list("reasoning_details", &details);
        }
        if !self.annotations.is_empty() {
            message.list("annotations", &self.annotations);
        }
        if let Some(extra) = &self.extra_content {
            message.raw("extra_content", extra);
        }
        if !calls.is_empty() {
            message.list("tool_calls", &calls);
        }
        Some(message.end())
    }
}

impl Part {
    fn native(&self) -> String {
        let mut part = Object::new();
        match self {
            Self::Other(raw) => return raw.clone(),
            Self::Text(text) => {
                part.string("type", "text");
                part.raw("text", &text.literal());
            }
            Self::Thinking(text) => {
                let mut inner = Object::new();
                inner.string("type", "text");
                inner.raw("text", &text.literal());
                part.string("type", "thinking");
                part.list("thinking", &[inner.end()]);
            }
        }
        part.end()
    }
}

impl Detail {
    fn merge(&mut self, key: &str, value: Raw<'_>, text: Option<&str>) {
        let at = self.fields.iter().position(|(name, _)| name == key);
        let known = at.and_then(|at| self.fields.get_mut(at));
        match (known, text) {
            (Some((_, Field::Joined(joined))), Some(piece)) => {
                joined.push(piece);
            }
            (Some((_, field)), None) if value.get() != "null" => {
                *field = Field::Raw(value.get().to_owned());
            }
            (Some((_, field)), Some(piece)) => {
                let mut joined = Joined::default();
                joined.push(piece);
                *field = Field::Joined(joined);
            }
            (Some(_), None) => {}
            (None, text) => {
                let field = match text {
                    Some(piece) => {
                        let mut joined = Joined::default();
                        joined.push(piece);
                        Field::Joined(joined)
                    }
                    None => Field::Raw(value.get().to_owned()),
                };
                self.fields.push((key.to_owned(), field));
            }
        }
    }

    fn native(&self) -> String {
        let mut detail = Object::new();
        for (key, field) in &self.fields {
            match field {
                Field::Joined(joined) => detail.raw(key, &joined.literal()),
                Field::Raw(raw) => detail.raw(key, raw),
            }
        }
        detail.end()
    }
}

impl Call {
    /// Whether all of the arguments are there already.
    fn is_whole(&self) -> bool {
        let text = self.arguments.to_str();
        text.trim_end().ends_with('}') && ToolCall::from_text("", "", &text).is_decoded()
    }

    fn finished(&self) -> ToolCall {
        if self.custom {
            return free_text_call(&self.id, &self.name, &self.arguments);
        }
        ToolCall::from_text(&self.id, &self.name, &self.arguments.to_str())
    }

    fn native(&self, call: &ToolCall) -> String {
        let (kind, key) = if self.custom {
            ("custom", "input")
        } else {
            ("function", "arguments")
        };
        let mut function = Object::new();
        function.string("name", &self.name);
        if self.custom {
            function.raw(key, &self.arguments.literal());
        } else {
            function.raw(key, &native_arguments(call, &self.arguments));
        }
        let mut object = Object::new();
        object.string("id", &self.id);
        object.string("type", kind);
        object.raw(kind, &function.end());
        for (key, value) in &self.extra {
            object.raw(key, value);
        }
        object.end()
    }
}

fn usage_of(raw: Raw<'_>) -> Usage {
    let counts = Members::read(raw.get());
    let input = counts.object("prompt_tokens_details");
    let output = counts.object("completion_tokens_details");
    let mut usage = Usage::default();
    usage.input = counts.number("prompt_tokens");
    usage.output = counts.number("completion_tokens");
    usage.cache_read = input
        .number("cached_tokens")
        .or_else(|| counts.number("prompt_cache_hit_tokens"));
    usage.cache_write = input.number("cache_write_tokens");
    usage.reasoning = output.number("reasoning_tokens");
    usage
}
