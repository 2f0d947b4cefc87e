//! `fork`: a copy of a session, or of its beginning.

use serde::Serialize;

use super::bookkeeper;
use crate::args::Fork;
use crate::failure::{Code, Failure};
use crate::find::{find, fresh_id};
use crate::store::Place;
use crate::term;

#[derive(Serialize)]
struct Forked<'a> {
    session: &'a str,
    from: &'a str,
}

pub(crate) async fn fork(args: Fork) -> Result<Code, Failure> {
    let place = Place::of(&args.store)?;
    let store = place.open()?;
    let from = find(&*store, &place, args.which.id.as_deref()).await?;
    let to = match args.to {
        Some(id) if id.is_empty() => return Err(Failure::usage("a session id is empty")),
        Some(id) => id,
        None => fresh_id(&*store).await?,
    };
    bookkeeper(store)?
        .session(&from)
        .fork(args.at, to.as_str())
        .await?;
    if args.json {
        term::json(&Forked {
            session: &to,
            from: &from,
        });
    } else {
        term::say(&format!("session {to}, forked from {from}"));
    }
    Ok(Code::Done)
}
