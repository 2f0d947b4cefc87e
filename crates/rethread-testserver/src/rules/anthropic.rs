//! Anthropic Messages.

use super::{Found, Rules, Violation, is_name, unknown};
use crate::value::At;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

const TOP: &[&str] = &[
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "stop_sequences",
    "metadata",
    "container",
    "service_tier",
    "temperature",
    "top_p",
    "top_k",
    "stream",
    "cache_control",
    "context_management",
    "mcp_servers",
    "speed",
    "inference_geo",
    "output_format",
];

/// The blocks of a message or system prompt; a string counts as one text block.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![serde_json::json!({"type": "text", "text": text})],
        Value::Array(list) => list.clone(),
        _ => Vec::new(),
    }
}

/// A run of messages of one role; the server merges them before it pairs anything.
struct Turn {
    assistant: bool,
    /// Index of the first and the last message of the run.
    first: usize,
    last: usize,
    /// Blocks with the place each came from.
    blocks: Vec<(String, Value)>,
}

fn kind(block: &Value) -> &str {
    block.at("type").as_str().unwrap_or_default()
}

fn turns_of(messages: &[Value]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        let assistant = message.at("role") == "assistant";
        let new = blocks(message.at("content"))
            .into_iter()
            .enumerate()
            .map(|(j, block)| (format!("messages.{i}.content.{j}"), block));
        match turns.last_mut() {
            Some(turn) if turn.assistant == assistant => {
                turn.last = i;
                turn.blocks.extend(new);
            }
            _ => turns.push(Turn {
                assistant,
                first: i,
                last: i,
                blocks: new.collect(),
            }),
        }
    }
    turns
}

/// Remove `cache_control` from a block and what is inside it.
pub(crate) fn strip_cache_control(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("cache_control");
            // Only content nests blocks; a tool's input may use the word for itself.
            if let Some(content) = map.get_mut("content") {
                strip_cache_control(content);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(strip_cache_control),
        _ => {}
    }
}

/// Check a body against the rules of the Messages API.
#[must_use]
pub fn check_anthropic(body: &Value, rules: &Rules) -> Vec<Violation> {
    let mut found = Found::default();
    let f = &mut found;
    top(f, body, rules);
    tools(f, body, rules);
    thinking(f, body);
    let messages = body
        .at("messages")
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    for (i, message) in messages.iter().enumerate() {
        check_message(f, i, message, i + 1 == messages.len(), rules);
    }
    let turns = turns_of(messages);
    pairing(f, &turns);
    server_tools(f, &turns, body);
    thinking_first(f, &turns, body);
    ending(f, messages, &turns, body, rules);
    found.0
}

fn top(f: &mut Found, body: &Value, rules: &Rules) {
    if !body.is_object() {
        f.add("body.object", "", "Input should be a valid dictionary");
    }
    if body.at("model").as_str().is_none_or(str::is_empty) {
        f.add("field.required", "model", "model: Field required");
    }
    match body.at("max_tokens") {
        Value::Null => f.add("field.required", "max_tokens", "max_tokens: Field required"),
        value if value.as_u64().is_none_or(|n| n == 0) => f.add(
            "field.value",
            "max_tokens",
            "max_tokens: Input should be greater than or equal to 1",
        ),
        _ => {}
    }
    match body.at("messages") {
        Value::Null => f.add("field.required", "messages", "messages: Field required"),
        Value::Array(list) if list.is_empty() => {
            f.add(
                "messages.empty",
                "messages",
                "messages: at least one message is required",
            );
        }
        Value::Array(list) if list.len() > 100_000 => f.add(
            "messages.too_many",
            "messages",
            "messages: List should have at most 100000 items after validation",
        ),
        Value::Array(_) => {}
        _ => f.add(
            "field.type",
            "messages",
            "messages: Input should be a valid list",
        ),
    }
    if rules.unknown_fields {
        for key in unknown(body, TOP) {
            f.add(
                "field.unknown",
                key,
                format!("{key}: Extra inputs are not permitted"),
            );
        }
    }
    match body.at("system") {
        Value::Null if body.get("system").is_none() => {}
        Value::String(_) => {}
        Value::Array(list) => {
            for (i, block) in list.iter().enumerate() {
                let at = format!("system.{i}");
                if kind(block) != "text" {
                    f.add(
                        "system.type",
                        &at,
                        format!("{at}.type: Input should be 'text'"),
                    );
                } else {
                    text_block(f, &at, block, "system");
                }
            }
        }
        _ => f.add(
            "field.type",
            "system",
            "system: Input should be a valid string",
        ),
    }
    for (i, stop) in body
        .at("stop_sequences")
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if stop.as_str().is_none_or(|s| s.trim().is_empty()) {
            f.add(
                "stop_sequences",
                format!("stop_sequences.{i}"),
                "stop_sequences: each stop sequence must contain non-whitespace",
            );
        }
    }
    if let Some(t) = body.at("temperature").as_f64()
        && !(0.0..=1.0).contains(&t)
    {
        f.add("field.value", "temperature", "temperature: range: 0..1");
    }
    if let Some(effort) = body.at("output_config").get("effort")
        && !["low", "medium", "high", "xhigh", "max"]
            .iter()
            .any(|e| effort == e)
    {
        f.add(
            "field.value",
            "output_config.effort",
            "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'",
        );
    }
}

fn tools(f: &mut Found, body: &Value, rules: &Rules) {
    let mut names = HashSet::new();
    let list = match body.at("tools") {
        Value::Array(list) => list.as_slice(),
        Value::Null if body.get("tools").is_none() => &[],
        _ => {
            f.add("field.type", "tools", "tools: Input should be a valid list");
            &[]
        }
    };
    for (i, tool) in list.iter().enumerate() {
        let custom = matches!(tool.at("type").as_str(), None | Some("custom"));
        let at = if custom {
            format!("tools.{i}.custom")
        } else {
            format!("tools.{i}")
        };
        let name = tool.at("name").as_str().unwrap_or_default();
        if custom && !is_name(name, 64) {
            f.add(
                "tool.name",
                format!("{at}.name"),
                format!("{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"),
            );
        }
        if !name.is_empty() && !names.insert(name) {
            f.add("tool.unique", &at, "tools: Tool names must be unique.");
        }
        if !custom {
            continue;
        }
        let schema = tool.at("input_schema");
        if schema.is_null() {
            f.add(
                "tool.schema",
                &at,
                format!("{at}.input_schema: Field required"),
            );
        } else if !schema.is_object() {
            f.add(
                "tool.schema",
                &at,
                format!("{at}.input_schema: Input should be a valid dictionary"),
            );
        } else if schema.at("type").is_null() {
            f.add(
                "tool.schema",
                &at,
                format!("{at}.input_schema.type: Field required"),
            );
        } else if schema.at("type") != "object" {
            f.add(
                "tool.schema",
                &at,
                format!("{at}.input_schema.type: Input should be 'object'"),
            );
        }
        if let Some(text) = tool.get("description")
            && !text.is_string()
        {
            f.add(
                "field.type",
                &at,
                format!("{at}.description: Input should be a valid string"),
            );
        }
        if rules.unknown_fields {
            let known = [
                "type",
                "name",
                "description",
                "input_schema",
                "strict",
                "cache_control",
                "input_examples",
                "defer_loading",
                "allowed_callers",
                "eager_input_streaming",
            ];
            for key in unknown(tool, &known) {
                f.add(
                    "field.unknown",
                    &at,
                    format!("{at}.{key}: Extra inputs are not permitted"),
                );
            }
        }
    }
    let Some(choice) = body.get("tool_choice") else {
        return;
    };
    match choice.at("type").as_str() {
        Some("auto" | "none") => {}
        Some(forced @ ("any" | "tool")) => {
            if list.is_empty() {
                f.add(
                    "tool_choice",
                    "tool_choice",
                    "tool_choice: tool_choice may only be specified while providing tools",
                );
            }
            let thinking = body.at("thinking").at("type").as_str();
            if !rules.anthropic_forced_choice {
                f.add(
                    "tool_choice.forced",
                    "tool_choice",
                    format!("tool_choice.type: `{forced}` is not supported by this model"),
                );
            } else if matches!(thinking, Some("enabled" | "adaptive")) {
                f.add(
                    "tool_choice.thinking",
                    "tool_choice",
                    "Thinking may not be enabled when tool_choice forces tool use.",
                );
            }
            let name = choice.at("name").as_str().unwrap_or_default();
            if forced == "tool" && !list.iter().any(|tool| tool.at("name") == name) {
                f.add(
                    "tool_choice",
                    "tool_choice.name",
                    format!("Tool '{name}' not found in provided tools"),
                );
            }
        }
        _ => f.add(
            "tool_choice",
            "tool_choice.type",
            "tool_choice: Input tag does not match any of the expected tags: 'auto', 'any', 'tool', 'none'",
        ),
    }
}

fn thinking(f: &mut Found, body: &Value) {
    let thinking = body.at("thinking");
    match thinking.at("type").as_str() {
        None if thinking.is_null() => {}
        Some("disabled") => {}
        Some("adaptive") => {
            if let Some(display) = thinking.get("display")
                && display != "summarized"
                && display != "omitted"
                && !display.is_null()
            {
                f.add(
                    "thinking.display",
                    "thinking",
                    "thinking.adaptive.display: Input should be 'summarized' or 'omitted'",
                );
            }
        }
        Some("enabled") => {
            match thinking.at("budget_tokens").as_u64() {
                None => f.add(
                    "thinking.budget",
                    "thinking",
                    "thinking.enabled.budget_tokens: Field required",
                ),
                Some(..1024) => f.add(
                    "thinking.budget",
                    "thinking",
                    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
                ),
                Some(budget) if body.at("max_tokens").as_u64().is_some_and(|max| max <= budget) => f
                    .add(
                        "thinking.budget",
                        "thinking",
                        "`max_tokens` must be greater than `thinking.budget_tokens`.",
                    ),
                Some(_) => {}
            }
            if body.at("temperature").as_f64().is_some_and(|t| t < 1.0) {
                f.add(
                    "thinking.temperature",
                    "temperature",
                    "`temperature` may only be set to 1 when thinking is enabled.",
                );
            }
        }
        _ => f.add(
            "thinking.type",
            "thinking",
            "thinking: Input tag does not match any of the expected tags: 'adaptive', 'enabled', 'disabled'",
        ),
    }
}

/// `whose` is the part of the request named in the sentence.
fn text_block(f: &mut Found, at: &str, block: &Value, whose: &str) {
    match block.at("text").as_str() {
        None => f.add("text.type", at, format!("{at}.text.text: Field required")),
        Some("") => {
            f.add(
                "text.empty",
                at,
                format!("{whose}: text content blocks must be non-empty"),
            );
        }
        Some(text) if text.trim().is_empty() => f.add(
            "text.whitespace",
            at,
            format!("{whose}: text content blocks must contain non-whitespace text"),
        ),
        Some(_) => {}
    }
}

fn check_message(f: &mut Found, i: usize, message: &Value, last: bool, rules: &Rules) {
    let role = message.at("role").as_str().unwrap_or_default();
    match role {
        "user" | "assistant" => {}
        "system" if rules.anthropic_system_messages => {}
        _ => f.add(
            "message.role",
            format!("messages.{i}.role"),
            format!("messages.{i}.role: Input should be 'user' or 'assistant'"),
        ),
    }
    if i == 0 && role == "assistant" && rules.anthropic_first_user {
        f.add(
            "message.first",
            "messages.0",
            "messages: first message must use the \"user\" role",
        );
    }
    if rules.unknown_fields {
        for key in unknown(message, &["role", "content"]) {
            f.add(
                "field.unknown",
                format!("messages.{i}"),
                format!("messages.{i}.{key}: Extra inputs are not permitted"),
            );
        }
    }
    let content = message.at("content");
    let empty = match content {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Null => {
            let at = format!("messages.{i}.content");
            f.add("field.required", &at, format!("{at}: Field required"));
            return;
        }
        _ => {
            let at = format!("messages.{i}.content");
            f.add(
                "field.type",
                &at,
                format!("{at}: Input should be a valid list"),
            );
            return;
        }
    };
    if empty {
        if !(last && role == "assistant") {
            f.add(
                "message.empty",
                format!("messages.{i}"),
                format!("messages.{i}: all messages must have non-empty content except for the optional final assistant message"),
            );
        }
        return;
    }
    if let Value::String(text) = content
        && text.trim().is_empty()
    {
        f.add(
            "text.whitespace",
            format!("messages.{i}"),
            "messages: text content blocks must contain non-whitespace text",
        );
    }
    for (j, block) in content.as_array().into_iter().flatten().enumerate() {
        check_block(
            f,
            &format!("messages.{i}.content.{j}"),
            i,
            role,
            block,
            rules,
        );
    }
}

fn check_block(f: &mut Found, at: &str, i: usize, role: &str, block: &Value, rules: &Rules) {
    let assistant = role == "assistant";
    let kind = kind(block);
    let known: &[&str] = match kind {
        "text" => {
            text_block(f, at, block, "messages");
            &["type", "text", "citations", "cache_control"]
        }
        "thinking" => {
            thinking_block(f, at, assistant, block);
            &["type", "thinking", "signature"]
        }
        "redacted_thinking" => {
            if !assistant {
                only_assistant(f, at, kind);
            }
            if block.at("data").as_str().is_none_or(str::is_empty) {
                f.add(
                    "thinking.fields",
                    at,
                    format!("{at}.redacted_thinking.data: Field required"),
                );
            }
            &["type", "data"]
        }
        "tool_use" => {
            if !assistant {
                f.add(
                    "tool_use.role",
                    at,
                    format!("messages.{i}: `tool_use` blocks can only be in `assistant` messages"),
                );
            }
            tool_use(f, at, block);
            &[
                "type",
                "id",
                "name",
                "input",
                "cache_control",
                "caller",
                "toolset_name",
            ]
        }
        "tool_result" => {
            if role != "user" {
                f.add(
                    "tool_result.role",
                    at,
                    format!("messages.{i}: `tool_result` blocks can only be in `user` messages"),
                );
            }
            tool_result(f, at, block);
            &[
                "type",
                "tool_use_id",
                "content",
                "is_error",
                "cache_control",
                "toolset_name",
            ]
        }
        "image" => {
            image(f, at, block);
            &["type", "source", "cache_control"]
        }
        "container_upload" if assistant => {
            f.add(
                "container_upload",
                at,
                format!("{at}: 'container_upload' blocks are not permitted within assistant turns"),
            );
            return;
        }
        "server_tool_use" => {
            if !assistant {
                only_assistant(f, at, kind);
            }
            if block.at("id").as_str().is_none_or(str::is_empty) || !block.at("input").is_object() {
                f.add(
                    "tool_use.fields",
                    at,
                    format!("{at}.server_tool_use: Field required"),
                );
            }
            return;
        }
        "" => {
            f.add("block.type", at, format!("{at}.type: Field required"));
            return;
        }
        "document" | "search_result" | "container_upload" | "compaction" | "fallback"
        | "tool_reference" => return,
        // What the model may have sent in some future goes back as it came.
        _ if assistant => return,
        _ if kind.ends_with("_tool_result") => return,
        _ => {
            f.add(
                "block.type",
                at,
                format!("{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags"),
            );
            return;
        }
    };
    if rules.unknown_fields {
        for key in unknown(block, known) {
            f.add(
                "field.unknown",
                at,
                format!("{at}.{kind}.{key}: Extra inputs are not permitted"),
            );
        }
    }
}

fn only_assistant(f: &mut Found, at: &str, kind: &str) {
    f.add(
        "block.role",
        at,
        format!("{at}: `{kind}` blocks can only be in `assistant` messages"),
    );
}

fn thinking_block(f: &mut Found, at: &str, assistant: bool, block: &Value) {
    if !assistant {
        only_assistant(f, at, "thinking");
    }
    if !block.at("thinking").is_string() {
        f.add(
            "thinking.fields",
            at,
            format!("{at}.thinking.thinking: Field required"),
        );
    }
    match block.at("signature").as_str() {
        None => f.add(
            "thinking.fields",
            at,
            format!("{at}.thinking.signature: Field required"),
        ),
        Some("") => f.add(
            "thinking.signature",
            at,
            format!("{at}: Invalid `signature` in `thinking` block"),
        ),
        Some(_) => {}
    }
}

fn tool_use(f: &mut Found, at: &str, block: &Value) {
    if !is_name(block.at("id").as_str().unwrap_or_default(), 1000) {
        f.add(
            "tool_use.id",
            at,
            format!("{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
        );
    }
    if !is_name(block.at("name").as_str().unwrap_or_default(), 200) {
        f.add(
            "tool_use.name",
            at,
            format!("{at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'"),
        );
    }
    if !block.at("input").is_object() {
        f.add(
            "tool_use.input",
            at,
            format!("{at}.tool_use.input: Input should be a valid dictionary"),
        );
    }
}

fn tool_result(f: &mut Found, at: &str, block: &Value) {
    if !is_name(block.at("tool_use_id").as_str().unwrap_or_default(), 1000) {
        f.add(
            "tool_result.id",
            at,
            format!("{at}.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
        );
    }
    if let Some(flag) = block.get("is_error")
        && !flag.is_boolean()
        && !flag.is_null()
    {
        f.add(
            "field.type",
            at,
            format!("{at}.tool_result.is_error: Input should be a valid boolean"),
        );
    }
    match block.at("content") {
        Value::Null | Value::String(_) => {}
        Value::Array(list) => {
            for (k, part) in list.iter().enumerate() {
                let at = format!("{at}.content.{k}");
                match kind(part) {
                    "text" => text_block(f, &at, part, "messages"),
                    "image" => image(f, &at, part),
                    "document" | "search_result" | "tool_reference" => {}
                    other => f.add(
                        "tool_result.content",
                        &at,
                        format!("{at}: Input tag '{other}' found using 'type' does not match any of the expected tags"),
                    ),
                }
            }
        }
        _ => f.add(
            "tool_result.content",
            at,
            format!("{at}.tool_result.content: Input should be a valid list"),
        ),
    }
}

fn image(f: &mut Found, at: &str, block: &Value) {
    let source = block.at("source");
    let sound = match source.at("type").as_str() {
        Some("base64") => {
            let media = source.at("media_type").as_str().unwrap_or_default();
            matches!(
                media,
                "image/jpeg" | "image/png" | "image/gif" | "image/webp"
            ) && source
                .at("data")
                .as_str()
                .is_some_and(|data| !data.is_empty())
        }
        Some("url") => source.at("url").is_string(),
        Some("file") => source.at("file_id").is_string(),
        _ => false,
    };
    if !sound {
        f.add(
            "image.source",
            at,
            format!("{at}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"),
        );
    }
}

fn ids<'a>(turn: Option<&'a Turn>, of: &str, key: &str) -> Vec<(&'a str, &'a str, &'a Value)> {
    turn.into_iter()
        .flat_map(|turn| &turn.blocks)
        .filter(|(_, block)| kind(block) == of)
        .map(|(at, block)| {
            (
                at.as_str(),
                block.at(key).as_str().unwrap_or_default(),
                block,
            )
        })
        .collect()
}

fn pairing(f: &mut Found, turns: &[Turn]) {
    let mut all = HashSet::new();
    let mut before: Option<&Turn> = None;
    for (n, turn) in turns.iter().enumerate() {
        if turn.assistant {
            for (at, id, _) in ids(Some(turn), "tool_use", "id") {
                if !all.insert(id) {
                    f.add(
                        "tool_use.unique",
                        at,
                        format!("{at}: `tool_use` ids must be unique"),
                    );
                }
            }
            unanswered(f, turn, turns.get(n + 1));
        } else {
            results(f, turn, before);
        }
        before = Some(turn);
    }
}

fn unanswered(f: &mut Found, turn: &Turn, next: Option<&Turn>) {
    let answered: HashSet<_> = ids(next, "tool_result", "tool_use_id")
        .iter()
        .map(|(_, id, _)| *id)
        .collect();
    let open: Vec<_> = ids(Some(turn), "tool_use", "id")
        .iter()
        .map(|(_, id, _)| *id)
        .filter(|id| !answered.contains(id))
        .collect();
    if !open.is_empty() {
        let last = turn.last;
        f.add(
            "tool_use.unanswered",
            format!("messages.{last}"),
            format!(
                "messages.{last}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
                open.join(", ")
            ),
        );
    }
}

fn results(f: &mut Found, turn: &Turn, before: Option<&Turn>) {
    let calls: HashMap<_, _> = ids(before, "tool_use", "id")
        .iter()
        .map(|(_, id, block)| (*id, *block))
        .collect();
    let mut seen = HashSet::new();
    for (at, id, block) in ids(Some(turn), "tool_result", "tool_use_id") {
        let Some(call) = calls.get(id) else {
            f.add(
                "tool_result.orphan",
                at,
                format!("{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."),
            );
            continue;
        };
        if !seen.insert(id) {
            f.add(
                "tool_result.duplicate",
                at,
                format!("{at}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"),
            );
        }
        if call.at("toolset_name") != block.at("toolset_name") {
            f.add(
                "tool_result.toolset",
                at,
                format!(
                    "{at}: `toolset_name` must match that of the corresponding `tool_use` block"
                ),
            );
        }
    }
    let first_other = turn
        .blocks
        .iter()
        .position(|(_, block)| kind(block) != "tool_result");
    let last_result = turn
        .blocks
        .iter()
        .rposition(|(_, block)| kind(block) == "tool_result");
    if let (Some(other), Some(result)) = (first_other, last_result)
        && other < result
    {
        let at = format!("messages.{}", turn.first.saturating_sub(1));
        f.add(
            "tool_result.first",
            &at,
            format!("{at}: `tool_use` ids were found without `tool_result` blocks immediately after: other content comes before a result. Each `tool_use` block must have a corresponding `tool_result` block in the next message."),
        );
    }
}

fn server_tools(f: &mut Found, turns: &[Turn], body: &Value) {
    let result_in = |turn: &Turn, id: &str| {
        turn.blocks
            .iter()
            .any(|(_, b)| kind(b).ends_with("_tool_result") && b.at("tool_use_id") == id)
    };
    for (n, turn) in turns.iter().enumerate() {
        for (_, id, block) in ids(Some(turn), "server_tool_use", "id") {
            if result_in(turn, id) {
                continue;
            }
            let next = turns.get(n + 1);
            let has_tools = body
                .at("tools")
                .as_array()
                .is_some_and(|tools| !tools.is_empty());
            let sound = match next {
                None => has_tools,
                Some(next) => {
                    let mixed = !ids(Some(turn), "tool_use", "id").is_empty();
                    let only = next.blocks.iter().all(|(_, b)| kind(b) == "tool_result");
                    let later = turns.get(n + 2);
                    mixed && only && later.is_none_or(|later| result_in(later, id))
                }
            };
            if !sound {
                let name = block.at("name").as_str().unwrap_or_default();
                let at = format!("messages.{}", turn.last);
                f.add(
                    "server_tool.unresolved",
                    &at,
                    format!("{at}: `{name}` tool use with id `{id}` was found without a corresponding `{name}_tool_result` block"),
                );
            }
        }
    }
}

/// With manual thinking the last assistant turn of a tool loop starts with thinking.
fn thinking_first(f: &mut Found, turns: &[Turn], body: &Value) {
    if body.at("thinking").at("type") != "enabled" {
        return;
    }
    let in_loop = |turn: &Turn| turn.blocks.iter().any(|(_, b)| kind(b) == "tool_result");
    let start = turns
        .iter()
        .rposition(|turn| !turn.assistant && !in_loop(turn))
        .map_or(0, |position| position + 1);
    let current: Vec<_> = turns
        .iter()
        .skip(start)
        .filter(|turn| turn.assistant)
        .collect();
    let uses_tools = current
        .iter()
        .any(|turn| !ids(Some(turn), "tool_use", "id").is_empty());
    let Some((at, block)) = current.first().and_then(|turn| turn.blocks.first()) else {
        return;
    };
    if uses_tools && !matches!(kind(block), "thinking" | "redacted_thinking") {
        f.add(
            "thinking.first",
            at,
            format!(
                "{at}.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking",
                kind(block)
            ),
        );
    }
}

fn ending(f: &mut Found, messages: &[Value], turns: &[Turn], body: &Value, rules: &Rules) {
    let Some(turn) = turns.last().filter(|turn| turn.assistant) else {
        return;
    };
    let paused = turn
        .blocks
        .iter()
        .any(|(_, b)| kind(b) == "server_tool_use");
    if paused {
        return;
    }
    let at = format!("messages.{}", messages.len().saturating_sub(1));
    let thinking = matches!(
        body.at("thinking").at("type").as_str(),
        Some("enabled" | "adaptive")
    );
    if !rules.anthropic_prefill || thinking {
        f.add(
            "prefill",
            at,
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        );
    } else if let Some((_, block)) = turn.blocks.last()
        && block
            .at("text")
            .as_str()
            .is_some_and(|text| text.trim_end() != text)
    {
        f.add(
            "prefill.whitespace",
            at,
            "messages: final assistant content cannot end with trailing whitespace",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::rules_of;
    use super::*;
    use serde_json::json;

    fn body(messages: Value) -> Value {
        json!({"model": "claude-x", "max_tokens": 4096, "stream": true, "messages": messages})
    }

    fn broken(messages: Value) -> Vec<&'static str> {
        rules_of(&check_anthropic(&body(messages), &Rules::default()))
    }

    fn with(key: &str, value: Value) -> Vec<&'static str> {
        let mut body = body(json!([{"role": "user", "content": "hi"}]));
        body[key] = value;
        rules_of(&check_anthropic(&body, &Rules::default()))
    }

    fn call(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "t", "input": {}})
    }

    fn result(id: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})
    }

    fn user(content: Value) -> Value {
        json!({"role": "user", "content": content})
    }

    fn said(content: Value) -> Value {
        json!({"role": "assistant", "content": content})
    }

    #[test]
    fn sound_histories_pass() {
        let none: Vec<&str> = vec![];
        assert_eq!(broken(json!([user(json!("hi"))])), none);
        assert_eq!(
            broken(json!([
                user(json!("hi")),
                said(
                    json!([{"type": "thinking", "thinking": "", "signature": "a+/="}, call("a"), call("b")])
                ),
                user(json!([result("a"), result("b"), {"type": "text", "text": "and?"}])),
                said(json!([{"type": "text", "text": "x"}])),
                user(json!("one")),
                user(json!("two")),
            ])),
            none
        );
        // Results in two user messages are merged.
        assert_eq!(
            broken(json!([
                user(json!("hi")),
                said(json!([call("a"), call("b")])),
                user(json!([result("a")])),
                user(json!([result("b")])),
            ])),
            none
        );
    }

    #[test]
    fn top_fields() {
        let found = check_anthropic(&json!({}), &Rules::default());
        assert_eq!(
            found.iter().filter(|v| v.rule == "field.required").count(),
            3
        );
        assert_eq!(with("max_tokens", json!(0)), ["field.value"]);
        assert_eq!(with("messages", json!([])), ["messages.empty"]);
        assert_eq!(with("messages", json!("x")), ["field.type"]);
        assert_eq!(with("nonsense", json!(1)), ["field.unknown"]);
        assert_eq!(
            with("system", json!([{"type": "text", "text": ""}])),
            ["text.empty"]
        );
        assert_eq!(with("system", json!([{"type": "image"}])), ["system.type"]);
        assert_eq!(with("system", json!("s")), Vec::<&str>::new());
        assert_eq!(with("stop_sequences", json!([" "])), ["stop_sequences"]);
        assert_eq!(with("temperature", json!(1.5)), ["field.value"]);
        assert_eq!(
            with("output_config", json!({"effort": "huge"})),
            ["field.value"]
        );
        assert_eq!(
            with("output_config", json!({"effort": "max"})),
            Vec::<&str>::new()
        );
    }

    #[test]
    fn tool_shapes() {
        let ok = json!([{"name": "t", "description": "d", "input_schema": {"type": "object"}}]);
        assert_eq!(with("tools", ok), Vec::<&str>::new());
        assert_eq!(
            with(
                "tools",
                json!([{"name": "a b", "input_schema": {"type": "object"}}])
            ),
            ["tool.name"]
        );
        for schema in [json!(null), json!({}), json!({"type": "string"}), json!([])] {
            assert_eq!(
                with("tools", json!([{"name": "t", "input_schema": schema}])),
                ["tool.schema"]
            );
        }
        let one = json!({"name": "t", "input_schema": {"type": "object"}});
        assert_eq!(with("tools", json!([one, one])), ["tool.unique"]);
        assert_eq!(
            with(
                "tools",
                json!([{"name": "t", "parameters": {}, "input_schema": {"type": "object"}}])
            ),
            ["field.unknown"]
        );
        assert_eq!(with("tool_choice", json!({"type": "any"})), ["tool_choice"]);
        assert_eq!(
            with("tool_choice", json!({"type": "required"})),
            ["tool_choice"]
        );
        let mut b = body(json!([user(json!("hi"))]));
        b["tools"] = json!([one]);
        b["tool_choice"] = json!({"type": "tool", "name": "t"});
        let mut rules = Rules::default();
        assert!(check_anthropic(&b, &rules).is_empty());
        b["tool_choice"]["name"] = json!("u");
        assert_eq!(rules_of(&check_anthropic(&b, &rules)), ["tool_choice"]);
        b["tool_choice"] = json!({"type": "any"});
        rules.anthropic_forced_choice = false;
        assert_eq!(
            rules_of(&check_anthropic(&b, &rules)),
            ["tool_choice.forced"]
        );
        rules.anthropic_forced_choice = true;
        b["thinking"] = json!({"type": "adaptive"});
        assert_eq!(
            rules_of(&check_anthropic(&b, &rules)),
            ["tool_choice.thinking"]
        );
    }

    #[test]
    fn thinking_settings() {
        assert_eq!(
            with(
                "thinking",
                json!({"type": "adaptive", "display": "omitted"})
            ),
            Vec::<&str>::new()
        );
        assert_eq!(
            with("thinking", json!({"type": "adaptive", "display": "x"})),
            ["thinking.display"]
        );
        assert_eq!(
            with("thinking", json!({"type": "enabled"})),
            ["thinking.budget"]
        );
        assert_eq!(
            with("thinking", json!({"type": "enabled", "budget_tokens": 5})),
            ["thinking.budget"]
        );
        assert_eq!(
            with(
                "thinking",
                json!({"type": "enabled", "budget_tokens": 4096})
            ),
            ["thinking.budget"]
        );
        assert_eq!(
            with(
                "thinking",
                json!({"type": "enabled", "budget_tokens": 1024})
            ),
            Vec::<&str>::new()
        );
        assert_eq!(with("thinking", json!({"type": "on"})), ["thinking.type"]);
        let mut b = body(json!([user(json!("hi"))]));
        b["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
        b["temperature"] = json!(0.5);
        assert_eq!(
            rules_of(&check_anthropic(&b, &Rules::default())),
            ["thinking.temperature"]
        );
    }

    #[test]
    fn messages_and_blocks() {
        assert_eq!(
            broken(json!([{"role": "tool", "content": "x"}])),
            ["message.role"]
        );
        assert_eq!(
            broken(json!([{"role": "system", "content": "x"}, user(json!("y"))])),
            ["message.role"]
        );
        let first = body(json!([said(json!("x")), user(json!("y"))]));
        assert!(check_anthropic(&first, &Rules::default()).is_empty());
        let rules = Rules {
            anthropic_first_user: true,
            ..Rules::default()
        };
        assert_eq!(
            rules_of(&check_anthropic(&first, &rules)),
            ["message.first"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "content": "x", "id": "1"}])),
            ["field.unknown"]
        );
        assert_eq!(broken(json!([{"role": "user"}])), ["field.required"]);
        assert_eq!(broken(json!([user(json!(1))])), ["field.type"]);
        assert_eq!(broken(json!([user(json!([]))])), ["message.empty"]);
        assert_eq!(broken(json!([user(json!(""))])), ["message.empty"]);
        assert_eq!(broken(json!([user(json!(" \n"))])), ["text.whitespace"]);
        assert_eq!(
            broken(json!([user(json!([{"type": "text", "text": ""}]))])),
            ["text.empty"]
        );
        assert_eq!(
            broken(json!([user(json!([{"type": "text", "text": "\t"}]))])),
            ["text.whitespace"]
        );
        assert_eq!(
            broken(json!([user(json!([{"type": "text"}]))])),
            ["text.type"]
        );
        assert_eq!(
            broken(json!([user(json!([{"text": "x"}]))])),
            ["block.type"]
        );
        assert_eq!(
            broken(json!([user(json!([{"type": "odd"}]))])),
            ["block.type"]
        );
        assert_eq!(
            broken(json!([user(
                json!([{"type": "text", "text": "x", "raw": 1}])
            )])),
            ["field.unknown"]
        );
        assert_eq!(
            broken(json!([user(
                json!([{"type": "thinking", "thinking": "", "signature": "x"}])
            )])),
            ["block.role"]
        );
        assert_eq!(
            broken(json!([user(
                json!([{"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "x"}}])
            )])),
            ["image.source"]
        );
        assert_eq!(
            broken(json!([user(
                json!([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}])
            )])),
            Vec::<&str>::new()
        );
        let asked = |block: Value| {
            broken(json!([
                user(json!("q")),
                said(json!([block])),
                user(json!("r"))
            ]))
        };
        assert_eq!(
            asked(json!({"type": "container_upload", "file_id": "f"})),
            ["container_upload"]
        );
        assert_eq!(
            asked(json!({"type": "thinking", "thinking": "x"})),
            ["thinking.fields"]
        );
        assert_eq!(
            asked(json!({"type": "thinking", "signature": "x"})),
            ["thinking.fields"]
        );
        assert_eq!(
            asked(json!({"type": "thinking", "thinking": "x", "signature": ""})),
            ["thinking.signature"]
        );
        assert_eq!(
            asked(json!({"type": "redacted_thinking", "data": ""})),
            ["thinking.fields"]
        );
        assert_eq!(
            asked(json!({"type": "some_new_block", "x": 1})),
            Vec::<&str>::new()
        );
    }

    #[test]
    fn calls_and_results() {
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([call("a"), call("b")])),
                user(json!([result("a")]))
            ])),
            ["tool_use.unanswered"]
        );
        // The result comes one message too late.
        let late = broken(json!([
            user(json!("q")),
            said(json!([call("a")])),
            user(json!("no")),
            said(json!("hm")),
            user(json!([result("a")]))
        ]));
        assert_eq!(late, ["tool_result.orphan", "tool_use.unanswered"]);
        assert_eq!(
            broken(json!([user(json!([result("a")]))])),
            ["tool_result.orphan"]
        );
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([call("a")])),
                user(json!([result("a"), result("a")]))
            ])),
            ["tool_result.duplicate"]
        );
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([call("a")])),
                user(json!([result("a")])),
                said(json!([call("a")])),
                user(json!([result("a")])),
            ])),
            ["tool_use.unique"]
        );
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([call("f.x:3")])),
                user(json!([result("f.x:3")]))
            ])),
            ["tool_result.id", "tool_use.id"]
        );
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([call("a"), result("a")])),
                user(json!([result("a")]))
            ])),
            ["tool_result.role"]
        );
        assert!(broken(json!([user(json!([call("a")]))])).contains(&"tool_use.role"));
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([call("a")])),
                user(json!([{"type": "text", "text": "first"}, result("a")])),
            ])),
            ["tool_result.first"]
        );
        let mut odd = call("a");
        odd["input"] = json!("{}");
        odd["name"] = json!("");
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([odd])),
                user(json!([result("a")]))
            ])),
            ["tool_use.input", "tool_use.name"]
        );
        let mut named = call("a");
        named["toolset_name"] = json!("s");
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([named])),
                user(json!([result("a")]))
            ])),
            ["tool_result.toolset"]
        );
        let mut odd = result("a");
        odd["content"] = json!([{"type": "tool_use"}]);
        odd["is_error"] = json!("yes");
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([call("a")])),
                user(json!([odd]))
            ])),
            ["field.type", "tool_result.content"]
        );
    }

    #[test]
    fn server_tool_pairs() {
        let srv = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
        let res =
            json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([srv, res])),
                user(json!("r"))
            ])),
            Vec::<&str>::new()
        );
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([srv])),
                user(json!("r"))
            ])),
            ["server_tool.unresolved"]
        );
        // pause_turn: last, with tools.
        let mut b = body(json!([user(json!("q")), said(json!([srv]))]));
        assert_eq!(
            rules_of(&check_anthropic(&b, &Rules::default())),
            ["server_tool.unresolved"]
        );
        b["tools"] = json!([{"type": "web_search_20250305", "name": "web_search"}]);
        assert!(check_anthropic(&b, &Rules::default()).is_empty());
        // Mixed with a client call: only results may follow.
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([srv, call("a")])),
                user(json!([result("a")]))
            ])),
            Vec::<&str>::new()
        );
        assert_eq!(
            broken(json!([
                user(json!("q")),
                said(json!([srv, call("a")])),
                user(json!([result("a"), {"type": "text", "text": "x"}])),
            ])),
            ["server_tool.unresolved"]
        );
    }

    #[test]
    fn manual_thinking_starts_the_turn() {
        let think = json!({"type": "thinking", "thinking": "t", "signature": "s"});
        let mut b = body(json!([
            user(json!("q")),
            said(json!([call("a")])),
            user(json!([result("a")]))
        ]));
        b["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
        assert_eq!(
            rules_of(&check_anthropic(&b, &Rules::default())),
            ["thinking.first"]
        );
        b["messages"][1]["content"] = json!([think, call("a")]);
        assert!(check_anthropic(&b, &Rules::default()).is_empty());
        // An older loop does not count.
        b["messages"] = json!([
            user(json!("q")),
            said(json!([call("a")])),
            user(json!([result("a")])),
            said(json!("x")),
            user(json!("y"))
        ]);
        assert!(check_anthropic(&b, &Rules::default()).is_empty());
    }

    #[test]
    fn prefill() {
        let mut b = body(json!([user(json!("q")), said(json!("The "))]));
        let mut rules = Rules::default();
        assert_eq!(rules_of(&check_anthropic(&b, &rules)), ["prefill"]);
        rules.anthropic_prefill = true;
        assert_eq!(
            rules_of(&check_anthropic(&b, &rules)),
            ["prefill.whitespace"]
        );
        b["messages"][1]["content"] = json!("The");
        assert!(check_anthropic(&b, &rules).is_empty());
        b["messages"][1]["content"] = json!([]);
        assert!(check_anthropic(&b, &rules).is_empty());
        b["thinking"] = json!({"type": "adaptive"});
        assert_eq!(rules_of(&check_anthropic(&b, &rules)), ["prefill"]);
    }
}
