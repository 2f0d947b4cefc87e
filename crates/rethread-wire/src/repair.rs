//! The smallest change that makes a history valid for a provider and ready to send.

mod anthropic;
mod chat;
mod gemini;
mod ids;
mod neutral;
mod responses;

use rethread_core::{
    CallState, Json, NotResumable, ResumeKind, ResumePoint, StopReason, Text, ToolCall, texts,
};
use serde::Serialize;

use crate::Api;
use crate::decode::raw::{Members, Object};
use crate::formats::{Document, Loaded, stop::stop};
use crate::rules::{Target, call_named};

/// A history that was made ready to send.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Repaired {
    /// A JSON object with the list under its name (`messages`, `input` or `contents`), and beside it what
    /// stood beside it in the file.
    pub request: Json,
    /// What was changed, in the order of the places. Nothing that is not told here differs from what
    /// the file holds.
    pub changes: Vec<Change>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The place in the file, as in a [`Problem`](crate::rules::Problem); for what was added, where it
    /// belongs.
    pub at: usize,
    /// What was done: `answered`, `moved`, `set_aside`, `renamed`, `removed`, `replaced`, `added`,
    /// `merged`, or `thinking_off`, which asks for something besides the history.
    pub what: &'static str,
    /// The call or item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The same as a sentence.
    pub detail: String,
}

/// Makes a history ready to send to `api`: open calls are answered with what is known of them, results
/// stand behind their calls, what the provider would refuse is set aside, renamed or replaced, and the
/// instruction to start a response again or to go on with it stands last where the resume point asks
/// for it. `append` is a message of the user to end with instead.
///
/// A history in the provider's own form is changed item by item, and what need not change stays as it
/// came, byte for byte. Any other is written afresh. Repairing what was repaired changes nothing.
///
/// ```
/// use rethread_wire::{Api, formats, repair, rules::Target};
///
/// let file = br#"[{"role":"user","content":"list"},
///     {"role":"assistant","tool_calls":[{"id":"a","type":"function",
///      "function":{"name":"ls","arguments":"{}"}}]}]"#;
/// let loaded = formats::read(file, formats::Format::OpenAiChat);
/// let repaired = repair(&loaded, Api::OpenAiChat, &Target::default(), None);
/// assert_eq!(repaired.changes[0].what, "answered");
/// assert!(repaired.request.get().contains("may or may not have completed"));
/// ```
#[must_use]
pub fn repair(loaded: &Loaded, api: Api, target: &Target, append: Option<&str>) -> Repaired {
    let target = known(loaded, target);
    let document = match &loaded.document {
        Some(document) if loaded.format.native_api() == Some(api) => document,
        _ => return neutral::repair(loaded, api, &target, append),
    };
    let mut job = Job {
        api,
        document,
        target: &target,
        point: loaded.resume_point(),
        append,
        changes: Vec::new(),
        thinking_off: false,
    };
    let items = match api {
        Api::AnthropicMessages => anthropic::repair(&mut job),
        Api::OpenAiChat => chat::repair(&mut job),
        Api::OpenAiResponses => responses::repair(&mut job),
        Api::GeminiContents => gemini::repair(&mut job),
    };
    job.finish(&items)
}

/// What is known of the next request, with what the file itself says of it.
pub(crate) fn known(loaded: &Loaded, target: &Target) -> Target {
    let mut target = target.clone();
    if let Some(document) = &loaded.document {
        let before = [
            "previous_response_id",
            "conversation",
            "cachedContent",
            "cached_content",
        ];
        target.chained |= before.iter().any(|name| document.get(name).is_some());
        // With `adaptive` reasoning nothing is demanded of the history.
        let thinking = document
            .get("thinking")
            .map(|json| Members::read(json.get()));
        if thinking
            .and_then(|thinking| thinking.string("type"))
            .as_deref()
            == Some("enabled")
        {
            target.thinking = target.thinking.or(Some(true));
        }
        let store = document.get("store").and_then(|json| json.decode().ok());
        target.store = target.store.or(store);
    }
    target
}

/// The name of the list in a request.
pub(crate) fn list_name(api: Api) -> &'static str {
    match api {
        Api::AnthropicMessages | Api::OpenAiChat => "messages",
        Api::OpenAiResponses => "input",
        Api::GeminiContents => "contents",
    }
}

/// The message that stands where a provider wants one of the user and nothing else is to be said.
const GO_ON: &str = "Continue.";

/// What a failure that gives no reason says.
const NO_REASON: &str = "The tool failed and gave no reason.";

/// A repair under way.
struct Job<'a> {
    api: Api,
    document: &'a Document,
    target: &'a Target,
    point: Result<ResumePoint, NotResumable>,
    append: Option<&'a str>,
    changes: Vec<Change>,
    thinking_off: bool,
}

impl Job<'_> {
    fn change(&mut self, what: &'static str, at: usize, id: &str, detail: impl Into<String>) {
        self.changes.push(Change {
            at,
            what,
            id: (!id.is_empty()).then(|| id.to_owned()),
            detail: detail.into(),
        });
    }

    fn kind(&self) -> Option<ResumeKind> {
        self.point.as_ref().ok().map(|point| point.kind)
    }

    /// Whether the last response is to be started again or gone on with.
    fn asks_again(&self) -> bool {
        matches!(
            self.kind(),
            Some(ResumeKind::RetryResponse | ResumeKind::ContinueResponse)
        )
    }

    /// Whether something will be said after what is there.
    fn says_more(&self) -> bool {
        self.append.is_some() || self.asks_again()
    }

    /// How the response with this place ended, if that is said.
    fn reason(&self, at: usize) -> Option<StopReason> {
        let said = self.document.stops.get(&at)?;
        stop(Some(self.api), said.as_deref(), true).map(|stop| stop.reason)
    }

    /// What is said last, if anything, to a history that ends with what stood at `last`, if that is a
    /// response.
    fn last_words(&mut self, last: Option<usize>, is_paused: bool) -> Option<String> {
        let end = self.document.items.len();
        if let Some(text) = self.append {
            self.change("added", end, "", "the message of the user that was given");
            return Some(text.to_owned());
        }
        let last = last?;
        let was_last = self.document.items.len().checked_sub(1) == Some(last);
        let (text, why) = match self.kind() {
            Some(ResumeKind::RetryResponse) if was_last => (
                texts::RETRY_NOTICE,
                "the instruction to start the response again that broke off",
            ),
            Some(ResumeKind::ContinueResponse) if was_last => (
                texts::CONTINUE_NOTICE,
                "the instruction to go on where the output limit was reached",
            ),
            _ if self.target.refuses_prefill(self.api) && !is_paused => (
                GO_ON,
                "a message of the user, since the model does not go on with a response",
            ),
            _ => return None,
        };
        self.change("added", end, "", why);
        Some(text.to_owned())
    }

    /// Replaces halves of surrogate pairs, which no service takes.
    fn sendable(&mut self, at: usize, json: String) -> String {
        if !crate::rules::lone_surrogate(&json) {
            return json;
        }
        let detail = "half of a surrogate pair, which is no character, is now U+FFFD";
        self.change("replaced", at, "", detail);
        crate::decode::raw::sendable(json)
            .map_or_else(|| "null".to_owned(), |json| json.get().to_owned())
    }

    fn finish(mut self, items: &[String]) -> Repaired {
        let mut request = Object::new();
        request.list(list_name(self.api), items);
        for (name, json) in &self.document.beside {
            if name == "thinking" && self.thinking_off {
                request.raw(name, "{\"type\":\"disabled\"}");
            } else {
                request.raw(name, json.get());
            }
        }
        self.changes.sort_by_key(|change| change.at);
        Repaired {
            request: Json::parse(&request.end()).unwrap_or_else(|_| Json::empty_object()),
            changes: self.changes,
        }
    }
}

/// What is said of a call that is answered here.
fn answered(call: &ToolCall) -> String {
    let named = call_named(&call.name, &call.id);
    match call.is_decoded() {
        true => format!("{named}, which may or may not have run"),
        false => format!("{named}, which never ran: its arguments do not decode"),
    }
}

/// The result that closes a call nothing more is known of.
fn closing(call: &ToolCall) -> String {
    texts::closing_result(call, CallState::Unknown)
}

/// The literal of a string.
fn literal(text: &str) -> String {
    Text::new(text).literal().to_owned()
}

#[cfg(test)]
mod tests;
