//! The server over a raw socket: streams, refusals, faults, memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use rethread_testserver::{ChatServer, Fault, Reply, Rules, Script, Server, Stop, Verdict};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

const ANTHROPIC: &str = "/v1/messages";
const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const GEMINI: &str = "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse";

struct Answer {
    status: u16,
    head: String,
    body: String,
    /// The body ended as announced.
    clean: bool,
}

impl Answer {
    fn events(&self) -> Vec<Value> {
        let data = self
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    fn message(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        body["error"]["message"].as_str().unwrap().to_owned()
    }
}

fn connect(server: &Server) -> TcpStream {
    let socket = TcpStream::connect(server.address()).unwrap();
    let limit = std::time::Duration::from_secs(20);
    socket.set_read_timeout(Some(limit)).unwrap();
    socket
}

fn send_bytes(server: &Server, path: &str, body: &[u8]) -> Answer {
    let mut socket = connect(server);
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nx-api-key: k\r\nAuthorization: Bearer k\r\nx-goog-api-key: k\r\nanthropic-version: 2023-06-01\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).unwrap();
    socket.write_all(body).unwrap();
    let mut bytes = Vec::new();
    // A reset also ends it.
    let _ = socket.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let Some((head, rest)) = text.split_once("\r\n\r\n") else {
        return Answer {
            status: 0,
            head: text,
            body: String::new(),
            clean: false,
        };
    };
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let (body, clean) = if head.contains("transfer-encoding: chunked") {
        unchunk(&bytes[head.len() + 4..])
    } else {
        (rest.to_owned(), true)
    };
    Answer {
        status,
        head: head.to_owned(),
        body,
        clean,
    }
}

fn unchunk(mut bytes: &[u8]) -> (String, bool) {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return (String::from_utf8(body).unwrap(), true);
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 4 + size..];
    }
    (String::from_utf8_lossy(&body).into_owned(), false)
}

fn send(server: &Server, path: &str, body: &Value) -> Answer {
    send_bytes(server, path, body.to_string().as_bytes())
}

fn start(replies: impl IntoIterator<Item = Reply>) -> Server {
    Server::start(Script::new(replies)).unwrap()
}

fn request(path: &str) -> Value {
    match path {
        ANTHROPIC => {
            json!({"model": "claude-x", "max_tokens": 10, "stream": true, "messages": [{"role": "user", "content": "q"}]})
        }
        CHAT => {
            json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": "q"}]})
        }
        RESPONSES => {
            json!({"model": "m", "stream": true, "store": false, "input": [{"role": "user", "content": "q"}]})
        }
        _ => json!({"contents": [{"role": "user", "parts": [{"text": "q"}]}]}),
    }
}

fn full() -> Reply {
    Reply::text("Looking around.")
        .reasoning("Need the weather.")
        .call("call_1", "weather", r#"{"city": "Pa\u0072is", "n": 1e2}"#)
}

fn joined(events: &[Value], pick: impl Fn(&Value) -> Option<&str>) -> String {
    events.iter().filter_map(pick).collect()
}

#[test]
fn anthropic_stream_and_round_trip() {
    let server = start([full(), Reply::text("Sunny.")]);
    let mut body = request(ANTHROPIC);
    let answer = send(&server, ANTHROPIC, &body);
    assert_eq!((answer.status, answer.clean), (200, true));
    let events = answer.events();
    let types: Vec<_> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(
        (types[0], *types.last().unwrap()),
        ("message_start", "message_stop")
    );
    let delta = |name: &str| joined(&events, |e| e["delta"][name].as_str());
    let (thinking, signature, args) =
        (delta("thinking"), delta("signature"), delta("partial_json"));
    assert_eq!(thinking, "Need the weather.");
    assert_eq!(args, r#"{"city": "Pa\u0072is", "n": 1e2}"#);
    assert!(signature.contains('+') && signature.contains('/') && signature.ends_with('='));
    assert_eq!(delta("stop_reason"), "tool_use");

    let input: Value = serde_json::from_str(&args).unwrap();
    let said = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": thinking, "signature": signature},
        {"type": "text", "text": "Looking around."},
        {"type": "tool_use", "id": "call_1", "name": "weather", "input": input}]});
    let list = body["messages"].as_array_mut().unwrap();
    list.push(said);
    // Without a result first: refused, and nothing of the script is used up.
    let answer = send(&server, ANTHROPIC, &body);
    assert_eq!(answer.status, 400);
    assert!(
        answer
            .message()
            .contains("ids were found without `tool_result` blocks immediately after")
    );
    body["messages"].as_array_mut().unwrap().push(
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "20"}]}));
    let mut altered = body.clone();
    altered["messages"][1]["content"][0]["signature"] = json!(signature.replace('+', "-"));
    assert!(
        send(&server, ANTHROPIC, &altered)
            .message()
            .contains("Invalid `signature` in `thinking` block")
    );
    let mut altered = body.clone();
    altered["messages"][0]["content"] = json!("another question");
    assert!(
        send(&server, ANTHROPIC, &altered)
            .message()
            .contains("bound to a different conversation")
    );
    assert_eq!(server.problems().len(), 4, "{:#?}", server.problems());
    let answer = send(&server, ANTHROPIC, &body);
    assert_eq!(
        joined(&answer.events(), |e| e["delta"]["text"].as_str()),
        "Sunny."
    );
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    assert_eq!(requests[0].verdict, Verdict::Served(0));
    assert!(matches!(requests[1].verdict, Verdict::Refused(_)));
    assert_eq!(requests[4].body, body.to_string().as_bytes());
    assert_eq!(requests[4].verdict, Verdict::Served(1));
}

#[test]
fn chat_stream() {
    let server = start([full()]);
    let answer = send(&server, CHAT, &request(CHAT));
    assert!(answer.body.ends_with("data: [DONE]\n\n"));
    let events = answer.events();
    let delta = |e: &Value, key: &str| e["choices"][0]["delta"][key].as_str().map(str::to_owned);
    let all = |key: &str| {
        events
            .iter()
            .filter_map(|e| delta(e, key))
            .collect::<String>()
    };
    assert_eq!(
        (all("content").as_str(), all("reasoning_content").as_str()),
        ("Looking around.", "Need the weather.")
    );
    let args = joined(&events, |e| {
        e["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str()
    });
    assert_eq!(args, r#"{"city": "Pa\u0072is", "n": 1e2}"#);
    assert_eq!(
        joined(&events, |e| e["choices"][0]["finish_reason"].as_str()),
        "tool_calls"
    );
    assert_eq!(events.last().unwrap()["usage"]["total_tokens"], 67);
}

#[test]
fn openrouter_details_come_back_unchanged() {
    let script = Script::new([Reply::text("a").reasoning("r"), Reply::text("b")]);
    let server = Server::start(script.rules(Rules::chat(ChatServer::OpenRouter))).unwrap();
    let mut body = request(CHAT);
    let events = send(&server, CHAT, &body).events();
    let signature = joined(&events, |e| {
        e["choices"][0]["delta"]["reasoning_details"][0]["signature"].as_str()
    });
    let detail = json!({"type": "reasoning.text", "text": "r", "signature": signature, "format": "anthropic-claude-v1", "index": 0});
    let mut altered = detail.clone();
    altered["text"] = json!("x");
    for (detail, status) in [(altered, 400), (detail, 200)] {
        body["messages"] = json!([{"role": "user", "content": "q"},
            {"role": "assistant", "content": "a", "reasoning_details": [detail]}, {"role": "user", "content": "r"}]);
        assert_eq!(send(&server, CHAT, &body).status, status);
    }
}

#[test]
fn responses_stream_and_round_trip() {
    let server = start([full(), Reply::text("Sunny.")]);
    let mut body = request(RESPONSES);
    let events = send(&server, RESPONSES, &body).events();
    let numbers: Vec<_> = events
        .iter()
        .map(|e| e["sequence_number"].as_u64().unwrap())
        .collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
    let items: Vec<Value> = events
        .iter()
        .filter(|e| e["type"] == "response.output_item.done")
        .map(|e| e["item"].clone())
        .collect();
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["output"]),
        (&json!("response.completed"), &json!(items))
    );
    let kinds: Vec<_> = items
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call"]);
    assert_eq!(items[2]["arguments"], r#"{"city": "Pa\u0072is", "n": 1e2}"#);

    let result = json!({"type": "function_call_output", "call_id": "call_1", "output": "20"});
    let mut input = body["input"].as_array().unwrap().clone();
    input.extend(items);
    input.push(result);
    let mut without = input.clone();
    without.remove(1);
    body["input"] = json!(without);
    assert!(
        send(&server, RESPONSES, &body)
            .message()
            .contains("was provided without its required 'reasoning' item")
    );
    let mut altered = input.clone();
    altered[1]["encrypted_content"] = json!("gAAA");
    body["input"] = json!(altered);
    assert!(
        send(&server, RESPONSES, &body)
            .message()
            .contains("could not be verified")
    );
    body["input"] = json!(input);
    assert_eq!(send(&server, RESPONSES, &body).status, 200);
}

#[test]
fn gemini_stream_and_round_trip() {
    let server = start([full(), Reply::text("Sunny.").reasoning("r")]);
    let mut body = request(GEMINI);
    let answer = send(&server, GEMINI, &body);
    assert!(answer.body.ends_with("\r\n\r\n"));
    assert!(
        answer
            .body
            .contains(r#""args":{"city": "Pa\u0072is", "n": 1e2}"#)
    );
    let parts: Vec<Value> = answer
        .events()
        .iter()
        .map(|e| e["candidates"][0]["content"]["parts"][0].clone())
        .collect();
    let call = parts
        .iter()
        .find(|part| part["functionCall"].is_object())
        .unwrap()
        .clone();
    assert!(call["thoughtSignature"].as_str().unwrap().contains("++++"));
    let answer = json!({"functionResponse": {"id": "call_1", "name": "weather", "response": {"output": "20"}}});
    let mut bare = call.clone();
    bare.as_object_mut().unwrap().remove("thoughtSignature");
    let mut rebuilt = call.clone();
    rebuilt["thoughtSignature"] =
        json!(call["thoughtSignature"].as_str().unwrap().replace('/', "_"));
    for (call, want) in [
        (bare, "missing a thought_signature"),
        (rebuilt, "signature is not valid"),
        (call, ""),
    ] {
        body["contents"] = json!([{"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [{"text": "Looking around."}, call]}, {"role": "user", "parts": [answer]}]);
        let got = send(&server, GEMINI, &body);
        if want.is_empty() {
            assert_eq!(got.status, 200, "{}", got.body);
            assert_eq!(
                got.events().last().unwrap()["candidates"][0]["finishReason"],
                "STOP"
            );
        } else {
            assert!(got.message().contains(want), "{}", got.body);
        }
    }
}

#[test]
fn faults_over_http() {
    let reply = Reply::text("ok")
        .fault(Fault::rate_limited(7))
        .fault(Fault::overloaded())
        .fault(
            Fault::status(500)
                .header("x-should-retry", "false")
                .body("nope"),
        )
        .fault(Fault::Overflow)
        .fault(Fault::Html200)
        .fault(Fault::Json200)
        .fault(Fault::Empty200)
        .fault(Fault::BadKey)
        .fault(Fault::Quota);
    for path in [ANTHROPIC, CHAT, RESPONSES, GEMINI] {
        let server = start([reply.clone()]);
        let go = || send(&server, path, &request(path));
        let limited = go();
        assert_eq!(limited.status, 429);
        assert_eq!(limited.head.contains("retry-after: 7"), path != GEMINI);
        assert_eq!(limited.body.contains("\"7s\""), path == GEMINI);
        assert_eq!(go().status, if path == ANTHROPIC { 529 } else { 503 });
        let custom = go();
        assert_eq!((custom.status, custom.body.as_str()), (500, "nope"));
        assert!(custom.head.contains("x-should-retry: false"));
        assert_eq!(go().status, 400);
        assert!(go().head.contains("text/html"));
        assert!(go().head.contains("application/json"));
        let empty = go();
        assert_eq!(
            (empty.status, empty.body.as_str(), empty.clean),
            (200, "", true)
        );
        assert!(go().status >= 400);
        assert!(go().status >= 400);
        assert_eq!(go().status, 200);
        assert!(server.problems().is_empty(), "{:?}", server.problems());
        assert!(matches!(
            server.requests()[0].verdict,
            Verdict::Failed(0, _)
        ));
        // The script is at its end.
        assert_eq!(go().status, 400);
        assert_eq!(server.problems().len(), 1);
    }
}

#[test]
fn faults_in_the_stream() {
    for path in [ANTHROPIC, CHAT, RESPONSES, GEMINI] {
        let reply = Reply::text("some words to cut somewhere").piece(4);
        let whole = send(&start([reply.clone()]), path, &request(path));
        let server = start([reply
            .fault(Fault::CutAfterBytes(100))
            .fault(Fault::CutAfterEvents(2))
            .fault(Fault::EndAfterEvents(2))
            .fault(Fault::TruncatedJsonAfterEvents(2))
            .fault(Fault::ErrorAfterEvents(2))
            .fault(Fault::Drop)
            .write_size(3)]);
        let go = || send(&server, path, &request(path));
        let cut = go();
        assert_eq!((cut.body.len(), cut.clean), (100, false));
        let cut = go();
        assert_eq!((cut.events().len(), cut.clean), (2, false));
        let short = go();
        assert_eq!((short.events().len(), short.clean), (2, true));
        let broken = go();
        let data: Vec<_> = broken
            .body
            .lines()
            .filter_map(|l| l.strip_prefix("data: "))
            .collect();
        assert!(serde_json::from_str::<Value>(data[1]).is_ok());
        assert!(serde_json::from_str::<Value>(data[2]).is_err());
        let error = go();
        assert_eq!(error.events().len(), 3);
        assert!(error.body.contains("error"));
        assert_eq!(go().status, 0);
        // Byte by byte it is the same stream, but for the number of the response.
        assert_eq!(go().events().len(), whole.events().len());
    }
}

#[test]
fn a_stall_ends_with_the_server() {
    let server = start([
        Reply::fail(Fault::StallAfterEvents(1)),
        Reply::fail(Fault::Hang),
        Reply::text("late").delay_ms(60_000),
    ]);
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let mut socket = connect(&server);
        let body = request(CHAT).to_string();
        let head = format!(
            "POST {CHAT} HTTP/1.1\r\nAuthorization: Bearer k\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(head.as_bytes()).unwrap();
        sockets.push(socket);
        // Replies go out in the order of judgement, so one request after the other.
        while server.requests().len() < sockets.len() {
            std::thread::yield_now();
        }
    }
    let mut first = [0; 12];
    sockets[0].read_exact(&mut first).unwrap();
    drop(server);
    for mut socket in sockets {
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        assert!(!rest.windows(5).any(|w| w == b"0\r\n\r\n"));
    }
}

#[test]
fn replies_by_turns() {
    let replies = [
        Reply::text("zero").fault(Fault::status(503)),
        Reply::text("one"),
    ];
    let server = Server::start(Script::new(replies).by_turns()).unwrap();
    let mut body = request(CHAT);
    let content = |answer: Answer| {
        joined(&answer.events(), |e| {
            e["choices"][0]["delta"]["content"].as_str()
        })
    };
    assert_eq!(send(&server, CHAT, &body).status, 503);
    assert_eq!(content(send(&server, CHAT, &body)), "zero");
    assert_eq!(content(send(&server, CHAT, &body)), "zero");
    body["messages"] = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "zero"}, {"role": "user", "content": "r"}]);
    assert_eq!(content(send(&server, CHAT, &body)), "one");
    assert!(server.problems().is_empty());
}

#[test]
fn bad_bodies_headers_and_routes() {
    let server = start([Reply::text("x")]);
    let lone = br#"{"model":"m","stream":true,"messages":[{"role":"user","content":"\ud83d"}]}"#;
    assert!(
        send_bytes(&server, CHAT, lone)
            .message()
            .contains("could not parse the JSON body")
    );
    assert!(
        send_bytes(&server, ANTHROPIC, b"{\"a\":\"\xff\"}")
            .message()
            .contains("not valid JSON")
    );
    assert_eq!(send(&server, "/v1/other", &json!({})).status, 404);
    assert_eq!(
        send(
            &server,
            GEMINI.trim_end_matches("?alt=sse"),
            &request(GEMINI)
        )
        .status,
        400
    );
    let mut body = request(CHAT);
    body["stream"] = json!(false);
    assert_eq!(send(&server, CHAT, &body).status, 400);
    for path in [ANTHROPIC, CHAT, RESPONSES, GEMINI] {
        let mut socket = connect(&server);
        let body = request(path).to_string();
        // Chunked, on a connection kept open, twice.
        let text = format!(
            "POST {path} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        socket.write_all(text.as_bytes()).unwrap();
        socket
            .write_all(
                text.replacen("HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n", 1)
                    .as_bytes(),
            )
            .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let wanted = if path == GEMINI {
            "HTTP/1.1 403"
        } else {
            "HTTP/1.1 401"
        };
        assert_eq!(answer.matches(wanted).count(), 2, "{answer}");
    }
    let small = Script::new([]).rules(Rules {
        max_body: 5,
        ..Rules::default()
    });
    let server = Server::start(small).unwrap();
    assert_eq!(send(&server, ANTHROPIC, &request(ANTHROPIC)).status, 413);
}

#[test]
fn stops() {
    let want = [
        (
            Stop::MaxOutput,
            ["max_tokens", "length", "max_output_tokens", "MAX_TOKENS"],
        ),
        (
            Stop::Refusal,
            ["refusal", "content_filter", "refusal", "SAFETY"],
        ),
        (
            Stop::ContextFull,
            [
                "model_context_window_exceeded",
                "length",
                "context_length_exceeded",
                "MAX_TOKENS",
            ],
        ),
        (Stop::Raw("odd".into()), ["odd", "odd", "odd", "odd"]),
    ];
    for (stop, words) in want {
        for (path, word) in [ANTHROPIC, CHAT, RESPONSES, GEMINI].into_iter().zip(words) {
            let server = start([Reply::text("x").stop(stop.clone())]);
            let answer = send(&server, path, &request(path));
            assert!(
                answer.body.contains(&format!("\"{word}\"")),
                "{path} {word}: {}",
                answer.body
            );
        }
    }
}
