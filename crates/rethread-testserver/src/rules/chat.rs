//! OpenAI Chat Completions and the servers that copy it.

use super::{ChatServer, Found, Rules, Violation, bad_arguments, is_name, unknown};
use crate::value::At;
use serde_json::Value;
use std::collections::HashSet;

const TOP: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "max_completion_tokens",
    "max_tokens",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "prompt_cache_key",
    "store",
    "seed",
    "stop",
    "temperature",
    "top_p",
    "n",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "frequency_penalty",
    "presence_penalty",
    "response_format",
    "user",
    "metadata",
    "service_tier",
    "modalities",
    "audio",
    "prediction",
    "web_search_options",
    "safety_identifier",
    "prompt_cache_retention",
    "verbosity",
    "functions",
    "function_call",
];

/// Request fields that only compatible servers know.
const VENDOR: &[&str] = &[
    "reasoning",
    "thinking",
    "provider",
    "include_reasoning",
    "cache_prompt",
];

/// Check a body against the rules of the Chat Completions API.
#[must_use]
pub fn check_chat(body: &Value, rules: &Rules) -> Vec<Violation> {
    let mut found = Found::default();
    let f = &mut found;
    top(f, body, rules);
    tools(f, body);
    let messages = body
        .at("messages")
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    for (i, message) in messages.iter().enumerate() {
        check_message(f, i, message, rules);
    }
    pairing(f, messages, rules);
    reasoning(f, body, messages, rules);
    order(f, messages, rules);
    found.0
}

fn top(f: &mut Found, body: &Value, rules: &Rules) {
    let required = Some("missing_required_parameter");
    for key in ["model", "messages"] {
        if body.at(key).is_null() {
            f.add_as(
                "field.required",
                key,
                format!("Missing required parameter: '{key}'."),
                400,
                required,
            );
        }
    }
    if let Some(value) = body.get("model")
        && value.as_str().is_none_or(str::is_empty)
    {
        f.add("field.type", "model", "you must provide a model parameter");
    }
    match body.at("messages") {
        Value::Array(list) if list.is_empty() => {
            f.add("messages.empty", "messages", "[] is too short - 'messages'");
        }
        Value::Null | Value::Array(_) => {}
        _ => f.add(
            "field.type",
            "messages",
            "Invalid type for 'messages': expected an array of objects.",
        ),
    }
    if rules.unknown_fields {
        for key in unknown(body, TOP) {
            if rules.chat != ChatServer::OpenAi && VENDOR.contains(&key) {
                continue;
            }
            f.add(
                "field.unknown",
                key,
                format!("Unrecognized request argument supplied: {key}"),
            );
        }
    }
    let streams = body.at("stream") == true;
    if body
        .get("stream_options")
        .is_some_and(|options| !options.is_null())
    {
        if !rules.chat_stream_options {
            f.add(
                "stream_options",
                "stream_options",
                "Unrecognized request argument supplied: stream_options",
            );
        } else if !streams {
            f.add(
                "stream_options",
                "stream_options",
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            );
        }
    }
    let model = body.at("model").as_str().unwrap_or_default();
    let reasons = ["o1", "o3", "o4", "gpt-5"]
        .iter()
        .any(|start| model.starts_with(start));
    if rules.chat == ChatServer::OpenAi && reasons && body.get("max_tokens").is_some() {
        f.add_as(
            "max_tokens",
            "max_tokens",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            400,
            Some("unsupported_parameter"),
        );
    }
}

fn tools(f: &mut Found, body: &Value) {
    let none: &[Value] = &[];
    let list = match body.at("tools") {
        Value::Array(list) => list.as_slice(),
        Value::Null => none,
        _ => {
            f.add(
                "field.type",
                "tools",
                "Invalid type for 'tools': expected an array of objects.",
            );
            none
        }
    };
    if body.at("tools").is_array() && list.is_empty() {
        f.add("tools.empty", "tools", "[] is too short - 'tools'");
    }
    if list.len() > 128 {
        f.add_as(
            "tools.too_many",
            "tools",
            "Invalid 'tools': array too long. Expected an array with maximum length 128.",
            400,
            Some("array_above_max_length"),
        );
    }
    for (i, tool) in list.iter().enumerate() {
        let at = format!("tools[{i}]");
        match tool.at("type").as_str() {
            Some("function") => {}
            Some("custom") => continue,
            other => {
                f.add_as(
                    "tool.type",
                    format!("{at}.type"),
                    format!(
                        "Invalid value: '{}'. Supported values are: 'function' and 'custom'.",
                        other.unwrap_or_default()
                    ),
                    400,
                    Some("invalid_value"),
                );
                continue;
            }
        }
        let function = tool.at("function");
        if !function.is_object() {
            f.add_as(
                "tool.function",
                format!("{at}.function"),
                format!("Missing required parameter: '{at}.function'."),
                400,
                Some("missing_required_parameter"),
            );
            continue;
        }
        let name = function.at("name").as_str().unwrap_or_default();
        if !is_name(name, 64) {
            f.add_as(
                "tool.name",
                format!("{at}.function.name"),
                format!("Invalid '{at}.function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
                400,
                Some("invalid_value"),
            );
        }
        if let Some(schema) = function.get("parameters")
            && (!schema.is_object() || schema.get("type").is_some_and(|kind| kind != "object"))
        {
            f.add_as(
                "tool.schema",
                format!("{at}.function.parameters"),
                format!("Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'."),
                400,
                Some("invalid_function_parameters"),
            );
        }
    }
    if list.is_empty() {
        for key in ["tool_choice", "parallel_tool_calls"] {
            if body
                .get(key)
                .is_some_and(|value| !value.is_null() && value != "none")
            {
                f.add(
                    "tools.required",
                    key,
                    format!("'{key}' is only allowed when 'tools' are specified."),
                );
            }
        }
        return;
    }
    let choice = body.at("tool_choice");
    let sound = match choice {
        Value::Null => true,
        Value::String(text) => matches!(text.as_str(), "none" | "auto" | "required" | "any"),
        Value::Object(_) if choice.at("type") == "function" => list
            .iter()
            .any(|tool| tool.at("function").at("name") == choice.at("function").at("name")),
        Value::Object(_) => matches!(choice.at("type").as_str(), Some("allowed_tools" | "custom")),
        _ => false,
    };
    if !sound {
        f.add("tool_choice", "tool_choice", "Invalid value for 'tool_choice': the tool is not among 'tools', or the form is unknown.");
    }
}

fn known_fields(role: &str, rules: &Rules) -> Vec<&'static str> {
    let mut known = vec!["role", "content", "name"];
    match role {
        "assistant" => {
            known.extend(["tool_calls", "refusal", "audio", "function_call"]);
            if rules.chat != ChatServer::OpenAi {
                known.extend([
                    "reasoning_content",
                    "reasoning",
                    "reasoning_details",
                    "prefix",
                    "annotations",
                ]);
            }
        }
        "tool" => known.push("tool_call_id"),
        _ => {}
    }
    known
}

fn check_message(f: &mut Found, i: usize, message: &Value, rules: &Rules) {
    let at = format!("messages[{i}]");
    let role = message.at("role").as_str().unwrap_or_default();
    if rules.unknown_fields {
        for key in unknown(message, &known_fields(role, rules)) {
            f.add_as(
                "field.unknown",
                format!("{at}.{key}"),
                format!("Unknown parameter: '{at}.{key}'."),
                400,
                Some("unknown_parameter"),
            );
        }
    }
    match role {
        "system" | "developer" => content(f, &at, message, &["text"]),
        "user" => content(f, &at, message, &[]),
        "assistant" => assistant(f, i, &at, message, rules),
        "tool" => {
            if message.at("tool_call_id").as_str().is_none_or(str::is_empty) {
                f.add_as(
                    "field.required",
                    format!("{at}.tool_call_id"),
                    format!("Missing required parameter: '{at}.tool_call_id'."),
                    400,
                    Some("missing_required_parameter"),
                );
            }
            let kinds: &[&str] =
                if rules.chat == ChatServer::LlamaCpp { &[] } else { &["text"] };
            content(f, &at, message, kinds);
        }
        _ => f.add_as(
            "message.role",
            format!("{at}.role"),
            format!("Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."),
            400,
            Some("invalid_value"),
        ),
    }
}

/// Content that must be there; `kinds` are the part types allowed, none means any.
fn content(f: &mut Found, at: &str, message: &Value, kinds: &[&str]) {
    let at = format!("{at}.content");
    match message.at("content") {
        Value::String(_) => {}
        Value::Array(parts) => {
            if parts.is_empty() {
                f.add("content.empty", &at, format!("[] is too short - '{at}'"));
            }
            for (j, part) in parts.iter().enumerate() {
                let kind = part.at("type").as_str().unwrap_or_default();
                if kind.is_empty() || (!kinds.is_empty() && !kinds.contains(&kind)) {
                    f.add_as(
                        "content.part",
                        format!("{at}[{j}].type"),
                        format!("Invalid value: '{kind}'. Supported values are: 'text'."),
                        400,
                        Some("invalid_value"),
                    );
                } else if kind == "text" && !part.at("text").is_string() {
                    f.add(
                        "content.part",
                        format!("{at}[{j}].text"),
                        format!("Missing required parameter: '{at}[{j}].text'."),
                    );
                } else if kind == "image_url"
                    && !part.at("image_url").at("url").is_string()
                    && !part.at("image_url").is_string()
                {
                    f.add(
                        "content.part",
                        format!("{at}[{j}].image_url"),
                        format!("Missing required parameter: '{at}[{j}].image_url.url'."),
                    );
                }
            }
        }
        Value::Null => {
            f.add(
                "content.null",
                &at,
                "Invalid value for 'content': expected a string, got null.",
            );
        }
        _ => f.add(
            "field.type",
            &at,
            format!("Invalid type for '{at}': expected one of an array of objects or string."),
        ),
    }
}

fn assistant(f: &mut Found, i: usize, at: &str, message: &Value, rules: &Rules) {
    let calls = message.get("tool_calls");
    let has_calls = calls
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty());
    let other = ["refusal", "function_call", "audio"]
        .iter()
        .any(|key| !message.at(key).is_null());
    if !(message.at("content").is_null() && (has_calls || other)) {
        content(f, at, message, &["text", "refusal"]);
    }
    let empty = message.at("content").as_str() == Some("");
    let reasons = ["reasoning_content", "reasoning_details", "reasoning"]
        .iter()
        .any(|key| !message.at(key).is_null());
    if empty && !has_calls && !other && !reasons && rules.chat == ChatServer::Mistral {
        f.add(
            "message.empty",
            at,
            "Assistant message must have either content or tool_calls, but not none.",
        );
    }
    match calls {
        None => {}
        Some(Value::Array(list)) => {
            if list.is_empty() {
                f.add_as(
                    "tool_calls.empty",
                    format!("{at}.tool_calls"),
                    format!("Invalid '{at}.tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead. ([] is too short - 'messages.{i}.tool_calls')"),
                    400,
                    Some("empty_array"),
                );
            }
            for (j, call) in list.iter().enumerate() {
                check_call(f, &format!("{at}.tool_calls[{j}]"), call, rules);
            }
        }
        Some(Value::Null) if !rules.unknown_fields => {}
        Some(_) => f.add_as(
            "field.type",
            format!("{at}.tool_calls"),
            format!("Invalid type for '{at}.tool_calls': expected an array of objects, but got null instead."),
            400,
            Some("invalid_type"),
        ),
    }
}

fn check_call(f: &mut Found, at: &str, call: &Value, rules: &Rules) {
    let id = call.at("id").as_str().unwrap_or_default();
    call_id(f, &format!("{at}.id"), id, rules);
    if call.at("type") != "function"
        && call.at("type") != "custom"
        && rules.chat != ChatServer::Mistral
    {
        f.add_as(
            "tool_call.type",
            format!("{at}.type"),
            format!("Missing required parameter: '{at}.type'."),
            400,
            Some("missing_required_parameter"),
        );
    }
    if call.at("type") == "custom" {
        return;
    }
    if call
        .at("function")
        .at("name")
        .as_str()
        .is_none_or(str::is_empty)
    {
        f.add_as(
            "tool_call.name",
            format!("{at}.function.name"),
            format!("Missing required parameter: '{at}.function.name'."),
            400,
            Some("missing_required_parameter"),
        );
    }
    match call.at("function").at("arguments").as_str() {
        None => f.add_as(
            "tool_call.arguments",
            format!("{at}.function.arguments"),
            format!("Invalid type for '{at}.function.arguments': expected a string."),
            400,
            Some("invalid_type"),
        ),
        Some(text) => {
            if let Some(why) = bad_arguments(text, rules) {
                f.add(
                    "tool_call.arguments",
                    format!("{at}.function.arguments"),
                    format!("Invalid '{at}.function.arguments': the arguments are not a JSON object ({why})."),
                );
            }
        }
    }
    if rules.unknown_fields {
        for key in unknown(call, &["id", "type", "function", "extra_content"]) {
            f.add_as(
                "field.unknown",
                format!("{at}.{key}"),
                format!("Unknown parameter: '{at}.{key}'."),
                400,
                Some("unknown_parameter"),
            );
        }
    }
}

fn call_id(f: &mut Found, at: &str, id: &str, rules: &Rules) {
    if id.is_empty() {
        f.add_as(
            "tool_call.id",
            at,
            format!("Missing required parameter: '{at}'."),
            400,
            Some("missing_required_parameter"),
        );
    } else if rules.chat == ChatServer::Mistral {
        if id.len() != 9 || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            f.add(
                "tool_call.id",
                at,
                format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."),
            );
        }
    } else if matches!(rules.chat, ChatServer::OpenAi | ChatServer::Compatible)
        && id.chars().count() > 40
    {
        f.add_as(
            "tool_call.id",
            at,
            format!("Invalid '{at}': string too long. Expected a string with maximum length 40, but got a string with length {} instead.", id.chars().count()),
            400,
            Some("string_above_max_length"),
        );
    }
}

fn calls_of(message: &Value) -> impl Iterator<Item = &str> {
    message
        .at("tool_calls")
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|call| call.at("id").as_str())
}

fn pairing(f: &mut Found, messages: &[Value], rules: &Rules) {
    if rules.chat == ChatServer::LlamaCpp {
        return;
    }
    let mut all = HashSet::new();
    let mut i = 0;
    while let Some(message) = messages.get(i) {
        let here = i;
        i += 1;
        match message.at("role").as_str() {
            Some("tool") => f.add(
                "tool.orphan",
                format!("messages.[{here}].role"),
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
            ),
            Some("assistant") => {
                let calls: Vec<&str> = calls_of(message).collect();
                let mut own = HashSet::new();
                for id in &calls {
                    let again = !all.insert(*id) && !rules.chat_reused_ids;
                    if !own.insert(*id) || again {
                        f.add("tool_call.unique", format!("messages.[{here}].tool_calls"), format!("Duplicate value for 'tool_call_id' of '{id}'"));
                    }
                }
                if calls.is_empty() {
                    continue;
                }
                let mut answered = HashSet::new();
                while let Some(next) = messages.get(i).filter(|next| next.at("role") == "tool") {
                    let id = next.at("tool_call_id").as_str().unwrap_or_default();
                    if !own.contains(id) {
                        f.add(
                            "tool.orphan",
                            format!("messages.[{i}].role"),
                            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
                        );
                    } else if !answered.insert(id) {
                        f.add(
                            "tool.duplicate",
                            format!("messages.[{i}].tool_call_id"),
                            format!("Duplicate value for 'tool_call_id' of '{id}' in message[{i}]"),
                        );
                    }
                    i += 1;
                }
                let open: Vec<&str> =
                    calls.iter().copied().filter(|id| !answered.contains(id)).collect();
                if !open.is_empty() {
                    unanswered(f, i, &open, rules);
                }
            }
            _ => {}
        }
    }
}

fn unanswered(f: &mut Found, next: usize, open: &[&str], rules: &Rules) {
    let start = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.";
    let at = format!("messages.[{next}].role");
    match rules.chat {
        ChatServer::DeepSeek | ChatServer::OldReasoner => f.add_as(
            "tool_call.unanswered",
            at,
            format!("{start} (insufficient tool messages following tool_calls message)"),
            400,
            Some("invalid_request_error"),
        ),
        _ => f.add(
            "tool_call.unanswered",
            at,
            format!(
                "{start} The following tool_call_ids did not have response messages: {}",
                open.join(", ")
            ),
        ),
    }
}

fn reasoning(f: &mut Found, body: &Value, messages: &[Value], rules: &Rules) {
    let on = match body.at("thinking").at("type").as_str() {
        Some("enabled") => true,
        Some("disabled") => false,
        _ => rules.chat_thinking,
    };
    let mut had_calls = false;
    for (i, message) in messages.iter().enumerate() {
        if message.at("role") != "assistant" {
            continue;
        }
        let calls = calls_of(message).next().is_some();
        had_calls |= calls;
        let text = message.at("reasoning_content");
        match rules.chat {
            ChatServer::DeepSeek if on && had_calls && !text.is_string() => f.add_as(
                "reasoning.missing",
                format!("messages[{i}]"),
                "The `reasoning_content` in the thinking mode must be passed back to the API.",
                400,
                Some("invalid_request_error"),
            ),
            ChatServer::Kimi if on && calls && !text.is_string() => f.add(
                "reasoning.missing",
                format!("messages[{i}]"),
                format!("thinking is enabled but reasoning_content is missing in assistant tool call message at index {i}"),
            ),
            ChatServer::OldReasoner if message.get("reasoning_content").is_some() => f.add(
                "reasoning.present",
                format!("messages[{i}]"),
                "The reasoning_content field is not allowed in the input messages.",
            ),
            _ => {}
        }
    }
}

fn order(f: &mut Found, messages: &[Value], rules: &Rules) {
    let role = |message: &Value| message.at("role").as_str().unwrap_or_default().to_owned();
    let roles: Vec<String> = messages.iter().map(role).collect();
    let at = format!("messages[{}]", roles.len().saturating_sub(1));
    if rules.chat == ChatServer::LlamaCpp
        && roles
            .iter()
            .rev()
            .take_while(|role| *role == "assistant")
            .count()
            >= 2
    {
        f.add(
            "order.assistants",
            &at,
            "Cannot have 2 or more assistant messages at the end of the list.",
        );
    }
    if rules.chat == ChatServer::Mistral
        && let Some(message) = messages.last()
        && message.at("role") == "assistant"
        && message.at("prefix") != true
    {
        f.add("order.last", &at, "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant");
    }
    if !rules.chat_strict_roles {
        return;
    }
    let mut before = "";
    for (i, role) in roles.iter().enumerate() {
        let sound = match role.as_str() {
            "system" | "developer" => {
                before.is_empty() || before == "system" || before == "developer"
            }
            "user" => before != "tool" && before != "user",
            "assistant" => matches!(before, "user" | "tool"),
            _ => true,
        };
        if !sound {
            let message = if before == "tool" {
                format!("Unexpected role '{role}' after role 'tool'")
            } else {
                "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...".to_owned()
            };
            f.add("order.roles", format!("messages[{i}]"), message);
        }
        before = role;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::rules_of;
    use super::*;
    use serde_json::json;

    fn check(messages: Value, rules: &Rules) -> Vec<&'static str> {
        rules_of(&check_chat(
            &json!({"model": "m", "stream": true, "messages": messages}),
            rules,
        ))
    }

    fn broken(messages: Value) -> Vec<&'static str> {
        check(messages, &Rules::default())
    }

    fn with(key: &str, value: Value) -> Vec<&'static str> {
        let mut body = json!({"model": "m", "stream": true, "messages": [user("q")]});
        body[key] = value;
        rules_of(&check_chat(&body, &Rules::default()))
    }

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn call(id: &str) -> Value {
        json!({"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}})
    }

    fn calls(ids: &[&str]) -> Value {
        let list: Vec<_> = ids.iter().map(|id| call(id)).collect();
        json!({"role": "assistant", "content": null, "tool_calls": list})
    }

    fn tool(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "ok"})
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn sound_histories_pass() {
        assert_eq!(
            broken(json!([
                {"role": "system", "content": "s"}, user("q"), calls(&["a", "b"]), tool("b"), tool("a"),
                {"role": "assistant", "content": "x", "reasoning_content": "r"}, user("y"),
            ])),
            NONE
        );
    }

    #[test]
    fn top_fields() {
        assert_eq!(
            rules_of(&check_chat(&json!({}), &Rules::default())),
            ["field.required"]
        );
        assert_eq!(with("messages", json!([])), ["messages.empty"]);
        assert_eq!(with("messages", json!(1)), ["field.type"]);
        assert_eq!(with("model", json!("")), ["field.type"]);
        assert_eq!(with("max_output_tokens", json!(1)), ["field.unknown"]);
        assert_eq!(with("thinking", json!({"type": "enabled"})), NONE);
        assert_eq!(with("stream_options", json!({"include_usage": true})), NONE);
        let mut body = json!({"model": "gpt-5", "messages": [user("q")], "stream_options": {}});
        assert_eq!(
            rules_of(&check_chat(&body, &Rules::default())),
            ["stream_options"]
        );
        body["stream"] = json!(true);
        let rules = Rules {
            chat_stream_options: false,
            ..Rules::default()
        };
        assert_eq!(rules_of(&check_chat(&body, &rules)), ["stream_options"]);
        body["max_tokens"] = json!(5);
        assert_eq!(
            rules_of(&check_chat(&body, &Rules::chat(ChatServer::OpenAi))),
            ["max_tokens"]
        );
        assert!(check_chat(&body, &Rules::default()).is_empty());
    }

    #[test]
    fn tool_shapes() {
        let t = json!({"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}});
        assert_eq!(with("tools", json!([t])), NONE);
        assert_eq!(with("tools", json!([])), ["tools.empty"]);
        assert_eq!(with("tools", json!({})), ["field.type"]);
        assert_eq!(
            with("tools", Value::Array(vec![t.clone(); 129])),
            ["tools.too_many"]
        );
        assert_eq!(with("tools", json!([{"name": "t"}])), ["tool.type"]);
        assert_eq!(
            with("tools", json!([{"type": "function", "name": "t"}])),
            ["tool.function"]
        );
        assert_eq!(
            with(
                "tools",
                json!([{"type": "function", "function": {"name": "a.b"}}])
            ),
            ["tool.name"]
        );
        assert_eq!(
            with(
                "tools",
                json!([{"type": "function", "function": {"name": "t", "parameters": {"type": "array"}}}])
            ),
            ["tool.schema"]
        );
        assert_eq!(with("tool_choice", json!("auto")), ["tools.required"]);
        assert_eq!(with("parallel_tool_calls", json!(true)), ["tools.required"]);
        let mut body = json!({"model": "m", "messages": [user("q")], "tools": [t]});
        for (choice, want) in [
            (json!("required"), &NONE[..]),
            (
                json!({"type": "function", "function": {"name": "t"}}),
                &NONE[..],
            ),
            (
                json!({"type": "function", "function": {"name": "u"}}),
                &["tool_choice"][..],
            ),
            (json!("perhaps"), &["tool_choice"][..]),
        ] {
            body["tool_choice"] = choice;
            assert_eq!(rules_of(&check_chat(&body, &Rules::default())), want);
        }
    }

    #[test]
    fn messages() {
        assert_eq!(
            broken(json!([{"role": "model", "content": "x"}])),
            ["message.role"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": null}])),
            ["content.null"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": []}])),
            ["content.empty"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": 1}])),
            ["field.type"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": [{"type": "text"}]}])),
            ["content.part"]
        );
        assert_eq!(
            broken(
                json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}])
            ),
            NONE
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": [{"type": "image_url"}]}])),
            ["content.part"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": "x", "id": "1"}])),
            ["field.unknown"]
        );
        assert_eq!(
            broken(json!([user("q"), {"role": "assistant", "content": null}, user("r")])),
            ["content.null"]
        );
        assert_eq!(
            broken(json!([user("q"), {"role": "assistant", "content": "x", "tool_calls": []}])),
            ["tool_calls.empty"]
        );
        assert_eq!(
            broken(json!([user("q"), {"role": "assistant", "content": "x", "tool_calls": null}])),
            ["field.type"]
        );
        let image = json!({"role": "tool", "tool_call_id": "a", "content": [{"type": "image_url", "image_url": {"url": "u"}}]});
        assert_eq!(
            broken(json!([user("q"), calls(&["a"]), image])),
            ["content.part"]
        );
        assert_eq!(
            check(
                json!([user("q"), {"role": "assistant", "content": "x", "reasoning_content": "r"}]),
                &Rules::chat(ChatServer::OpenAi)
            ),
            ["field.unknown"]
        );
    }

    #[test]
    fn calls_and_results() {
        assert_eq!(
            broken(json!([
                user("q"),
                calls(&["a", "b"]),
                tool("a"),
                user("r"),
                tool("b")
            ])),
            ["tool.orphan", "tool_call.unanswered"]
        );
        assert_eq!(
            broken(json!([user("q"), calls(&["a"])])),
            ["tool_call.unanswered"]
        );
        assert_eq!(broken(json!([user("q"), tool("a")])), ["tool.orphan"]);
        assert_eq!(
            broken(json!([user("q"), calls(&["a"]), tool("a"), tool("a")])),
            ["tool.duplicate"]
        );
        assert_eq!(
            broken(json!([user("q"), calls(&["a", "a"]), tool("a")])),
            ["tool_call.unique"]
        );
        let again = json!([
            user("q"),
            calls(&["a"]),
            tool("a"),
            calls(&["a"]),
            tool("a")
        ]);
        assert_eq!(broken(again.clone()), ["tool_call.unique"]);
        assert_eq!(
            check(
                again,
                &Rules {
                    chat_reused_ids: true,
                    ..Rules::default()
                }
            ),
            NONE
        );
        let long = "x".repeat(41);
        assert_eq!(
            broken(json!([user("q"), calls(&[&long]), tool(&long)])),
            ["tool_call.id"]
        );
        assert_eq!(
            broken(json!([user("q"), calls(&[""]), tool("")])),
            ["field.required", "tool_call.id"]
        );
        for arguments in ["", "{", "null", "[]", r#"{"a":"\ud800"}"#] {
            let mut message = calls(&["a"]);
            message["tool_calls"][0]["function"]["arguments"] = json!(arguments);
            assert_eq!(
                broken(json!([user("q"), message, tool("a")])),
                ["tool_call.arguments"],
                "{arguments}"
            );
        }
        let mut message = calls(&["a"]);
        message["tool_calls"][0] = json!({"id": "a", "function": {"arguments": {}}, "index": 0});
        assert_eq!(
            broken(json!([user("q"), message, tool("a")])),
            [
                "field.unknown",
                "tool_call.arguments",
                "tool_call.name",
                "tool_call.type"
            ]
        );
    }

    #[test]
    fn deepseek_kimi_and_the_old_reasoner() {
        let deepseek = Rules::chat(ChatServer::DeepSeek);
        let mut history = json!([user("q"), calls(&["a"]), tool("a"), {"role": "assistant", "content": "x"}, user("r")]);
        assert_eq!(check(history.clone(), &deepseek), ["reasoning.missing"]);
        history[1]["reasoning_content"] = json!("");
        let found = check_chat(&json!({"model": "m", "messages": history}), &deepseek);
        assert_eq!((found.len(), found[0].at.as_str()), (1, "messages[3]"));
        history[3]["reasoning_content"] = json!("why");
        assert_eq!(check(history.clone(), &deepseek), NONE);
        history[3]["reasoning_content"] = json!(null);
        assert_eq!(check(history.clone(), &deepseek), ["reasoning.missing"]);
        let off = json!({"model": "m", "thinking": {"type": "disabled"}, "messages": history});
        assert!(check_chat(&off, &deepseek).is_empty());
        assert_eq!(check(history.clone(), &Rules::chat(ChatServer::Kimi)), NONE);
        assert_eq!(
            check(history.clone(), &Rules::chat(ChatServer::OldReasoner)),
            ["reasoning.present"]
        );
        history[1]["reasoning_content"] = json!(null);
        assert_eq!(
            check(history, &Rules::chat(ChatServer::Kimi)),
            ["reasoning.missing"]
        );
        let open = check_chat(
            &json!({"model": "m", "messages": [user("q"), calls(&["a"])]}),
            &deepseek,
        );
        assert!(open[0].message.contains("insufficient tool messages"));
    }

    #[test]
    fn mistral_and_llama_cpp() {
        let mistral = Rules {
            chat_strict_roles: true,
            ..Rules::chat(ChatServer::Mistral)
        };
        assert_eq!(
            check(
                json!([user("q"), calls(&["abcdefgh1"]), tool("abcdefgh1")]),
                &mistral
            ),
            NONE
        );
        assert_eq!(
            check(
                json!([user("q"), calls(&["call_1"]), tool("call_1")]),
                &mistral
            ),
            ["tool_call.id"]
        );
        assert_eq!(
            check(
                json!([
                    user("q"),
                    calls(&["abcdefgh1"]),
                    tool("abcdefgh1"),
                    user("r")
                ]),
                &mistral
            ),
            ["order.roles"]
        );
        assert_eq!(
            check(json!([user("q"), user("r")]), &mistral),
            ["order.roles"]
        );
        assert_eq!(
            check(
                json!([user("q"), {"role": "system", "content": "s"}, user("x")]),
                &mistral
            ),
            ["order.roles"]
        );
        assert_eq!(
            check(
                json!([user("q"), {"role": "assistant", "content": "s"}]),
                &mistral
            ),
            ["order.last"]
        );
        assert_eq!(
            check(
                json!([user("q"), {"role": "assistant", "content": ""}, user("r")]),
                &mistral
            ),
            ["message.empty"]
        );
        let llama = Rules::chat(ChatServer::LlamaCpp);
        let said = json!({"role": "assistant", "content": "s"});
        assert_eq!(check(json!([user("q"), said]), &llama), NONE);
        assert_eq!(
            check(json!([user("q"), said, said]), &llama),
            ["order.assistants"]
        );
        assert_eq!(check(json!([user("q"), calls(&["a"])]), &llama), NONE);
    }
}
