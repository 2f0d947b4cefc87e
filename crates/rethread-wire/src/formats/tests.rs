//! Every format, sound and damaged.

use proptest::prelude::*;
use rethread_core::{CallState, Entry, Role};
use serde_json::{Value, json};

use super::*;

/// What was read, in short: a letter for the role and the text, calls and results by their ids.
fn short(loaded: &Loaded) -> Vec<String> {
    let said = |(_, message): &(usize, Message)| {
        let text = message.content().to_text();
        let out = if message.in_context { "" } else { "-" };
        match &message.body {
            rethread_core::Body::Assistant(response) => {
                let calls: Vec<&str> = response
                    .tool_calls
                    .iter()
                    .map(|call| call.id.as_str())
                    .collect();
                format!("{out}a:{text}[{}]", calls.join(","))
            }
            rethread_core::Body::Tool(result) => format!("{out}{}={text}", result.call_id),
            _ => {
                let role = match message.role() {
                    Role::System => "s",
                    Role::User => "u",
                    Role::Summary => "sum",
                    _ => "?",
                };
                format!("{out}{role}:{text}")
            }
        }
    };
    loaded.messages.iter().map(said).collect()
}

fn rules(loaded: &Loaded) -> Vec<(&'static str, usize)> {
    loaded
        .problems
        .iter()
        .map(|problem| (problem.rule, problem.line))
        .collect()
}

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn point(loaded: &Loaded) -> &'static str {
    match loaded.resume_point() {
        Ok(point) => point.kind.as_str(),
        Err(reason) => reason.as_str(),
    }
}

#[test]
fn names_read_back() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
        assert_eq!(
            format.native_api().map(Format::from),
            format.native_api().map(|_| format)
        );
    }
    let error = "jsonl".parse::<Format>().unwrap_err();
    assert!(error.to_string().contains("claude-code"));
}

#[test]
fn messages_and_records_are_read_with_their_places() {
    let text = concat!(
        "{\"seq\":7,\"message\":{\"role\":\"user\",\"content\":\"q\"}}\r\n",
        "{\"seq\":8,\"message\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"a\",\"name\":\"t\",\"arguments\":{}}]}}\n",
        "{\"seq\":9,\"call_started\":{\"calls\":[{\"message\":8,\"index\":0}]}}\n",
        "{\"seq\":9,\"call_started\":{\"calls\":[{\"message\":8,\"index\":0}]}}\n",
        "{\"seq\":10,\"hologram\":{}}\n",
        "{\"role\":\"user\",\"content\":\"plain\"}\n",
        "{\"seq\":11,\"message\":{\"role\":\"nobody\"}}\n",
        "{\"left\":\"over\"}\n",
    );
    let loaded = read(text.as_bytes(), Format::Rethread);
    assert_eq!(short(&loaded), ["u:q", "a:[a]", "u:plain"]);
    assert_eq!(
        rules(&loaded),
        [
            ("duplicate_record", 4),
            ("bad_record", 7),
            ("bad_record", 8)
        ]
    );
    let records = loaded.records.as_ref().unwrap();
    assert_eq!(
        records.iter().map(|record| record.seq).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    // What names a record names it by its new number.
    let open = loaded.resume_point().unwrap().unanswered;
    assert_eq!(
        (open[0].call.message, open[0].state),
        (2, CallState::Unknown)
    );
    assert!(matches!(&records[3].entry, Entry::Unknown(_)));
}

#[test]
fn a_list_that_was_cut_keeps_its_beginning() {
    for text in [
        "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assi",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assi",
        "{\"model\":\"m\",\"messages\" : [ {\"role\":\"user\",\"content\":\"q\"}",
    ] {
        for format in [
            Format::Rethread,
            Format::AnthropicMessages,
            Format::OpenAiChat,
        ] {
            if format == Format::Rethread && text.starts_with('{') {
                continue;
            }
            let loaded = read(text.as_bytes(), format);
            assert_eq!(short(&loaded), ["u:q"], "{format} {text}");
            assert_eq!(rules(&loaded), [("torn_tail", 1)], "{format} {text}");
        }
    }
    let loaded = read(
        b"\xef\xbb\xbf[{\"role\":\"user\",\"content\":\"q\xff\"}]\0\0",
        Format::OpenAiChat,
    );
    assert_eq!(short(&loaded), ["u:q\u{fffd}"]);
    assert_eq!(rules(&loaded), [("nul_padding", 0), ("invalid_utf8", 1)]);
    assert!(read(b"hello", Format::OpenAiChat).is_unreadable());
    assert!(!read(b"[]", Format::OpenAiChat).is_unreadable());
}

#[test]
fn stops_beside_the_list_say_how_responses_ended() {
    let said = |stops: Value| {
        let file = json!({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x"}], "stops": stops});
        point(&read(file.to_string().as_bytes(), Format::OpenAiChat))
    };
    assert_eq!(said(json!({})), "completed");
    assert_eq!(said(json!({"1": "stop"})), "completed");
    assert_eq!(said(json!({"1": null})), "retry_response");
    assert_eq!(said(json!({"1": "length"})), "continue_response");
    assert_eq!(said(json!({"1": "content_filter"})), "refused");
    assert_eq!(said(json!({"1": "brand_new"})), "unknown_stop");
    let file = json!({"messages": [], "stops": {"4": "length", "x": "y"}}).to_string();
    assert_eq!(
        rules(&read(file.as_bytes(), Format::OpenAiChat)),
        [("bad_line", 0), ("bad_line", 4)]
    );
}

#[test]
fn an_anthropic_body_is_read() {
    let file = json!({"model": "claude-x", "system": [{"type": "text", "text": "be kind"}], "messages": [
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s+/="},
            {"type": "text", "text": "one "}, {"type": "text", "text": "two"},
            {"type": "tool_use", "id": "a", "name": "t", "input": {"n": 1e2}}]},
        {"role": "user", "content": [{"type": "text", "text": "and"}, {"type": "tool_result", "tool_use_id": "a", "content": "A", "is_error": true}]},
    ]});
    let loaded = read(file.to_string().as_bytes(), Format::AnthropicMessages);
    assert_eq!(short(&loaded), ["u:look", "a:one two[a]", "a=A", "u:and"]);
    assert_eq!(loaded.instructions.as_ref().unwrap().to_str(), "be kind");
    let response = loaded.messages[1].1.as_assistant().unwrap();
    assert_eq!(response.reasoning.as_ref().unwrap().to_str(), "hm");
    assert_eq!(response.native.len(), 4);
    assert!(response.native_holds());
    assert_eq!(response.origin.as_ref().unwrap().model, "claude-x");
    let result = loaded.messages[2].1.as_tool().unwrap();
    assert_eq!((result.name.as_str(), result.success), ("t", false));
    assert_eq!(
        loaded
            .messages
            .iter()
            .map(|(at, _)| *at)
            .collect::<Vec<_>>(),
        [0, 1, 2, 2]
    );
}

#[test]
fn a_chat_body_is_read() {
    let file = json!([
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
        {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{\"a\""}},
            {"id": "", "type": "function", "function": {"name": "u", "arguments": {"b": 1}}}]},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "A"}]},
        {"role": "developer", "content": "later"},
        {"role": "assistant", "function_call": {"name": "old", "arguments": "{}"}},
        {"role": "function", "name": "old", "content": "O"},
        {"role": "assistant", "content": null, "refusal": "no"},
    ]);
    let loaded = read(file.to_string().as_bytes(), Format::OpenAiChat);
    assert_eq!(loaded.instructions.as_ref().unwrap().to_str(), "be kind");
    let said = short(&loaded);
    assert_eq!(said[0], "-s:be kind");
    assert!(said[2].starts_with("a:[a,call_rt_"), "{said:?}");
    assert_eq!((said[3].as_str(), said[4].as_str()), ("a=A", "s:later"));
    assert_eq!(
        said[5].trim_start_matches("a:[").trim_end_matches(']'),
        said[6].trim_end_matches("=O")
    );
    assert_eq!(point(&loaded), "refused");
    let calls = &loaded.messages[2].1.as_assistant().unwrap().tool_calls;
    assert!(!calls[0].is_decoded());
    assert_eq!(calls[1].arguments.get(), "{\"b\":1}");
}

#[test]
fn items_of_one_response_are_one_message() {
    let file = json!({"instructions": "be kind", "input": [
        {"role": "user", "content": "q"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
        {"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "t", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "b", "output": "B"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "well?"}]},
        {"type": "message", "role": "assistant", "content": "y"},
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "A"}]},
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "free"},
    ], "stops": {"4": "completed", "9": "incomplete"}});
    let loaded = read(file.to_string().as_bytes(), Format::OpenAiResponses);
    assert_eq!(
        short(&loaded),
        ["u:q", "a:x[a,b]", "b=B", "a=A", "u:well?", "a:y[]", "a:[c]"]
    );
    assert_eq!(point(&loaded), "recover_tools");
    let response = loaded.messages[1].1.as_assistant().unwrap();
    assert_eq!((response.native.len(), response.stop.is_some()), (4, false));
    let call = &loaded.messages[6].1.as_assistant().unwrap().tool_calls[0];
    assert_eq!(call.arguments.get(), "{\"input\":\"free\"}");
    let text = read(
        b"{\"input\":\"hello\",\"model\":\"m\"}",
        Format::OpenAiResponses,
    );
    assert_eq!(short(&text), ["u:hello"]);
}

#[test]
fn contents_without_ids_are_paired_by_name() {
    let file = json!({"systemInstruction": {"parts": [{"text": "be kind"}]}, "contents": [
        {"parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": "x"},
            {"functionCall": {"name": "t", "args": {"n": 1}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "u"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "u", "response": {"error": "U"}}}, {"text": "and"}]},
    ]});
    let loaded = read(file.to_string().as_bytes(), Format::GeminiContents);
    let open = loaded.resume_point().unwrap().unanswered;
    assert_eq!((open.len(), open[0].name.as_str()), (1, "t"));
    let result = loaded.messages[2].1.as_tool().unwrap();
    assert_eq!(
        (result.success, result.content.to_text()),
        (false, "U".to_owned())
    );
    assert_eq!(short(&loaded)[3], "u:and");
    assert_eq!(loaded.instructions.as_ref().unwrap().to_str(), "be kind");
}

// ---------------------------------------------------------------- logs of AG2

fn event(name: &str, data: Value) -> Value {
    json!({"type": format!("ag2.events.some.{name}"), "data": data})
}

fn input(text: &str) -> Value {
    json!([{"__event__": "x.TextInput", "content": text}])
}

fn ag2_call(id: &str) -> Value {
    json!({"id": id, "name": "t", "arguments": "{\"a\": 1}"})
}

fn ag2_response(text: Value, calls: Value, forced: bool) -> Value {
    let message = if text.is_null() {
        text
    } else {
        json!({"content": text})
    };
    event(
        "ModelResponse",
        json!({"message": message, "tool_calls": {"calls": calls}, "model": "m", "provider": "anthropic", "finish_reason": "end_turn", "response_force": forced}),
    )
}

fn ag2_result(id: &str, text: &str) -> Value {
    json!({"parent_id": id, "name": "t", "result": {"data": {"parts": input(text)}}})
}

#[test]
fn each_result_of_a_log_counts_once() {
    let log = lines(&[
        event("ModelRequest", json!({"parts": input("q")})),
        event("UsageEvent", json!({})),
        ag2_response(json!(null), json!([ag2_call("a"), ag2_call("b")]), false),
        event("ToolCallEvent", ag2_call("a")),
        event("ToolResultEvent", ag2_result("a", "A")),
        event(
            "ToolErrorEvent",
            json!({"parent_id": "b", "name": "t", "error": {}, "result": {"data": {"parts": input("B")}}}),
        ),
        event(
            "ToolResultsEvent",
            json!({"results": [ag2_result("a", "A"), ag2_result("b", "B")]}),
        ),
        json!({"type": "mine.Custom", "data": {}}),
        ag2_response(json!("done"), json!([]), false),
    ]);
    for log in [
        log.clone(),
        log.replace("ag2.events", "autogen.beta.events"),
    ] {
        let loaded = read(log.as_bytes(), Format::Ag2Log);
        assert_eq!(short(&loaded), ["u:q", "a:[a,b]", "a=A", "b=B", "a:done[]"]);
        assert_eq!(rules(&loaded), [("unknown_event", 8)]);
        assert!(!loaded.messages[3].1.as_tool().unwrap().success);
        assert_eq!(point(&loaded), "completed");
        assert_eq!(recognise(log.as_bytes()), Ok(Format::Ag2Log));
    }
}

#[test]
fn a_call_for_the_client_waits() {
    let log = lines(&[
        event("ModelRequest", json!({"parts": input("q")})),
        ag2_response(json!(null), json!([ag2_call("a"), ag2_call("b")]), false),
        event("ClientToolCallEvent", ag2_call("a")),
        event("ToolResultEvent", ag2_result("b", "B")),
        ag2_response(json!(null), json!([ag2_call("a")]), true),
    ]);
    let loaded = read(log.as_bytes(), Format::Ag2Log);
    assert_eq!(short(&loaded), ["u:q", "a:[a,b]", "b=B"]);
    let open = loaded.resume_point().unwrap();
    assert_eq!(
        (open.kind.as_str(), open.unanswered[0].id.as_str()),
        ("await_results", "a")
    );
    let asked = event(
        "ToolApprovalRequest",
        json!({"id": "q1", "tool_call_id": "a", "content": "may I?"}),
    );
    let answered = event("HumanMessage", json!({"parent_id": "q1", "content": "y"}));
    let begin = &log[..log.find("some.Client").unwrap()];
    let begin = &begin[..begin.rfind('\n').unwrap() + 1];
    let loaded = read(format!("{begin}{asked}\n").as_bytes(), Format::Ag2Log);
    assert_eq!(point(&loaded), "await_results");
    let loaded = read(
        format!("{begin}{asked}\n{answered}\n").as_bytes(),
        Format::Ag2Log,
    );
    assert_eq!(point(&loaded), "recover_tools");
}

#[test]
fn what_was_streamed_and_not_stored_is_an_interrupted_response() {
    let chunk = |text: &str| event("ModelMessageChunk", json!({"content": text}));
    let log = lines(&[
        event("ModelRequest", json!({"parts": input("q")})),
        chunk("Hel"),
        chunk("lo"),
    ]);
    let loaded = read(log.as_bytes(), Format::Ag2Log);
    assert_eq!(
        (short(&loaded), point(&loaded)),
        (
            vec!["u:q".to_owned(), "a:Hello[]".to_owned()],
            "retry_response"
        )
    );
    let stored = format!("{log}{}\n", ag2_response(json!("Hello"), json!([]), false));
    assert_eq!(point(&read(stored.as_bytes(), Format::Ag2Log)), "completed");
}

#[test]
fn tools_of_the_service_and_summaries_are_told_apart() {
    let log = lines(&[
        event("ModelRequest", json!({"parts": input("old")})),
        event("CompactionSummary", json!({"summary": "S"})),
        event("ModelRequest", json!({"parts": input("q")})),
        event("AnthropicServerToolCallEvent", ag2_call("srv")),
        event("ToolNotFoundEvent", ag2_result("srv", "no such tool")),
        event("OpenAIReasoningEvent", json!({"content": "hm"})),
        ag2_response(json!("x"), json!([]), false),
    ]);
    let loaded = read(log.as_bytes(), Format::Ag2Log);
    assert_eq!(short(&loaded), ["u:old", "sum:S", "u:q", "a:x[]"]);
    let response = loaded.messages[3].1.as_assistant().unwrap();
    assert_eq!(response.reasoning.as_ref().unwrap().to_str(), "hm");
}

// ---------------------------------------------------------------- sessions of Claude Code

fn entry(uuid: &str, parent: &str, kind: &str, message: Value) -> Value {
    let parent = if parent.is_empty() {
        json!(null)
    } else {
        json!(parent)
    };
    json!({"parentUuid": parent, "isSidechain": false, "sessionId": "s", "type": kind, "uuid": uuid, "message": message})
}

fn asked(uuid: &str, parent: &str, text: &str) -> Value {
    entry(
        uuid,
        parent,
        "user",
        json!({"role": "user", "content": text}),
    )
}

fn block(uuid: &str, parent: &str, id: &str, block: Value) -> Value {
    entry(
        uuid,
        parent,
        "assistant",
        json!({"id": id, "role": "assistant", "model": "claude-x", "content": [block], "stop_reason": null}),
    )
}

fn answered(uuid: &str, parent: &str, id: &str) -> Value {
    entry(
        uuid,
        parent,
        "user",
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": format!("R{id}")}]}),
    )
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Read", "input": {}})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn pieces_of_a_response_and_results_on_side_branches_belong_together() {
    let file = lines(&[
        json!({"type": "summary", "summary": "a title", "leafUuid": "9"}),
        asked("1", "", "q"),
        block("2", "1", "msg_1", text("x")),
        block("3", "2", "msg_1", tool_use("a")),
        block("4", "3", "msg_1", tool_use("b")),
        answered("5", "3", "a"),
        answered("6", "4", "b"),
        block("7", "6", "msg_2", text("done")),
        asked("8", "7", "next"),
    ]);
    let loaded = read(file.as_bytes(), Format::ClaudeCode);
    assert_eq!(
        short(&loaded),
        ["u:q", "a:x[a,b]", "a=Ra", "b=Rb", "a:done[]", "u:next"]
    );
    assert_eq!(rules(&loaded), []);
    assert_eq!(recognise(file.as_bytes()), Ok(Format::ClaudeCode));
    let response = loaded.messages[1].1.as_assistant().unwrap();
    assert_eq!(
        (
            response.native.len(),
            response.origin.as_ref().unwrap().model.as_str()
        ),
        (3, "claude-x")
    );
}

#[test]
fn sub_agents_and_given_up_branches_are_set_aside() {
    let mut agent = block("a2", "a1", "msg_9", text("progress"));
    agent["isSidechain"] = json!(true);
    let file = lines(&[
        asked("1", "", "q"),
        block("2", "1", "msg_1", text("wrong way")),
        asked("3", "2", "more"),
        asked("4", "1", "edited"),
        block("5", "4", "msg_2", text("right")),
        agent,
    ]);
    let loaded = read(file.as_bytes(), Format::ClaudeCode);
    assert_eq!(short(&loaded), ["u:q", "u:edited", "a:right[]"]);
    assert_eq!(rules(&loaded), [("other_branch", 2), ("sidechain", 6)]);
}

#[test]
fn a_missing_link_loses_nothing() {
    let file = lines(&[
        asked("1", "", "old"),
        block("2", "1", "msg_1", text("answer")),
        asked("4", "3", "new"),
        asked("4", "3", "new"),
    ]);
    let loaded = read(file.as_bytes(), Format::ClaudeCode);
    assert_eq!(short(&loaded), ["u:old", "a:answer[]", "u:new"]);
    assert_eq!(
        rules(&loaded),
        [("missing_parent", 3), ("duplicate_record", 4)]
    );
    // A circle of links ends, too.
    let file = lines(&[asked("1", "2", "a"), asked("2", "1", "b")]);
    assert_eq!(read(file.as_bytes(), Format::ClaudeCode).messages.len(), 2);
}

#[test]
fn a_compaction_and_an_error_that_was_shown_are_no_answers() {
    let mut boundary = entry("3", "", "system", json!(null));
    boundary["subtype"] = json!("compact_boundary");
    boundary["logicalParentUuid"] = json!("2");
    let mut summary = asked("4", "3", "S");
    summary["isCompactSummary"] = json!(true);
    let mut error = block("6", "5", "msg_e", text("Prompt is too long"));
    error["isApiErrorMessage"] = json!(true);
    let file = lines(&[
        asked("1", "", "q"),
        block("2", "1", "msg_1", text("x")),
        boundary,
        summary,
        asked("5", "4", "go on"),
        error,
    ]);
    let loaded = read(file.as_bytes(), Format::ClaudeCode);
    assert_eq!(short(&loaded), ["u:q", "a:x[]", "sum:S", "u:go on"]);
    assert_eq!(rules(&loaded), [("synthetic_message", 6)]);
    assert_eq!(point(&loaded), "call_model");
}

// ---------------------------------------------------------------- rollouts of Codex

fn rollout(kind: &str, payload: Value) -> Value {
    json!({"timestamp": "t", "type": kind, "payload": payload})
}

#[test]
fn a_rollout_is_read() {
    let item = |item: Value| rollout("response_item", item);
    let user = |text: &str| {
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}),
        )
    };
    let answer = |text: &str| {
        item(
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}),
        )
    };
    let head = [
        rollout(
            "session_meta",
            json!({"id": "x", "instructions": "be kind"}),
        ),
        rollout("turn_context", json!({"model": "gpt-x"})),
        user("q"),
        item(json!({"type": "reasoning", "id": "rs_1", "summary": []})),
        item(json!({"type": "function_call", "call_id": "a", "name": "shell", "arguments": "{}"})),
        item(json!({"type": "function_call_output", "call_id": "a", "output": "A"})),
        rollout("event_msg", json!({"type": "token_count"})),
        answer("half"),
    ];
    let file = lines(&head);
    let loaded = read(file.as_bytes(), Format::CodexRollout);
    assert_eq!(short(&loaded), ["u:q", "a:[a]", "a=A", "a:half[]"]);
    assert_eq!(
        loaded
            .messages
            .iter()
            .map(|(line, _)| *line)
            .collect::<Vec<_>>(),
        [3, 4, 6, 8]
    );
    assert_eq!(loaded.instructions.as_ref().unwrap().to_str(), "be kind");
    assert_eq!(
        loaded.messages[1]
            .1
            .as_assistant()
            .unwrap()
            .origin
            .as_ref()
            .unwrap()
            .model,
        "gpt-x"
    );
    assert_eq!(point(&loaded), "completed");
    assert_eq!(recognise(file.as_bytes()), Ok(Format::CodexRollout));

    let aborted = format!(
        "{file}{}\n",
        rollout("event_msg", json!({"type": "turn_aborted"}))
    );
    assert_eq!(
        point(&read(aborted.as_bytes(), Format::CodexRollout)),
        "retry_response"
    );
    let compacted = format!("{file}{}\n", rollout("compacted", json!({"message": "S"})));
    assert_eq!(
        short(&read(compacted.as_bytes(), Format::CodexRollout))[4],
        "sum:S"
    );
    let replaced = format!(
        "{file}{}\n",
        rollout(
            "compacted",
            json!({"message": "", "replacement_history": [{"type": "message", "role": "user", "content": "S"}]})
        )
    );
    let loaded = read(replaced.as_bytes(), Format::CodexRollout);
    assert_eq!(
        short(&loaded),
        ["-u:q", "-a:[a]", "-a=A", "-a:half[]", "u:S"]
    );
    let back = format!(
        "{file}{}{}\n",
        lines(&[user("r"), answer("R")]),
        rollout(
            "event_msg",
            json!({"type": "thread_rolled_back", "num_turns": 1})
        )
    );
    let loaded = read(back.as_bytes(), Format::CodexRollout);
    assert_eq!(short(&loaded)[4..], ["-u:r", "-a:R[]"]);
    assert_eq!(point(&loaded), "completed");
    // The items of older files stand there bare.
    let old = "{\"id\":\"x\",\"timestamp\":\"t\",\"instructions\":\"be kind\"}\n{\"record_type\":\"state\"}\n{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"q\"}]}\n";
    let loaded = read(old.as_bytes(), Format::CodexRollout);
    assert_eq!(
        (short(&loaded), rules(&loaded)),
        (vec!["u:q".to_owned()], vec![])
    );
    assert_eq!(recognise(old.as_bytes()), Ok(Format::CodexRollout));
}

// ---------------------------------------------------------------- recognition

#[test]
fn formats_are_recognised_by_what_stands_in_them() {
    for (text, format) in [
        (r#"[{"role":"user","content":"q"}]"#, Format::Rethread),
        (r#"{"role":"user","content":"q"}"#, Format::Rethread),
        (
            "{\"seq\":1,\"message\":{\"role\":\"user\",\"content\":\"q\"}}\n{\"se",
            Format::Rethread,
        ),
        (r#"[{"role":"summary","content":"q"}]"#, Format::Rethread),
        (
            r#"[{"role":"assistant","tool_calls":[{"id":"a","name":"t","arguments":{}}]}]"#,
            Format::Rethread,
        ),
        (
            r#"[{"role":"assistant","tool_calls":[{"id":"a","function":{}}]}]"#,
            Format::OpenAiChat,
        ),
        (
            r#"{"model":"m","messages":[{"role":"user","content":"q"}]}"#,
            Format::OpenAiChat,
        ),
        (
            r#"{"system":"s","messages":[{"role":"user","content":"q"}]}"#,
            Format::AnthropicMessages,
        ),
        (
            r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]"#,
            Format::AnthropicMessages,
        ),
        (
            r#"[{"type":"reasoning","summary":[]}]"#,
            Format::OpenAiResponses,
        ),
        (r#"{"input":"q"}"#, Format::OpenAiResponses),
        (
            r#"[{"role":"user","content":[{"type":"input_text","text":"q"}]}]"#,
            Format::OpenAiResponses,
        ),
        (r#"{"contents":[]}"#, Format::GeminiContents),
        (r#"[{"role":"model","parts":[]}]"#, Format::GeminiContents),
        (
            r#"{"request":{"contents":[]},"changes":[]}"#,
            Format::GeminiContents,
        ),
        (
            r#"{"messages":[{"role":"tool","tool_call_id":"a","content":"x"},{"ro"#,
            Format::OpenAiChat,
        ),
    ] {
        assert_eq!(recognise(text.as_bytes()), Ok(format), "{text}");
    }
    for text in ["", "hello", "{\"a\":1}", "[1,2]", "\u{0}\u{0}"] {
        let error = recognise(text.as_bytes()).unwrap_err();
        assert_eq!(error.tried.len(), 8);
        assert!(error.to_string().contains("--format"), "{error}");
    }
}

proptest! {
    #[test]
    fn nothing_that_is_read_panics(bytes in prop::collection::vec(prop::sample::select(
        br#"{}[]",:\u0aeE-.1 "role""content""type""parts""tool_calls""message""uuid""parentUuid""payload""data""#.to_vec()), 0..200),
        tail in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut bytes = bytes;
        bytes.extend(tail);
        let _ = recognise(&bytes);
        for format in Format::ALL {
            let loaded = read(&bytes, format);
            let _ = loaded.resume_point();
        }
    }

    #[test]
    fn every_cut_of_every_file_is_read(cut in 0..5000_usize, mangle in any::<Option<(u16, u8)>>()) {
        let log = lines(&[
            event("ModelRequest", json!({"parts": input("q")})),
            ag2_response(json!("x"), json!([ag2_call("a")]), false),
            event("ToolResultsEvent", json!({"results": [ag2_result("a", "A")]})),
        ]);
        let code = lines(&[asked("1", "", "q"), block("2", "1", "m", tool_use("a")), answered("3", "2", "a")]);
        let codex = lines(&[
            rollout("turn_context", json!({"model": "m"})),
            rollout("response_item", json!({"type": "message", "role": "user", "content": "q"})),
            rollout("compacted", json!({"message": "S"})),
        ]);
        let body = json!({"messages": [{"role": "user", "content": [text("q")]}], "input": [{"role": "user", "content": "q"}], "contents": [{"parts": [{"text": "q"}]}]}).to_string();
        for file in [log, code, codex, body] {
            let mut bytes = file.into_bytes();
            bytes.truncate(cut % (bytes.len() + 1));
            if let Some((at, byte)) = mangle && !bytes.is_empty() {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            let _ = recognise(&bytes);
            for format in Format::ALL {
                let loaded = read(&bytes, format);
                let whole = bytes.iter().filter(|byte| **byte == b'\n').count();
                prop_assert!(loaded.messages.len() <= whole + 3);
                let _ = loaded.resume_point();
            }
        }
    }
}
