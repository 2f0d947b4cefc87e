//! OpenAI Responses.

use super::{Found, Rules, Violation, bad_arguments, is_name, unknown};
use crate::value::At;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

const TOP: &[&str] = &[
    "model",
    "input",
    "instructions",
    "stream",
    "stream_options",
    "store",
    "include",
    "reasoning",
    "max_output_tokens",
    "max_tool_calls",
    "parallel_tool_calls",
    "tools",
    "tool_choice",
    "truncation",
    "prompt_cache_key",
    "prompt_cache_retention",
    "background",
    "previous_response_id",
    "conversation",
    "metadata",
    "temperature",
    "top_p",
    "top_logprobs",
    "text",
    "user",
    "service_tier",
    "safety_identifier",
    "prompt",
    "context_management",
    "verbosity",
];

/// Calls that need an output item, the type of that output, and a word for the sentence.
const CALLS: &[(&str, &str, &str)] = &[
    ("function_call", "function_call_output", "function call"),
    (
        "custom_tool_call",
        "custom_tool_call_output",
        "custom tool call",
    ),
    ("computer_call", "computer_call_output", "computer call"),
    (
        "local_shell_call",
        "local_shell_call_output",
        "local shell call",
    ),
    ("shell_call", "shell_call_output", "shell call"),
    (
        "apply_patch_call",
        "apply_patch_call_output",
        "apply patch call",
    ),
];

/// How the id of an item of a type begins.
const PREFIXES: &[(&str, &str)] = &[
    ("message", "msg"),
    ("function_call", "fc"),
    ("reasoning", "rs"),
    ("custom_tool_call", "ctc"),
    ("web_search_call", "ws"),
    ("file_search_call", "fs"),
    ("code_interpreter_call", "ci"),
    ("image_generation_call", "ig"),
    ("mcp_list_tools", "mcpl"),
    ("mcp_call", "mcp"),
];

/// The type of an item; a message may leave it out.
fn kind(item: &Value) -> &str {
    match item.at("type").as_str() {
        Some(kind) => kind,
        None if item.at("role").is_string() => "message",
        None => "",
    }
}

/// Did the model make this item?
pub(crate) fn from_model(item: &Value) -> bool {
    match kind(item) {
        "message" => item.at("role") == "assistant",
        "item_reference" | "" => false,
        kind => !kind.ends_with("_output") && kind != "mcp_approval_response",
    }
}

/// Check a body against the rules of the Responses API.
#[must_use]
pub fn check_responses(body: &Value, rules: &Rules) -> Vec<Violation> {
    let mut found = Found::default();
    let f = &mut found;
    top(f, body, rules);
    tools(f, body);
    let items = body.at("input").as_array().map_or(&[][..], Vec::as_slice);
    for (i, item) in items.iter().enumerate() {
        check_item(f, i, item, body, rules);
    }
    item_ids(f, items);
    pairing(f, items, body);
    followers(f, items);
    if rules.responses_reasoning_text {
        reasoning_text(f, items);
    }
    found.0
}

fn missing(f: &mut Found, at: &str) {
    f.add_as(
        "field.required",
        at,
        format!("Missing required parameter: '{at}'."),
        400,
        Some("missing_required_parameter"),
    );
}

fn invalid(f: &mut Found, rule: &'static str, at: &str, message: String) {
    f.add_as(rule, at, message, 400, Some("invalid_value"));
}

fn top(f: &mut Found, body: &Value, rules: &Rules) {
    if body.at("model").as_str().is_none_or(str::is_empty) {
        missing(f, "model");
    }
    let chained = body.at("previous_response_id").is_string() || !body.at("conversation").is_null();
    match body.at("input") {
        Value::String(_) => {}
        Value::Null if chained => {}
        Value::Null => missing(f, "input"),
        Value::Array(list) if list.is_empty() && !chained => {
            f.add("input.empty", "input", "[] is too short - 'input'");
        }
        Value::Array(_) => {}
        _ => f.add(
            "field.type",
            "input",
            "Invalid type for 'input': expected one of a string or array of input items.",
        ),
    }
    if rules.unknown_fields {
        for key in unknown(body, TOP) {
            f.add_as(
                "field.unknown",
                key,
                format!("Unknown parameter: '{key}'."),
                400,
                Some("unknown_parameter"),
            );
        }
    }
    if body.at("truncation") == "auto" && !rules.responses_truncation {
        invalid(
            f,
            "truncation",
            "truncation",
            "Invalid value: 'auto'. With truncation the server drops old items silently.".into(),
        );
    }
    let reasoning = body.at("reasoning");
    for (key, allowed) in [
        (
            "effort",
            &["none", "minimal", "low", "medium", "high", "xhigh", "max"][..],
        ),
        ("summary", &["auto", "concise", "detailed"][..]),
        ("context", &["auto", "current_turn", "all_turns"][..]),
    ] {
        let value = reasoning.at(key);
        if !value.is_null() && !allowed.iter().any(|word| value == word) {
            let at = format!("reasoning.{key}");
            invalid(
                f,
                "field.value",
                &at,
                format!(
                    "Invalid value for '{at}'. Supported values are: {}.",
                    allowed.join(", ")
                ),
            );
        }
    }
    for (i, word) in body
        .at("include")
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if !word.as_str().is_some_and(|word| word.contains('.')) {
            invalid(
                f,
                "field.value",
                &format!("include[{i}]"),
                format!("Invalid value: {word}."),
            );
        }
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
    for (i, tool) in list.iter().enumerate() {
        let at = format!("tools[{i}]");
        match tool.at("type").as_str() {
            Some("function") => {}
            Some(_) => continue,
            None => {
                missing(f, &format!("{at}.type"));
                continue;
            }
        }
        match tool.at("name").as_str() {
            None => missing(f, &format!("{at}.name")),
            Some(name) if !is_name(name, 64) => invalid(
                f,
                "tool.name",
                &format!("{at}.name"),
                format!(
                    "Invalid '{at}.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
                ),
            ),
            Some(_) => {}
        }
        let schema = tool.at("parameters");
        if !schema.is_null()
            && (!schema.is_object() || schema.get("type").is_some_and(|kind| kind != "object"))
        {
            f.add_as(
                "tool.schema",
                format!("{at}.parameters"),
                format!("Invalid schema for function '{}': schema must be a JSON Schema of 'type: \"object\"'.", tool.at("name").as_str().unwrap_or_default()),
                400,
                Some("invalid_function_parameters"),
            );
        }
        for key in unknown(
            tool,
            &[
                "type",
                "name",
                "description",
                "parameters",
                "strict",
                "defer_loading",
                "allowed_callers",
                "output_schema",
            ],
        ) {
            f.add_as(
                "field.unknown",
                format!("{at}.{key}"),
                format!("Unknown parameter: '{at}.{key}'."),
                400,
                Some("unknown_parameter"),
            );
        }
    }
    let choice = body.at("tool_choice");
    let sound = match choice {
        Value::Null => true,
        Value::String(text) => {
            matches!(text.as_str(), "none" | "auto")
                || (matches!(text.as_str(), "required") && !list.is_empty())
        }
        Value::Object(_) if choice.at("type") == "function" => {
            list.iter().any(|tool| tool.at("name") == choice.at("name"))
        }
        Value::Object(_) => choice.at("type").is_string(),
        _ => false,
    };
    if !sound {
        invalid(
            f,
            "tool_choice",
            "tool_choice",
            "Tool choice not found in 'tools' parameter, or its form is unknown.".into(),
        );
    }
}

fn known_fields(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "message" => &["type", "role", "content", "id", "status", "phase"],
        "function_call" => &[
            "type",
            "id",
            "call_id",
            "name",
            "arguments",
            "status",
            "namespace",
            "caller",
        ],
        "function_call_output" => &["type", "id", "call_id", "output", "status", "caller"],
        "reasoning" => &[
            "type",
            "id",
            "summary",
            "content",
            "encrypted_content",
            "status",
        ],
        "custom_tool_call" => &[
            "type",
            "id",
            "call_id",
            "name",
            "input",
            "status",
            "namespace",
            "caller",
        ],
        "custom_tool_call_output" => &["type", "id", "call_id", "output", "status", "caller"],
        "item_reference" => &["type", "id"],
        "compaction" => &["type", "id", "encrypted_content"],
        _ => return None,
    })
}

fn check_item(f: &mut Found, i: usize, item: &Value, body: &Value, rules: &Rules) {
    let at = format!("input[{i}]");
    let kind = kind(item);
    // Output-only everywhere.
    let mut extra: Vec<&str> = item
        .get("created_by")
        .is_some()
        .then_some("created_by")
        .into_iter()
        .collect();
    if rules.unknown_fields
        && let Some(known) = known_fields(kind)
    {
        extra.extend(unknown(item, known).filter(|key| *key != "created_by"));
    }
    for key in extra {
        f.add_as(
            "item.unknown_field",
            format!("{at}.{key}"),
            format!("Unknown parameter: '{at}.{key}'."),
            400,
            Some("unknown_parameter"),
        );
    }
    if let Some(status) = item.get("status")
        && !status.is_null()
        && matches!(
            kind,
            "message" | "function_call" | "function_call_output" | "reasoning"
        )
        && !["in_progress", "completed", "incomplete"]
            .iter()
            .any(|word| status == word)
    {
        invalid(
            f,
            "item.status",
            &format!("{at}.status"),
            format!(
                "Invalid value: {status}. Supported values are: 'in_progress', 'completed', and 'incomplete'."
            ),
        );
    }
    let not_stored = body.at("store") == false;
    match kind {
        "" => invalid(
            f,
            "item.type",
            &format!("{at}.type"),
            format!("Invalid value: ''. '{at}' has neither a type nor a role."),
        ),
        "message" => message(f, &at, item),
        "function_call" => function_call(f, &at, item, rules),
        "custom_tool_call" => {
            for key in ["call_id", "name", "input"] {
                if !item.at(key).is_string() {
                    missing(f, &format!("{at}.{key}"));
                }
            }
        }
        "function_call_output" | "custom_tool_call_output" => output(f, &at, item),
        "reasoning" => reasoning(f, &at, item, not_stored, rules),
        "compaction"
            if item
                .at("encrypted_content")
                .as_str()
                .is_none_or(str::is_empty) =>
        {
            missing(f, &format!("{at}.encrypted_content"));
        }
        "web_search_call" if !item.at("action").at("type").is_string() => {
            missing(f, &format!("{at}.action.type"));
        }
        "item_reference" => {
            let id = item.at("id").as_str().unwrap_or_default();
            if id.is_empty() {
                missing(f, &format!("{at}.id"));
            } else if not_stored {
                not_found(f, &at, id);
            }
        }
        _ => {}
    }
}

fn not_found(f: &mut Found, at: &str, id: &str) {
    f.add_as(
        "item.not_stored",
        at,
        format!("Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."),
        404,
        None,
    );
}

fn message(f: &mut Found, at: &str, item: &Value) {
    let role = item.at("role").as_str().unwrap_or_default();
    let kinds: &[&str] = match role {
        "user" | "system" | "developer" => {
            if item.at("id").is_string() && item.at("status").is_null() {
                // An id only makes sense on what the model said.
                f.add_as(
                    "item.unknown_field",
                    format!("{at}.id"),
                    format!("Unknown parameter: '{at}.id'."),
                    400,
                    Some("unknown_parameter"),
                );
            }
            &["input_text", "input_image", "input_file", "input_audio"]
        }
        "assistant" => &["output_text", "refusal"],
        _ => {
            invalid(
                f,
                "message.role",
                &format!("{at}.role"),
                format!(
                    "Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
                ),
            );
            return;
        }
    };
    if let Some(phase) = item.get("phase")
        && !phase.is_null()
        && (role != "assistant" || (phase != "commentary" && phase != "final_answer"))
    {
        invalid(
            f,
            "message.phase",
            &format!("{at}.phase"),
            format!(
                "Invalid value: {phase}. Supported values are: 'commentary' and 'final_answer'."
            ),
        );
    }
    match item.at("content") {
        Value::String(_) => {}
        Value::Array(parts) => {
            for (j, part) in parts.iter().enumerate() {
                let at = format!("{at}.content[{j}]");
                check_part(f, &at, part, kinds);
            }
        }
        Value::Null => missing(f, &format!("{at}.content")),
        _ => f.add(
            "field.type",
            format!("{at}.content"),
            format!(
                "Invalid type for '{at}.content': expected one of an array of objects or string."
            ),
        ),
    }
}

fn check_part(f: &mut Found, at: &str, part: &Value, kinds: &[&str]) {
    let kind = part.at("type").as_str().unwrap_or_default();
    if !kinds.contains(&kind) {
        let words: Vec<String> = kinds.iter().map(|kind| format!("'{kind}'")).collect();
        invalid(
            f,
            "content.type",
            &format!("{at}.type"),
            format!(
                "Invalid value: '{kind}'. Supported values are: {}.",
                words.join(" and ")
            ),
        );
        return;
    }
    match kind {
        "input_text" | "output_text" if !part.at("text").is_string() => {
            missing(f, &format!("{at}.text"))
        }
        "refusal" if !part.at("refusal").is_string() => missing(f, &format!("{at}.refusal")),
        "input_image" if !part.at("image_url").is_string() && !part.at("file_id").is_string() => {
            missing(f, &format!("{at}.image_url"));
        }
        "input_file" => {
            let named = part.at("filename").is_string();
            let data = part.at("file_data").is_string();
            let other = part.at("file_id").is_string() || part.at("file_url").is_string();
            if (data && !named) || (!data && !other) {
                missing(f, &format!("{at}.filename"));
            } else if other && named {
                invalid(
                    f,
                    "content.file",
                    at,
                    format!(
                        "Invalid '{at}': 'filename' is not allowed with 'file_id' or 'file_url'."
                    ),
                );
            }
        }
        _ => {}
    }
}

fn function_call(f: &mut Found, at: &str, item: &Value, rules: &Rules) {
    call_id(f, at, item);
    if item.at("name").as_str().is_none_or(str::is_empty) {
        missing(f, &format!("{at}.name"));
    }
    match item.at("arguments").as_str() {
        None => missing(f, &format!("{at}.arguments")),
        Some(text) => {
            if let Some(why) = bad_arguments(text, rules) {
                let at = format!("{at}.arguments");
                invalid(
                    f,
                    "call.arguments",
                    &at,
                    format!("Invalid '{at}': the arguments are not a JSON object ({why})."),
                );
            }
        }
    }
}

fn call_id(f: &mut Found, at: &str, item: &Value) {
    match item.at("call_id").as_str() {
        None | Some("") => missing(f, &format!("{at}.call_id")),
        Some(id) if id.chars().count() > 64 => f.add_as(
            "call.id",
            format!("{at}.call_id"),
            format!("Invalid '{at}.call_id': string too long. Expected a string with maximum length 64, but got a string with length {} instead.", id.chars().count()),
            400,
            Some("string_above_max_length"),
        ),
        Some(_) => {}
    }
}

fn output(f: &mut Found, at: &str, item: &Value) {
    call_id(f, at, item);
    match item.at("output") {
        Value::String(_) => {}
        Value::Array(parts) => {
            for (j, part) in parts.iter().enumerate() {
                check_part(
                    f,
                    &format!("{at}.output[{j}]"),
                    part,
                    &["input_text", "input_image", "input_file"],
                );
            }
        }
        Value::Null => missing(f, &format!("{at}.output")),
        _ => f.add(
            "field.type",
            format!("{at}.output"),
            format!(
                "Invalid type for '{at}.output': expected one of an array of objects or string."
            ),
        ),
    }
}

fn reasoning(f: &mut Found, at: &str, item: &Value, not_stored: bool, rules: &Rules) {
    match item.at("summary") {
        Value::Array(_) => {}
        Value::Null if item.get("summary").is_none() => missing(f, &format!("{at}.summary")),
        _ => f.add_as(
            "field.type",
            format!("{at}.summary"),
            format!("Invalid type for '{at}.summary': expected an array of objects."),
            400,
            Some("invalid_type"),
        ),
    }
    let encrypted = item
        .at("encrypted_content")
        .as_str()
        .is_some_and(|text| !text.is_empty());
    let content = item
        .at("content")
        .as_array()
        .is_some_and(|parts| !parts.is_empty());
    if not_stored && !encrypted && !content {
        match item.at("id").as_str() {
            Some(id) => not_found(f, at, id),
            None => missing(f, &format!("{at}.encrypted_content")),
        }
    }
    if rules.responses_reasoning_content && !content {
        f.add("reasoning.content", at, "Cannot determine type of 'item'");
    }
}

fn item_ids(f: &mut Found, items: &[Value]) {
    let mut seen = HashSet::new();
    for (i, item) in items.iter().enumerate() {
        let at = format!("input[{i}].id");
        let id = match item.at("id") {
            Value::Null => continue,
            Value::String(id) => id.as_str(),
            _ => {
                f.add_as(
                    "field.type",
                    &at,
                    format!("Invalid type for '{at}': expected a string."),
                    400,
                    Some("invalid_type"),
                );
                continue;
            }
        };
        if !seen.insert(id) {
            f.add(
                "item.duplicate",
                &at,
                format!("Duplicate item found with id {id}. Remove duplicate items from your input and try again."),
            );
        }
        let begins = PREFIXES
            .iter()
            .find(|(kind_of, _)| *kind_of == kind(item))
            .map(|(_, p)| *p);
        if let Some(prefix) = begins
            && !id.starts_with(prefix)
        {
            invalid(
                f,
                "item.id",
                &at,
                format!("Invalid '{at}': '{id}'. Expected an ID that begins with '{prefix}'."),
            );
        } else if !is_name(id, 64) {
            invalid(
                f,
                "item.id",
                &at,
                format!(
                    "Invalid '{at}': '{id}'. Expected an ID that contains letters, numbers, underscores, or dashes, of at most 64 characters."
                ),
            );
        }
    }
}

fn pairing(f: &mut Found, items: &[Value], body: &Value) {
    let chained = body.at("previous_response_id").is_string() || !body.at("conversation").is_null();
    for (call, out, words) in CALLS {
        // call_id → index of the call, and whether it was answered
        let mut open: HashMap<&str, bool> = HashMap::new();
        for (i, item) in items.iter().enumerate() {
            let id = item.at("call_id").as_str().unwrap_or_default();
            let at = format!("input[{i}]");
            if kind(item) == *call {
                if open.insert(id, false).is_some() {
                    f.add(
                        "call.unique",
                        at,
                        format!("Duplicate {words} found with call_id {id}."),
                    );
                }
            } else if kind(item) == *out {
                match open.get_mut(id) {
                    Some(answered @ false) => *answered = true,
                    Some(_) => f.add(
                        "output.duplicate",
                        at,
                        format!("Multiple tool outputs found for {words} {id}."),
                    ),
                    None if chained => {}
                    None => f.add(
                        "output.orphan",
                        at,
                        format!("No tool call found for {words} output with call_id {id}."),
                    ),
                }
            }
        }
        for (i, item) in items.iter().enumerate() {
            let id = item.at("call_id").as_str().unwrap_or_default();
            // One of the service's own runs on its side has no call_id.
            if kind(item) == *call && !item.at("call_id").is_null() && open.get(id) == Some(&false)
            {
                f.add(
                    "call.unanswered",
                    format!("input[{i}]"),
                    format!("No tool output found for {words} {id}."),
                );
            }
        }
    }
}

/// A reasoning item with an id is directly followed by what it produced.
fn followers(f: &mut Found, items: &[Value]) {
    for (i, item) in items.iter().enumerate() {
        let Some(id) = item.at("id").as_str().filter(|_| kind(item) == "reasoning") else {
            continue;
        };
        let followed = items.get(i + 1).is_some_and(from_model);
        if !followed {
            f.add(
                "reasoning.follower",
                format!("input[{i}]"),
                format!("Item '{id}' of type 'reasoning' was provided without its required following item."),
            );
        }
    }
}

/// DeepSeek: each run of model items with calls has its reasoning text.
fn reasoning_text(f: &mut Found, items: &[Value]) {
    let mut reasoned = false;
    for (i, item) in items.iter().enumerate() {
        if !from_model(item) {
            reasoned = false;
        } else if kind(item) == "reasoning" {
            reasoned |= item
                .at("content")
                .as_array()
                .is_some_and(|parts| !parts.is_empty());
        } else if kind(item) == "function_call" && !reasoned {
            f.add(
                "reasoning.text",
                format!("input[{i}]"),
                "The `reasoning_text` in the thinking mode must be passed back to the API.",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::rules_of;
    use super::*;
    use serde_json::json;

    const NONE: [&str; 0] = [];

    fn check(input: Value, rules: &Rules) -> Vec<&'static str> {
        let body = json!({"model": "m", "stream": true, "store": false, "input": input});
        rules_of(&check_responses(&body, rules))
    }

    fn broken(input: Value) -> Vec<&'static str> {
        check(input, &Rules::default())
    }

    fn with(key: &str, value: Value) -> Vec<&'static str> {
        let mut body = json!({"model": "m", "stream": true, "input": [user()]});
        body[key] = value;
        rules_of(&check_responses(&body, &Rules::default()))
    }

    fn user() -> Value {
        json!({"role": "user", "content": [{"type": "input_text", "text": "q"}]})
    }

    fn said(id: &str) -> Value {
        json!({"type": "message", "role": "assistant", "id": id, "status": "completed",
            "content": [{"type": "output_text", "text": "x", "annotations": []}]})
    }

    fn call(id: &str) -> Value {
        json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "t", "arguments": "{}"})
    }

    fn out(id: &str) -> Value {
        json!({"type": "function_call_output", "call_id": id, "output": "ok"})
    }

    fn think(id: &str) -> Value {
        json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "g+/="})
    }

    #[test]
    fn sound_histories_pass() {
        assert_eq!(
            broken(json!([
                user(),
                think("rs_1"),
                call("a"),
                call("b"),
                out("a"),
                user(),
                out("b"),
                think("rs_2"),
                said("msg_1"),
                user(),
            ])),
            NONE
        );
        assert_eq!(with("input", json!("hello")), NONE);
    }

    #[test]
    fn top_fields() {
        assert_eq!(
            rules_of(&check_responses(&json!({}), &Rules::default())),
            ["field.required"]
        );
        assert_eq!(with("input", json!([])), ["input.empty"]);
        assert_eq!(with("input", json!(1)), ["field.type"]);
        assert_eq!(with("messages", json!([])), ["field.unknown"]);
        assert_eq!(with("truncation", json!("auto")), ["truncation"]);
        assert_eq!(with("truncation", json!("disabled")), NONE);
        assert_eq!(
            with("reasoning", json!({"effort": "huge"})),
            ["field.value"]
        );
        assert_eq!(
            with("reasoning", json!({"effort": "high", "summary": "auto"})),
            NONE
        );
        assert_eq!(with("include", json!(["reasoning"])), ["field.value"]);
        assert_eq!(
            with("include", json!(["reasoning.encrypted_content"])),
            NONE
        );
    }

    #[test]
    fn tool_shapes() {
        assert_eq!(
            with(
                "tools",
                json!([{"type": "function", "name": "t", "parameters": {"type": "object"}, "strict": false}])
            ),
            NONE
        );
        assert_eq!(
            with(
                "tools",
                json!([{"type": "function", "function": {"name": "t"}}])
            ),
            ["field.required", "field.unknown"]
        );
        assert_eq!(with("tools", json!([{"name": "t"}])), ["field.required"]);
        assert_eq!(
            with("tools", json!([{"type": "function", "name": "a b"}])),
            ["tool.name"]
        );
        assert_eq!(
            with(
                "tools",
                json!([{"type": "function", "name": "t", "parameters": {"type": "string"}}])
            ),
            ["tool.schema"]
        );
        assert_eq!(with("tools", json!(1)), ["field.type"]);
        assert_eq!(with("tool_choice", json!("required")), ["tool_choice"]);
        assert_eq!(
            with("tool_choice", json!({"type": "function", "name": "x"})),
            ["tool_choice"]
        );
        assert_eq!(with("tool_choice", json!("auto")), NONE);
    }

    #[test]
    fn items() {
        assert_eq!(broken(json!([{"x": 1}])), ["item.type"]);
        assert_eq!(
            broken(json!([{"role": "tool", "content": "x"}])),
            ["message.role"]
        );
        assert_eq!(broken(json!([{"role": "user"}])), ["field.required"]);
        assert_eq!(
            broken(json!([{"role": "user", "content": 1}])),
            ["field.type"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": [{"type": "output_text", "text": "x"}]}])),
            ["content.type"]
        );
        assert_eq!(
            broken(
                json!([{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}])
            ),
            ["content.type"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": [{"type": "input_text"}]}])),
            ["field.required"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": [{"type": "input_image"}]}])),
            ["field.required"]
        );
        assert_eq!(
            broken(
                json!([{"role": "user", "content": [{"type": "input_file", "file_data": "x"}]}])
            ),
            ["field.required"]
        );
        assert_eq!(
            broken(
                json!([{"role": "user", "content": [{"type": "input_file", "file_id": "x", "filename": "f"}]}])
            ),
            ["content.file"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": "x", "name": "n"}])),
            ["item.unknown_field"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": "x", "id": "msg_1"}])),
            ["item.unknown_field"]
        );
        let mut item = said("msg_1");
        item["created_by"] = json!("x");
        assert_eq!(broken(json!([item])), ["item.unknown_field"]);
        let mut item = said("msg_1");
        item["phase"] = json!("final_answer");
        assert_eq!(broken(json!([item])), NONE);
        item["phase"] = json!("last");
        assert_eq!(broken(json!([item])), ["message.phase"]);
        item["phase"] = json!(null);
        item["status"] = json!("done");
        assert_eq!(broken(json!([item])), ["item.status"]);
        assert_eq!(
            broken(json!([{"type": "compaction", "id": "cmp_1"}])),
            ["field.required"]
        );
        assert_eq!(
            broken(json!([{"type": "web_search_call", "id": "ws_1", "status": "completed"}])),
            ["field.required"]
        );
        assert_eq!(
            broken(
                json!([{"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}}])
            ),
            NONE
        );
        assert_eq!(
            broken(json!([{"type": "item_reference", "id": "msg_1"}])),
            ["item.not_stored"]
        );
        assert_eq!(
            broken(json!([{"type": "something_new", "id": "x_1"}])),
            NONE
        );
    }

    #[test]
    fn ids() {
        assert_eq!(broken(json!([said("call_x")])), ["item.id"]);
        assert_eq!(broken(json!([said("msg_a.b")])), ["item.id"]);
        assert_eq!(
            broken(json!([said(&format!("msg_{}", "x".repeat(61)))])),
            ["item.id"]
        );
        assert_eq!(
            broken(json!([said("msg_1"), user(), said("msg_1")])),
            ["item.duplicate"]
        );
        let mut item = said("msg_1");
        item["id"] = json!(5);
        assert_eq!(broken(json!([item])), ["field.type"]);
        let mut item = call("a");
        item["id"] = json!(null);
        assert_eq!(broken(json!([item, out("a")])), NONE);
    }

    #[test]
    fn calls_and_outputs() {
        assert_eq!(broken(json!([user(), call("a")])), ["call.unanswered"]);
        assert_eq!(broken(json!([user(), out("a")])), ["output.orphan"]);
        // Before its call is not after it.
        assert_eq!(
            broken(json!([out("a"), call("a")])),
            ["call.unanswered", "output.orphan"]
        );
        assert_eq!(
            broken(json!([call("a"), out("a"), out("a")])),
            ["output.duplicate"]
        );
        let mut again = call("a");
        again["id"] = json!("fc_z");
        assert_eq!(broken(json!([call("a"), again, out("a")])), ["call.unique"]);
        let custom = json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "n", "input": "x"});
        assert_eq!(broken(json!([custom])), ["call.unanswered"]);
        assert_eq!(
            broken(
                json!([custom, {"type": "custom_tool_call_output", "call_id": "c", "output": "y"}])
            ),
            NONE
        );
        assert_eq!(
            broken(json!([{"type": "shell_call", "call_id": "c", "action": {}}])),
            ["call.unanswered"]
        );
        for arguments in ["", "{", "[1]", "null"] {
            let mut item = call("a");
            item["arguments"] = json!(arguments);
            assert_eq!(broken(json!([item, out("a")])), ["call.arguments"]);
        }
        assert_eq!(
            broken(json!([{"type": "function_call", "call_id": "a"}, out("a")])),
            ["field.required"]
        );
        let long = "x".repeat(65);
        let mut item = call(&long);
        item["id"] = json!("fc_1");
        assert_eq!(broken(json!([item, out(&long)])), ["call.id"]);
        let mut item = out("a");
        item["output"] = json!([{"type": "output_text", "text": "x"}]);
        assert_eq!(broken(json!([call("a"), item])), ["content.type"]);
        item["output"] = json!({"x": 1});
        assert_eq!(broken(json!([call("a"), item])), ["field.type"]);
        let chained = json!({"model": "m", "previous_response_id": "resp_1", "input": [out("a")]});
        assert!(check_responses(&chained, &Rules::default()).is_empty());
    }

    #[test]
    fn reasoning_items() {
        assert_eq!(
            broken(json!([user(), think("rs_1")])),
            ["reasoning.follower"]
        );
        assert_eq!(
            broken(json!([user(), think("rs_1"), user()])),
            ["reasoning.follower"]
        );
        assert_eq!(
            broken(json!([call("a"), think("rs_1"), out("a")])),
            ["reasoning.follower"]
        );
        let mut item = think("rs_1");
        item.as_object_mut().unwrap().remove("summary");
        assert_eq!(broken(json!([item, said("msg_1")])), ["field.required"]);
        item["summary"] = json!(null);
        assert_eq!(broken(json!([item, said("msg_1")])), ["field.type"]);
        item["summary"] = json!([]);
        item["encrypted_content"] = json!(null);
        assert_eq!(broken(json!([item, said("msg_1")])), ["item.not_stored"]);
        let rules = Rules {
            responses_reasoning_content: true,
            ..Rules::default()
        };
        assert_eq!(
            check(json!([think("rs_1"), said("msg_1")]), &rules),
            ["reasoning.content"]
        );
        let rules = Rules {
            responses_reasoning_text: true,
            ..Rules::default()
        };
        assert_eq!(
            check(json!([call("a"), out("a")]), &rules),
            ["reasoning.text"]
        );
        let mut item = think("rs_1");
        item["content"] = json!([{"type": "reasoning_text", "text": "r"}]);
        assert_eq!(check(json!([item, call("a"), out("a")]), &rules), NONE);
    }
}
