//! The promises every store keeps, and those of this one alone.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use rethread_core::{
    Commit, Entry, Lease, Message, Page, Record, Row, Store, StoreError, Summary, Timestamp, Writer,
};
use rethread_stores::{SqliteOptions, SqliteStore, Synchronous};
use rethread_testkit::{StoreFixture, check_store};

pub(crate) const CLAIM: Writer<'static> = Writer::Claim {
    ttl: Duration::from_secs(3600),
    create: true,
    force: false,
};

/// The answer of a store that nobody else writes to: there when it is first asked for, without a
/// runtime.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the store needs more than one poll"),
    }
}

pub(crate) fn commit<'a>(
    session: &'a str,
    writer: Writer<'a>,
    after: u64,
    rows: &'a [Vec<u8>],
) -> Commit<'a> {
    Commit {
        session,
        writer,
        after,
        rows,
        summary: None,
        drop_draft: false,
        release: false,
    }
}

pub(crate) fn record(text: &str) -> Vec<u8> {
    Record::encode(Timestamp(1), &Entry::message(Message::user(text))).unwrap()
}

pub(crate) fn claim(store: &SqliteStore, session: &str, rows: &[Vec<u8>]) -> Lease {
    let committed = at_once(store.commit(commit(session, CLAIM, 0, rows)));
    committed.unwrap().lease.unwrap()
}

pub(crate) fn rows(store: &SqliteStore, session: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let seq = rows.last().map_or(0, |row| row.seq);
        let page = at_once(store.read(session, Page::After { seq, limit: 100 })).unwrap();
        if page.is_empty() {
            return rows;
        }
        rows.extend(page);
    }
}

/// The message of an error and of what caused it.
pub(crate) fn told(error: &StoreError) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", source.unwrap_or_default())
}

async fn fixture() -> StoreFixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::open(&path).await.unwrap();
    StoreFixture::new(store, move || {
        let path = folder.path().join("sessions.db");
        async move { SqliteStore::open(path).await.unwrap() }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn it_keeps_its_promises_on_many_threads() {
    check_store(fixture).await;
}

#[tokio::test]
async fn it_keeps_its_promises_on_one_thread() {
    check_store(fixture).await;
}

#[test]
fn it_needs_no_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_blocking(folder.path().join("s.db")).unwrap();
    let lease = claim(&store, "s", &[record("1")]);
    at_once(store.commit(commit("s", Writer::Lease(&lease), 1, &[record("2")]))).unwrap();
    at_once(store.renew(&lease)).unwrap();
    at_once(store.release(&lease)).unwrap();
    assert_eq!(rows(&store, "s").len(), 2);
    assert_eq!(at_once(store.head("s")).unwrap().unwrap().last, 2);
    at_once(store.delete("s")).unwrap();
}

/// Tasks that are ready at the same time share a transaction even on a runtime with one thread.
#[tokio::test]
async fn many_sessions_share_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let mut leases = Vec::new();
    for n in 0..100 {
        let name = format!("s{n}");
        let committed = store.commit(commit(&name, CLAIM, 0, &[])).await.unwrap();
        leases.push(committed.lease.unwrap());
    }
    let log = || {
        std::fs::metadata(folder.path().join("s.db-wal"))
            .unwrap()
            .len()
    };
    let before = log();
    let tasks: Vec<_> = leases
        .into_iter()
        .map(|lease| {
            let store = store.clone();
            tokio::spawn(async move {
                let writer = Writer::Lease(&lease);
                let rows = [record("x")];
                store
                    .commit(commit(&lease.session, writer, 0, &rows))
                    .await
                    .unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    // Alone each writes at least two pages of 4 KiB.
    let written = log() - before;
    assert!(written < 100 * 4096, "{written} bytes for 100 commits");
}

#[test]
fn one_that_cannot_be_written_does_not_spoil_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open_blocking(&path).unwrap();
    let leases: Vec<_> = (0..3)
        .map(|n| claim(&store, &format!("s{n}"), &[]))
        .collect();
    // A row that is in the way, which the summary row knows nothing of.
    let other = rusqlite::Connection::open(&path).unwrap();
    let id = "(SELECT id FROM sessions WHERE name = 's1')";
    other
        .execute_batch(&format!(
            "INSERT INTO records VALUES({id} << 32 | 2, '{{}}')"
        ))
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let results = runtime.block_on(async {
        let tasks = leases.into_iter().map(|lease| {
            let store = store.clone();
            tokio::spawn(async move {
                let rows = [record("x"), record("y")];
                store
                    .commit(commit(&lease.session, Writer::Lease(&lease), 0, &rows))
                    .await
            })
        });
        let mut results = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            results.push(task.await.unwrap().map(|committed| committed.last));
        }
        results
    });
    assert!(
        matches!(
            results.as_slice(),
            [
                Ok(2),
                Err(StoreError::Io {
                    action: "writing",
                    ..
                }),
                Ok(2)
            ]
        ),
        "{results:?}"
    );
    assert_eq!(rows(&store, "s0").len(), 2);
    assert_eq!(at_once(store.head("s1")).unwrap().unwrap().last, 0);
}

#[test]
fn pages_are_bounded_in_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_blocking(folder.path().join("s.db")).unwrap();
    let large = record(&"x".repeat(300_000));
    claim(&store, "s", &vec![large; 20]);
    let all = Page::After {
        seq: 0,
        limit: usize::MAX,
    };
    assert!(at_once(store.read("s", all)).unwrap().len() < 6);
    assert_eq!(rows(&store, "s").len(), 20);
}

#[test]
fn without_full_durability_it_does_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new().synchronous(Synchronous::Normal);
    let store = options.open(folder.path().join("s.db")).unwrap();
    claim(&store, "s", &[record("1")]);
    assert_eq!(rows(&store, "s").len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever the bytes, also those no record has.
    #[test]
    fn bytes_come_back_as_they_were(
        bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..6000), 1..20)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_blocking(folder.path().join("s.db")).unwrap();
        claim(&store, "s", &bodies);
        let found: Vec<_> = rows(&store, "s").into_iter().map(|row| row.body).collect();
        prop_assert_eq!(found, bodies);
    }
}

#[test]
fn a_store_is_shared_by_its_clones_and_can_be_sent() {
    fn is_shared<T: Send + Sync + Clone + std::fmt::Debug + 'static>(_: &T) {}
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open_blocking(&path).unwrap();
    is_shared(&store);
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let _held = claim(&store, "s", &[record("1")]);
    assert!(at_once(shared.head("s")).unwrap().unwrap().is_busy());
    assert_eq!(store.path(), path);
}

#[test]
fn a_title_and_a_state_are_what_the_last_commit_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open_blocking(&path).unwrap();
    for (n, state) in ["completed", "recover_tools", "recover_tools"]
        .iter()
        .enumerate()
    {
        let summary = Summary {
            state: (*state).to_owned(),
            ..Summary::default()
        };
        let name = format!("s{n}");
        let told = Commit {
            summary: Some(&summary),
            ..commit(&name, CLAIM, 0, &[])
        };
        at_once(store.commit(told)).unwrap();
    }
    // As the schema page says it can be asked for.
    let interrupted: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row(
            "SELECT count(*) FROM sessions WHERE state NOT IN ('completed', 'empty')",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(interrupted, 2);
}
