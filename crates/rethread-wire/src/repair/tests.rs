//! Repair from the outside: damaged histories of every interface.

use proptest::prelude::*;
use rethread_core::Json;
use rethread_testserver::{Rules, check_anthropic, check_chat, check_gemini, check_responses};
use serde_json::{Value, json};

use super::*;
use crate::formats::{Format, read};
use crate::rules::check;

const ANTHROPIC: Api = Api::AnthropicMessages;
const CHAT: Api = Api::OpenAiChat;
const RESPONSES: Api = Api::OpenAiResponses;
const GEMINI: Api = Api::GeminiContents;

fn target(json: &str) -> Target {
    Target::parse(json).unwrap()
}

/// Repairs a list, with what is said of its stops; gives the new list and what was changed.
fn repaired(api: Api, items: &Value, stops: Value, told: &str) -> (Value, Vec<&'static str>) {
    let file = json!({list_name(api): items, "stops": stops}).to_string();
    let loaded = read(file.as_bytes(), Format::from(api));
    let repaired = repair(&loaded, api, &target(told), None);
    let request: Value = serde_json::from_str(repaired.request.get()).unwrap();
    let what = repaired.changes.iter().map(|change| change.what).collect();
    (request[list_name(api)].clone(), what)
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "t", "input": {}})
}

fn result(id: &str, text: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": text})
}

fn said(blocks: Value) -> Value {
    json!({"role": "assistant", "content": blocks})
}

#[test]
fn open_calls_are_answered_beside_the_results_that_came() {
    let items = json!([user("q"), said(json!([call("a"), call("b")])), {"role": "user", "content": [result("b", "B")]}]);
    let (got, what) = repaired(ANTHROPIC, &items, json!({}), "{}");
    assert_eq!(what, ["answered"]);
    assert_eq!(got[1], items[1]);
    assert_eq!(got[2]["content"][0]["tool_use_id"], "a");
    assert_eq!(got[2]["content"][0]["is_error"], true);
    assert_eq!(got[2]["content"][1], result("b", "B"));
}

#[test]
fn what_came_between_a_call_and_its_result_stands_behind_it() {
    let items = json!([
        user("q"),
        said(json!([call("a")])),
        user("well?"),
        said(json!([{"type": "text", "text": "x"}])),
        {"role": "user", "content": [{"type": "text", "text": "and"}, result("a", "A"), result("a", "again")]},
    ]);
    let (got, what) = repaired(ANTHROPIC, &items, json!({}), "{}");
    assert_eq!(what, ["set_aside", "moved"]);
    assert_eq!(got[2]["content"][0], result("a", "A"));
    assert_eq!(got[2]["content"][1]["text"], "well?");
    assert_eq!(got[4]["content"], json!([{"type": "text", "text": "and"}]));
}

#[test]
fn a_response_that_broke_off_is_kept_and_asked_for_again() {
    let thinking = json!({"type": "thinking", "thinking": "", "signature": "s+/="});
    let cut = json!({"type": "thinking", "thinking": "hm", "signature": ""});
    let text = json!({"type": "text", "text": "Now I"});
    let items = json!([user("q"), said(json!([thinking, text, cut]))]);
    let (got, what) = repaired(ANTHROPIC, &items, json!({"1": "interrupted"}), "{}");
    assert_eq!(what, ["removed", "added"]);
    assert_eq!(got[1], said(json!([thinking, text])));
    assert_eq!(got[2]["content"][0]["text"], texts::RETRY_NOTICE);
    // Nothing is left of it, so nothing is said of it.
    let (got, _) = repaired(
        ANTHROPIC,
        &json!([user("q"), said(json!([cut]))]),
        json!({"1": null}),
        "{}",
    );
    assert_eq!(got, json!([user("q")]));
    let (got, _) = repaired(
        CHAT,
        &json!([user("q"), {"role": "assistant", "content": "1."}]),
        json!({"1": "length"}),
        "{}",
    );
    assert_eq!(got[2]["content"], texts::CONTINUE_NOTICE);
}

#[test]
fn arguments_that_do_not_decode_are_told_in_the_result() {
    let cut = |id: &str| json!({"id": id, "type": "function", "function": {"name": "t", "arguments": "{\"a\": \"x"}});
    let items = json!([user("q"), {"role": "assistant", "content": null, "tool_calls": [cut("a"), cut("b")]}, {"role": "tool", "tool_call_id": "b", "content": "not run"}]);
    let (got, _) = repaired(CHAT, &items, json!({}), "{}");
    assert_eq!(got[1]["tool_calls"][0]["function"]["arguments"], "{}");
    assert!(
        got[2]["content"].as_str().unwrap().contains("{\"a\": \"x"),
        "{got}"
    );
    assert_eq!(got[3]["content"], "not run");
    // The output limit left nothing of them.
    let items = json!([user("q"), said(json!([call("a")]))]);
    let (got, _) = repaired(ANTHROPIC, &items, json!({"1": "max_tokens"}), "{}");
    let words = got[2]["content"][0]["content"].as_str().unwrap();
    assert!(words.contains("did not run"), "{words}");
}

#[test]
fn ids_are_renamed_on_both_sides() {
    let items = json!([
        user("q"),
        said(json!([call("f.x:1"), call("a")])),
        {"role": "user", "content": [result("f.x:1", "1"), result("a", "2")]},
        said(json!([call("a")])),
        {"role": "user", "content": [result("a", "3")]},
    ]);
    let (got, what) = repaired(ANTHROPIC, &items, json!({}), "{}");
    assert_eq!(what, ["renamed", "renamed"]);
    assert_eq!(got[1]["content"][0]["id"], "f_x_1");
    assert_eq!(got[2]["content"][0]["tool_use_id"], "f_x_1");
    assert_eq!(
        got[3]["content"][0]["id"],
        got[4]["content"][0]["tool_use_id"]
    );
    assert_ne!(got[3]["content"][0]["id"], "a");
    let nine = json!([user("q"), {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "t", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "call_1", "content": "x"}]);
    let (got, _) = repaired(
        CHAT,
        &nine,
        json!({}),
        r#"{"id_pattern":"^[a-zA-Z0-9]{9}$"}"#,
    );
    let id = got[2]["tool_call_id"].as_str().unwrap();
    assert!(id.len() == 9 && got[1]["tool_calls"][0]["id"] == id);
}

#[test]
fn a_paused_turn_stays_the_last_unless_something_is_said() {
    let server =
        json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}});
    let items = json!([
        user("q"),
        said(json!([{"type": "text", "text": "x"}, server]))
    ]);
    let (got, what) = repaired(
        ANTHROPIC,
        &items,
        json!({"1": "pause_turn"}),
        r#"{"prefill":false}"#,
    );
    assert_eq!((got, what), (items.clone(), vec![]));
    let (got, _) = repaired(ANTHROPIC, &items, json!({"1": "interrupted"}), "{}");
    assert_eq!(got[1], said(json!([{"type": "text", "text": "x"}])));
    // What the service made of it may stand in a message of its own.
    let done = json!({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []});
    let items = json!([user("q"), said(json!([server])), said(json!([done]))]);
    let (got, what) = repaired(ANTHROPIC, &items, json!({}), "{}");
    assert_eq!(
        (got[1].clone(), what),
        (said(json!([server, done])), vec!["merged"])
    );
}

#[test]
fn reasoning_goes_with_what_it_led_to() {
    let said = json!({"type": "message", "role": "user", "content": "q"});
    let reasoning = |id: &str| json!({"type": "reasoning", "id": id, "summary": []});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "a", "name": "t", "arguments": "{}"});
    let items = json!([said, reasoning("rs_1"), call, reasoning("rs_2")]);
    let (got, _) = repaired(RESPONSES, &items, json!({}), "{}");
    assert_eq!(got.as_array().unwrap().len(), 4, "{got}");
    assert_eq!(got[3]["type"], "function_call_output");
    let (got, _) = repaired(RESPONSES, &items, json!({}), r#"{"store":false}"#);
    assert!(
        !got.to_string().contains("rs_") && !got.to_string().contains("fc_"),
        "{got}"
    );
    assert_eq!(got[1]["call_id"], "a");
}

#[test]
fn a_stand_in_signs_only_what_needs_it() {
    let called = |signature: Option<&str>| {
        let mut part = json!({"functionCall": {"name": "t", "args": {}}});
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        json!({"role": "model", "parts": [part]})
    };
    let text = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
    let answer = json!({"role": "user", "parts": [{"functionResponse": {"name": "t", "response": {"output": 1}}}]});
    let items = json!([
        text("q"),
        called(None),
        answer,
        text("r"),
        called(Some("c2ln")),
        answer,
        called(None),
        answer
    ]);
    let (got, what) = repaired(GEMINI, &items, json!({}), r#"{"family":"gemini-3"}"#);
    assert_eq!(what, ["added"]);
    assert_eq!(got[1], items[1]);
    assert_eq!(got[4], items[4]);
    assert_eq!(
        got[6]["parts"][0]["thoughtSignature"],
        "skip_thought_signature_validator"
    );
}

#[test]
fn what_stands_beside_the_list_is_kept_and_stops_are_not_sent() {
    let file = br#"{"model":"m","system":"s","messages":[{"role":"user","content":"q"}],"stops":{},"max_tokens":1e2}"#;
    let loaded = read(file, Format::AnthropicMessages);
    let repaired = repair(&loaded, ANTHROPIC, &Target::default(), Some("more"));
    assert_eq!(
        repaired.request.get(),
        r#"{"messages":[{"role":"user","content":"q"},{"role":"user","content":[{"type":"text","text":"more"}]}],"model":"m","system":"s","max_tokens":1e2}"#
    );
    assert_eq!(repaired.changes.len(), 1);
}

#[test]
fn a_history_of_another_form_is_written_afresh() {
    let file = br#"[{"role":"user","content":"q"},
        {"role":"assistant","content":"","tool_calls":[{"id":"call_a|fc_b","name":"t","arguments":{}}]},
        {"role":"user","content":"well?"},{"role":"assistant","content":"x"},
        {"role":"tool","tool_call_id":"call_a|fc_b","content":"late"}]"#;
    let loaded = read(file, Format::Rethread);
    let repaired = repair(&loaded, ANTHROPIC, &target(r#"{"prefill":false}"#), None);
    let got: Value = serde_json::from_str(repaired.request.get()).unwrap();
    let result = &got["messages"][2]["content"][0];
    assert_eq!(
        (&result["tool_use_id"], &result["content"]),
        (&json!("call_a_fc_b"), &json!("late"))
    );
    assert_eq!(repaired.changes[0].what, "moved");
}

#[test]
fn a_call_that_waits_is_answered_as_one_that_did_not_run() {
    let file = concat!(
        "{\"seq\":1,\"message\":{\"role\":\"user\",\"content\":\"q\"}}\n",
        "{\"seq\":2,\"message\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"a\",\"name\":\"t\",\"arguments\":{}}]}}\n",
        "{\"seq\":3,\"call_suspended\":{\"call\":{\"message\":2,\"index\":0},\"wait\":\"approval\"}}\n",
    );
    let loaded = read(file.as_bytes(), Format::Rethread);
    let repaired = repair(&loaded, CHAT, &Target::default(), Some("go on"));
    let got: Value = serde_json::from_str(repaired.request.get()).unwrap();
    assert_eq!(got["messages"][2]["content"], texts::SUSPENDED_RESULT);
    assert_eq!(got["messages"][3]["content"], "go on");
}

#[test]
fn thinking_goes_off_where_a_turn_began_without_it() {
    let file = json!({"thinking": {"type": "enabled", "budget_tokens": 1024}, "messages": [user("q"), said(json!([call("a")]))]}).to_string();
    let loaded = read(file.as_bytes(), Format::AnthropicMessages);
    let repaired = repair(&loaded, ANTHROPIC, &Target::default(), None);
    assert!(
        repaired
            .request
            .get()
            .contains(r#""thinking":{"type":"disabled"}"#)
    );
    assert!(
        repaired
            .changes
            .iter()
            .any(|change| change.what == "thinking_off")
    );
}

// ---------------------------------------------------------------- damaged histories

fn ids() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "toolu_1", "f.x:3", "", "a|b"])
}

/// Texts of which each can be told from the others; the number is put in later.
fn text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "said #",
        "said #",
        "said #",
        "",
        " \n",
        "\u{e9}\u{2028}\0#",
    ])
}

fn junk() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(null),
        json!(7),
        json!("x"),
        json!([]),
        json!({}),
        json!({"role": "user"}),
        json!({"role": "assistant", "content": null}),
        json!({"content": "x"}),
        json!({"type": "?"}),
        json!({"role": "odd", "content": "odd #"}),
        json!({"role": "user", "content": 7}),
        json!({"role": "user", "parts": null}),
    ])
}

fn anthropic_block() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => text().prop_map(|text| json!({"type": "text", "text": text})),
        3 => ids().prop_map(call),
        3 => (ids(), text()).prop_map(|(id, text)| result(id, text)),
        1 => prop::sample::select(vec![
            json!({"type": "thinking", "thinking": "t", "signature": "s+/="}),
            json!({"type": "thinking", "thinking": "t", "signature": ""}),
            json!({"type": "redacted_thinking", "data": "d"}),
            json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}),
            json!({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}),
            json!({"type": "tool_use", "id": "u", "name": "", "input": "{\"a\""}),
            json!({"type": "tool_result", "tool_use_id": "a", "is_error": true}),
            json!({"type": "container_upload", "file_id": "f"}),
            json!({"text": "no type"}),
            json!({"type": "text", "text": null}),
        ]),
    ]
}

fn anthropic_item() -> impl Strategy<Value = Value> {
    let blocks = prop::collection::vec(anthropic_block(), 0..4).prop_map(Value::from);
    let content = prop_oneof![4 => blocks, 1 => text().prop_map(Value::from)];
    let role = prop::sample::select(vec![
        "user",
        "user",
        "assistant",
        "assistant",
        "assistant",
        "system",
        "tool",
        "model",
    ]);
    let message = (role, content, any::<bool>()).prop_map(|(role, content, more)| {
        let mut message = json!({"role": role, "content": content});
        if more && role == "assistant" {
            message["stop_reason"] = json!("end_turn");
        }
        message
    });
    prop_oneof![12 => message, 1 => junk()]
}

fn chat_item() -> impl Strategy<Value = Value> {
    let arguments = prop::sample::select(vec![
        "{}",
        "{\"a\":1}",
        "",
        "{\"a",
        "[1]",
        "{\"a\":\"\\ud83d\"}",
    ]);
    let call = (ids(), arguments, prop::sample::select(vec!["t", "t", ""])).prop_map(|(id, arguments, name)| {
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    });
    let response = (
        prop::sample::select(vec![json!("said #"), json!(""), json!(null), json!([])]),
        prop::collection::vec(call, 0..4),
        any::<bool>(),
    )
        .prop_map(|(content, calls, list)| {
            let mut message = json!({"role": "assistant", "content": content});
            if list || !calls.is_empty() {
                message["tool_calls"] = Value::from(calls);
            }
            message
        });
    prop_oneof![
        3 => (prop::sample::select(vec!["user", "system", "developer", "model"]), text()).prop_map(|(role, text)| json!({"role": role, "content": text})),
        5 => response,
        5 => (ids(), text()).prop_map(|(id, text)| json!({"role": "tool", "tool_call_id": id, "content": text})),
        1 => Just(json!({"role": "assistant", "content": null, "refusal": "no"})),
        1 => Just(json!({"role": "tool", "tool_call_id": "a", "content": null})),
        1 => junk(),
    ]
}

fn responses_item() -> impl Strategy<Value = Value> {
    let arguments = prop::sample::select(vec!["{}", "{\"a\":1}", "", "{\"a", "null"]);
    let item_id = prop::sample::select(vec![json!(null), json!("fc_1"), json!("fc_2"), json!("x")]);
    let with = |mut item: Value, id: Value| {
        if !id.is_null() {
            item["id"] = id;
        }
        item
    };
    prop_oneof![
        3 => (prop::sample::select(vec!["user", "developer", "odd"]), text()).prop_map(|(role, text)| json!({"type": "message", "role": role, "content": text})),
        3 => (text(), item_id.clone()).prop_map(move |(text, id)| with(json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}), id)),
        5 => (ids(), arguments, item_id).prop_map(move |(id, arguments, item)| with(json!({"type": "function_call", "call_id": id, "name": "t", "arguments": arguments}), item)),
        5 => (ids(), text(), prop::sample::select(vec!["function_call_output", "function_call_output", "custom_tool_call_output"])).prop_map(|(id, text, kind)| json!({"type": kind, "call_id": id, "output": text})),
        3 => prop::sample::select(vec![
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e+/="}),
            json!({"type": "reasoning", "id": "rs_2", "summary": []}),
            json!({"type": "reasoning", "id": "rs_3"}),
            json!({"type": "reasoning", "id": "rs_4", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]}),
        ]),
        1 => prop::sample::select(vec![
            json!({"type": "custom_tool_call", "call_id": "c", "name": "p", "input": "x"}),
            json!({"type": "shell_call", "call_id": "s", "action": {}}),
            json!({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
            json!({"type": "item_reference", "id": "msg_9"}),
            json!({"type": "message", "role": "assistant", "content": "x", "created_by": "m"}),
        ]),
        1 => junk(),
    ]
}

fn gemini_item() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["t", "u", ""]);
    let id = prop::sample::select(vec![json!(null), json!("a"), json!("b")]);
    let with = |key: &'static str, mut inner: Value, id: Value| {
        if !id.is_null() {
            inner["id"] = id;
        }
        json!({key: inner})
    };
    let args = prop::sample::select(vec![json!({}), json!({"a": 1}), json!("x"), json!(null)]);
    let part = prop_oneof![
        3 => text().prop_map(|text| json!({"text": text})),
        3 => (name.clone(), id.clone(), args, any::<bool>()).prop_map(move |(name, id, args, signed)| {
            let mut part = with("functionCall", json!({"name": name, "args": args}), id);
            if signed {
                part["thoughtSignature"] = json!("c2ln");
            }
            part
        }),
        3 => (name, id, prop::sample::select(vec![json!({"output": "said #"}), json!("said #"), json!(null)])).prop_map(move |(name, id, response)| with("functionResponse", json!({"name": name, "response": response}), id)),
        1 => prop::sample::select(vec![json!({}), json!({"text": "", "thoughtSignature": "c2ln"}), json!({"text": "t", "thought": true}), json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}})]),
    ];
    let content = (
        prop::sample::select(vec![
            "user",
            "user",
            "model",
            "model",
            "model",
            "function",
            "assistant",
            "odd",
        ]),
        prop::collection::vec(part, 0..4),
    )
        .prop_map(|(role, parts)| json!({"role": role, "parts": parts}));
    prop_oneof![12 => content, 1 => junk()]
}

fn any_history() -> impl Strategy<Value = (Api, Value, Value, String)> {
    let list = |items: BoxedStrategy<Value>| prop::collection::vec(items, 0..9);
    let stops = prop::collection::btree_map(
        (0..9_usize).prop_map(|at| at.to_string()),
        prop::sample::select(vec![
            json!("max_tokens"),
            json!("interrupted"),
            json!(null),
            json!("pause_turn"),
            json!("refusal"),
            json!("odd"),
        ]),
        0..3,
    );
    let told = |api: Api| -> Vec<&'static str> {
        match api {
            ANTHROPIC => vec![
                "{}",
                r#"{"prefill":false}"#,
                r#"{"thinking":true}"#,
                r#"{"max_argument_chars":4}"#,
            ],
            CHAT => vec![
                "{}",
                r#"{"provider":"openai","prefill":false}"#,
                r#"{"family":"deepseek","thinking":true}"#,
                r#"{"family":"mistral"}"#,
                r#"{"id_pattern":"^[a-zA-Z0-9]{9}$"}"#,
                r#"{"max_argument_chars":4}"#,
            ],
            RESPONSES => vec![
                "{}",
                r#"{"store":false}"#,
                r#"{"reasoning":true}"#,
                r#"{"provider":"openai","prefill":false}"#,
                r#"{"max_argument_chars":4}"#,
            ],
            _ => vec![
                "{}",
                r#"{"family":"gemini-3"}"#,
                r#"{"family":"gemini-2.5","prefill":false}"#,
            ],
        }
    };
    prop_oneof![
        list(anthropic_item().boxed()).prop_map(|items| (ANTHROPIC, items)),
        list(chat_item().boxed()).prop_map(|items| (CHAT, items)),
        list(responses_item().boxed()).prop_map(|items| (RESPONSES, items)),
        list(gemini_item().boxed()).prop_map(|items| (GEMINI, items)),
    ]
    .prop_flat_map(move |(api, items)| {
        // Every text is one of its own.
        let text = Value::from(items).to_string();
        let mut pieces = text.split('#');
        let mut numbered = pieces.next().unwrap_or("").to_owned();
        for (n, piece) in pieces.enumerate() {
            numbered.push_str(&format!("<{n}>"));
            numbered.push_str(piece);
        }
        let items: Value = serde_json::from_str(&numbered).unwrap();
        (
            Just(api),
            Just(items),
            stops.clone().prop_map(|stops| json!(stops)),
            prop::sample::select(told(api)).prop_map(str::to_owned),
        )
    })
}

fn list(api: Api, request: &Json) -> Vec<Json> {
    let members = crate::decode::raw::Members::read(request.get());
    members
        .list(list_name(api))
        .iter()
        .map(|raw| Json::parse(raw.get()).unwrap())
        .collect()
}

/// What an independent reading of the rules finds.
fn refused(api: Api, items: &[Json], told: &str) -> Vec<String> {
    let mut body = json!({"model": "m", "max_tokens": 10, "stream": true});
    let items: Vec<Value> = items
        .iter()
        .map(|item| serde_json::from_str(item.get()).unwrap())
        .collect();
    if items.is_empty() {
        return Vec::new();
    }
    body[list_name(api)] = Value::from(items);
    let mut rules = Rules {
        anthropic_prefill: !told.contains("prefill") && !told.contains("thinking"),
        anthropic_system_messages: true,
        anthropic_first_user: false,
        unknown_fields: false,
        chat_reused_ids: true,
        ..Rules::default()
    };
    if told.contains("mistral") {
        rules = Rules {
            anthropic_system_messages: true,
            chat_reused_ids: true,
            unknown_fields: false,
            ..Rules::chat(rethread_testserver::ChatServer::Mistral)
        };
    }
    if told.contains("deepseek") {
        rules = Rules {
            chat_reused_ids: true,
            unknown_fields: false,
            ..Rules::chat(rethread_testserver::ChatServer::DeepSeek)
        };
    }
    if api == GEMINI {
        body.as_object_mut().unwrap().remove("model");
        body.as_object_mut().unwrap().remove("max_tokens");
        body.as_object_mut().unwrap().remove("stream");
        rules.gemini_signatures = told.contains("gemini-3");
    }
    let found = match api {
        ANTHROPIC => {
            body["tools"] = json!([{"name": "t", "input_schema": {"type": "object"}}]);
            check_anthropic(&body, &rules)
        }
        CHAT => check_chat(&body, &rules),
        RESPONSES => check_responses(&body, &rules),
        _ => check_gemini(&body, &rules),
    };
    let unsure = |rule: &str| match rule {
        // Services that copy the API have ids of their own.
        "item.id" => !told.contains("openai"),
        // Not refused everywhere; and nothing here gives a signature twice.
        "order.first" | "signature.copied" | "contents.blank" => true,
        "order.last" => !told.contains("prefill"),
        _ => false,
    };
    let found = found.iter().filter(|violation| !unsure(violation.rule));
    found.map(ToString::to_string).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400.max(ProptestConfig::default().cases), ..ProptestConfig::default() })]

    #[test]
    fn what_is_repaired_can_be_sent_and_stays_as_it_is((api, items, stops, told) in any_history(), append in any::<bool>()) {
        let target = target(&told);
        let file = json!({list_name(api): items, "stops": stops}).to_string();
        let loaded = read(file.as_bytes(), Format::from(api));
        let append = append.then_some("the end");
        let repaired = repair(&loaded, api, &target, append);
        let sent = list(api, &repaired.request);
        let off = repaired.changes.iter().any(|change| change.what == "thinking_off");
        let mut found = check(api, &sent, &target);
        found.retain(|problem| !(off && problem.rule == "thinking_missing"));
        prop_assert!(found.is_empty(), "{:#?}\n{}", found, repaired.request.get());
        let refused = refused(api, &sent, &told);
        prop_assert!(refused.is_empty(), "{:#?}\n{}", refused, repaired.request.get());

        let again = read(repaired.request.get().as_bytes(), Format::from(api));
        let twice = repair(&again, api, &target, None);
        let changes: Vec<_> = twice.changes.iter().filter(|change| change.what != "thinking_off").collect();
        prop_assert!(changes.is_empty(), "{:#?}\n{}", changes, repaired.request.get());
        prop_assert_eq!(twice.request.get(), repaired.request.get());
    }

    #[test]
    fn what_need_not_change_stays((api, items, stops, told) in any_history()) {
        let target = target(&told);
        let file = json!({list_name(api): items, "stops": stops}).to_string();
        let loaded = read(file.as_bytes(), Format::from(api));
        let before: Vec<Json> = loaded.document.as_ref().unwrap().items.clone();
        let repaired = repair(&loaded, api, &target, None);
        let sent = list(api, &repaired.request);
        if repaired.changes.is_empty() {
            prop_assert_eq!(&sent, &before);
        }
        if check(api, &before, &target).is_empty() && loaded.resume_point().is_ok_and(|point| point.kind == ResumeKind::CallModel) {
            prop_assert!(repaired.changes.is_empty(), "{:#?}", repaired.changes);
        }
        // A text is gone only with something that is told.
        let touched: Vec<usize> = repaired.changes.iter().map(|change| change.at).collect();
        for (at, item) in before.iter().enumerate().filter(|(at, _)| !touched.contains(at)) {
            for text in item.get().split('<').skip(1).filter_map(|rest| rest.split_once('>')) {
                let text = format!("<{}>", text.0);
                prop_assert!(repaired.request.get().contains(&text), "{} of item {}", text, at);
            }
        }
    }

    #[test]
    fn what_is_written_for_another_can_be_sent((api, items, stops, _) in any_history(), append in any::<bool>()) {
        let file = json!({list_name(api): items, "stops": stops}).to_string();
        let loaded = read(file.as_bytes(), Format::from(api));
        for other in Api::ALL.into_iter().filter(|other| *other != api) {
            let target = target("{\"prefill\":false}");
            let append = append.then_some("the end");
            let repaired = repair(&loaded, other, &target, append);
            let sent = list(other, &repaired.request);
            let found = check(other, &sent, &target);
            prop_assert!(found.is_empty(), "{other}: {:#?}\n{}", found, repaired.request.get());
            if append.is_some() {
                prop_assert!(sent.last().is_some_and(|last| last.get().contains("the end")));
            }
        }
    }
}
