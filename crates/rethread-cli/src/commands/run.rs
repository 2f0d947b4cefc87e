//! `run`: a new message.

use std::io::Read as _;

use crate::args::Run;
use crate::failure::{Code, Failure};
use crate::find::{find, fresh_id};
use crate::go::{Going, Hints};
use crate::model;
use crate::remembered::{Remembered, remembered};
use crate::store::Place;
use crate::term;

pub(crate) async fn run(args: Run) -> Result<Code, Failure> {
    let text = match args.text.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
            text
        }
        _ => args.text,
    };
    if text.trim().is_empty() {
        return Err(Failure::usage("the message is empty"));
    }
    let place = Place::of(&args.store)?;
    // A model that cannot be had is told before a store is made.
    let named = args.work.model.as_deref();
    let mut chosen = model::named(named)?;
    if chosen.is_none() && !place.exists() {
        return Err(model::missing(None));
    }
    let store = place.make().await?;
    let id = match &args.session {
        Some(id) if id.is_empty() => return Err(Failure::usage("a session id is empty")),
        Some(id) => id.clone(),
        None if args.last => find(&*store, &place, None).await?,
        None => fresh_id(&*store).await?,
    };
    let last = match store.head(&id).await? {
        Some(_) => remembered(&*store, &id).await?,
        None => Remembered::default(),
    };
    let chosen = match chosen.take() {
        Some(chosen) => chosen,
        None => model::last(last.model.as_ref())?,
    };
    let hints = Hints::new(args.store.store.as_deref(), named);
    let going = Going::new(&args.work, Some(store), chosen, last, hints)?;
    if !args.work.json {
        term::say(&term::paint(
            term::DIM,
            &format!("session {}", term::short(&id, 80)),
        ));
    }
    let session = going.agent().session(id);
    let run = session.run(text);
    going.go(session, run).await
}
