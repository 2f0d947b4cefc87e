//! `answer`: what a call waited for.

use rethread_core::{Answer, CallState, Content, Json, Unanswered, Wait, read_status};
use serde::Serialize;

use super::bookkeeper;
use crate::args::{self, What};
use crate::failure::{Code, Failure};
use crate::find::find;
use crate::point::PointJson;
use crate::store::Place;
use crate::term;

#[derive(Serialize)]
struct Answered<'a> {
    session: &'a str,
    call: &'a str,
    point: PointJson<'a>,
}

pub(crate) async fn answer(args: args::Answer) -> Result<Code, Failure> {
    let answer = said(&args.what)?;
    let place = Place::of(&args.store)?;
    let store = place.open()?;
    let id = find(&*store, &place, Some(&args.id)).await?;
    let status = read_status(&*store, &id).await?;
    let open = status
        .point
        .iter()
        .flat_map(|point| &point.unanswered)
        .find(|call| call.id == args.call);
    fits(&answer, open, &args.call)?;
    let agent = bookkeeper(store.clone())?;
    agent.session(&id).answer(&args.call, answer).await?;
    let status = read_status(&*store, &id).await?;
    if args.json {
        term::json(&Answered {
            session: &id,
            call: &args.call,
            point: PointJson::new(&status.point),
        });
        return Ok(Code::Done);
    }
    match &status.point {
        Ok(point) if !point.is_ready() => term::say(&format!("stored. {}", point.description())),
        Ok(_) => term::say(&format!(
            "stored; go on with `rethread resume {}`, in the store you named here",
            crate::go::quoted(&id)
        )),
        Err(reason) => term::say(&format!("stored; {reason}")),
    }
    Ok(Code::Done)
}

fn said(what: &What) -> Result<Answer, Failure> {
    Ok(match what {
        What {
            result: Some(text), ..
        } => Answer::Result(Content::from(text.as_str())),
        What {
            failure: Some(reason),
            ..
        } => Answer::Failure(reason.clone()),
        What {
            deny: Some(reason), ..
        } => Answer::Deny(reason.clone()),
        What {
            edit: Some(json), ..
        } => {
            let arguments = Json::parse(json)
                .map_err(|error| Failure::usage(format!("--edit is not JSON: {error}")))?;
            if !arguments.is_object() {
                return Err(Failure::usage("--edit is not a JSON object"));
            }
            Answer::ApproveWith(arguments)
        }
        _ => Answer::Approve,
    })
}

/// Leave can be given or refused only to a call that waits for it: one that has started would run
/// twice.
fn fits(answer: &Answer, open: Option<&Unanswered>, id: &str) -> Result<(), Failure> {
    let is_leave = matches!(
        answer,
        Answer::Approve | Answer::ApproveWith(_) | Answer::Deny(_)
    );
    match open.map(|call| call.state) {
        Some(CallState::Suspended(Wait::Approval)) | None => Ok(()),
        Some(CallState::Approved) => Err(Failure::usage(format!(
            "call `{id}` may start already; resume the session"
        ))),
        Some(_) if is_leave => Err(Failure::usage(format!(
            "call `{id}` does not wait for leave; answer it with --result or --failure"
        ))),
        Some(_) => Ok(()),
    }
}
