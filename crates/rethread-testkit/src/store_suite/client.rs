//! Short ways to say what a check does.

use std::sync::Arc;
use std::time::Duration;

use rethread_core::{
    Commit, Committed, Draft, Head, Lease, Page, Row, Store, StoreError, Summary, Timestamp, Writer,
};

use super::Broken;

/// Long enough never to run out during a check.
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// A claim of a session that may not exist yet.
pub(super) const CLAIM: Writer<'static> = Writer::Claim {
    ttl: HOUR,
    create: true,
    force: false,
};

/// A claim that takes the lease from whoever has it.
pub(super) const FORCE: Writer<'static> = Writer::Claim {
    ttl: HOUR,
    create: false,
    force: true,
};

/// Rows that say a number.
pub(super) fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    let row = |n| format!(r#"{{"at":1,"row":{n}}}"#).into_bytes();
    numbers.into_iter().map(row).collect()
}

/// A commit that only appends.
pub(super) fn commit<'a>(
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

/// A summary with a state.
pub(super) fn summary(state: &str, messages: u64) -> Summary {
    Summary {
        state: state.to_owned(),
        messages,
        ..Summary::default()
    }
}

pub(super) fn draft(text: &str) -> Draft {
    Draft {
        at: Timestamp(5),
        text: text.to_owned(),
        handle: None,
    }
}

/// Waits, without sleeping, until the clock shows a later time than the session's row.
pub(super) fn until_later_than(head: &Head) {
    while Timestamp::now() <= head.updated {
        std::hint::spin_loop();
    }
}

pub(super) async fn append(
    store: &Arc<dyn Store>,
    session: &str,
    writer: Writer<'_>,
    after: u64,
    rows: &[Vec<u8>],
) -> Result<Committed, StoreError> {
    store.commit(commit(session, writer, after, rows)).await
}

/// Claims a session, with rows.
pub(super) async fn claim(
    store: &Arc<dyn Store>,
    session: &str,
    rows: &[Vec<u8>],
) -> Result<Lease, Broken> {
    let committed = append(store, session, CLAIM, 0, rows).await?;
    if committed.last != rows.len() as u64 {
        return Err(Broken(format!(
            "after {} rows the commit says that {} is the last",
            rows.len(),
            committed.last
        )));
    }
    lease(committed)
}

pub(super) fn lease(committed: Committed) -> Result<Lease, Broken> {
    committed
        .lease
        .ok_or_else(|| Broken("a claim that was not given back has no lease".to_owned()))
}

pub(super) async fn head(store: &Arc<dyn Store>, session: &str) -> Result<Head, Broken> {
    let head = store.head(session).await?;
    head.ok_or_else(|| Broken(format!("session `{session}` has no summary row")))
}

/// All rows, read in pages from the beginning.
pub(super) async fn all_rows(
    store: &Arc<dyn Store>,
    session: &str,
) -> Result<Vec<Row>, StoreError> {
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let seq = rows.last().map_or(0, |row| row.seq);
        let page = store
            .read(session, Page::After { seq, limit: 1000 })
            .await?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}

/// The bodies of all rows, whose numbers must be 1, 2, 3, …
pub(super) async fn bodies(store: &Arc<dyn Store>, session: &str) -> Result<Vec<Vec<u8>>, Broken> {
    let rows = all_rows(store, session).await?;
    if let Some((expected, row)) = (1..)
        .zip(&rows)
        .find(|(expected, row)| row.seq != *expected)
    {
        return Err(Broken(format!(
            "row {expected} of `{session}` has number {}",
            row.seq
        )));
    }
    Ok(rows.into_iter().map(|row| row.body).collect())
}

/// What kind of answer a store gave, for comparing.
pub(super) fn kind<T>(result: &Result<T, StoreError>) -> &'static str {
    match result {
        Ok(_) => "done",
        Err(StoreError::Busy { .. }) => "busy",
        Err(StoreError::Conflict { .. }) => "conflict",
        Err(StoreError::Fenced { .. }) => "fenced",
        Err(StoreError::NotFound { .. }) => "not found",
        Err(_) => "another error",
    }
}

/// Whether a writer was told that it holds nothing any more: of a session that was deleted since,
/// either is right.
pub(super) fn is_lost<T>(result: &Result<T, StoreError>) -> bool {
    matches!(
        result,
        Err(StoreError::Fenced { .. } | StoreError::NotFound { .. })
    )
}
