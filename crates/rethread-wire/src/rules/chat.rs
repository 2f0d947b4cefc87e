//! OpenAI Chat Completions and the servers that copy it.

use std::collections::HashSet;

use rethread_core::Json;

use super::pair::{Call as Named, Event, Match, Pairs, pair};
use super::{Found, Target, call_named, is_object, is_something, lone_surrogate, text};
use crate::Api;
use crate::decode::raw::{Members, Raw, literal, string};
use crate::encode::IdRule;

/// A call of a response.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) raw: String,
    pub(crate) id: String,
    pub(crate) name: String,
    /// The text of the arguments; `None` when they are missing or no string.
    pub(crate) arguments: Option<String>,
}

impl Call {
    fn read(raw: &str) -> Self {
        let members = Members::read(raw);
        let function = members.object("function");
        let arguments = function
            .get("arguments")
            .filter(|raw| literal(raw).is_some());
        Self {
            raw: raw.to_owned(),
            id: text(&members, "id"),
            name: text(&function, "name"),
            arguments: arguments.and_then(string),
        }
    }

    /// Whether the arguments are what servers take: an object, or `null` for none.
    pub(crate) fn is_sound(&self) -> bool {
        let arguments = self.arguments.as_deref().map(str::trim);
        arguments.is_some_and(|text| text == "null" || is_object(text))
    }
}

/// A message.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) role: String,
    /// `None` when there is no list of calls.
    pub(crate) calls: Option<Vec<Call>>,
    /// The call a tool's message answers.
    pub(crate) answers: String,
    pub(crate) name: String,
    /// Whether there is content that is neither null nor an empty list.
    pub(crate) has_content: bool,
    /// Whether it is an empty list.
    pub(crate) has_empty_list: bool,
    /// Whether the content, or what else can stand for it, says something.
    pub(crate) says_something: bool,
    pub(crate) refusal: Option<String>,
    pub(crate) has_reasoning: bool,
    pub(crate) prefix: bool,
}

impl Turn {
    /// Reads a message; `None` for what is no object.
    pub(crate) fn read(item: &Json) -> Option<Self> {
        if !item.is_object() {
            return None;
        }
        let members = Members::read(item.get());
        let is_list = |raw: &Raw<'_>| raw.get().starts_with('[');
        let calls = members.get("tool_calls").filter(is_list).map(|raw| {
            let calls = crate::decode::raw::elements(raw);
            calls.iter().map(|raw| Call::read(raw.get())).collect()
        });
        // Of another kind it is no content.
        let content = members.get("content");
        let content = content.filter(|raw| raw.get().starts_with(['"', '[']));
        let other = ["function_call", "audio"];
        let says_something =
            is_something(content) || other.iter().any(|name| is_something(members.get(name)));
        let refusal = members
            .string("refusal")
            .filter(|text| !text.trim().is_empty());
        Some(Self {
            role: text(&members, "role"),
            calls,
            answers: text(&members, "tool_call_id"),
            name: text(&members, "name"),
            has_content: content.is_some_and(|raw| !is_empty_list(raw)),
            has_empty_list: content.is_some_and(is_empty_list),
            says_something,
            refusal,
            has_reasoning: members
                .get("reasoning_content")
                .is_some_and(|raw| literal(raw).is_some()),
            prefix: members.get("prefix").is_some_and(|raw| raw.get() == "true"),
        })
    }

    pub(crate) fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }

    pub(crate) fn is_tool(&self) -> bool {
        self.role == "tool"
    }

    pub(crate) fn calls(&self) -> &[Call] {
        let calls = self.calls.as_deref().unwrap_or(&[]);
        if self.is_assistant() { calls } else { &[] }
    }
}

/// Calls and results with their places.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The messages with calls.
    pub(crate) batches: Vec<usize>,
    /// The messages of tools.
    pub(crate) results: Vec<usize>,
    pub(crate) pairs: Pairs,
}

impl Rounds {
    pub(crate) fn of(turns: &[Turn]) -> Self {
        let (mut rounds, mut events) = (Self::default(), Vec::new());
        for (at, turn) in turns.iter().enumerate() {
            if !turn.calls().is_empty() {
                rounds.batches.push(at);
                let calls = turn.calls().iter().map(|call| Named {
                    id: call.id.clone(),
                    name: call.name.clone(),
                });
                events.push(Event::Calls(calls.collect()));
            }
            if turn.is_tool() {
                rounds.results.push(at);
                events.push(Event::Result(Named {
                    id: turn.answers.clone(),
                    name: turn.name.clone(),
                }));
            }
        }
        rounds.pairs = pair(&events);
        rounds
    }
}

/// Which ids the service takes, if that is known.
pub(crate) fn id_rule(target: &Target) -> Option<IdRule> {
    target.ids.or_else(|| {
        let mistral = ["mistral", "codestral", "devstral"];
        if mistral.iter().any(|word| target.is(word)) {
            Some(IdRule::NINE)
        } else {
            target.is("openai").then_some(IdRule::SHORT)
        }
    })
}

/// What a service wants of the reasoning of earlier responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Nothing,
    /// A response with calls comes with its reasoning (Kimi, MiMo).
    WithCalls,
    /// From the first calls on every response does (DeepSeek).
    AfterCalls,
}

impl Wants {
    pub(crate) fn of(target: &Target) -> Self {
        let kimi = ["kimi", "moonshot", "mimo"];
        match target.thinking {
            Some(true) if target.is("deepseek") => Self::AfterCalls,
            Some(true) if kimi.iter().any(|word| target.is(word)) => Self::WithCalls,
            _ => Self::Nothing,
        }
    }

    /// Whether a response must have `reasoning_content`, given whether one up to it had calls.
    pub(crate) fn of_response(self, turn: &Turn, had_calls: bool) -> bool {
        match self {
            Self::Nothing => false,
            Self::WithCalls => !turn.calls().is_empty(),
            Self::AfterCalls => had_calls || !turn.calls().is_empty(),
        }
    }
}

pub(super) fn check(found: &mut Found, items: &[Json], target: &Target) {
    let mut turns = Vec::with_capacity(items.len());
    let (rule, wants, mut had_calls) = (id_rule(target), Wants::of(target), false);
    for (at, item) in items.iter().enumerate() {
        let Some(turn) = Turn::read(item) else {
            found.add("missing_field", at, None, "this is no message");
            turns.push(empty());
            continue;
        };
        match turn.role.as_str() {
            "assistant" => response(found, at, &turn, rule, target),
            "system" | "developer" | "user" | "tool" | "function" => {
                if !turn.has_content {
                    found.add("empty_content", at, None, "the message has no content");
                }
                if turn.is_tool() && turn.answers.is_empty() {
                    let detail = "a tool's message names no call";
                    found.add("missing_field", at, None, detail);
                }
            }
            "" => found.add("missing_field", at, None, "the message has no `role`"),
            role => {
                let detail = format!("the role `{role}` is unknown");
                found.add("wrong_role", at, None, detail);
            }
        }
        if turn.is_assistant() {
            if wants.of_response(&turn, had_calls) && !turn.has_reasoning {
                let detail =
                    "the response comes without its `reasoning_content`, which the service demands";
                found.add("reasoning_missing", at, None, detail);
            }
            had_calls |= !turn.calls().is_empty();
        }
        turns.push(turn);
    }
    pairing(found, &turns);
    if let Some(last) = turns.last()
        && last.is_assistant()
        && !last.prefix
        && target.refuses_prefill(Api::OpenAiChat)
    {
        let detail = "the history ends with a response, which the model does not go on with";
        found.add("prefill", turns.len() - 1, None, detail);
    }
}

fn is_empty_list(raw: Raw<'_>) -> bool {
    let inside = raw
        .get()
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inside.is_some_and(|inside| inside.trim().is_empty())
}

fn empty() -> Turn {
    Turn {
        role: String::new(),
        calls: None,
        answers: String::new(),
        name: String::new(),
        has_content: false,
        has_empty_list: false,
        says_something: false,
        refusal: None,
        has_reasoning: false,
        prefix: false,
    }
}

fn response(found: &mut Found, at: usize, turn: &Turn, rule: Option<IdRule>, target: &Target) {
    if turn.calls.as_ref().is_some_and(Vec::is_empty) {
        found.add("empty_content", at, None, "the list of calls is empty");
    }
    if turn.has_empty_list && !turn.calls().is_empty() {
        found.add("empty_content", at, None, "the list of parts is empty");
    }
    if turn.calls().is_empty() && !turn.says_something {
        let detail = "the response has neither content nor calls";
        found.add("empty_content", at, None, detail);
    }
    let mut seen = HashSet::new();
    for call in turn.calls() {
        let (id, named) = (Some(call.id.as_str()), call_named(&call.name, &call.id));
        if call.id.is_empty() {
            found.add("missing_field", at, None, format!("{named} has no id"));
        } else if rule.is_some_and(|rule| !rule.fits(&call.id)) {
            let detail = format!("the id `{}` has a form that is refused", call.id);
            found.add("id_format", at, id, detail);
        }
        if !call.id.is_empty() && !seen.insert(call.id.as_str()) {
            let detail = format!("the id `{}` names two calls of one response", call.id);
            found.add("duplicate_id", at, id, detail);
        }
        if call.name.is_empty() {
            found.add(
                "missing_field",
                at,
                id,
                format!("{named} names no function"),
            );
        }
        if !call.is_sound() {
            let detail = format!("the arguments of {named} are no JSON object");
            found.add("bad_arguments", at, id, detail);
        }
        let arguments = call.arguments.as_deref().unwrap_or("");
        if lone_surrogate(arguments) {
            let detail = format!("the arguments of {named} hold half of a surrogate pair");
            found.add("lone_surrogate", at, id, detail);
        }
        let long = arguments.chars().count();
        if let Some(most) = target.max_argument_chars.filter(|most| long > *most) {
            let detail =
                format!("the arguments of {named} are {long} characters, {most} are taken");
            found.add("arguments_too_long", at, id, detail);
        }
    }
}

fn pairing(found: &mut Found, turns: &[Turn]) {
    let rounds = Rounds::of(turns);
    for (at, what) in rounds.results.iter().zip(&rounds.pairs.results) {
        let id = turns.get(*at).map_or("", |turn| turn.answers.as_str());
        match what {
            Match::Answer { .. } => {}
            Match::Extra => {
                let detail = format!("a second result for the call `{id}`");
                found.add("duplicate_tool_result", *at, Some(id), detail);
            }
            Match::Foreign => {
                let detail = format!("a result for `{id}`, which no call before it asks for");
                found.add("orphan_tool_result", *at, Some(id), detail);
            }
        }
    }
    for (at, slots) in rounds.batches.iter().zip(&rounds.pairs.answers) {
        let Some(turn) = turns.get(*at) else { continue };
        let run = run_after(turns, *at);
        for (call, slot) in turn.calls().iter().zip(slots) {
            let named = call_named(&call.name, &call.id);
            match slot.and_then(|result| rounds.results.get(result)) {
                None => {
                    let detail = format!("{named} has no result");
                    found.add("unanswered_tool_call", *at, Some(&call.id), detail);
                }
                Some(other) if !run.contains(other) => {
                    let detail = format!(
                        "the result of {named} stands in message {other}, not directly after it"
                    );
                    found.add("turn_order", *at, Some(&call.id), detail);
                }
                Some(_) => {}
            }
        }
    }
}

/// The messages of tools directly after a message.
pub(crate) fn run_after(turns: &[Turn], at: usize) -> std::ops::Range<usize> {
    let rest = turns.iter().skip(at + 1);
    at + 1..at + 1 + rest.take_while(|turn| turn.is_tool()).count()
}
