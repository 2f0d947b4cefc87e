//! The end of a history: the last response, the state of its calls, and the run it belongs to.

use std::collections::{HashMap, HashSet};

use crate::{
    Assistant, Body, Budget, CallKey, CallState, Entry, Json, Message, Record, RunEnded,
    Unanswered, Wait,
};

/// What the end of a history says. Built from records that reach back to the last response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    /// The last response, if there is one.
    response: Option<Response>,
    /// The last message that is no system message.
    last: Option<Message>,
    /// Whether the history ends in a tool result that answers no call of the last response.
    foreign_end: bool,
    /// Whether nothing but summaries, and results that are not sent, came after the response.
    only_summaries_follow: bool,
    /// Records after the last response that are not sent: extra and foreign results.
    pub(crate) extras: Vec<(u64, String)>,
    run: RunTail,
}

/// The last response and what became of its calls.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) seq: u64,
    pub(crate) assistant: Assistant,
    /// Whether it was made by a run of ours, whose records tell what had started.
    own: bool,
    /// By index of the call.
    calls: Vec<CallTail>,
}

#[derive(Clone, Debug, Default)]
struct CallTail {
    answered: bool,
    started: bool,
    suspended: Option<Wait>,
    approved: bool,
    /// Whether a person ever let it start; it holds for every attempt of the call.
    leave: bool,
    arguments: Option<Json>,
}

/// The last run, as far as the end of the history tells.
#[derive(Clone, Debug, Default)]
struct RunTail {
    open: Option<String>,
    end: Option<RunEnded>,
    used: Option<Budget>,
    setup: Option<String>,
}

/// Tells how much of a history is needed: true once records read from the end reach back to the
/// last response, so that reading on would change nothing.
pub(crate) fn reaches_response(record: &Record) -> bool {
    matches!(&record.entry, Entry::Message(message, _) if message.in_context && message.as_assistant().is_some())
}

/// How results after a response pair with its calls: by position first, then by id; the first
/// result for a call wins.
pub(crate) struct Pairing<'a> {
    calls: Vec<&'a str>,
    taken: Vec<bool>,
    next: usize,
}

/// What a result turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pair {
    /// The answer to the call at this index.
    Answer(usize),
    /// A second result for a call of the batch.
    Extra,
    /// A result for no call of the batch.
    Foreign,
}

impl<'a> Pairing<'a> {
    pub(crate) fn new(calls: impl Iterator<Item = &'a str>) -> Self {
        let calls: Vec<_> = calls.collect();
        Self {
            taken: vec![false; calls.len()],
            calls,
            next: 0,
        }
    }

    /// A pairing in which some calls are answered already.
    pub(crate) fn resume(
        calls: impl Iterator<Item = &'a str>,
        taken: &[bool],
        next: usize,
    ) -> Self {
        Self {
            calls: calls.collect(),
            taken: taken.to_vec(),
            next,
        }
    }

    /// Pairs the next result: `key` is the index the record itself names, if it does.
    pub(crate) fn pair(&mut self, id: &str, key: Option<usize>) -> Pair {
        let free = |index: &usize| self.taken.get(*index) == Some(&false);
        let fits = |index: &usize| self.calls.get(*index).is_some_and(|call| *call == id);
        let found = key
            .filter(free)
            .or_else(|| Some(self.next).filter(free).filter(fits))
            .or_else(|| (0..self.calls.len()).filter(free).find(fits));
        match found {
            Some(index) => {
                if let Some(taken) = self.taken.get_mut(index) {
                    *taken = true;
                }
                self.next = index + 1;
                Pair::Answer(index)
            }
            None if self.calls.contains(&id) => Pair::Extra,
            None => Pair::Foreign,
        }
    }
}

impl Tail {
    /// Reads the end of a history.
    pub(crate) fn of(records: &[Record]) -> Self {
        let set_aside: HashSet<u64> = records
            .iter()
            .filter_map(|record| match &record.entry {
                Entry::SetAside(entry) => Some(entry.record),
                _ => None,
            })
            .collect();
        let decides = |record: &Record, message: &Message| {
            message.in_context
                && !set_aside.contains(&record.seq)
                && !matches!(message.body, Body::System(_))
        };
        let start = records
            .iter()
            .rposition(|record| reaches_response(record) && !set_aside.contains(&record.seq))
            .unwrap_or(0);
        let mut tail = Self {
            run: RunTail::of(records),
            ..Self::default()
        };
        let end = records.get(start..).unwrap_or(&[]);

        for record in end {
            if let Entry::Message(message, mark) = &record.entry
                && let Body::Assistant(assistant) = &message.body
                && decides(record, message)
            {
                tail.response = Some(Response {
                    seq: record.seq,
                    own: mark.step.is_some(),
                    calls: vec![CallTail::default(); assistant.tool_calls.len()],
                    assistant: assistant.clone(),
                });
            }
        }
        let (mut found, key_of) = (
            Vec::new(),
            tail.response.as_ref().map(|response| response.seq),
        );
        let calls = tail
            .response
            .as_ref()
            .map(|response| response.assistant.tool_calls.clone())
            .unwrap_or_default();
        let mut pairing = Pairing::new(calls.iter().map(|call| call.id.as_str()));
        for record in end {
            match &record.entry {
                Entry::Message(message, mark) if decides(record, message) => {
                    tail.foreign_end = false;
                    if let Body::Tool(result) = &message.body {
                        let key = mark
                            .call
                            .filter(|call| Some(call.message) == key_of)
                            .map(|call| call.index as usize);
                        match pairing.pair(&result.call_id, key) {
                            Pair::Answer(index) => found.push(index),
                            Pair::Extra => {
                                tail.extras.push((
                                    record.seq,
                                    format!("a second result for call `{}`", result.call_id),
                                ));
                            }
                            Pair::Foreign => {
                                tail.foreign_end = true;
                                tail.extras.push((
                                    record.seq,
                                    format!(
                                        "a result for `{}`, which no call asks for",
                                        result.call_id
                                    ),
                                ));
                            }
                        }
                    }
                    match &message.body {
                        Body::Assistant(_) => tail.only_summaries_follow = true,
                        // A result that is not sent stands between nothing.
                        Body::Tool(_)
                            if tail.extras.last().is_some_and(|(at, _)| *at == record.seq) => {}
                        Body::Summary(_) => {}
                        _ => tail.only_summaries_follow = false,
                    }
                    tail.last = Some((**message).clone());
                }
                Entry::CallStarted(started) => {
                    for call in &started.calls {
                        tail.call(*call, |call| {
                            call.started = true;
                            call.approved = false;
                            call.suspended = None;
                        });
                    }
                }
                Entry::CallSuspended(suspended) => {
                    tail.call(suspended.call, |call| call.suspended = Some(suspended.wait));
                }
                Entry::CallApproved(approved) => {
                    tail.call(approved.call, |call| {
                        call.suspended = None;
                        call.approved = true;
                        call.leave = true;
                        call.arguments.clone_from(&approved.arguments);
                    });
                }
                _ => {}
            }
        }
        if let Some(response) = &mut tail.response {
            for index in found {
                if let Some(call) = response.calls.get_mut(index) {
                    call.answered = true;
                }
            }
        }
        tail
    }

    fn call(&mut self, key: CallKey, change: impl FnOnce(&mut CallTail)) {
        if let Some(response) = self
            .response
            .as_mut()
            .filter(|response| response.seq == key.message)
            && let Some(call) = response.calls.get_mut(key.index as usize)
        {
            change(call);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    pub(crate) fn last_deciding(&self) -> Option<&Message> {
        self.last.as_ref()
    }

    pub(crate) fn response(&self) -> Option<&Assistant> {
        self.response.as_ref().map(|response| &response.assistant)
    }

    pub(crate) fn response_seq(&self) -> Option<u64> {
        self.response.as_ref().map(|response| response.seq)
    }

    pub(crate) fn only_summaries_follow(&self) -> bool {
        self.only_summaries_follow
    }

    pub(crate) fn ends_in_foreign_result(&self) -> bool {
        self.foreign_end
    }

    /// The calls of the last response that have no result, in order.
    pub(crate) fn unanswered(&self) -> Vec<Unanswered> {
        let Some(response) = &self.response else {
            return Vec::new();
        };
        let calls = response.assistant.tool_calls.iter().zip(&response.calls);
        (0..)
            .zip(calls)
            .filter(|(_, (_, tail))| !tail.answered)
            .map(|(index, (call, tail))| {
                let state = match tail {
                    CallTail {
                        suspended: Some(wait),
                        ..
                    } => CallState::Suspended(*wait),
                    CallTail { approved: true, .. } => CallState::Approved,
                    CallTail { started: true, .. } => CallState::Unknown,
                    _ if response.own || !call.is_decoded() => CallState::NotStarted,
                    _ => CallState::Unknown,
                };
                Unanswered {
                    call: CallKey {
                        message: response.seq,
                        index,
                    },
                    id: call.id.clone(),
                    name: call.name.clone(),
                    state,
                }
            })
            .collect()
    }

    /// Whether a person ever let a call of the last response start.
    pub(crate) fn has_leave(&self, key: CallKey) -> bool {
        self.response.as_ref().is_some_and(|response| {
            let call = response.calls.get(key.index as usize);
            response.seq == key.message && call.is_some_and(|call| call.leave)
        })
    }

    /// The arguments a person let a call start with, if they are not the model's own.
    pub(crate) fn edited_arguments(&self) -> HashMap<CallKey, Json> {
        let Some(response) = &self.response else {
            return HashMap::new();
        };
        (0..)
            .zip(&response.calls)
            .filter_map(|(index, call)| {
                Some((
                    CallKey {
                        message: response.seq,
                        index,
                    },
                    call.arguments.clone()?,
                ))
            })
            .collect()
    }

    /// The end of the last run; `None` while one is open or when there was none.
    pub(crate) fn run_end(&self) -> Option<&RunEnded> {
        self.run.end.as_ref()
    }

    /// Whether a run began and did not end.
    pub(crate) fn run_is_open(&self) -> bool {
        self.run.open.is_some()
    }

    /// The digest of the setup the last run used, if the end of the history tells.
    pub(crate) fn setup(&self) -> Option<&str> {
        self.run.setup.as_deref()
    }

    /// What has been used of the last allowance.
    pub(crate) fn used(&self) -> Budget {
        self.run.used.unwrap_or_default()
    }
}

impl RunTail {
    fn of(records: &[Record]) -> Self {
        let mut tail = Self::default();
        for record in records {
            match &record.entry {
                Entry::RunStarted(started) => {
                    tail.open = Some(started.run.clone());
                    tail.end = None;
                    tail.used = Some(started.used);
                    tail.setup.clone_from(&started.setup);
                }
                Entry::RunEnded(ended) => {
                    tail.open = None;
                    if ended.setup.is_some() {
                        tail.setup.clone_from(&ended.setup);
                    }
                    tail.end = Some(ended.clone());
                }
                // The run that was copied goes on, or ended, elsewhere.
                Entry::Forked(_) => {
                    tail.open = None;
                    tail.end = None;
                }
                Entry::Message(_, mark) => {
                    if let Some(step) = &mark.step {
                        tail.open = Some(step.run.clone());
                        tail.end = None;
                        tail.used = Some(step.used);
                    }
                }
                _ => {}
            }
        }
        tail
    }
}
