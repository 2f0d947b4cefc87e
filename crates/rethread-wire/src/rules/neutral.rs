//! Messages in the neutral form: what would have to be put right before they are sent anywhere.

use rethread_core::{Body, Message, StopReason};
use std::collections::HashSet;

use super::pair::{Call, Event, Match, Pairs, pair};
use super::{Found, Problem, Target, call_named};

/// Calls and results with their places.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The messages with calls.
    pub(crate) batches: Vec<usize>,
    pub(crate) results: Vec<usize>,
    pub(crate) pairs: Pairs,
}

impl Rounds {
    /// Of messages in context, without what a summary stands for.
    pub(crate) fn of(messages: &[&Message]) -> Self {
        let (mut rounds, mut events) = (Self::default(), Vec::new());
        for (at, message) in messages.iter().enumerate() {
            match &message.body {
                Body::Assistant(response) if !response.tool_calls.is_empty() => {
                    rounds.batches.push(at);
                    let calls = response.tool_calls.iter().map(|call| Call {
                        id: call.id.clone(),
                        name: call.name.clone(),
                    });
                    events.push(Event::Calls(calls.collect()));
                }
                Body::Tool(result) => {
                    rounds.results.push(at);
                    events.push(Event::Result(Call {
                        id: result.call_id.clone(),
                        name: result.name.clone(),
                    }));
                }
                _ => {}
            }
        }
        rounds.pairs = pair(&events);
        rounds
    }
}

/// Where what is sent begins: at the last summary.
pub(crate) fn sent(messages: &[(usize, Message)]) -> Vec<(usize, &Message)> {
    let sent = messages.iter().filter(|(_, message)| message.in_context);
    let mut sent: Vec<_> = sent.map(|(at, message)| (*at, message)).collect();
    let is_summary = |(_, message): &(usize, &Message)| matches!(message.body, Body::Summary(_));
    if let Some(start) = sent.iter().rposition(is_summary) {
        sent.drain(..start);
    }
    sent
}

pub(crate) fn check(messages: &[(usize, Message)], target: &Target) -> Vec<Problem> {
    let mut found = Found::default();
    let sent = sent(messages);
    let bare: Vec<&Message> = sent.iter().map(|(_, message)| *message).collect();
    let place = |at: usize| sent.get(at).map_or(0, |(place, _)| *place);
    let rounds = Rounds::of(&bare);
    for (at, what) in rounds.results.iter().zip(&rounds.pairs.results) {
        let result = bare.get(*at).and_then(|message| message.as_tool());
        let id = result.map_or("", |result| result.call_id.as_str());
        match what {
            Match::Answer { .. } => {}
            Match::Extra => {
                let detail = format!("a second result for the call `{id}`");
                found.add("duplicate_tool_result", place(*at), Some(id), detail);
            }
            Match::Foreign => {
                let detail = format!("a result for `{id}`, which no call before it asks for");
                found.add("orphan_tool_result", place(*at), Some(id), detail);
            }
        }
    }
    for (at, slots) in rounds.batches.iter().zip(&rounds.pairs.answers) {
        let response = bare.get(*at).and_then(|message| message.as_assistant());
        let calls = response.map_or(&[][..], |response| &response.tool_calls);
        let rest = bare.iter().skip(at + 1);
        let run = rest
            .take_while(|message| message.as_tool().is_some())
            .count();
        let mut seen = HashSet::new();
        for (call, slot) in calls.iter().zip(slots) {
            let (id, named) = (Some(call.id.as_str()), call_named(&call.name, &call.id));
            if !seen.insert(&call.id) {
                let detail = format!("the id `{}` names two calls of one response", call.id);
                found.add("duplicate_id", place(*at), id, detail);
            }
            match slot.and_then(|result| rounds.results.get(result)) {
                None => {
                    let detail = format!("{named} has no result");
                    found.add("unanswered_tool_call", place(*at), id, detail);
                }
                Some(other) if *other > at + run => {
                    let detail = format!("the result of {named} does not stand directly after it");
                    found.add("turn_order", place(*at), id, detail);
                }
                Some(_) => {}
            }
        }
    }
    if let Some((at, message)) = sent.last()
        && let Some(response) = message.as_assistant()
        && response.stop_reason() != StopReason::Paused
        && response.tool_calls.is_empty()
        && target.prefill == Some(false)
    {
        let detail = "the history ends with a response, which the model does not go on with";
        found.add("prefill", *at, None, detail);
    }
    let mut problems = found.into_problems();
    problems.sort_by_key(|problem| problem.at);
    problems
}
