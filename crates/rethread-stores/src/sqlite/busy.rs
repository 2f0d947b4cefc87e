//! Waiting for other processes.

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Error, ErrorCode};

use crate::holder::random;

/// The first wait, about the time a write takes.
const FIRST: Duration = Duration::from_micros(100);
/// The longest wait. Shorter ones make writers alternate at every write, which makes more of them
/// wait and all of them slower; longer ones leave the lock unused.
const LONGEST: Duration = Duration::from_millis(8);

/// Does something that fails when another process is in the way, until it is not.
///
/// SQLite's own waits grow to 100 ms and are the same for everybody, so that writers which meet
/// once meet again, and some wait many times longer than the others.
pub(super) fn patiently<T>(
    limit: Duration,
    mut operation: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let mut result = operation();
    if !result.as_ref().is_err_and(is_busy) {
        return result;
    }
    let deadline = Instant::now().checked_add(limit);
    let mut wait = FIRST;
    let mut dice = random();
    loop {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return result;
        }
        // Half to one and a half times the wait (xorshift64).
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let jitter = wait.mul_f64(f64::from((dice >> 32) as u32) / f64::from(u32::MAX));
        thread::sleep(wait / 2 + jitter);
        wait = (wait * 2).min(LONGEST);
        result = operation();
        if !result.as_ref().is_err_and(is_busy) {
            return result;
        }
    }
}

/// Whether another process is in the way.
pub(super) fn is_busy(error: &Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn busy() -> rusqlite::Result<()> {
        Err(Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_BUSY_RECOVERY),
            None,
        ))
    }

    #[test]
    fn waits_until_nobody_is_in_the_way_or_the_time_is_over() {
        let mut tries = 0;
        let result = patiently(Duration::from_secs(60), || {
            tries += 1;
            if tries < 5 { busy() } else { Ok(()) }
        });
        assert!(result.is_ok());
        assert_eq!(tries, 5);
        assert!(is_busy(&patiently(Duration::ZERO, busy).unwrap_err()));
    }

    #[test]
    fn other_errors_are_not_waited_for() {
        let mut tries = 0;
        let result = patiently(Duration::MAX, || {
            tries += 1;
            Err::<(), _>(Error::QueryReturnedNoRows)
        });
        assert!(result.is_err());
        assert_eq!(tries, 1);
    }
}
