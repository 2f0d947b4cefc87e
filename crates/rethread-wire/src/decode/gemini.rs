//! Google Gemini generateContent.
//!
//! Source: the types of the official Python SDK (google-genai 2.34) and the provider's documentation.
//! Every event is a whole response object; parts add up in order.

mod args;

use rethread_core::{
    Json, ModelError, ModelErrorKind, ModelEvent, Stop, StopReason, ToolCall, Usage,
};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};

use super::raw::{Joined, Members, Object, Raw, edited, literal, sendable};
use super::{Failure, Parts, Protocol, parse, readable, show};
use crate::Api;
use crate::error::stream_error;
use crate::ids::Ids;
use args::Arguments;

#[derive(Debug, Default)]
pub(super) struct Gemini {
    id: String,
    state: State,
    /// Whether more events may follow.
    streams: bool,
    /// The response at the newest continuation token.
    checkpoint: Option<Box<Checkpoint>>,
    /// The newest counts, as they came: every event has them, only the last ones matter.
    usage: String,
    /// What earlier connections of this response took.
    spent: Usage,
}

/// What came so far.
#[derive(Clone, Debug, Default)]
struct State {
    parts: Vec<Part>,
    calls: usize,
    ids: Ids,
    finish_reason: Option<String>,
    finish_message: Option<String>,
    block_reason: Option<String>,
}

#[derive(Clone, Debug)]
struct Checkpoint {
    token: String,
    state: State,
}

#[derive(Clone, Debug)]
enum Part {
    /// Text or a thought without a signature, which may be joined with the next of its kind.
    Text {
        text: Joined,
        thought: bool,
    },
    /// A part as it came.
    Whole(String),
    Call(Call),
}

#[derive(Clone, Debug)]
struct Call {
    /// The part as it came.
    raw: String,
    id: String,
    name: String,
    /// The arguments when they came in pieces, and whether more are to come.
    streamed: Option<Arguments>,
    open: bool,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow, default, rename = "promptFeedback")]
    prompt_feedback: Option<Raw<'a>>,
    #[serde(borrow, default, rename = "usageMetadata")]
    usage_metadata: Option<Raw<'a>>,
    #[serde(borrow, default, rename = "responseId")]
    response_id: Option<&'a str>,
    #[serde(borrow, default)]
    error: Option<Raw<'a>>,
}

#[derive(Deserialize)]
struct Candidate<'a> {
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    #[serde(borrow, default, rename = "finishReason")]
    finish_reason: Option<Raw<'a>>,
    #[serde(borrow, default, rename = "finishMessage")]
    finish_message: Option<Raw<'a>>,
    #[serde(borrow, default, rename = "continuationToken")]
    continuation_token: Option<Raw<'a>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<Raw<'a>>>,
}

impl Protocol for Gemini {
    fn event(&mut self, json: &str, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        let Some(chunk) = parse::<Chunk<'_>>(json)? else {
            return Ok(());
        };
        if chunk.error.is_some() {
            return Err(stream_error(Api::GeminiContents, json).into());
        }
        self.streams = true;
        self.chunk(chunk, out)
    }

    fn document(&mut self, json: &str, out: &mut Vec<ModelEvent>) -> Result<bool, Failure> {
        let Some(chunk) = parse::<Chunk<'_>>(json)? else {
            return Ok(false);
        };
        if chunk.error.is_some() {
            return Err(stream_error(Api::GeminiContents, json).into());
        }
        let known = chunk.candidates.is_some()
            || chunk.prompt_feedback.is_some()
            || chunk.usage_metadata.is_some();
        if known {
            self.chunk(chunk, out)?;
        }
        Ok(known)
    }

    fn has_output(&self) -> bool {
        !self.state.parts.is_empty()
    }

    fn stop(&self) -> Option<Stop> {
        let state = &self.state;
        if let Some(reason) = &state.block_reason {
            let mut stop = Stop::new(StopReason::Refusal);
            stop.raw = Some(reason.clone());
            stop.category = Some(reason.clone());
            stop.message = state.finish_message.clone();
            return Some(stop);
        }
        let raw = state.finish_reason.as_deref()?;
        if self.streams && raw == "STOP" && self.waits_for_code() {
            return None;
        }
        let mut stop = Stop::new(reason_of(raw, state.calls > 0));
        stop.raw = Some(raw.to_owned());
        if stop.reason.withholds_calls() {
            stop.category = Some(raw.to_owned());
        }
        stop.message = state.finish_message.clone();
        if stop.reason == StopReason::Paused
            && let Some(checkpoint) = &self.checkpoint
        {
            let mut detail = Object::new();
            detail.string("continuation_token", &checkpoint.token);
            stop.detail = sendable(detail.end());
        }
        Some(stop)
    }

    fn parts(&mut self, reason: StopReason) -> Parts {
        let mut parts = Parts::default();
        let (mut text, mut reasoning) = (Joined::default(), Joined::default());
        for part in &self.state.parts {
            let item = match part {
                Part::Text {
                    text: piece,
                    thought,
                } => {
                    if *thought { &mut reasoning } else { &mut text }.append(piece);
                    let mut object = Object::new();
                    object.raw("text", &piece.literal());
                    if *thought {
                        object.raw("thought", "true");
                    }
                    Some(object.end())
                }
                Part::Whole(raw) => {
                    let members = Members::read(raw);
                    if let Some(piece) = members.get("text").and_then(literal) {
                        let into = if is_thought(&members) {
                            &mut reasoning
                        } else {
                            &mut text
                        };
                        into.push(piece);
                    }
                    Some(raw.clone())
                }
                Part::Call(call) => {
                    let (neutral, raw) = call.finished();
                    let goes_back = neutral.is_decoded() && !reason.withholds_calls();
                    parts.calls.push(neutral);
                    goes_back.then_some(raw)
                }
            };
            parts.native.extend(item.and_then(sendable));
        }
        parts.text = text.text();
        parts.reasoning = readable(&reasoning);
        if !self.usage.is_empty() || self.spent != Usage::default() {
            let mut total = self.spent.clone();
            total.add(&usage_of(&self.usage));
            parts.usage = Some(total);
        }
        parts
    }

    fn handle(&self) -> Option<Json> {
        let checkpoint = self.checkpoint.as_ref()?;
        let mut handle = Object::new();
        handle.string("continuation_token", &checkpoint.token);
        // What came after this much is generated again.
        let text: usize = checkpoint.state.parts.iter().map(Part::text_len).sum();
        handle.raw("text_bytes", &text.to_string());
        Json::parse(&handle.end()).ok()
    }

    fn rewind(&mut self) {
        if let Some(checkpoint) = &self.checkpoint {
            self.state = checkpoint.state.clone();
        }
        self.spent.add(&usage_of(&std::mem::take(&mut self.usage)));
    }
}

impl Gemini {
    fn chunk(&mut self, chunk: Chunk<'_>, out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        if let Some(id) = chunk.response_id {
            id.clone_into(&mut self.id);
        }
        if let Some(usage) = chunk.usage_metadata {
            self.usage.clear();
            self.usage.push_str(usage.get());
        }
        if let Some(feedback) = chunk.prompt_feedback {
            let feedback = Members::read(feedback.get());
            if let Some(reason) = feedback.string("blockReason") {
                self.state.block_reason = Some(reason);
                self.state.finish_message = feedback.string("blockReasonMessage");
            }
        }
        let candidates = chunk.candidates.unwrap_or_default();
        let Some(candidate) = candidates.into_iter().next() else {
            return Ok(());
        };
        let parts = candidate.content.and_then(|content| content.parts);
        for raw in parts.into_iter().flatten() {
            let before = self.extent();
            self.part(raw, out);
            if self.extent() != before {
                // The service also says STOP before it runs the model's code; then more comes.
                self.state.finish_reason = None;
            }
        }
        if let Some(message) = candidate.finish_message.and_then(super::raw::string) {
            self.state.finish_message = Some(message);
        }
        let finish = candidate.finish_reason.and_then(super::raw::string);
        if finish.as_deref() == Some("MISSING_THOUGHT_SIGNATURE") {
            let message = "a function call in the history is missing its thought signature";
            let mut error = ModelError::new(ModelErrorKind::HistoryRejected, message);
            error.rule = Some("missing_signature".to_owned());
            error.code = finish;
            return Err(error.into());
        }
        if let Some(token) = candidate.continuation_token.and_then(super::raw::string) {
            // The state is that of the token: what follows it would be generated again.
            self.checkpoint = Some(Box::new(Checkpoint {
                token,
                state: self.state.clone(),
            }));
            out.extend(self.handle().map(ModelEvent::Handle));
        }
        if finish.is_some() {
            self.state.finish_reason = finish;
        }
        Ok(())
    }

    /// How much there is, to see whether a part brought anything.
    fn extent(&self) -> (usize, usize) {
        let last = match self.state.parts.last() {
            Some(Part::Text { text, .. }) => text.len(),
            _ => 0,
        };
        (self.state.parts.len(), last)
    }

    /// Whether the last part is code whose result has not come.
    fn waits_for_code(&self) -> bool {
        match self.state.parts.last() {
            Some(Part::Whole(raw)) => Members::read(raw).get("executableCode").is_some(),
            _ => false,
        }
    }

    fn part(&mut self, raw: Raw<'_>, out: &mut Vec<ModelEvent>) {
        let members = Members::read(raw.get());
        let thought = is_thought(&members);
        if let Some(call) = members.get("functionCall") {
            return self.call(raw, &Members::read(call.get()), out);
        }
        let Some(piece) = members.get("text").and_then(literal) else {
            return self.state.parts.push(Part::Whole(raw.get().to_owned()));
        };
        let event = if thought {
            ModelEvent::Reasoning
        } else {
            ModelEvent::Text
        };
        let plain = members.iter().all(|(key, value)| match key {
            "text" => true,
            "thought" => matches!(value.get(), "true" | "false"),
            // An empty signature is none.
            "thoughtSignature" => value.get() == "\"\"",
            _ => false,
        });
        if !plain {
            // A part with a signature is never joined with another.
            let mut joined = Joined::default();
            show(out, joined.push(piece), event);
            return self.state.parts.push(Part::Whole(raw.get().to_owned()));
        }
        if let Some(Part::Text {
            text,
            thought: same,
        }) = self.state.parts.last_mut()
            && *same == thought
        {
            return show(out, text.push(piece), event);
        }
        let mut text = Joined::default();
        show(out, text.push(piece), event);
        if !text.is_empty() {
            self.state.parts.push(Part::Text { text, thought });
        }
    }

    fn call(&mut self, raw: Raw<'_>, call: &Members<'_>, out: &mut Vec<ModelEvent>) {
        let pieces = call.list("partialArgs");
        let more = call
            .get("willContinue")
            .is_some_and(|raw| raw.get() == "true");
        let name = call.string("name").unwrap_or_default();
        // A call whose arguments stream goes on in parts of its own; an empty one closes it.
        let goes_on = name.is_empty()
            && matches!(
                self.state.parts.last(),
                Some(Part::Call(Call { open: true, .. }))
            );
        if !goes_on {
            let came = call.string("id").unwrap_or_default();
            let id = self.state.ids.take(&came, &[&self.id, &name]);
            let index = self.state.calls;
            self.state.calls += 1;
            out.push(ModelEvent::ToolCall {
                index,
                id: id.clone(),
                name: name.clone(),
            });
            if pieces.is_empty() && !more {
                let args = call.get("args").map_or("{}", |raw| raw.get());
                show(out, args.to_owned(), |text| ModelEvent::ToolCallDelta {
                    index,
                    text,
                });
            }
            self.state.parts.push(Part::Call(Call {
                raw: raw.get().to_owned(),
                id,
                name,
                streamed: None,
                open: false,
            }));
        }
        let index = self.state.calls.saturating_sub(1);
        let Some(Part::Call(begun)) = self.state.parts.last_mut() else {
            return;
        };
        let was_open = begun.open;
        if !pieces.is_empty() || more {
            let arguments = begun.streamed.get_or_insert_default();
            for piece in pieces {
                arguments.add(&Members::read(piece.get()));
            }
        }
        begun.open = more;
        if (was_open || begun.streamed.is_some())
            && !more
            && let Some(arguments) = &begun.streamed
        {
            let text = arguments.json();
            show(out, text, |text| ModelEvent::ToolCallDelta { index, text });
        }
    }
}

impl Part {
    /// The bytes of visible text.
    fn text_len(&self) -> usize {
        match self {
            Self::Text {
                text,
                thought: false,
            } => text.to_str().len(),
            Self::Whole(raw) => {
                let members = Members::read(raw);
                let text = members.get("text").and_then(literal);
                let mut joined = Joined::default();
                text.filter(|_| !is_thought(&members))
                    .map_or(0, |text| joined.push(text).len())
            }
            _ => 0,
        }
    }
}

impl Call {
    /// The call, and its part as it is given back.
    fn finished(&self) -> (ToolCall, String) {
        let part = Members::read(&self.raw);
        let Some(arguments) = &self.streamed else {
            let call = part.object("functionCall");
            let args = call.get("args").map_or("", |raw| raw.get());
            return (
                ToolCall::from_text(&self.id, &self.name, args),
                self.raw.clone(),
            );
        };
        let json = arguments.json();
        // Without its closing part the call may lack arguments.
        let text = if self.open {
            json.trim_end_matches('}')
        } else {
            json.as_str()
        };
        let call = ToolCall::from_text(&self.id, &self.name, text);
        let inner = edited(
            &part.object("functionCall"),
            &[("args", json.clone())],
            &["partialArgs", "willContinue"],
        );
        (call, edited(&part, &[("functionCall", inner)], &[]))
    }
}

/// What a finish reason means. Only values of the service itself count: what else stands there was
/// made up by a server that imitates it.
fn reason_of(raw: &str, has_calls: bool) -> StopReason {
    match raw {
        "STOP" if has_calls => StopReason::ToolUse,
        "STOP" => StopReason::EndTurn,
        "MAX_TOKENS" => StopReason::MaxOutput,
        "CONTINUATION" => StopReason::Paused,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::Refusal,
        // What was produced is of no use.
        "MALFORMED_FUNCTION_CALL"
        | "MALFORMED_RESPONSE"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "NO_IMAGE"
        | "IMAGE_OTHER"
        | "OTHER" => StopReason::Interrupted,
        _ => StopReason::Other,
    }
}

fn is_thought(part: &Members<'_>) -> bool {
    part.get("thought").is_some_and(|raw| raw.get() == "true")
}

fn usage_of(json: &str) -> Usage {
    let counts = Members::read(json);
    let sum = |names: [&str; 2]| {
        let [first, second] = names.map(|name| counts.number(name));
        match (first, second) {
            (None, None) => None,
            (first, second) => Some(first.unwrap_or(0).saturating_add(second.unwrap_or(0))),
        }
    };
    let mut usage = Usage::default();
    usage.input = sum(["promptTokenCount", "toolUsePromptTokenCount"]);
    usage.output = sum(["candidatesTokenCount", "thoughtsTokenCount"]);
    usage.cache_read = counts.number("cachedContentTokenCount");
    usage.reasoning = counts.number("thoughtsTokenCount");
    usage
}

/// The elements of an array that may be cut, and whether it is whole. Without `alt=sse` the service
/// answers with such an array.
pub(super) fn elements_so_far(json: &str) -> (Vec<Raw<'_>>, bool) {
    struct Collect<'v, 'a>(&'v mut Vec<Raw<'a>>);
    impl<'de> DeserializeSeed<'de> for Collect<'_, 'de> {
        type Value = ();
        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
            deserializer.deserialize_seq(self)
        }
    }
    impl<'de> Visitor<'de> for Collect<'_, 'de> {
        type Value = ();
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an array")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
            while let Some(element) = seq.next_element()? {
                self.0.push(element);
            }
            Ok(())
        }
    }
    let mut found = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(json);
    let whole = Collect(&mut found).deserialize(&mut reader).is_ok() && reader.end().is_ok();
    (found, whole)
}
