use super::*;

fn read(events: &[&str]) -> Assistant {
    message(Api::OpenAiResponses, events)
}

fn done(item: &str) -> String {
    format!(r#"{{"type":"response.output_item.done","item":{item}}}"#)
}

/// A response of finished items and a terminal event.
fn of(items: &[&str], end: &str) -> Assistant {
    let mut events: Vec<String> = items.iter().map(|item| done(item)).collect();
    events.push(end.to_owned());
    read(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

fn kept(message: &Assistant) -> Vec<String> {
    let id = |item: &Value| item["id"].as_str().unwrap_or("-").to_owned();
    native(message).as_array().unwrap().iter().map(id).collect()
}

const COMPLETED: &str = r#"{"type":"response.completed","response":{"status":"completed"}}"#;
const LIMIT: &str = r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}"#;
const FILTER: &str = r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}"#;
const REASONING: &str = r#"{"id":"rs","type":"reasoning","encrypted_content":"g+/=","summary":[]}"#;
const CALL: &str =
    r#"{"id":"fc","type":"function_call","call_id":"c","name":"f","arguments":"{\"n\": 1e2}"}"#;
const CUT: &str = r#"{"id":"cut","type":"function_call","status":"completed","call_id":"d","name":"f","arguments":"{"}"#;
const TEXT: &str = r#"{"id":"m","type":"message","status":"completed","content":[{"type":"output_text","text":"a","annotations":[]}]}"#;

#[test]
fn items_are_kept_as_they_came() {
    let unknown = r#"{"id":"h","type":"hologram_call","opaque":{"k":[1.50,null]}}"#;
    let message = of(&[REASONING, CALL, unknown, TEXT], COMPLETED);
    let native: Vec<&str> = message.native.iter().map(|json| json.get()).collect();
    assert_eq!(native, [REASONING, CALL, unknown, TEXT]);
    assert_eq!(runnable(&message), [("f", r#"{"n": 1e2}"#)]);
    assert_eq!(message.stop_reason(), StopReason::ToolUse);
}

#[test]
fn a_reasoning_item_goes_back_only_with_its_own() {
    assert_eq!(kept(&of(&[TEXT, REASONING, CUT], LIMIT)), ["m"]);
    assert_eq!(kept(&of(&[REASONING, CALL, CUT], LIMIT)), ["rs", "fc"]);
    assert_eq!(kept(&of(&[REASONING, CUT, CALL], COMPLETED)), ["rs", "fc"]);
    assert_eq!(kept(&of(&[TEXT, REASONING], COMPLETED)), ["m", "rs"]);
    // Broken off: no end mark, or a refusal.
    assert_eq!(kept(&of(&[TEXT, REASONING, CALL], FILTER)), ["m"]);
    assert_eq!(
        kept(&read(&[&done(TEXT), &done(REASONING), &done(CALL)])),
        ["m"]
    );
    assert_eq!(kept(&read(&[&done(TEXT), &done(REASONING)])), ["m"]);
}

#[test]
fn validity_is_a_matter_of_the_text_not_of_the_status() {
    let message = of(&[CALL, CUT], COMPLETED);
    assert_eq!(runnable(&message).len(), 1);
    assert_eq!(message.tool_calls.len(), 2);
    let empty = r#"{"id":"e","type":"function_call","call_id":"c","name":"f","arguments":""}"#;
    let message = of(&[empty], COMPLETED);
    assert_eq!(runnable(&message), [("f", "{}")]);
    assert_eq!(native(&message)[0]["arguments"], "{}");
}

#[test]
fn an_open_message_stands_for_itself() {
    let added = r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"m2","type":"message","content":[]}}"#;
    let piece =
        r#"{"type":"response.output_text.delta","output_index":1,"item_id":"m2","delta":"half"}"#;
    let message = read(&[&done(REASONING), added, piece]);
    assert_eq!(content(&message), "half");
    assert_eq!(
        message.native[0].get(),
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"half","annotations":[]}]}"#
    );
    assert_eq!(message.native.len(), 1);
}

#[test]
fn items_without_an_index_are_told_apart_by_id() {
    let message = read(&[
        r#"{"type":"response.output_item.added","item":{"id":"x","type":"function_call","call_id":"1","name":"a","arguments":""}}"#,
        r#"{"type":"response.output_item.added","item":{"id":"y","type":"function_call","call_id":"2","name":"b","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"x","delta":"{\"n\":"}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"y","delta":"{}"}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"x","delta":"1}"}"#,
        COMPLETED,
    ]);
    let calls: Vec<_> = message
        .tool_calls
        .iter()
        .map(|call| (call.id.as_str(), call.arguments.get()))
        .collect();
    assert_eq!(calls, [("1", r#"{"n":1}"#), ("2", "{}")]);
}

#[test]
fn the_terminal_event_may_bring_what_was_never_sent() {
    let end = format!(
        r#"{{"type":"response.completed","response":{{"id":"r","status":"completed","output":[{REASONING},{TEXT},{CALL}]}}}}"#
    );
    let message = read(&[&done(REASONING), &end]);
    assert_eq!(kept(&message), ["rs", "m", "fc"]);
    assert_eq!(content(&message), "a");
    let body = format!(r#"{{"object":"response","status":"completed","output":[{TEXT}]}}"#);
    assert_eq!(content(&decode(Api::OpenAiResponses, &body).unwrap()), "a");
}

#[test]
fn what_a_failure_means_depends_on_what_came_before() {
    let failed = |code: &str| {
        format!(
            r#"{{"type":"response.failed","response":{{"status":"failed","error":{{"code":"{code}","message":"Please try again in 11.054s."}}}}}}"#
        )
    };
    for (code, kind, reason) in [
        (
            "rate_limit_exceeded",
            ModelErrorKind::RateLimited,
            StopReason::Interrupted,
        ),
        (
            "server_error",
            ModelErrorKind::Server,
            StopReason::Interrupted,
        ),
        (
            "server_is_overloaded",
            ModelErrorKind::Overloaded,
            StopReason::Interrupted,
        ),
        ("bio_policy", ModelErrorKind::Refusal, StopReason::Refusal),
        (
            "context_length_exceeded",
            ModelErrorKind::ContextFull,
            StopReason::ContextFull,
        ),
        ("brand_new", ModelErrorKind::Server, StopReason::Interrupted),
    ] {
        let error = decode(Api::OpenAiResponses, &sse(&[&failed(code)])).unwrap_err();
        assert_eq!(error.kind, kind, "{code}");
        assert_eq!(error.code.as_deref(), Some(code));
        let wait = error.retryable.then_some(11_054);
        assert_eq!(
            error.retry_after.map(|wait| wait.as_millis()),
            wait,
            "{code}"
        );
        let message = read(&[&done(TEXT), &failed(code)]);
        assert_eq!(message.stop_reason(), reason, "{code}");
    }
    let flat = r#"{"type":"error","code":"server_error","message":"m"}"#;
    assert_eq!(
        read(&[&done(TEXT), flat]).stop_reason(),
        StopReason::Interrupted
    );
}

#[test]
fn a_refusal_part_is_a_refusal() {
    let item = r#"{"id":"m","type":"message","content":[{"type":"refusal","refusal":"no"}]}"#;
    let message = of(&[item], COMPLETED);
    assert_eq!(message.stop_reason(), StopReason::Refusal);
    assert_eq!(content(&message), "no");
}

#[test]
fn a_custom_call_is_its_text() {
    let item = r#"{"id":"ct","type":"custom_tool_call","call_id":"c","name":"sql","input":"a\"b"}"#;
    assert_eq!(
        runnable(&of(&[item], COMPLETED)),
        [("sql", r#"{"input":"a\"b"}"#)]
    );
    let message = of(&[item], LIMIT);
    assert!(runnable(&message).is_empty() && message.native.is_empty());
}

#[test]
fn a_stored_response_can_be_continued() {
    let created = r#"{"type":"response.created","sequence_number":0,"response":{"id":"r","status":"in_progress","background":true}}"#;
    let added = r#"{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"m","type":"message","content":[]}}"#;
    let one = r#"{"type":"response.output_text.delta","sequence_number":2,"output_index":0,"delta":"one"}"#;
    let two = r#"{"type":"response.output_text.delta","sequence_number":3,"output_index":0,"delta":" two"}"#;
    let end = r#"{"type":"response.completed","sequence_number":4,"response":{"id":"r","status":"completed","output":[]}}"#;
    let mut decoder = Decoder::new(Api::OpenAiResponses, Origin::new("a", "p", "m"));
    let mut events = Vec::new();
    decoder
        .push(sse(&[created, added, one]).as_bytes(), &mut events)
        .unwrap();
    let handle = decoder.handle().unwrap();
    assert_eq!(handle.get(), r#"{"response_id":"r","starting_after":2}"#);
    assert!(matches!(events[0], ModelEvent::Handle(_)));
    assert!(decoder.resume());
    decoder
        .push(sse(&[two, end]).as_bytes(), &mut events)
        .unwrap();
    decoder.finish(&mut events).unwrap();
    let Some(ModelEvent::Done(message)) = events.pop() else {
        panic!("no message");
    };
    assert_eq!(content(&message), "one two");
    assert_eq!(message.stop_reason(), StopReason::EndTurn);
}

#[test]
fn summaries_are_paragraphs() {
    let item = r#"{"id":"rs","type":"reasoning","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}]}"#;
    assert_eq!(of(&[item, TEXT], COMPLETED).reasoning.unwrap(), "a\n\nb");
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs","type":"reasoning","summary":[]}}"#;
    let piece = |part: u8, text: &str| {
        format!(
            r#"{{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":{part},"delta":"{text}"}}"#
        )
    };
    let end = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#);
    let body = sse(&[added, &piece(0, "a"), &piece(1, "b"), &end, COMPLETED]);
    let (message, shown) = in_pieces(Api::OpenAiResponses, [body.as_bytes()].into_iter()).unwrap();
    assert_eq!(shown.reasoning, message.reasoning.unwrap().to_str());
}
