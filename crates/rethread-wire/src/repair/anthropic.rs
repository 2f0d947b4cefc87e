//! Anthropic Messages.

use std::collections::{HashMap, HashSet};

use rethread_core::{Json, Stop, StopReason, ToolCall};

use super::ids::NewIds;
use super::{Job, NO_REASON, answered, closing, literal};
use crate::decode::raw::{Members, Object, edited};
use crate::encode::IdRule;
use crate::formats::anthropic::call;
use crate::rules::anthropic::{Block, Kind, Turn, is_word, lacks_thinking, text_block};
use crate::rules::call_named;
use crate::rules::pair::{Call, Event, Match, Pairs, pair};

/// A message.
struct Message {
    at: usize,
    /// As it came; a message that was added has none.
    item: Option<Json>,
    role: String,
    blocks: Vec<Piece>,
    changed: bool,
}

/// A block.
#[derive(Clone)]
struct Piece {
    at: usize,
    block: Block,
    /// What a call asked for before anything was changed.
    call: Option<ToolCall>,
}

impl Message {
    fn is_user(&self) -> bool {
        self.role == "user"
    }

    fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Piece> {
        self.blocks
            .iter()
            .filter(move |piece| piece.block.kind == kind)
    }

    fn calls(&self) -> impl Iterator<Item = &Piece> {
        let is_assistant = self.is_assistant();
        self.of_kind(Kind::Call).filter(move |_| is_assistant)
    }

    fn emit(&self) -> String {
        if let Some(item) = self.item.as_ref().filter(|_| !self.changed) {
            return item.get().to_owned();
        }
        let blocks: Vec<&str> = self
            .blocks
            .iter()
            .map(|piece| piece.block.raw.as_str())
            .collect();
        let mut object = Object::new();
        object.string("role", &self.role);
        object.list("content", &blocks);
        object.end()
    }
}

pub(super) fn repair(job: &mut Job<'_>) -> Vec<String> {
    let mut messages = read(job);
    if job.asks_again() {
        drop_last_thinking(job, &mut messages);
    }
    // Every step may leave a message empty, and then others stand side by side.
    for _ in 0..8 {
        drop_empty(job, &mut messages);
        let before = job.changes.len();
        rounds(job, &mut messages);
        server_tools(job, &mut messages);
        if job.changes.len() == before {
            break;
        }
    }
    let last = messages.last();
    let place = last.filter(|last| last.is_assistant());
    let place = place
        .and_then(|last| last.blocks.last())
        .map(|piece| piece.at);
    let is_paused = last.is_some_and(|last| last.of_kind(Kind::ServerCall).next().is_some());
    if let Some(text) = job.last_words(place, is_paused) {
        messages.push(said(messages.len(), &text));
    }
    let items: Vec<String> = messages
        .iter()
        .map(|message| {
            let json = message.emit();
            job.sendable(message.at, json)
        })
        .collect();
    let turns = items
        .iter()
        .filter_map(|item| Turn::read(&Json::parse(item).ok()?));
    let turns: Vec<Turn> = turns.collect();
    if job.target.thinking == Some(true)
        && let Some((at, _)) = lacks_thinking(&turns)
    {
        job.thinking_off = true;
        let at = messages.get(at).map_or(0, |message| message.at);
        let detail = "the last response with calls does not begin with its reasoning: send this request with thinking off";
        job.change("thinking_off", at, "", detail);
    }
    items
}

fn said(at: usize, text: &str) -> Message {
    let raw = text_block(&literal(text));
    Message {
        at,
        item: None,
        role: "user".to_owned(),
        blocks: vec![Piece {
            at,
            block: Block::read(&raw),
            call: None,
        }],
        changed: true,
    }
}

fn read(job: &mut Job<'_>) -> Vec<Message> {
    let mut messages = Vec::new();
    for (at, item) in job.document.items.iter().enumerate() {
        let Some(turn) = Turn::read(item) else {
            job.change("set_aside", at, "", "this is no message");
            continue;
        };
        let role = match turn.role.as_str() {
            role @ ("user" | "assistant" | "system") => role,
            "model" => "assistant",
            "developer" => "system",
            _ => "user",
        };
        let mut message = Message {
            at,
            item: Some(item.clone()),
            role: role.to_owned(),
            blocks: Vec::new(),
            changed: false,
        };
        if role != turn.role {
            let detail = format!("the role `{}` is now `{role}`", turn.role);
            job.change("replaced", at, "", detail);
            message.changed = true;
        }
        for name in &turn.extra {
            let detail = format!("`{name}`, which is no part of a message that is sent");
            job.change("removed", at, "", detail);
            message.changed = true;
        }
        let last = turn.blocks().len().saturating_sub(1);
        for (n, block) in turn.blocks().iter().enumerate() {
            match piece(job, at, role, block, n == last) {
                Some(piece) => {
                    message.changed |= piece.block.raw != block.raw;
                    message.blocks.push(piece);
                }
                None => message.changed = true,
            }
        }
        messages.push(message);
    }
    messages
}

/// A block as it can be sent; `None` if it cannot.
fn piece(job: &mut Job<'_>, at: usize, role: &str, block: &Block, is_last: bool) -> Option<Piece> {
    let is_assistant = role == "assistant";
    let id = block.id.as_str();
    let named = call_named(&block.name, id);
    let mut piece = Piece {
        at,
        block: block.clone(),
        call: None,
    };
    match block.kind {
        Kind::Text if !block.sound => {
            job.change("removed", at, "", "a text block that says nothing");
            return None;
        }
        Kind::Thinking | Kind::Redacted if !is_assistant => {
            job.change(
                "removed",
                at,
                "",
                "reasoning in a message that is no response",
            );
            return None;
        }
        Kind::Thinking if !block.sound => {
            job.change("removed", at, "", "reasoning without its signature");
            return None;
        }
        Kind::Call | Kind::ServerCall | Kind::ServerResult if !is_assistant => {
            let detail = format!("{named}, in a message that is no response");
            job.change("set_aside", at, id, detail);
            return None;
        }
        Kind::Upload if is_assistant => {
            job.change(
                "removed",
                at,
                "",
                "`container_upload`, which is never sent back",
            );
            return None;
        }
        Kind::Other if !block.sound => {
            job.change("set_aside", at, "", "a block without a `type`");
            return None;
        }
        Kind::Call => {
            let stop = job.reason(at).map(Stop::new);
            let stop = stop.filter(|stop| stop.reason == StopReason::MaxOutput);
            piece.call = Some(call(block, id, stop.as_ref(), is_last));
            let members = Members::read(&block.raw);
            let mut set = Vec::new();
            if !block.sound {
                let detail = format!("the arguments of {named}, which are no object, by none");
                job.change("replaced", at, id, detail);
                set.push(("input", "{}".to_owned()));
            } else if let Some(most) = job.target.max_argument_chars
                && members
                    .get("input")
                    .is_some_and(|raw| raw.get().chars().count() > most)
            {
                let detail = format!(
                    "the arguments of {named}, which are longer than {most} characters, by none"
                );
                job.change("replaced", at, id, detail);
                set.push(("input", "{}".to_owned()));
            }
            if block.name.is_empty() {
                job.change("replaced", at, id, "the missing name of a tool");
                set.push(("name", literal("unknown")));
                piece.block.name = "unknown".to_owned();
            }
            if !set.is_empty() {
                piece.block.raw = edited(&members, &set, &[]);
                piece.block.sound = true;
            }
        }
        Kind::Result if !block.sound => {
            job.change("replaced", at, id, "the missing reason of a failure");
            let members = Members::read(&block.raw);
            piece.block.raw = edited(&members, &[("content", literal(NO_REASON))], &[]);
            piece.block.sound = true;
        }
        _ => {}
    }
    Some(piece)
}

/// A response that broke off inside its reasoning has nothing to go on from.
fn drop_last_thinking(job: &mut Job<'_>, messages: &mut Vec<Message>) {
    if let Some(last) = messages.last()
        && last.is_assistant()
        && !last.blocks.is_empty()
        && last.blocks.iter().all(|piece| piece.block.is_thinking())
    {
        let detail = "a response that stopped inside its reasoning and says nothing";
        job.change("removed", last.at, "", detail);
        messages.pop();
    }
}

fn drop_empty(job: &mut Job<'_>, messages: &mut Vec<Message>) {
    messages.retain(|message| {
        if message.blocks.is_empty() {
            let detail = "a message without content";
            job.change("removed", message.at, "", detail);
        }
        !message.blocks.is_empty()
    });
}

/// A block's place: message and block.
type Place = (usize, usize);

/// Puts the results of every response directly behind it, each call answered once.
fn rounds(job: &mut Job<'_>, messages: &mut Vec<Message>) {
    let (batches, places, pairs) = paired(messages);
    // Before anything is moved: by place, a result may belong to a call of another id.
    rename(job, messages, &batches, &places, &pairs);
    let mut dropped: HashSet<Place> = HashSet::new();
    for (place, what) in places.iter().zip(&pairs.results) {
        let Some(piece) = messages.get(place.0).and_then(|m| m.blocks.get(place.1)) else {
            continue;
        };
        let (at, id) = (piece.at, piece.block.id.clone());
        let detail = match what {
            Match::Answer { .. } => continue,
            Match::Extra => format!("a second result for the call `{id}`"),
            Match::Foreign => format!("a result for `{id}`, which no call before it asks for"),
        };
        job.change("set_aside", at, &id, detail);
        dropped.insert(*place);
    }
    // For a message with calls whose results are not in order, the results to stand behind it.
    let mut sets: HashMap<usize, Vec<Piece>> = HashMap::new();
    for (batch, at) in batches.iter().enumerate() {
        let slots = pairs.answers.get(batch).map_or(&[][..], Vec::as_slice);
        let answers: Vec<Option<Place>> = slots
            .iter()
            .map(|slot| slot.and_then(|result| places.get(result)).copied())
            .collect();
        let users = messages
            .iter()
            .skip(at + 1)
            .take_while(|message| message.is_user());
        let run = at + 1..at + 1 + users.count();
        if is_in_order(messages, &answers, run.clone(), &dropped) {
            continue;
        }
        let Some(message) = messages.get(*at) else {
            continue;
        };
        let mut set = Vec::new();
        let mut told = Vec::new();
        for (call, place) in message.calls().zip(&answers) {
            let named = call_named(&call.block.name, &call.block.id);
            let found = place.and_then(|(at, n)| messages.get(at)?.blocks.get(n));
            match (place, found) {
                (Some(place), Some(piece)) => {
                    dropped.insert(*place);
                    let what = if run.contains(&place.0) {
                        format!("the result of {named}, in front of what else is said")
                    } else {
                        format!("the result of {named}, directly behind it")
                    };
                    told.push(("moved", piece.at, call.block.id.clone(), what));
                    set.push(piece.clone());
                }
                _ => {
                    let detail = call.call.as_ref().map_or(named, answered);
                    told.push(("answered", call.at, call.block.id.clone(), detail));
                    set.push(answer(call));
                }
            }
        }
        // What stays where it was is not worth telling.
        let only_added = answers
            .iter()
            .flatten()
            .all(|place| Some(place.0) == run.clone().next())
            && first_are_results(messages.get(run.start));
        for (what, at, id, detail) in told {
            if what == "moved" && only_added {
                continue;
            }
            job.change(what, at, &id, detail);
        }
        sets.insert(*at, set);
    }
    if dropped.is_empty() && sets.is_empty() {
        return;
    }
    let mut waiting: Option<Vec<Piece>> = None;
    let mut all = Vec::with_capacity(messages.len() + sets.len());
    for (at, mut message) in std::mem::take(messages).into_iter().enumerate() {
        let before = message.blocks.len();
        let mut n = 0;
        message.blocks.retain(|_| {
            n += 1;
            !dropped.contains(&(at, n - 1))
        });
        message.changed |= message.blocks.len() != before;
        if let Some(set) = waiting.take() {
            if message.is_user() {
                message.changed = true;
                message.blocks.splice(0..0, set);
            } else {
                all.push(results(set));
            }
        }
        waiting = sets.remove(&at);
        all.push(message);
    }
    all.extend(waiting.map(results));
    // A message that held nothing but results of others is no longer needed.
    all.retain(|message| !message.blocks.is_empty());
    *messages = all;
}

fn first_are_results(message: Option<&Message>) -> bool {
    message.is_some_and(|message| {
        let mut kinds = message.blocks.iter().map(|piece| piece.block.kind);
        kinds.by_ref().find(|kind| *kind != Kind::Result);
        kinds.all(|kind| kind != Kind::Result)
    })
}

fn results(set: Vec<Piece>) -> Message {
    Message {
        at: set.first().map_or(0, |piece| piece.at),
        item: None,
        role: "user".to_owned(),
        blocks: set,
        changed: true,
    }
}

/// The result that closes a call.
fn answer(call: &Piece) -> Piece {
    let words = call.call.as_ref().map(closing).unwrap_or_default();
    let mut object = Object::new();
    object.string("type", "tool_result");
    object.string("tool_use_id", &call.block.id);
    let toolset = Members::read(&call.block.raw);
    if let Some(name) = toolset.get("toolset_name") {
        object.raw("toolset_name", name.get());
    }
    object.string("content", &words);
    object.raw("is_error", "true");
    Piece {
        at: call.at,
        block: Block::read(&object.end()),
        call: None,
    }
}

/// Whether the messages of the user behind a response begin with its results, all of them.
fn is_in_order(
    messages: &[Message],
    answers: &[Option<Place>],
    run: std::ops::Range<usize>,
    dropped: &HashSet<Place>,
) -> bool {
    let all_there = answers
        .iter()
        .all(|place| place.is_some_and(|(at, _)| run.contains(&at)));
    let kinds = run.flat_map(|at| {
        let blocks = messages.get(at).map_or(&[][..], |message| &message.blocks);
        let kept = blocks.iter().enumerate();
        kept.filter(move |(n, _)| !dropped.contains(&(at, *n)))
            .map(|(_, piece)| piece.block.kind == Kind::Result)
    });
    all_there
        && !kinds
            .skip_while(|is_result| *is_result)
            .any(|is_result| is_result)
}

fn paired(messages: &[Message]) -> (Vec<usize>, Vec<Place>, Pairs) {
    let (mut batches, mut places, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let call = |piece: &Piece| Call {
        id: piece.block.id.clone(),
        name: piece.block.name.clone(),
    };
    for (at, message) in messages.iter().enumerate() {
        let calls: Vec<Call> = message.calls().map(call).collect();
        if !calls.is_empty() {
            batches.push(at);
            events.push(Event::Calls(calls));
        }
        for (n, piece) in message.blocks.iter().enumerate() {
            if piece.block.kind == Kind::Result {
                places.push((at, n));
                events.push(Event::Result(call(piece)));
            }
        }
    }
    let pairs = pair(&events);
    (batches, places, pairs)
}

/// A call of the service's own goes back with its result, or as the very last thing.
fn server_tools(job: &mut Job<'_>, messages: &mut Vec<Message>) {
    let is_server = |message: &Message| {
        let mut kinds = message.blocks.iter().map(|piece| piece.block.kind);
        message.is_assistant()
            && kinds.any(|kind| matches!(kind, Kind::ServerCall | Kind::ServerResult))
    };
    if !messages.iter().any(is_server) {
        return;
    }
    let mut all: Vec<Message> = Vec::with_capacity(messages.len());
    for message in std::mem::take(messages) {
        match all.last_mut() {
            Some(before) if goes_on(before, &message) => {
                let detail =
                    "a response that was paused, and what the service made of it, are one message";
                job.change("merged", message.at, "", detail);
                before.changed = true;
                before.blocks.extend(message.blocks);
            }
            _ => all.push(message),
        }
    }
    let last = all.len().saturating_sub(1);
    for (at, message) in all
        .iter_mut()
        .enumerate()
        .filter(|(_, message)| is_server(message))
    {
        let (calls, results) = (
            ids(message, Kind::ServerCall),
            ids(message, Kind::ServerResult),
        );
        let stays = at == last && !job.says_more();
        let before = message.blocks.len();
        message.blocks.retain(|piece| {
            let (id, place) = (&piece.block.id, piece.at);
            let detail = match piece.block.kind {
                Kind::ServerCall if !results.contains(id) && !stays => {
                    "a call of the service's own, whose result is not there"
                }
                Kind::ServerResult if !calls.contains(id) => {
                    "a result of the service's own, whose call is not there"
                }
                _ => return true,
            };
            job.change("set_aside", place, id, detail);
            false
        });
        message.changed |= message.blocks.len() != before;
    }
    *messages = all;
}

fn ids(message: &Message, kind: Kind) -> HashSet<String> {
    let pieces = message.of_kind(kind);
    pieces.map(|piece| piece.block.id.clone()).collect()
}

/// Whether a message has results for calls of the service's own that the one before it left open.
fn goes_on(before: &Message, message: &Message) -> bool {
    if !before.is_assistant() || !message.is_assistant() {
        return false;
    }
    let (calls, done) = (
        ids(before, Kind::ServerCall),
        ids(before, Kind::ServerResult),
    );
    let results = ids(message, Kind::ServerResult);
    calls
        .iter()
        .any(|id| !done.contains(id) && results.contains(id))
}

/// Gives calls new ids whose own are refused, and their results with them.
fn rename(
    job: &mut Job<'_>,
    messages: &mut [Message],
    batches: &[usize],
    places: &[Place],
    pairs: &Pairs,
) {
    let all = messages.iter().flat_map(Message::calls);
    let mut ids = NewIds::new(
        job.target.ids.unwrap_or(IdRule::WORD),
        all.map(|piece| piece.block.id.as_str()),
    );
    let mut seen = HashSet::new();
    let mut renamed: Vec<(Place, String)> = Vec::new();
    for (batch, at) in batches.iter().enumerate() {
        let Some(message) = messages.get(*at) else {
            continue;
        };
        let slots = pairs.answers.get(batch).map_or(&[][..], Vec::as_slice);
        let calls = message.blocks.iter().enumerate();
        let calls = calls.filter(|(_, piece)| piece.block.kind == Kind::Call);
        for ((n, call), slot) in calls.zip(slots) {
            let id = &call.block.id;
            let refused = !is_word(id) || (job.target.ids.is_some() && !ids.fits(id));
            let answer = slot.and_then(|result| places.get(result)).copied();
            if !refused && seen.insert(id.clone()) {
                let found = answer.and_then(|(at, n)| messages.get(at)?.blocks.get(n));
                // A result that was paired by its place may have no id.
                if let (Some(place), Some(piece)) = (answer, found)
                    && piece.block.id != *id
                {
                    job.change("renamed", piece.at, id, "the id a result names");
                    renamed.push((place, id.clone()));
                }
                continue;
            }
            let new = ids.instead_of(id);
            seen.insert(new.clone());
            let detail = format!("the call `{id}` is now `{new}`, on both sides");
            job.change("renamed", call.at, id, detail);
            renamed.push(((*at, n), new.clone()));
            renamed.extend(answer.map(|place| (place, new)));
        }
    }
    for ((at, n), id) in renamed {
        let Some(message) = messages.get_mut(at) else {
            continue;
        };
        message.changed = true;
        if let Some(piece) = message.blocks.get_mut(n) {
            let name = if piece.block.kind == Kind::Call {
                "id"
            } else {
                "tool_use_id"
            };
            let raw = edited(
                &Members::read(&piece.block.raw),
                &[(name, literal(&id))],
                &[],
            );
            piece.block.raw = raw;
            piece.block.id = id;
        }
    }
}
