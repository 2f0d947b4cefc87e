//! From messages to the request a provider accepts, message by message.
//!
//! What a message says is written once, when it comes, and stays where it is: whatever is fixed for a
//! conversation stands before the messages or behind them, and what depends on being last is added to
//! each request alone. So a request costs what is new in it, and equal conversations give equal bytes.

mod anthropic;
mod body;
mod chat;
mod gemini;
mod ids;
mod raw;
mod responses;
mod target;

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use rethread_core::{
    Assistant, Json, LeftOut, Message, Origin, PromptOptions, StopReason, Text, ToolCall,
};

use crate::Api;
use anthropic::Anthropic;
use body::Buffer;
use chat::Chat;
use gemini::Gemini;
use ids::Ids;
use raw::{Left, put, splice, string};
use responses::Responses;

pub use body::Body;
pub use ids::{IdRule, UnknownPattern};
pub use target::{Reasoning, Target};

/// Writes the requests of one conversation.
///
/// Messages come in order and sound, as a run gives them: every call of a response is answered once,
/// directly after it. Call ids may repeat from response to response.
///
/// The provider's own items of a response go back byte for byte when they come from this very origin
/// and still say what the message says. Otherwise the message is written afresh, without reasoning,
/// and [`Encoder::left_out`] tells what had to stay behind.
///
/// ```
/// use rethread_core::{Message, Origin, PromptOptions};
/// use rethread_wire::{Api, Encoder, Target};
///
/// let target = Target::new(Api::OpenAiChat, "http://127.0.0.1:8080/v1", "qwen");
/// let origin = Origin::new("openai-chat", "llama.cpp", "qwen");
/// let mut encoder = Encoder::new(Api::OpenAiChat, origin, &PromptOptions::default(), target);
/// encoder.push(&Message::user("hello"));
/// let body = encoder.body();
/// assert!(body.to_vec().ends_with(br#""messages":[{"role":"user","content":"hello"}],"stream_options":{"include_usage":true}}"#));
/// ```
pub struct Encoder {
    sheet: Sheet,
    dialect: Dialect,
    head: Bytes,
    tail: Bytes,
    /// The end of a request that must not ask for reasoning.
    unthinking_tail: Bytes,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("origin", &self.sheet.origin)
            .field("target", &self.sheet.target)
            .field("bytes", &self.sheet.out.len())
            .finish_non_exhaustive()
    }
}

enum Dialect {
    Anthropic(Anthropic),
    Chat(Chat),
    Responses(Responses),
    Gemini(Gemini),
}

/// What all dialects write on.
struct Sheet {
    out: Buffer,
    /// Memory for what is not yet known to be sent.
    scratch: Vec<u8>,
    origin: Origin,
    target: Target,
    ids: Ids,
    left: Left,
}

/// What ends a request besides its fixed end.
#[derive(Default)]
struct End {
    /// Goes between the messages and the fixed end.
    suffix: Vec<u8>,
    /// One more member of the request.
    member: Vec<u8>,
    /// Whether this request must not ask for reasoning.
    unthinking: bool,
}

/// The message that stands where a provider wants one of the user and there is none: before a response
/// that comes first, between two responses, and behind one that comes last.
const NOTICE: &str = "Continue.";

impl Encoder {
    /// An encoder of an empty conversation with `origin`, the model that is asked.
    #[must_use]
    pub fn new(api: Api, origin: Origin, options: &PromptOptions, target: Target) -> Self {
        let model = origin.model.clone();
        let thinks = anthropic::asks_for_thinking(&target);
        let (head, tail, dialect) = match api {
            Api::AnthropicMessages => {
                let (head, tail) = anthropic::frame(&model, options, &target);
                (head, tail, Dialect::Anthropic(Anthropic::new(thinks)))
            }
            Api::OpenAiChat => {
                let (head, tail) = chat::frame(&model, options, &target);
                let begun = options.instructions.as_deref().is_some_and(is_said);
                (head, tail, Dialect::Chat(Chat::new(begun)))
            }
            Api::OpenAiResponses => {
                let (head, tail) = responses::frame(&model, options, &target);
                (head, tail, Dialect::Responses(Responses::default()))
            }
            Api::GeminiContents => {
                let (head, tail) = gemini::frame(options, &target);
                (head, tail, Dialect::Gemini(Gemini::default()))
            }
        };
        let unthinking_tail = if matches!(dialect, Dialect::Anthropic(_)) && thinks {
            let mut target = target.clone();
            target.fields.retain(|(name, _)| name != "thinking");
            anthropic::frame(&model, options, &target).1.into()
        } else {
            Bytes::new()
        };
        Self {
            sheet: Sheet {
                out: Buffer::default(),
                scratch: Vec::new(),
                origin,
                ids: Ids::new(target.ids),
                target,
                left: Left::default(),
            },
            dialect,
            head: head.into(),
            tail: tail.into(),
            unthinking_tail,
        }
    }

    /// Adds a message. One that is not in context is not sent.
    pub fn push(&mut self, message: &Message) {
        if !message.in_context {
            return;
        }
        let sheet = &mut self.sheet;
        match &mut self.dialect {
            Dialect::Anthropic(dialect) => dialect.push(sheet, message),
            Dialect::Chat(dialect) => dialect.push(sheet, message),
            Dialect::Responses(dialect) => dialect.push(sheet, message),
            Dialect::Gemini(dialect) => dialect.push(sheet, message),
        }
        sheet.out.settle();
        if sheet.scratch.capacity() > MAX_SCRATCH {
            sheet.scratch = Vec::new();
        }
    }

    /// The request with all that was pushed.
    #[must_use]
    pub fn body(&mut self) -> Body {
        let sheet = &mut self.sheet;
        let (end, inserts) = match &mut self.dialect {
            Dialect::Anthropic(dialect) => (dialect.end(sheet), &[][..]),
            Dialect::Chat(dialect) => (dialect.end(sheet), &[][..]),
            Dialect::Responses(dialect) => (dialect.end(sheet), &[][..]),
            Dialect::Gemini(dialect) => {
                let end = dialect.end(sheet);
                (end, dialect.unsigned())
            }
        };
        // What a session that waits for its model holds is its conversation, no more.
        sheet.scratch = Vec::new();
        let mut body = Body::default();
        body.add(self.head.clone());
        let (mut inserts, mut at) = (inserts.iter().peekable(), 0);
        for chunk in sheet.out.chunks() {
            let mut rest = chunk.clone();
            while let Some(place) = inserts.next_if(|place| **place < at + rest.len()) {
                body.add(rest.split_to(place.saturating_sub(at)));
                body.add(Bytes::from_static(gemini::DUMMY_SIGNATURE));
                at = *place;
            }
            at += rest.len();
            body.add(rest);
        }
        body.add(end.suffix.into());
        let mut tail = if end.unthinking {
            self.unthinking_tail.clone()
        } else {
            self.tail.clone()
        };
        if !end.member.is_empty() {
            // Before the last brace.
            body.add(tail.split_to(tail.len().saturating_sub(1)));
            body.add(end.member.into());
        }
        body.add(tail);
        body
    }

    /// What had to be left out since this was last asked; each thing is told once.
    pub fn left_out(&mut self) -> Vec<LeftOut> {
        self.sheet.left.take()
    }
}

/// How much memory is kept from one message to the next.
const MAX_SCRATCH: usize = 64 * 1024;

impl Sheet {
    /// The response's own items, if they may go back.
    fn native<'a>(&mut self, response: &'a Assistant) -> Option<&'a [Json]> {
        let items = response.native.as_slice();
        let lost = if response.reasoning.is_some() {
            "reasoning"
        } else {
            "native items"
        };
        match &response.origin {
            _ if items.is_empty() => None,
            Some(origin) if *origin != self.origin => {
                self.left.add(lost, format!("made by {origin}"));
                None
            }
            None => {
                self.left.add(lost, "made by an unknown model");
                None
            }
            Some(_) if !response.native_holds() => {
                self.left.add(lost, "the message was changed");
                None
            }
            Some(_) => Some(items),
        }
    }

    /// Tells that the items of a response that might have gone back cannot.
    fn unusable(&mut self, reason: &str) {
        self.left.add("native items", reason);
    }

    /// The arguments of a call as they can be sent.
    fn arguments<'a>(&mut self, call: &'a ToolCall) -> &'a str {
        let arguments = call.arguments.get();
        let limit = self.target.max_argument_chars.unwrap_or(usize::MAX);
        if !call.is_decoded() || !call.arguments.is_object() {
            return "{}";
        }
        if arguments.len() > limit {
            let reason = format!("longer than the {limit} bytes the service takes");
            self.left.add("arguments", reason);
            return "{}";
        }
        arguments
    }

    /// Tells of a part that cannot be sent.
    fn lost_part(&mut self, what: &str, reason: &str) {
        self.left.add(what, reason);
    }
}

/// Whether the last thing a model said invites it to go on by itself.
fn is_paused(response: &Assistant) -> bool {
    response.stop_reason() == StopReason::Paused
}

fn is_said(text: &str) -> bool {
    !text.trim().is_empty()
}

/// A call's name in the letters the provider takes. Models make names up, and a session may come from
/// a provider that takes more.
fn call_name(name: &str, more: &str, max: usize) -> String {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || more.contains(c);
    let mut name: String = name
        .chars()
        .map(|c| if sound(c) { c } else { '_' })
        .take(max)
        .collect();
    if name.is_empty() {
        name.push_str("unknown");
    }
    name
}

/// Pairs the calls among a response's own items with those of the message: for each of the former the
/// latter, and those that are in the message alone, because their arguments do not decode. `None` when
/// they are not the same calls.
fn pair<'a>(
    native: &[impl AsRef<str>],
    calls: &'a [ToolCall],
) -> Option<(Vec<&'a ToolCall>, Vec<&'a ToolCall>)> {
    let (mut paired, mut alone) = (Vec::with_capacity(native.len()), Vec::new());
    let mut calls = calls.iter();
    for id in native {
        loop {
            let call = calls.next()?;
            if call.id == id.as_ref() {
                paired.push(call);
                break;
            }
            if call.is_decoded() {
                return None;
            }
            alone.push(call);
        }
    }
    alone.extend(calls);
    alone
        .iter()
        .all(|call| !call.is_decoded())
        .then_some((paired, alone))
}

/// The literal of a string.
fn literal(text: &str) -> String {
    Text::new(text).literal().to_owned()
}

/// Writes the fixed end of a request: our members unless the target's fields have them, then those.
struct Tail<'a> {
    out: Vec<u8>,
    target: &'a Target,
    merged: HashSet<&'static str>,
}

impl<'a> Tail<'a> {
    fn new(target: &'a Target) -> Self {
        Self {
            out: vec![b']'],
            target,
            merged: HashSet::new(),
        }
    }

    fn member(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.target.fields.iter().any(|(field, _)| field == name) {
            put(&mut self.out, ",\"");
            put(&mut self.out, name);
            put(&mut self.out, "\":");
            write(&mut self.out);
        }
    }

    /// A member that is an object the target's fields may add to: theirs count where both have one.
    fn object(&mut self, name: &'static str, members: &[(&str, String)]) {
        let given = self
            .target
            .fields
            .iter()
            .rev()
            .find(|(field, _)| field == name);
        let json = match given {
            Some((_, given)) => {
                let theirs: raw::Members<'_> = given.decode().unwrap_or_default();
                let is_new =
                    |key: &&(&str, String)| !theirs.0.iter().any(|(name, _)| name == key.0);
                let new: Vec<_> = members.iter().filter(is_new).cloned().collect();
                raw::edited(given.get(), &new)
            }
            None => raw::edited("{}", members),
        };
        if json != "{}" {
            put(&mut self.out, ",\"");
            put(&mut self.out, name);
            put(&mut self.out, "\":");
            put(&mut self.out, &json);
        }
        self.merged.insert(name);
    }

    /// The tools: ours, then those of the target's fields, which the service runs itself.
    fn tools(&mut self, ours: Vec<u8>) {
        let mut given = self.target.fields.iter();
        let theirs = given
            .find(|(field, _)| field == "tools")
            .map(|(_, json)| json.get().trim());
        let theirs = theirs.and_then(|json| json.strip_prefix('[')?.strip_suffix(']'));
        let theirs = theirs.map_or("", str::trim);
        if !ours.is_empty() || !theirs.is_empty() {
            put(&mut self.out, ",\"tools\":[");
            self.out.extend_from_slice(&ours);
            if !ours.is_empty() && !theirs.is_empty() {
                self.out.push(b',');
            }
            splice(&mut self.out, theirs);
            self.out.push(b']');
        }
        self.merged.insert("tools");
    }

    fn text(&mut self, name: &'static str, text: &str) {
        self.member(name, |out| string(out, text));
    }

    fn end(mut self) -> Vec<u8> {
        for (name, json) in &self.target.fields {
            if !self.merged.contains(name.as_str()) {
                self.out.push(b',');
                string(&mut self.out, name);
                self.out.push(b':');
                splice(&mut self.out, json.get());
            }
        }
        self.out.push(b'}');
        self.out
    }
}

#[cfg(test)]
mod tests;
