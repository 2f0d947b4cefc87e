//! Sessions in memory, for tests and for runs that need not outlive the process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::{
    BoxFuture, Commit, Committed, Draft, Head, Holder, Lease, LeaseInfo, ListQuery, Page, Row,
    Store, StoreError, Timestamp, Writer,
};

/// Keeps sessions in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    sessions: Arc<Mutex<BTreeMap<String, Kept>>>,
}

#[derive(Debug, Default)]
struct Kept {
    rows: Vec<Vec<u8>>,
    load_from: u64,
    messages: u64,
    state: String,
    title: Option<String>,
    created: Timestamp,
    updated: Timestamp,
    fence: u64,
    lease: Option<Held>,
    draft: Option<Draft>,
}

#[derive(Debug)]
struct Held {
    fence: u64,
    since: Timestamp,
    until: Timestamp,
    alive: Weak<()>,
}

impl Held {
    fn live(&self) -> bool {
        self.alive.strong_count() > 0 && Timestamp::now() < self.until
    }
}

const STORE: &str = "the in-memory store";

/// The next fence. One row for all sessions, so that a lease of a session that was deleted is none
/// of the one that is made again in its place.
static FENCES: AtomicU64 = AtomicU64::new(1);

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit_now(&self, commit: &Commit<'_>) -> Result<Committed, StoreError> {
        let mut sessions = self.lock();
        let session = commit.session;
        if !sessions.contains_key(session) {
            match commit.writer {
                Writer::Claim { create: true, .. } => {}
                Writer::Claim { .. } => return Err(not_found(session)),
                Writer::Lease(_) => {
                    return Err(StoreError::Fenced {
                        session: session.to_owned(),
                    });
                }
            }
        }
        let mut fresh = Kept {
            created: Timestamp::now(),
            state: "empty".to_owned(),
            ..Kept::default()
        };
        let kept = sessions.get_mut(session).unwrap_or(&mut fresh);
        match commit.writer {
            Writer::Lease(lease) if *lease.session != *session => {
                return Err(StoreError::Fenced {
                    session: session.to_owned(),
                });
            }
            Writer::Lease(lease) => kept.check(lease)?,
            Writer::Claim { force, .. } => {
                if let Some(held) = kept.lease.as_ref().filter(|held| !force && held.live()) {
                    return Err(StoreError::Busy {
                        session: session.to_owned(),
                        holder: this(),
                        since: held.since,
                    });
                }
            }
        }
        let found = kept.rows.len() as u64;
        if found != commit.after {
            return Err(StoreError::Conflict {
                session: session.to_owned(),
                expected: commit.after,
                found,
            });
        }
        kept.rows.extend_from_slice(commit.rows);
        kept.updated = Timestamp::now();
        if let Some(summary) = commit.summary {
            kept.state.clone_from(&summary.state);
            kept.messages += summary.messages;
            kept.load_from = summary.load_from.unwrap_or(kept.load_from);
            if summary.title.is_some() {
                kept.title.clone_from(&summary.title);
            }
        }
        if commit.drop_draft {
            kept.draft = None;
        }
        let mut taken = None;
        match commit.writer {
            Writer::Claim { ttl, .. } => {
                kept.fence = FENCES.fetch_add(1, Ordering::Relaxed);
                let alive = Arc::new(());
                let now = Timestamp::now();
                kept.lease = Some(Held {
                    fence: kept.fence,
                    since: now,
                    until: now.after(ttl),
                    alive: Arc::downgrade(&alive),
                });
                taken = Some(Lease {
                    session: Arc::from(session),
                    fence: kept.fence,
                    ttl,
                    alive,
                });
            }
            Writer::Lease(lease) => kept.renew(lease),
        }
        if commit.release {
            kept.lease = None;
            taken = None;
        }
        let last = kept.rows.len() as u64;
        if !sessions.contains_key(session) {
            sessions.insert(session.to_owned(), fresh);
        }
        Ok(Committed { lease: taken, last })
    }
}

impl Kept {
    fn check(&self, lease: &Lease) -> Result<(), StoreError> {
        match &self.lease {
            Some(held) if held.fence == lease.fence => Ok(()),
            _ => Err(StoreError::Fenced {
                session: lease.session.to_string(),
            }),
        }
    }

    fn renew(&mut self, lease: &Lease) {
        if let Some(held) = &mut self.lease {
            held.until = Timestamp::now().after(lease.ttl);
        }
    }

    fn head(&self, session: &str) -> Head {
        Head {
            session: session.to_owned(),
            last: self.rows.len() as u64,
            load_from: self.load_from,
            messages: self.messages,
            state: self.state.clone(),
            title: self.title.clone(),
            created: self.created,
            updated: self.updated,
            lease: self.lease.as_ref().map(|held| LeaseInfo {
                fence: held.fence,
                holder: this(),
                since: held.since,
                until: held.until,
                live: held.live(),
            }),
        }
    }
}

fn this() -> Holder {
    Holder {
        host: "this process".to_owned(),
        pid: std::process::id(),
        instance: String::new(),
    }
}

fn not_found(session: &str) -> StoreError {
    StoreError::NotFound {
        session: session.to_owned(),
        store: STORE.to_owned(),
    }
}

impl Store for MemoryStore {
    fn commit<'a>(&'a self, commit: Commit<'a>) -> BoxFuture<'a, Result<Committed, StoreError>> {
        Box::pin(async move { self.commit_now(&commit) })
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut sessions = self.lock();
            let kept = sessions
                .get_mut(&*lease.session)
                .ok_or_else(|| not_found(&lease.session))?;
            kept.check(lease)?;
            kept.renew(lease);
            Ok(())
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            if let Some(kept) = self.lock().get_mut(&*lease.session)
                && kept.check(lease).is_ok()
            {
                kept.lease = None;
            }
            Ok(())
        })
    }

    fn head<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Head>, StoreError>> {
        Box::pin(async move { Ok(self.lock().get(session).map(|kept| kept.head(session))) })
    }

    fn read<'a>(
        &'a self,
        session: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            let sessions = self.lock();
            let kept = sessions.get(session).ok_or_else(|| not_found(session))?;
            let rows = (1..).zip(&kept.rows).map(|(seq, body)| Row {
                seq,
                body: body.clone(),
            });
            Ok(match page {
                Page::After { seq, limit } => {
                    rows.filter(|row| row.seq > seq).take(limit).collect()
                }
                Page::Before { seq, limit } => {
                    let end = kept
                        .rows
                        .len()
                        .min(usize::try_from(seq.saturating_sub(1)).unwrap_or(usize::MAX));
                    rows.take(end)
                        .skip(end.saturating_sub(limit))
                        .collect::<Vec<_>>()
                        .into_iter()
                        .rev()
                        .collect()
                }
            })
        })
    }

    fn set_draft<'a>(
        &'a self,
        lease: &'a Lease,
        draft: &'a Draft,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut sessions = self.lock();
            let kept = sessions
                .get_mut(&*lease.session)
                .ok_or_else(|| not_found(&lease.session))?;
            kept.check(lease)?;
            kept.draft = Some(draft.clone());
            Ok(())
        })
    }

    fn draft<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Draft>, StoreError>> {
        Box::pin(async move { Ok(self.lock().get(session).and_then(|kept| kept.draft.clone())) })
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> BoxFuture<'a, Result<Vec<Head>, StoreError>> {
        Box::pin(async move {
            let prefix = query.prefix.as_deref().unwrap_or("");
            let sessions = self.lock();
            let mut heads: Vec<Head> = sessions
                .iter()
                .filter(|(session, _)| session.starts_with(prefix))
                .map(|(session, kept)| kept.head(session))
                .collect();
            heads.sort_by_key(|head| std::cmp::Reverse(head.updated));
            heads.truncate(query.limit.unwrap_or(usize::MAX));
            Ok(heads)
        })
    }

    fn delete<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut sessions = self.lock();
            if let Some(held) = sessions
                .get(session)
                .and_then(|kept| kept.lease.as_ref())
                .filter(|held| held.live())
            {
                return Err(StoreError::Busy {
                    session: session.to_owned(),
                    holder: this(),
                    since: held.since,
                });
            }
            sessions.remove(session);
            Ok(())
        })
    }
}
