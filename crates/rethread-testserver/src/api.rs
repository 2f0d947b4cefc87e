//! The four APIs: their paths and the shape of their error bodies.

use crate::rules::Violation;
use serde_json::{Value, json};

/// One of the four mocked APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// `POST /v1/messages`
    Anthropic,
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1beta/models/{model}:streamGenerateContent?alt=sse`
    Gemini,
}

impl Api {
    /// The API a path (without its query) belongs to.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        match path {
            "/v1/messages" => Some(Self::Anthropic),
            "/v1/chat/completions" => Some(Self::Chat),
            "/v1/responses" => Some(Self::Responses),
            _ => gemini_model(path).map(|_| Self::Gemini),
        }
    }

    /// An error body in this API's shape. `code` is the provider's own word for it
    /// (`error.type` on Anthropic, `error.code` on OpenAI, `error.status` on Gemini).
    #[must_use]
    pub fn error_body(
        self,
        status: u16,
        code: Option<&str>,
        message: &str,
        param: Option<&str>,
    ) -> String {
        let value = match self {
            Self::Anthropic => json!({
                "type": "error",
                "error": {"type": code.unwrap_or_else(|| anthropic_type(status)), "message": message},
                "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
            }),
            Self::Chat | Self::Responses => json!({"error": {
                "message": message,
                "type": openai_type(status, code),
                "param": param,
                "code": code,
            }}),
            Self::Gemini => json!({"error": {
                "code": status,
                "message": message,
                "status": code.unwrap_or_else(|| gemini_status(status)),
            }}),
        };
        if self == Self::Gemini {
            pretty(&value)
        } else {
            value.to_string()
        }
    }

    /// The error body of a violation.
    pub(crate) fn refusal(self, violation: &Violation) -> String {
        self.error_body(
            violation.status,
            violation.code,
            &violation.message,
            (!violation.at.is_empty()).then_some(violation.at.as_str()),
        )
    }
}

/// The model in a Gemini streaming path.
pub(crate) fn gemini_model(path: &str) -> Option<&str> {
    path.strip_prefix("/v1beta/models/")?
        .strip_suffix(":streamGenerateContent")
        .filter(|model| !model.is_empty() && !model.contains('/'))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn openai_type(status: u16, code: Option<&str>) -> &'static str {
    match (status, code) {
        (_, Some("insufficient_quota")) => "insufficient_quota",
        (429, _) => "requests",
        (500.., _) => "server_error",
        _ => "invalid_request_error",
    }
}

fn gemini_status(status: u16) -> &'static str {
    match status {
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}
