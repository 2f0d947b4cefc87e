//! The right to append.

use std::time::Duration;

use rethread_core::{Commit, Lease, StoreError, Timestamp, Writer};

use super::client::{
    CLAIM, FORCE, HOUR, append, bodies, claim, commit, draft, head, is_lost, kind, lease, numbered,
    summary,
};
use super::{Outcome, StoreFixture, promise};

const AT_ONCE: Writer<'static> = Writer::Claim {
    ttl: Duration::ZERO,
    create: true,
    force: false,
};

pub(super) async fn one_writer_at_a_time_and_the_other_is_told_who(
    fixture: &StoreFixture,
) -> Outcome {
    let store = &fixture.store;
    let start = Timestamp::now();
    let held = claim(store, "s", &numbered([1])).await?;
    let before = head(store, "s").await?;
    promise!(before.is_busy(), "the summary row does not say it is busy");
    let Some(info) = &before.lease else {
        promise!(false, "the summary row has no lease");
        return Ok(());
    };
    promise!(info.fence == held.fence, "the row has fence {}", info.fence);
    promise!(
        info.since >= start && info.until >= info.since.after(HOUR),
        "a lease of an hour lasts from {:?} until {:?}",
        info.since,
        info.until
    );
    let refused = append(store, "s", CLAIM, 1, &numbered([2])).await;
    match &refused {
        Err(StoreError::Busy {
            session,
            holder,
            since,
        }) => promise!(
            session == "s" && *holder == info.holder && *since == info.since,
            "the other is told {refused:?}, but the row says {info:?}"
        ),
        other => promise!(false, "a second claim gives {other:?}"),
    }
    promise!(bodies(store, "s").await? == numbered([1]), "it wrote rows");
    let after = head(store, "s").await?;
    promise!(
        format!("{before:?}") == format!("{after:?}"),
        "a refused claim made {before:?} to {after:?}"
    );
    append(store, "s", Writer::Lease(&held), 1, &numbered([2])).await?;
    Ok(())
}

pub(super) async fn a_forced_claim_fences_the_other_out(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let old = claim(store, "s", &numbered([1])).await?;
    let new = lease(append(store, "s", FORCE, 1, &numbered([2])).await?)?;
    promise!(
        new.fence > old.fence,
        "the fence went from {} to {}",
        old.fence,
        new.fence
    );
    let told = summary("completed", 1);
    let late = store
        .commit(Commit {
            summary: Some(&told),
            drop_draft: true,
            release: true,
            ..commit("s", Writer::Lease(&old), 2, &numbered([9]))
        })
        .await;
    promise!(kind(&late) == "fenced", "its commit is: {}", kind(&late));
    let late = store.renew(&old).await;
    promise!(kind(&late) == "fenced", "its renewal is: {}", kind(&late));
    let late = store.set_draft(&old, &draft("late")).await;
    promise!(kind(&late) == "fenced", "its draft is: {}", kind(&late));
    store.release(&old).await?;
    drop(old);
    promise!(
        bodies(store, "s").await? == numbered([1, 2]),
        "the loser wrote rows"
    );
    promise!(store.draft("s").await?.is_none(), "it wrote a draft");
    let now = head(store, "s").await?;
    promise!(
        now.is_busy() && now.state != "completed",
        "the loser changed the row to {now:?}"
    );
    append(store, "s", Writer::Lease(&new), 2, &numbered([3])).await?;
    Ok(())
}

pub(super) async fn a_lease_can_be_given_back(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let mut fences = Vec::new();
    // With a commit.
    let held = claim(store, "s", &numbered([1])).await?;
    let done = store
        .commit(Commit {
            release: true,
            ..commit("s", Writer::Lease(&held), 1, &numbered([2]))
        })
        .await?;
    promise!(
        done.lease.is_none() && done.last == 2,
        "the last commit gives {done:?}"
    );
    fences.push(held.fence);
    let late = append(store, "s", Writer::Lease(&held), 2, &numbered([9])).await;
    promise!(is_lost(&late), "after it the lease still writes");
    promise!(
        is_lost(&store.renew(&held).await),
        "after it the lease can be renewed"
    );
    promise!(
        head(store, "s").await?.lease.is_none(),
        "after it the row has a lease"
    );
    // Alone, and twice.
    let held = lease(append(store, "s", CLAIM, 2, &[]).await?)?;
    fences.push(held.fence);
    store.release(&held).await?;
    store.release(&held).await?;
    promise!(
        head(store, "s").await?.lease.is_none(),
        "after a release the row has a lease"
    );
    // With the claim itself.
    let done = store
        .commit(Commit {
            release: true,
            ..commit("s", CLAIM, 2, &numbered([3]))
        })
        .await?;
    promise!(
        done.lease.is_none() && done.last == 3,
        "a claim that is given back gives {done:?}"
    );
    let held = lease(append(store, "s", CLAIM, 3, &[]).await?)?;
    fences.push(held.fence);
    promise!(fences.is_sorted_by(|a, b| a < b), "fences are {fences:?}");
    Ok(())
}

pub(super) async fn a_lease_runs_out_and_renewing_makes_it_last(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let first = lease(append(store, "s", AT_ONCE, 0, &numbered([1])).await?)?;
    let row = head(store, "s").await?;
    promise!(
        row.lease.as_ref().is_some_and(|lease| !lease.live),
        "a lease of no time is live: {row:?}"
    );
    // Nobody has replaced it, so it is still in force.
    append(store, "s", Writer::Lease(&first), 1, &numbered([2])).await?;
    let longer = Lease {
        ttl: HOUR,
        ..first.clone()
    };
    store.renew(&longer).await?;
    promise!(head(store, "s").await?.is_busy(), "renewing has no effect");
    let second = append(store, "s", CLAIM, 2, &[]).await;
    promise!(
        kind(&second) == "busy",
        "a claim after a renewal is: {}",
        kind(&second)
    );
    // A commit renews too, by the time its lease says.
    append(store, "s", Writer::Lease(&first), 2, &numbered([3])).await?;
    promise!(
        !head(store, "s").await?.is_busy(),
        "a commit with a lease of no time leaves it live"
    );
    let second = lease(append(store, "s", CLAIM, 3, &numbered([4])).await?)?;
    promise!(second.fence > first.fence, "the fence does not grow");
    for late in [
        append(store, "s", Writer::Lease(&first), 4, &numbered([9]))
            .await
            .map(drop),
        store.renew(&longer).await,
    ] {
        promise!(
            kind(&late) == "fenced",
            "the writer whose time ran out is: {}",
            kind(&late)
        );
    }
    promise!(
        bodies(store, "s").await? == numbered(1..=4),
        "the rows are others"
    );
    Ok(())
}

pub(super) async fn a_lease_that_nobody_owns_is_over(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let held = claim(store, "s", &numbered([1])).await?;
    let clone = held.clone();
    drop(held);
    promise!(
        head(store, "s").await?.is_busy(),
        "it is over although a clone is owned"
    );
    drop(clone);
    promise!(
        !head(store, "s").await?.is_busy(),
        "the row says it is live"
    );
    let next = lease(append(store, "s", CLAIM, 1, &numbered([2])).await?)?;
    drop(next);
    append(&fixture.reopen().await, "s", CLAIM, 2, &numbered([3])).await?;
    Ok(())
}

pub(super) async fn a_lease_is_good_for_its_own_session_only(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let one = claim(store, "one", &numbered([1])).await?;
    let two = claim(store, "two", &numbered([1])).await?;
    let wrong = append(store, "two", Writer::Lease(&one), 1, &numbered([9])).await;
    promise!(
        kind(&wrong) == "fenced",
        "the other's commit is: {}",
        kind(&wrong)
    );
    let unknown = append(store, "three", Writer::Lease(&one), 0, &numbered([9])).await;
    promise!(
        is_lost(&unknown),
        "it writes to a session that does not exist"
    );
    promise!(
        bodies(store, "two").await? == numbered([1]),
        "the lease of one session wrote to another"
    );
    store.release(&one).await?;
    append(store, "two", Writer::Lease(&two), 1, &numbered([2])).await?;
    Ok(())
}
