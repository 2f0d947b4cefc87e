//! What the person and the host outside do next: the same in the same situation, whatever happened
//! before it.

use rethread_core::{
    Answer, Body, CallKey, Entry, Json, Message, NotResumable, Status, Wait, texts,
};

use super::oracle;
use super::random::Random;
use super::script::{Turn, mark};
use super::world::{Ledger, State};

/// What is done next.
#[derive(Debug)]
pub(super) enum Action {
    /// Makes the session from an imported history.
    Import(Vec<Message>),
    Say(Vec<Message>),
    Append(Box<Message>),
    Fork {
        at: u64,
        to: String,
    },
    Resume {
        grant: bool,
        override_stop: bool,
    },
    Answer(String, Answer),
    /// All is done.
    Rest,
}

/// The name of the fork a turn makes.
pub(super) fn fork(turn: usize) -> String {
    format!("fork-{turn}")
}

/// Decides. `status` is what the session says of itself; nothing for one that does not exist.
pub(super) fn decide(
    state: &State,
    session: &str,
    turns: &[Turn],
    status: Option<&Status>,
    round: u32,
) -> Action {
    let script = &state.script;
    let nothing = Ledger::default();
    let ledger = state.ledgers.get(session).unwrap_or(&nothing);
    let last = ledger.records().len() as u64;
    let mut random = Random::of(&[script.seed, last, u64::from(round)]);
    let next = || next_turn(state, session, turns, ledger);
    let Some(status) = status else {
        return match script.import.is_empty() || session != "main" {
            true => next().unwrap_or(Action::Rest),
            false => Action::Import(script.import.clone()),
        };
    };
    match &status.point {
        Ok(point) if !point.is_ready() => {
            if random.percent(10)
                && let Some(action) = next()
            {
                return action;
            }
            waiting(&mut random, ledger)
        }
        Ok(point) => {
            if random.percent(8)
                && let Some(action) = next()
            {
                return action;
            }
            if random.percent(5)
                && let Some(open) = point.unanswered.first()
            {
                return Action::Answer(open.id.clone(), answer(&mut random, None));
            }
            if random.percent(5)
                && let Some(action) = late(ledger)
            {
                return action;
            }
            Action::Resume {
                grant: !random.percent(15),
                override_stop: random.percent(3),
            }
        }
        Err(NotResumable::Completed) => {
            if random.percent(40)
                && let Some(action) = late(ledger)
            {
                return action;
            }
            next().unwrap_or(Action::Rest)
        }
        Err(NotResumable::ContextFull) if random.percent(50) => {
            Action::Append(Box::new(Message::summary("what was said so far")))
        }
        Err(NotResumable::Refused | NotResumable::UnknownStop | NotResumable::ContextFull)
            if random.percent(50) =>
        {
            Action::Resume {
                grant: true,
                override_stop: true,
            }
        }
        Err(_) => next().unwrap_or(Action::Rest),
    }
}

/// The first turn that has not been taken.
fn next_turn(state: &State, session: &str, turns: &[Turn], ledger: &Ledger) -> Option<Action> {
    for (index, turn) in turns.iter().enumerate() {
        match turn {
            Turn::Say(messages) if !ledger.holds(&mark(index)) => {
                return Some(Action::Say(messages.clone()));
            }
            Turn::Append(message) if !ledger.holds(&mark(index)) => {
                return Some(Action::Append(message.clone()));
            }
            Turn::Fork(place)
                if session == "main"
                    && !ledger.records().is_empty()
                    && !state.ledgers.contains_key(&fork(index)) =>
            {
                let at = (ledger.records().len() as u64 * place) / 1000;
                return Some(Action::Fork {
                    at,
                    to: fork(index),
                });
            }
            _ => {}
        }
    }
    None
}

/// Answers the first call that waits.
fn waiting(random: &mut Random, ledger: &Ledger) -> Action {
    let view = oracle::view(ledger.records());
    let Some((open, wait)) = view.waiting() else {
        return Action::Resume {
            grant: true,
            override_stop: false,
        };
    };
    if random.percent(5) {
        // Refused while an answer is missing.
        return Action::Resume {
            grant: true,
            override_stop: false,
        };
    }
    Action::Answer(open.id.clone(), answer(random, Some(wait)))
}

fn answer(random: &mut Random, wait: Option<Wait>) -> Answer {
    let leave = match wait {
        Some(Wait::Approval) => 90,
        _ => 15,
    };
    if random.percent(leave) {
        return match random.below(4) {
            0 => Answer::Deny("not today".to_owned()),
            1 => match Json::parse(r#"{ "n": 1e1 }"#) {
                Ok(arguments) => Answer::ApproveWith(arguments),
                Err(_) => Answer::Approve,
            },
            _ => Answer::Approve,
        };
    }
    match random.below(4) {
        0 => Answer::Failure("it could not be done".to_owned()),
        _ => Answer::Result("the answer from outside".into()),
    }
}

/// A late answer for a call that was closed without one.
fn late(ledger: &Ledger) -> Option<Action> {
    let told = |key: CallKey| {
        ledger
            .records()
            .iter()
            .any(|record| matches!(&record.entry, Entry::LateResult(late) if late.call == key))
    };
    let named = |id: &str| {
        let messages = ledger.history.messages();
        let calls = messages
            .filter_map(Message::as_assistant)
            .flat_map(|response| &response.tool_calls);
        calls.filter(|call| call.id == id).count()
    };
    ledger.records().iter().find_map(|record| {
        let Entry::Message(message, mark) = &record.entry else {
            return None;
        };
        let (Body::Tool(result), Some(key)) = (&message.body, mark.call) else {
            return None;
        };
        let text = result.content.to_text();
        let closed = [
            texts::UNKNOWN_RESULT,
            texts::NOT_STARTED_RESULT,
            texts::SUSPENDED_RESULT,
            texts::DEFERRED_RESULT,
        ]
        .contains(&text.as_str());
        // An id that is there more than once stands for the last call of that id.
        (closed && !told(key) && named(&result.call_id) == 1).then(|| {
            Action::Answer(
                result.call_id.clone(),
                Answer::Result("the answer came after all".into()),
            )
        })
    })
}
