//! Wall time, CPU time and memory of this process.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

/// Wall and CPU seconds since its start.
pub(crate) struct Timer(Instant, Duration);

impl Timer {
    pub(crate) fn start() -> Self {
        Self(Instant::now(), cpu())
    }

    /// Wall and CPU seconds.
    pub(crate) fn stop(&self) -> (f64, f64) {
        (
            self.0.elapsed().as_secs_f64(),
            (cpu() - self.1).as_secs_f64(),
        )
    }
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

fn cpu() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// The monotonic clock in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    u64::try_from(clock(ClockId::Monotonic).as_nanos()).unwrap_or(u64::MAX)
}

/// A value of `/proc/self/status` in KiB.
pub(crate) fn status_kb(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find(|line| line.starts_with(key))
        .and_then(|line| line.split_whitespace().nth(1))
        .and_then(|value| value.parse().ok())
        .unwrap_or(0)
}

/// Seconds since this process was spawned, if whoever did so said when (`BENCH_T0`).
pub(crate) fn since_spawn() -> Option<f64> {
    let spawned: u64 = std::env::var("BENCH_T0").ok()?.parse().ok()?;
    Some(monotonic_ns().saturating_sub(spawned) as f64 * 1e-9)
}

/// A result with what every result has.
pub(crate) fn report(mut result: Map<String, Value>) -> String {
    if let Some(cold) = since_spawn() {
        result.entry("cold_s").or_insert_with(|| json!(cold));
    }
    result.insert("hwm_kb".to_owned(), json!(status_kb("VmHWM")));
    result.insert("cpu_total_s".to_owned(), json!(cpu().as_secs_f64()));
    Value::Object(result).to_string()
}
