//! OpenAI Responses.

use std::collections::{HashMap, HashSet};

use rethread_core::{Json, ToolCall};

use super::ids::NewIds;
use super::{Job, answered, closing, literal};
use crate::decode::raw::{Members, Object, edited, sendable};
use crate::encode::IdRule;
use crate::rules::pair::Match;
use crate::rules::responses::{
    Item, Kind, OUTPUT_ONLY, Rounds, is_foreign_text, is_unkept, lacks_reasoning,
    max_argument_chars, prefix,
};
use crate::rules::{call_named, lone_surrogate};

/// An item.
#[derive(Clone)]
struct Unit {
    at: usize,
    json: Json,
    item: Item,
    /// What a call asked for before anything was changed.
    call: Option<ToolCall>,
}

impl Unit {
    fn read(at: usize, json: Json) -> Option<Self> {
        let item = Item::read(&json)?;
        let call = (item.kind == Kind::Call).then(|| {
            let arguments = item.arguments.as_deref().unwrap_or("");
            match item.is_function() {
                true => ToolCall::from_text(&item.call_id, &item.name, arguments),
                false => ToolCall::new(&item.call_id, &item.name, Json::empty_object()),
            }
        });
        Some(Self {
            at,
            json,
            item,
            call,
        })
    }

    /// Sets some members and removes others.
    fn set(&mut self, set: &[(&str, String)], remove: &[&str]) {
        let json = edited(&Members::read(self.json.get()), set, remove);
        if let Some(unit) = Json::parse(&json)
            .ok()
            .and_then(|json| Self::read(self.at, json))
        {
            self.json = unit.json;
            self.item = unit.item;
        }
    }
}

pub(super) fn repair(job: &mut Job<'_>) -> Vec<String> {
    let mut units = read(job);
    units = pairs(job, units);
    reasoning(job, &mut units);
    if job.asks_again() {
        drop_empty_end(job, &mut units);
    }
    let is_answer = |unit: &&Unit| unit.item.follows_reasoning() && unit.item.kind != Kind::Call;
    let place = units.last().filter(is_answer).map(|unit| unit.at);
    if let Some(text) = job.last_words(place, false) {
        let mut part = Object::new();
        part.string("type", "input_text");
        part.string("text", &text);
        let mut object = Object::new();
        object.string("type", "message");
        object.string("role", "user");
        object.list("content", &[part.end()]);
        let json = Json::parse(&object.end()).ok();
        units.extend(json.and_then(|json| Unit::read(units.len(), json)));
    }
    units
        .into_iter()
        .map(|unit| job.sendable(unit.at, unit.json.get().to_owned()))
        .collect()
}

/// The last items of the model that say nothing, when the response is to be started again.
fn drop_empty_end(job: &mut Job<'_>, units: &mut Vec<Unit>) {
    let is_empty = |unit: &Unit| {
        let said = Json::parse(unit.json.get()).ok();
        let text = said.and_then(|json| text_of(&json));
        unit.item.kind == Kind::Answer && text.is_some_and(|text| text.trim().is_empty())
    };
    while let Some(unit) = units.pop_if(|unit| is_empty(unit)) {
        job.change(
            "removed",
            unit.at,
            &unit.item.id,
            "a message that says nothing",
        );
        while let Some(unit) = units.pop_if(|unit| unit.item.kind == Kind::Reasoning) {
            let detail = "reasoning, with the message it led to";
            job.change("removed", unit.at, &unit.item.id, detail);
        }
    }
}

/// The text of a message whose content is text alone.
fn text_of(json: &Json) -> Option<String> {
    let members = Members::read(json.get());
    let content = members.get("content")?;
    if crate::decode::raw::literal(content).is_some() {
        return crate::decode::raw::string(content);
    }
    let mut all = String::new();
    for part in crate::decode::raw::elements(content) {
        let part = Members::read(part.get());
        all.push_str(&part.string("text").or_else(|| part.string("refusal"))?);
    }
    Some(all)
}

fn read(job: &mut Job<'_>) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut seen: HashMap<String, String> = HashMap::new();
    for (at, json) in job.document.items.iter().enumerate() {
        let Some(mut unit) = Unit::read(at, json.clone()) else {
            job.change("set_aside", at, "", "this is no item");
            continue;
        };
        if !mend(job, &mut unit) {
            continue;
        }
        if let Some(lacks) = unit.item.lacks {
            let detail = format!("a `{}` without `{lacks}`", unit.item.word);
            job.change("set_aside", at, &unit.item.id, detail);
            // Reasoning goes with what it led to.
            while let Some(unit) = units.pop_if(|unit: &mut Unit| unit.item.kind == Kind::Reasoning)
            {
                job.change(
                    "set_aside",
                    unit.at,
                    &unit.item.id,
                    "the reasoning that led to it",
                );
            }
            continue;
        }
        let id = unit.item.id.clone();
        if !id.is_empty() {
            let is_reference = unit.item.kind == Kind::Reference;
            match seen.get(&id) {
                Some(same) if same == json.get() || is_reference => {
                    job.change(
                        "set_aside",
                        at,
                        &id,
                        "an item that stands there for the second time",
                    );
                    continue;
                }
                Some(_) => {
                    job.change("removed", at, &id, "an id that another item has, too");
                    unit.set(&[], &["id"]);
                }
                None => {
                    seen.insert(id, json.get().to_owned());
                }
            }
        }
        units.push(unit);
    }
    units
}

/// Mends what is wrong with an item alone; false if it cannot be sent.
fn mend(job: &mut Job<'_>, unit: &mut Unit) -> bool {
    let (at, id) = (unit.at, unit.item.id.clone());
    if !unit.item.output_only.is_empty() {
        let names = unit.item.output_only.join("` and `");
        job.change(
            "removed",
            at,
            &id,
            format!("`{names}`, which stands in responses only"),
        );
        unit.set(&[], &OUTPUT_ONLY);
    }
    match unit.item.kind {
        Kind::Other if unit.item.word.is_empty() => {
            job.change("set_aside", at, &id, "an item without a `type`");
            return false;
        }
        Kind::Reference if job.target.store == Some(false) => {
            let detail = "a reference to what the service does not keep";
            job.change("set_aside", at, &id, detail);
            return false;
        }
        Kind::Said | Kind::Answer if !unit.item.has_any_content => {
            job.change("removed", at, &id, "a message without content");
            return false;
        }
        Kind::Said if !matches!(unit.item.role.as_str(), "user" | "system" | "developer") => {
            let role = if unit.item.role == "model" {
                "assistant"
            } else {
                "user"
            };
            let detail = format!("the role `{}` is now `{role}`", unit.item.role);
            job.change("replaced", at, &id, detail);
            unit.set(&[("role", literal(role))], &[]);
        }
        Kind::Reasoning => {
            if is_foreign_text(&unit.item, job.target) {
                job.change(
                    "removed",
                    at,
                    &id,
                    "the text of reasoning, which the service refuses",
                );
                unit.set(&[], &["content"]);
            }
            if !unit.item.has_summary {
                job.change("added", at, &id, "the missing `summary` of reasoning");
                unit.set(&[("summary", "[]".to_owned())], &[]);
            }
        }
        Kind::Call if unit.item.is_function() => arguments(job, unit),
        _ => {}
    }
    let refused =
        |prefix: &'static str| !unit.item.id.is_empty() && !unit.item.id.starts_with(prefix);
    if job.target.is("openai") && prefix(&unit.item.word).is_some_and(refused) {
        job.change("removed", at, &id, "an id that is not one of the service's");
        unit.set(&[], &["id"]);
    }
    true
}

fn arguments(job: &mut Job<'_>, unit: &mut Unit) {
    let (at, id) = (unit.at, unit.item.call_id.clone());
    let named = call_named(&unit.item.name, &id);
    let text = unit.item.arguments.clone().unwrap_or_default();
    let most = max_argument_chars(job.target);
    let decoded = unit.call.as_ref().filter(|call| call.is_decoded());
    let decoded = decoded.map(|call| call.arguments.get().to_owned());
    if !unit.item.is_sound_function() {
        let detail = format!("the arguments of {named}, which are no JSON object");
        job.change("replaced", at, &id, detail);
        unit.set(
            &[("arguments", literal(decoded.as_deref().unwrap_or("{}")))],
            &[],
        );
    } else if text.chars().count() > most {
        let detail =
            format!("the arguments of {named}, which are longer than {most} characters, by none");
        job.change("replaced", at, &id, detail);
        unit.set(&[("arguments", literal("{}"))], &[]);
    } else if lone_surrogate(&text) {
        let detail = format!("half of a surrogate pair in the arguments of {named}");
        job.change("replaced", at, &id, detail);
        let mended = sendable(text).map(|json| json.get().to_owned());
        unit.set(&[("arguments", literal(&mended.unwrap_or_default()))], &[]);
    }
    if unit.item.name.is_empty() {
        job.change("replaced", at, &id, "the missing name of a function");
        unit.set(&[("name", literal("unknown"))], &[]);
    }
}

/// Answers open calls and sets aside outputs of none.
fn pairs(job: &mut Job<'_>, mut units: Vec<Unit>) -> Vec<Unit> {
    let items: Vec<Item> = units.iter().map(|unit| unit.item.clone()).collect();
    let rounds = Rounds::of(&items);
    let mut dropped: HashSet<usize> = HashSet::new();
    for (place, what) in rounds.outputs.iter().zip(&rounds.pairs.results) {
        let Some(unit) = units.get(*place) else {
            continue;
        };
        let id = unit.item.call_id.clone();
        let detail = match what {
            Match::Answer { .. } => continue,
            _ if job.target.chained => continue,
            Match::Extra => format!("a second output for the call `{id}`"),
            Match::Foreign => format!("an output for `{id}`, which no call before it asks for"),
        };
        job.change("set_aside", unit.at, &id, detail);
        dropped.insert(*place);
    }
    let answers: Vec<(usize, Option<usize>)> = rounds.answers().collect();
    rename(job, &mut units, &answers);
    let mut made: HashMap<usize, Unit> = HashMap::new();
    for (place, output) in answers {
        let Some(call) = units.get(place).cloned() else {
            continue;
        };
        let (id, word) = (&call.item.call_id, format!("{}_output", call.item.word));
        match output.and_then(|place| units.get_mut(place)) {
            Some(output) if output.item.word != word => {
                job.change(
                    "replaced",
                    output.at,
                    id,
                    "the type of an output, by the one of its call",
                );
                output.set(&[("type", literal(&word))], &[]);
            }
            Some(_) => {}
            None if call.item.takes_text() => {
                let detail = call.call.as_ref().map(answered).unwrap_or_default();
                job.change("answered", call.at, id, detail);
                let mut object = Object::new();
                object.string("type", &word);
                object.string("call_id", id);
                object.string(
                    "output",
                    &call.call.as_ref().map(closing).unwrap_or_default(),
                );
                let json = Json::parse(&object.end()).ok();
                if let Some(unit) = json.and_then(|json| Unit::read(call.at, json)) {
                    made.insert(place, unit);
                }
            }
            None => {
                let detail = format!("{} has no output, and none can be made up", call.item.word);
                job.change("set_aside", call.at, id, detail);
                dropped.insert(place);
                // Reasoning goes with what it led to.
                if let Some(before) = place.checked_sub(1)
                    && units
                        .get(before)
                        .is_some_and(|unit| unit.item.kind == Kind::Reasoning)
                    && !units
                        .get(place + 1)
                        .is_some_and(|unit| unit.item.kind == Kind::Call)
                {
                    dropped.insert(before);
                    let at = units.get(before).map_or(0, |unit| unit.at);
                    job.change("set_aside", at, "", "the reasoning that led to it");
                }
            }
        }
    }
    // An output that is made up stands behind all that the model said at once.
    let (mut all, mut waiting) = (Vec::with_capacity(units.len() + made.len()), Vec::new());
    for (place, unit) in units.into_iter().enumerate() {
        if !is_model(&unit.item) {
            all.append(&mut waiting);
        }
        if !dropped.contains(&place) {
            all.push(unit);
            waiting.extend(made.remove(&place));
        }
    }
    all.append(&mut waiting);
    all
}

/// Whether the model made this item.
fn is_model(item: &Item) -> bool {
    !matches!(item.kind, Kind::Said | Kind::Output | Kind::Reference)
}

/// Gives calls new ids whose own are refused, and their outputs with them.
fn rename(job: &mut Job<'_>, units: &mut [Unit], answers: &[(usize, Option<usize>)]) {
    let items: Vec<Item> = units.iter().map(|unit| unit.item.clone()).collect();
    let rule = job.target.ids;
    let calls = items.iter().filter(|item| item.kind == Kind::Call);
    let mut ids = NewIds::new(
        rule.unwrap_or(IdRule::LONG),
        calls.map(|item| item.call_id.as_str()),
    );
    let mut seen = HashSet::new();
    for (place, output) in answers.iter().copied() {
        let Some(item) = items.get(place) else {
            continue;
        };
        let id = &item.call_id;
        let refused = id.is_empty() || rule.is_some_and(|rule| !rule.fits(id));
        let mut new = id.clone();
        if refused || !seen.insert(id.clone()) {
            new = ids.instead_of(id);
            seen.insert(new.clone());
            if let Some(unit) = units.get_mut(place) {
                let detail = format!("the call `{id}` is now `{new}`, on both sides");
                job.change("renamed", unit.at, id, detail);
                unit.set(&[("call_id", literal(&new))], &[]);
            }
        }
        if let Some(unit) = output.and_then(|place| units.get_mut(place))
            && unit.item.call_id != new
        {
            if new == *id {
                job.change("renamed", unit.at, id, "the id an output names");
            }
            unit.set(&[("call_id", literal(&new))], &[]);
        }
    }
}

/// Sets reasoning aside that cannot go back, and the ids of the items it led to.
fn reasoning(job: &mut Job<'_>, units: &mut Vec<Unit>) {
    const MISSING: &str = "the id by which the service knows the reasoning is missing";
    // From the end, so that what stands behind is settled.
    let mut kept: Vec<Unit> = Vec::with_capacity(units.len());
    // How many of the last kept ones are items the reasoning before them led to.
    let mut led_to = 0;
    while let Some(unit) = units.pop() {
        let detail = if unit.item.kind != Kind::Reasoning {
            None
        } else if is_unkept(&unit.item, job.target) {
            Some("reasoning of which there is only the id, and the service keeps nothing")
        } else if !kept
            .last()
            .is_some_and(|next| next.item.follows_reasoning())
        {
            Some("reasoning without the item it led to")
        } else {
            None
        };
        let Some(detail) = detail else {
            led_to = match unit.item.kind {
                Kind::Reasoning => 0,
                _ if is_model(&unit.item) => led_to + 1,
                _ => 0,
            };
            kept.push(unit);
            continue;
        };
        job.change("removed", unit.at, &unit.item.id, detail);
        for unit in kept.iter_mut().rev().take(led_to) {
            if !unit.item.id.is_empty() {
                let id = unit.item.id.clone();
                job.change("removed", unit.at, &id, MISSING);
                unit.set(&[], &["id"]);
            }
        }
        led_to = 0;
    }
    kept.reverse();
    *units = kept;
    let items: Vec<Item> = units.iter().map(|unit| unit.item.clone()).collect();
    for (place, unit) in units.iter_mut().enumerate() {
        if lacks_reasoning(&items, place, job.target) {
            let id = unit.item.id.clone();
            job.change("removed", unit.at, &id, MISSING);
            unit.set(&[], &["id"]);
        }
    }
}
