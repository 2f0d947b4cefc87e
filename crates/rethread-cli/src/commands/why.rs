//! `why`: where a session stopped and what a resume would do.

use rethread_core::read_status;

use crate::args::Look;
use crate::failure::{Code, Failure};
use crate::find::find;
use crate::point::{PointJson, explain, name};
use crate::poll::block_on;
use crate::store::Place;
use crate::term;

pub(crate) fn why(args: &Look) -> Result<Code, Failure> {
    let place = Place::of(&args.store)?;
    let store = place.look()?;
    let status = block_on(async {
        let id = find(&*store, &place, args.which.id.as_deref()).await?;
        read_status(&*store, &id).await.map_err(Failure::from)
    })?;
    if args.json {
        term::json(&PointJson::new(&status.point));
    } else {
        name(args.which.id.as_deref(), &status.head);
        for line in explain(&status) {
            term::line(&line);
        }
    }
    Ok(match status.point {
        Ok(_) => Code::Done,
        Err(_) => Code::NothingToResume,
    })
}
