//! A resume point as JSON and as four lines for people.

use rethread_core::{
    CallState, Cause, Draft, Head, NotResumable, ResumeKind, ResumePoint, Status, Stop, Unanswered,
    Wait,
};
use serde::Serialize;

use crate::term::{self, BOLD, DIM, count, short};

/// A resume point as the contract spells it.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum PointJson<'a> {
    Resumable {
        resumable: bool,
        kind: &'static str,
        description: String,
        unanswered: Vec<OpenCall<'a>>,
        stop: Option<&'a Stop>,
        cause: Option<&'static str>,
        draft: Option<&'a Draft>,
    },
    Not {
        resumable: bool,
        reason: &'static str,
        description: String,
    },
}

#[derive(Serialize)]
pub(crate) struct OpenCall<'a> {
    id: &'a str,
    name: &'a str,
    state: &'static str,
}

impl<'a> PointJson<'a> {
    pub(crate) fn new(point: &'a Result<ResumePoint, NotResumable>) -> Self {
        match point {
            Ok(point) => Self::Resumable {
                resumable: true,
                kind: point.kind.as_str(),
                description: point.description(),
                unanswered: point
                    .unanswered
                    .iter()
                    .map(|call| OpenCall {
                        id: &call.id,
                        name: &call.name,
                        state: call.state.as_str(),
                    })
                    .collect(),
                stop: point.stop.as_ref(),
                cause: point.cause.map(Cause::as_str),
                draft: point.draft.as_ref(),
            },
            Err(reason) => Self::Not {
                resumable: false,
                reason: reason.as_str(),
                description: sentence(&reason.to_string()),
            },
        }
    }
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), characters.as_str()),
        None => String::new(),
    }
}

/// Says which session it is, unless it was called by its whole id.
pub(crate) fn name(called: Option<&str>, head: &Head) {
    if called != Some(head.session.as_str()) {
        let title = head.title.as_deref().unwrap_or_default();
        let name = format!("{}  {}", short(&head.session, 80), short(title, 80));
        term::say(&term::paint(DIM, name.trim_end()));
    }
}

/// What stopped a session, what is kept, what is doubtful and what comes next.
pub(crate) fn explain(status: &Status) -> Vec<String> {
    let row =
        |label: &str, text: &str| format!("{}  {text}", term::paint(BOLD, &format!("{label:<8}")));
    let mut lines = Vec::new();
    match &status.point {
        Ok(point) => {
            lines.push(row("stopped", &stopped(point)));
            lines.push(row("kept", &kept(status, point.draft.as_ref())));
            lines.push(row("doubtful", &doubtful(point)));
            lines.push(row("next", &next(point)));
        }
        Err(reason) => {
            lines.push(row("ended", &reason.to_string()));
            lines.push(row("kept", &kept(status, None)));
        }
    }
    if let Some(lease) = status.head.lease.as_ref().filter(|lease| lease.live) {
        lines.push(row("busy", &format!("{} is at work on it", lease.holder)));
    }
    for problem in &status.unreadable {
        lines.push(row("damaged", &term::clean(problem)));
    }
    lines
}

fn stopped(point: &ResumePoint) -> String {
    let how = match point.cause {
        Some(Cause::Crashed) => "the process died".to_owned(),
        Some(Cause::Cancelled) => "it was cancelled".to_owned(),
        Some(Cause::Failed) => match &point.failure {
            Some(failure) => format!("it failed: {}", short(&failure.message, 200)),
            None => "it failed".to_owned(),
        },
        Some(Cause::Suspended) => "it waits for an answer".to_owned(),
        _ => String::new(),
    };
    let at = match point.kind {
        ResumeKind::RecoverTools => "while tools were at work",
        ResumeKind::CallModel => "before the model's next response",
        ResumeKind::RetryResponse => "in the middle of a response",
        ResumeKind::ContinueResponse => "at the output limit of a response",
        _ => "",
    };
    match (how.as_str(), at) {
        ("", "") => "it waits for an answer".to_owned(),
        ("", at) => at.to_owned(),
        (how, "") => how.to_owned(),
        (how, at) if point.cause == Some(Cause::Failed) => format!("{how} ({at})"),
        (how, at) => format!("{how} {at}"),
    }
}

fn kept(status: &Status, draft: Option<&Draft>) -> String {
    let messages = match status.head.messages {
        0 => "nothing yet".to_owned(),
        1 => "1 message".to_owned(),
        n => format!("all {n} messages"),
    };
    match draft.map(|draft| draft.text.chars().count() as u64) {
        None | Some(0) => messages,
        Some(n) => format!(
            "{messages}, and {} of the response that was streaming",
            count(n, "character")
        ),
    }
}

fn doubtful(point: &ResumePoint) -> String {
    let names = |state: fn(&Unanswered) -> bool| -> Option<String> {
        let names: Vec<String> = point
            .unanswered
            .iter()
            .filter(|call| state(call))
            .map(|call| format!("{} ({})", short(&call.name, 64), short(&call.id, 64)))
            .collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let unknown = names(|call| call.state == CallState::Unknown)
        .map(|names| format!("{names} may or may not have run"));
    let not_started = names(|call| call.state == CallState::NotStarted)
        .map(|names| format!("{names} did not start"));
    let parts: Vec<String> = [unknown, not_started].into_iter().flatten().collect();
    match parts.is_empty() {
        true => "nothing".to_owned(),
        false => parts.join("; "),
    }
}

fn next(point: &ResumePoint) -> String {
    match point.kind {
        ResumeKind::AwaitResults if point.is_ready() => {
            "the calls that were let start run".to_owned()
        }
        ResumeKind::AwaitResults => {
            let waiting: Vec<String> = point
                .unanswered
                .iter()
                .filter_map(|call| match call.state {
                    CallState::Suspended(wait) => Some(format!(
                        "{} for {} ({})",
                        waits_for(wait),
                        short(&call.name, 64),
                        short(&call.id, 64)
                    )),
                    _ => None,
                })
                .collect();
            format!("it goes on after {}", waiting.join(", "))
        }
        ResumeKind::RecoverTools => {
            "the model is told exactly that; no tool runs again by itself".to_owned()
        }
        ResumeKind::CallModel => "the model is asked for its response".to_owned(),
        ResumeKind::RetryResponse => "the model is asked to start that response again".to_owned(),
        ResumeKind::ContinueResponse => "the model is asked to go on where it stopped".to_owned(),
        _ => point.description(),
    }
}

/// What a call waits for, in words.
pub(crate) fn waits_for(wait: Wait) -> &'static str {
    match wait {
        Wait::Approval => "leave",
        Wait::Question => "a reply",
        _ => "a result",
    }
}
