//! `ls`: sessions, those that need attention first.

use rethread_core::{Head, ListQuery, Timestamp};
use serde::Serialize;

use crate::args::List;
use crate::failure::{Code, Failure};
use crate::find::unique_lengths;
use crate::poll::block_on;
use crate::store::Place;
use crate::term::{self, BOLD, DIM, GREEN, RED, YELLOW, ago, paint, short};

#[derive(Serialize)]
struct Listed<'a> {
    session: &'a str,
    title: Option<&'a str>,
    /// `interrupted`, `waiting`, `running`, `done`, or why it cannot be resumed.
    status: &'static str,
    /// The resume kind, or the reason against one.
    state: &'a str,
    holder: Option<String>,
    messages: u64,
    records: u64,
    created: Timestamp,
    updated: Timestamp,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Interrupted,
    Waiting,
    Running,
    Done,
    Stuck,
}

impl Status {
    fn of(head: &Head) -> Self {
        match head.state.as_str() {
            _ if head.is_busy() => Self::Running,
            "await_results" => Self::Waiting,
            "completed" | "empty" | "" => Self::Done,
            "refused" | "context_full" | "unknown_stop" | "malformed" => Self::Stuck,
            _ => Self::Interrupted,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Stuck => "stopped",
        }
    }

    fn needs_attention(self) -> bool {
        matches!(self, Self::Interrupted | Self::Waiting)
    }
}

pub(crate) fn ls(args: &List) -> Result<Code, Failure> {
    let place = Place::of(&args.store)?;
    let heads = if place.is_default && !place.exists() {
        Vec::new()
    } else {
        let store = place.look()?;
        block_on(store.list(&ListQuery::default()))?
    };
    let lengths = unique_lengths(&heads);
    let mut rows: Vec<(&Head, usize, Status)> = heads
        .iter()
        .zip(lengths)
        .map(|(head, length)| (head, length, Status::of(head)))
        .collect();
    // The store gives the newest first, and sorting keeps that order.
    rows.sort_by_key(|(_, _, status)| !status.needs_attention());
    rows.truncate(args.limit.unwrap_or(usize::MAX));
    if args.json {
        let listed: Vec<Listed<'_>> = rows
            .iter()
            .map(|(head, _, status)| listed(head, *status))
            .collect();
        term::json(&listed);
        return Ok(Code::Done);
    }
    if rows.is_empty() {
        term::say(
            "no sessions yet; `rethread run TEXT` begins one, `rethread demo` shows how it goes",
        );
    }
    let width =
        |text: &dyn Fn(&Head) -> usize| rows.iter().map(|(head, ..)| text(head)).max().unwrap_or(0);
    let id_width = width(&|head| shown_id(head).chars().count());
    let age_width = width(&|head| ago(head.updated).chars().count());
    for (head, length, status) in rows {
        row(head, length, status, id_width, age_width);
    }
    Ok(Code::Done)
}

fn listed(head: &Head, status: Status) -> Listed<'_> {
    Listed {
        session: &head.session,
        title: head.title.as_deref(),
        status: status.name(),
        state: &head.state,
        holder: head
            .lease
            .as_ref()
            .filter(|lease| lease.live)
            .map(|lease| lease.holder.to_string()),
        messages: head.messages,
        records: head.last,
        created: head.created,
        updated: head.updated,
    }
}

fn shown_id(head: &Head) -> String {
    short(&head.session, 40)
}

fn row(head: &Head, length: usize, status: Status, id_width: usize, age_width: usize) {
    let id = shown_id(head);
    let pad = " ".repeat(id_width.saturating_sub(id.chars().count()));
    let (unique, rest): (String, String) = (
        id.chars().take(length).collect(),
        id.chars().skip(length).collect(),
    );
    let style = match status {
        Status::Interrupted | Status::Stuck => RED,
        Status::Waiting => YELLOW,
        Status::Running => GREEN,
        Status::Done => DIM,
    };
    let age = ago(head.updated);
    let age = format!(
        "{age}{}",
        " ".repeat(age_width.saturating_sub(age.chars().count()))
    );
    let holder = match head.lease.as_ref().filter(|lease| lease.live) {
        Some(lease) => format!("  {}", paint(GREEN, &format!("[{}]", lease.holder))),
        None => String::new(),
    };
    term::line(&format!(
        "{}{}{pad}  {}  {}  {}{holder}",
        paint(BOLD, &unique),
        paint(DIM, &rest),
        paint(style, &format!("{:<11}", status.name())),
        paint(DIM, &age),
        short(head.title.as_deref().unwrap_or(""), 80)
    ));
}
