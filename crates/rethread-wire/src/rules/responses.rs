//! OpenAI Responses.

use std::collections::HashSet;

use rethread_core::Json;

use super::pair::{Call, Event, Match, Pairs, pair};
use super::{Found, Target, call_named, is_object, is_something, lone_surrogate, text};
use crate::Api;
use crate::decode::raw::{Members, literal, string};

/// What an item is, as far as the rules tell items apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message of the model.
    Answer,
    /// A message of anybody else.
    Said,
    Reasoning,
    /// A call that is answered with an item of its own.
    Call,
    Output,
    /// A call of a tool that the service runs itself.
    Hosted,
    /// A reference to something the service keeps.
    Reference,
    Other,
}

/// Types of calls that are answered with an item of that name and `_output`.
const CALLS: [&str; 6] = [
    "function_call",
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
];

/// Members that stand in a response and are refused in a request.
pub(crate) const OUTPUT_ONLY: [&str; 2] = ["created_by", "parsed_arguments"];

/// An item.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    /// The type as it came; `message` where a message has none.
    pub(crate) word: String,
    pub(crate) id: String,
    pub(crate) call_id: String,
    pub(crate) name: String,
    /// The text of a function's arguments; `None` when they are missing or no string.
    pub(crate) arguments: Option<String>,
    pub(crate) role: String,
    pub(crate) has_summary: bool,
    pub(crate) is_encrypted: bool,
    pub(crate) has_content: bool,
    /// Whether there is content, if only an empty one.
    pub(crate) has_any_content: bool,
    pub(crate) output_only: Vec<&'static str>,
    /// Something without which the service does not take the item, and which cannot be made up.
    pub(crate) lacks: Option<&'static str>,
}

impl Item {
    /// Reads an item; `None` for what is no object.
    pub(crate) fn read(item: &Json) -> Option<Self> {
        if !item.is_object() {
            return None;
        }
        let members = Members::read(item.get());
        let role = text(&members, "role");
        let mut word = text(&members, "type");
        if word.is_empty() && !role.is_empty() {
            "message".clone_into(&mut word);
        }
        let kind = match word.as_str() {
            "message" if role == "assistant" => Kind::Answer,
            "message" => Kind::Said,
            "reasoning" => Kind::Reasoning,
            "item_reference" => Kind::Reference,
            word if CALLS.contains(&word) => Kind::Call,
            word if word
                .strip_suffix("_output")
                .is_some_and(|word| CALLS.contains(&word)) =>
            {
                Kind::Output
            }
            word if word.ends_with("_call") => Kind::Hosted,
            _ => Kind::Other,
        };
        let arguments = members
            .get("arguments")
            .filter(|raw| literal(raw).is_some());
        Some(Self {
            kind,
            id: text(&members, "id"),
            call_id: text(&members, "call_id"),
            name: text(&members, "name"),
            arguments: arguments.and_then(string),
            role,
            has_summary: members.get("summary").is_some(),
            is_encrypted: is_something(members.get("encrypted_content")),
            has_content: is_something(members.get("content")),
            has_any_content: members
                .get("content")
                .is_some_and(|raw| raw.get().starts_with(['"', '['])),
            lacks: match word.as_str() {
                "web_search_call" if members.object("action").get("type").is_none() => {
                    Some("action.type")
                }
                "compaction" if !is_something(members.get("encrypted_content")) => {
                    Some("encrypted_content")
                }
                _ => None,
            },
            output_only: OUTPUT_ONLY
                .into_iter()
                .filter(|name| members.iter().any(|(key, _)| key == *name))
                .collect(),
            word,
        })
    }

    pub(crate) fn is_function(&self) -> bool {
        self.word == "function_call"
    }

    /// Whether a missing output of this call can be made up: it is a text.
    pub(crate) fn takes_text(&self) -> bool {
        matches!(self.word.as_str(), "function_call" | "custom_tool_call")
    }

    /// Whether reasoning can lead to this.
    pub(crate) fn follows_reasoning(&self) -> bool {
        matches!(self.kind, Kind::Answer | Kind::Call | Kind::Hosted)
    }

    pub(crate) fn is_sound_function(&self) -> bool {
        self.arguments
            .as_deref()
            .is_some_and(|text| is_object(text.trim()))
    }
}

/// Calls and outputs with their places. An output counts for the calls it can be an output of.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The items that are calls.
    pub(crate) calls: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) pairs: Pairs,
}

impl Rounds {
    pub(crate) fn of(items: &[Item]) -> Self {
        let (mut rounds, mut events) = (Self::default(), Vec::new());
        // Calls that stand side by side are of one response.
        let mut batch = Vec::new();
        let end = |batch: &mut Vec<Call>, events: &mut Vec<Event>| {
            if !batch.is_empty() {
                events.push(Event::Calls(std::mem::take(batch)));
            }
        };
        for (at, item) in items.iter().enumerate() {
            let call = Call {
                id: item.call_id.clone(),
                name: item.name.clone(),
            };
            match item.kind {
                Kind::Call => {
                    rounds.calls.push(at);
                    batch.push(call);
                }
                Kind::Output => {
                    end(&mut batch, &mut events);
                    rounds.outputs.push(at);
                    events.push(Event::Result(call));
                }
                Kind::Said | Kind::Reference => end(&mut batch, &mut events),
                _ => {}
            }
        }
        end(&mut batch, &mut events);
        rounds.pairs = pair(&events);
        rounds
    }

    /// The call and the output that answers it, as places in the list of items. An output may stand
    /// anywhere behind its call.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (usize, Option<usize>)> {
        let slots = self.pairs.answers.iter().flatten();
        self.calls.iter().zip(slots).map(|(call, slot)| {
            let output = slot.and_then(|output| self.outputs.get(output));
            (*call, output.copied())
        })
    }
}

pub(super) fn check(found: &mut Found, list: &[Json], target: &Target) {
    let mut items = Vec::with_capacity(list.len());
    for (at, json) in list.iter().enumerate() {
        items.push(Item::read(json).unwrap_or_else(|| {
            found.add("missing_field", at, None, "this is no item");
            other()
        }));
    }
    let (mut ids, mut call_ids) = (HashSet::new(), HashSet::new());
    for (at, item) in items.iter().enumerate() {
        check_item(found, at, item, target);
        if !item.id.is_empty() && !ids.insert(item.id.as_str()) {
            let detail = format!("the id `{}` names an item for the second time", item.id);
            found.add("duplicate_id", at, Some(&item.id), detail);
        }
        if item.kind == Kind::Call && !call_ids.insert(item.call_id.as_str()) {
            let detail = format!("the id `{}` names a call for the second time", item.call_id);
            found.add("duplicate_id", at, Some(&item.call_id), detail);
        }
        reasoning(found, at, &items, target);
    }
    pairing(found, &items, target);
    if let Some(last) = items.last()
        && last.follows_reasoning()
        && last.kind != Kind::Call
        && target.refuses_prefill(Api::OpenAiResponses)
    {
        let detail = "the history ends with a response, which the model does not go on with";
        found.add("prefill", items.len() - 1, None, detail);
    }
}

fn other() -> Item {
    Item {
        kind: Kind::Other,
        word: "?".to_owned(),
        id: String::new(),
        call_id: String::new(),
        name: String::new(),
        arguments: None,
        role: String::new(),
        has_summary: false,
        is_encrypted: false,
        has_content: false,
        has_any_content: false,
        output_only: Vec::new(),
        lacks: None,
    }
}

fn check_item(found: &mut Found, at: usize, item: &Item, target: &Target) {
    let id = (!item.id.is_empty()).then_some(item.id.as_str());
    for name in &item.output_only {
        let detail = format!("`{name}` stands in responses only");
        found.add("output_only_field", at, id, detail);
    }
    if let Some(lacks) = item.lacks {
        let detail = format!("the item, a `{}`, has no `{lacks}`", item.word);
        found.add("missing_field", at, id, detail);
    }
    match item.kind {
        Kind::Other if item.word.is_empty() => {
            found.add("missing_field", at, id, "the item has no `type`");
        }
        Kind::Said if !matches!(item.role.as_str(), "user" | "system" | "developer") => {
            let detail = match item.role.as_str() {
                "" => "the message has no `role`".to_owned(),
                role => format!("the role `{role}` is unknown"),
            };
            found.add("wrong_role", at, id, detail);
        }
        Kind::Said | Kind::Answer if !item.has_any_content => {
            found.add("empty_content", at, id, "the message has no content");
        }
        Kind::Reference if target.store == Some(false) => {
            let detail = format!(
                "the service keeps nothing, so it does not have `{}`",
                item.id
            );
            found.add("item_not_found", at, id, detail);
        }
        Kind::Call => check_call(found, at, item, target),
        Kind::Output if item.call_id.is_empty() => {
            found.add("missing_field", at, id, "an output names no call");
        }
        _ => {}
    }
    if target.is("openai")
        && let Some(prefix) = prefix(&item.word)
        && !item.id.is_empty()
        && !item.id.starts_with(prefix)
    {
        let detail = format!("the id `{}` does not begin with `{prefix}`", item.id);
        found.add("id_format", at, id, detail);
    }
}

/// What the ids of items of a type begin with.
pub(crate) fn prefix(word: &str) -> Option<&'static str> {
    Some(match word {
        "function_call" => "fc",
        "custom_tool_call" => "ctc",
        "reasoning" => "rs",
        "message" => "msg",
        _ => return None,
    })
}

fn check_call(found: &mut Found, at: usize, item: &Item, target: &Target) {
    let id = Some(item.call_id.as_str());
    let named = call_named(&item.name, &item.call_id);
    if item.call_id.is_empty() {
        found.add(
            "missing_field",
            at,
            None,
            format!("{named} has no `call_id`"),
        );
    } else if target.ids.is_some_and(|rule| !rule.fits(&item.call_id)) {
        let detail = format!("the id `{}` has a form that is refused", item.call_id);
        found.add("id_format", at, id, detail);
    }
    if !item.is_function() {
        return;
    }
    if item.name.is_empty() {
        found.add(
            "missing_field",
            at,
            id,
            format!("{named} names no function"),
        );
    }
    if !item.is_sound_function() {
        let detail = format!("the arguments of {named} are no JSON object");
        found.add("bad_arguments", at, id, detail);
    }
    let arguments = item.arguments.as_deref().unwrap_or("");
    if lone_surrogate(arguments) {
        let detail = format!("the arguments of {named} hold half of a surrogate pair");
        found.add("lone_surrogate", at, id, detail);
    }
    let (long, most) = (arguments.chars().count(), max_argument_chars(target));
    if long > most {
        let detail = format!("the arguments of {named} are {long} characters, {most} are taken");
        found.add("arguments_too_long", at, id, detail);
    }
}

/// Documented: a string of at most 1 MiB.
pub(crate) fn max_argument_chars(target: &Target) -> usize {
    target.max_argument_chars.unwrap_or(1 << 20)
}

fn reasoning(found: &mut Found, at: usize, items: &[Item], target: &Target) {
    let Some(item) = items.get(at) else { return };
    let id = (!item.id.is_empty()).then_some(item.id.as_str());
    if lacks_reasoning(items, at, target) {
        let detail = "the call comes without the reasoning that led to it, and its id is known to the service";
        found.add("follower_without_reasoning", at, id, detail);
    }
    if item.kind != Kind::Reasoning {
        return;
    }
    if !items.get(at + 1).is_some_and(Item::follows_reasoning) {
        let detail = "reasoning without the item it led to directly behind it";
        found.add("reasoning_without_follower", at, id, detail);
    }
    if is_unkept(item, target) {
        let detail = "the service keeps nothing, and of this reasoning there is only the id";
        found.add("item_not_found", at, id, detail);
    }
    if !item.has_summary {
        found.add("missing_field", at, id, "reasoning has no `summary`");
    }
    if is_foreign_text(item, target) {
        let detail = "the service refuses the text of reasoning";
        found.add("output_only_field", at, id, detail);
    }
}

/// Whether a call has an id of the service's and no reasoning before it, though the model reasons.
pub(crate) fn lacks_reasoning(items: &[Item], at: usize, target: &Target) -> bool {
    let Some(item) = items.get(at) else {
        return false;
    };
    let before = items.get(..at).unwrap_or(&[]);
    target.reasoning == Some(true)
        && item.takes_text()
        && item.id.starts_with("fc_")
        && !before
            .iter()
            .rev()
            .find(|item| !item.takes_text())
            .is_some_and(|item| item.kind == Kind::Reasoning)
}

/// Whether only the service could have this reasoning, and keeps nothing.
pub(crate) fn is_unkept(item: &Item, target: &Target) -> bool {
    item.kind == Kind::Reasoning
        && target.store == Some(false)
        && !item.id.is_empty()
        && !item.is_encrypted
}

/// Whether reasoning comes with its text, which OpenAI refuses.
pub(crate) fn is_foreign_text(item: &Item, target: &Target) -> bool {
    item.kind == Kind::Reasoning && item.has_content && target.is("openai")
}

fn pairing(found: &mut Found, items: &[Item], target: &Target) {
    let rounds = Rounds::of(items);
    for (at, what) in rounds.outputs.iter().zip(&rounds.pairs.results) {
        let id = items.get(*at).map_or("", |item| item.call_id.as_str());
        match what {
            Match::Answer { .. } => {}
            _ if target.chained => {}
            Match::Extra => {
                let detail = format!("a second output for the call `{id}`");
                found.add("duplicate_tool_result", *at, Some(id), detail);
            }
            Match::Foreign => {
                let detail = format!("an output for `{id}`, which no call before it asks for");
                found.add("orphan_tool_result", *at, Some(id), detail);
            }
        }
    }
    for (at, output) in rounds.answers() {
        let Some(call) = items.get(at) else { continue };
        let (id, named) = (&call.call_id, call_named(&call.name, &call.call_id));
        match output.and_then(|at| items.get(at)) {
            None => {
                let detail = format!("{named} has no output");
                found.add("unanswered_tool_call", at, Some(id), detail);
            }
            Some(output) if output.word != format!("{}_output", call.word) => {
                let detail = format!("{named} is answered by a `{}`", output.word);
                found.add("orphan_tool_result", at, Some(id), detail);
            }
            Some(_) => {}
        }
    }
}
