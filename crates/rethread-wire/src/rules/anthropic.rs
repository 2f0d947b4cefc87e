//! Anthropic Messages.

use std::collections::{HashMap, HashSet};

use rethread_core::Json;

use super::pair::{Call, Event, Match, Pairs, pair};
use super::{Found, Target, call_named, is_blank, is_object, is_something, text};
use crate::Api;
use crate::decode::raw::{Members, elements, literal};
use crate::encode::IdRule;

/// What a block is, as far as the rules tell blocks apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Thinking,
    Redacted,
    Call,
    Result,
    /// A call of a tool that the service runs itself.
    ServerCall,
    ServerResult,
    Upload,
    Other,
}

/// A block of a message.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The block as it came; for a message that is one string, a text block with it.
    pub(crate) raw: String,
    pub(crate) kind: Kind,
    /// The id of a call, or the one a result names.
    pub(crate) id: String,
    pub(crate) name: String,
    /// Nothing of its own is wrong with it: a text says something, reasoning is signed, the input of a
    /// call is an object, a failure has a reason.
    pub(crate) sound: bool,
}

impl Block {
    pub(crate) fn read(raw: &str) -> Self {
        let members = Members::read(raw);
        let word = text(&members, "type");
        let kind = match word.as_str() {
            "text" => Kind::Text,
            "thinking" => Kind::Thinking,
            "redacted_thinking" => Kind::Redacted,
            "tool_use" => Kind::Call,
            "tool_result" => Kind::Result,
            "server_tool_use" | "mcp_tool_use" => Kind::ServerCall,
            "container_upload" => Kind::Upload,
            word if word.ends_with("_tool_result") => Kind::ServerResult,
            _ => Kind::Other,
        };
        let sound = match kind {
            Kind::Text => members.get("text").is_some_and(|raw| !is_blank(raw)),
            Kind::Thinking => is_something(members.get("signature")),
            Kind::Call => members
                .get("input")
                .is_some_and(|raw| raw.get().starts_with('{')),
            Kind::Result => {
                let failed = members
                    .get("is_error")
                    .is_some_and(|raw| raw.get() == "true");
                !failed || is_something(members.get("content"))
            }
            Kind::Other => !word.is_empty(),
            _ => true,
        };
        let id = match kind {
            Kind::Result | Kind::ServerResult => text(&members, "tool_use_id"),
            _ => text(&members, "id"),
        };
        Self {
            raw: raw.to_owned(),
            kind,
            id,
            name: text(&members, "name"),
            sound,
        }
    }

    pub(crate) fn is_thinking(&self) -> bool {
        matches!(self.kind, Kind::Thinking | Kind::Redacted)
    }

    fn call(&self) -> Call {
        Call {
            id: self.id.clone(),
            name: self.name.clone(),
        }
    }
}

/// A message.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) role: String,
    /// `None` when there is no content, or none of a kind that is known.
    pub(crate) blocks: Option<Vec<Block>>,
    /// The names of members that are not part of a message.
    pub(crate) extra: Vec<String>,
}

impl Turn {
    /// Reads a message; `None` for what is no object.
    pub(crate) fn read(item: &Json) -> Option<Self> {
        if !item.is_object() {
            return None;
        }
        let members = Members::read(item.get());
        let content = members.get("content");
        let blocks = content.and_then(|raw| match raw.get().as_bytes().first() {
            Some(b'"') if raw.get() == "\"\"" => Some(Vec::new()),
            Some(b'"') => Some(vec![Block::read(&text_block(raw.get()))]),
            Some(b'[') => {
                let blocks = elements(raw);
                Some(blocks.iter().map(|raw| Block::read(raw.get())).collect())
            }
            _ => None,
        });
        let extra = members
            .iter()
            .filter(|(name, _)| !matches!(*name, "role" | "content"))
            .map(|(name, _)| name.to_owned())
            .collect();
        Some(Self {
            role: text(&members, "role"),
            blocks,
            extra,
        })
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        self.blocks.as_deref().unwrap_or(&[])
    }

    pub(crate) fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }

    pub(crate) fn is_user(&self) -> bool {
        self.role == "user"
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = &Block> {
        let calls = self.is_assistant();
        self.blocks()
            .iter()
            .filter(move |block| calls && block.kind == Kind::Call)
    }

    /// Whether the service itself goes on with this when it is the last message.
    pub(crate) fn is_paused(&self) -> bool {
        let is_server_call = |block: &Block| block.kind == Kind::ServerCall;
        self.is_assistant() && self.blocks().iter().any(is_server_call)
    }
}

/// A text block with a literal.
pub(crate) fn text_block(literal: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{literal}}}")
}

/// The place of a block: message and block.
pub(crate) type Place = (usize, usize);

/// Calls and results with their places. A result counts wherever it stands.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The messages with calls.
    pub(crate) batches: Vec<usize>,
    pub(crate) results: Vec<Place>,
    pub(crate) pairs: Pairs,
}

impl Rounds {
    pub(crate) fn of(turns: &[Turn]) -> Self {
        let (mut rounds, mut events) = (Self::default(), Vec::new());
        for (at, turn) in turns.iter().enumerate() {
            let calls: Vec<Call> = turn.calls().map(Block::call).collect();
            if !calls.is_empty() {
                rounds.batches.push(at);
                events.push(Event::Calls(calls));
            }
            for (n, block) in turn.blocks().iter().enumerate() {
                if block.kind == Kind::Result {
                    rounds.results.push((at, n));
                    events.push(Event::Result(block.call()));
                }
            }
        }
        rounds.pairs = pair(&events);
        rounds
    }
}

pub(super) fn check(found: &mut Found, items: &[Json], target: &Target) {
    let mut turns = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        match Turn::read(item) {
            Some(turn) => turns.push(turn),
            None => {
                found.add("missing_field", at, None, "this is no message");
                turns.push(Turn {
                    role: String::new(),
                    blocks: None,
                    extra: Vec::new(),
                });
            }
        }
    }
    let mut seen = HashSet::new();
    for (at, (turn, item)) in turns.iter().zip(items).enumerate() {
        if item.is_object() {
            message(found, at, turn);
            for block in turn.blocks() {
                check_block(found, at, turn, block, target);
                if turn.is_assistant()
                    && block.kind == Kind::Call
                    && !block.id.is_empty()
                    && !seen.insert(block.id.as_str())
                {
                    let detail = format!("the id `{}` names a call for the second time", block.id);
                    found.add("duplicate_id", at, Some(&block.id), detail);
                }
            }
            server_tools(found, at, turn, at + 1 == turns.len());
        }
    }
    pairing(found, &turns);
    ending(found, &turns, target);
}

fn message(found: &mut Found, at: usize, turn: &Turn) {
    match turn.role.as_str() {
        "user" | "assistant" | "system" => {}
        "" => found.add("missing_field", at, None, "the message has no `role`"),
        role => {
            let detail = format!("the role `{role}` is neither `user` nor `assistant`");
            found.add("wrong_role", at, None, detail);
        }
    }
    for name in &turn.extra {
        let detail = format!("`{name}` is no part of a message that is sent");
        found.add("output_only_field", at, None, detail);
    }
    if turn.blocks().is_empty() {
        found.add("empty_content", at, None, "the message has no content");
    }
}

fn check_block(found: &mut Found, at: usize, turn: &Turn, block: &Block, target: &Target) {
    let id = (!block.id.is_empty()).then_some(block.id.as_str());
    let named = || call_named(&block.name, &block.id);
    let wrong = |found: &mut Found, what: &str| {
        let detail = format!(
            "{what} cannot stand in a message of the role `{}`",
            turn.role
        );
        found.add("wrong_role", at, id, detail);
    };
    match block.kind {
        Kind::Text if !block.sound => {
            found.add("empty_content", at, None, "a text block says nothing");
        }
        Kind::Thinking | Kind::Redacted if !turn.is_assistant() => wrong(found, "reasoning"),
        Kind::Thinking if !block.sound => {
            let detail = "reasoning without its signature: the response broke off inside it";
            found.add("missing_signature", at, None, detail);
        }
        Kind::Call if !turn.is_assistant() => wrong(found, "a tool call"),
        Kind::ServerCall | Kind::ServerResult if !turn.is_assistant() => {
            wrong(found, "a call or result of the service's own");
        }
        Kind::Call => {
            let rule = target.ids.unwrap_or(IdRule::WORD);
            // Nothing is known of how long an id may be.
            if id.is_none() {
                found.add("missing_field", at, None, format!("{} has no id", named()));
            } else if !is_word(&block.id) || (target.ids.is_some() && !rule.fits(&block.id)) {
                let detail = format!("the id `{}` has a form that is refused", block.id);
                found.add("id_format", at, id, detail);
            }
            if block.name.is_empty() {
                found.add(
                    "missing_field",
                    at,
                    id,
                    format!("{} names no tool", named()),
                );
            }
            if !block.sound {
                let detail = format!("the arguments of {} are no object", named());
                found.add("bad_arguments", at, id, detail);
            }
            too_long(found, at, block, target);
        }
        Kind::Result if !turn.is_user() => wrong(found, "a tool result"),
        Kind::Result if id.is_none() => {
            found.add("missing_field", at, None, "a tool result names no call");
        }
        Kind::Result if !block.sound => {
            found.add("empty_content", at, id, "a failed result gives no reason");
        }
        Kind::Upload if turn.is_assistant() => {
            let detail = "`container_upload` is never sent back";
            found.add("block_not_replayable", at, None, detail);
        }
        Kind::Other if !block.sound => {
            found.add("missing_field", at, None, "a block has no `type`");
        }
        _ => {}
    }
}

fn too_long(found: &mut Found, at: usize, block: &Block, target: &Target) {
    let Some(most) = target.max_argument_chars else {
        return;
    };
    let input = Members::read(&block.raw);
    let long = input
        .get("input")
        .map_or(0, |raw| raw.get().chars().count());
    if long > most {
        let named = call_named(&block.name, &block.id);
        let detail = format!("the arguments of {named} are {long} characters, {most} are taken");
        found.add("arguments_too_long", at, Some(&block.id), detail);
    }
}

pub(crate) fn is_word(id: &str) -> bool {
    !id.is_empty()
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn server_tools(found: &mut Found, at: usize, turn: &Turn, is_last: bool) {
    let ids = |kind: Kind| -> HashSet<&str> {
        let blocks = turn.blocks().iter().filter(move |block| block.kind == kind);
        blocks.map(|block| block.id.as_str()).collect()
    };
    let (calls, results) = (ids(Kind::ServerCall), ids(Kind::ServerResult));
    for block in turn.blocks() {
        let id = Some(block.id.as_str());
        if block.kind == Kind::ServerCall && !is_last && !results.contains(block.id.as_str()) {
            let named = call_named(&block.name, &block.id);
            let detail = format!("{named}, which the service runs itself, has no result");
            found.add("server_tool_unanswered", at, id, detail);
        }
        if block.kind == Kind::ServerResult && !calls.contains(block.id.as_str()) {
            let detail = format!(
                "a result of the service's own answers no call `{}`",
                block.id
            );
            found.add("orphan_tool_result", at, id, detail);
        }
    }
}

fn pairing(found: &mut Found, turns: &[Turn]) {
    let rounds = Rounds::of(turns);
    // The answers by their places.
    let mut answers: HashMap<Place, usize> = HashMap::new();
    for (result, (place, what)) in rounds.results.iter().zip(&rounds.pairs.results).enumerate() {
        let (at, n) = *place;
        let id = turns
            .get(at)
            .and_then(|turn| turn.blocks().get(n))
            .map_or("", |block| block.id.as_str());
        match what {
            Match::Answer { .. } => {
                answers.insert(*place, result);
            }
            Match::Extra => {
                let detail = format!("a second result for the call `{id}`");
                found.add("duplicate_tool_result", at, Some(id), detail);
            }
            Match::Foreign => {
                let detail = format!("a result for `{id}`, which no call before it asks for");
                found.add("orphan_tool_result", at, Some(id), detail);
            }
        }
    }
    for (batch, at) in rounds.batches.iter().enumerate() {
        let Some(turn) = turns.get(*at) else { continue };
        let run = run_after(turns, *at);
        let mut late = false;
        let slots = rounds
            .pairs
            .answers
            .get(batch)
            .map_or(&[][..], Vec::as_slice);
        for (call, slot) in turn.calls().zip(slots) {
            let place = slot.and_then(|result| rounds.results.get(result));
            let named = call_named(&call.name, &call.id);
            match place {
                None => {
                    let detail = format!("{named} has no result");
                    found.add("unanswered_tool_call", *at, Some(&call.id), detail);
                }
                Some((other, _)) if !run.contains(other) => {
                    let detail = format!(
                        "the result of {named} stands in message {other}, not directly after it"
                    );
                    found.add("turn_order", *at, Some(&call.id), detail);
                }
                Some(_) => late = true,
            }
        }
        // In the messages that are merged into one, results come first.
        let kinds = run.clone().flat_map(|at| {
            let blocks = turns.get(at).map_or(&[][..], Turn::blocks);
            blocks.iter().map(|block| block.kind == Kind::Result)
        });
        if late
            && kinds
                .skip_while(|is_result| *is_result)
                .any(|is_result| is_result)
        {
            let detail = "something else stands before a result";
            found.add("turn_order", run.start, None, detail);
        }
    }
}

/// The messages of the user directly after a message.
pub(crate) fn run_after(turns: &[Turn], at: usize) -> std::ops::Range<usize> {
    let rest = turns.iter().skip(at + 1);
    at + 1..at + 1 + rest.take_while(|turn| turn.is_user()).count()
}

fn ending(found: &mut Found, turns: &[Turn], target: &Target) {
    if let Some(last) = turns.last()
        && last.is_assistant()
        && !last.is_paused()
        && target.refuses_prefill(Api::AnthropicMessages)
    {
        let detail = "the history ends with a response, which the model does not go on with";
        found.add("prefill", turns.len() - 1, None, detail);
    }
    if target.thinking == Some(true)
        && let Some((at, turn)) = lacks_thinking(turns)
    {
        let id = turn.calls().next().map(|call| call.id.as_str());
        let detail = "the last response with calls does not begin with its reasoning: send this request with thinking off";
        found.add_unfixable("thinking_missing", at, id, detail);
    }
}

/// The last response, if it has calls and does not begin with the reasoning that thinking demands.
pub(crate) fn lacks_thinking(turns: &[Turn]) -> Option<(usize, &Turn)> {
    let (at, turn) = turns
        .iter()
        .enumerate()
        .rfind(|(_, turn)| turn.is_assistant())?;
    let calls = turn.calls().next().is_some();
    let begins = turn.blocks().first().is_some_and(Block::is_thinking);
    (calls && !begins).then_some((at, turn))
}

/// The text of a call's input that is no object.
pub(crate) fn input_text(block: &Block) -> String {
    let members = Members::read(&block.raw);
    match members.get("input") {
        Some(raw) if literal(raw).is_some() => crate::decode::raw::string(raw).unwrap_or_default(),
        Some(raw) => raw.get().to_owned(),
        None => String::new(),
    }
}

/// Whether a call's arguments were cut off by the output limit: nothing is left of them, and the call
/// is the last thing of its response.
pub(crate) fn is_cut(block: &Block) -> bool {
    let input = input_text(block);
    block.kind == Kind::Call && (input.trim() == "{}" || !is_object(&input))
}
