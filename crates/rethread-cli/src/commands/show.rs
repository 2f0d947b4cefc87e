//! `show`: a session's messages.

use rethread_core::{Body, History, Message, Part, Problem, Record, ToolCall, read_history};
use serde::Serialize;

use crate::args::Look;
use crate::failure::{Code, Failure};
use crate::find::find;
use crate::poll::block_on;
use crate::store::Place;
use crate::term::{self, BOLD, CYAN, DIM, GREEN, RED, YELLOW, paint, short};
use crate::view::call_line;

/// How many lines of a tool's result are shown.
const RESULT_LINES: usize = 12;

#[derive(Serialize)]
struct Shown<'a> {
    session: &'a str,
    messages: Vec<&'a Message>,
    entries: &'a [Record],
    #[serde(skip_serializing_if = "<[Problem]>::is_empty")]
    problems: &'a [Problem],
}

pub(crate) fn show(args: &Look) -> Result<Code, Failure> {
    let place = Place::of(&args.store)?;
    let store = place.look()?;
    let (id, history) = block_on(async {
        let id = find(&*store, &place, args.which.id.as_deref()).await?;
        let history = read_history(&*store, &id).await?;
        Ok::<_, Failure>((id, history))
    })?;
    if args.json {
        term::json(&Shown {
            session: &id,
            messages: history.messages().collect(),
            entries: history.records(),
            problems: history.problems(),
        });
    } else {
        for_people(&history);
    }
    Ok(Code::Done)
}

fn for_people(history: &History) {
    for message in history.messages() {
        let (name, style) = match &message.body {
            Body::System(_) => ("system", DIM),
            Body::User(_) => ("user", BOLD),
            Body::Agent(_) => ("agent", YELLOW),
            Body::Assistant(_) => ("assistant", CYAN),
            Body::Tool(result) if result.success => ("result", GREEN),
            Body::Tool(_) => ("failure", RED),
            Body::Summary(_) => ("summary", YELLOW),
            _ => ("message", DIM),
        };
        let aside = match (message.in_context, &message.body) {
            (false, Body::System(_)) | (true, _) => "",
            (false, _) => " (out of context)",
        };
        let of = match &message.body {
            Body::Tool(result) => {
                format!(
                    " {} {}",
                    short(&result.name, 64),
                    short(&result.call_id, 64)
                )
            }
            _ => String::new(),
        };
        term::line(&format!(
            "{}{}",
            paint(style, name),
            paint(DIM, &format!("{of}{aside}"))
        ));
        let lines = match message.body {
            Body::Tool(_) => RESULT_LINES,
            _ => usize::MAX,
        };
        for line in term::indented(&text(message), lines) {
            term::line(&line);
        }
        if let Some(response) = message.as_assistant() {
            response.tool_calls.iter().for_each(call);
            if let Some(stop) = response
                .stop
                .as_ref()
                .filter(|stop| !stop.reason.is_normal())
            {
                term::line(&format!(
                    "  {}",
                    paint(YELLOW, &format!("[stopped: {}]", stop.reason.as_str()))
                ));
            }
        }
    }
    for problem in history.problems() {
        term::warning(&problem.detail);
    }
}

fn text(message: &Message) -> String {
    let mut text = message.content().to_text();
    if let rethread_core::Content::Parts(parts) = message.content() {
        let others = parts
            .iter()
            .filter(|part| !matches!(part, Part::Text(_)))
            .count();
        if others > 0 {
            text.push_str(&format!(
                "\n[{}]",
                term::count(others as u64, "part that is no text")
            ));
        }
    }
    text
}

fn call(call: &ToolCall) {
    let name = short(&call.name, 64);
    let line = match &call.undecoded {
        Some(undecoded) => {
            let error = short(&undecoded.error, 100);
            format!(
                "{} {name} [arguments do not decode: {error}]",
                paint(CYAN, "▸")
            )
        }
        None => call_line(&name, &call.arguments),
    };
    term::line(&format!(
        "  {line} {}",
        paint(DIM, &format!("({})", short(&call.id, 64)))
    ));
}
