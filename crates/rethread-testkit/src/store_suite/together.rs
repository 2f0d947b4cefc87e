//! Many tasks at once.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use rethread_core::{Lease, Store, StoreError, Writer};

use super::client::{CLAIM, FORCE, all_rows, append, bodies, claim, head, kind, lease, numbered};
use super::{Broken, Outcome, StoreFixture, promise};

fn joined<T>(result: Result<T, tokio::task::JoinError>) -> Result<T, Broken> {
    result.map_err(|error| Broken(format!("a task failed: {error}")))
}

pub(super) async fn of_many_claims_one_wins(fixture: &StoreFixture) -> Outcome {
    const TASKS: u64 = 32;
    let second = fixture.reopen().await;
    for round in 0..5 {
        let session = format!("s{round}");
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| {
                let store = if n % 2 == 0 { &fixture.store } else { &second };
                let (store, session) = (store.clone(), session.clone());
                tokio::spawn(
                    async move { append(&store, &session, CLAIM, 0, &numbered([n])).await },
                )
            })
            .collect();
        // Leases are kept until all have tried: one that is dropped is over.
        let mut results = Vec::new();
        for task in tasks {
            results.push(joined(task.await)?);
        }
        let mut winners = Vec::new();
        for (n, result) in (0..TASKS).zip(&results) {
            match result {
                Ok(_) => winners.push(n),
                Err(StoreError::Busy { .. }) => {}
                Err(other) => promise!(false, "a claim that lost gives {other:?}"),
            }
        }
        promise!(
            winners.len() == 1,
            "{} of {TASKS} claims won",
            winners.len()
        );
        promise!(
            bodies(&fixture.store, &session).await? == numbered(winners),
            "the rows are not those of the winner"
        );
    }
    Ok(())
}

pub(super) async fn many_sessions_are_written_at_once(fixture: &StoreFixture) -> Outcome {
    const SESSIONS: u64 = 50;
    const COMMITS: u64 = 20;
    async fn write(store: Arc<dyn Store>, session: String) -> Result<(), Broken> {
        let held = claim(&store, &session, &[]).await?;
        for n in 0..COMMITS {
            let rows = numbered([2 * n, 2 * n + 1]);
            let done = append(&store, &session, Writer::Lease(&held), 2 * n, &rows).await?;
            promise!(done.last == 2 * n + 2, "the last is {}", done.last);
        }
        store.release(&held).await?;
        Ok(())
    }
    let second = fixture.reopen().await;
    let tasks: Vec<_> = (0..SESSIONS)
        .map(|n| {
            let store = if n % 2 == 0 { &fixture.store } else { &second };
            tokio::spawn(write(store.clone(), format!("s{n}")))
        })
        .collect();
    for task in tasks {
        joined(task.await)??;
    }
    for n in 0..SESSIONS {
        promise!(
            bodies(&second, &format!("s{n}")).await? == numbered(0..2 * COMMITS),
            "session {n} has other rows"
        );
    }
    Ok(())
}

pub(super) async fn a_dropped_future_leaves_no_half_commit(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let mut held = claim(store, "s", &[]).await?;
    let mut last = 0;
    for round in 0..30 {
        let others: Vec<_> = (0..10)
            .map(|n| {
                let (store, session) = (store.clone(), format!("other-{round}-{n}"));
                tokio::spawn(async move { claim(&store, &session, &numbered(1..=3)).await })
            })
            .collect();
        give_up(store, &held, last, round % 4).await;
        for other in others {
            joined(other.await)??;
        }
        // Whatever became of it, the next writer can go on from where the session is then.
        (held, last) = take_over(store).await?;
        promise!(last % 3 == 0, "half a commit was written: {last} rows");
    }
    let expected: Vec<_> = (0..last).map(|n| n % 3).collect();
    let rows = all_rows(store, "s").await?;
    let found: Vec<_> = rows.into_iter().map(|row| row.body).collect();
    promise!(found == numbered(expected), "the rows are others");
    // Nor does a claim that was given up keep others out.
    for _ in 0..10 {
        let row = [];
        let mut future = pin!(append(store, "new", CLAIM, 0, &row));
        let _ = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
    }
    append(store, "new", CLAIM, 0, &numbered([1])).await?;
    promise!(
        bodies(store, "new").await? == numbered([1]),
        "the rows of the new session are others"
    );
    Ok(())
}

/// Polls a commit of three rows some times, and drops it.
async fn give_up(store: &Arc<dyn Store>, held: &Lease, last: u64, polls: usize) {
    let rows = numbered([0, 1, 2]);
    let mut future = pin!(append(store, "s", Writer::Lease(held), last, &rows));
    for _ in 0..polls {
        if future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
        {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn take_over(store: &Arc<dyn Store>) -> Result<(Lease, u64), Broken> {
    let mut last = "";
    for _ in 0..10 {
        let found = head(store, "s").await?.last;
        let claimed = append(store, "s", FORCE, found, &[]).await;
        last = kind(&claimed);
        match claimed {
            Ok(committed) => return Ok((lease(committed)?, found)),
            // What was given up was written just now.
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Broken(format!("a forced claim is ten times: {last}")))
}
