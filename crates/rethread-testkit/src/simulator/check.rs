//! Judges what happens against the invariants, at every append, request, start, event and end.

use std::sync::Arc;

use rethread_core::{
    Assistant, Body, Budget, CallKey, CallState, Cause, Commit, Committed, Draft, Entry, Error,
    Event, Json, Lease, Message, NotResumable, Outcome, Record, Repeat, Reply, ResumePoint,
    RunKind, RunStarted, Status, StopReason, StoreError, ToolContext, Wait, Writer, resume_point,
    texts,
};
use tokio::time::Instant;

use super::Invariant;
use super::oracle::{self, View};
use super::script::{Ends, KINDS, Kind};
use super::world::{Effect, Ledger, Owner, Produced, State};

/// A renewal of the lease. Time passes only when nothing else can happen, so many in a row are a run
/// that waits for ever.
pub(super) fn renewed(state: &mut State) {
    state.renewals += 1;
    if state.renewals > 200 {
        state.violation(
            Invariant::Ends,
            "a run waits for something that does not come".to_owned(),
        );
        state.kill();
    }
}

/// The lease was given back.
pub(super) fn released(state: &mut State, process: u32, lease: &Lease) {
    if let Some(ledger) = state.ledgers.get_mut(&*lease.session)
        && ledger
            .owner
            .as_ref()
            .is_some_and(|owner| owner.process == process && owner.fence == lease.fence)
    {
        ledger.owner = None;
    }
}

/// A draft was kept.
pub(super) fn drafted(state: &mut State, process: u32, draft: &Draft) {
    let session = state.session(process).to_owned();
    if let Some(ledger) = state.ledgers.get_mut(&session) {
        ledger.draft = Some(draft.text.clone());
    }
    let owns = state.owns(process);
    state.require(owns, Invariant::OneWriter, || {
        format!("process {process} wrote a draft without holding the session")
    });
}

// ---------------------------------------------------------------- appends

/// Something was appended.
pub(super) fn committed(state: &mut State, process: u32, commit: &Commit<'_>, done: &Committed) {
    state.renewals = 0;
    let session = commit.session.to_owned();
    let mut ledger = state.ledgers.remove(&session).unwrap_or_default();
    let judging = state.judging;
    let before = (judging && !commit.rows.is_empty()).then(|| oracle::view(ledger.records()));
    own(state, process, &mut ledger, commit, done);
    let first = ledger.records().len();
    state.require(
        commit.after == first as u64 && done.last == (first + commit.rows.len()) as u64,
        Invariant::OneWriter,
        || format!("rows after {} were put after {first}", commit.after),
    );
    for (seq, row) in (first as u64 + 1..).zip(commit.rows) {
        let record = match Record::decode(seq, row) {
            Ok(record) => record,
            Err(error) => {
                state.violation(
                    Invariant::Decodes,
                    format!("record {seq} cannot be read: {error}"),
                );
                Record {
                    seq,
                    at: Default::default(),
                    entry: Entry::Unknown(Json::empty_object()),
                }
            }
        };
        if judging {
            let again = Record::encode(record.at, &record.entry).unwrap_or_default();
            state.require(again == *row, Invariant::Decodes, || {
                format!("record {seq} is not written as it was read")
            });
        }
        state.note(|| format!("       {session} {seq}: {}", String::from_utf8_lossy(row)));
        ledger.history.push(record);
    }
    ledger.commits += 1;
    let new = ledger.history.records().get(first..).unwrap_or(&[]);
    let (mut used, mut inherited) = (ledger.budget, Vec::new());
    let copied = new
        .iter()
        .any(|record| matches!(record.entry, Entry::Forked(_)));
    for record in new {
        if let Entry::Forked(forked) = &record.entry {
            let of_parent = |effect: &&Effect| {
                effect.touched
                    && effect.session == forked.session
                    && effect.key.message <= forked.at
            };
            let keys = state.effects.iter().filter(of_parent);
            inherited = keys.map(|effect| effect.key).collect();
        }
        budget(state, process, &mut used, record, judging && !copied);
    }
    if judging && !copied {
        framed(state, ledger.history.records(), first);
    }
    if new.iter().any(drops_draft) {
        ledger.draft = None;
    }
    let ended = new
        .iter()
        .any(|record| matches!(record.entry, Entry::RunEnded(_)));
    if let Some(before) = before
        && !copied
    {
        for record in new {
            entry(state, process, &session, &ledger, record);
        }
        begun(state, &ledger, &before, new);
        stands(state, &session, &ledger, commit);
    }
    ledger.budget = used;
    if copied {
        ledger.inherited = inherited;
    }
    state.ledgers.insert(session.clone(), ledger);
    if judging && ended {
        arrived(state, process, &session);
    }
}

fn own(
    state: &mut State,
    process: u32,
    ledger: &mut Ledger,
    commit: &Commit<'_>,
    done: &Committed,
) {
    let holder = ledger
        .owner
        .as_ref()
        .filter(|owner| owner.alive.strong_count() > 0)
        .map(|owner| (owner.process, owner.fence));
    match commit.writer {
        Writer::Claim { force, .. } => {
            if let (Some((other, _)), false) = (holder, force) {
                state.violation(
                    Invariant::OneWriter,
                    format!("process {process} was given the session that process {other} holds"),
                );
            }
        }
        Writer::Lease(lease) => {
            state.require(
                holder == Some((process, lease.fence)),
                Invariant::OneWriter,
                || format!("process {process} wrote, but the holder is {holder:?}"),
            );
        }
    }
    if let Some(lease) = &done.lease {
        ledger.owner = Some(Owner {
            process,
            fence: lease.fence,
            alive: Arc::downgrade(&lease.alive),
        });
    }
    if commit.release {
        ledger.owner = None;
    }
}

/// What was used stays used: counts go on from the records, and only a grant begins anew.
fn budget(state: &mut State, process: u32, used: &mut Budget, record: &Record, judged: bool) {
    match &record.entry {
        Entry::RunStarted(started) => {
            let granted = state.at.get(&process).is_none_or(|(_, grant)| *grant);
            let want = if granted { Budget::default() } else { *used };
            state.require(!judged || started.used == want, Invariant::Budget, || {
                format!("a run begins with {:?} used, not {want:?}", started.used)
            });
            *used = started.used;
        }
        Entry::Message(message, mark) => {
            let Some(step) = &mark.step else { return };
            if judged && let Body::Assistant(response) = &message.body {
                let mut want = *used;
                want.steps += 1;
                if let Some(usage) = &response.usage {
                    want.tokens += usage.input.unwrap_or(0) + usage.output.unwrap_or(0);
                }
                if response.stop_reason() == StopReason::Paused
                    && response.tool_calls.is_empty()
                    && want.pauses < state.script.limits.pauses
                {
                    want.pauses += 1;
                }
                state.require(step.used == want, Invariant::Budget, || {
                    format!("a step leaves {:?} used, not {want:?}", step.used)
                });
            }
            *used = step.used;
        }
        _ => {}
    }
}

/// Whether a draft means nothing any more: the response is there, or another message is answered.
fn drops_draft(record: &Record) -> bool {
    match &record.entry {
        Entry::RunStarted(started) => started.kind == RunKind::Run,
        Entry::Message(_, mark) => mark.step.is_some(),
        _ => false,
    }
}

/// What a run writes is framed by its beginning and its end, and its instructions are kept.
fn framed(state: &mut State, records: &[Record], first: usize) {
    for at in first..records.len() {
        let (earlier, record) = match (records.get(..at), records.get(at)) {
            (Some(earlier), Some(record)) => (earlier, record),
            _ => return,
        };
        let run = earlier.iter().rev().find_map(|record| match &record.entry {
            Entry::RunStarted(started) => Some(Some(started.run.as_str())),
            Entry::RunEnded(_) | Entry::Forked(_) => Some(None),
            _ => None,
        });
        let run = run.flatten();
        let (right, what) = match &record.entry {
            Entry::RunEnded(ended) => (run == Some(ended.run.as_str()), "end"),
            Entry::Message(_, mark) => match &mark.step {
                Some(step) => (run == Some(step.run.as_str()), "step"),
                None => continue,
            },
            Entry::CallStarted(_) => (run.is_some(), "start of a call"),
            Entry::RunStarted(started) => {
                let known = earlier.iter().any(|record| match &record.entry {
                    Entry::Setup(setup) => started.setup.as_ref() == Some(&setup.digest),
                    _ => false,
                });
                (known, "setup")
            }
            _ => continue,
        };
        state.require(right, Invariant::TrueEnd, || {
            format!("the {what} of record {} belongs to no run", record.seq)
        });
    }
}

/// Judges one new record.
fn entry(state: &mut State, process: u32, session: &str, ledger: &Ledger, record: &Record) {
    match &record.entry {
        Entry::Message(message, mark) => match &message.body {
            Body::Assistant(response) if mark.step.is_some() => {
                stored(state, process, message, response);
            }
            Body::Tool(result) => {
                if let Some(key) = mark.call {
                    let text = result.content.to_text();
                    answered(state, session, ledger, record.seq, key, &text, process);
                }
            }
            _ => {}
        },
        Entry::CallApproved(approved) => {
            let view = oracle::view(before(ledger, record.seq));
            let waits = view.open.iter().any(|open| {
                open.key == approved.call
                    && matches!(
                        open.state,
                        CallState::Suspended(Wait::Approval) | CallState::Approved
                    )
            });
            state.require(waits, Invariant::StartsOnce, || {
                format!(
                    "{:?} was let start, but does not wait for leave",
                    approved.call
                )
            });
        }
        Entry::LateResult(late) => {
            let open = oracle::view(before(ledger, record.seq)).open;
            state.require(
                !open.iter().any(|open| open.key == late.call),
                Invariant::ResultKept,
                || {
                    format!(
                        "a result for the open call {:?} was taken for a late one",
                        late.call
                    )
                },
            );
        }
        _ => {}
    }
}

fn before(ledger: &Ledger, seq: u64) -> &[Record] {
    let end = usize::try_from(seq.saturating_sub(1)).unwrap_or(usize::MAX);
    ledger.records().get(..end).unwrap_or(&[])
}

/// A stored response is what the model made, byte for byte, and stopped as it did.
fn stored(state: &mut State, process: u32, message: &Message, response: &Assistant) {
    match state.produced.remove(&process) {
        None => state.violation(
            Invariant::TrueEnd,
            "a response is stored that nobody made".to_owned(),
        ),
        Some(Produced::Whole(made)) => {
            let kept = oracle::json(message);
            if made != kept {
                let stop = serde_json::from_str::<Message>(&made)
                    .ok()
                    .and_then(|made| Some(made.as_assistant()?.stop_reason()));
                let invariant = if stop == Some(response.stop_reason()) {
                    Invariant::Opaque
                } else {
                    Invariant::TrueEnd
                };
                state.violation(invariant, format!("made: {made}\n  kept: {kept}"));
            }
        }
        Some(Produced::Cut {
            text,
            reason,
            calls,
        }) => {
            let kept = response.content.to_text();
            let detail = response.stop.as_ref().and_then(|stop| stop.detail.as_ref());
            let named = detail.map(|detail| detail.get().to_owned());
            state.require(
                response.stop_reason() == reason
                    && response.tool_calls.is_empty()
                    && kept == text
                    && (calls.is_empty() || named == Some(withheld(&calls))),
                Invariant::TrueEnd,
                || {
                    format!(
                        "a response that broke off after {text:?} is kept as {}",
                        oracle::json(message)
                    )
                },
            );
        }
    }
}

/// A result answers its call once, and says of a tool only what is true of it.
fn answered(
    state: &mut State,
    session: &str,
    ledger: &Ledger,
    seq: u64,
    key: CallKey,
    text: &str,
    process: u32,
) {
    let earlier = before(ledger, seq)
        .iter()
        .filter(|record| matches!(&record.entry, Entry::Message(_, mark) if mark.call == Some(key)))
        .count();
    state.require(earlier == 0, Invariant::ResultKept, || {
        format!("{key:?} is answered a second time by record {seq}")
    });
    let touched = touched(state, session, ledger, key);
    let recorded = ledger.records().iter().any(|record| {
        matches!(&record.entry, Entry::CallStarted(started) if started.calls.contains(&key))
    });
    let own = ledger.records().iter().any(
        |record| matches!(&record.entry, Entry::Message(_, mark) if record.seq == key.message && mark.step.is_some()),
    );
    if text.starts_with("This tool did not run") {
        state.require(!touched, Invariant::TrueState, || {
            format!("{key:?} ran, but the model is told: {text}")
        });
    }
    if text == texts::UNKNOWN_RESULT {
        state.require(recorded || !own, Invariant::TrueState, || {
            format!("{key:?} never started, but the model is told it may have")
        });
    }
    let ended = state.effects.iter().rev().find_map(|effect| {
        let same = effect.session == session && effect.key == key && effect.process == process;
        let (at, text) = effect.ended.as_ref().filter(|_| same)?;
        Some((*at, text.clone()?))
    });
    let timed = ledger
        .message(key.message)
        .and_then(|message| message.as_assistant()?.tool_calls.get(key.index as usize))
        .and_then(|call| kind(&call.name))
        .is_some_and(|kind| kind.timeout.is_some());
    // While an append is tried again, a tool can end that was given up before.
    let given_up = state.stored_late && text == texts::UNKNOWN_RESULT;
    if let Some((_, own)) = ended
        && !timed
        && !given_up
    {
        state.require(text == own, Invariant::ResultKept, || {
            format!("{key:?} ended with `{own}`, but the model is told: {text}")
        });
    }
}

/// Whether a call had an effect, in this session or before that was forked from another.
fn touched(state: &State, session: &str, ledger: &Ledger, key: CallKey) -> bool {
    ledger.inherited.contains(&key)
        || state
            .effects
            .iter()
            .any(|effect| effect.touched && effect.session == session && effect.key == key)
}

fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// A resume adds exactly what the table says.
fn begun(state: &mut State, ledger: &Ledger, before: &View, new: &[Record]) {
    let begins = new.iter().find_map(|record| match &record.entry {
        Entry::RunStarted(RunStarted { kind, .. }) => Some(*kind),
        _ => None,
    });
    if begins != Some(RunKind::Resume) {
        return;
    }
    let told: Vec<String> = new
        .iter()
        .filter_map(|record| record.entry.as_message())
        .filter(|message| message.as_tool().is_none())
        .map(|message| message.content().to_text())
        .collect();
    let want: &[&str] = match before.state {
        "retry_response" | "refused" | "context_full" | "unknown_stop" => &[texts::RETRY_NOTICE],
        "continue_response" => &[texts::CONTINUE_NOTICE],
        _ => &[],
    };
    state.require(told == want, Invariant::SameRequest, || {
        format!("a resume from {} tells the model {told:?}", before.state)
    });
    let results = new.iter().filter(|record| {
        record
            .entry
            .as_message()
            .is_some_and(|message| message.as_tool().is_some())
    });
    if before.state == "call_model" {
        let results = results.count();
        state.require(results == 0, Invariant::SameRequest, || {
            format!("a resume from call_model adds {results} results")
        });
    }
    let resumable = !matches!(before.state, "completed" | "empty" | "malformed");
    state.require(resumable && before.is_ready(), Invariant::TrueEnd, || {
        format!("a session was resumed that is {}", before.state)
    });
    for open in oracle::view(ledger.records()).open {
        let was = before.open.iter().find(|was| was.key == open.key);
        let repeats = ledger
            .message(open.key.message)
            .and_then(|message| {
                message
                    .as_assistant()?
                    .tool_calls
                    .get(open.key.index as usize)
            })
            .and_then(|call| kind(&call.name))
            .map_or(Repeat::Never, |kind| kind.repeat);
        let may = match was.map(|was| was.state) {
            Some(CallState::Approved) => true,
            Some(CallState::NotStarted) => repeats != Repeat::Never,
            Some(CallState::Unknown) => repeats == Repeat::Always,
            _ => false,
        };
        state.require(may, Invariant::StartsOnce, || {
            format!(
                "call `{}`, which was {was:?}, is left open by a resume",
                open.id
            )
        });
    }
}

/// The summary says what the records say, and what the table says of them.
fn stands(state: &mut State, session: &str, ledger: &Ledger, commit: &Commit<'_>) {
    let view = oracle::view(ledger.records());
    let point = resume_point(&ledger.history);
    let said = name(&point);
    state.require(said == view.state, Invariant::TrueEnd, || {
        format!(
            "the resume point of {session} is {said}, by the table it is {}",
            view.state
        )
    });
    if let Ok(point) = &point {
        let open: Vec<_> = point
            .unanswered
            .iter()
            .map(|open| (open.call, open.state))
            .collect();
        let want: Vec<_> = view
            .open
            .iter()
            .map(|open| (open.key, open.state))
            .collect();
        state.require(open == want, Invariant::TrueState, || {
            format!("the open calls are {open:?}, by the table {want:?}")
        });
    }
    let Some(summary) = commit.summary else {
        return;
    };
    state.require(summary.state == said, Invariant::Summary, || {
        format!("the summary says {}, the records say {said}", summary.state)
    });
    let messages = commit.rows.len()
        - ledger
            .records()
            .iter()
            .rev()
            .take(commit.rows.len())
            .filter(|record| record.entry.as_message().is_none())
            .count();
    state.require(
        summary.messages == messages as u64,
        Invariant::Summary,
        || {
            format!(
                "the summary counts {} messages, there are {messages}",
                summary.messages
            )
        },
    );
}

fn name(point: &Result<ResumePoint, NotResumable>) -> &'static str {
    match point {
        Ok(point) => point.kind.as_str(),
        Err(reason) => reason.as_str(),
    }
}

/// What a tool ended with is in the records once the run goes on or ends.
fn arrived(state: &mut State, process: u32, session: &str) {
    let missing: Vec<CallKey> = state
        .effects
        .iter()
        .filter(|effect| effect.session == session && effect.process == process)
        .filter(|effect| effect.ended.is_some())
        .map(|effect| effect.key)
        .filter(|key| {
            !state.ledgers.get(session).is_some_and(|ledger| {
                ledger.records().iter().any(|record| match &record.entry {
                    Entry::Message(message, mark) => {
                        message.as_tool().is_some() && mark.call == Some(*key)
                    }
                    Entry::CallSuspended(suspended) => suspended.call == *key,
                    _ => false,
                })
            })
        })
        .collect();
    state.require(missing.is_empty(), Invariant::ResultKept, || {
        format!("{missing:?} ended, but nothing is stored of it")
    });
}

// ---------------------------------------------------------------- the model

/// A request is about to be sent.
pub(super) fn request(state: &mut State, process: u32, messages: &[Message]) {
    state.renewals = 0;
    let session = state.session(process).to_owned();
    state.note(|| format!("       a request of {} messages", messages.len()));
    if !state.judging || !state.owns(process) {
        return; // who was replaced does not know it yet
    }
    if let Some(breach) = oracle::breach(messages) {
        state.violation(Invariant::RequestRules, breach);
    }
    if let Some(judge) = state.judge.clone()
        && let Some(wrong) = judge(messages)
    {
        state.violation(Invariant::RequestRules, wrong);
    }
    let Some(ledger) = state.ledgers.remove(&session) else {
        return;
    };
    let sent: Vec<String> = messages.iter().map(oracle::json).collect();
    differs(
        state,
        messages,
        &sent,
        &oracle::request(ledger.records()),
        "the records",
    );
    if let Some((_, expected)) = state.expected.take_if(|(of, _)| *of == session) {
        state.note(|| "       it is compared with the one that would have been sent".to_owned());
        differs(
            state,
            messages,
            &sent,
            &expected,
            "the run that was not interrupted",
        );
    }
    let stands = oracle::view(ledger.records()).state;
    state.require(stands == "call_model", Invariant::TrueEnd, || {
        format!("a request is sent while the session is {stands}")
    });
    let (used, limits) = (ledger.budget, state.script.limits);
    state.require(
        used.steps < limits.steps && used.tokens < limits.tokens,
        Invariant::Budget,
        || format!("a request is sent with {used:?} used of {limits:?}"),
    );
    if state.known.is_none() {
        state
            .requests
            .insert((session.clone(), ledger.commits), sent);
    }
    state.ledgers.insert(session.clone(), ledger);
    arrived(state, process, &session);
}

fn differs(state: &mut State, messages: &[Message], sent: &[String], want: &[String], than: &str) {
    if sent == want {
        return;
    }
    let at = sent
        .iter()
        .zip(want)
        .position(|(sent, want)| sent != want)
        .unwrap_or(sent.len().min(want.len()));
    let invariant = match messages.get(at).map(|message| &message.body) {
        Some(Body::Assistant(_)) => Invariant::Opaque,
        Some(Body::Tool(_)) => Invariant::ResultKept,
        _ => Invariant::SameRequest,
    };
    let none = "nothing".to_owned();
    let (sent, want) = (sent.get(at).unwrap_or(&none), want.get(at).unwrap_or(&none));
    state.violation(
        invariant,
        format!("message {at} of a request is\n  {sent}\n  but by {than}\n  {want}"),
    );
}

/// A model call came to a whole response.
pub(super) fn produced(state: &mut State, process: u32, response: &Assistant) {
    let mut response = response.clone();
    let stopped = matches!(
        response.stop_reason(),
        StopReason::Refusal | StopReason::Interrupted
    );
    if stopped && !response.tool_calls.is_empty() {
        let names: Vec<String> = response
            .tool_calls
            .drain(..)
            .map(|call| call.name)
            .collect();
        response.native.clear();
        response.digest = None;
        if let Some(stop) = &mut response.stop {
            stop.detail = Json::parse(&withheld(&names)).ok();
        }
    }
    let json = oracle::json(&response.into());
    state.produced.insert(process, Produced::Whole(json));
}

/// What is said of the calls a response is stored without.
fn withheld(names: &[String]) -> String {
    serde_json::json!({ "withheld_tool_calls": names }).to_string()
}

/// A model call broke off after some output.
pub(super) fn produced_cut(
    state: &mut State,
    process: u32,
    text: &str,
    reason: StopReason,
    calls: &[String],
) {
    let cut = Produced::Cut {
        text: text.to_owned(),
        reason,
        calls: calls.to_vec(),
    };
    state.produced.insert(process, cut);
}

// ---------------------------------------------------------------- tools

/// A tool that was started.
pub(super) struct Began {
    pub(super) effect: usize,
    pub(super) approved: bool,
}

/// A tool begins its work.
pub(super) fn started(
    state: &mut State,
    process: u32,
    kind: &Kind,
    context: &ToolContext,
    arguments: &Json,
) -> Began {
    let session = context.session.to_string();
    let key = context.call;
    let ledger = state.ledgers.get(&session);
    let leaves: Vec<Option<Json>> = ledger
        .iter()
        .flat_map(|ledger| ledger.records())
        .filter_map(|record| match &record.entry {
            Entry::CallApproved(approved) if approved.call == key => {
                Some(approved.arguments.clone())
            }
            _ => None,
        })
        .collect();
    let began = Began {
        effect: state.effects.len(),
        approved: !leaves.is_empty(),
    };
    if state.judging && state.owns(process) {
        start(state, &session, kind, context, arguments, &leaves);
    }
    state.note(|| format!("       {} starts for {key:?} of {session}", kind.name));
    state.effects.push(Effect {
        session,
        key,
        process,
        touched: began.approved || kind.ends != Ends::Deferred(Wait::Approval),
        ended: None,
    });
    began
}

fn start(
    state: &mut State,
    session: &str,
    kind: &Kind,
    context: &ToolContext,
    arguments: &Json,
    leaves: &[Option<Json>],
) {
    let key = context.call;
    let Some(ledger) = state.ledgers.remove(session) else {
        return;
    };
    let times = state
        .effects
        .iter()
        .filter(|effect| effect.session == session && effect.key == key)
        .count();
    let allowed = match kind.repeat {
        Repeat::Always => usize::MAX,
        _ if kind.ends == Ends::Deferred(Wait::Approval) => 1 + leaves.len(),
        _ => 1,
    };
    state.require(times < allowed, Invariant::StartsOnce, || {
        format!("{} is started for {key:?} once more", kind.name)
    });
    let (mut recorded, mut answered) = (false, false);
    for record in ledger.records() {
        match &record.entry {
            Entry::CallStarted(started) => recorded |= started.calls.contains(&key),
            Entry::Message(_, mark) => answered |= mark.call == Some(key),
            _ => {}
        }
    }
    state.require(recorded && !answered, Invariant::StartsOnce, || {
        format!(
            "{} starts for {key:?}; recorded: {recorded}, answered: {answered}",
            kind.name
        )
    });
    state.require(
        !kind.asks || !leaves.is_empty(),
        Invariant::StartsOnce,
        || format!("{} starts for {key:?} without leave", kind.name),
    );
    let call = ledger
        .message(key.message)
        .and_then(|message| message.as_assistant()?.tool_calls.get(key.index as usize));
    let edited = leaves.last().and_then(Option::as_ref);
    let right = call.is_some_and(|call| {
        call.is_decoded()
            && call.name == kind.name
            && call.id == context.call_id
            && edited.unwrap_or(&call.arguments) == arguments
    });
    state.require(right, Invariant::StartsOnce, || {
        format!(
            "{} starts for {key:?} with {arguments:?}, asked for: {call:?}",
            kind.name
        )
    });
    let fence = ledger.owner.as_ref().map_or(0, |owner| owner.fence);
    state.require(context.fence == fence, Invariant::OneWriter, || {
        format!("a tool is told the fence {}, not {fence}", context.fence)
    });
    state.ledgers.insert(session.to_owned(), ledger);
}

/// A tool ended its work.
pub(super) fn ended(state: &mut State, effect: usize, text: Option<String>) {
    if let Some(effect) = state.effects.get_mut(effect) {
        effect.ended = Some((Instant::now(), text));
    }
}

// ---------------------------------------------------------------- events and ends

/// What watchers are told is durable when they are told it.
pub(super) fn event(state: &mut State, session: &str, event: &Event) {
    state.note(|| format!("       event {event:?}"));
    if !state.judging {
        return;
    }
    let Some(ledger) = state.ledgers.get(session) else {
        return;
    };
    let records = ledger.records();
    let of_call = |id: &str| {
        records.iter().rev().any(|record| match &record.entry {
            Entry::Message(message, _) => {
                message.as_tool().is_some_and(|result| result.call_id == id)
            }
            _ => false,
        })
    };
    let last =
        |wanted: fn(&Entry) -> bool| records.iter().rev().any(|record| wanted(&record.entry));
    let durable = match event {
        Event::RunStarted { run, .. } => records.iter().any(
            |record| matches!(&record.entry, Entry::RunStarted(started) if started.run == *run),
        ),
        Event::ToolStarted { .. } => last(|entry| matches!(entry, Entry::CallStarted(_))),
        Event::ToolCompleted { call_id, .. }
        | Event::ToolFailed { call_id, .. }
        | Event::CallClosed { call_id, .. } => of_call(call_id),
        Event::ToolSuspended { .. } => last(|entry| matches!(entry, Entry::CallSuspended(_))),
        Event::RunEnded { outcome, .. } => records.iter().rev().any(
            |record| matches!(&record.entry, Entry::RunEnded(ended) if ended.outcome == *outcome),
        ),
        _ => true,
    };
    state.require(durable, Invariant::Events, || {
        format!("watchers are told what is not durable: {event:?}")
    });
}

/// Why the last run ended, as the records tell.
fn cause(records: &[Record]) -> Option<Cause> {
    records
        .iter()
        .rev()
        .find_map(|record| match &record.entry {
            Entry::Forked(_) => Some(None),
            Entry::RunStarted(_) => Some(Some(Cause::Crashed)),
            Entry::Message(_, mark) if mark.step.is_some() => Some(Some(Cause::Crashed)),
            Entry::RunEnded(ended) => Some(match ended.outcome {
                Outcome::Failed => Some(Cause::Failed),
                Outcome::Cancelled => Some(Cause::Cancelled),
                Outcome::Suspended => Some(Cause::Suspended),
                _ => None,
            }),
            _ => None,
        })
        .flatten()
}

/// A session tells where it stands.
pub(super) fn status(state: &mut State, session: &str, status: &Status) {
    if !state.judging {
        return;
    }
    let Some(ledger) = state.ledgers.get(session) else {
        return;
    };
    let point = resume_point(&ledger.history);
    let cause = cause(ledger.records());
    let same = match (&status.point, &point) {
        (Ok(said), Ok(point)) => {
            said.kind == point.kind
                && said.unanswered == point.unanswered
                && said.stop == point.stop
                && (status.head.is_busy() || said.cause == cause)
        }
        (Err(said), Err(reason)) => said == reason,
        _ => false,
    };
    let kept = ledger.draft.clone().filter(|_| status.point.is_ok());
    let last = ledger.records().len();
    state.require(
        same && status.unreadable.is_empty(),
        Invariant::TrueEnd,
        || {
            format!(
                "{session} says it is {status:?}, its records say {point:?} because of {cause:?}"
            )
        },
    );
    let text = status
        .point
        .as_ref()
        .ok()
        .and_then(|point| point.draft.as_ref());
    let text = text.map(|draft| draft.text.clone());
    state.require(text == kept, Invariant::Summary, || {
        format!("the draft of {session} is {text:?}, not {kept:?}")
    });
    let head = &status.head;
    state.require(head.last == last as u64, Invariant::Summary, || {
        format!(
            "the head of {session} says {}, there are {last} records",
            head.last
        )
    });
    state.require(head.state == name(&point), Invariant::Summary, || {
        format!(
            "the head of {session} says {}, its records {}",
            head.state,
            name(&point)
        )
    });
}

/// A process's run is over: what its tools did and could not be stored, it no longer knows.
pub(super) fn over(state: &mut State, process: u32) {
    state.stored_late = false;
    for effect in &mut state.effects {
        if effect.process == process {
            effect.process = 0;
        }
    }
    state.produced.remove(&process);
}

/// A run came to an end nobody else had a part in; what it says is what is stored.
pub(super) fn outcome(state: &mut State, session: &str, result: &Result<Reply, Error>) {
    state.note(|| match result {
        Ok(reply) => format!("       the run ended with {:?}", reply.message().stop),
        Err(error) => format!("       the run ended: {error}"),
    });
    if !state.judging {
        return;
    }
    let Some(ledger) = state.ledgers.get(session) else {
        return;
    };
    let view = oracle::view(ledger.records());
    let ended = match ledger.records().last().map(|record| &record.entry) {
        Some(Entry::RunEnded(ended)) => Some(ended.outcome),
        _ => None,
    };
    let held = ledger
        .owner
        .as_ref()
        .is_some_and(|owner| owner.alive.strong_count() > 0);
    let right = match result {
        Ok(reply) if reply.is_complete() => {
            ended == Some(Outcome::Completed) && view.state == "completed"
        }
        Ok(_) => ended == Some(Outcome::Stopped) && view.state != "completed",
        Err(Error::Suspended(_)) => view.state == "await_results",
        Err(Error::NotResumable(reason)) => view.state == reason.as_str(),
        Err(Error::Cancelled) => ended == Some(Outcome::Cancelled) && view.state != "completed",
        Err(Error::Model(_) | Error::StepLimit { .. } | Error::TokenLimit { .. }) => {
            ended == Some(Outcome::Failed) && view.state != "completed"
        }
        Err(Error::Store(StoreError::Io { .. } | StoreError::NotFound { .. })) => true,
        Err(_) => false,
    };
    let want = view.state;
    state.require(right, Invariant::TrueEnd, || {
        let result = match result {
            Ok(reply) => format!("{:?}", reply.message().stop),
            Err(error) => format!("{error:?}"),
        };
        format!("a run ends with {result}, but its session is {want} after {ended:?}")
    });
    state.require(!held, Invariant::Free, || {
        format!("{session} is still held after its run ended")
    });
}
