//! What an error answer means.
//!
//! Statuses and codes are those of the providers' documentation and official clients; the sentences
//! were seen on the wire. Sentences change, so only the part that stays is compared, without regard
//! to case and quoting.

mod body;
mod history;
mod wait;

use std::time::SystemTime;

use rethread_core::{ModelError, ModelErrorKind};

use crate::Api;
use body::ErrorBody;

/// Parts of sentences and codes by which servers say that the request does not fit into the context
/// window, without quotes and in lower case.
const OVERFLOW: &[&str] = &[
    "prompt is too long",                    // Anthropic
    "exceed context limit",                  // Anthropic, input and max_tokens together
    "context_length_exceeded",               // OpenAI, llama-cpp-python
    "model_context_window_exceeded",         // GLM
    "exceeds the context window",            // OpenAI Responses
    "maximum context length",                // OpenAI, vLLM, OpenRouter, LiteLLM, Mistral
    "exceed_context_size",                   // llama.cpp
    "exceeds the available context size",    // llama.cpp
    "exceeds the maximum number of tokens",  // Gemini
    "exceeded max context length",           // Ollama
    "maximum prompt length is",              // xAI
    "exceeded model token limit",            // Kimi
    "longer than the models context length", // Together
    "greater than the context length",       // LM Studio
    "context window exceeds limit",          // MiniMax
    "reduce the length of the messages",     // Groq and others
];

/// Reads an error answer: what kind of failure it is, whether to try again, and when.
///
/// `headers` are those of the answer; their names may be in any case. An answer with a success status
/// that is no answer of the API (a sign-in page, a gateway's JSON) is read here too.
#[must_use]
pub fn decode_error(
    api: Api,
    status: u16,
    headers: &[(String, String)],
    body: &[u8],
) -> ModelError {
    decode_error_at(api, status, headers, body, SystemTime::now())
}

pub(crate) fn decode_error_at(
    api: Api,
    status: u16,
    headers: &[(String, String)],
    body: &[u8],
    now: SystemTime,
) -> ModelError {
    let error = ErrorBody::read(body);
    let text = plain(&format!(
        "{} {} {} {} {}",
        error.message.as_deref().unwrap_or(""),
        error.kind.as_deref().unwrap_or(""),
        error.code.as_deref().unwrap_or(""),
        error.param.as_deref().unwrap_or(""),
        error.upstream.as_deref().unwrap_or(""),
    ));
    let failed = status >= 400;
    let effective = if failed {
        status
    } else {
        error.status().unwrap_or(0)
    };
    let may_be_history = matches!(effective, 0 | 400 | 404 | 422 | 500);
    let rule = may_be_history.then(|| history::rule(&text)).flatten();
    let kind = if !failed && !error.found {
        ModelErrorKind::NotAnApi
    } else if matches!(effective, 0 | 400 | 413 | 422 | 500) && is_overflow(&text) {
        ModelErrorKind::ContextFull
    } else if rule.is_some() {
        ModelErrorKind::HistoryRejected
    } else {
        classify(effective, &error, &text, headers)
    };
    let message = match (&error.message, &error.upstream) {
        (Some(message), Some(upstream)) => format!("{message}: {upstream}"),
        (Some(message), None) => message.clone(),
        (None, Some(upstream)) => upstream.clone(),
        (None, None) => {
            let excerpt = error.excerpt.as_deref().unwrap_or("nothing");
            if failed {
                format!("the server answered with status {status} and {excerpt}")
            } else {
                format!("what answered does not speak {api}: it sent {excerpt}; check the base url")
            }
        }
    };
    let mut out = ModelError::new(kind, message);
    out.retryable = match wait::header(headers, "x-should-retry") {
        Some("true") => true,
        Some("false") => false,
        _ => is_retryable(kind, effective),
    };
    if out.retryable {
        out.retry_after = wait::retry_after(headers, &error, now);
    }
    out.code = error.name();
    out.status = (status != 0).then_some(status);
    if kind == ModelErrorKind::HistoryRejected {
        out.rule = rule.map(str::to_owned);
    }
    out
}

/// Reads an error that came inside a stream, after a success status.
pub(crate) fn stream_error(api: Api, json: &str) -> ModelError {
    let mut error = decode_error(api, 200, &[], json.as_bytes());
    error.status = None;
    if error.kind == ModelErrorKind::NotAnApi {
        // An error whose words are unknown, not another protocol.
        error = ModelError::new(
            ModelErrorKind::Server,
            format!("the server broke off the response with {json}"),
        );
    }
    error
}

/// Lower case, without the quoting servers disagree about.
fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| !matches!(c, '`' | '\'' | '"' | '’'))
        .flat_map(char::to_lowercase)
        .collect()
}

fn is_overflow(text: &str) -> bool {
    // Bedrock says "too many tokens" when it throttles.
    !text.contains("please wait") && OVERFLOW.iter().any(|part| text.contains(part))
}

fn any(text: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| text.contains(part))
}

fn classify(
    status: u16,
    error: &ErrorBody,
    text: &str,
    headers: &[(String, String)],
) -> ModelErrorKind {
    use ModelErrorKind as Kind;
    let code = |names: &[&str]| {
        let is = |value: &Option<String>| value.as_deref().is_some_and(|v| names.contains(&v));
        is(&error.kind) || is(&error.code) || is(&error.detail_code)
    };
    let waits = wait::header(headers, "retry-after").is_some()
        || wait::header(headers, "retry-after-ms").is_some();
    if code(&[
        "content_filter",
        "content_policy_violation",
        "bio_policy",
        "image_content_policy_violation",
        "invalid_prompt",
        "data_inspection_failed",
        "sensitive",
    ]) || error.flagged
    {
        return Kind::Refusal;
    }
    if status == 402
        || code(&[
            "insufficient_quota",
            "billing_error",
            "billing_hard_limit_reached",
            "exceeded_current_quota_error",
        ])
        || (code(&["enforced_spend_limit_reached"]) && !waits)
        || error.daily_quota
        || any(text, &["credit balance is too low", "insufficient balance"])
    {
        return Kind::Quota;
    }
    if status == 401
        || code(&["invalid_api_key", "API_KEY_INVALID", "UNAUTHENTICATED"])
        || (status == 400
            && any(
                text,
                &[
                    "api key not valid",
                    "incorrect api key",
                    "invalid api key",
                    "api key expired",
                ],
            ))
    {
        return Kind::Auth;
    }
    match status {
        400 if code(&["FAILED_PRECONDITION"]) => Kind::Permission,
        400 | 422
            if code(&["model_not_found", "invalid_model", "not_found_error"])
                || (text.contains("model")
                    && any(text, &["not found", "does not exist", "not a valid model"])) =>
        {
            Kind::NotFound
        }
        403 => Kind::Permission,
        404 => Kind::NotFound,
        413 => Kind::TooLarge,
        _ if status == 529
            || code(&[
                "overloaded_error",
                "engine_overloaded_error",
                "server_is_overloaded",
                "slow_down",
                "UNAVAILABLE",
            ])
            || (matches!(status, 0 | 500..) && text.contains("overloaded")) =>
        {
            Kind::Overloaded
        }
        429 => Kind::RateLimited,
        // Under another status.
        _ if code(&[
            "rate_limit_exceeded",
            "rate_limit_error",
            "RESOURCE_EXHAUSTED",
        ]) =>
        {
            Kind::RateLimited
        }
        408 | 409 | 500.. => Kind::Server,
        400..500 => Kind::InvalidRequest,
        // An error inside a stream whose words say nothing more.
        _ => Kind::Server,
    }
}

/// Which failures the official clients try again.
fn is_retryable(kind: ModelErrorKind, status: u16) -> bool {
    use ModelErrorKind as Kind;
    match kind {
        Kind::RateLimited | Kind::Overloaded | Kind::Interrupted => true,
        Kind::Server => matches!(status, 0 | 408 | 409 | 500..),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use ModelErrorKind as Kind;

    fn error(status: u16, headers: &[(&str, &str)], body: &str) -> ModelError {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        // 2026-10-21 07:28:00 UTC
        let now = UNIX_EPOCH + Duration::from_secs(1_792_567_680);
        decode_error_at(Api::OpenAiChat, status, &headers, body.as_bytes(), now)
    }

    #[test]
    fn the_same_status_may_mean_many_things() {
        for (status, body, kind) in [
            (
                400,
                r#"{"error":{"message":"bad field"}}"#,
                Kind::InvalidRequest,
            ),
            (400, r#"{"error":"Model 'x' not found"}"#, Kind::NotFound),
            (
                400,
                r#"{"code":"x","error":"Incorrect API key provided."}"#,
                Kind::Auth,
            ),
            (
                400,
                r#"{"error":{"type":"content_filter","message":"m"}}"#,
                Kind::Refusal,
            ),
            (
                400,
                r#"{"error":{"message":"prompt is too long: 2 > 1"}}"#,
                Kind::ContextFull,
            ),
            (
                400,
                r#"{"error":{"message":"Your credit balance is too low"}}"#,
                Kind::Quota,
            ),
            (
                403,
                r#"{"error":{"message":"m","metadata":{"flagged_input":"x"}}}"#,
                Kind::Refusal,
            ),
            (413, "<html>", Kind::TooLarge),
            (
                413,
                r#"{"error":{"message":"reduce the length of the messages"}}"#,
                Kind::ContextFull,
            ),
            (429, "{}", Kind::RateLimited),
            (
                429,
                r#"{"error":{"code":"insufficient_quota"}}"#,
                Kind::Quota,
            ),
            (
                429,
                r#"{"error":{"message":"Too many tokens, please wait"}}"#,
                Kind::RateLimited,
            ),
            (500, "", Kind::Server),
            (
                503,
                r#"[{"error":{"status":"UNAVAILABLE"}}]"#,
                Kind::Overloaded,
            ),
            (
                200,
                r#"{"error":{"code":502,"message":"gone"}}"#,
                Kind::Server,
            ),
            (
                200,
                r#"{"error":{"type":"authentication_error","message":"m"}}"#,
                Kind::Auth,
            ),
            (200, r#"{"status":"ok"}"#, Kind::NotAnApi),
            (200, "<html>sign in</html>", Kind::NotAnApi),
        ] {
            assert_eq!(error(status, &[], body).kind, kind, "{status} {body}");
        }
    }

    #[test]
    fn a_rejected_history_names_its_rule() {
        let error = error(
            400,
            &[],
            r#"{"error":{"message":"No tool output found for function call call_1."}}"#,
        );
        assert_eq!(error.kind, Kind::HistoryRejected);
        assert_eq!(error.rule.as_deref(), Some("unanswered_tool_call"));
        assert!(!error.retryable);
    }

    #[test]
    fn the_servers_word_on_trying_again_counts() {
        let no = [("X-Should-Retry", "false")];
        let yes = [("x-should-retry", "true"), ("retry-after", "2")];
        assert!(!error(500, &no, "").retryable);
        assert!(error(400, &yes, "").retryable);
        assert_eq!(
            error(400, &yes, "").retry_after,
            Some(Duration::from_secs(2))
        );
        assert_eq!(error(500, &no, "").retry_after, None);
    }

    #[test]
    fn the_wait_is_found_wherever_it_is_written() {
        for (headers, body, millis) in [
            (
                vec![("retry-after-ms", "6500"), ("retry-after", "7")],
                "",
                6500,
            ),
            (vec![("retry-after", "1.5")], "", 1500),
            (
                vec![("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")],
                "",
                30_000,
            ),
            (
                vec![
                    ("date", "Wed, 21 Oct 2026 07:28:20 GMT"),
                    ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"),
                ],
                "",
                10_000,
            ),
            (
                vec![
                    ("anthropic-ratelimit-requests-remaining", "0"),
                    ("anthropic-ratelimit-requests-reset", "2026-10-21T07:28:04Z"),
                    ("anthropic-ratelimit-tokens-remaining", "0"),
                    (
                        "anthropic-ratelimit-tokens-reset",
                        "2026-10-21T09:28:09+02:00",
                    ),
                    ("anthropic-ratelimit-input-tokens-remaining", "5"),
                    (
                        "anthropic-ratelimit-input-tokens-reset",
                        "2026-10-21T08:28:09Z",
                    ),
                ],
                "",
                9000,
            ),
            (
                vec![
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "20ms"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "6m0s"),
                ],
                "",
                360_000,
            ),
            (
                vec![],
                r#"{"error":{"details":[{"@type":"x/RetryInfo","retryDelay":"17.5s"}]}}"#,
                17_500,
            ),
            (
                vec![],
                r#"{"error":{"message":"Please try again in 640ms."}}"#,
                640,
            ),
            (
                vec![],
                r#"{"error":{"message":"Please try again in 1m2.5s."}}"#,
                62_500,
            ),
        ] {
            let found = error(429, &headers, body).retry_after;
            assert_eq!(
                found,
                Some(Duration::from_millis(millis)),
                "{headers:?} {body}"
            );
        }
        assert_eq!(
            error(429, &[], r#"{"error":{"message":"try later"}}"#).retry_after,
            None
        );
    }

    #[test]
    fn no_number_of_a_server_breaks_anything() {
        for value in [
            "-1",
            "NaN",
            "inf",
            "1e300",
            "99999999999999999999",
            "",
            "soon",
        ] {
            for name in ["retry-after", "retry-after-ms", "x-ratelimit-reset-tokens"] {
                let headers = [(name, value), ("x-ratelimit-remaining-tokens", "0")];
                let _ = error(429, &headers, "").retry_after;
            }
        }
    }
}
