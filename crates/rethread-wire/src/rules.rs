//! The rules by which providers refuse a history, as functions over the history alone.
//!
//! Sources: the providers' public documentation, the sentences with which their servers refuse a
//! request, and requests that real servers accepted.

pub(crate) mod anthropic;
pub(crate) mod chat;
pub(crate) mod gemini;
pub(crate) mod neutral;
pub(crate) mod pair;
pub(crate) mod responses;
mod target;

use rethread_core::{Json, has_lone_surrogate};
use serde::Serialize;

use crate::Api;
use crate::decode::raw::{self, Members, Raw};

pub use target::Target;

/// Something in a history that a provider would refuse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The rule's name: stable, in lower case. Where a server has words for the same rule, it is the
    /// name under which a refusal of that server is reported.
    pub rule: &'static str,
    /// The place: the index in the list, from 0, or the line of the file, from 1.
    pub at: usize,
    /// The call, item or record it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What is wrong, as a sentence.
    pub detail: String,
    /// Whether [`repair`](crate::repair()) mends it by changing the history alone.
    pub fixable: bool,
}

/// Says what in a provider's own history breaks its rules. `items` are the elements of `messages`,
/// `input` or `contents`, as they stand in a request; nothing is found in a history that can be sent.
///
/// What is known of the next request decides some rules; what is not known is not held against a
/// history.
///
/// ```
/// use rethread_core::Json;
/// use rethread_wire::{Api, rules};
///
/// let items = [Json::parse(r#"{"role":"tool","tool_call_id":"a","content":"42"}"#)?];
/// let problems = rules::check(Api::OpenAiChat, &items, &rules::Target::default());
/// assert_eq!(problems[0].rule, "orphan_tool_result");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn check(api: Api, items: &[Json], target: &Target) -> Vec<Problem> {
    let mut found = Found::default();
    match api {
        Api::AnthropicMessages => anthropic::check(&mut found, items, target),
        Api::OpenAiChat => chat::check(&mut found, items, target),
        Api::OpenAiResponses => responses::check(&mut found, items, target),
        Api::GeminiContents => gemini::check(&mut found, items, target),
    }
    for (at, item) in items.iter().enumerate() {
        if lone_surrogate(item.get()) {
            let detail = "it holds half of a surrogate pair, which is no character and which no service takes";
            found.add("lone_surrogate", at, None, detail);
        }
    }
    let mut problems = found.0;
    problems.sort_by_key(|problem| problem.at);
    problems
}

/// Collects problems.
#[derive(Debug, Default)]
pub(crate) struct Found(Vec<Problem>);

impl Found {
    pub(crate) fn add(
        &mut self,
        rule: &'static str,
        at: usize,
        id: Option<&str>,
        detail: impl Into<String>,
    ) {
        self.0.push(Problem {
            rule,
            at,
            id: id.map(str::to_owned),
            detail: detail.into(),
            fixable: true,
        });
    }

    /// Adds a problem that no change of the history mends.
    pub(crate) fn add_unfixable(
        &mut self,
        rule: &'static str,
        at: usize,
        id: Option<&str>,
        detail: impl Into<String>,
    ) {
        self.add(rule, at, id, detail);
        if let Some(problem) = self.0.last_mut() {
            problem.fixable = false;
        }
    }

    pub(crate) fn into_problems(self) -> Vec<Problem> {
        self.0
    }
}

/// Whether JSON holds half of a surrogate pair.
pub(crate) fn lone_surrogate(json: &str) -> bool {
    (json.contains("\\ud") || json.contains("\\uD")) && has_lone_surrogate(json)
}

/// Whether a value is there and says something.
pub(crate) fn is_something(raw: Option<Raw<'_>>) -> bool {
    raw.is_some_and(|raw| !matches!(raw.get(), "\"\"" | "[]" | "{}" | "null"))
}

/// Whether a string has nothing but white space.
pub(crate) fn is_blank(raw: Raw<'_>) -> bool {
    raw::string(raw).is_none_or(|text| text.trim().is_empty())
}

/// Whether a text is a JSON object, as the arguments of a call must be.
pub(crate) fn is_object(text: &str) -> bool {
    Json::parse(text).is_ok_and(|json| json.is_object())
}

/// The string that is a member, or nothing.
pub(crate) fn text(members: &Members<'_>, name: &str) -> String {
    members.string(name).unwrap_or_default()
}

/// A call as a sentence names it.
pub(crate) fn call_named(name: &str, id: &str) -> String {
    match (name, id) {
        ("", "") => "a call".to_owned(),
        ("", id) => format!("the call `{id}`"),
        (name, "") => format!("a call of `{name}`"),
        (name, id) => format!("the call `{id}` of `{name}`"),
    }
}

#[cfg(test)]
mod tests;
