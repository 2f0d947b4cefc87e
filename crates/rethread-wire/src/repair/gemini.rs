//! Google Gemini.

use std::collections::{HashMap, HashSet};

use rethread_core::{Json, ToolCall};

use super::{GO_ON, Job, answered, closing, literal};
use crate::decode::raw::{Members, Object, edited};
use crate::formats::gemini::call;
use crate::rules::call_named;
use crate::rules::gemini::{Content, Kind, Part, signs, unsigned};
use crate::rules::pair::{Event, Match, Pairs, pair};

/// The documented stand-in for the signature of a call that has none.
/// Source: <https://ai.google.dev/gemini-api/docs/thought-signatures>.
const STAND_IN: &str = "skip_thought_signature_validator";

/// A content.
struct Unit {
    at: usize,
    /// As it came; a content that was added has none.
    item: Option<Json>,
    role: String,
    parts: Vec<Piece>,
    changed: bool,
}

#[derive(Clone)]
struct Piece {
    at: usize,
    part: Part,
    /// What a call asked for before anything was changed.
    call: Option<ToolCall>,
}

impl Unit {
    fn added(at: usize, parts: Vec<Piece>) -> Self {
        Self {
            at,
            item: None,
            role: "user".to_owned(),
            parts,
            changed: true,
        }
    }

    fn is_model(&self) -> bool {
        self.role == "model"
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Piece> {
        self.parts
            .iter()
            .filter(move |piece| piece.part.kind == kind)
    }

    fn calls(&self) -> impl Iterator<Item = &Piece> {
        let is_model = self.is_model();
        self.of_kind(Kind::Call).filter(move |_| is_model)
    }

    fn emit(&self) -> String {
        let parts: Vec<&str> = self
            .parts
            .iter()
            .map(|piece| piece.part.raw.as_str())
            .collect();
        match &self.item {
            Some(item) if !self.changed => item.get().to_owned(),
            Some(item) => {
                let parts = format!("[{}]", parts.join(","));
                let set = [("role", literal(&self.role)), ("parts", parts)];
                edited(&Members::read(item.get()), &set, &[])
            }
            None => {
                let mut object = Object::new();
                object.string("role", &self.role);
                object.list("parts", &parts);
                object.end()
            }
        }
    }
}

fn piece(at: usize, raw: &str) -> Piece {
    Piece {
        at,
        part: Part::read(raw),
        call: None,
    }
}

fn said(at: usize, text: &str) -> Unit {
    let mut part = Object::new();
    part.string("text", text);
    Unit::added(at, vec![piece(at, &part.end())])
}

pub(super) fn repair(job: &mut Job<'_>) -> Vec<String> {
    let mut units = read(job);
    if job.asks_again()
        && let Some(last) = units.last()
        && last.is_model()
        && !last.parts.is_empty()
        && last
            .parts
            .iter()
            .all(|piece| piece.part.kind == Kind::Thought)
    {
        let detail = "a response that stopped inside its reasoning and says nothing";
        job.change("removed", last.at, "", detail);
        units.pop();
    }
    for _ in 0..8 {
        drop_empty(job, &mut units);
        let before = job.changes.len();
        rounds(job, &mut units);
        if job.changes.len() == before {
            break;
        }
    }
    turns(job, &mut units);
    let last = units.last().filter(|unit| unit.is_model());
    let place = last.map(|unit| unit.at);
    if let Some(text) = job.last_words(place, false) {
        units.push(said(units.len(), &text));
    }
    sign(job, &mut units);
    units
        .iter()
        .map(|unit| {
            let json = unit.emit();
            job.sendable(unit.at, json)
        })
        .collect()
}

fn read(job: &mut Job<'_>) -> Vec<Unit> {
    let mut units = Vec::new();
    for (at, item) in job.document.items.iter().enumerate() {
        let Some(content) = Content::read(item) else {
            job.change("set_aside", at, "", "this is no content");
            continue;
        };
        let role = match content.role.as_str() {
            role @ ("user" | "model" | "") => role,
            "assistant" => "model",
            _ => "user",
        };
        let mut unit = Unit {
            at,
            item: Some(item.clone()),
            role: role.to_owned(),
            parts: Vec::new(),
            changed: false,
        };
        if role != content.role {
            let detail = format!("the role `{}` is now `{role}`", content.role);
            job.change("replaced", at, "", detail);
            unit.changed = true;
        }
        for part in content.parts() {
            match mended(job, at, unit.is_model(), part) {
                Some(piece) => {
                    unit.changed |= piece.part.raw != part.raw;
                    unit.parts.push(piece);
                }
                None => unit.changed = true,
            }
        }
        units.push(unit);
    }
    units
}

/// A part as it can be sent; `None` if it cannot.
fn mended(job: &mut Job<'_>, at: usize, is_model: bool, part: &Part) -> Option<Piece> {
    let named = call_named(&part.name, &part.id);
    let mut piece = Piece {
        at,
        part: part.clone(),
        call: None,
    };
    let (name, member) = match part.kind {
        _ if part.is_empty => {
            job.change("removed", at, "", "a part with nothing in it");
            return None;
        }
        Kind::Call if !is_model => {
            let detail = format!("{named}, in a content of the user");
            job.change("set_aside", at, &part.id, detail);
            return None;
        }
        Kind::Call => ("functionCall", "args"),
        Kind::Result => ("functionResponse", "response"),
        _ => return Some(piece),
    };
    let members = Members::read(&part.raw);
    // Written in the older way, it is written in the newer one when it has to change.
    let older = name.replace('C', "_c").replace('R', "_r");
    let inner = match members.get(name) {
        Some(_) => members.object(name),
        None => members.object(&older),
    };
    let mut set = Vec::new();
    if part.kind == Kind::Call {
        piece.call = Some(call(part, &part.id));
    }
    let given = inner.get(member).map(|raw| raw.get().to_owned());
    if !part.sound && part.kind == Kind::Call {
        let detail = format!("the arguments of {named}, which are no object, by none");
        job.change("replaced", at, &part.id, detail);
        set.push((member, "{}".to_owned()));
    } else if !part.sound {
        let detail = format!("the response to {named}, which is no object, by one with it");
        job.change("replaced", at, &part.id, detail);
        let mut object = Object::new();
        object.raw("output", given.as_deref().unwrap_or("\"\""));
        set.push((member, object.end()));
    } else if part.kind == Kind::Call
        && let Some(most) = job.target.max_argument_chars
        && given.is_some_and(|args| args.chars().count() > most)
    {
        let detail =
            format!("the arguments of {named}, which are longer than {most} characters, by none");
        job.change("replaced", at, &part.id, detail);
        set.push((member, "{}".to_owned()));
    }
    if part.kind == Kind::Call && part.name.is_empty() {
        job.change("replaced", at, &part.id, "the missing name of a function");
        set.push(("name", literal("unknown")));
    }
    if !set.is_empty() {
        let inner = edited(&inner, &set, &[]);
        let raw = edited(&members, &[(name, inner)], &[older.as_str()]);
        piece.part = Part::read(&raw);
    }
    Some(piece)
}

fn drop_empty(job: &mut Job<'_>, units: &mut Vec<Unit>) {
    units.retain(|unit| {
        if unit.parts.is_empty() {
            job.change("removed", unit.at, "", "a content without parts");
        }
        !unit.parts.is_empty()
    });
}

/// A part's place: content and part.
type Place = (usize, usize);

fn paired(units: &[Unit]) -> (Vec<usize>, Vec<Place>, Pairs) {
    let (mut batches, mut places, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for (at, unit) in units.iter().enumerate() {
        let calls: Vec<_> = unit.calls().map(|piece| piece.part.call()).collect();
        if !calls.is_empty() {
            batches.push(at);
            events.push(Event::Calls(calls));
        }
        for (n, piece) in unit.parts.iter().enumerate() {
            if piece.part.kind == Kind::Result {
                places.push((at, n));
                events.push(Event::Result(piece.part.call()));
            }
        }
    }
    let pairs = pair(&events);
    (batches, places, pairs)
}

/// Puts the responses to all calls of a content into the one behind it.
fn rounds(job: &mut Job<'_>, units: &mut Vec<Unit>) {
    let (batches, places, pairs) = paired(units);
    let mut dropped: HashSet<Place> = HashSet::new();
    for (place, what) in places.iter().zip(&pairs.results) {
        let Some(piece) = units.get(place.0).and_then(|unit| unit.parts.get(place.1)) else {
            continue;
        };
        let named = call_named(&piece.part.name, &piece.part.id);
        let (at, id) = (piece.at, piece.part.id.clone());
        let detail = match what {
            Match::Answer { .. } => continue,
            _ if job.target.chained => continue,
            Match::Extra => format!("a second response to {named}"),
            Match::Foreign => format!("a response to {named}, which no call before it asks for"),
        };
        job.change("set_aside", at, &id, detail);
        dropped.insert(*place);
    }
    let mut sets: HashMap<usize, Vec<Piece>> = HashMap::new();
    for (batch, at) in batches.iter().enumerate() {
        let slots = pairs.answers.get(batch).map_or(&[][..], Vec::as_slice);
        let answers: Vec<Option<Place>> = slots
            .iter()
            .map(|slot| slot.and_then(|result| places.get(result)).copied())
            .collect();
        let behind = units.get(at + 1).is_some_and(|unit| !unit.is_model());
        let Some(unit) = units.get(*at) else { continue };
        let all_there = behind
            && answers
                .iter()
                .all(|place| place.is_some_and(|(place, _)| place == at + 1));
        let named_alike = unit.calls().zip(&answers).all(|(call, place)| {
            let piece = place.and_then(|(at, n)| units.get(at)?.parts.get(n));
            piece.is_none_or(|piece| names(&piece.part) == names(&call.part))
        });
        if all_there && named_alike {
            continue;
        }
        let mut set = Vec::new();
        for (call, place) in unit.calls().zip(&answers) {
            let id = &call.part.id;
            let named = call_named(&call.part.name, id);
            let found = place.and_then(|(at, n)| units.get(at)?.parts.get(n));
            let (Some(place), Some(piece)) = (place, found) else {
                let detail = call.call.as_ref().map_or(named, answered);
                job.change("answered", call.at, id, detail);
                set.push(answer(call));
                continue;
            };
            dropped.insert(*place);
            if place.0 != at + 1 {
                let detail = format!("the response to {named}, directly behind it");
                job.change("moved", piece.at, id, detail);
            }
            let mut piece = piece.clone();
            if names(&piece.part) != names(&call.part) {
                let detail = format!("what the response to {named} names");
                job.change("renamed", piece.at, id, detail);
                piece.part = renamed(&piece.part, &call.part);
            }
            set.push(piece);
        }
        sets.insert(*at, set);
    }
    if dropped.is_empty() && sets.is_empty() {
        return;
    }
    let mut waiting: Option<Vec<Piece>> = None;
    let mut all = Vec::with_capacity(units.len() + sets.len());
    for (at, mut unit) in std::mem::take(units).into_iter().enumerate() {
        let had_results = unit.of_kind(Kind::Result).next().is_some();
        let before = unit.parts.len();
        let mut n = 0;
        unit.parts.retain(|_| {
            n += 1;
            !dropped.contains(&(at, n - 1))
        });
        unit.changed |= unit.parts.len() != before;
        if let Some(set) = waiting.take() {
            if !unit.is_model() && had_results {
                unit.changed = true;
                unit.parts.splice(0..0, set);
            } else {
                all.push(results(set));
            }
        }
        waiting = sets.remove(&at);
        all.push(unit);
    }
    all.extend(waiting.map(results));
    all.retain(|unit| !unit.parts.is_empty());
    *units = all;
}

/// What a call and its response have in common.
fn names(part: &Part) -> (&str, &str) {
    (&part.name, &part.id)
}

/// A response that names what the call does.
fn renamed(result: &Part, call: &Part) -> Part {
    let members = Members::read(&result.raw);
    let (inner, older) = match members.get("functionResponse") {
        Some(_) => (members.object("functionResponse"), ""),
        None => (members.object("function_response"), "function_response"),
    };
    let mut set = vec![("name", literal(&call.name))];
    let mut remove = Vec::new();
    match call.id.as_str() {
        "" => remove.push("id"),
        id => set.push(("id", literal(id))),
    }
    let inner = edited(&inner, &set, &remove);
    Part::read(&edited(&members, &[("functionResponse", inner)], &[older]))
}

fn results(set: Vec<Piece>) -> Unit {
    Unit::added(set.first().map_or(0, |piece| piece.at), set)
}

/// The response that closes a call.
fn answer(call: &Piece) -> Piece {
    let words = call.call.as_ref().map(closing).unwrap_or_default();
    let mut error = Object::new();
    error.string("error", &words);
    let mut response = Object::new();
    if !call.part.id.is_empty() {
        response.string("id", &call.part.id);
    }
    response.string("name", &call.part.name);
    response.raw("response", &error.end());
    let mut part = Object::new();
    part.raw("functionResponse", &response.end());
    piece(call.at, &part.end())
}

/// A content with calls comes directly behind the user or behind responses.
fn turns(job: &mut Job<'_>, units: &mut Vec<Unit>) {
    let mut all: Vec<Unit> = Vec::with_capacity(units.len());
    for unit in std::mem::take(units) {
        let first = all.is_empty() && job.target.chained;
        if unit.calls().next().is_some() && all.last().is_none_or(Unit::is_model) && !first {
            let detail = "a content of the user, which has to stand before calls";
            job.change("added", unit.at, "", detail);
            all.push(said(unit.at, GO_ON));
        }
        all.push(unit);
    }
    *units = all;
}

/// Puts the stand-in where the service wants a signature and there is none.
fn sign(job: &mut Job<'_>, units: &mut [Unit]) {
    if !signs(job.target) {
        return;
    }
    let contents: Vec<Content> = units
        .iter()
        .filter_map(|unit| Content::read(&Json::parse(&unit.emit()).ok()?))
        .collect();
    for at in unsigned(&contents) {
        let Some(unit) = units.get_mut(at) else {
            continue;
        };
        let call = unit
            .parts
            .iter_mut()
            .find(|piece| piece.part.kind == Kind::Call);
        if let Some(piece) = call {
            let set = [("thoughtSignature", literal(STAND_IN))];
            let raw = edited(
                &Members::read(&piece.part.raw),
                &set,
                &["thought_signature"],
            );
            let named = call_named(&piece.part.name, &piece.part.id);
            job.change(
                "added",
                piece.at,
                &piece.part.id,
                format!("the documented stand-in for the missing signature of {named}"),
            );
            piece.part = Part::read(&raw);
            unit.changed = true;
        }
    }
}
