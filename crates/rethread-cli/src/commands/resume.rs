//! `resume`: carry on.

use std::path::Path;
use std::sync::Arc;

use rethread_core::{
    Body, Entry, Error, Json, Message, NotResumable, Session, Status, Store, read_status,
};
use serde::Serialize;

use crate::args::Resume;
use crate::failure::{Code, Failure};
use crate::find::{find, fresh_id};
use crate::go::{Done, Going, Hints};
use crate::history;
use crate::model;
use crate::point::{explain, name};
use crate::recorder::Request;
use crate::remembered::{Remembered, remembered};
use crate::store::Place;
use crate::{ask, term};

pub(crate) async fn resume(mut args: Resume) -> Result<Code, Failure> {
    args.work.record_requests |= args.dry_run;
    match &args.from {
        Some(file) => from_file(&args, file).await,
        None => stored(&args).await,
    }
}

/// Carries on a session.
async fn stored(args: &Resume) -> Result<Code, Failure> {
    let place = Place::of(&args.store)?;
    let store = place.open()?;
    let id = find(&*store, &place, args.id.as_deref()).await?;
    let status = read_status(&*store, &id).await?;
    let hints = Hints::new(args.store.store.as_deref(), args.work.model.as_deref());
    if let Some(error) = refusal(args, &status) {
        let waiting = match &error {
            Error::Suspended(_) => {
                tell(args, &status);
                ask::waiting(&*store, &id).await?
            }
            _ => Vec::new(),
        };
        let done = Done {
            waiting,
            requests: args.work.record_requests.then(Vec::new),
            ..Done::default()
        };
        return done.tell(&id, args.work.json, &hints, Err(error));
    }
    let last = remembered(&*store, &id).await?;
    if args.dry_run {
        return dry_run(args, store, &id, last).await;
    }
    let chosen = match model::named(args.work.model.as_deref())? {
        Some(chosen) => chosen,
        None => model::last(last.model.as_ref())?,
    };
    let going = Going::new(&args.work, Some(store), chosen, last, hints)?;
    tell(args, &status);
    let session = going.agent().session(id);
    let mut run = session.resume();
    if args.override_stop {
        run = run.override_stop();
    }
    if args.take_over {
        run = run.take_over();
    }
    going.go(session, run).await
}

/// Says to a person what a resume begins with.
fn tell(args: &Resume, status: &Status) {
    if !args.work.json {
        name(args.id.as_deref(), &status.head);
        for line in explain(status) {
            term::say(&line);
        }
    }
}

/// Why there is nothing to do, which can be said without a model.
fn refusal(args: &Resume, status: &Status) -> Option<Error> {
    match &status.point {
        Err(NotResumable::Refused | NotResumable::ContextFull | NotResumable::UnknownStop)
            if args.override_stop =>
        {
            None
        }
        Err(reason) => Some(Error::NotResumable(*reason)),
        Ok(point) if !point.is_ready() && (args.work.json || !ask::is_possible()) => {
            Some(Error::Suspended(Box::new(point.clone())))
        }
        Ok(_) => None,
    }
}

#[derive(Serialize)]
struct DryRun {
    would_add: Vec<Json>,
    left_out: Vec<LeftOut>,
    request: Option<Request>,
}

#[derive(Serialize)]
struct LeftOut {
    item: String,
    reason: String,
}

/// Says what a resume would add and send, and does neither.
async fn dry_run(
    args: &Resume,
    store: Arc<dyn Store>,
    id: &str,
    last: Remembered,
) -> Result<Code, Failure> {
    // What would be sent can be said without a model; only what it could not take can't.
    let chosen = match model::named(args.work.model.as_deref())? {
        Some(chosen) => chosen,
        None => model::last(last.model.as_ref()).or_else(|_| model::none())?,
    };
    let going = Going::new(&args.work, Some(store), chosen, last, Hints::default())?;
    let plan = going.agent().session(id).dry_run().await?;
    let request = going.recorder().current();
    let would_add: Vec<&Message> = plan.entries.iter().filter_map(Entry::as_message).collect();
    if args.work.json {
        term::json(&DryRun {
            would_add: would_add
                .iter()
                .filter_map(|message| Json::encode(message).ok())
                .collect(),
            left_out: plan
                .left_out
                .into_iter()
                .map(|left_out| LeftOut {
                    item: left_out.item,
                    reason: left_out.reason,
                })
                .collect(),
            request,
        });
        return Ok(Code::Done);
    }
    for message in &would_add {
        term::line(&format!(
            "would add  {}: {}",
            role(message),
            term::short(&message.content().to_text(), 200)
        ));
    }
    for left_out in &plan.left_out {
        term::line(&format!(
            "leaves out  {}: {}",
            term::short(&left_out.item, 60),
            term::short(&left_out.reason, 200)
        ));
    }
    let messages = request.map_or(0, |request| request.len() as u64);
    term::line(&format!("would send {}", term::count(messages, "message")));
    Ok(Code::Done)
}

fn role(message: &Message) -> &'static str {
    match message.body {
        Body::Tool(_) => "tool result",
        Body::User(_) => "user",
        _ => "agent",
    }
}

/// Carries on a history from a file: all but the last message are what was, the last is what is
/// acted on.
async fn from_file(args: &Resume, file: &Path) -> Result<Code, Failure> {
    let loaded = history::read(file, args.format.as_deref())?;
    history::warn(&loaded);
    let named = args.work.model.as_deref();
    let chosen = model::named(named)?.ok_or_else(|| model::missing(None))?;
    let store: Option<Arc<dyn Store>> = match (&args.store.store, &args.session) {
        (None, None) => None, // kept in memory
        _ => Some(Place::of(&args.store)?.make().await?),
    };
    let hints = Hints::new(args.store.store.as_deref(), named);
    let remembered = Remembered {
        model: None,
        instructions: loaded
            .instructions
            .as_ref()
            .map(|text| text.to_str().into_owned()),
    };
    let going = Going::new(&args.work, store, chosen, remembered, hints)?;
    let agent = going.agent();
    let id = match &args.session {
        Some(id) => id.clone(),
        None => fresh_id(&**agent.store()).await?,
    };
    if args.replace {
        set_aside(&agent.session(&id)).await?;
    }
    let session = agent.session(id);
    let (mut entries, imported) = history::entries(&loaded);
    // A message of a person or the program is acted on; anything else is where the history stopped.
    let trigger = match entries.last().and_then(Entry::as_message) {
        Some(message)
            if message.in_context && matches!(message.body, Body::User(_) | Body::Agent(_)) =>
        {
            entries.pop()
        }
        _ => None,
    };
    entries.push(imported);
    session.create(entries).await?;
    let run = match trigger {
        Some(Entry::Message(message, _)) => session.run_with(vec![*message]),
        _ if args.override_stop => session.resume().override_stop(),
        _ => session.resume(),
    };
    going.go(session, run).await
}

/// Keeps a session under another id and deletes it, if there is one.
async fn set_aside(session: &Session) -> Result<(), Failure> {
    let store = session.agent().store();
    let Some(head) = store.head(session.id()).await? else {
        return Ok(());
    };
    if let Some(lease) = head.lease.filter(|lease| lease.live) {
        return Err(Error::Store(rethread_core::StoreError::Busy {
            session: head.session,
            holder: lease.holder,
            since: lease.since,
        })
        .into());
    }
    let mut n = 1;
    let kept = loop {
        let kept = format!("{}.before-{n}", session.id());
        if store.head(&kept).await?.is_none() {
            break kept;
        }
        n += 1;
    };
    session.fork(None, kept.as_str()).await?;
    session.delete().await?;
    term::say(&format!(
        "what was in `{}` is kept as `{kept}`",
        session.id()
    ));
    Ok(())
}
