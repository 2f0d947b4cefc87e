//! The event log of AG2 (AutoGen): one event a line, `{"type":"ag2.events.….Name","data":{…}}`.
//!
//! Source: logs that version 0.10 wrote; earlier ones name their modules `autogen.beta`. Only a class's
//! own name counts here, so that a module that moved is no other event.

use std::collections::{HashMap, HashSet};

use rethread_core::{
    Assistant, CallKey, CallSuspended, Content, Entry, Json, Message, Origin, Part, Record, Stop,
    StopReason, Text, Timestamp, ToolCall, ToolResult, Usage, Wait,
};

use super::Loaded;
use super::lines::lines;
use super::parts::{json_text, literal_text, word};
use super::stop::stop;
use crate::Api;
use crate::decode::raw::{Joined, Members, Raw};
use crate::ids::Ids;

pub(super) fn read(text: &str, loaded: &mut Loaded) {
    let lines = lines(text, &mut loaded.problems);
    let mut log = Log::default();
    for line in lines {
        log.event(line.number, &line.json, loaded);
    }
    log.end(loaded);
}

/// The history so far.
#[derive(Default)]
struct Log {
    messages: Vec<(usize, Message)>,
    /// The calls of the last response.
    calls: Vec<String>,
    /// Of these, those with results, and what the results say.
    answered: HashMap<String, Content>,
    /// The tools that were started, in order.
    started: Vec<String>,
    /// Calls that the service runs itself; the results a log has for them are not ours.
    hosted: HashSet<String>,
    /// Calls that wait for an answer, by the id of the question.
    waiting: Vec<Waiting>,
    reasoning: Joined,
    /// What of a response was logged before the response itself.
    begun: Option<(usize, Joined)>,
}

struct Waiting {
    question: String,
    /// The response, as a place among the messages, and the call in it.
    key: (usize, u32),
    wait: Wait,
    prompt: Option<Text>,
}

impl Log {
    fn event(&mut self, line: usize, json: &Json, loaded: &mut Loaded) {
        let event = Members::read(json.get());
        let kind = event.string("type").unwrap_or_default();
        let name = kind.rsplit('.').next().unwrap_or("");
        let data = event.object("data");
        match name {
            "ModelRequest" | "DrainedModelRequest" => {
                self.broke_off();
                let message = Message::user(content(&data.list("parts")));
                self.messages.push((line, message));
            }
            "ModelResponse" => self.response(line, &data),
            "ToolCallEvent" => self.started.push(word(&data, "id")),
            "ToolResultsEvent" => {
                for result in data.list("results") {
                    self.result(line, &Members::read(result.get()));
                }
            }
            "ToolResultEvent" | "ToolErrorEvent" | "ToolNotFoundEvent" => self.result(line, &data),
            "CompactionSummary" => {
                let summary = data
                    .get("summary")
                    .and_then(literal_text)
                    .unwrap_or_default();
                self.messages.push((line, Message::summary(summary)));
            }
            "ClientToolCallEvent" => {
                self.wait(&word(&data, "id"), "", Wait::External, None);
            }
            "ToolApprovalRequest" => {
                let prompt = data.get("content").and_then(literal_text);
                self.wait(
                    &word(&data, "tool_call_id"),
                    &word(&data, "id"),
                    Wait::Approval,
                    prompt,
                );
            }
            "HumanInputRequest" => {
                let prompt = data.get("content").and_then(literal_text);
                // The question does not say which tool asks it: the one that started last.
                let open =
                    |id: &&String| !self.answered.contains_key(*id) && self.calls.contains(id);
                let asking = self.started.iter().rev().find(open).cloned();
                self.wait(
                    &asking.unwrap_or_default(),
                    &word(&data, "id"),
                    Wait::Question,
                    prompt,
                );
            }
            "HumanMessage" => {
                let question = word(&data, "parent_id");
                self.waiting.retain(|waiting| waiting.question != question);
            }
            "ModelMessageChunk" => {
                if let Some(text) = data.get("content").and_then(crate::decode::raw::literal) {
                    let (_, begun) = self.begun.get_or_insert_with(|| (line, Joined::default()));
                    begun.push(text);
                }
            }
            "ModelMessage" => {
                let mut whole = Joined::default();
                if let Some(text) = data.get("content").and_then(crate::decode::raw::literal) {
                    whole.push(text);
                }
                self.begun = Some((line, whole));
            }
            name if name.contains("ServerToolCall") || name.contains("BuiltinToolCall") => {
                self.hosted.insert(word(&data, "id"));
            }
            name if name.contains("Reasoning") || name.ends_with("ThinkingEvent") => {
                if let Some(text) = data.get("content").and_then(crate::decode::raw::literal) {
                    if !self.reasoning.is_empty() {
                        self.reasoning.push_str("\n\n");
                    }
                    self.reasoning.push(text);
                }
            }
            _ if kind.starts_with("ag2.") || kind.starts_with("autogen.") => {}
            _ => {
                let detail = format!("the event `{kind}` is not AG2's; it is left out");
                loaded.problem("unknown_event", line, detail);
            }
        }
    }

    fn response(&mut self, line: usize, data: &Members<'_>) {
        let calls: Vec<ToolCall> = {
            let list = data.object("tool_calls").list("calls");
            let mut ids = Ids::default();
            let call = |raw: &Raw<'_>| {
                let call = Members::read(raw.get());
                let (id, name) = (word(&call, "id"), word(&call, "name"));
                let id = ids.take(&id, &["", &name]);
                ToolCall::from_text(id, name, &word(&call, "arguments"))
            };
            list.iter().map(call).collect()
        };
        self.begun = None;
        // A turn that ends with calls for the client repeats them in a response nobody made.
        let forced = data
            .get("response_force")
            .is_some_and(|raw| raw.get() == "true");
        let open = |call: &ToolCall| {
            self.calls.contains(&call.id) && !self.answered.contains_key(&call.id)
        };
        if forced && !calls.is_empty() && calls.iter().all(open) {
            return;
        }
        let mut response = Assistant::default();
        let text = data.object("message").get("content").map(json_text);
        response.content = Content::Text(text.unwrap_or_default());
        let reasoning = std::mem::take(&mut self.reasoning);
        response.reasoning = (!reasoning.is_empty()).then(|| reasoning.text());
        let raw = data.string("finish_reason");
        response.stop = raw.and_then(|raw| stop(None, Some(&raw), !calls.is_empty()));
        response.origin = origin(data);
        response.usage = usage(&data.object("usage"));
        self.calls = calls.iter().map(|call| call.id.clone()).collect();
        self.answered.clear();
        self.started.clear();
        response.tool_calls = calls;
        self.messages.push((line, response.into()));
    }

    fn result(&mut self, line: usize, data: &Members<'_>) {
        let id = word(data, "parent_id");
        if self.hosted.contains(&id) {
            return;
        }
        let call = ToolCall::new(&id, word(data, "name"), Json::empty_object());
        let parts = data.object("result").object("data").list("parts");
        let mut result = ToolResult::for_call(&call, content(&parts));
        result.success = data.get("error").is_none();
        // Each result stands in an event of its own and again in that of the whole batch.
        if self
            .answered
            .get(&id)
            .is_some_and(|said| *said == result.content)
        {
            return;
        }
        self.answered.insert(id, result.content.clone());
        self.messages.push((line, result.into()));
    }

    fn wait(&mut self, call: &str, question: &str, wait: Wait, prompt: Option<Text>) {
        let is_response = |(_, message): &(usize, Message)| message.as_assistant().is_some();
        let response = self.messages.iter().rposition(is_response);
        let index = self.calls.iter().position(|id| id == call);
        if let (Some(response), Some(index)) =
            (response, index.and_then(|at| u32::try_from(at).ok()))
        {
            self.waiting.push(Waiting {
                question: question.to_owned(),
                key: (response, index),
                wait,
                prompt,
            });
        }
    }

    /// Keeps what was logged of a response that itself was not.
    fn broke_off(&mut self) {
        if let Some((line, text)) = self.begun.take()
            && !text.is_empty()
        {
            let mut response = Assistant::new(text.text());
            response.stop = Some(Stop::new(StopReason::Interrupted));
            self.calls.clear();
            self.answered.clear();
            self.messages.push((line, response.into()));
        }
    }

    fn end(mut self, loaded: &mut Loaded) {
        self.broke_off();
        let is_response = |(_, message): &(usize, Message)| message.as_assistant().is_some();
        let last = self.messages.iter().rposition(is_response);
        // What an earlier response waited for has been passed over.
        self.waiting.retain(|waiting| Some(waiting.key.0) == last);
        if let Some(last) = last.filter(|_| !self.waiting.is_empty()) {
            let said = self.messages.iter();
            let mut entries: Vec<Entry> = said
                .map(|(_, message)| Entry::message(message.clone()))
                .collect();
            let suspended = self.waiting.into_iter().map(|waiting| {
                Entry::CallSuspended(CallSuspended {
                    call: CallKey {
                        message: last as u64 + 1,
                        index: waiting.key.1,
                    },
                    wait: waiting.wait,
                    prompt: waiting.prompt,
                })
            });
            entries.splice(last + 1..last + 1, suspended);
            let records = (1..).zip(entries).map(|(seq, entry)| Record {
                seq,
                at: Timestamp::default(),
                entry,
            });
            loaded.records = Some(records.collect());
        }
        loaded.messages = self.messages;
    }
}

/// Where a response came from, as far as a log says.
fn origin(data: &Members<'_>) -> Option<Origin> {
    let (provider, model) = (data.string("provider")?, data.string("model")?);
    let responses = data
        .string("response_id")
        .is_some_and(|id| id.starts_with("resp_"));
    let (api, provider) = match provider.as_str() {
        "anthropic" => (Api::AnthropicMessages, "anthropic"),
        "google" | "gemini" => (Api::GeminiContents, "gemini"),
        other if responses => (Api::OpenAiResponses, other),
        other => (Api::OpenAiChat, other),
    };
    Some(Origin::new(api.as_str(), provider, model))
}

fn usage(usage: &Members<'_>) -> Option<Usage> {
    let data = usage.object("data");
    let mut usage = Usage::default();
    usage.input = data.number("prompt_tokens");
    usage.output = data.number("completion_tokens");
    usage.cache_read = data.number("cache_read_input_tokens");
    usage.cache_write = data.number("cache_creation_input_tokens");
    usage.reasoning = data.number("thinking_tokens");
    (usage != Usage::default()).then_some(usage)
}

/// Reads the parts of a request or a result.
fn content(parts: &[Raw<'_>]) -> Content {
    let mut parts: Vec<Part> = parts.iter().map(|raw| part(raw)).collect();
    match (parts.pop(), parts.is_empty()) {
        (None, _) => Content::default(),
        (Some(Part::Text(text)), true) => Content::Text(text),
        (Some(last), _) => {
            parts.push(last);
            Content::Parts(parts)
        }
    }
}

fn part(raw: Raw<'_>) -> Part {
    let part = Members::read(raw.get());
    let is_image = part.object("kind").string("value").as_deref() == Some("image");
    if let Some(text) = part.get("content") {
        return Part::Text(json_text(text));
    }
    if let Some(url) = part.string("url").filter(|_| is_image) {
        return Part::ImageUrl { url };
    }
    let bytes = part.object("data").string("__bytes__");
    if let (Some(media_type), Some(base64)) = (part.string("media_type"), bytes) {
        if is_image || media_type.starts_with("image/") {
            return Part::ImageData { media_type, base64 };
        }
        return Part::Other(Json::parse(raw.get()).unwrap_or_else(|_| Json::empty_object()));
    }
    match (part.get("data"), part.get("url")) {
        (Some(data), _) => Part::Text(json_text(data)),
        (None, Some(url)) => Part::Text(json_text(url)),
        (None, None) => {
            Part::Other(Json::parse(raw.get()).unwrap_or_else(|_| Json::empty_object()))
        }
    }
}
