//! What the last run of a session used, for a resume that is not told.

use rethread_core::{Entry, Origin, Page, Record, Store};

use crate::failure::Failure;

/// What the last run used.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    /// Its model.
    pub(crate) model: Option<Origin>,
    /// Its instructions.
    pub(crate) instructions: Option<String>,
}

/// Reads a session backwards to its last run and what that used.
pub(crate) async fn remembered(store: &dyn Store, session: &str) -> Result<Remembered, Failure> {
    let mut remembered = Remembered::default();
    let (mut digest, mut before) = (None, u64::MAX);
    loop {
        let page = store
            .read(
                session,
                Page::Before {
                    seq: before,
                    limit: 64,
                },
            )
            .await?;
        let Some(first) = page.last().map(|row| row.seq) else {
            return Ok(remembered);
        };
        for row in page {
            match Record::decode(row.seq, &row.body).map(|record| record.entry) {
                Ok(Entry::RunStarted(started)) if digest.is_none() => {
                    remembered.model = started.model;
                    digest = Some(started.setup.unwrap_or_default());
                }
                // A setup is written before the run that uses it first.
                Ok(Entry::Setup(setup)) if digest.as_ref() == Some(&setup.digest) => {
                    remembered.instructions =
                        setup.instructions.map(|text| text.to_str().into_owned());
                    return Ok(remembered);
                }
                _ => {}
            }
        }
        before = first;
    }
}
