//! What holds for all four interfaces, and what is special to each.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use proptest::prelude::*;
use rethread_core::{Assistant, ModelError, ModelErrorKind, ModelEvent, Origin, StopReason};
use serde_json::Value;

use crate::{Api, Decoder, decode_body};

/// An event stream of JSON documents.
fn sse(events: &[&str]) -> String {
    events
        .iter()
        .map(|json| format!("data: {json}\n\n"))
        .collect()
}

fn decode(api: Api, body: &str) -> Result<Assistant, ModelError> {
    decode_body(api, Origin::new(api.as_str(), "test", "m"), body.as_bytes())
}

fn message(api: Api, events: &[&str]) -> Assistant {
    decode(api, &sse(events)).unwrap()
}

fn native(message: &Assistant) -> Value {
    serde_json::to_value(&message.native).unwrap()
}

fn content(message: &Assistant) -> String {
    message.content.to_text()
}

/// The names and arguments of the calls that may run.
fn runnable(message: &Assistant) -> Vec<(&str, &str)> {
    let runs = message.stop_reason().runs_calls();
    let calls = message.tool_calls.iter();
    calls
        .filter(|call| runs && call.is_decoded())
        .map(|call| (call.name.as_str(), call.arguments.get()))
        .collect()
}

fn withheld(message: &Assistant) -> Value {
    let detail = message.stop.as_ref().unwrap().detail.as_ref().unwrap();
    detail.decode::<Value>().unwrap()["withheld_tool_calls"].clone()
}

/// A response of each interface with reasoning, text, two calls, escapes and characters that are easy
/// to cut.
fn bodies() -> Vec<(Api, String)> {
    let anthropic = sse(&[
        r#"{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":3}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm ð"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s+/="}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a\n\ud83d"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"\ude00 ß"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"read","input":{}}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"p\":\"\\ud8"}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"3d\\ude00\"}"}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t2","name":"list","input":{}}}"#,
        r#"{"type":"content_block_stop","index":3}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    let chat = sse(&[
        r#"{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"reasoning_content":"hm ð"}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"content":"a\n\ud83d"}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"content":"\ude00 ß"}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"read","arguments":""}}]}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\":\"\\ud8"}}]}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"3d\\ude00\"}"}}]}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"t2","type":"function","function":{"name":"list","arguments":"{}"}}]}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        r#"{"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}"#,
        "[DONE]",
    ]);
    let responses = sse(&[
        r#"{"type":"response.created","sequence_number":0,"response":{"id":"r1","status":"in_progress"}}"#,
        r#"{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"rs","type":"reasoning","summary":[]}}"#,
        r#"{"type":"response.reasoning_summary_text.delta","sequence_number":2,"output_index":0,"summary_index":0,"delta":"hm ð"}"#,
        r#"{"type":"response.output_item.done","sequence_number":3,"output_index":0,"item":{"id":"rs","type":"reasoning","summary":[{"type":"summary_text","text":"hm ð"}]}}"#,
        r#"{"type":"response.output_item.added","sequence_number":4,"output_index":1,"item":{"id":"m","type":"message","content":[]}}"#,
        r#"{"type":"response.output_text.delta","sequence_number":5,"output_index":1,"delta":"a\n\ud83d"}"#,
        r#"{"type":"response.output_text.delta","sequence_number":6,"output_index":1,"delta":"\ude00 ß"}"#,
        r#"{"type":"response.output_item.done","sequence_number":7,"output_index":1,"item":{"id":"m","type":"message","content":[{"type":"output_text","text":"a\n\ud83d\ude00 ß"}]}}"#,
        r#"{"type":"response.output_item.added","sequence_number":8,"output_index":2,"item":{"id":"f1","type":"function_call","call_id":"t1","name":"read","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","sequence_number":9,"output_index":2,"delta":"{\"p\":\"\\ud8"}"#,
        r#"{"type":"response.function_call_arguments.delta","sequence_number":10,"output_index":2,"delta":"3d\\ude00\"}"}"#,
        r#"{"type":"response.output_item.done","sequence_number":11,"output_index":2,"item":{"id":"f1","type":"function_call","call_id":"t1","name":"read","arguments":"{\"p\":\"\\ud83d\\ude00\"}"}}"#,
        r#"{"type":"response.output_item.done","sequence_number":12,"output_index":3,"item":{"id":"f2","type":"function_call","call_id":"t2","name":"list","arguments":"{}"}}"#,
        r#"{"type":"response.completed","sequence_number":13,"response":{"id":"r1","status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":9}}}"#,
    ]);
    let gemini = sse(&[
        r#"{"responseId":"g1","candidates":[{"content":{"parts":[{"text":"hm ð","thought":true}]}}]}"#,
        r#"{"responseId":"g1","candidates":[{"content":{"parts":[{"text":"a\n\ud83d"}]}}]}"#,
        r#"{"responseId":"g1","candidates":[{"content":{"parts":[{"text":"\ude00 ß"}]}}]}"#,
        r#"{"responseId":"g1","candidates":[{"content":{"parts":[{"functionCall":{"id":"t1","name":"read","args":{"p":"\ud83d\ude00"}},"thoughtSignature":"s+/="},{"functionCall":{"id":"t2","name":"list","args":{}}}]}}]}"#,
        r#"{"responseId":"g1","candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":9}}"#,
    ]);
    vec![
        (Api::AnthropicMessages, anthropic),
        (Api::OpenAiChat, chat),
        (Api::OpenAiResponses, responses),
        (Api::GeminiContents, gemini),
    ]
}

#[test]
fn the_four_say_the_same() {
    for (api, body) in bodies() {
        let message = decode(api, &body).unwrap();
        assert_eq!(content(&message), "a\n😀 ß", "{api}");
        assert_eq!(message.reasoning.as_ref().unwrap(), &"hm ð", "{api}");
        let calls: Vec<_> = message
            .tool_calls
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.get()))
            .collect();
        let want = [
            ("t1", "read", r#"{"p":"\ud83d\ude00"}"#),
            ("t2", "list", "{}"),
        ];
        assert_eq!(calls, want, "{api}");
        assert_eq!(message.stop_reason(), StopReason::ToolUse, "{api}");
        let usage = message.usage.clone().unwrap();
        assert_eq!((usage.input, usage.output), (Some(3), Some(9)), "{api}");
        assert!(message.native_holds(), "{api}");
        assert_eq!(message.origin.as_ref().unwrap().api, api.as_str());
        if api == Api::AnthropicMessages || api == Api::GeminiContents {
            assert!(format!("{:?}", message.native).contains("s+/="), "{api}");
        }
    }
}

/// Decodes a body in pieces; gives what was shown besides the message.
fn in_pieces<'a>(
    api: Api,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<(Assistant, Shown), ModelError> {
    let mut decoder = Decoder::new(api, Origin::new(api.as_str(), "test", "m"));
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut events)?;
    }
    decoder.finish(&mut events)?;
    let Some(ModelEvent::Done(message)) = events.pop() else {
        panic!("a message is the last event");
    };
    Ok((*message, Shown::of(&events)))
}

/// What the events before the last one said.
#[derive(Debug, Default, PartialEq)]
struct Shown {
    text: String,
    reasoning: String,
    calls: Vec<(String, String, String)>,
}

impl Shown {
    fn of(events: &[ModelEvent]) -> Self {
        let mut shown = Self::default();
        for event in events {
            match event {
                ModelEvent::Text(text) => shown.text.push_str(text),
                ModelEvent::Reasoning(text) => shown.reasoning.push_str(text),
                ModelEvent::ToolCall { index, id, name } => {
                    assert_eq!(*index, shown.calls.len());
                    shown.calls.push((id.clone(), name.clone(), String::new()));
                }
                ModelEvent::ToolCallDelta { index, text } => shown.calls[*index].2.push_str(text),
                ModelEvent::Handle(_) => {}
                other => panic!("{other:?} before the end"),
            }
        }
        shown
    }
}

#[test]
fn what_is_shown_is_what_is_kept() {
    for (api, body) in bodies() {
        let (message, shown) = in_pieces(api, [body.as_bytes()].into_iter()).unwrap();
        assert_eq!(shown.text, content(&message), "{api}");
        assert_eq!(
            shown.reasoning,
            message.reasoning.as_ref().unwrap().to_str(),
            "{api}"
        );
        let calls: Vec<_> = message
            .tool_calls
            .iter()
            .map(|call| (call.id.clone(), call.name.clone()))
            .collect();
        let names: Vec<_> = shown
            .calls
            .iter()
            .map(|call| (call.0.clone(), call.1.clone()))
            .collect();
        assert_eq!(names, calls, "{api}");
        assert_eq!(
            shown.calls[0].2,
            message.tool_calls[0].arguments.get(),
            "{api}"
        );
    }
}

/// A body that ends anywhere is a failure, an interrupted message without calls, or, once its end mark
/// came, all of the message.
fn check_cut(api: Api, body: &[u8], cut: usize, whole: &Assistant) {
    let part = body.get(..cut).unwrap();
    let broken = |result: Result<Assistant, ModelError>| match result {
        Err(error) => {
            assert_eq!(
                error.kind,
                ModelErrorKind::Interrupted,
                "{api} {cut} {error}"
            );
            assert!(error.is_retryable(), "{api} {cut}");
        }
        Ok(message) if message.stop_reason() == StopReason::Interrupted => {
            assert!(message.tool_calls.is_empty(), "{api} {cut}");
            let native = format!("{:?}", message.native);
            for call in [
                "\"tool_use\"",
                "\"function_call\"",
                "\"tool_calls\":",
                "\"functionCall\":",
            ] {
                assert!(!native.contains(call), "{api} {cut} {native}");
            }
        }
        Ok(message) => {
            assert_eq!(message.content, whole.content, "{api} {cut}");
            assert_eq!(message.tool_calls, whole.tool_calls, "{api} {cut}");
            assert_eq!(message.native, whole.native, "{api} {cut}");
        }
    };
    broken(decode_body(api, Origin::new("a", "p", "m"), part));
    let mut decoder = Decoder::new(api, Origin::new("a", "p", "m"));
    let mut events = Vec::new();
    let result = decoder
        .push(part, &mut events)
        .and_then(|()| decoder.fail("connection reset", &mut events));
    broken(result.map(|()| match events.pop() {
        Some(ModelEvent::Done(message)) => *message,
        other => panic!("{other:?} is no message"),
    }));
}

#[test]
fn no_cut_gives_a_call_that_may_run() {
    for (api, body) in bodies() {
        let whole = decode(api, &body).unwrap();
        for cut in 0..=body.len() {
            check_cut(api, body.as_bytes(), cut, &whole);
        }
    }
}

#[test]
fn a_broken_line_ends_the_response_there() {
    for (api, body) in bodies() {
        let end = body.trim_end().rfind("\n\n").unwrap();
        let events: Vec<&str> = body[..end].split_inclusive("\n\n").collect();
        for at in 0..events.len() {
            let broken = "data: {\"x\":\n\n";
            let cut: String = events[..at].concat() + broken + &events[at..].concat();
            let whole = decode(api, &body).unwrap();
            match decode(api, &cut) {
                Err(error) => assert_eq!(error.kind, ModelErrorKind::Interrupted),
                Ok(message) if message.stop_reason() == StopReason::Interrupted => {
                    assert!(runnable(&message).is_empty());
                }
                Ok(message) => assert_eq!(message.tool_calls, whole.tool_calls, "{api} {at}"),
            }
        }
    }
}

#[test]
fn what_comes_besides_a_response_says_what_it_is() {
    for api in Api::ALL {
        for (body, kind) in [
            ("", ModelErrorKind::Interrupted),
            ("data: [DONE]\n\n", ModelErrorKind::Interrupted),
            (
                "<html><title>Sign in</title></html>",
                ModelErrorKind::NotAnApi,
            ),
            ("{\"status\":\"ok\"}", ModelErrorKind::NotAnApi),
            ("upstream connect error", ModelErrorKind::NotAnApi),
            ("{\"candidates\":", ModelErrorKind::Interrupted),
            (
                "{\"error\":{\"message\":\"m\",\"code\":503}}",
                ModelErrorKind::Server,
            ),
            (
                "data: {\"error\":{\"message\":\"m\",\"code\":429}}\n\n",
                ModelErrorKind::RateLimited,
            ),
            (
                "error: {\"message\":\"m\",\"code\":500}\n\n",
                ModelErrorKind::Server,
            ),
        ] {
            let error = decode(api, body).unwrap_err();
            assert_eq!(error.kind, kind, "{api} {body:?} {error}");
            assert!(!error.message.is_empty());
        }
        let error = decode(api, "<html><title>Sign in</title></html>").unwrap_err();
        assert!(error.message.contains("Sign in"), "{error}");
    }
}

#[test]
fn an_error_after_output_is_an_interrupted_message() {
    for (api, body) in bodies() {
        let begin = body.find("\n\ndata: ").unwrap();
        // All but the event that ends it.
        let events: Vec<&str> = body.split_inclusive("\n\n").collect();
        let open = events.len() - if api == Api::GeminiContents { 1 } else { 3 };
        for error in [
            "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n",
            "{\n  \"error\": {\n    \"code\": 503,\n    \"message\": \"busy\"\n  }\n}\n",
        ] {
            let message = decode(api, &(events[..open].concat() + error)).unwrap();
            let stop = message.stop.clone().unwrap();
            assert_eq!(stop.reason, StopReason::Interrupted, "{api}");
            assert_eq!(stop.message.as_deref(), Some("busy"), "{api}");
            assert_eq!(withheld(&message)[0], "read", "{api}");
            assert!(message.tool_calls.is_empty());
        }
        let full = "data: {\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"m\"}}\n\n";
        let message = decode(api, &(events[..open].concat() + full)).unwrap();
        assert_eq!(message.stop_reason(), StopReason::ContextFull, "{api}");
        assert!(begin > 0);
    }
}

#[test]
fn a_response_is_bounded() {
    let mut decoder = Decoder::new(Api::OpenAiChat, Origin::new("a", "p", "m"));
    let mut events = Vec::new();
    let comment = format!(":{}\n", "x".repeat(1 << 20));
    let result = (0..600).try_for_each(|_| decoder.push(comment.as_bytes(), &mut events));
    assert!(result.unwrap_err().message.contains("longer than"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_do_not_change_the_message(sizes in prop::collection::vec(1..40_usize, 1..8)) {
        for (api, body) in bodies() {
            for body in [body.clone(), body.replace('\n', "\r\n")] {
                let whole = in_pieces(api, [body.as_bytes()].into_iter()).unwrap();
                let mut rest = body.as_bytes();
                let mut sizes = sizes.iter().cycle();
                let pieces = std::iter::from_fn(|| {
                    let (now, later) = rest.split_at((*sizes.next()?).min(rest.len()));
                    rest = later;
                    (!now.is_empty()).then_some(now)
                });
                prop_assert_eq!(in_pieces(api, pieces).unwrap(), whole);
            }
        }
    }

    /// Events in any order, doubled or missing: never a panic, and a message that says of itself
    /// whether its calls may run.
    #[test]
    fn no_order_of_events_breaks_anything(order in prop::collection::vec(0..20_usize, 0..30)) {
        for (api, body) in bodies() {
            let events: Vec<&str> = body.split_inclusive("\n\n").collect();
            let body: String = order.iter().map(|at| events[at % events.len()]).collect();
            if let Ok(message) = decode(api, &body) {
                let _ = runnable(&message);
                prop_assert!(message.native.is_empty() || message.native_holds());
            }
        }
    }

    #[test]
    fn no_bytes_break_anything(
        body in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
    ) {
        for (api, good) in bodies() {
            let _ = decode_body(api, Origin::new("a", "p", "m"), &body);
            let mut mixed = good.into_bytes();
            let at = at.index(mixed.len());
            mixed.splice(at..(at + body.len() / 8).min(mixed.len()), body.iter().copied().take(8));
            let _ = decode_body(api, Origin::new("a", "p", "m"), &mixed);
        }
    }

    /// Values of any kind in any place of a sound event.
    #[test]
    fn no_kind_of_value_breaks_anything(pick in any::<prop::sample::Index>(), value in 0..8_usize) {
        let values = ["null", "0", "-1e99", "\"\"", "[]", "{}", "[[{}]]", "true"];
        for (api, body) in bodies() {
            let places: Vec<usize> = body.match_indices(':').map(|(at, _)| at + 1).collect();
            let at = places[pick.index(places.len())];
            let end = body[at..].find([',', '}', '\n']).map_or(body.len(), |end| at + end);
            let mixed = format!("{}{}{}", &body[..at], values[value], &body[end..]);
            let _ = decode(api, &mixed);
        }
    }
}

/// Every recorded body there is reads the same however it is cut. The folder is named from outside.
#[test]
fn recorded_bodies_do_not_depend_on_pieces() {
    let Some(folder) = std::env::var_os("RETHREAD_SHARED") else {
        return;
    };
    let folder = std::path::Path::new(&folder).join("recordings");
    let mut read = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let Ok(record) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let api = match record["api"].as_str() {
                Some("anthropic-messages") => Api::AnthropicMessages,
                Some("openai-chat") => Api::OpenAiChat,
                Some("openai-responses") => Api::OpenAiResponses,
                Some("gemini-generate" | "gemini-stream") => Api::GeminiContents,
                _ => continue,
            };
            let body = record["response"]["body"].as_str().unwrap().as_bytes();
            let whole = in_pieces(api, [body].into_iter()).ok();
            let pieces = in_pieces(api, body.chunks(7)).ok();
            assert_eq!(whole, pieces, "{}", record["id"]);
            if let Some((message, shown)) = whole {
                for cut in (0..body.len()).step_by(body.len() / 9 + 1) {
                    check_cut(api, body, cut, &message);
                }
                assert_eq!(shown.text, content(&message), "{}", record["id"]);
                let reasoning = message.reasoning.map(|text| text.to_str().into_owned());
                assert_eq!(
                    shown.reasoning,
                    reasoning.unwrap_or_default(),
                    "{}",
                    record["id"]
                );
                read += 1;
            }
        }
    }
    assert!(read > 0);
}
