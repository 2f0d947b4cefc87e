//! The benchmark's neutral messages, one JSON object a line.

use std::fs::File;
use std::io::{BufRead, BufReader};

use rethread_core::{Assistant, Body, Content, Json, Message, Origin, Text, ToolCall, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Line {
    role: String,
    text: Text,
    #[serde(default)]
    calls: Vec<Call>,
    #[serde(default)]
    sig: Option<Json>,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    ok: Option<bool>,
}

#[derive(Deserialize)]
struct Call {
    id: String,
    name: String,
    args: Json,
}

/// The lines of a file.
pub(crate) fn lines(
    path: &str,
) -> Result<impl Iterator<Item = Result<String, String>> + use<>, String> {
    let shown = path.to_owned();
    let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(BufReader::with_capacity(1 << 20, file)
        .lines()
        .map(move |line| line.map_err(|error| format!("{shown}: {error}"))))
}

/// Reads one line.
pub(crate) fn message(line: &str) -> Result<Message, String> {
    let line: Line =
        serde_json::from_str(line).map_err(|error| format!("not a message: {error}"))?;
    Ok(match line.role.as_str() {
        "tool" => {
            let call = ToolCall::new(
                line.call_id.unwrap_or_default(),
                line.name.unwrap_or_default(),
                Json::empty_object(),
            );
            let mut result = ToolResult::for_call(&call, Content::Text(line.text));
            result.success = line.ok.unwrap_or(true);
            result.into()
        }
        "assistant" => {
            let mut response = Assistant::new(Content::Text(line.text));
            response.tool_calls = line
                .calls
                .into_iter()
                .map(|call| ToolCall::new(call.id, call.name, call.args))
                .collect();
            if let Some(signature) = line.sig {
                // An opaque item of another provider: kept, and left out of this one's requests.
                response.origin = Some(Origin::new("anthropic-messages", "anthropic", "m"));
                let item = format!(
                    r#"{{"type":"thinking","thinking":"","signature":{}}}"#,
                    signature.get()
                );
                response.native = vec![Json::parse(&item).map_err(|error| error.to_string())?];
            }
            response.into()
        }
        _ => Message::new(Body::User(Content::Text(line.text))),
    })
}

/// Reads a file of messages.
pub(crate) fn messages(path: &str) -> Result<Vec<Message>, String> {
    lines(path)?.map(|line| message(&line?)).collect()
}

/// A turn: a question, a response with two calls, their results, an answer.
pub(crate) fn turn(number: usize) -> [Value; 5] {
    let words = |size: usize| "several words of no meaning ".repeat(size / 28 + 1);
    let call = |index: usize| {
        json!({ "id": format!("call_{number}_{index}"), "name": if index == 0 { "read_file" } else { "grep" },
                "args": { "path": "src/lib.rs", "pattern": words(60) } })
    };
    let result = |index: usize| {
        json!({ "role": "tool", "call_id": format!("call_{number}_{index}"),
                "name": if index == 0 { "read_file" } else { "grep" }, "text": words(2048), "ok": true })
    };
    [
        json!({ "role": "user", "text": words(200) }),
        json!({ "role": "assistant", "text": words(600), "calls": [call(0), call(1)] }),
        result(0),
        result(1),
        json!({ "role": "assistant", "text": words(600) }),
    ]
}
