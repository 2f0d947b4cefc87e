//! The suite for stores accepts the in-memory store, and notices one that breaks a promise.

use rethread_core::{
    BoxFuture, Commit, Committed, Draft, Head, Lease, ListQuery, MemoryStore, Page, Row, Store,
    StoreError, Summary, Writer,
};
use rethread_testkit::{StoreFixture, check_store};

/// A promise that is broken.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    EncodesRowsAgain,
    GivesPagesBackwards,
    LosesTheLastRow,
    IgnoresThePosition,
    IgnoresTheOtherWriter,
    IgnoresTheRelease,
    IgnoresTheRenewal,
    MakesUnknownSessions,
    ForgetsTheTitle,
    CountsMessagesAnew,
    KeepsTheDraft,
    DropsTheDraft,
    LetsAnyoneWriteTheDraft,
    ListsOldestFirst,
    FindsThePrefixAnywhere,
    DeletesUnderAWriter,
    ForgetsOnReopening,
}

#[derive(Clone, Debug)]
struct Faulty {
    store: MemoryStore,
    fault: Fault,
}

impl Store for Faulty {
    fn commit<'a>(&'a self, commit: Commit<'a>) -> BoxFuture<'a, Result<Committed, StoreError>> {
        Box::pin(async move {
            let rows: Vec<Vec<u8>> = commit
                .rows
                .iter()
                .map(
                    |row| match serde_json::from_slice::<serde_json::Value>(row) {
                        Ok(value) if matches!(self.fault, Fault::EncodesRowsAgain) => {
                            value.to_string().into_bytes()
                        }
                        _ => row.clone(),
                    },
                )
                .collect();
            let mut summary = commit.summary.cloned();
            let head = self.store.head(commit.session).await?;
            let mut changed = Commit {
                rows: &rows,
                summary: None,
                ..commit
            };
            match self.fault {
                Fault::IgnoresThePosition => {
                    changed.after = head.as_ref().map_or(0, |head| head.last);
                }
                Fault::IgnoresTheOtherWriter => {
                    if let Writer::Claim { force, .. } = &mut changed.writer {
                        *force = true;
                    }
                }
                Fault::IgnoresTheRelease => changed.release = false,
                Fault::MakesUnknownSessions => {
                    if let Writer::Claim { create, .. } = &mut changed.writer {
                        *create = true;
                    }
                }
                Fault::ForgetsTheTitle => {
                    summary = summary.map(|summary| Summary {
                        title: summary.title.or(Some(String::new())),
                        ..summary
                    });
                }
                Fault::CountsMessagesAnew => {
                    let before = head.map_or(0, |head| head.messages);
                    summary = summary.map(|summary| Summary {
                        messages: summary.messages.saturating_sub(before),
                        ..summary
                    });
                }
                Fault::KeepsTheDraft => changed.drop_draft = false,
                Fault::DropsTheDraft => changed.drop_draft = true,
                _ => {}
            }
            changed.summary = summary.as_ref();
            self.store.commit(changed).await
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        match self.fault {
            Fault::IgnoresTheRenewal => Box::pin(async { Ok(()) }),
            _ => self.store.renew(lease),
        }
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        match self.fault {
            Fault::IgnoresTheRelease => Box::pin(async { Ok(()) }),
            _ => self.store.release(lease),
        }
    }

    fn head<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Head>, StoreError>> {
        self.store.head(session)
    }

    fn read<'a>(
        &'a self,
        session: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            let mut rows = self.store.read(session, page).await?;
            match self.fault {
                Fault::GivesPagesBackwards => rows.reverse(),
                Fault::LosesTheLastRow => drop(rows.pop()),
                _ => {}
            }
            Ok(rows)
        })
    }

    fn set_draft<'a>(
        &'a self,
        lease: &'a Lease,
        draft: &'a Draft,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let written = self.store.set_draft(lease, draft).await;
            match self.fault {
                Fault::LetsAnyoneWriteTheDraft => Ok(()),
                _ => written,
            }
        })
    }

    fn draft<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Draft>, StoreError>> {
        self.store.draft(session)
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> BoxFuture<'a, Result<Vec<Head>, StoreError>> {
        Box::pin(async move {
            match (self.fault, &query.prefix) {
                (Fault::ListsOldestFirst, _) => {
                    let mut heads = self.store.list(query).await?;
                    heads.reverse();
                    Ok(heads)
                }
                (Fault::FindsThePrefixAnywhere, Some(prefix)) => {
                    let mut heads = self.store.list(&ListQuery::default()).await?;
                    heads.retain(|head| head.session.to_lowercase().contains(prefix));
                    heads.truncate(query.limit.unwrap_or(usize::MAX));
                    Ok(heads)
                }
                _ => self.store.list(query).await,
            }
        })
    }

    fn delete<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let done = self.store.delete(session).await;
            match self.fault {
                Fault::DeletesUnderAWriter => Ok(()),
                _ => done,
            }
        })
    }
}

/// What the suite says of a store with a fault; `None` when it finds nothing.
async fn report(fault: Fault) -> Option<String> {
    let checked = tokio::spawn(check_store(move || async move {
        let store = Faulty {
            store: MemoryStore::new(),
            fault,
        };
        let again = match fault {
            Fault::ForgetsOnReopening => Faulty {
                store: MemoryStore::new(),
                fault,
            },
            _ => store.clone(),
        };
        StoreFixture::new(store, move || std::future::ready(again.clone()))
    }));
    let panic = checked.await.err()?.into_panic();
    Some(*panic.downcast::<String>().ok()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_in_memory_store_keeps_its_promises() {
    assert_eq!(report(Fault::None).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_breaks_a_promise_is_noticed() {
    for (fault, promise) in [
        (
            Fault::EncodesRowsAgain,
            "rows_come_back_in_order_and_byte_for_byte",
        ),
        (
            Fault::GivesPagesBackwards,
            "pages_can_be_read_from_both_ends",
        ),
        (Fault::LosesTheLastRow, "pages_can_be_read_from_both_ends"),
        (
            Fault::IgnoresThePosition,
            "a_commit_at_another_position_writes_nothing",
        ),
        (
            Fault::IgnoresTheOtherWriter,
            "one_writer_at_a_time_and_the_other_is_told_who",
        ),
        (Fault::IgnoresTheRelease, "a_lease_can_be_given_back"),
        (
            Fault::IgnoresTheRenewal,
            "a_lease_runs_out_and_renewing_makes_it_last",
        ),
        (
            Fault::MakesUnknownSessions,
            "an_unknown_session_is_an_error_and_is_not_made",
        ),
        (
            Fault::ForgetsTheTitle,
            "the_summary_row_says_what_commits_told_it",
        ),
        (
            Fault::CountsMessagesAnew,
            "the_summary_row_says_what_commits_told_it",
        ),
        (
            Fault::KeepsTheDraft,
            "a_draft_is_kept_until_it_is_replaced_or_dropped",
        ),
        (
            Fault::DropsTheDraft,
            "a_draft_is_kept_until_it_is_replaced_or_dropped",
        ),
        (
            Fault::LetsAnyoneWriteTheDraft,
            "only_the_holder_of_the_lease_writes_a_draft",
        ),
        (
            Fault::ListsOldestFirst,
            "listing_is_newest_first_and_takes_a_prefix_literally",
        ),
        (
            Fault::FindsThePrefixAnywhere,
            "listing_is_newest_first_and_takes_a_prefix_literally",
        ),
        (
            Fault::DeletesUnderAWriter,
            "a_deleted_session_is_gone_and_its_leases_with_it",
        ),
        (
            Fault::ForgetsOnReopening,
            "everything_is_there_when_opened_again",
        ),
    ] {
        let report = report(fault).await.unwrap_or_default();
        assert!(report.contains(promise), "{fault:?}: {report}");
    }
}
