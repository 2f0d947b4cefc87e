//! Waiting for other processes.

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Error, ErrorCode};

use crate::holder::random;

/// The first wait, about the time a write takes.
const FIRST: Duration = Duration::from_micros(100);
/// The longest wait, so that a lock that is held long is noticed soon after it is free.
const LONGEST: Duration = Duration::from_millis(2);

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
    fn p(n:&str,d:f64)->f64{std::env::var(n).ok().and_then(|v|v.parse().ok()).unwrap_or(d)}
    static P: std::sync::OnceLock<[f64;4]> = std::sync::OnceLock::new();
    let [first,longest,grow,spin]=*P.get_or_init(||[p("F",100.),p("M",2000.),p("G",1.25),p("Y",0.)]);
    let (first,longest)=(Duration::from_secs_f64(first*1e-6),Duration::from_secs_f64(longest*1e-6));
    for _ in 0..spin as u32 { thread::yield_now(); result = operation(); if !result.as_ref().is_err_and(is_busy) { return result; } }
    let mut wait = first;
    let mut dice = random();
    loop {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return result;
        }
        // One to two times the wait (xorshift64).
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let jitter = wait.mul_f64(f64::from((dice >> 32) as u32) / f64::from(u32::MAX));
        thread::sleep(wait / 2 + jitter);
        wait = wait.mul_f64(grow).min(longest);
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
