//! OpenAI Chat Completions.

use std::collections::HashSet;

use rethread_core::{Json, ToolCall};

use super::ids::NewIds;
use super::{Job, answered, closing, literal};
use crate::decode::raw::{Members, Object, edited, sendable};
use crate::encode::IdRule;
use crate::rules::chat::{Call, Rounds, Turn, Wants, id_rule, run_after};
use crate::rules::pair::Match;
use crate::rules::{call_named, lone_surrogate};

/// A message.
#[derive(Clone)]
struct Unit {
    at: usize,
    json: Json,
    turn: Turn,
    /// What its calls asked for before anything was changed.
    calls: Vec<ToolCall>,
}

impl Unit {
    fn read(at: usize, json: Json) -> Option<Self> {
        let turn = Turn::read(&json)?;
        Some(Self {
            at,
            json,
            turn,
            calls: Vec::new(),
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
            self.turn = unit.turn;
        }
    }
}

pub(super) fn repair(job: &mut Job<'_>) -> Vec<String> {
    let mut units = read(job);
    if job.asks_again()
        && let Some(last) = units.last()
        && last.turn.is_assistant()
        && last.turn.calls().is_empty()
        && says_nothing(&last.json)
    {
        let detail = "a response that stopped before it said anything";
        job.change("removed", last.at, "", detail);
        units.pop();
    }
    let mut units = rounds(job, units);
    reasoning(job, &mut units);
    let last = units.last().filter(|unit| unit.turn.is_assistant());
    let prefix = last.is_some_and(|unit| unit.turn.prefix);
    let place = last.map(|unit| unit.at);
    if let Some(text) = job.last_words(place, prefix) {
        let mut object = Object::new();
        object.string("role", "user");
        object.string("content", &text);
        let json = Json::parse(&object.end()).ok();
        units.extend(json.and_then(|json| Unit::read(units.len(), json)));
    }
    units
        .into_iter()
        .map(|unit| job.sendable(unit.at, unit.json.get().to_owned()))
        .collect()
}

/// Whether content is white space only.
fn says_nothing(json: &Json) -> bool {
    let members = Members::read(json.get());
    members
        .get("content")
        .is_none_or(|raw| crate::decode::raw::literal(raw).is_some() && crate::rules::is_blank(raw))
}

fn read(job: &mut Job<'_>) -> Vec<Unit> {
    let mut units = Vec::new();
    for (at, item) in job.document.items.iter().enumerate() {
        let Some(mut unit) = Unit::read(at, item.clone()) else {
            job.change("set_aside", at, "", "this is no message");
            continue;
        };
        let role = match unit.turn.role.as_str() {
            role @ ("system" | "developer" | "user" | "assistant" | "tool" | "function") => role,
            "model" => "assistant",
            _ if !unit.turn.answers.is_empty() => "tool",
            _ => "user",
        }
        .to_owned();
        if role != unit.turn.role {
            let detail = format!("the role `{}` is now `{role}`", unit.turn.role);
            job.change("replaced", at, "", detail);
            unit.set(&[("role", literal(&role))], &[]);
        }
        if unit.turn.is_assistant() {
            calls(job, &mut unit);
            if unit.turn.has_empty_list && !unit.turn.calls().is_empty() {
                job.change("removed", at, "", "an empty list of parts");
                unit.set(&[], &["content"]);
            }
        } else if !unit.turn.has_content {
            if matches!(role.as_str(), "tool" | "function") {
                job.change("replaced", at, "", "the missing content of a result");
                unit.set(&[("content", literal(""))], &[]);
            } else {
                job.change("removed", at, "", "a message without content");
                continue;
            }
        }
        let empty =
            unit.turn.is_assistant() && unit.turn.calls().is_empty() && !unit.turn.says_something;
        match unit.turn.refusal.clone() {
            Some(refusal) if empty => {
                job.change(
                    "replaced",
                    at,
                    "",
                    "the missing content, by the words of the refusal",
                );
                unit.set(&[("content", literal(&refusal))], &["refusal"]);
            }
            None if empty => {
                let detail = "a response with neither content nor calls";
                job.change("removed", at, "", detail);
                continue;
            }
            _ => {}
        }
        units.push(unit);
    }
    units
}

/// Mends what is wrong with the calls of a response.
fn calls(job: &mut Job<'_>, unit: &mut Unit) {
    if unit.turn.calls.as_ref().is_some_and(Vec::is_empty) {
        job.change("removed", unit.at, "", "an empty list of calls");
        unit.set(&[], &["tool_calls"]);
    }
    let mut raws = Vec::new();
    let mut changed = false;
    let mut neutral = Vec::new();
    for call in unit.turn.calls() {
        let (raw, call) = mended(job, unit.at, call);
        changed |= raw.is_some();
        raws.push(raw.unwrap_or_else(|| call.0.raw.clone()));
        neutral.push(call.1);
    }
    if changed {
        unit.set(&[("tool_calls", format!("[{}]", raws.join(",")))], &[]);
    }
    unit.calls = neutral;
}

/// A call as it can be sent, if it has to change, and what it asked for.
fn mended<'c>(
    job: &mut Job<'_>,
    at: usize,
    call: &'c Call,
) -> (Option<String>, (&'c Call, ToolCall)) {
    let named = call_named(&call.name, &call.id);
    let members = Members::read(&call.raw);
    let function = members.object("function");
    let given = function.get("arguments").map(|raw| raw.get().to_owned());
    let text = call.arguments.clone().or(given).unwrap_or_default();
    let neutral = ToolCall::from_text(&call.id, &call.name, &text);
    let mut set = Vec::new();
    if !call.is_sound() {
        // Nothing was lost if they were an object after all, written in another way.
        let by = if neutral.is_decoded() {
            neutral.arguments.get()
        } else {
            "{}"
        };
        let detail = format!(
            "the arguments of {named}, which are no JSON object, by `{}`",
            short(by)
        );
        job.change("replaced", at, &call.id, detail);
        set.push(("arguments", literal(by)));
    } else if lone_surrogate(&text) {
        job.change(
            "replaced",
            at,
            &call.id,
            format!("half of a surrogate pair in the arguments of {named}"),
        );
        let mended = sendable(text.clone()).map(|json| json.get().to_owned());
        set.push(("arguments", literal(&mended.unwrap_or_default())));
    }
    if let Some(most) = job.target.max_argument_chars
        && text.chars().count() > most
    {
        let detail =
            format!("the arguments of {named}, which are longer than {most} characters, by none");
        job.change("replaced", at, &call.id, detail);
        set.clear();
        set.push(("arguments", literal("{}")));
    }
    if call.name.is_empty() {
        job.change("replaced", at, &call.id, "the missing name of a function");
        set.push(("name", literal("unknown")));
    }
    let raw = (!set.is_empty()).then(|| {
        let function = edited(&function, &set, &[]);
        edited(&members, &[("function", function)], &[])
    });
    (raw, (call, neutral))
}

fn short(text: &str) -> String {
    if text.len() > 40 {
        "{…}".to_owned()
    } else {
        text.to_owned()
    }
}

/// Puts the results of every response directly behind it, each call answered once.
fn rounds(job: &mut Job<'_>, mut units: Vec<Unit>) -> Vec<Unit> {
    let turns: Vec<Turn> = units.iter().map(|unit| unit.turn.clone()).collect();
    let rounds = Rounds::of(&turns);
    // Before anything is moved: by place, a result may belong to a call of another id.
    rename(job, &mut units, &turns, &rounds);
    for (place, what) in rounds.results.iter().zip(&rounds.pairs.results) {
        let Some(unit) = units.get(*place) else {
            continue;
        };
        let id = unit.turn.answers.clone();
        let detail = match what {
            Match::Answer { .. } => continue,
            Match::Extra => format!("a second result for the call `{id}`"),
            Match::Foreign => format!("a result for `{id}`, which no call before it asks for"),
        };
        job.change("set_aside", unit.at, &id, detail);
    }
    let mut batches = rounds.batches.iter().zip(&rounds.pairs.answers).peekable();
    let mut all: Vec<Unit> = Vec::with_capacity(units.len());
    for (at, unit) in units.iter().enumerate() {
        if unit.turn.is_tool() {
            continue;
        }
        all.push(unit.clone());
        let Some((_, slots)) = batches.next_if(|(batch, _)| **batch == at) else {
            continue;
        };
        let run = run_after(&turns, at);
        let place =
            |slot: &Option<usize>| slot.and_then(|result| rounds.results.get(result)).copied();
        let mut answers: Vec<Option<usize>> = slots.iter().map(place).collect();
        if answers
            .iter()
            .all(|place| place.is_some_and(|place| run.contains(&place)))
        {
            // Their order is as good as any.
            answers.sort_unstable();
        }
        let calls = unit.turn.calls().iter().zip(&unit.calls);
        // By call as long as the order is that of the calls.
        let by_call: Vec<(&Call, &ToolCall)> = calls.collect();
        for (n, answer) in answers.iter().enumerate() {
            if let Some(found) = answer.and_then(|place| units.get(place)) {
                if !answer.is_some_and(|place| run.contains(&place)) {
                    let detail = "the result, directly behind its call";
                    job.change("moved", found.at, &found.turn.answers, detail);
                }
                all.push(found.clone());
            } else if let Some((call, neutral)) = by_call.get(n) {
                job.change("answered", unit.at, &call.id, answered(neutral));
                let mut object = Object::new();
                object.string("role", "tool");
                object.string("tool_call_id", &call.id);
                object.string("content", &closing(neutral));
                let json = Json::parse(&object.end()).ok();
                all.extend(json.and_then(|json| Unit::read(unit.at, json)));
            }
        }
    }
    all
}

/// Gives calls new ids whose own are refused, and their results with them.
fn rename(job: &mut Job<'_>, units: &mut [Unit], turns: &[Turn], rounds: &Rounds) {
    let rule = id_rule(job.target);
    let all = turns
        .iter()
        .flat_map(|turn| turn.calls().iter().map(|call| call.id.as_str()));
    let mut ids = NewIds::new(rule.unwrap_or(IdRule::SHORT), all);
    for (at, slots) in rounds.batches.iter().zip(&rounds.pairs.answers) {
        let Some(turn) = turns.get(*at) else { continue };
        let (mut seen, mut changed, mut raws) = (HashSet::new(), false, Vec::new());
        for (call, slot) in turn.calls().iter().zip(slots) {
            let refused = call.id.is_empty() || rule.is_some_and(|rule| !rule.fits(&call.id));
            let answer = slot.and_then(|result| rounds.results.get(result));
            if !refused && seen.insert(call.id.clone()) {
                // A result that was paired by its place may have another id, or none.
                if let Some(unit) = answer.and_then(|place| units.get_mut(*place))
                    && unit.turn.answers != call.id
                {
                    job.change("renamed", unit.at, &call.id, "the id a result names");
                    unit.set(&[("tool_call_id", literal(&call.id))], &[]);
                }
                raws.push(call.raw.clone());
                continue;
            }
            let new = ids.instead_of(&call.id);
            seen.insert(new.clone());
            changed = true;
            let place = units.get(*at).map_or(0, |unit| unit.at);
            let detail = format!("the call `{}` is now `{new}`, on both sides", call.id);
            job.change("renamed", place, &call.id, detail);
            raws.push(edited(
                &Members::read(&call.raw),
                &[("id", literal(&new))],
                &[],
            ));
            if let Some(unit) = answer.and_then(|place| units.get_mut(*place)) {
                unit.set(&[("tool_call_id", literal(&new))], &[]);
            }
        }
        if let Some(unit) = units.get_mut(*at).filter(|_| changed) {
            unit.set(&[("tool_calls", format!("[{}]", raws.join(",")))], &[]);
        }
    }
}

/// Gives responses the reasoning some services demand. What is not known is empty, which they take.
fn reasoning(job: &mut Job<'_>, units: &mut [Unit]) {
    let (wants, mut had_calls) = (Wants::of(job.target), false);
    for unit in units.iter_mut().filter(|unit| unit.turn.is_assistant()) {
        if wants.of_response(&unit.turn, had_calls) && !unit.turn.has_reasoning {
            job.change(
                "added",
                unit.at,
                "",
                "an empty `reasoning_content`, which the service demands",
            );
            unit.set(&[("reasoning_content", literal(""))], &[]);
        }
        had_calls |= !unit.turn.calls().is_empty();
    }
}
