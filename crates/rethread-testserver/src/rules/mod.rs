//! The rules the services hold a request to, as functions over a request body.

mod anthropic;
mod chat;
mod gemini;
mod responses;

pub use anthropic::check_anthropic;
pub use chat::check_chat;
pub use gemini::check_gemini;
pub use responses::check_responses;

use crate::api::Api;
use crate::value::At;
use serde_json::Value;
use std::fmt;

/// A rule that a request breaks, with the words the service would use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule's name: stable, lower case, for use in tests.
    pub rule: &'static str,
    /// The place in the body.
    pub at: String,
    /// The sentence of the service.
    pub message: String,
    /// The HTTP status of the refusal.
    pub status: u16,
    /// The service's own code for it, if there is one.
    pub code: Option<&'static str>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.rule, self.at, self.message)
    }
}

/// Which Chat Completions server is played. They differ in what they refuse and in how
/// they send reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChatServer {
    /// OpenAI's rules, but reasoning fields in assistant messages are accepted.
    #[default]
    Compatible,
    /// OpenAI: reasoning fields are unknown parameters.
    OpenAi,
    /// DeepSeek: `reasoning_content` must come back once a turn had tool calls.
    DeepSeek,
    /// The old deepseek-reasoner: `reasoning_content` must not come back.
    OldReasoner,
    /// Kimi and MiMo: `reasoning_content` must come back on tool-call messages.
    Kimi,
    /// OpenRouter: `reasoning` and `reasoning_details`, which must come back unchanged.
    OpenRouter,
    /// Mistral: ids of 9 alphanumerics, no trailing assistant message without `prefix`.
    Mistral,
    /// llama.cpp: lenient, but no two assistant messages at the end.
    LlamaCpp,
    /// Gemini's compatible endpoint: `extra_content.google.thought_signature` on calls.
    GeminiCompat,
}

/// The switches for what depends on a model or an account. [`Rules::default`] is the
/// strict side of each that a current service of the first rank is known to enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Require the authentication and version headers (server only).
    pub headers: bool,
    /// Largest request body in bytes (server only).
    pub max_body: usize,
    /// Refuse signatures, encrypted blobs and other opaque values that the server did
    /// not hand out, or not with this content (server only).
    pub known_blobs: bool,
    /// Refuse unknown fields in requests, messages and blocks.
    pub unknown_fields: bool,
    /// Anthropic: the model takes a trailing assistant message as a prefill.
    pub anthropic_prefill: bool,
    /// Anthropic: `system` messages among the others are accepted.
    pub anthropic_system_messages: bool,
    /// Anthropic: the first message must be from the user (older models; off by default).
    pub anthropic_first_user: bool,
    /// Anthropic: `tool_choice` may force a tool.
    pub anthropic_forced_choice: bool,
    /// Anthropic: thinking blocks are bound to everything before them (server only).
    pub anthropic_bound_thinking: bool,
    /// Chat: the server played.
    pub chat: ChatServer,
    /// Chat: thinking is on unless the request turns it off (DeepSeek, Kimi).
    pub chat_thinking: bool,
    /// Chat: `stream_options` is accepted.
    pub chat_stream_options: bool,
    /// Chat: a strict template (some local servers; off by default): system first, user and assistant in turn, no user right
    /// after tool.
    pub chat_strict_roles: bool,
    /// Chat, Responses: arguments may be the text `null` or empty.
    pub null_arguments: bool,
    /// Chat: a call id may be used again in a later turn.
    pub chat_reused_ids: bool,
    /// Responses: `truncation: auto` is accepted (it drops items silently).
    pub responses_truncation: bool,
    /// Responses: calls need their `reasoning_text` (DeepSeek).
    pub responses_reasoning_text: bool,
    /// Responses: reasoning items need non-empty `content` (llama.cpp).
    pub responses_reasoning_content: bool,
    /// Gemini: signatures are enforced (Gemini 3 and later; the server turns it off for
    /// models named `gemini-1`, `gemini-2`).
    pub gemini_signatures: bool,
    /// Gemini: the literal dummy signatures are accepted.
    pub gemini_dummy_signature: bool,
    /// Gemini: every content needs its role (Vertex).
    pub gemini_role_required: bool,
    /// Gemini: a trailing model turn is accepted.
    pub gemini_trailing_model: bool,
    /// Gemini: a response may leave out the id of its call.
    pub gemini_loose_ids: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            headers: true,
            max_body: 32 * 1024 * 1024,
            known_blobs: true,
            unknown_fields: true,
            anthropic_prefill: false,
            anthropic_system_messages: false,
            anthropic_first_user: false,
            anthropic_forced_choice: true,
            anthropic_bound_thinking: true,
            chat: ChatServer::Compatible,
            chat_thinking: true,
            chat_stream_options: true,
            chat_strict_roles: false,
            null_arguments: false,
            chat_reused_ids: false,
            responses_truncation: false,
            responses_reasoning_text: false,
            responses_reasoning_content: false,
            gemini_signatures: true,
            gemini_dummy_signature: true,
            gemini_role_required: true,
            gemini_trailing_model: false,
            gemini_loose_ids: false,
        }
    }
}

impl Rules {
    /// Every switch on its lenient side. What no model or account takes is still refused.
    #[must_use]
    pub fn lenient() -> Self {
        Self {
            headers: false,
            known_blobs: false,
            unknown_fields: false,
            anthropic_prefill: true,
            anthropic_system_messages: true,
            anthropic_bound_thinking: false,
            chat_thinking: false,
            null_arguments: true,
            chat_reused_ids: true,
            responses_truncation: true,
            gemini_signatures: false,
            gemini_role_required: false,
            gemini_trailing_model: true,
            gemini_loose_ids: true,
            ..Self::default()
        }
    }

    /// The default rules for one kind of Chat Completions server.
    #[must_use]
    pub fn chat(server: ChatServer) -> Self {
        Self {
            chat: server,
            null_arguments: server == ChatServer::LlamaCpp,
            chat_reused_ids: matches!(
                server,
                ChatServer::LlamaCpp | ChatServer::Mistral | ChatServer::GeminiCompat
            ),
            unknown_fields: matches!(server, ChatServer::OpenAi | ChatServer::Compatible),
            ..Self::default()
        }
    }
}

/// Run the check of an API.
pub(crate) fn check(api: Api, body: &Value, rules: &Rules) -> Vec<Violation> {
    match api {
        Api::Anthropic => check_anthropic(body, rules),
        Api::Chat => check_chat(body, rules),
        Api::Responses => check_responses(body, rules),
        Api::Gemini => check_gemini(body, rules),
    }
}

/// The number of assistant turns in a request: runs of what the model said.
pub(crate) fn turns(api: Api, body: &Value) -> usize {
    let list = |key: &str| body.at(key).as_array().map_or(&[][..], Vec::as_slice);
    let by_role = |key: &str, role: &str| runs(list(key), |m| m.at("role") == role);
    match api {
        Api::Anthropic => by_role("messages", "assistant"),
        Api::Gemini => by_role("contents", "model"),
        // Here each message is one answer; two in a row are two answers.
        Api::Chat => list("messages")
            .iter()
            .filter(|m| m.at("role") == "assistant")
            .count(),
        Api::Responses => runs(list("input"), responses::from_model),
    }
}

fn runs(list: &[Value], is: impl Fn(&Value) -> bool) -> usize {
    let mut before = false;
    let mut count = 0;
    for item in list {
        let now = is(item);
        if now && !before {
            count += 1;
        }
        before = now;
    }
    count
}

pub(crate) use anthropic::strip_cache_control;

/// Is this one of Gemini's documented stand-ins for a signature?
pub(crate) fn is_dummy(signature: &str) -> bool {
    gemini::DUMMIES.contains(&signature)
}

/// A collector of violations.
#[derive(Default)]
pub(crate) struct Found(pub(crate) Vec<Violation>);

impl Found {
    /// A 400 without a code.
    pub(crate) fn add(
        &mut self,
        rule: &'static str,
        at: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add_as(rule, at, message, 400, None);
    }

    /// Any status and code.
    pub(crate) fn add_as(
        &mut self,
        rule: &'static str,
        at: impl Into<String>,
        message: impl Into<String>,
        status: u16,
        code: Option<&'static str>,
    ) {
        let (at, message) = (at.into(), message.into());
        self.0.push(Violation {
            rule,
            at,
            message,
            status,
            code,
        });
    }
}

/// Is this `[a-zA-Z0-9_-]` of 1 to `max` characters?
pub(crate) fn is_name(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// The fields of `value` that are not among `known`.
pub(crate) fn unknown<'a>(value: &'a Value, known: &'a [&str]) -> impl Iterator<Item = &'a str> {
    value
        .as_object()
        .into_iter()
        .flat_map(|map| map.keys())
        .map(String::as_str)
        .filter(|key| !known.contains(key))
}

/// Why an arguments text is no JSON object, if it is none.
pub(crate) fn bad_arguments(text: &str, rules: &Rules) -> Option<String> {
    if rules.null_arguments && matches!(text.trim(), "" | "null") {
        return None;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => None,
        Ok(_) => Some("not an object".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::Violation;

    /// The rules broken, without repeats.
    pub(crate) fn rules_of(found: &[Violation]) -> Vec<&'static str> {
        let mut names: Vec<_> = found.iter().map(|v| v.rule).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
