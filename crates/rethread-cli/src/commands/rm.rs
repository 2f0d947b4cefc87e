//! `rm`: sessions deleted.

use serde::Serialize;

use super::bookkeeper;
use crate::args::Remove;
use crate::failure::{Code, Failure};
use crate::find::find;
use crate::store::Place;
use crate::{ask, term};

#[derive(Serialize)]
struct Removed {
    removed: Vec<String>,
}

pub(crate) async fn rm(args: Remove) -> Result<Code, Failure> {
    let place = Place::of(&args.store)?;
    let store = place.open()?;
    let mut removed = Vec::new();
    for id in &args.ids {
        let found = find(&*store, &place, Some(id.as_str())).await?;
        if !removed.contains(&found) {
            removed.push(found);
        }
    }
    let what = removed.join(", ");
    if !args.yes {
        if !ask::is_possible() {
            return Err(Failure::usage(
                "deleting needs --yes where nobody can be asked",
            ));
        }
        term::prompt(&format!("delete {} for good? [y/N] ", term::clean(&what)));
        let mut line = String::new();
        // Nothing read is a no.
        let _ = std::io::stdin().read_line(&mut line);
        if !matches!(line.trim(), "y" | "Y" | "yes") {
            return Ok(Code::Cancelled);
        }
    }
    let agent = bookkeeper(store)?;
    for id in &removed {
        agent.session(id).delete().await?;
    }
    match args.json {
        true => term::json(&Removed { removed }),
        false => term::say(&format!("deleted {}", term::clean(&what))),
    }
    Ok(Code::Done)
}
