//! `export`: a session's records as rethread JSON, one a line.

use std::io::Write;

use rethread_core::read_history;

use crate::args::Export;
use crate::failure::{Code, Failure};
use crate::find::find;
use crate::poll::block_on;
use crate::store::Place;
use crate::term;

pub(crate) fn export(args: &Export) -> Result<Code, Failure> {
    let place = Place::of(&args.store)?;
    let store = place.look()?;
    let history = block_on(async {
        let id = find(&*store, &place, args.which.id.as_deref()).await?;
        read_history(&*store, &id).await.map_err(Failure::from)
    })?;
    let write = |out: &mut dyn Write| -> std::io::Result<()> {
        for record in history.records() {
            serde_json::to_writer(&mut *out, record)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    };
    match &args.output {
        None => {
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            match write(&mut out) {
                // A reader that has gone away has had enough.
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    return Err(Failure::new(
                        Code::Failed,
                        format!(
                            "standard output cannot be written: {error}; not all of the session is there"
                        ),
                    ));
                }
                _ => {}
            }
        }
        Some(path) => {
            let failed = |error| Failure::file("write", path, &error);
            let file = std::fs::File::create(path).map_err(failed)?;
            write(&mut std::io::BufWriter::new(file)).map_err(failed)?;
        }
    }
    for problem in history.problems() {
        term::warning(&problem.detail);
    }
    Ok(Code::Done)
}
