//! A decoded response as the `decode` command prints it.

use rethread_core::{Assistant, Content, Json, ModelError, Origin, Stop, Text, ToolCall, Usage};
use serde::Serialize;

use crate::{Api, decode_body, decode_error};

#[derive(Serialize)]
struct Decoded<'a> {
    role: &'static str,
    content: &'a Content,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a Text>,
    #[serde(skip_serializing_if = "<[ToolCall]>::is_empty")]
    tool_calls: &'a [ToolCall],
    stop: Option<&'a Stop>,
    usage: Usage,
    native: &'a [Json],
}

#[derive(Serialize)]
struct Failed<'a> {
    error: Report<'a>,
}

#[derive(Serialize)]
struct Report<'a> {
    status: Option<u16>,
    code: Option<&'a str>,
    message: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    retryable: bool,
    retry_after_ms: Option<u64>,
}

/// Reads one recorded response and says what it is, as one JSON object: the assistant message in
/// rethread JSON with its `stop`, `usage` (tokens) and `native` items, or `{"error":{…}}`. The number
/// is the exit code of the `decode` command: 0 for a message, 1 for an error.
#[must_use]
pub fn decode_report(
    api: Api,
    status: u16,
    headers: &[(String, String)],
    body: &[u8],
) -> (String, i32) {
    let result = if (200..300).contains(&status) {
        decode_body(api, Origin::new(api.as_str(), "", ""), body).map_err(|mut error| {
            error.status.get_or_insert(status);
            error
        })
    } else {
        Err(decode_error(api, status, headers, body))
    };
    match result {
        Ok(message) => (encode(&decoded(&message)), 0),
        Err(error) => (encode(&failed(&error)), 1),
    }
}

fn decoded(message: &Assistant) -> Decoded<'_> {
    Decoded {
        role: "assistant",
        content: &message.content,
        reasoning: message.reasoning.as_ref(),
        tool_calls: &message.tool_calls,
        stop: message.stop.as_ref(),
        usage: message.usage.clone().unwrap_or_default(),
        native: &message.native,
    }
}

fn failed(error: &ModelError) -> Failed<'_> {
    Failed {
        error: Report {
            status: error.status,
            code: error.code.as_deref(),
            message: &error.message,
            kind: error.kind.as_str(),
            rule: error.rule.as_deref(),
            retryable: error.retryable,
            retry_after_ms: error
                .retry_after
                .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        },
    }
}

fn encode(value: &impl Serialize) -> String {
    // Text, numbers and JSON that was read: nothing here can fail to encode.
    Json::encode(value).map_or_else(|_| "{}".to_owned(), |json| json.get().to_owned())
}
