//! Asking the person at the terminal for what a run waits for.

use std::collections::{BTreeMap, HashSet};
use std::io::IsTerminal as _;

use rethread_core::{
    Answer, CallKey, CallState, Content, Entry, Error, Json, Message, Page, Record, Session, Store,
    Wait, read_status,
};

use crate::document::Waiting;
use crate::term::{self, BOLD, DIM, YELLOW, paint, short};
use crate::view::arguments_line;

/// How many lines of an argument are shown.
const LINES: usize = 20;

/// Whether there is a person who can be asked.
pub(crate) fn is_possible() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// The calls of a session that wait for someone, with what they ask.
pub(crate) async fn waiting(store: &dyn Store, session: &str) -> Result<Vec<Waiting>, Error> {
    let Ok(point) = read_status(store, session).await?.point else {
        return Ok(Vec::new());
    };
    let open: Vec<(CallKey, &str, &str, Wait)> = point
        .unanswered
        .iter()
        .filter_map(|call| match call.state {
            CallState::Suspended(wait) => {
                Some((call.call, call.id.as_str(), call.name.as_str(), wait))
            }
            _ => None,
        })
        .collect();
    let Some(first) = open.iter().map(|(key, ..)| key.message).min() else {
        return Ok(Vec::new());
    };
    let mut waiting: Vec<(CallKey, Waiting)> = open
        .into_iter()
        .map(|(key, id, name, wait)| {
            let waiting = Waiting {
                id: id.to_owned(),
                name: name.to_owned(),
                wait,
                prompt: None,
                arguments: Json::empty_object(),
            };
            (key, waiting)
        })
        .collect();
    let mut after = first.saturating_sub(1);
    loop {
        let page = Page::After {
            seq: after,
            limit: 256,
        };
        let rows = store.read(session, page).await?;
        let Some(last) = rows.last().map(|row| row.seq) else {
            break;
        };
        after = last;
        for row in rows {
            if let Ok(record) = Record::decode(row.seq, &row.body) {
                tell(&record, &mut waiting);
            }
        }
    }
    Ok(waiting.into_iter().map(|(_, waiting)| waiting).collect())
}

fn tell(record: &Record, waiting: &mut [(CallKey, Waiting)]) {
    let response = record.entry.as_message().and_then(Message::as_assistant);
    for (key, waiting) in waiting {
        if let Entry::CallSuspended(suspended) = &record.entry
            && suspended.call == *key
        {
            waiting.prompt = suspended
                .prompt
                .as_ref()
                .map(|text| text.to_str().into_owned());
        }
        if key.message == record.seq
            && let Some(call) = response.and_then(|r| r.tool_calls.get(key.index as usize))
        {
            waiting.arguments = call.arguments.clone();
        }
    }
}

/// What became of asking.
pub(crate) enum Asked {
    /// All is answered.
    All,
    /// Something still waits.
    NotAll,
}

/// Puts every waiting call to the person and stores each answer at once.
pub(crate) async fn ask(
    session: &Session,
    calls: Vec<Waiting>,
    always: &mut HashSet<String>,
) -> Result<Asked, Error> {
    for call in calls {
        let answer = match call.wait {
            Wait::Approval if always.contains(&call.name) => Some(Answer::Approve),
            Wait::Approval => approval(&call, always).await,
            Wait::Question => question(&call).await,
            _ => None, // made elsewhere
        };
        let Some(answer) = answer else {
            return Ok(Asked::NotAll);
        };
        session.answer(&call.id, answer).await?;
    }
    Ok(Asked::All)
}

async fn approval(call: &Waiting, always: &mut HashSet<String>) -> Option<Answer> {
    let prompt = match &call.prompt {
        Some(prompt) => term::clean(prompt),
        None => format!(
            "Run {} {}?",
            short(&call.name, 64),
            arguments_line(&call.arguments)
        ),
    };
    for line in unsaid(&call.arguments, &prompt) {
        term::say(&paint(DIM, &line));
    }
    loop {
        term::prompt(&format!(
            "{} {} [y]es, [n]o, [a]lways this tool, [q]uit: ",
            paint(YELLOW, "?"),
            paint(BOLD, &prompt)
        ));
        let line = read_line().await?;
        let line = line.trim();
        match line.to_ascii_lowercase().as_str() {
            "y" | "yes" => return Some(Answer::Approve),
            "a" | "always" => {
                always.insert(call.name.clone());
                return Some(Answer::Approve);
            }
            "n" | "no" => {
                term::prompt("  why not? (may be left empty) ");
                return Some(Answer::Deny(read_line().await?.trim().to_owned()));
            }
            "q" | "quit" => return None,
            _ => {}
        }
    }
}

/// The arguments a prompt does not show, so that nothing is let start unseen.
fn unsaid(arguments: &Json, prompt: &str) -> Vec<String> {
    let fields: BTreeMap<String, Json> = arguments.decode().unwrap_or_default();
    let mut lines = Vec::new();
    for (name, value) in fields {
        let value = value
            .decode::<String>()
            .unwrap_or_else(|_| value.get().to_owned());
        if !prompt.contains(&term::clean(&value)) {
            lines.push(format!("  {}:", short(&name, 64)));
            let value = term::indented(&value, LINES);
            lines.extend(value.into_iter().map(|line| format!("  {line}")));
        }
    }
    lines
}

async fn question(call: &Waiting) -> Option<Answer> {
    let prompt = match &call.prompt {
        Some(prompt) => term::clean(prompt),
        None => format!(
            "{} {}",
            short(&call.name, 64),
            arguments_line(&call.arguments)
        ),
    };
    term::prompt(&format!("{} {} ", paint(YELLOW, "?"), paint(BOLD, &prompt)));
    let line = read_line().await?;
    Some(Answer::Result(Content::from(
        line.trim_end_matches(['\n', '\r']),
    )))
}

/// A line from the terminal; `None` at its end. Read on a thread of its own, so that a Ctrl-C is not
/// held up by it.
async fn read_line() -> Option<String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        // Nobody waits for it any more after a Ctrl-C.
        let _ = sender.send(read.ok().filter(|read| *read > 0).map(|_| line));
    });
    receiver.await.ok().flatten()
}
