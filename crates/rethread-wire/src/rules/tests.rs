//! Every rule, broken and kept.

use serde_json::{Value, json};

use super::*;

const ANTHROPIC: Api = Api::AnthropicMessages;
const CHAT: Api = Api::OpenAiChat;
const RESPONSES: Api = Api::OpenAiResponses;
const GEMINI: Api = Api::GeminiContents;

fn broken(api: Api, items: Value, told: &str) -> Vec<&'static str> {
    let items = items.as_array().unwrap().iter();
    let items: Vec<Json> = items.map(|item| Json::encode(item).unwrap()).collect();
    let problems = check(api, &items, &Target::parse(told).unwrap());
    for problem in &problems {
        assert!(
            !problem.detail.is_empty() && problem.at < items.len(),
            "{problem:?}"
        );
    }
    problems.iter().map(|problem| problem.rule).collect()
}

const NONE: [&str; 0] = [];

fn user() -> Value {
    json!({"role": "user", "content": "q"})
}

fn said(blocks: Value) -> Value {
    json!({"role": "assistant", "content": blocks})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "t", "input": {}})
}

fn results(ids: &[&str]) -> Value {
    let blocks = ids
        .iter()
        .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "x"}));
    json!({"role": "user", "content": blocks.collect::<Vec<_>>()})
}

#[test]
fn anthropic() {
    let thinking = json!({"type": "thinking", "thinking": "", "signature": "s"});
    let text = json!({"type": "text", "text": "x"});
    let server = json!({"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srv", "content": []});
    for (items, told, want) in [
        (json!([]), "{}", &NONE[..]),
        (
            json!([
                user(),
                said(json!([thinking, text, call("a"), call("b")])),
                results(&["b", "a"]),
                user()
            ]),
            r#"{"thinking":true,"prefill":false}"#,
            &NONE,
        ),
        (
            json!([
                user(),
                said(json!([call("a"), call("b")])),
                results(&["a"]),
                results(&["b"]),
                said(json!("x"))
            ]),
            "{}",
            &NONE,
        ),
        (
            json!([
                user(),
                said(json!([server, found, text])),
                user(),
                said(json!([server]))
            ]),
            r#"{"prefill":false}"#,
            &NONE,
        ),
        (
            json!([{"role": "system", "content": "s"}, user()]),
            "{}",
            &NONE,
        ),
        (
            json!([user(), said(json!([call("a")]))]),
            "{}",
            &["unanswered_tool_call"],
        ),
        (
            json!([
                user(),
                said(json!([call("a")])),
                user(),
                said(json!("x")),
                results(&["a"])
            ]),
            "{}",
            &["turn_order"],
        ),
        (
            json!([user(), said(json!([call("a")])), {"role": "user", "content": [text, results(&["a"])["content"][0]]}]),
            "{}",
            &["turn_order"],
        ),
        (
            json!([user(), said(json!([call("a")])), user(), results(&["a"])]),
            "{}",
            &["turn_order"],
        ),
        (
            json!([results(&["z"]), user()]),
            "{}",
            &["orphan_tool_result"],
        ),
        (
            json!([user(), said(json!([call("a")])), results(&["a", "a"])]),
            "{}",
            &["duplicate_tool_result"],
        ),
        (
            json!([
                user(),
                said(json!([call("a")])),
                results(&["a"]),
                said(json!([call("a")])),
                results(&["a"])
            ]),
            "{}",
            &["duplicate_id"],
        ),
        (
            json!([user(), said(json!([call("f.x:1")])), results(&["f.x:1"])]),
            "{}",
            &["id_format"],
        ),
        (
            json!([user(), said(json!([call("abc")])), results(&["abc"])]),
            r#"{"id_pattern":"^[a-zA-Z0-9]{9}$"}"#,
            &["id_format"],
        ),
        (
            json!([user(), {"role": "assistant", "content": []}, user()]),
            "{}",
            &["empty_content"],
        ),
        (
            json!([user(), said(json!([{"type": "text", "text": " \n"}]))]),
            "{}",
            &["empty_content"],
        ),
        (json!([{"role": "user"}]), "{}", &["empty_content"]),
        (json!([{"content": "x"}]), "{}", &["missing_field"]),
        (json!([7]), "{}", &["missing_field"]),
        (
            json!([{"role": "tool", "content": "x"}]),
            "{}",
            &["wrong_role"],
        ),
        (
            json!([{"role": "user", "content": [call("a")]}]),
            "{}",
            &["wrong_role"],
        ),
        (
            json!([{"role": "user", "content": "q", "id": "msg_1"}]),
            "{}",
            &["output_only_field"],
        ),
        (
            json!([
                user(),
                said(json!([{"type": "thinking", "thinking": "x", "signature": ""}, text]))
            ]),
            "{}",
            &["missing_signature"],
        ),
        (
            json!([user(), said(json!([call("a")])), results(&["a"])]),
            r#"{"thinking":true}"#,
            &["thinking_missing"],
        ),
        (
            json!([user(), said(json!("x"))]),
            r#"{"prefill":false}"#,
            &["prefill"],
        ),
        (
            json!([user(), said(json!("x"))]),
            r#"{"thinking":true}"#,
            &["prefill"],
        ),
        (
            json!([user(), said(json!([server])), user()]),
            "{}",
            &["server_tool_unanswered"],
        ),
        (
            json!([user(), said(json!([found])), user()]),
            "{}",
            &["orphan_tool_result"],
        ),
        (
            json!([user(), said(json!([{"type": "container_upload"}])), user()]),
            "{}",
            &["block_not_replayable"],
        ),
        (
            json!([
                user(),
                said(json!([{"type": "tool_use", "id": "a", "name": "t", "input": "{"}])),
                results(&["a"])
            ]),
            "{}",
            &["bad_arguments"],
        ),
        (
            json!([
                user(),
                said(json!([{"type": "tool_use", "id": "a", "name": "t", "input": {"k": "long"}}])),
                results(&["a"])
            ]),
            r#"{"max_argument_chars":5}"#,
            &["arguments_too_long"],
        ),
    ] {
        assert_eq!(broken(ANTHROPIC, items.clone(), told), want, "{items}");
    }
    let half = Json::parse(r#"{"role":"user","content":"\ud83d"}"#).unwrap();
    assert_eq!(
        check(ANTHROPIC, &[half], &Target::default())[0].rule,
        "lone_surrogate"
    );
}

#[test]
fn chat() {
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "t", "arguments": arguments}});
    let calls = |ids: &[&str]| {
        let calls: Vec<Value> = ids.iter().map(|id| call(id, "{}")).collect();
        json!({"role": "assistant", "tool_calls": calls})
    };
    let with = |arguments: &str| json!({"role": "assistant", "content": null, "tool_calls": [call("a", arguments)]});
    let tool = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": ""});
    let answer = json!({"role": "assistant", "content": "x"});
    let deepseek = r#"{"family":"deepseek","thinking":true}"#;
    for (items, told, want) in [
        (
            json!([{"role": "system", "content": "s"}, user(), calls(&["a", "b"]), tool("b"), tool("a"), calls(&["a"]), tool("a")]),
            "{}",
            &NONE[..],
        ),
        (
            json!([user(), with("null"), tool("a"), answer, {"role": "developer", "content": "d"}]),
            "{}",
            &NONE,
        ),
        (
            json!([user(), calls(&["a"])]),
            "{}",
            &["unanswered_tool_call"],
        ),
        (
            json!([user(), calls(&["a"]), user(), tool("a")]),
            "{}",
            &["turn_order"],
        ),
        (json!([user(), tool("a")]), "{}", &["orphan_tool_result"]),
        (
            json!([user(), calls(&["a"]), tool("a"), tool("a")]),
            "{}",
            &["duplicate_tool_result"],
        ),
        (
            json!([user(), calls(&["a", "a"]), tool("a"), tool("a")]),
            "{}",
            &["duplicate_id"],
        ),
        (
            json!([user(), with("{\"a"), tool("a")]),
            "{}",
            &["bad_arguments"],
        ),
        (
            json!([user(), with(""), tool("a")]),
            "{}",
            &["bad_arguments"],
        ),
        (
            json!([user(), with("{\"a\":\"\\ud83d\"}"), tool("a")]),
            "{}",
            &["lone_surrogate"],
        ),
        (
            json!([user(), with("{\"a\":1}"), tool("a")]),
            r#"{"max_argument_chars":4}"#,
            &["arguments_too_long"],
        ),
        (
            json!([user(), calls(&["call_1"]), tool("call_1")]),
            r#"{"family":"mistral"}"#,
            &["id_format"],
        ),
        (
            json!([
                user(),
                calls(&["x".repeat(41).as_str()]),
                tool(&"x".repeat(41))
            ]),
            r#"{"provider":"openai"}"#,
            &["id_format"],
        ),
        (
            json!([user(), {"role": "assistant", "content": ""}]),
            "{}",
            &["empty_content"],
        ),
        (
            json!([user(), {"role": "assistant", "content": "x", "tool_calls": []}]),
            "{}",
            &["empty_content"],
        ),
        (
            json!([{"role": "user", "content": null}]),
            "{}",
            &["empty_content"],
        ),
        (
            json!([{"role": "model", "content": "x"}]),
            "{}",
            &["wrong_role"],
        ),
        (
            json!([{"role": "tool", "content": "x"}]),
            "{}",
            &["missing_field", "orphan_tool_result"],
        ),
        (
            json!([user(), calls(&["a"]), tool("a"), answer]),
            deepseek,
            &["reasoning_missing", "reasoning_missing"],
        ),
        (json!([user(), answer, user()]), deepseek, &NONE),
        (
            json!([user(), answer]),
            r#"{"prefill":false}"#,
            &["prefill"],
        ),
        (
            json!([user(), {"role": "assistant", "content": "x", "prefix": true}]),
            r#"{"prefill":false}"#,
            &NONE,
        ),
    ] {
        assert_eq!(broken(CHAT, items.clone(), told), want, "{items}");
    }
}

#[test]
fn responses() {
    let said = |role: &str| json!({"type": "message", "role": role, "content": "x"});
    let call = |id: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "t", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "x"});
    let reasoning =
        |id: &str| json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "e"});
    for (items, told, want) in [
        (
            json!([
                said("user"),
                reasoning("rs_1"),
                call("a"),
                call("b"),
                said("user"),
                output("b"),
                output("a")
            ]),
            r#"{"reasoning":true,"store":false}"#,
            &NONE[..],
        ),
        (
            json!([said("user"), reasoning("rs_1"), {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}}, {"type": "compaction", "encrypted_content": "e"}]),
            "{}",
            &NONE,
        ),
        (
            json!([said("user"), call("a")]),
            "{}",
            &["unanswered_tool_call"],
        ),
        (json!([output("a")]), "{}", &["orphan_tool_result"]),
        (
            json!([call("a"), output("a"), output("a")]),
            "{}",
            &["duplicate_tool_result"],
        ),
        (
            json!([call("a"), {"type": "custom_tool_call_output", "call_id": "a", "output": "x"}]),
            "{}",
            &["orphan_tool_result"],
        ),
        (
            json!([call("a"), output("a"), {"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"}, output("a")]),
            "{}",
            &["duplicate_id"],
        ),
        (
            json!([
                reasoning("rs_1"),
                said("assistant"),
                reasoning("rs_1"),
                said("assistant")
            ]),
            "{}",
            &["duplicate_id"],
        ),
        (
            json!([said("user"), reasoning("rs_1")]),
            "{}",
            &["reasoning_without_follower"],
        ),
        (
            json!([said("user"), reasoning("rs_1"), said("user")]),
            "{}",
            &["reasoning_without_follower"],
        ),
        (
            json!([said("user"), call("a"), output("a")]),
            r#"{"reasoning":true}"#,
            &["follower_without_reasoning"],
        ),
        (
            json!([{"type": "reasoning", "id": "rs_1", "summary": []}, said("assistant")]),
            r#"{"store":false}"#,
            &["item_not_found"],
        ),
        (
            json!([{"type": "item_reference", "id": "x"}]),
            r#"{"store":false}"#,
            &["item_not_found"],
        ),
        (
            json!([{"type": "reasoning", "id": "rs_1"}, said("assistant")]),
            "{}",
            &["missing_field"],
        ),
        (
            json!([{"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "x"}]}, said("assistant")]),
            r#"{"provider":"openai"}"#,
            &["output_only_field"],
        ),
        (
            json!([{"type": "message", "role": "assistant", "content": "x", "created_by": "m"}]),
            "{}",
            &["output_only_field"],
        ),
        (
            json!([{"type": "message", "id": "x_1", "role": "assistant", "content": "x"}]),
            r#"{"provider":"openai"}"#,
            &["id_format"],
        ),
        (
            json!([{"type": "function_call", "call_id": "a", "name": "t", "arguments": "{\"a"}, output("a")]),
            "{}",
            &["bad_arguments"],
        ),
        (
            json!([{"type": "function_call", "call_id": "a", "name": "t", "arguments": "{\"a\":1}"}, output("a")]),
            r#"{"max_argument_chars":4}"#,
            &["arguments_too_long"],
        ),
        (
            json!([{"type": "web_search_call", "id": "ws_1"}]),
            "{}",
            &["missing_field"],
        ),
        (
            json!([{"role": "odd", "content": "x"}, {"content": "x"}]),
            "{}",
            &["wrong_role", "missing_field"],
        ),
        (
            json!([said("user"), said("assistant")]),
            r#"{"prefill":false}"#,
            &["prefill"],
        ),
    ] {
        assert_eq!(broken(RESPONSES, items.clone(), told), want, "{items}");
    }
    let mut chained = Target::default();
    chained.chained = true;
    let item = Json::encode(&output("a")).unwrap();
    assert_eq!(check(RESPONSES, &[item], &chained), []);
}

#[test]
fn gemini() {
    let said = |role: &str| json!({"role": role, "parts": [{"text": "x"}]});
    let calls = |names: &[&str], signature: &str| {
        let parts = names.iter().enumerate().map(|(at, name)| {
            let mut part = json!({"functionCall": {"name": name, "args": {}}});
            if at == 0 && !signature.is_empty() {
                part["thoughtSignature"] = json!(signature);
            }
            part
        });
        json!({"role": "model", "parts": parts.collect::<Vec<_>>()})
    };
    let answers = |names: &[&str]| {
        let parts = names
            .iter()
            .map(|name| json!({"functionResponse": {"name": name, "response": {"output": 1}}}));
        json!({"role": "user", "parts": parts.collect::<Vec<_>>()})
    };
    let three = r#"{"family":"gemini-3"}"#;
    for (items, told, want) in [
        (
            json!([
                said("user"),
                calls(&["t", "u"], "c2ln"),
                answers(&["u", "t"]),
                calls(&["t"], "c2ln"),
                answers(&["t"]),
                said("model")
            ]),
            three,
            &NONE[..],
        ),
        (
            json!([said("user"), {"role": "model", "parts": [{"text": "", "thoughtSignature": "c2ln"}]}]),
            "{}",
            &NONE,
        ),
        (
            json!([
                said("user"),
                calls(&["t"], ""),
                answers(&["t"]),
                said("user")
            ]),
            three,
            &NONE,
        ),
        (
            json!([said("user"), calls(&["t"], ""), answers(&["t"])]),
            r#"{"family":"gemini-2.5"}"#,
            &NONE,
        ),
        (
            json!([said("user"), calls(&["t"], ""), answers(&["t"])]),
            three,
            &["missing_signature"],
        ),
        (
            json!([said("user"), calls(&["t"], "")]),
            "{}",
            &["unanswered_tool_call"],
        ),
        (
            json!([said("user"), calls(&["t", "t"], ""), answers(&["t"])]),
            "{}",
            &["unanswered_tool_call"],
        ),
        (
            json!([
                said("user"),
                calls(&["t"], ""),
                said("user"),
                answers(&["t"])
            ]),
            "{}",
            &["turn_order"],
        ),
        (
            json!([calls(&["t"], ""), answers(&["t"])]),
            "{}",
            &["turn_order"],
        ),
        (
            json!([
                said("user"),
                said("model"),
                calls(&["t"], ""),
                answers(&["t"])
            ]),
            "{}",
            &["turn_order"],
        ),
        (
            json!([said("user"), answers(&["t"])]),
            "{}",
            &["orphan_tool_result"],
        ),
        (
            json!([said("user"), calls(&["t"], ""), answers(&["t", "t"])]),
            "{}",
            &["orphan_tool_result"],
        ),
        (json!([said("odd")]), "{}", &["wrong_role"]),
        (
            json!([{"role": "user", "parts": []}]),
            "{}",
            &["empty_content"],
        ),
        (
            json!([{"role": "user", "parts": [{"text": ""}, {"text": "x"}]}]),
            "{}",
            &["empty_content"],
        ),
        (
            json!([said("user"), {"role": "model", "parts": [{"functionCall": {"name": "t", "args": "x"}}]}, answers(&["t"])]),
            "{}",
            &["bad_arguments"],
        ),
        (
            json!([said("user"), calls(&["t"], ""), {"role": "user", "parts": [{"functionResponse": {"name": "t", "response": "x"}}]}]),
            "{}",
            &["missing_field"],
        ),
        (
            json!([said("user"), calls(&["t"], ""), {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "t", "response": {}}}]}]),
            "{}",
            &["id_format"],
        ),
        (
            json!([said("user"), said("model")]),
            r#"{"prefill":false}"#,
            &["prefill"],
        ),
    ] {
        assert_eq!(broken(GEMINI, items.clone(), told), want, "{items}");
    }
}

#[test]
fn what_nobody_reads_is_refused() {
    assert!(Target::parse(r#"{"thinking":true,"reasoning":"replay","fields":{}}"#).is_ok());
    for json in [
        r#"{"prefil":true}"#,
        r#"{"thinking":1}"#,
        "7",
        r#"{"id_pattern":"(a|b)"}"#,
    ] {
        assert!(Target::parse(json).is_err(), "{json}");
    }
    let target = Target::parse(r#"{"family":"models/Gemini-10-pro"}"#).unwrap();
    assert_eq!(target.gemini_version(), Some(10));
}
