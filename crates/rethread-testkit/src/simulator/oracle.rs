//! What the records mean, said a second time in the plainest way: the tables of the design read off
//! the whole list at every question, so that it shares no code and no shortcut with what it judges.

use std::collections::HashSet;

use rethread_core::{
    Assistant, Body, CallKey, CallState, Entry, Message, Record, StopReason, ToolCall, ToolResult,
    Wait, texts,
};

/// A call without a result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Open {
    pub(super) key: CallKey,
    pub(super) id: String,
    pub(super) state: CallState,
}

/// Where a list of records stands.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The resume kind, or the reason against one.
    pub(super) state: &'static str,
    pub(super) open: Vec<Open>,
}

impl View {
    /// Whether nothing waits for an answer.
    pub(super) fn is_ready(&self) -> bool {
        self.waiting().is_none()
    }

    /// The first call that waits for an answer, and for what.
    pub(super) fn waiting(&self) -> Option<(&Open, Wait)> {
        self.open.iter().find_map(|open| match open.state {
            CallState::Suspended(wait) => Some((open, wait)),
            _ => None,
        })
    }
}

/// The records that decide: messages in context that are neither set aside nor system messages.
fn deciding(records: &[Record]) -> Vec<(u64, &Message, Option<CallKey>, bool)> {
    let aside: HashSet<u64> = records
        .iter()
        .filter_map(|record| match &record.entry {
            Entry::SetAside(aside) => Some(aside.record),
            _ => None,
        })
        .collect();
    records
        .iter()
        .filter(|record| !aside.contains(&record.seq))
        .filter_map(|record| match &record.entry {
            Entry::Message(message, mark)
                if message.in_context && !matches!(message.body, Body::System(_)) =>
            {
                Some((record.seq, &**message, mark.call, mark.step.is_some()))
            }
            _ => None,
        })
        .collect()
}

/// Pairs results with calls: by the call a record names, then by position, then by id. Gives for
/// each result the call it answers.
fn pair(
    seq: u64,
    calls: &[ToolCall],
    results: &[(&ToolResult, Option<CallKey>)],
) -> Vec<Option<usize>> {
    let mut taken: Vec<usize> = Vec::new();
    let mut expected = 0;
    let mut pairs = Vec::new();
    for (result, key) in results {
        let free = |index: &usize| *index < calls.len() && !taken.contains(index);
        let named = key
            .filter(|key| key.message == seq)
            .map(|key| key.index as usize);
        let mut candidates: Vec<usize> = named.into_iter().collect();
        let same = |index: &usize| {
            calls
                .get(*index)
                .is_some_and(|call| call.id == result.call_id)
        };
        candidates.extend(Some(expected).filter(same));
        candidates.extend((0..calls.len()).filter(same));
        let found = candidates.into_iter().find(free);
        if let Some(index) = found {
            taken.push(index);
            expected = index + 1;
        }
        pairs.push(found);
    }
    pairs
}

/// Reads the resume table off a list of records.
pub(super) fn view(records: &[Record]) -> View {
    let messages = deciding(records);
    let Some((_, last, ..)) = messages.last() else {
        return View {
            state: "empty",
            open: Vec::new(),
        };
    };
    let response = messages
        .iter()
        .rposition(|(_, message, ..)| message.as_assistant().is_some());
    let start = response.map_or(0, |at| at + 1);
    let after = messages.get(start..).unwrap_or(&[]);
    let mut unsent: Vec<usize> = Vec::new();
    let results: Vec<_> = after
        .iter()
        .filter_map(|(_, message, key, _)| Some((message.as_tool()?, *key)))
        .collect();
    let mut open = Vec::new();
    let mut foreign_end = last.as_tool().is_some();
    if let Some((seq, message, _, own)) = response.and_then(|at| messages.get(at))
        && let Some(assistant) = message.as_assistant()
    {
        let pairs = pair(*seq, &assistant.tool_calls, &results);
        let places = (start..messages.len()).filter(|at| {
            messages
                .get(*at)
                .is_some_and(|(_, message, ..)| message.as_tool().is_some())
        });
        let answers = places.zip(&pairs);
        unsent.extend(
            answers
                .filter(|(_, answer)| answer.is_none())
                .map(|(at, _)| at),
        );
        if let Some(result) = last.as_tool() {
            let known = assistant
                .tool_calls
                .iter()
                .any(|call| call.id == result.call_id);
            foreign_end = pairs.last() == Some(&None) && !known;
        }
        for (index, call) in (0_u32..).zip(&assistant.tool_calls) {
            if !pairs.contains(&Some(index as usize)) {
                let key = CallKey {
                    message: *seq,
                    index,
                };
                open.push(Open {
                    key,
                    id: call.id.clone(),
                    state: state_of(records, key, call, *own),
                });
            }
        }
    }
    let waits = |open: &Open| matches!(open.state, CallState::Suspended(_) | CallState::Approved);
    let state = if open.iter().any(waits) {
        "await_results"
    } else if !open.is_empty() {
        "recover_tools"
    } else if foreign_end {
        "malformed"
    } else {
        match &last.body {
            Body::Assistant(assistant) => state_after(assistant),
            Body::Summary(_) => {
                // A summary over a finished session leaves it finished.
                // What is not sent stands between nothing.
                let before = messages
                    .iter()
                    .enumerate()
                    .rev()
                    .find(|(at, (_, message, ..))| {
                        !matches!(message.body, Body::Summary(_)) && !unsent.contains(at)
                    });
                let before = before.map(|(_, message)| message);
                match before.and_then(|(_, message, ..)| message.as_assistant()) {
                    Some(assistant) if state_after(assistant) == "completed" => "completed",
                    _ => "call_model",
                }
            }
            _ => "call_model",
        }
    };
    View { state, open }
}

fn state_after(assistant: &Assistant) -> &'static str {
    match assistant.stop_reason() {
        StopReason::EndTurn | StopReason::ToolUse => "completed",
        StopReason::Paused => "call_model",
        StopReason::Interrupted => "retry_response",
        StopReason::MaxOutput => "continue_response",
        StopReason::Refusal => "refused",
        StopReason::ContextFull => "context_full",
        _ => "unknown_stop",
    }
}

/// What the records say of a call without a result: the last word on it counts.
fn state_of(records: &[Record], key: CallKey, call: &ToolCall, own: bool) -> CallState {
    let last = records.iter().rev().find_map(|record| match &record.entry {
        Entry::CallStarted(started) if started.calls.contains(&key) => Some(CallState::Unknown),
        Entry::CallSuspended(suspended) if suspended.call == key => {
            Some(CallState::Suspended(suspended.wait))
        }
        Entry::CallApproved(approved) if approved.call == key => Some(CallState::Approved),
        _ => None,
    });
    last.unwrap_or(if own || !call.is_decoded() {
        CallState::NotStarted
    } else {
        CallState::Unknown
    })
}

/// The request these records make: the JSON of each message a model is sent.
pub(super) fn request(records: &[Record]) -> Vec<String> {
    let aside: HashSet<u64> = records
        .iter()
        .filter_map(|record| match &record.entry {
            Entry::SetAside(aside) => Some(aside.record),
            _ => None,
        })
        .collect();
    let messages: Vec<_> = records
        .iter()
        .filter(|record| !aside.contains(&record.seq))
        .filter_map(|record| match &record.entry {
            Entry::Message(message, mark) if message.in_context => {
                Some((record.seq, &**message, mark.call))
            }
            _ => None,
        })
        .collect();
    let start = messages
        .iter()
        .rposition(|(_, message, _)| matches!(message.body, Body::Summary(_)))
        .unwrap_or(0);
    let messages = messages.get(start..).unwrap_or(&[]);
    let responses: Vec<usize> = (0..messages.len())
        .filter(|at| {
            messages
                .get(*at)
                .is_some_and(|(_, message, _)| message.as_assistant().is_some())
        })
        .collect();
    let first = responses.first().copied().unwrap_or(messages.len());
    let mut out: Vec<Message> = Vec::new();
    let others = |out: &mut Vec<Message>, from: usize, to: usize| {
        for (_, message, _) in messages.get(from..to).unwrap_or(&[]) {
            if message.as_tool().is_none() {
                out.push((*message).clone());
            }
        }
    };
    others(&mut out, 0, first);
    for (at, place) in responses.iter().zip(1..) {
        let end = responses.get(place).copied().unwrap_or(messages.len());
        let Some((seq, message, _)) = messages.get(*at) else {
            continue;
        };
        let Some(assistant) = message.as_assistant() else {
            continue;
        };
        let ids = distinct(&assistant.tool_calls);
        let mut sent = (*message).clone();
        if let Body::Assistant(sent) = &mut sent.body {
            for (call, id) in sent.tool_calls.iter_mut().zip(&ids) {
                if call.id != *id {
                    call.id.clone_from(id);
                    sent.native.clear();
                }
            }
        }
        out.push(sent);
        let results: Vec<_> = messages
            .get(at + 1..end)
            .unwrap_or(&[])
            .iter()
            .filter_map(|(_, message, key)| Some((*message, message.as_tool()?, *key)))
            .collect();
        let keyed: Vec<_> = results
            .iter()
            .map(|(_, result, key)| (*result, *key))
            .collect();
        let pairs = pair(*seq, &assistant.tool_calls, &keyed);
        for (index, (call, id)) in assistant.tool_calls.iter().zip(&ids).enumerate() {
            let answer = pairs
                .iter()
                .position(|answered| *answered == Some(index))
                .and_then(|at| results.get(at));
            let mut answer: Message = match answer {
                Some((message, ..)) => (*message).clone(),
                None => ToolResult::failure(call, texts::closing_result(call, CallState::Unknown))
                    .into(),
            };
            if let Body::Tool(result) = &mut answer.body {
                result.call_id.clone_from(id);
                if !result.name.is_empty() {
                    result.name.clone_from(&call.name);
                }
            }
            out.push(answer);
        }
        others(&mut out, at + 1, end);
    }
    out.iter().map(json).collect()
}

/// A message's JSON.
pub(super) fn json(message: &Message) -> String {
    serde_json::to_string(message).unwrap_or_default()
}

/// The ids of calls as a request names them: a repeated one gets a number.
fn distinct(calls: &[ToolCall]) -> Vec<String> {
    let given: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    let mut ids: Vec<String> = Vec::new();
    for call in calls {
        let repeated = ids.contains(&call.id);
        let base = match call.id.as_str() {
            "" => "call",
            id => id,
        };
        let id = if repeated {
            (2..)
                .map(|number| format!("{base}_{number}"))
                .find(|id| !ids.contains(id) && !given.contains(&id.as_str()))
                .unwrap_or_default()
        } else {
            call.id.clone()
        };
        ids.push(id);
    }
    ids
}

/// What is wrong with a request by the rules every provider shares.
pub(super) fn breach(messages: &[Message]) -> Option<String> {
    let mut waiting: Vec<(String, String)> = Vec::new();
    for message in messages {
        match &message.body {
            Body::Tool(result) => {
                if waiting.first().is_none_or(|(id, _)| *id != result.call_id) {
                    return Some(format!(
                        "a result for `{}` at the wrong place",
                        result.call_id
                    ));
                }
                let (_, name) = waiting.remove(0);
                if name != result.name && !result.name.is_empty() {
                    return Some(format!(
                        "a result of `{}` for a call of `{name}`",
                        result.name
                    ));
                }
            }
            _ if !waiting.is_empty() => {
                return Some(format!("call `{}` is not answered", waiting.remove(0).0));
            }
            Body::Assistant(assistant) => {
                for call in &assistant.tool_calls {
                    if waiting.iter().any(|(id, _)| *id == call.id) {
                        return Some(format!("the call id `{}` is repeated", call.id));
                    }
                    waiting.push((call.id.clone(), call.name.clone()));
                }
            }
            _ => {}
        }
    }
    if let Some((id, _)) = waiting.first() {
        return Some(format!("call `{id}` is not answered"));
    }
    match messages.last().map(|message| &message.body) {
        None => Some("there is no message".to_owned()),
        Some(Body::Assistant(assistant)) if assistant.stop_reason() != StopReason::Paused => {
            Some("it ends in a response that was not paused".to_owned())
        }
        _ => None,
    }
}
