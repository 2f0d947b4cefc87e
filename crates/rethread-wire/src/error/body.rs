//! The shapes an error body comes in.

use serde_json::value::RawValue;

use crate::decode::raw::{Members, Raw, elements, string};

/// What an error body says, whichever of the known shapes it has.
#[derive(Debug, Default)]
pub(crate) struct ErrorBody {
    /// Whether it is an error at all.
    pub(crate) found: bool,
    pub(crate) message: Option<String>,
    /// `error.type`, for Gemini `error.status`.
    pub(crate) kind: Option<String>,
    /// `error.code`.
    pub(crate) code: Option<String>,
    /// `error.param`: the place in the request.
    pub(crate) param: Option<String>,
    /// A finer code: Anthropic's `details.error_code`, Gemini's `details[].reason`.
    pub(crate) detail_code: Option<String>,
    /// What the service behind a router said.
    pub(crate) upstream: Option<String>,
    /// A router's moderation declined the input.
    pub(crate) flagged: bool,
    /// A quota that is counted by the day.
    pub(crate) daily_quota: bool,
    /// Gemini's `RetryInfo`.
    pub(crate) retry_delay: Option<String>,
    /// The begin of a body that is not understood.
    pub(crate) excerpt: Option<String>,
}

impl ErrorBody {
    /// Reads a body: JSON, an event stream with an error in it, or anything else.
    pub(crate) fn read(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let text = text.trim_start_matches('\u{feff}').trim();
        let json = text
            .lines()
            .find_map(|line| line.strip_prefix("data:"))
            .unwrap_or(text)
            .trim();
        let Ok(raw) = serde_json::from_str::<&RawValue>(json) else {
            return Self {
                excerpt: excerpt(text),
                ..Self::default()
            };
        };
        let mut error = Self::of(raw);
        if !error.found {
            error.excerpt = excerpt(text);
        }
        error
    }

    fn of(raw: Raw<'_>) -> Self {
        // Gemini sometimes wraps its error in an array of one.
        if raw.get().starts_with('[') {
            return elements(raw)
                .first()
                .map(|raw| Self::of(raw))
                .unwrap_or_default();
        }
        let outer = Members::read(raw.get());
        if let Some(response) = outer.get("response") {
            // The terminal event of a failed response.
            return Self::of(response);
        }
        let mut error = match outer.get("error") {
            Some(inner) if inner.get().starts_with('{') => {
                Self::of_object(&Members::read(inner.get()))
            }
            Some(inner) => Self {
                message: string(inner),
                ..Self::of_object(&outer)
            },
            None => Self::of_object(&outer),
        };
        if let Some(detail) = outer.get("detail") {
            error.message = error.message.or_else(|| fastapi(detail));
        }
        let is_error_object = outer.string("object").as_deref() == Some("error")
            || outer.string("type").as_deref() == Some("error");
        error.found = outer.get("error").is_some()
            || outer.get("detail").is_some()
            || is_error_object
            || (error.message.is_some() && error.code.is_some());
        if outer.get("error").is_none() && error.kind.as_deref() == Some("error") {
            // The flat error event of a stream: its type says only that it is one.
            error.kind = None;
        }
        error
    }

    fn of_object(error: &Members<'_>) -> Self {
        let metadata = error.object("metadata");
        let mut out = Self {
            found: false,
            message: error.string("message"),
            kind: error.string("type").or_else(|| error.string("status")),
            code: error.string("code"),
            param: error.string("param"),
            detail_code: error.object("details").string("error_code"),
            upstream: metadata.get("raw").and_then(upstream),
            flagged: metadata.get("flagged_input").is_some() || metadata.get("reasons").is_some(),
            daily_quota: false,
            retry_delay: None,
            excerpt: None,
        };
        for detail in error.list("details") {
            let detail = Members::read(detail.get());
            let kind = detail.string("@type").unwrap_or_default();
            if kind.ends_with("RetryInfo") {
                out.retry_delay = detail.string("retryDelay");
            }
            if kind.ends_with("QuotaFailure") {
                out.daily_quota |= detail.list("violations").iter().any(|violation| {
                    let id = Members::read(violation.get()).string("quotaId");
                    id.is_some_and(|id| id.contains("PerDay"))
                });
            }
            if let Some(reason) = detail.string("reason") {
                out.detail_code = Some(reason);
            }
        }
        out
    }

    /// The HTTP status an error inside a stream stands for.
    pub(crate) fn status(&self) -> Option<u16> {
        let number = self.code.as_deref().and_then(|code| code.parse().ok());
        if let Some(status @ 400..600) = number {
            return Some(status);
        }
        let names = [&self.kind, &self.code, &self.detail_code];
        names.into_iter().flatten().find_map(|name| {
            Some(match name.as_str() {
                "invalid_request_error"
                | "INVALID_ARGUMENT"
                | "FAILED_PRECONDITION"
                | "invalid_value"
                | "missing_required_parameter"
                | "unknown_parameter" => 400,
                "authentication_error" | "invalid_api_key" | "UNAUTHENTICATED" => 401,
                "billing_error" => 402,
                "permission_error" | "PERMISSION_DENIED" => 403,
                "not_found_error" | "model_not_found" | "NOT_FOUND" => 404,
                "request_too_large" => 413,
                "rate_limit_error"
                | "rate_limit_exceeded"
                | "insufficient_quota"
                | "RESOURCE_EXHAUSTED" => 429,
                "api_error" | "server_error" | "INTERNAL" => 500,
                "server_is_overloaded" | "UNAVAILABLE" => 503,
                "timeout_error" | "DEADLINE_EXCEEDED" => 504,
                "overloaded_error" => 529,
                _ => return None,
            })
        })
    }

    /// The provider's own name for the error: a word rather than a number.
    pub(crate) fn name(&self) -> Option<String> {
        let word = |name: &&Option<String>| {
            name.as_deref()
                .is_some_and(|name| !name.is_empty() && name.parse::<i64>().is_err())
        };
        [&self.detail_code, &self.code, &self.kind]
            .into_iter()
            .find(word)
            .cloned()
            .flatten()
            .or_else(|| self.code.clone())
    }
}

/// FastAPI's `detail`: a text, or a list of what is wrong where.
fn fastapi(detail: Raw<'_>) -> Option<String> {
    if !detail.get().starts_with('[') {
        return string(detail).or_else(|| Members::read(detail.get()).string("message"));
    }
    let problems: Vec<String> = elements(detail)
        .into_iter()
        .filter_map(|problem| {
            let problem = Members::read(problem.get());
            let place: Vec<String> = problem.list("loc").into_iter().filter_map(string).collect();
            Some(format!("{}: {}", place.join("."), problem.string("msg")?))
        })
        .collect();
    (!problems.is_empty()).then(|| problems.join("; "))
}

/// What a router passes on: a text, or the JSON of the service behind it.
fn upstream(raw: Raw<'_>) -> Option<String> {
    let text = string(raw).unwrap_or_else(|| raw.get().to_owned());
    let inner = ErrorBody::read(text.as_bytes());
    inner.message.or(Some(text)).filter(|text| !text.is_empty())
}

/// How a body that is not understood begins, in words.
fn excerpt(text: &str) -> Option<String> {
    const LENGTH: usize = 200;
    if text.is_empty() {
        return Some("an empty body".to_owned());
    }
    let lower = text.to_ascii_lowercase();
    if let Some((_, rest)) = lower.split_once("<title>") {
        // The same place in the original, whose case is kept.
        let start = lower.len() - rest.len();
        let end = start + rest.find("</title>").unwrap_or(rest.len());
        let title = text.get(start..end).unwrap_or("").trim();
        let title: String = title.chars().take(LENGTH).collect();
        return Some(format!("a page titled \"{title}\""));
    }
    let begin: String = text.chars().take(LENGTH).collect();
    Some(format!("the text \"{begin}\""))
}
