//! `import`: a session made from a history file.

use rethread_core::Problem;
use serde::Serialize;

use super::bookkeeper;
use crate::args::Import;
use crate::failure::{Code, Failure};
use crate::find::fresh_id;
use crate::history;
use crate::store::Place;
use crate::term;

#[derive(Serialize)]
struct Done<'a> {
    session: &'a str,
    format: &'a str,
    messages: usize,
    problems: &'a [Problem],
}

pub(crate) async fn import(args: Import) -> Result<Code, Failure> {
    let read = history::read(&args.file, args.format.as_deref())?;
    let store = Place::of(&args.store)?.make().await?;
    let id = match args.session {
        Some(id) if id.is_empty() => return Err(Failure::usage("a session id is empty")),
        Some(id) => id,
        None => fresh_id(&*store).await?,
    };
    let (problems, format) = (read.problems.clone(), read.format);
    let (mut entries, imported) = read.into_entries();
    let messages = entries
        .iter()
        .filter(|entry| entry.as_message().is_some())
        .count();
    entries.push(imported);
    bookkeeper(store)?.session(&id).create(entries).await?;
    if args.json {
        term::json(&Done {
            session: &id,
            format,
            messages,
            problems: &problems,
        });
        return Ok(Code::Done);
    }
    for problem in &problems {
        term::warning(&problem.detail);
    }
    term::say(&format!(
        "session {id}: {} from a {format} file; see `rethread why {id}`",
        term::count(messages as u64, "message")
    ));
    Ok(Code::Done)
}
