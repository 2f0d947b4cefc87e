//! From records to the conversation a model is sent.

use std::collections::{BTreeMap, HashSet};

use crate::tail::{Pair, Pairing};
use crate::{Body, CallState, Entry, Message, Record, ToolCall, ToolResult, texts};

/// Turns records, one after the other, into the messages a model is sent: in order, every call
/// answered once and directly after its response, whatever the records hold.
///
/// Only the last response can be open, so a projection holds no more than its calls and what came
/// after it. What is emitted never changes when more records come, and equal records give equal
/// conversations; so a resumed request repeats the one before it byte for byte.
#[derive(Debug, Default)]
pub struct Projection {
    open: Option<OpenBatch>,
}

/// A response whose calls are not all answered yet.
#[derive(Debug)]
struct OpenBatch {
    seq: u64,
    calls: Vec<ToolCall>,
    ids: Vec<String>,
    taken: Vec<bool>,
    next: usize,
    /// How many of the calls have had their results emitted.
    emitted: usize,
    /// Results that came before those of calls in front of theirs.
    early: BTreeMap<usize, Message>,
    after: Vec<Message>,
}

/// What a projection does to the conversation.
#[derive(Debug)]
pub enum Emit<'a> {
    /// Begin anew: a summary stands for everything before it.
    Reset,
    /// Add a message.
    Message(&'a Message),
}

impl Projection {
    /// Adds a record.
    pub fn push(&mut self, record: &Record, emit: &mut dyn FnMut(Emit<'_>)) {
        let Entry::Message(message, mark) = &record.entry else {
            return;
        };
        if !message.in_context {
            return;
        }
        match &message.body {
            Body::Assistant(assistant) => {
                self.flush(emit);
                let calls = &assistant.tool_calls;
                if calls.is_empty() {
                    return emit(Emit::Message(message));
                }
                let ids = unique_ids(calls);
                if calls.iter().zip(&ids).all(|(call, id)| call.id == *id) {
                    emit(Emit::Message(message));
                } else {
                    let mut renamed = assistant.clone();
                    for (call, id) in renamed.tool_calls.iter_mut().zip(&ids) {
                        call.id.clone_from(id);
                    }
                    // The provider's own items carry the ids that repeat.
                    renamed.native.clear();
                    emit(Emit::Message(&Message {
                        body: Body::Assistant(renamed),
                        ..(**message).clone()
                    }));
                }
                self.open = Some(OpenBatch {
                    seq: record.seq,
                    taken: vec![false; calls.len()],
                    calls: calls.clone(),
                    ids,
                    next: 0,
                    emitted: 0,
                    early: BTreeMap::new(),
                    after: Vec::new(),
                });
            }
            Body::Tool(result) => {
                let Some(open) = &mut self.open else {
                    return; // answers no open call: set aside
                };
                let key = mark
                    .call
                    .filter(|call| call.message == open.seq)
                    .map(|call| call.index as usize);
                open.answer(result, key, message, emit);
                if open.emitted == open.calls.len() {
                    self.flush(emit);
                }
            }
            Body::Summary(_) => {
                self.open = None;
                emit(Emit::Reset);
                emit(Emit::Message(message));
            }
            Body::System(_) | Body::User(_) | Body::Agent(_) => match &mut self.open {
                Some(open) => open.after.push((**message).clone()),
                None => emit(Emit::Message(message)),
            },
        }
    }

    /// Closes what is open: what follows an open response is emitted, and a call without a result is
    /// answered with what can be said of it. To be called before a request is sent; a run has closed
    /// the calls with records of their own by then.
    pub fn flush(&mut self, emit: &mut dyn FnMut(Emit<'_>)) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        for (index, call) in open.calls.iter().enumerate().skip(open.emitted) {
            match open.early.remove(&index) {
                Some(message) => emit(Emit::Message(&message)),
                None => {
                    let said = texts::closing_result(call, CallState::Unknown);
                    let mut result = ToolResult::failure(call, said);
                    if let Some(id) = open.ids.get(index) {
                        result.call_id.clone_from(id);
                    }
                    emit(Emit::Message(&result.into()));
                }
            }
        }
        for message in &open.after {
            emit(Emit::Message(message));
        }
    }
}

impl OpenBatch {
    /// Takes a result, and emits what stands next in the order of the calls.
    fn answer(
        &mut self,
        result: &ToolResult,
        key: Option<usize>,
        message: &Message,
        emit: &mut dyn FnMut(Emit<'_>),
    ) {
        let calls = self.calls.iter().map(|call| call.id.as_str());
        let mut pairing = Pairing::resume(calls, &self.taken, self.next);
        let Pair::Answer(index) = pairing.pair(&result.call_id, key) else {
            return; // a second or a foreign result: set aside
        };
        self.next = index + 1;
        let (Some(taken), Some(id), Some(call)) = (
            self.taken.get_mut(index),
            self.ids.get(index),
            self.calls.get(index),
        ) else {
            return;
        };
        *taken = true;
        // Services that pair by name want the call's; a result from elsewhere may have another.
        let named = result.name.is_empty() || result.name == call.name;
        if index == self.emitted && *id == result.call_id && named {
            emit(Emit::Message(message));
            self.emitted += 1;
        } else {
            let mut message = message.clone();
            if let Body::Tool(result) = &mut message.body {
                result.call_id.clone_from(id);
                if !named {
                    result.name.clone_from(&call.name);
                }
            }
            self.early.insert(index, message);
        }
        while let Some(message) = self.early.remove(&self.emitted) {
            emit(Emit::Message(&message));
            self.emitted += 1;
        }
    }
}

/// The ids of a response's calls with repeated ones replaced. What else a service asks of ids is its
/// adapter's to see to.
fn unique_ids(calls: &[ToolCall]) -> Vec<String> {
    let given: HashSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    let mut used: HashSet<String> = HashSet::new();
    calls
        .iter()
        .map(|call| {
            let mut id = call.id.clone();
            let base = match call.id.as_str() {
                "" => "call",
                given => given,
            };
            let mut n = 2;
            while used.contains(&id) || (id != call.id && given.contains(id.as_str())) {
                id = format!("{base}_{n}");
                n += 1;
            }
            used.insert(id.clone());
            id
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::History;

    fn project(json: &str) -> Vec<String> {
        let messages: Vec<Message> = serde_json::from_str(json).unwrap();
        let mut out = Vec::new();
        let mut emit = |emit: Emit<'_>| match emit {
            Emit::Reset => out.clear(),
            Emit::Message(message) => out.push(match &message.body {
                Body::Tool(result) => format!("{}={}", result.call_id, result.content.to_text()),
                Body::Assistant(response) => {
                    let ids: Vec<_> = response
                        .tool_calls
                        .iter()
                        .map(|call| call.id.as_str())
                        .collect();
                    format!("assistant[{}]", ids.join(","))
                }
                _ => message.content().to_text(),
            }),
        };
        let mut projection = Projection::default();
        for record in History::from_messages(messages).records() {
            projection.push(record, &mut emit);
        }
        projection.flush(&mut emit);
        out
    }

    fn calls(ids: &[&str]) -> String {
        let calls: Vec<_> = ids
            .iter()
            .map(|id| format!(r#"{{"id":"{id}","name":"t","arguments":{{}}}}"#))
            .collect();
        format!(
            r#"{{"role":"assistant","content":"","tool_calls":[{}]}}"#,
            calls.join(",")
        )
    }

    fn result(id: &str, text: &str) -> String {
        format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"{text}"}}"#)
    }

    #[test]
    fn results_stand_behind_their_calls_in_the_order_of_the_calls() {
        let user = r#"{"role":"user","content":"u"}"#;
        let got = project(&format!(
            "[{},{},{user},{}]",
            calls(&["a", "b"]),
            result("b", "B"),
            result("a", "A")
        ));
        assert_eq!(got, ["assistant[a,b]", "a=A", "b=B", "u"]);
    }

    #[test]
    fn the_first_result_counts_and_strangers_are_left_out() {
        let got = project(&format!(
            "[{},{},{},{},{}]",
            result("z", "0"),
            calls(&["a", "b"]),
            result("a", "1"),
            result("a", "2"),
            result("b", "3")
        ));
        assert_eq!(got, ["assistant[a,b]", "a=1", "b=3"]);
    }

    #[test]
    fn repeated_ids_are_told_apart_by_position() {
        let got = project(&format!(
            "[{},{},{}]",
            calls(&["a", "a", "a_2"]),
            result("a", "1"),
            result("a", "2")
        ));
        assert_eq!(got[..3], ["assistant[a,a_3,a_2]", "a=1", "a_3=2"]);
        assert_eq!(got.len(), 4);
    }

    #[test]
    fn a_result_goes_under_the_name_of_the_call_it_answers() {
        let json = r#"[{"role":"assistant","content":"","tool_calls":[{"id":"a","name":"t","arguments":{}}]},
{"role":"tool","tool_call_id":"a","name":"other","content":"x"}]"#;
        let messages: Vec<Message> = serde_json::from_str(json).unwrap();
        let mut names = Vec::new();
        let mut projection = Projection::default();
        for record in History::from_messages(messages).records() {
            projection.push(record, &mut |emit| {
                if let Emit::Message(message) = emit {
                    names.extend(message.as_tool().map(|result| result.name.clone()));
                }
            });
        }
        assert_eq!(names, ["t"]);
    }

    #[test]
    fn a_call_nobody_answered_is_answered_before_the_next_response() {
        let got = project(&format!(
            r#"[{},{{"role":"assistant","content":"x"}}]"#,
            calls(&["a"])
        ));
        assert_eq!(got.len(), 3);
        assert!(got[1].starts_with("a=The run was interrupted"), "{got:?}");
    }

    #[test]
    fn a_summary_stands_for_everything_before_it() {
        let got = project(&format!(
            r#"[{},{{"role":"summary","content":"s"}},{}]"#,
            calls(&["a"]),
            result("a", "1")
        ));
        assert_eq!(got, ["s"]);
    }
}
