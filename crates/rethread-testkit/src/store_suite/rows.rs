//! Rows and their positions.

use rethread_core::{Commit, Entry, History, Message, Page, Record, StoreError, Timestamp, Writer};

use super::client::{
    CLAIM, all_rows, append, bodies, claim, commit, draft, head, numbered, summary,
};
use super::{Broken, Outcome, StoreFixture, promise};

pub(super) async fn rows_come_back_in_order_and_byte_for_byte(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let rows: Vec<Vec<u8>> = [
        r#"{"at":1,"text":"plain"}"#,
        r#"{ "at" : 1 , "number" : 1.0e2 , "twice":1,"twice":2 }"#,
        r#"{"at":1,"text":"é \u00e9 🧵 \ud83e\uddf5 日本 \u2028   \u0000 \u0001 \/ \\"}"#,
        r#"{"at":1,"text":"a lone surrogate \ud83d and \"quotes\" 'single' -- ; $1 ?1 %s"}"#,
        "{}",
        "not JSON at all",
        "5",
        "null",
        "9007199254740993",
    ]
    .map(|row| row.as_bytes().to_vec())
    .into();
    let lease = claim(store, "s", &rows).await?;
    for (n, row) in (0..).zip(&rows) {
        let after = rows.len() as u64 + n;
        append(
            store,
            "s",
            Writer::Lease(&lease),
            after,
            std::slice::from_ref(row),
        )
        .await?;
    }
    let expected = [rows.clone(), rows].concat();
    for (seq, (expected, found)) in (1..).zip(expected.iter().zip(bodies(store, "s").await?)) {
        promise!(
            *expected == found,
            "row {seq} was {:?} and came back as {:?}",
            String::from_utf8_lossy(expected),
            String::from_utf8_lossy(&found)
        );
    }
    Ok(())
}

pub(super) async fn a_row_that_is_no_record_is_set_aside_and_the_rest_read(
    fixture: &StoreFixture,
) -> Outcome {
    let store = &fixture.store;
    let record = |text: &str| {
        Record::encode(Timestamp(1), &Entry::message(Message::user(text)))
            .map_err(|error| Broken(error.to_string()))
    };
    let rows = [record("one")?, b"{torn".to_vec(), record("three")?];
    claim(store, "s", &rows).await?;
    let history = History::from_rows(&all_rows(store, "s").await?);
    let read: Vec<_> = history.records().iter().map(|record| record.seq).collect();
    let aside: Vec<_> = history
        .problems()
        .iter()
        .map(|problem| problem.at)
        .collect();
    promise!(
        (read.as_slice(), aside.as_slice()) == (&[1, 3], &[2]),
        "read are {read:?}, set aside {aside:?}"
    );
    Ok(())
}

pub(super) async fn pages_can_be_read_from_both_ends(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    claim(store, "a", &numbered(1..=3)).await?;
    claim(store, "s", &numbered(1..=10)).await?;
    claim(store, "z", &numbered(1..=3)).await?;
    claim(store, "none", &[]).await?;
    let end = u64::MAX;
    for (session, page, expected) in [
        ("s", Page::After { seq: 0, limit: 3 }, vec![1, 2, 3]),
        ("s", Page::After { seq: 8, limit: 5 }, vec![9, 10]),
        ("s", Page::After { seq: 10, limit: 5 }, vec![]),
        ("s", Page::After { seq: end, limit: 5 }, vec![]),
        (
            "s",
            Page::After {
                seq: 0,
                limit: usize::MAX,
            },
            (1..=10).collect(),
        ),
        ("s", Page::After { seq: 0, limit: 0 }, vec![]),
        ("s", Page::Before { seq: end, limit: 3 }, vec![10, 9, 8]),
        ("s", Page::Before { seq: 11, limit: 1 }, vec![10]),
        ("s", Page::Before { seq: 3, limit: 5 }, vec![2, 1]),
        ("s", Page::Before { seq: 1, limit: 5 }, vec![]),
        ("s", Page::Before { seq: 0, limit: 5 }, vec![]),
        (
            "s",
            Page::Before {
                seq: end,
                limit: usize::MAX,
            },
            (1..=10).rev().collect(),
        ),
        (
            "s",
            Page::Before {
                seq: 1 << 32,
                limit: 1,
            },
            vec![10],
        ),
        (
            "s",
            Page::After {
                seq: 1 << 32,
                limit: 1,
            },
            vec![],
        ),
        ("none", Page::After { seq: 0, limit: 5 }, vec![]),
        ("none", Page::Before { seq: end, limit: 5 }, vec![]),
    ] {
        let rows = store.read(session, page).await?;
        let seqs: Vec<_> = rows.iter().map(|row| row.seq).collect();
        promise!(seqs == expected, "{page:?} of `{session}` gives {seqs:?}");
        let bodies: Vec<_> = rows.into_iter().map(|row| row.body).collect();
        promise!(
            bodies == numbered(expected),
            "{page:?} of `{session}` gives other rows"
        );
    }
    Ok(())
}

pub(super) async fn a_large_row_is_kept(fixture: &StoreFixture) -> Outcome {
    const SIZE: usize = 16 << 20;
    let store = &fixture.store;
    let large = |fill: char| {
        let text = fill.to_string().repeat(SIZE / fill.len_utf8());
        format!(r#"{{"at":1,"text":"{text}"}}"#).into_bytes()
    };
    let rows = [numbered([1]), vec![large('x'), large('日')], numbered([4])].concat();
    claim(store, "s", &rows).await?;
    for (way, page) in [
        ("first", Page::After { seq: 1, limit: 100 }),
        ("last", Page::Before { seq: 4, limit: 100 }),
    ] {
        let page = store.read("s", page).await?;
        promise!(!page.is_empty(), "the {way} large row is not given");
    }
    promise!(bodies(store, "s").await? == rows, "the rows are others");
    Ok(())
}

pub(super) async fn many_rows_are_one_commit(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let lease = claim(store, "s", &numbered(1..=3000)).await?;
    let done = append(
        store,
        "s",
        Writer::Lease(&lease),
        3000,
        &numbered(3001..=6000),
    )
    .await?;
    promise!(done.last == 6000, "the last is {}", done.last);
    promise!(done.lease.is_none(), "a lease is given twice");
    promise!(head(store, "s").await?.last == 6000, "the row says less");
    promise!(
        bodies(store, "s").await? == numbered(1..=6000),
        "the rows are others"
    );
    Ok(())
}

pub(super) async fn a_commit_at_another_position_writes_nothing(fixture: &StoreFixture) -> Outcome {
    let store = &fixture.store;
    let told = summary("call_model", 2);
    let rows = numbered([1, 2]);
    let committed = store
        .commit(Commit {
            summary: Some(&told),
            ..commit("s", CLAIM, 0, &rows)
        })
        .await?;
    let lease = super::client::lease(committed)?;
    store.set_draft(&lease, &draft("half")).await?;
    let before = head(store, "s").await?;
    let other = summary("completed", 9);
    let more = numbered([8, 9]);
    for after in [0, 1, 3, u64::MAX] {
        let result = store
            .commit(Commit {
                summary: Some(&other),
                drop_draft: true,
                release: true,
                ..commit("s", Writer::Lease(&lease), after, &more)
            })
            .await;
        promise!(
            matches!(
                &result,
                Err(StoreError::Conflict { expected, found: 2, session })
                    if *expected == after && session == "s"
            ),
            "a commit after {after} gives {result:?}"
        );
        let now = head(store, "s").await?;
        promise!(
            format!("{before:?}") == format!("{now:?}"),
            "a refused commit made {before:?} to {now:?}"
        );
        promise!(bodies(store, "s").await? == rows, "it wrote rows");
        promise!(store.draft("s").await?.is_some(), "it dropped the draft");
    }
    append(store, "s", Writer::Lease(&lease), 2, &more).await?;
    store.release(&lease).await?;
    let claimed = append(store, "s", CLAIM, 2, &more).await;
    promise!(
        matches!(
            claimed,
            Err(StoreError::Conflict {
                expected: 2,
                found: 4,
                ..
            })
        ),
        "a claim after 2 of 4 gives {claimed:?}"
    );
    promise!(
        head(store, "s").await?.lease.is_none(),
        "a refused claim took the lease"
    );
    Ok(())
}
