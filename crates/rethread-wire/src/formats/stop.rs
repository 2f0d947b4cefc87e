//! How a stored response ended.

use rethread_core::{Stop, StopReason};

use crate::Api;

/// Reads what is said of how a response ended: a provider's raw value, or nothing when none came. A
/// normal end is no stop.
pub(crate) fn stop(api: Option<Api>, raw: Option<&str>, has_calls: bool) -> Option<Stop> {
    let Some(raw) = raw else {
        let stop = Stop::new(StopReason::Interrupted);
        return Some(stop.with_message("no end of the response came"));
    };
    let mut stop = Stop::from_raw(raw, has_calls);
    let word = raw.trim().to_ascii_lowercase();
    match (api, word.as_str()) {
        (Some(Api::OpenAiResponses), "incomplete") => stop.reason = StopReason::MaxOutput,
        (
            Some(Api::OpenAiResponses),
            "failed"
            | "cancelled"
            | "in_progress"
            | "queued"
            | "server_error"
            | "rate_limit_exceeded",
        )
        | (Some(Api::GeminiContents), "other") => stop.reason = StopReason::Interrupted,
        _ => {}
    }
    (!stop.reason.is_normal()).then_some(stop)
}
