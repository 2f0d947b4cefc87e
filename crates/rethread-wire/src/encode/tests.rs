use proptest::prelude::*;
use rethread_core::{
    Assistant, Body as Said, Emit, History, Json, Message, Origin, Projection, PromptOptions,
    ToolCall, ToolSpec,
};
use rethread_testserver::{ChatServer, Rules, Violation};
use serde_json::{Value, json};

use super::*;

fn origin(api: Api) -> Origin {
    Origin::new(api.as_str(), "here", "m-1")
}

fn encoder(api: Api, target: Value) -> Encoder {
    let told = Json::encode(&target).unwrap();
    let base_url = if api == CHAT {
        "http://127.0.0.1:8080/v1"
    } else {
        ""
    };
    let target = Target::new(api, base_url, "m-1").with(api, &told).unwrap();
    Encoder::new(api, origin(api), &PromptOptions::default(), target)
}

/// Pushes messages made sound first, as a run does.
fn push(encoder: &mut Encoder, messages: Value) {
    let messages: Vec<Message> = serde_json::from_value::<Vec<Value>>(messages)
        .unwrap()
        .iter()
        .map(|message| serde_json::from_str(&message.to_string()).unwrap())
        .collect();
    for message in sound(messages) {
        encoder.push(&message);
    }
}

fn sound(messages: Vec<Message>) -> Vec<Message> {
    let mut out = Vec::new();
    let mut projection = Projection::default();
    let mut emit = |emit: Emit<'_>| match emit {
        Emit::Reset => out.clear(),
        Emit::Message(message) => out.push(message.clone()),
    };
    for record in History::from_messages(messages).records() {
        projection.push(record, &mut emit);
    }
    projection.flush(&mut emit);
    out
}

fn bytes(encoder: &mut Encoder) -> String {
    let body = encoder.body();
    let bytes = body.to_vec();
    assert_eq!(bytes.len(), body.len());
    assert!(body.chunks().iter().all(|chunk| !chunk.is_empty()));
    String::from_utf8(bytes).unwrap()
}

fn list(api: Api) -> &'static str {
    match api {
        Api::AnthropicMessages | Api::OpenAiChat => "messages",
        Api::OpenAiResponses => "input",
        Api::GeminiContents => "contents",
    }
}

/// The messages of a request, which must break no rule.
fn sent_with(api: Api, target: Value, rules: &Rules, messages: Value) -> Value {
    let mut encoder = encoder(api, target);
    push(&mut encoder, messages);
    let text = bytes(&mut encoder);
    let body: Value = serde_json::from_str(&text).expect(&text);
    let broken = check(api, &body, rules);
    assert!(broken.is_empty(), "{broken:#?}\n{body:#}");
    body[list(api)].clone()
}

fn sent(api: Api, messages: Value) -> Value {
    sent_with(api, json!({}), &Rules::default(), messages)
}

fn check(api: Api, body: &Value, rules: &Rules) -> Vec<Violation> {
    match api {
        Api::AnthropicMessages => rethread_testserver::check_anthropic(body, rules),
        Api::OpenAiChat => rethread_testserver::check_chat(body, rules),
        Api::OpenAiResponses => rethread_testserver::check_responses(body, rules),
        Api::GeminiContents => {
            // The model stands in the address.
            rethread_testserver::check_gemini(body, rules)
        }
    }
}

fn calls(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "name": "look", "arguments": {"n": 1}}))
        .collect();
    json!({"role": "assistant", "content": "", "tool_calls": calls})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "name": "look", "content": text})
}

fn native(api: Api, view: Value, native: Value) -> Value {
    let mut message = view;
    message["origin"] = json!({"api": api.as_str(), "provider": "here", "model": "m-1"});
    message["native"] = native;
    message
}

const ANTHROPIC: Api = Api::AnthropicMessages;
const CHAT: Api = Api::OpenAiChat;
const RESPONSES: Api = Api::OpenAiResponses;
const GEMINI: Api = Api::GeminiContents;

// ---------------------------------------------------------------- Anthropic

#[test]
fn results_and_what_is_said_after_them_are_one_message() {
    let got = sent(
        ANTHROPIC,
        json!([
            {"role": "user", "content": "a"},
            calls(&["x", "y"]), result("y", "Y"), result("x", "X"),
            {"role": "agent", "content": "go on"},
        ]),
    );
    assert_eq!(
        got[2],
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "x", "content": "X"},
            {"type": "tool_result", "tool_use_id": "y", "content": "Y"},
            {"type": "text", "text": "go on"},
        ]})
    );
    assert_eq!(got.as_array().unwrap().len(), 3);
}

#[test]
fn blank_text_and_empty_messages_are_not_sent() {
    let got = sent(
        ANTHROPIC,
        json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": " \n", "stop": "end_turn"},
            {"role": "user", "content": [{"type": "text", "text": " "}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": "  "},
        ]),
    );
    assert_eq!(
        got,
        json!([{"role": "user", "content": [
            {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
        ]}])
    );
}

#[test]
fn a_request_never_ends_with_a_response_the_model_cannot_go_on_with() {
    let got = sent(
        ANTHROPIC,
        json!([
            {"role": "assistant", "content": "first"},
            {"role": "assistant", "content": "second"},
        ]),
    );
    let roles: Vec<&str> = got
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    let rules = Rules {
        anthropic_prefill: true,
        ..Rules::default()
    };
    let prefill = |text: &str| {
        let messages =
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": text}]);
        sent_with(ANTHROPIC, json!({"prefill": true}), &rules, messages)
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(prefill("so"), 2);
    assert_eq!(prefill("so "), 3, "a prefill must not end with white space");
}

#[test]
fn failures_say_something() {
    let got = sent(
        ANTHROPIC,
        json!([
            {"role": "user", "content": "a"}, calls(&["x", "y"]),
            {"role": "tool", "tool_call_id": "x", "content": "", "success": false},
            {"role": "tool", "tool_call_id": "y", "content": ""},
        ]),
    );
    assert_eq!(got[2]["content"][0]["is_error"], true);
    assert!(!got[2]["content"][0]["content"].as_str().unwrap().is_empty());
    assert_eq!(
        got[2]["content"][1],
        json!({"type": "tool_result", "tool_use_id": "y"})
    );
}

#[test]
fn ids_of_others_are_rewritten_on_both_sides() {
    let messages = json!([
        {"role": "user", "content": "a"}, calls(&["call_1|fc_2"]), result("call_1|fc_2", "1"),
        calls(&["a"]), result("a", "2"), calls(&["a"]), result("a", "3"),
    ]);
    let got = sent(ANTHROPIC, messages.clone());
    for (at, id) in [(1, "call_1_fc_2"), (3, "a"), (5, "a_2")] {
        assert_eq!(got[at]["content"][0]["id"], id);
        assert_eq!(got[at + 1]["content"][0]["tool_use_id"], id);
    }
    let mistral = sent_with(
        CHAT,
        json!({"family": "mistral"}),
        &Rules::chat(ChatServer::Mistral),
        messages,
    );
    assert_ne!(
        mistral[3]["tool_calls"][0]["id"],
        mistral[5]["tool_calls"][0]["id"]
    );
}

#[test]
fn a_repeated_id_changes_nothing_else_of_a_native_response() {
    let thinking = json!({"type": "thinking", "thinking": "", "signature": "a+/="});
    let response = |id: &str| {
        native(
            ANTHROPIC,
            json!({"role": "assistant", "content": "", "tool_calls": [{"id": id, "name": "t", "arguments": {"n": 1}}]}),
            json!([thinking, {"type": "tool_use", "id": id, "name": "t", "input": {"n": 1}, "caller": null}]),
        )
    };
    let got = sent(
        ANTHROPIC,
        json!([
            {"role": "user", "content": "a"}, response("x"), result("x", "1"), response("x"), result("x", "2"),
        ]),
    );
    assert_eq!(got[3]["content"][0], thinking);
    assert_eq!(
        got[3]["content"][1],
        json!({"type": "tool_use", "id": "x_2", "name": "t", "input": {"n": 1}, "caller": null})
    );
}

#[test]
fn a_paused_response_stays_last_and_is_gone_on_with() {
    let server =
        json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}});
    let paused = native(
        ANTHROPIC,
        json!({"role": "assistant", "content": "Searching.", "stop": "pause_turn"}),
        json!([{"type": "text", "text": "Searching."}, server]),
    );
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []});
    let rest = native(
        ANTHROPIC,
        json!({"role": "assistant", "content": "Found."}),
        json!([found, {"type": "text", "text": "Found."}]),
    );
    let user = json!({"role": "user", "content": "a"});
    let target = json!({"fields": {"tools": [{"type": "web_search_1", "name": "web_search"}]}});
    let send = |messages| sent_with(ANTHROPIC, target.clone(), &Rules::default(), messages);
    let got = send(json!([user, paused]));
    assert_eq!(got[1]["content"][1], server);
    assert_eq!(got.as_array().unwrap().len(), 2);
    let got = send(json!([user, paused, rest, user]));
    assert_eq!(
        got[1]["content"].as_array().unwrap()[1..=2],
        [server.clone(), found.clone()]
    );
    // A person says something instead: the call must go, the text stays.
    let got = send(json!([user, paused, user]));
    assert_eq!(
        got[1]["content"],
        json!([{"type": "text", "text": "Searching."}])
    );
    // Only the call: nothing is left of the response.
    let mut only = paused.clone();
    only["content"] = json!("");
    only["native"] = json!([paused["native"][1]]);
    let got = send(json!([user, only, user]));
    assert_eq!(got.as_array().unwrap().len(), 1);
}

#[test]
fn text_after_results_drops_the_servers_open_call() {
    let response = native(
        ANTHROPIC,
        json!({"role": "assistant", "content": "", "tool_calls": [{"id": "x", "name": "look", "arguments": {}}]}),
        json!([
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
            {"type": "tool_use", "id": "x", "name": "look", "input": {}},
        ]),
    );
    let user = json!({"role": "user", "content": "a"});
    let target = json!({"fields": {"tools": [{"type": "web_search_1", "name": "web_search"}]}});
    let send = |messages| sent_with(ANTHROPIC, target.clone(), &Rules::default(), messages);
    let got = send(json!([user, response, result("x", "1")]));
    assert_eq!(got[1]["content"].as_array().unwrap().len(), 2);
    let got = send(json!([user, response, result("x", "1"), user]));
    assert_eq!(got[1]["content"].as_array().unwrap().len(), 1);
    assert_eq!(got[2]["content"].as_array().unwrap().len(), 2);
}

#[test]
fn reasoning_with_a_budget_is_off_for_a_turn_that_began_without() {
    let fields = json!({"fields": {"thinking": {"type": "enabled", "budget_tokens": 2000}}});
    let mut encoder = encoder(ANTHROPIC, fields);
    push(
        &mut encoder,
        json!([{"role": "user", "content": "a"}, calls(&["x"]), result("x", "1")]),
    );
    let body: Value = serde_json::from_str(&bytes(&mut encoder)).unwrap();
    assert!(check(ANTHROPIC, &body, &Rules::default()).is_empty());
    assert!(body.get("thinking").is_none());
    assert_eq!(encoder.left_out()[0].item, "thinking");
    push(
        &mut encoder,
        json!([{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]),
    );
    let body: Value = serde_json::from_str(&bytes(&mut encoder)).unwrap();
    assert_eq!(body["thinking"]["budget_tokens"], 2000);
}

#[test]
fn images_the_service_does_not_take_are_named() {
    let mut encoder = encoder(ANTHROPIC, json!({}));
    push(
        &mut encoder,
        json!([{"role": "user", "content": [
            {"type": "image", "media_type": "image/tiff", "base64": "AA=="},
            {"type": "image", "media_type": "image/png", "base64": "AA=="},
            {"type": "hologram"},
        ]}]),
    );
    let body: Value = serde_json::from_str(&bytes(&mut encoder)).unwrap();
    assert!(check(ANTHROPIC, &body, &Rules::default()).is_empty());
    assert_eq!(body["messages"][0]["content"][1]["source"]["data"], "AA==");
    let left: Vec<String> = encoder
        .left_out()
        .into_iter()
        .map(|left| left.item)
        .collect();
    assert_eq!(left, ["image", "part"]);
    assert!(encoder.left_out().is_empty());
}

// ---------------------------------------------------------------- Chat

#[test]
fn arguments_are_quoted_and_not_decoded() {
    let api = CHAT;
    let mut encoder = encoder(api, json!({}));
    let message: Message = serde_json::from_str(
        r#"{"role":"assistant","content":"\u00e9","tool_calls":[{"id":"a","name":"t","arguments":{"n": 1e2, "s":"\u00e9\n"}}]}"#,
    )
    .unwrap();
    encoder.push(&message);
    encoder.push(&serde_json::from_value(result("a", "x")).unwrap());
    let text = bytes(&mut encoder);
    assert!(
        text.contains(r#""arguments":"{\"n\": 1e2, \"s\":\"\\u00e9\\n\"}""#),
        "{text}"
    );
    assert!(text.contains(r#""content":"\u00e9""#), "{text}");
}

#[test]
fn images_of_results_come_behind_all_results_and_name_the_call() {
    let image = json!({"type": "image", "media_type": "image/png", "base64": "AA=="});
    let messages = json!([
        {"role": "user", "content": "a"}, calls(&["x", "y"]),
        {"role": "tool", "tool_call_id": "x", "content": [{"type": "text", "text": "shot"}, image]},
        {"role": "tool", "tool_call_id": "y", "content": [image]},
    ]);
    let got = sent(CHAT, messages.clone());
    assert_eq!(got[2]["content"], "shot");
    assert_eq!(got[3]["role"], "tool");
    let parts = got[4]["content"].as_array().unwrap();
    assert_eq!(got[4]["role"], "user");
    assert!(parts[0]["text"].as_str().unwrap().contains('x'));
    assert_eq!(parts[1]["image_url"]["url"], "data:image/png;base64,AA==");
    assert_eq!(parts.len(), 4);
    let got = sent_with(
        CHAT,
        json!({"family": "mistral"}),
        &Rules::chat(ChatServer::Mistral),
        messages,
    );
    assert_eq!(
        got[4]["role"], "assistant",
        "no user message right behind a tool's"
    );
}

#[test]
fn strict_roles_alternate() {
    sent_with(
        CHAT,
        json!({"family": "mistral"}),
        &Rules::chat(ChatServer::Mistral),
        json!([
            {"role": "assistant", "content": "hi"},
            {"role": "user", "content": "a"}, {"role": "user", "content": "b"},
            {"role": "system", "content": "s", "in_context": true},
            calls(&["x"]), result("x", "1"), {"role": "user", "content": "c"},
            {"role": "assistant", "content": "d"}, {"role": "assistant", "content": "e"},
        ]),
    );
}

#[test]
fn reasoning_goes_where_it_is_demanded() {
    let thinks = |message: Value, reasoning: &str| {
        let mut message = native(CHAT, message, json!(null));
        message["reasoning"] = json!(reasoning);
        message.as_object_mut().unwrap().remove("native");
        message
    };
    let messages = json!([
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"}, thinks(calls(&["x"]), "hm"), result("x", "1"),
        {"role": "assistant", "content": "d"}, {"role": "user", "content": "e"},
    ]);
    let deepseek = Rules::chat(ChatServer::DeepSeek);
    let got = sent_with(
        CHAT,
        json!({"family": "deepseek"}),
        &deepseek,
        messages.clone(),
    );
    assert_eq!(got[1].get("reasoning_content"), None);
    assert_eq!(got[3]["reasoning_content"], "hm");
    assert_eq!(got[5]["reasoning_content"], "");
    let kimi = sent_with(
        CHAT,
        json!({"family": "kimi"}),
        &Rules::chat(ChatServer::Kimi),
        messages.clone(),
    );
    assert_eq!(kimi[5].get("reasoning_content"), None);
    let openai = sent_with(
        CHAT,
        json!({"family": "openai"}),
        &Rules::chat(ChatServer::OpenAi),
        messages,
    );
    assert_eq!(openai[3].get("reasoning_content"), None);
}

#[test]
fn a_native_message_is_mended_only_where_it_must_be() {
    let view = json!({"role": "assistant", "content": "a", "tool_calls": [
        {"id": "x", "name": "t", "arguments": {}},
        {"id": "y", "name": "t", "arguments": {}, "arguments_text": "{\"n\"", "error": "cut"},
    ]});
    let details = json!([{"type": "reasoning.encrypted", "data": "a+/=", "index": 0}]);
    let own = native(
        CHAT,
        view,
        json!([{"role": "assistant", "content": "a", "reasoning_details": details, "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "t", "arguments": "null"}, "extra_content": {"k": "s+/"}},
        ]}]),
    );
    let got = sent(
        CHAT,
        json!([{"role": "user", "content": "u"}, own, result("x", "1"), result("y", "2")]),
    );
    assert_eq!(got[1]["reasoning_details"], details);
    let calls = &got[1]["tool_calls"];
    assert_eq!(calls[0]["extra_content"]["k"], "s+/");
    assert_eq!(calls[0]["function"]["arguments"], "{}");
    assert_eq!(calls[1]["id"], "y");
    assert_eq!(calls[1]["function"]["arguments"], "{}");
}

// ---------------------------------------------------------------- Responses

#[test]
fn items_go_back_in_order_with_their_outputs_behind() {
    let items = json!([
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g+/="},
        {"type": "function_call", "id": "fc_1", "call_id": "x", "name": "t", "arguments": "{}", "created_by": "them"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "y", "name": "c", "input": "free"},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "h+/="},
    ]);
    let view = json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": "x", "name": "t", "arguments": {}}, {"id": "y", "name": "c", "arguments": {"input": "free"}},
    ]});
    let got = sent(
        RESPONSES,
        json!([
            {"role": "user", "content": "u"}, native(RESPONSES, view, items.clone()), result("x", "1"), result("y", "2"),
        ]),
    );
    assert_eq!(got[1], items[0]);
    assert_eq!(got[2].get("created_by"), None);
    assert_eq!(got[3], items[2]);
    assert_eq!(got[4]["type"], "function_call_output");
    assert_eq!(
        got[5],
        json!({"type": "custom_tool_call_output", "call_id": "y", "output": "2"})
    );
    assert_eq!(
        got.as_array().unwrap().len(),
        6,
        "reasoning that led to nothing is left out"
    );
}

#[test]
fn reasoning_the_service_did_not_keep_takes_all_ids_with_it() {
    let items = json!([
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": null},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
    ]);
    let mut encoder = encoder(RESPONSES, json!({}));
    push(
        &mut encoder,
        json!([
            {"role": "user", "content": "u"},
            native(RESPONSES, json!({"role": "assistant", "content": "a"}), items),
        ]),
    );
    let text = bytes(&mut encoder);
    assert!(!text.contains("rs_1") && !text.contains("msg_1"), "{text}");
    assert_eq!(encoder.left_out().len(), 1);
}

#[test]
fn responses_take_images_in_outputs_and_keep_nothing() {
    let mut encoder = encoder(RESPONSES, json!({}));
    push(
        &mut encoder,
        json!([
            {"role": "user", "content": "u"}, calls(&["x"]),
            {"role": "tool", "tool_call_id": "x", "content": [{"type": "text", "text": "s"}, {"type": "image", "url": "https://x/y.png"}]},
            {"role": "system", "content": "s", "in_context": true},
        ]),
    );
    let body: Value = serde_json::from_str(&bytes(&mut encoder)).unwrap();
    assert!(check(RESPONSES, &body, &Rules::default()).is_empty());
    assert_eq!(
        body["input"][2]["output"][1],
        json!({"type": "input_image", "image_url": "https://x/y.png"})
    );
    assert_eq!(body["input"][3]["role"], "developer");
    assert_eq!(body["store"], false);
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
}

// ---------------------------------------------------------------- Gemini

#[test]
fn an_unsigned_call_is_excused_only_while_its_turn_goes_on() {
    let dummy = "skip_thought_signature_validator";
    let gemini_3 = json!({"family": "gemini-3"});
    let mut encoder = encoder(GEMINI, gemini_3.clone());
    push(
        &mut encoder,
        json!([
            {"role": "user", "content": "u"}, calls(&["x", "y"]), result("x", "1"), result("y", "2"),
            native(GEMINI, calls(&["z"]), json!([{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "AA+/"}])),
            result("z", "3"),
        ]),
    );
    let text = bytes(&mut encoder);
    let body: Value = serde_json::from_str(&text).unwrap();
    assert!(
        check(GEMINI, &body, &Rules::default()).is_empty(),
        "{:#?}",
        check(GEMINI, &body, &Rules::default())
    );
    assert_eq!(text.matches(dummy).count(), 1);
    assert_eq!(body["contents"][1]["parts"][0]["thoughtSignature"], dummy);
    assert_eq!(body["contents"][2]["parts"].as_array().unwrap().len(), 2);
    assert_eq!(
        body["contents"][4]["parts"][0]["functionResponse"].get("id"),
        None,
        "the call had none"
    );
    push(
        &mut encoder,
        json!([{"role": "assistant", "content": "done"}, {"role": "user", "content": "v"}]),
    );
    let text = bytes(&mut encoder);
    assert_eq!(text.matches(dummy).count(), 0);
    let body: Value = serde_json::from_str(&text).unwrap();
    assert!(check(GEMINI, &body, &Rules::default()).is_empty());
}

#[test]
fn failures_and_images_have_places_of_their_own() {
    let rules = Rules {
        gemini_signatures: false,
        ..Rules::default()
    };
    let got = sent_with(
        GEMINI,
        json!({}),
        &rules,
        json!([
            {"role": "user", "content": "u"}, calls(&["x", "y"]),
            {"role": "tool", "tool_call_id": "x", "content": "no", "success": false},
            {"role": "tool", "tool_call_id": "y", "content": [{"type": "image", "media_type": "image/png", "base64": "AA=="}]},
            {"role": "user", "content": "v"},
        ]),
    );
    let parts = &got[2]["parts"];
    assert_eq!(
        parts[0]["functionResponse"]["response"],
        json!({"error": "no"})
    );
    assert_eq!(
        parts[1]["functionResponse"]["parts"][0]["inlineData"]["data"],
        "AA=="
    );
    assert_eq!(got[3], json!({"role": "user", "parts": [{"text": "v"}]}));
}

#[test]
fn a_paused_gemini_response_is_asked_for_by_its_token() {
    let paused = |text: &str, token: &str| {
        let stop = json!({"reason": "paused", "raw": "CONTINUATION", "detail": {"continuation_token": token}});
        native(
            GEMINI,
            json!({"role": "assistant", "content": text, "stop": stop}),
            json!([{"text": text}]),
        )
    };
    let rest = native(
        GEMINI,
        json!({"role": "assistant", "content": "c"}),
        json!([{"text": "c"}]),
    );
    let mut encoder = encoder(GEMINI, json!({}));
    push(
        &mut encoder,
        json!([{"role": "user", "content": "u"}, paused("a", "t1"), paused("b", "t2")]),
    );
    let body: Value = serde_json::from_str(&bytes(&mut encoder)).unwrap();
    assert_eq!(body["continuationToken"], "t2");
    assert_eq!(body["contents"].as_array().unwrap().len(), 1);
    assert!(check(GEMINI, &body, &Rules::default()).is_empty());
    push(
        &mut encoder,
        json!([rest, {"role": "user", "content": "v"}]),
    );
    let body: Value = serde_json::from_str(&bytes(&mut encoder)).unwrap();
    assert_eq!(body.get("continuationToken"), None);
    assert_eq!(
        body["contents"][1]["parts"],
        json!([{"text": "a"}, {"text": "b"}, {"text": "c"}])
    );
}

// ---------------------------------------------------------------- all

#[test]
fn what_is_fixed_stands_around_the_messages() {
    let schema = Json::parse(r#"{"type":"object","properties":{"p":{"type":"string"}}}"#).unwrap();
    let tools = [
        ToolSpec::new("look", "Looks.", schema.clone()),
        ToolSpec::new("do", "", schema.clone()),
    ];
    let mut options = PromptOptions::new(Some("Be brief.".into()), tools.into());
    options.max_output = Some(99);
    options.response_schema = Some(schema);
    for api in Api::ALL {
        let told = match api {
            Api::GeminiContents => {
                json!({"fields": {"generationConfig": {"temperature": 1, "maxOutputTokens": 7}}})
            }
            _ => json!({"fields": {"temperature": 1}}),
        };
        let target = Target::new(api, "", "m-1")
            .with(api, &Json::encode(&told).unwrap())
            .unwrap();
        let mut encoder = Encoder::new(api, origin(api), &options, target);
        encoder.push(&Message::user("u"));
        let text = bytes(&mut encoder);
        let body: Value = serde_json::from_str(&text).expect(&text);
        let broken = check(api, &body, &Rules::default());
        assert!(broken.is_empty(), "{broken:#?}\n{body:#}");
        assert!(text.contains("Be brief.") && text.contains("Looks."));
        let limit = if api == GEMINI {
            "\"maxOutputTokens\":7"
        } else {
            ":99"
        };
        assert!(text.contains(limit), "{text}");
        assert!(text.contains("\"temperature\":1"));
    }
}

#[test]
fn half_a_surrogate_pair_is_never_sent() {
    for api in Api::ALL {
        let mut encoder = encoder(api, json!({}));
        for line in [
            r#"{"role":"user","content":"a\ud83d"}"#,
            r#"{"role":"assistant","content":"\udead","tool_calls":[{"id":"x","name":"t","arguments":{"k":"\ud83d"}}]}"#,
            r#"{"role":"tool","tool_call_id":"x","content":"ok \ud83d\ude00 \u0000"}"#,
        ] {
            encoder.push(&serde_json::from_str(line).unwrap());
        }
        let body: Value = serde_json::from_str(&bytes(&mut encoder)).unwrap();
        assert!(body.to_string().contains("😀"), "{body}");
    }
}

#[test]
fn other_origins_and_changed_messages_are_told_and_their_items_stay_behind() {
    for api in Api::ALL {
        let mut encoder = encoder(api, json!({}));
        let mut message = Assistant::new("visible");
        message.reasoning = Some("secret".into());
        message.native = vec![Json::parse(r#"{"type":"opaque","signature":"s+/="}"#).unwrap()];
        message.origin = Some(Origin::new("x", "y", "z"));
        encoder.push(&message.clone().into());
        message.origin = Some(origin(api));
        message.digest = Some(1);
        encoder.push(&message.into());
        let text = bytes(&mut encoder);
        assert!(text.contains("visible") && !text.contains("secret") && !text.contains("s+/="));
        let left = encoder.left_out();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left[0].reason.contains("y/z"));
    }
}

#[test]
fn messages_out_of_context_are_not_sent() {
    for api in Api::ALL {
        let mut encoder = encoder(api, json!({}));
        encoder.push(&Message::system("hidden"));
        encoder.push(&Message::user("u"));
        assert!(!bytes(&mut encoder).contains("hidden"));
    }
}

/// A conversation in which anything may happen.
fn conversations(api: Api) -> impl Strategy<Value = Vec<Message>> {
    let text = prop::sample::select(vec![
        "",
        " \n",
        "a",
        "é\"\\",
        "two words ",
        "\u{0}😀",
        "Continue.",
    ]);
    let id = prop::sample::select(vec![
        "a",
        "b",
        "toolu_01",
        "call_1|fc_2",
        "functions.x:3",
        "",
        "call_rt_0123456789abcdef",
        "abcdefgh1",
        "0123456789012345678901234567890123456789012345678901234567890123456789",
    ]);
    let image = prop::sample::select(vec![
        json!({"type": "image", "url": "https://x/y.png"}),
        json!({"type": "image", "media_type": "image/png", "base64": "AA=="}),
        json!({"type": "image", "media_type": "image/tiff", "base64": ""}),
        json!({"type": "odd"}),
    ]);
    let content = prop_oneof![
        3 => text.clone().prop_map(|text| json!(text)),
        1 => prop::collection::vec(
            prop_oneof![text.clone().prop_map(|text| json!({"type": "text", "text": text})), image],
            0..3,
        )
        .prop_map(Value::from),
    ];
    let call = (id.clone(), prop::sample::select(vec!["look", "do.it", ""]), 0..4_u8).prop_map(
        |(id, name, kind)| match kind {
            0 => json!({"id": id, "name": name, "arguments": {}, "arguments_text": "{\"a\"", "error": "cut"}),
            1 => json!({"id": id, "name": name, "arguments": {"k": "\n"}}),
            _ => json!({"id": id, "name": name, "arguments": {}}),
        },
    );
    let stop = prop::sample::select(vec![
        None,
        None,
        None,
        Some("max_tokens"),
        Some("interrupted"),
        Some("pause_turn"),
        Some("refusal"),
    ]);
    let said = (
        prop::sample::select(vec!["user", "agent", "system", "summary"]),
        content.clone(),
    )
        .prop_map(|(role, content)| json!({"role": role, "content": content, "in_context": true}));
    let answer = (
        text,
        prop::collection::vec(call, 0..3),
        stop,
        0..3_u8,
        any::<bool>(),
    )
        .prop_map(move |(text, calls, stop, whose, reasons)| {
            let mut message =
                json!({"role": "assistant", "content": text, "tool_calls": calls, "stop": stop});
            if reasons {
                message["reasoning"] = json!("hm");
            }
            let mut read: Assistant = match serde_json::from_str::<Message>(&message.to_string())
                .unwrap()
                .body
            {
                Said::Assistant(read) => read,
                _ => unreachable!(),
            };
            if read.stop_reason().withholds_calls() {
                read.tool_calls.clear();
            }
            read.origin = match whose {
                0 => None,
                1 => Some(Origin::new("other", "there", "m-2")),
                _ => Some(origin(api)),
            };
            if whose > 0 {
                read.native = items_of(api, &read);
            }
            if let Some(stop) = &mut read.stop
                && stop.reason == StopReason::Paused
                && reasons
            {
                stop.detail = Some(Json::parse(r#"{"continuation_token":"t+/="}"#).unwrap());
            }
            read.digest = Some(read.view_digest());
            Message::from(read)
        });
    let answer = answer.prop_map(|message| serde_json::to_string(&message).unwrap());
    let result = (id, content, any::<bool>()).prop_map(
        |(id, content, success)| json!({"role": "tool", "tool_call_id": id, "name": "look", "content": content, "success": success}),
    );
    prop::collection::vec(
        prop_oneof![
            2 => said.prop_map(|message| message.to_string()),
            3 => answer,
            3 => result.prop_map(|message| message.to_string()),
        ],
        0..12,
    )
    .prop_map(|lines| {
        let read = |line: &String| serde_json::from_str::<Message>(line).unwrap();
        // Every signature is given out once.
        let mut messages: Vec<Message> = lines.iter().map(read).collect();
        for (at, message) in messages.iter_mut().enumerate() {
            if let Said::Assistant(response) = &mut message.body {
                for item in &mut response.native {
                    let unique = item.get().replace("SIGN", &format!("S{at:03}"));
                    *item = Json::parse(&unique).unwrap();
                }
            }
        }
        sound(messages)
    })
}

/// What a provider would have sent for a response, with something opaque in it.
fn items_of(api: Api, view: &Assistant) -> Vec<Json> {
    let text = view.content.to_text();
    let calls: Vec<&ToolCall> = view
        .tool_calls
        .iter()
        .filter(|call| call.is_decoded())
        .collect();
    let arguments = |call: &ToolCall| serde_json::from_str::<Value>(call.arguments.get()).unwrap();
    let mut items = Vec::new();
    match api {
        Api::AnthropicMessages => {
            items.push(json!({"type": "thinking", "thinking": "", "signature": "SIGN+/="}));
            if !text.trim().is_empty() {
                items.push(json!({"type": "text", "text": text, "citations": null}));
            }
            if view.stop_reason() == StopReason::Paused {
                items.push(json!({"type": "server_tool_use", "id": "srv_SIGN", "name": "web_search", "input": {}}));
            }
            items.extend(calls.iter().map(|call| {
                json!({"type": "tool_use", "id": call.id, "name": "look", "input": arguments(call)})
            }));
        }
        Api::OpenAiChat => {
            if text.is_empty() && calls.is_empty() {
                return Vec::new();
            }
            let mut message = json!({"role": "assistant", "content": text, "reasoning_details": [{"type": "reasoning.encrypted", "data": "SIGN+/="}]});
            if !calls.is_empty() {
                message["tool_calls"] = calls
                    .iter()
                    .map(|call| json!({"id": call.id, "type": "function", "function": {"name": "look", "arguments": call.arguments.get()}}))
                    .collect();
            }
            items.push(message);
        }
        Api::OpenAiResponses => {
            items.push(json!({"type": "reasoning", "id": "rs_SIGN", "summary": [], "encrypted_content": "SIGN+/="}));
            if !text.is_empty() {
                items.push(json!({"type": "message", "id": "msg_SIGN", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}));
            }
            for (at, call) in calls.iter().enumerate() {
                items.push(json!({"type": "function_call", "id": format!("fc_SIGN{at}"), "call_id": call.id, "name": "look", "arguments": call.arguments.get(), "status": "completed"}));
            }
        }
        Api::GeminiContents => {
            if !text.is_empty() {
                items.push(json!({"text": text, "thoughtSignature": "SIGNAA=="}));
            }
            for (at, call) in calls.iter().enumerate() {
                let mut part =
                    json!({"functionCall": {"name": call.name, "args": arguments(call)}});
                if at == 0 {
                    part["thoughtSignature"] = json!("SIGNBB==");
                }
                items.push(part);
            }
        }
    }
    items
        .iter()
        .map(|item| Json::encode(item).unwrap())
        .collect()
}

fn targets(api: Api) -> Vec<(Value, Rules)> {
    let strict = Rules::default();
    match api {
        Api::AnthropicMessages => {
            let tools = json!([{"type": "web_search_1", "name": "web_search"}]);
            let thinking = json!({"type": "enabled", "budget_tokens": 1024});
            let prefill = Rules {
                anthropic_prefill: true,
                ..strict.clone()
            };
            vec![
                (json!({"fields": {"tools": tools}}), strict.clone()),
                (
                    json!({"prefill": true, "fields": {"tools": tools}}),
                    prefill,
                ),
                (
                    json!({"fields": {"tools": tools, "thinking": thinking}}),
                    strict,
                ),
            ]
        }
        Api::OpenAiChat => vec![
            (json!({}), strict),
            (
                json!({"family": "deepseek"}),
                Rules::chat(ChatServer::DeepSeek),
            ),
            (json!({"family": "kimi"}), Rules::chat(ChatServer::Kimi)),
            (
                json!({"family": "mistral"}),
                Rules::chat(ChatServer::Mistral),
            ),
            (json!({"prefill": false}), Rules::chat(ChatServer::LlamaCpp)),
            (json!({"family": "openai"}), Rules::chat(ChatServer::OpenAi)),
        ],
        Api::OpenAiResponses => vec![
            (json!({}), strict.clone()),
            (json!({"prefill": false}), strict),
        ],
        Api::GeminiContents => vec![
            (json!({"family": "gemini-3"}), strict.clone()),
            (
                json!({"family": "gemini-2.5"}),
                Rules {
                    gemini_signatures: false,
                    ..strict
                },
            ),
        ],
    }
}

fn any_api() -> impl Strategy<Value = (Api, Vec<Message>)> {
    prop::sample::select(Api::ALL.to_vec())
        .prop_flat_map(|api| conversations(api).prop_map(move |messages| (api, messages)))
}

proptest! {
    #[test]
    fn every_request_keeps_the_rules((api, messages) in any_api()) {
        for (told, rules) in targets(api) {
            let mut live = encoder(api, told.clone());
            for message in &messages {
                live.push(message);
                // As often as it is asked, the request of a conversation is the same.
                let _ = live.body();
            }
            let text = bytes(&mut live);
            let body: Value = match serde_json::from_str(&text) {
                Ok(body) => body,
                Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}"))),
            };
            let broken = check(api, &body, &rules);
            prop_assert!(broken.is_empty(), "{} with {}: {:#?}\n{:#}", api, told, broken, body);
            let mut resumed = encoder(api, told);
            messages.iter().for_each(|message| resumed.push(message));
            prop_assert_eq!(bytes(&mut resumed), text);
        }
    }

    #[test]
    fn even_an_unsound_conversation_gives_json((api, messages) in any_api()) {
        for (told, _) in targets(api) {
            let mut encoder = encoder(api, told);
            for message in messages.iter().rev().chain(&messages) {
                encoder.push(message);
                let text = bytes(&mut encoder);
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
            }
        }
    }

    #[test]
    fn opaque_items_come_back_byte_for_byte_or_not_at_all((api, messages) in any_api()) {
        let mut encoder = encoder(api, json!({}));
        messages.iter().for_each(|message| encoder.push(message));
        let text = bytes(&mut encoder);
        for response in messages.iter().filter_map(Message::as_assistant) {
            let signed = response.native.iter().filter(|item| item.get().contains("AA==") || item.get().contains("+/="));
            for item in signed {
                let ours = response.origin == Some(origin(api));
                prop_assert!(ours || !text.contains(item.get()), "another's item was sent: {item:?}");
            }
        }
        let sent: Vec<&Assistant> = messages.iter().filter_map(Message::as_assistant).collect();
        for response in sent.iter().filter(|r| r.origin == Some(origin(api)) && r.tool_calls.is_empty()) {
            let is_lone = |item: &&Json| response.native.len() == 1 && item.get().contains("\"reasoning\"");
            // In a chat message nothing of which can be seen, nothing is sent.
            let blank = api == CHAT && response.content.is_blank();
            let is_server_call = |item: &&Json| item.get().contains("srv_");
            let items = response.native.iter().filter(|item| !is_server_call(item));
            let asked_again = api == GEMINI && text.contains("continuationToken");
            for item in items.filter(|item| !blank && !is_lone(item) && !asked_again) {
                prop_assert!(text.contains(item.get()), "{:?} is not in {}", item, text);
            }
        }
    }
}
