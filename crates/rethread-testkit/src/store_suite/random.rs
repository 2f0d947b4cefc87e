//! Random histories, beside the in-memory store as the model.

use std::sync::Arc;
use std::time::Duration;

use rethread_core::{
    Commit, Committed, Lease, ListQuery, MemoryStore, Store, StoreError, Summary, Writer,
};

use super::client::{HOUR, all_rows, draft, kind, numbered, summary};
use super::{Broken, Outcome, StoreFixture, promise};

const HISTORIES: u64 = 12;
const STEPS: usize = 60;

pub(super) async fn it_does_what_the_in_memory_store_does(fixture: &StoreFixture) -> Outcome {
    let second = fixture.reopen().await;
    for seed in 0..HISTORIES {
        let mut pair = Pair {
            stores: [fixture.store.clone(), second.clone()],
            model: Arc::new(MemoryStore::new()),
            names: [format!("{seed}-a"), format!("{seed}-b")],
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            leases: Vec::new(),
        };
        let mut done = Vec::new();
        for _ in 0..STEPS {
            let step = pair.step().await;
            done.push(step.what);
            if let Err(Broken(how)) = step.outcome {
                let done = done.join("; ");
                return Err(Broken(format!("{how} (seed {seed}, steps: {done})")));
            }
        }
    }
    Ok(())
}

/// The same sessions in the store, through two handles, and in the model.
struct Pair {
    stores: [Arc<dyn Store>; 2],
    model: Arc<dyn Store>,
    names: [String; 2],
    dice: Dice,
    /// Leases of the store and of the model, also those that are no longer in force.
    leases: Vec<(Lease, Lease)>,
}

struct Step {
    what: String,
    outcome: Outcome,
}

impl Pair {
    async fn step(&mut self) -> Step {
        let store = self.pick(|pair| pair.stores.to_vec());
        let session = self.pick(|pair| pair.names.to_vec());
        let lease = match self.leases.len() as u64 {
            0 => None,
            count => self.leases.get(self.dice.below(count) as usize).cloned(),
        };
        let (what, outcome) = match (self.dice.below(20), lease) {
            (0..=5, _) | (_, None) => self.claim(&store, &session).await,
            (6..=11, Some(lease)) => self.append(&store, lease).await,
            (12..=13, Some((ours, models))) => (
                format!("renew {}", ours.fence),
                same(&store.renew(&ours).await, &self.model.renew(&models).await),
            ),
            (14, Some((ours, models))) => (
                format!("release {}", ours.fence),
                same(
                    &store.release(&ours).await,
                    &self.model.release(&models).await,
                ),
            ),
            (15..=16, Some((ours, models))) => {
                let draft = draft(&format!("draft {}", self.dice.below(1000)));
                let results = (
                    store.set_draft(&ours, &draft).await,
                    self.model.set_draft(&models, &draft).await,
                );
                (
                    format!("draft {}", ours.fence),
                    same(&results.0, &results.1),
                )
            }
            (17..=18, Some((ours, _))) => {
                self.leases.retain(|(lease, _)| lease.fence != ours.fence);
                (format!("drop {}", ours.fence), Ok(()))
            }
            (_, Some(_)) => (
                format!("delete {session}"),
                same(
                    &store.delete(&session).await,
                    &self.model.delete(&session).await,
                ),
            ),
        };
        Step {
            what,
            outcome: match outcome {
                Ok(()) => self.compare(&store, &session).await,
                broken => broken,
            },
        }
    }

    async fn claim(&mut self, store: &Arc<dyn Store>, session: &str) -> (String, Outcome) {
        let ttl = if self.dice.one_in(3) {
            Duration::ZERO
        } else {
            HOUR
        };
        let writer = Writer::Claim {
            ttl,
            create: !self.dice.one_in(4),
            force: self.dice.one_in(4),
        };
        let plan = self.plan(session).await;
        let what = format!("claim {session} {writer:?} {plan:?}");
        let results = (
            store.commit(plan.commit(session, writer)).await,
            self.model.commit(plan.commit(session, writer)).await,
        );
        (what, self.committed(results))
    }

    async fn append(&mut self, store: &Arc<dyn Store>, lease: (Lease, Lease)) -> (String, Outcome) {
        let (ours, models) = lease;
        let session = ours.session.to_string();
        let plan = self.plan(&session).await;
        let what = format!("append {} {plan:?}", ours.fence);
        let results = (
            store
                .commit(plan.commit(&session, Writer::Lease(&ours)))
                .await,
            self.model
                .commit(plan.commit(&session, Writer::Lease(&models)))
                .await,
        );
        (what, self.committed(results))
    }

    fn committed(
        &mut self,
        (ours, models): (Result<Committed, StoreError>, Result<Committed, StoreError>),
    ) -> Outcome {
        same(&ours, &models)?;
        if let (Ok(ours), Ok(models)) = (ours, models) {
            promise!(
                ours.last == models.last && ours.lease.is_some() == models.lease.is_some(),
                "a commit gives {ours:?}, expected is {models:?}"
            );
            if let (Some(ours), Some(models)) = (ours.lease, models.lease) {
                self.leases.push((ours, models));
            }
        }
        Ok(())
    }

    /// What to commit, mostly at the right position.
    async fn plan(&mut self, session: &str) -> Plan {
        let last = self
            .model
            .head(session)
            .await
            .ok()
            .flatten()
            .map_or(0, |head| head.last);
        let after = match self.dice.below(8) {
            0 => last + 1,
            1 => last.saturating_sub(1),
            _ => last,
        };
        let rows = self.dice.below(4);
        let first = self.dice.below(1000);
        Plan {
            after,
            rows: numbered(first..first + rows),
            summary: self.dice.one_in(2).then(|| Summary {
                title: self.dice.one_in(2).then(|| format!("title {first}")),
                load_from: self.dice.one_in(3).then_some(last),
                ..summary(&format!("state {}", first % 7), rows)
            }),
            drop_draft: self.dice.one_in(3),
            release: self.dice.one_in(4),
        }
    }

    /// Compares all that can be read of the session.
    async fn compare(&self, store: &Arc<dyn Store>, session: &str) -> Outcome {
        let of = async |store: &Arc<dyn Store>| -> Result<String, Broken> {
            let head = store.head(session).await?.map(|head| {
                (
                    (head.last, head.load_from, head.messages, head.state.clone()),
                    (head.title.clone(), head.lease.is_some(), head.is_busy()),
                )
            });
            let rows = all_rows(store, session).await;
            let rows = rows.as_ref().map_err(|_| kind(&rows));
            let draft = store.draft(session).await?;
            let query = ListQuery {
                prefix: Some(session.to_owned()),
                limit: None,
            };
            let listed = store.list(&query).await?.len();
            Ok(format!("{head:?}, {draft:?}, {listed} listed, {rows:?}"))
        };
        let (ours, models) = (of(store).await?, of(&self.model).await?);
        promise!(
            ours == models,
            "`{session}` is {ours}, expected is {models}"
        );
        Ok(())
    }

    fn pick<T>(&mut self, from: impl Fn(&Self) -> Vec<T>) -> T {
        let mut from = from(self);
        let at = self.dice.below(from.len() as u64) as usize;
        from.swap_remove(at)
    }
}

#[derive(Debug)]
struct Plan {
    after: u64,
    rows: Vec<Vec<u8>>,
    summary: Option<Summary>,
    drop_draft: bool,
    release: bool,
}

impl Plan {
    fn commit<'a>(&'a self, session: &'a str, writer: Writer<'a>) -> Commit<'a> {
        Commit {
            session,
            writer,
            after: self.after,
            rows: &self.rows,
            summary: self.summary.as_ref(),
            drop_draft: self.drop_draft,
            release: self.release,
        }
    }
}

/// Whether two stores gave the same answer. Of a session that was deleted, a writer may be told
/// either that there is none or that it lost the lease.
fn same<T, U>(ours: &Result<T, StoreError>, models: &Result<U, StoreError>) -> Outcome {
    let (ours, models) = (kind(ours), kind(models));
    let lost = ["fenced", "not found"];
    promise!(
        ours == models || (lost.contains(&ours) && lost.contains(&models)),
        "the answer is: {ours}, expected is: {models}"
    );
    Ok(())
}

/// Numbers that are the same in every run (xorshift64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}
