//! The in-memory store keeps the promises.

use rethread_core::MemoryStore;
use rethread_testkit::{StoreFixture, check_store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_in_memory_store_keeps_its_promises() {
    check_store(async || {
        let store = MemoryStore::new();
        let clone = store.clone();
        StoreFixture::new(store, move || std::future::ready(clone.clone()))
    })
    .await;
}
