//! Gemini generateContent.

use super::{Found, Rules, Violation, unknown};
use crate::value::At;
use serde_json::Value;
use std::collections::HashSet;

const TOP: &[&str] = &[
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "safetySettings",
    "generationConfig",
    "cachedContent",
    "continuationToken",
    "labels",
    "model",
    "serviceTier",
    "store",
];

const DATA: &[&str] = &[
    "text",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
];

const ABOUT: &[&str] = &[
    "thought",
    "thoughtSignature",
    "partMetadata",
    "videoMetadata",
    "mediaResolution",
];

/// The documented stand-ins for a signature that never was.
pub(crate) const DUMMIES: [&str; 2] = [
    "skip_thought_signature_validator",
    "context_engineering_is_the_way_to_go",
];

/// Schema words that the OpenAPI subset of `parameters` does not know.
const NOT_OPENAPI: &[&str] = &[
    "additionalProperties",
    "$schema",
    "$ref",
    "$defs",
    "definitions",
    "const",
    "oneOf",
    "allOf",
    "not",
    "patternProperties",
    "exclusiveMinimum",
    "exclusiveMaximum",
];

fn parts(content: &Value) -> &[Value] {
    content.at("parts").as_array().map_or(&[], Vec::as_slice)
}

fn with<'a>(content: &'a Value, key: &str) -> Vec<&'a Value> {
    parts(content)
        .iter()
        .map(|part| part.at(key))
        .filter(|value| !value.is_null())
        .collect()
}

/// A user content that holds ordinary content, not just function responses.
fn ordinary(content: &Value) -> bool {
    content.at("role") != "model"
        && parts(content)
            .iter()
            .any(|part| part.at("functionResponse").is_null())
}

/// Where the current turn starts.
fn current_turn(contents: &[Value]) -> usize {
    contents
        .iter()
        .rposition(ordinary)
        .map_or(0, |position| position + 1)
}

/// Check a body against the rules of generateContent.
#[must_use]
pub fn check_gemini(body: &Value, rules: &Rules) -> Vec<Violation> {
    let mut found = Found::default();
    let f = &mut found;
    top(f, body, rules);
    tools(f, body);
    config(f, body);
    let contents = body
        .at("contents")
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    for (i, content) in contents.iter().enumerate() {
        check_content(f, i, content, rules);
    }
    order(f, contents, rules);
    signatures(f, contents, rules);
    found.0
}

fn unknown_name(f: &mut Found, rule: &'static str, key: &str, at: &str) {
    let place = if at.is_empty() {
        String::new()
    } else {
        format!(" at '{at}'")
    };
    f.add(
        rule,
        at,
        format!("Invalid JSON payload received. Unknown name \"{key}\"{place}: Cannot find field."),
    );
}

fn top(f: &mut Found, body: &Value, rules: &Rules) {
    match body.at("contents") {
        Value::Array(list) if !list.is_empty() => {
            let empty = list.iter().flat_map(parts).all(|part| {
                part.as_object().is_none_or(|map| {
                    map.iter().all(|(key, value)| {
                        ABOUT.contains(&key.as_str()) || (key == "text" && value == "")
                    })
                })
            });
            if empty && list.iter().all(|content| !parts(content).is_empty()) {
                f.add("contents.blank", "contents", "* GenerateContentRequest.contents: contents.parts must not be empty.\n");
            }
        }
        Value::Array(_) | Value::Null => {
            f.add("contents.required", "contents", "* GenerateContentRequest.contents: contents is not specified\n");
        }
        _ => f.add("field.type", "contents", "Invalid value at 'contents' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content)"),
    }
    if rules.unknown_fields {
        for key in unknown(body, TOP) {
            unknown_name(f, "field.unknown", key, "");
        }
    }
    if let Some(system) = body.get("systemInstruction")
        && !system.is_null()
        && (parts(system).is_empty()
            || !parts(system).iter().all(|part| part.at("text").is_string()))
    {
        f.add("system.parts", "systemInstruction", "* GenerateContentRequest.system_instruction.parts: contents.parts must not be empty.\n");
    }
}

fn tools(f: &mut Found, body: &Value) {
    let mut names = HashSet::new();
    for (i, tool) in body
        .at("tools")
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if tool.as_object().is_none_or(serde_json::Map::is_empty) {
            f.add("tool.empty", format!("tools[{i}]"), format!("* GenerateContentRequest.tools[{i}].tool_type: required one_of 'tool_type' must have one initialized field\n"));
        }
        for (j, tool) in tool
            .at("functionDeclarations")
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let at = format!("tools[{i}].function_declarations[{j}]");
            let name = tool.at("name").as_str().unwrap_or_default();
            let mut letters = name.bytes();
            let sound = letters
                .next()
                .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
                && letters.all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
                && name.len() <= 128;
            if !sound {
                f.add("tool.name", &at, format!("* GenerateContentRequest.{at}.name: [FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 128.\n"));
            }
            if !names.insert(name) {
                f.add(
                    "tool.unique",
                    &at,
                    format!("Duplicate function declaration found: {name}"),
                );
            }
            let (open, json) = (tool.at("parameters"), tool.at("parametersJsonSchema"));
            if !open.is_null() && !json.is_null() {
                f.add(
                    "tool.schema",
                    &at,
                    format!("{at}: only one of parameters and parameters_json_schema may be set"),
                );
            }
            openapi(f, &format!("{at}.parameters"), open);
            for schema in [open, json] {
                let object = schema
                    .at("type")
                    .as_str()
                    .is_some_and(|t| t.eq_ignore_ascii_case("object"));
                if !schema.is_null() && !object {
                    f.add("tool.schema", &at, format!("* GenerateContentRequest.{at}.parameters: schema should be of type OBJECT\n"));
                }
            }
            for key in unknown(
                tool,
                &[
                    "name",
                    "description",
                    "parameters",
                    "parametersJsonSchema",
                    "response",
                    "responseJsonSchema",
                    "behavior",
                ],
            ) {
                unknown_name(f, "field.unknown", key, &at);
            }
        }
    }
}

fn openapi(f: &mut Found, at: &str, schema: &Value) {
    for (key, value) in schema.as_object().into_iter().flatten() {
        if NOT_OPENAPI.contains(&key.as_str()) {
            unknown_name(f, "tool.openapi", key, at);
        }
        match key.as_str() {
            "properties" => {
                for (i, property) in value.as_object().into_iter().flatten().enumerate() {
                    openapi(f, &format!("{at}.properties[{i}].value"), property.1);
                }
            }
            "items" => openapi(f, &format!("{at}.items"), value),
            "anyOf" => {
                for (i, one) in value.as_array().into_iter().flatten().enumerate() {
                    openapi(f, &format!("{at}.any_of[{i}]"), one);
                }
            }
            _ => {}
        }
    }
}

fn config(f: &mut Found, body: &Value) {
    let thinking = body.at("generationConfig").at("thinkingConfig");
    let (level, budget) = (thinking.at("thinkingLevel"), thinking.at("thinkingBudget"));
    if !level.is_null() && !budget.is_null() {
        f.add(
            "thinking.both",
            "generationConfig.thinkingConfig",
            "You can only set only one of thinking budget and thinking level.",
        );
    }
    let known = [
        "MINIMAL",
        "LOW",
        "MEDIUM",
        "HIGH",
        "THINKING_LEVEL_UNSPECIFIED",
    ];
    if let Some(level) = level.as_str()
        && !known.iter().any(|word| level.eq_ignore_ascii_case(word))
    {
        f.add(
            "thinking.level",
            "generationConfig.thinkingConfig.thinkingLevel",
            format!(
                "Invalid value at 'generation_config.thinking_config.thinking_level': \"{level}\""
            ),
        );
    }
    let calling = body.at("toolConfig").at("functionCallingConfig");
    let mode = calling.at("mode").as_str();
    if let Some(mode) = mode
        && !["AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"].contains(&mode)
    {
        f.add(
            "tool_config.mode",
            "toolConfig",
            format!("Invalid value at 'tool_config.function_calling_config.mode': \"{mode}\""),
        );
    }
    let names = calling
        .at("allowedFunctionNames")
        .as_array()
        .is_some_and(|list| !list.is_empty());
    if names && !matches!(mode, Some("ANY" | "VALIDATED")) {
        f.add("tool_config.names", "toolConfig", "Allowed function names can only be set when function calling mode is ANY or VALIDATED.");
    }
}

fn check_content(f: &mut Found, i: usize, content: &Value, rules: &Rules) {
    let at = format!("contents[{i}]");
    match content.at("role").as_str() {
        Some("user" | "model") => {}
        None if !rules.gemini_role_required => {}
        // The old role for responses; still read, but not on Vertex.
        Some("function") if !rules.gemini_role_required => {}
        _ => f.add("content.role", &at, "Please use a valid role: user, model."),
    }
    if rules.unknown_fields {
        for key in unknown(content, &["role", "parts"]) {
            unknown_name(f, "field.unknown", key, &at);
        }
    }
    if parts(content).is_empty() {
        f.add(
            "content.empty",
            &at,
            format!("* GenerateContentRequest.{at}.parts: contents.parts must not be empty.\n"),
        );
    }
    let model = content.at("role") == "model";
    for (j, part) in parts(content).iter().enumerate() {
        check_part(f, &format!("{at}.parts[{j}]"), part, model, rules);
    }
}

fn check_part(f: &mut Found, at: &str, part: &Value, model: bool, rules: &Rules) {
    match DATA.iter().filter(|key| !part.at(key).is_null()).count() {
        0 => {
            // A part of a kind we do not know goes back as it came.
            let only_about = unknown(part, ABOUT).next().is_none();
            if only_about || rules.unknown_fields {
                f.add("part.data", at, format!("* GenerateContentRequest.{at}.data: required oneof field 'data' must have one initialized field\n"));
            }
        }
        1 => {}
        _ => f.add("part.data", at, format!("Invalid value at '{at}' (oneof), oneof field 'data' is already set. Cannot set two data fields.")),
    }
    if rules.unknown_fields {
        for key in unknown(part, DATA).filter(|key| !ABOUT.contains(key)) {
            unknown_name(f, "field.unknown", key, at);
        }
    }
    if let Some(text) = part.get("text")
        && !text.is_string()
    {
        f.add(
            "field.type",
            at,
            format!("Invalid value at '{at}.text' (TYPE_STRING)"),
        );
    }
    let call = part.at("functionCall");
    if !call.is_null() {
        if !model {
            f.add("call.role", at, "Please ensure that function call turn comes immediately after a user turn or after a function response turn.");
        }
        if call.at("name").as_str().is_none_or(str::is_empty) {
            f.add(
                "call.name",
                at,
                format!(
                    "* GenerateContentRequest.{at}.function_call.name: Name cannot be empty.\n"
                ),
            );
        }
        if !call.at("args").is_object() && !call.at("args").is_null() {
            f.add("call.args", at, format!("Invalid value at '{at}.function_call.args' (type.googleapis.com/google.protobuf.Struct)"));
        }
        if rules.unknown_fields {
            for key in unknown(call, &["id", "name", "args", "partialArgs", "willContinue"]) {
                unknown_name(f, "field.unknown", key, &format!("{at}.function_call"));
            }
        }
    }
    let response = part.at("functionResponse");
    if !response.is_null() {
        if model {
            f.add("response.role", at, "Please ensure that function response turn comes immediately after a function call turn.");
        }
        if response.at("name").as_str().is_none_or(str::is_empty) {
            f.add(
                "response.name",
                at,
                format!(
                    "* GenerateContentRequest.{at}.function_response.name: Name cannot be empty.\n"
                ),
            );
        }
        if !response.at("response").is_object() {
            f.add("response.response", at, format!("Invalid value at '{at}.function_response.response' (type.googleapis.com/google.protobuf.Struct)"));
        }
        if rules.unknown_fields {
            for key in unknown(
                response,
                &[
                    "id",
                    "name",
                    "response",
                    "parts",
                    "willContinue",
                    "scheduling",
                ],
            ) {
                unknown_name(f, "field.unknown", key, &format!("{at}.function_response"));
            }
        }
    }
    if let Some(signature) = part.get("thoughtSignature") {
        let text = signature.as_str().unwrap_or_default();
        let dummy = DUMMIES.contains(&text);
        if dummy && !rules.gemini_dummy_signature {
            f.add("signature.dummy", at, "Corrupted thought signature.");
        } else if !dummy && !is_base64(text) && !signature.is_null() {
            f.add("signature.base64", at, format!("Invalid value at '{at}.thought_signature' (TYPE_BYTES), Base64 decoding failed for \"{text}\""));
        }
    }
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let pad = text.len() - body.len();
    !body.is_empty()
        && pad <= 2
        && (pad == 0 || text.len().is_multiple_of(4))
        && body.len() % 4 != 1
        && body
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+/-_".contains(&b))
}

fn order(f: &mut Found, contents: &[Value], rules: &Rules) {
    if contents
        .first()
        .is_some_and(|content| content.at("role") == "model")
    {
        f.add(
            "order.first",
            "contents[0]",
            "Please ensure that multiturn requests start with a user turn.",
        );
    }
    if let Some(last) = contents.last()
        && last.at("role") == "model"
        && !rules.gemini_trailing_model
    {
        f.add(
            "order.last",
            format!("contents[{}]", contents.len() - 1),
            "Please ensure that multiturn requests end with a user turn or a function response.",
        );
    }
    let mut before: Option<&Value> = None;
    for (i, content) in contents.iter().enumerate() {
        let at = format!("contents[{i}]");
        let calls = with(content, "functionCall");
        let next = contents.get(i + 1);
        if content.at("role") == "model" && !calls.is_empty() {
            if before.is_none_or(|before| before.at("role") == "model") {
                f.add("order.call", &at, "Please ensure that function call turn comes immediately after a user turn or after a function response turn.");
            }
            let answers = next
                .map(|next| with(next, "functionResponse"))
                .unwrap_or_default();
            if answers.len() != calls.len() {
                f.add("order.count", &at, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.");
            } else {
                pair(f, &format!("contents[{}]", i + 1), &calls, &answers, rules);
            }
        }
        if content.at("role") != "model" && !with(content, "functionResponse").is_empty() {
            let follows = before.is_some_and(|before| {
                before.at("role") == "model" && !with(before, "functionCall").is_empty()
            });
            if !follows {
                f.add("order.response", &at, "Please ensure that function response turn comes immediately after a function call turn.");
            }
        }
        before = Some(content);
    }
}

fn pair(f: &mut Found, at: &str, calls: &[&Value], answers: &[&Value], rules: &Rules) {
    let mut left: Vec<&Value> = calls.to_vec();
    for answer in answers {
        let id = answer.at("id");
        let found = left.iter().position(|call| {
            let ids = call.at("id") == id || (rules.gemini_loose_ids && id.is_null());
            ids && call.at("name") == answer.at("name")
        });
        match found {
            Some(position) => {
                left.remove(position);
            }
            None => f.add(
                "response.pair",
                at,
                format!(
                    "Function response for `{}` (id {id}) does not match a function call of the function call turn by name and id.",
                    answer.at("name").as_str().unwrap_or_default()
                ),
            ),
        }
    }
}

fn signatures(f: &mut Found, contents: &[Value], rules: &Rules) {
    let mut seen = HashSet::new();
    for (i, content) in contents.iter().enumerate() {
        for (j, part) in parts(content).iter().enumerate() {
            let Some(signature) = part.at("thoughtSignature").as_str() else {
                continue;
            };
            if !DUMMIES.contains(&signature) && !seen.insert(signature) {
                f.add(
                    "signature.copied",
                    format!("contents[{i}].parts[{j}]"),
                    "Unable to submit request because Thought signature is not valid",
                );
            }
        }
    }
    if !rules.gemini_signatures {
        return;
    }
    let start = current_turn(contents);
    for (i, content) in contents.iter().enumerate().skip(start) {
        let first = parts(content)
            .iter()
            .find(|part| !part.at("functionCall").is_null());
        if let Some(part) = first
            && content.at("role") == "model"
            && part
                .at("thoughtSignature")
                .as_str()
                .is_none_or(str::is_empty)
        {
            f.add(
                "signature.missing",
                format!("contents[{i}]"),
                format!(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:{}` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
                    part.at("functionCall").at("name").as_str().unwrap_or_default(),
                    i + 1
                ),
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

    fn check(contents: Value, rules: &Rules) -> Vec<&'static str> {
        rules_of(&check_gemini(&json!({"contents": contents}), rules))
    }

    fn broken(contents: Value) -> Vec<&'static str> {
        check(contents, &Rules::default())
    }

    fn with_field(key: &str, value: Value) -> Vec<&'static str> {
        let mut body = json!({"contents": [user("q")]});
        body[key] = value;
        rules_of(&check_gemini(&body, &Rules::default()))
    }

    fn user(text: &str) -> Value {
        json!({"role": "user", "parts": [{"text": text}]})
    }

    fn model(parts: Value) -> Value {
        json!({"role": "model", "parts": parts})
    }

    fn signed(id: &str, signature: &str) -> Value {
        json!({"functionCall": {"id": id, "name": "t", "args": {}}, "thoughtSignature": signature})
    }

    fn call(id: &str) -> Value {
        json!({"functionCall": {"id": id, "name": "t", "args": {}}})
    }

    fn answer(id: &str) -> Value {
        json!({"functionResponse": {"id": id, "name": "t", "response": {"output": "ok"}}})
    }

    fn answers(parts: Value) -> Value {
        json!({"role": "user", "parts": parts})
    }

    #[test]
    fn sound_histories_pass() {
        assert_eq!(
            broken(json!([
                user("q"),
                model(json!([{"text": "x", "thought": true}, signed("a", "AA+/"), call("b")])),
                answers(json!([answer("b"), answer("a")])),
                model(json!([signed("c", "AAA=")])),
                answers(json!([answer("c")])),
                model(json!([{"text": "done"}, {"text": "", "thoughtSignature": "AA=="}])),
                user("r"),
            ])),
            NONE
        );
    }

    #[test]
    fn top_and_config() {
        assert_eq!(
            rules_of(&check_gemini(&json!({}), &Rules::default())),
            ["contents.required"]
        );
        assert_eq!(with_field("contents", json!([])), ["contents.required"]);
        assert_eq!(with_field("contents", json!("x")), ["field.type"]);
        assert_eq!(broken(json!([user("")])), ["contents.blank"]);
        assert_eq!(with_field("messages", json!([])), ["field.unknown"]);
        assert_eq!(
            with_field("system_instruction", json!({})),
            ["field.unknown"]
        );
        assert_eq!(
            with_field("systemInstruction", json!({"parts": []})),
            ["system.parts"]
        );
        assert_eq!(
            with_field("systemInstruction", json!({"parts": [{"text": "s"}]})),
            NONE
        );
        assert_eq!(
            with_field(
                "generationConfig",
                json!({"thinkingConfig": {"thinkingLevel": "HIGH", "thinkingBudget": 5}})
            ),
            ["thinking.both"]
        );
        assert_eq!(
            with_field(
                "generationConfig",
                json!({"thinkingConfig": {"thinkingLevel": "HUGE"}})
            ),
            ["thinking.level"]
        );
        assert_eq!(
            with_field(
                "toolConfig",
                json!({"functionCallingConfig": {"mode": "auto"}})
            ),
            ["tool_config.mode"]
        );
        assert_eq!(
            with_field(
                "toolConfig",
                json!({"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["t"]}})
            ),
            ["tool_config.names"]
        );
        assert_eq!(
            with_field(
                "toolConfig",
                json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["t"]}})
            ),
            NONE
        );
    }

    #[test]
    fn tool_shapes() {
        let tool = |declaration: Value| {
            with_field("tools", json!([{"functionDeclarations": [declaration]}]))
        };
        assert_eq!(
            tool(
                json!({"name": "t", "parametersJsonSchema": {"type": "object", "additionalProperties": false}})
            ),
            NONE
        );
        assert_eq!(
            tool(
                json!({"name": "t", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}})
            ),
            NONE
        );
        assert_eq!(tool(json!({"name": "1t"})), ["tool.name"]);
        assert_eq!(
            tool(
                json!({"name": "t", "parameters": {"type": "object", "additionalProperties": false}})
            ),
            ["tool.openapi"]
        );
        assert_eq!(
            tool(
                json!({"name": "t", "parameters": {"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "x"}}}}})
            ),
            ["tool.openapi"]
        );
        // A property may be called so.
        assert_eq!(
            tool(
                json!({"name": "t", "parameters": {"type": "object", "properties": {"const": {"type": "string"}}}})
            ),
            NONE
        );
        assert_eq!(
            tool(json!({"name": "t", "parametersJsonSchema": {"type": "string"}})),
            ["tool.schema"]
        );
        assert_eq!(
            tool(
                json!({"name": "t", "parametersJsonSchema": {"type": "object"}, "parameters": {"type": "object"}})
            ),
            ["tool.schema"]
        );
        assert_eq!(
            tool(json!({"name": "t", "input_schema": {}})),
            ["field.unknown"]
        );
        assert_eq!(with_field("tools", json!([{}])), ["tool.empty"]);
        assert_eq!(
            with_field(
                "tools",
                json!([{"functionDeclarations": [{"name": "t"}, {"name": "t"}]}])
            ),
            ["tool.unique"]
        );
    }

    #[test]
    fn contents_and_parts() {
        assert_eq!(
            broken(json!([{"role": "assistant", "parts": [{"text": "x"}]}])),
            ["content.role"]
        );
        assert_eq!(
            broken(json!([{"parts": [{"text": "x"}]}])),
            ["content.role"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "parts": []}, user("x")])),
            ["content.empty"]
        );
        assert_eq!(
            broken(json!([{"role": "user", "parts": [{"text": "x"}], "id": 1}])),
            ["field.unknown"]
        );
        let part = |part: Value| broken(json!([{"role": "user", "parts": [{"text": "x"}, part]}]));
        assert_eq!(part(json!({"thought": true})), ["part.data"]);
        assert_eq!(part(json!({"text": "x", "inlineData": {}})), ["part.data"]);
        assert_eq!(part(json!({"text": 1})), ["field.type"]);
        assert_eq!(
            part(json!({"text": "x", "type": "text"})),
            ["field.unknown"]
        );
        assert_eq!(
            part(json!({"text": "x", "thoughtSignature": "a b"})),
            ["signature.base64"]
        );
        assert_eq!(
            part(json!({"text": "x", "thoughtSignature": "AAAAA"})),
            ["signature.base64"]
        );
        assert!(part(call("a")).contains(&"call.role"));
    }

    #[test]
    fn calls_and_responses() {
        let good = signed("a", "AA==");
        assert_eq!(
            broken(json!([model(json!([good])), answers(json!([answer("a")]))])),
            ["order.call", "order.first"]
        );
        assert_eq!(
            broken(json!([
                user("q"),
                model(json!([{"text": "x"}])),
                model(json!([good])),
                answers(json!([answer("a")]))
            ])),
            ["order.call"]
        );
        assert_eq!(
            broken(json!([user("q"), model(json!([good])), user("r")])),
            ["order.count"]
        );
        assert_eq!(
            broken(json!([user("q"), answers(json!([answer("a")]))])),
            ["order.response"]
        );
        assert_eq!(
            broken(json!([
                user("q"),
                model(json!([good, call("b")])),
                answers(json!([answer("a")])),
                answers(json!([answer("b")]))
            ])),
            ["order.count", "order.response"]
        );
        assert_eq!(
            broken(json!([user("q"), model(json!([good]))])),
            ["order.count", "order.last"]
        );
        assert_eq!(
            broken(json!([
                user("q"),
                model(json!([good])),
                answers(json!([answer("z")]))
            ])),
            ["response.pair"]
        );
        let mut odd = answer("a");
        odd["functionResponse"]["name"] = json!("u");
        assert_eq!(
            broken(json!([
                user("q"),
                model(json!([good])),
                answers(json!([odd]))
            ])),
            ["response.pair"]
        );
        // Never invent an id for a call that had none; never lose one.
        let mut bare = good.clone();
        bare["functionCall"].as_object_mut().unwrap().remove("id");
        assert_eq!(
            broken(json!([
                user("q"),
                model(json!([bare])),
                answers(json!([answer("a")]))
            ])),
            ["response.pair"]
        );
        let mut odd = answer("a");
        odd["functionResponse"]
            .as_object_mut()
            .unwrap()
            .remove("id");
        assert_eq!(
            broken(json!([
                user("q"),
                model(json!([bare])),
                answers(json!([odd]))
            ])),
            NONE
        );
        assert_eq!(
            broken(json!([
                user("q"),
                model(json!([good])),
                answers(json!([odd]))
            ])),
            ["response.pair"]
        );
        let mut odd = answer("a");
        odd["functionResponse"]["response"] = json!("text");
        assert_eq!(
            broken(json!([
                user("q"),
                model(json!([good])),
                answers(json!([odd]))
            ])),
            ["response.response"]
        );
        let mut odd = good.clone();
        odd["functionCall"]["args"] = json!("{}");
        assert_eq!(
            broken(json!([
                user("q"),
                model(json!([odd])),
                answers(json!([answer("a")]))
            ])),
            ["call.args"]
        );
        assert!(
            broken(json!([user("q"), model(json!([answer("a")])), user("r")]))
                .contains(&"response.role")
        );
    }

    #[test]
    fn signature_rules() {
        let step = |call: Value, id: &str| vec![model(json!([call])), answers(json!([answer(id)]))];
        let mut history = vec![user("q")];
        history.extend(step(call("a"), "a"));
        assert_eq!(broken(json!(history)), ["signature.missing"]);
        let off = Rules {
            gemini_signatures: false,
            ..Rules::default()
        };
        assert_eq!(check(json!(history), &off), NONE);
        // An older turn is not checked.
        history.push(user("r"));
        assert_eq!(broken(json!(history)), NONE);
        // Every step of the current turn is.
        history.extend(step(signed("b", "AA=="), "b"));
        history.extend(step(call("c"), "c"));
        assert_eq!(broken(json!(history)), ["signature.missing"]);
        history.truncate(6);
        assert_eq!(broken(json!(history)), NONE);
        history.extend(step(signed("c", "AA=="), "c"));
        assert_eq!(broken(json!(history)), ["signature.copied"]);
        let dummy = json!([
            user("q"),
            model(json!([signed("a", DUMMIES[0])])),
            answers(json!([answer("a")]))
        ]);
        assert_eq!(broken(dummy.clone()), NONE);
        let none = Rules {
            gemini_dummy_signature: false,
            ..Rules::default()
        };
        assert_eq!(check(dummy, &none), ["signature.dummy"]);
    }
}
