use rethread_stores::SqliteStore;
use rethread_testkit::{StoreFixture, check_store};

async fn fixture() -> StoreFixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::open(&path).await.unwrap();
    StoreFixture::new(store, move || {
        let path = folder.path().join("sessions.db");
        async move { SqliteStore::open(path).await.unwrap() }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_keeps_its_promises_on_many_threads() {
    check_store(fixture).await;
}

#[tokio::test]
async fn it_keeps_its_promises_on_one_thread() {
    check_store(fixture).await;
}
