//! The promises of [`Store`], one check each.

mod client;
mod drafts;
mod leases;
mod random;
mod rows;
mod sessions;
mod together;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use rethread_core::{BoxFuture, Store, StoreError};

/// A store with nothing in it, and a way to open it once more.
pub struct StoreFixture {
    store: Arc<dyn Store>,
    reopen: Box<dyn Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync>,
}

impl StoreFixture {
    /// `reopen` gives another handle to the same sessions, as another part of the program would
    /// open it. It can own what must outlive the store, such as a temporary folder.
    pub fn new<S, F, R>(store: S, reopen: F) -> Self
    where
        S: Store + 'static,
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = S> + Send + 'static,
    {
        Self {
            store: Arc::new(store),
            reopen: Box::new(move || {
                let store = reopen();
                Box::pin(async move { Arc::new(store.await) as Arc<dyn Store> })
            }),
        }
    }

    async fn reopen(&self) -> Arc<dyn Store> {
        (self.reopen)().await
    }
}

impl fmt::Debug for StoreFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreFixture").field(&self.store).finish()
    }
}

/// Checks that a store keeps what [`Store`] promises. `make` gives a store with nothing in it; it
/// is called once for every promise.
///
/// To be called on a tokio runtime; one with several threads finds more.
///
/// # Panics
/// When promises are broken; the message names them all.
pub async fn check_store<F, R>(make: F)
where
    F: Fn() -> R,
    R: Future<Output = StoreFixture>,
{
    let mut broken = Vec::new();
    for (promise, check) in checks() {
        let fixture = make().await;
        if let Err(Broken(how)) = check(&fixture).await {
            broken.push(format!("- {promise}: {how}"));
        }
    }
    let report = broken.join("\n");
    assert!(broken.is_empty(), "the store breaks promises:\n{report}");
}

/// How a promise was broken.
#[derive(Debug)]
struct Broken(String);

impl From<StoreError> for Broken {
    fn from(error: StoreError) -> Self {
        let source = std::error::Error::source(&error)
            .map_or_else(String::new, |source| format!(": {source}"));
        Self(format!("unexpected error: {error}{source}"))
    }
}

type Outcome = Result<(), Broken>;
type Check = for<'a> fn(&'a StoreFixture) -> BoxFuture<'a, Outcome>;

/// Goes on only if a condition holds.
macro_rules! promise {
    ($condition:expr, $($how:tt)+) => {
        if !$condition {
            return Err($crate::store_suite::Broken(format!($($how)+)));
        }
    };
}
use promise;

/// Names checks by what they promise.
macro_rules! checks {
    ($($module:ident :: $check:ident),+ $(,)?) => {
        vec![$((
            stringify!($check),
            (|fixture| Box::pin($module::$check(fixture))) as Check,
        )),+]
    };
}

fn checks() -> Vec<(&'static str, Check)> {
    checks![
        sessions::an_unknown_session_is_an_error_and_is_not_made,
        sessions::a_session_is_known_by_its_exact_name,
        sessions::the_summary_row_says_what_commits_told_it,
        sessions::listing_is_newest_first_and_takes_a_prefix_literally,
        sessions::a_deleted_session_is_gone_and_its_leases_with_it,
        sessions::everything_is_there_when_opened_again,
        rows::rows_come_back_in_order_and_byte_for_byte,
        rows::a_row_that_is_no_record_is_set_aside_and_the_rest_read,
        rows::pages_can_be_read_from_both_ends,
        rows::a_large_row_is_kept,
        rows::many_rows_are_one_commit,
        rows::a_commit_at_another_position_writes_nothing,
        leases::one_writer_at_a_time_and_the_other_is_told_who,
        leases::a_forced_claim_fences_the_other_out,
        leases::a_lease_can_be_given_back,
        leases::a_lease_runs_out_and_renewing_makes_it_last,
        leases::a_lease_that_nobody_owns_is_over,
        leases::a_lease_is_good_for_its_own_session_only,
        drafts::a_draft_is_kept_until_it_is_replaced_or_dropped,
        drafts::only_the_holder_of_the_lease_writes_a_draft,
        together::of_many_claims_one_wins,
        together::many_sessions_are_written_at_once,
        together::a_dropped_future_leaves_no_half_commit,
        random::it_does_what_the_in_memory_store_does,
    ]
}
