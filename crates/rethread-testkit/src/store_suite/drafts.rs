//! Drafts.

use rethread_core::{Commit, Draft, Json, Timestamp, Writer};

use super::client::{CLAIM, FORCE, append, claim, commit, draft, head, is_lost, lease, numbered};
use super::{Broken, Outcome, StoreFixture, promise};

pub(super) async fn a_draft_is_kept_until_it_is_replaced_or_dropped(
    fixture: &StoreFixture,
) -> Outcome {
    let store = &fixture.store;
    let held = claim(store, "s", &numbered([1])).await?;
    claim(store, "other", &numbered([1])).await?;
    promise!(store.draft("s").await?.is_none(), "there is one at first");
    let handle = r#"{ "id" : "resp_1" , "n" : 1.50 }"#;
    let first = Draft {
        at: Timestamp(1_234_567),
        text: "Grüße \u{1f9f5} \"\\ \n\t\u{1}".to_owned(),
        handle: Some(Json::parse(handle).map_err(|error| Broken(error.to_string()))?),
    };
    store.set_draft(&held, &first).await?;
    let found = store.draft("s").await?;
    promise!(
        found.as_ref() == Some(&first),
        "{first:?} came back as {found:?}"
    );
    promise!(
        store.draft("other").await?.is_none(),
        "another session has it too"
    );
    let longer = draft(&"x".repeat(100_000));
    store.set_draft(&held, &longer).await?;
    promise!(
        store.draft("s").await?.as_ref() == Some(&longer),
        "the one before was not replaced"
    );
    append(store, "s", Writer::Lease(&held), 1, &numbered([2])).await?;
    promise!(
        fixture.reopen().await.draft("s").await?.as_ref() == Some(&longer),
        "a commit that does not drop it does"
    );
    promise!(head(store, "s").await?.last == 2, "drafts count as records");
    let drop_it = Commit {
        drop_draft: true,
        ..commit("s", Writer::Lease(&held), 2, &[])
    };
    store.commit(drop_it).await?;
    promise!(store.draft("s").await?.is_none(), "it was not dropped");
    Ok(())
}

pub(super) async fn only_the_holder_of_the_lease_writes_a_draft(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let old = claim(store, "s", &numbered([1])).await?;
    store.set_draft(&old, &draft("old")).await?;
    let new = lease(append(store, "s", FORCE, 1, &[]).await?)?;
    let late = store.set_draft(&old, &draft("late")).await;
    promise!(is_lost(&late), "who lost the lease wrote it");
    promise!(
        store.draft("s").await? == Some(draft("old")),
        "a takeover does not leave the draft there was"
    );
    store.release(&new).await?;
    let late = store.set_draft(&new, &draft("late")).await;
    promise!(is_lost(&late), "who gave the lease back wrote it");
    let drop_it = Commit {
        drop_draft: true,
        ..commit("s", CLAIM, 1, &[])
    };
    let new = lease(store.commit(drop_it).await?)?;
    promise!(
        store.draft("s").await?.is_none(),
        "a claim does not drop it"
    );
    store.set_draft(&new, &draft("new")).await?;
    Ok(())
}
