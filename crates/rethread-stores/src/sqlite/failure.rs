//! SQLite's errors as the store's.

use rethread_core::StoreError;
use rusqlite::ErrorCode;

/// A failure of a whole action on a store.
pub(super) fn failure(store: &str, action: &'static str, error: rusqlite::Error) -> StoreError {
    let source: Box<dyn std::error::Error + Send + Sync> = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            return StoreError::NotAStore {
                store: store.to_owned(),
                reason: "it is not an SQLite database".to_owned(),
            };
        }
        Some(ErrorCode::DatabaseBusy) => {
            "another process kept it locked; try again when that is done".into()
        }
        Some(ErrorCode::DiskFull) => "the disk is full; nothing was written".into(),
        Some(ErrorCode::ReadOnly) => {
            "the file or its folder may not be written; change its permissions".into()
        }
        _ => Box::new(error),
    };
    StoreError::Io {
        store: store.to_owned(),
        action,
        source,
    }
}
