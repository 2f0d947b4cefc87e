//! `import`: a session made from a history file.

use rethread_core::Entry;
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
    format: &'static str,
    messages: usize,
    problems: Vec<Problem<'a>>,
}

#[derive(Serialize)]
struct Problem<'a> {
    rule: &'static str,
    at: usize,
    detail: &'a str,
}

pub(crate) async fn import(args: Import) -> Result<Code, Failure> {
    let loaded = history::read(&args.file, args.format.as_deref())?;
    let store = Place::of(&args.store)?.make().await?;
    let id = match args.session {
        Some(id) if id.is_empty() => return Err(Failure::usage("a session id is empty")),
        Some(id) => id,
        None => fresh_id(&*store).await?,
    };
    let (mut entries, imported) = history::entries(&loaded);
    let messages = entries.iter().filter_map(Entry::as_message).count();
    entries.push(imported);
    bookkeeper(store)?.session(&id).create(entries).await?;
    if args.json {
        let problems = loaded.problems.iter().map(|problem| Problem {
            rule: problem.rule,
            at: problem.line,
            detail: &problem.detail,
        });
        term::json(&Done {
            session: &id,
            format: loaded.format.as_str(),
            messages,
            problems: problems.collect(),
        });
        return Ok(Code::Done);
    }
    history::warn(&loaded);
    term::say(&format!(
        "session {}: {} from a file in the format {}",
        term::short(&id, 80),
        term::count(messages as u64, "message"),
        loaded.format
    ));
    Ok(Code::Done)
}
