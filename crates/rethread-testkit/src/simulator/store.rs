//! A store that can fail before and after every append, and that a dead process cannot reach.

use std::fmt;

use rethread_core::{
    BoxFuture, Commit, Committed, Draft, Head, Lease, ListQuery, MemoryStore, Page, Row, Store,
    StoreError, Summary, Writer,
};

use super::world::World;
use super::{Fault, check};

/// The store as one process reaches it.
#[derive(Clone)]
pub(super) struct SimStore {
    pub(super) inner: MemoryStore,
    pub(super) world: World,
    pub(super) process: u32,
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the simulated store")
    }
}

impl SimStore {
    fn fails(&self) -> Result<(), StoreError> {
        let mut state = self.world.lock();
        if std::mem::take(&mut state.store_error) {
            state.stored_late = true;
            return Err(StoreError::Io {
                store: "the simulated store".to_owned(),
                action: "an append",
                source: "the plan says so".into(),
            });
        }
        Ok(())
    }

    /// Appends, with what a broken store would make of it.
    async fn append(&self, commit: Commit<'_>) -> Result<Committed, StoreError> {
        let fault = self.world.lock().fault;
        let mut rows = commit.rows.to_vec();
        for row in &mut rows {
            spoil(fault, row);
        }
        let mut summary = commit.summary.cloned();
        if fault == Some(Fault::SaysCompleted)
            && let Some(Summary { state, .. }) = &mut summary
        {
            "completed".clone_into(state);
        }
        let writer = match commit.writer {
            Writer::Claim { ttl, create, .. } if fault == Some(Fault::GrantsEveryClaim) => {
                Writer::Claim {
                    ttl,
                    create,
                    force: true,
                }
            }
            writer => writer,
        };
        let release = commit.release && fault != Some(Fault::KeepsTheLease);
        let done = Commit {
            session: commit.session,
            writer,
            after: commit.after,
            rows: &rows,
            summary: summary.as_ref(),
            drop_draft: commit.drop_draft,
            release,
        };
        let committed = self.inner.commit(done).await?;
        if fault == Some(Fault::KeepsTheLease) {
            let lease = committed.lease.clone();
            self.world.lock().kept.extend(lease);
        }
        let stored = Commit {
            rows: &rows,
            summary: summary.as_ref(),
            release,
            ..commit
        };
        check::committed(&mut self.world.lock(), self.process, &stored, &committed);
        Ok(committed)
    }
}

/// What a broken store makes of a row.
fn spoil(fault: Option<Fault>, row: &mut Vec<u8>) {
    let Ok(text) = std::str::from_utf8(row) else {
        return;
    };
    let changed = match fault {
        Some(Fault::LosesResults) if text.contains(r#""role":"tool""#) => {
            r#"{"at":0,"lost":true}"#.to_owned()
        }
        Some(Fault::TellsTooEarly) if text.contains(r#""run_ended":"#) => {
            r#"{"at":0,"lost":true}"#.to_owned()
        }
        Some(Fault::LosesStarts) if text.contains(r#""call_started":"#) => {
            r#"{"at":0,"lost":true}"#.to_owned()
        }
        Some(Fault::CallsItDone) => {
            text.replace(r#""reason":"interrupted""#, r#""reason":"end_turn""#)
        }
        Some(Fault::EncodesAgain) => serde_json::from_str::<serde_json::Value>(text)
            .map_or_else(|_| text.to_owned(), |value| value.to_string()),
        Some(Fault::ForgetsTheBudget) => match text.find(r#""used":{"#) {
            Some(at) => {
                let (before, rest) = text.split_at(at);
                let rest = rest.split_once('}').map_or("", |(_, rest)| rest);
                format!("{before}\"used\":{{}}{rest}")
            }
            None => return,
        },
        Some(Fault::SaysItDidNotRun) => text.replace(
            rethread_core::texts::UNKNOWN_RESULT,
            rethread_core::texts::NOT_STARTED_RESULT,
        ),
        Some(Fault::TearsRows) if text.contains(r#""run_ended""#) => {
            text.chars().take(20).collect()
        }
        _ => return,
    };
    *row = changed.into_bytes();
}

impl Store for SimStore {
    fn commit<'a>(&'a self, commit: Commit<'a>) -> BoxFuture<'a, Result<Committed, StoreError>> {
        Box::pin(async move {
            self.world.point(self.process, "before an append").await;
            self.fails()?;
            let committed = self.append(commit).await?;
            self.world.point(self.process, "after an append").await;
            self.fails()?;
            Ok(committed)
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.world.alive().await;
            check::renewed(&mut self.world.lock());
            self.fails()?;
            self.inner.renew(lease).await
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.world.point(self.process, "before a release").await;
            self.inner.release(lease).await?;
            check::released(&mut self.world.lock(), self.process, lease);
            self.world.point(self.process, "after a release").await;
            Ok(())
        })
    }

    fn head<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Head>, StoreError>> {
        Box::pin(async move {
            self.world.alive().await;
            let head = self.inner.head(session).await;
            self.world
                .point(self.process, "after reading the head")
                .await;
            head
        })
    }

    fn read<'a>(
        &'a self,
        session: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            self.world.alive().await;
            self.inner.read(session, page).await
        })
    }

    fn set_draft<'a>(
        &'a self,
        lease: &'a Lease,
        draft: &'a Draft,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.world.point(self.process, "before a draft").await;
            self.inner.set_draft(lease, draft).await?;
            check::drafted(&mut self.world.lock(), self.process, draft);
            self.world.point(self.process, "after a draft").await;
            Ok(())
        })
    }

    fn draft<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Draft>, StoreError>> {
        Box::pin(async move {
            self.world.alive().await;
            self.inner.draft(session).await
        })
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> BoxFuture<'a, Result<Vec<Head>, StoreError>> {
        self.inner.list(query)
    }

    fn delete<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.delete(session)
    }
}
