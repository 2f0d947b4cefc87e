//! Summary rows, listing, deletion.

use rethread_core::{Commit, Head, ListQuery, Page, Summary, Writer};

use super::client::{
    CLAIM, HOUR, append, bodies, claim, commit, draft, head, is_lost, kind, numbered, summary,
    until_later_than,
};
use super::{Outcome, StoreFixture, promise};

pub(super) async fn an_unknown_session_is_an_error_and_is_not_made(
    fixture: &StoreFixture,
) -> Outcome {
    let store = &fixture.store;
    let page = Page::After { seq: 0, limit: 9 };
    let read = store.read("s", page).await;
    promise!(kind(&read) == "not found", "reading it is: {}", kind(&read));
    promise!(store.head("s").await?.is_none(), "it has a summary row");
    promise!(store.draft("s").await?.is_none(), "it has a draft");
    store.delete("s").await?;
    let resume = Writer::Claim {
        ttl: HOUR,
        create: false,
        force: true,
    };
    let claimed = append(store, "s", resume, 0, &numbered([1])).await;
    promise!(
        kind(&claimed) == "not found",
        "a claim that makes nothing is: {}",
        kind(&claimed)
    );
    let claimed = append(store, "s", CLAIM, 1, &numbered([1])).await;
    promise!(
        kind(&claimed) == "conflict",
        "a claim after a row it does not have is: {}",
        kind(&claimed)
    );
    promise!(store.head("s").await?.is_none(), "a refused claim made it");
    let listed = store.list(&ListQuery::default()).await?;
    promise!(listed.is_empty(), "an empty store lists {listed:?}");
    Ok(())
}

pub(super) async fn a_session_is_known_by_its_exact_name(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let long = "long ".repeat(60);
    let names = [
        "a", "A", " a", "a ", ".", "..", "../a", "a/b", "a\\b", "a:b", "a%2Fb", "a*", "a?", "a'b",
        "a\"b", "a\nb", "%", "_", "-", "CON", "日本", "é", "e\u{301}", "🧵", &long,
    ];
    for (n, name) in (0..).zip(names) {
        claim(store, name, &numbered(0..n)).await?;
    }
    for (n, name) in (0..).zip(names) {
        let found = head(store, name).await?;
        promise!(
            found.session == name,
            "`{name}` is called `{}`",
            found.session
        );
        let rows = bodies(store, name).await?;
        promise!(
            rows == numbered(0..n),
            "`{name}` has other rows than its own"
        );
    }
    let listed = store.list(&ListQuery::default()).await?;
    promise!(
        listed.len() == names.len(),
        "of {} sessions {} are listed",
        names.len(),
        listed.len()
    );
    Ok(())
}

pub(super) async fn the_summary_row_says_what_commits_told_it(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let first = Summary {
        state: "call_model".to_owned(),
        title: Some("Über\u{0}alles".replace('\u{0}', " ")),
        load_from: Some(2),
        messages: 2,
    };
    let rows = numbered([1, 2, 3]);
    let lease = store
        .commit(Commit {
            summary: Some(&first),
            ..commit("s", CLAIM, 0, &rows)
        })
        .await?;
    let lease = super::client::lease(lease)?;
    let made = head(store, "s").await?;
    promise!(
        (made.last, made.load_from, made.messages) == (3, 2, 2),
        "after the first commit it is {made:?}"
    );
    promise!(made.state == "call_model", "the state is {}", made.state);
    promise!(made.title == first.title, "the title is {:?}", made.title);
    promise!(
        made.created <= made.updated && made.created.0 > 0,
        "it was made at {:?} and changed at {:?}",
        made.created,
        made.updated
    );
    until_later_than(&made);
    append(store, "s", Writer::Lease(&lease), 3, &numbered([4])).await?;
    let kept = head(store, "s").await?;
    promise!(
        (
            kept.last,
            kept.load_from,
            kept.messages,
            &kept.state,
            &kept.title
        ) == (4, 2, 2, &made.state, &made.title),
        "a commit that says nothing of it made it {kept:?}"
    );
    promise!(
        kept.updated > made.updated && kept.created == made.created,
        "a later commit left the times {:?} and {:?}",
        kept.created,
        kept.updated
    );
    store
        .commit(Commit {
            summary: Some(&summary("completed", 5)),
            ..commit("s", Writer::Lease(&lease), 4, &[])
        })
        .await?;
    let last = head(store, "s").await?;
    promise!(
        (last.last, last.load_from, last.messages) == (4, 2, 7),
        "messages are not added up, or others not left: {last:?}"
    );
    promise!(
        last.state == "completed" && last.title == first.title,
        "the state is {} and the title {:?}",
        last.state,
        last.title
    );
    Ok(())
}

pub(super) async fn listing_is_newest_first_and_takes_a_prefix_literally(
    fixture: &StoreFixture,
) -> Outcome {
    let store = &fixture.store;
    let names = ["job-1", "job_2", "job%", "Job", "jo", "job-日", "x"];
    for name in names {
        claim(store, name, &numbered([1])).await?;
        until_later_than(&head(store, name).await?);
    }
    let names_of = |heads: &[Head]| {
        let names = heads.iter().map(|head| head.session.clone());
        names.collect::<Vec<_>>()
    };
    let list = async |prefix: Option<&str>, limit| {
        let query = ListQuery {
            prefix: prefix.map(str::to_owned),
            limit,
        };
        store.list(&query).await
    };
    let all = list(None, None).await?;
    let newest_first: Vec<_> = names.iter().rev().map(ToString::to_string).collect();
    promise!(
        names_of(&all) == newest_first,
        "listed are {:?}",
        names_of(&all)
    );
    for (prefix, limit, expected) in [
        (Some("job"), None, vec!["job-日", "job%", "job_2", "job-1"]),
        (Some("job"), Some(2), vec!["job-日", "job%"]),
        (Some("job_"), None, vec!["job_2"]),
        (Some("job%"), None, vec!["job%"]),
        (Some("job-"), Some(9), vec!["job-日", "job-1"]),
        (Some("*"), None, vec![]),
        (Some(""), Some(1), vec!["x"]),
        (None, Some(0), vec![]),
    ] {
        let found = names_of(&list(prefix, limit).await?);
        promise!(
            found == expected,
            "with prefix {prefix:?} and limit {limit:?} listed are {found:?}"
        );
    }
    for listed in all {
        let found = head(store, &listed.session).await?;
        promise!(
            format!("{listed:?}") == format!("{found:?}"),
            "listed is {listed:?}, but the row is {found:?}"
        );
    }
    Ok(())
}

pub(super) async fn a_deleted_session_is_gone_and_its_leases_with_it(
    fixture: &StoreFixture,
) -> Outcome {
    let store = &fixture.store;
    let other = claim(store, "other", &numbered([7])).await?;
    let lease = claim(store, "s", &numbered([1, 2])).await?;
    store.set_draft(&lease, &draft("half")).await?;
    let refused = store.delete("s").await;
    promise!(
        kind(&refused) == "busy",
        "deleting it while it is written is: {}",
        kind(&refused)
    );
    store.release(&lease).await?;
    store.delete("s").await?;
    promise!(store.head("s").await?.is_none(), "it has a summary row");
    promise!(store.draft("s").await?.is_none(), "it has a draft");
    let page = Page::After { seq: 0, limit: 9 };
    let read = store.read("s", page).await;
    promise!(kind(&read) == "not found", "reading it is: {}", kind(&read));
    promise!(
        is_lost(&store.renew(&lease).await),
        "its lease can be renewed"
    );
    let new = claim(store, "s", &numbered([3])).await?;
    promise!(
        bodies(store, "s").await? == numbered([3]),
        "made again it has rows of before"
    );
    promise!(
        store.draft("s").await?.is_none(),
        "made again it has a draft"
    );
    let written = append(store, "s", Writer::Lease(&lease), 1, &numbered([4])).await;
    promise!(is_lost(&written), "a lease of before writes to it");
    promise!(
        is_lost(&store.set_draft(&lease, &draft("old")).await),
        "a lease of before writes its draft"
    );
    store.release(&lease).await?;
    append(store, "s", Writer::Lease(&new), 1, &numbered([4])).await?;
    append(store, "other", Writer::Lease(&other), 1, &numbered([8])).await?;
    promise!(
        bodies(store, "other").await? == numbered([7, 8]),
        "another session was changed"
    );
    Ok(())
}

pub(super) async fn everything_is_there_when_opened_again(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let told = Summary {
        title: Some("T".to_owned()),
        load_from: Some(1),
        ..summary("retry_response", 2)
    };
    let rows = numbered([1, 2]);
    let committed = store
        .commit(Commit {
            summary: Some(&told),
            ..commit("s", CLAIM, 0, &rows)
        })
        .await?;
    let lease = super::client::lease(committed)?;
    store.set_draft(&lease, &draft("half")).await?;

    let again = fixture.reopen().await;
    let (before, after) = (head(store, "s").await?, head(&again, "s").await?);
    promise!(
        format!("{before:?}") == format!("{after:?}"),
        "the row was {before:?} and is {after:?}"
    );
    promise!(bodies(&again, "s").await? == rows, "the rows are others");
    let found = again.draft("s").await?;
    promise!(found == Some(draft("half")), "the draft is {found:?}");
    let second = append(&again, "s", CLAIM, 2, &[]).await;
    promise!(
        kind(&second) == "busy",
        "a claim there, while the lease is held here, is: {}",
        kind(&second)
    );
    append(&again, "s", Writer::Lease(&lease), 2, &numbered([3])).await?;
    promise!(
        bodies(store, "s").await? == numbered([1, 2, 3]),
        "what is written there is not seen here"
    );
    Ok(())
}
