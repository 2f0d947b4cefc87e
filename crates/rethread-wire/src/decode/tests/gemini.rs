use super::*;

fn read(events: &[&str]) -> Assistant {
    message(Api::GeminiContents, events)
}

fn parts(parts: &str) -> String {
    format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}]}}}}]}}"#)
}

fn finish(reason: &str) -> String {
    format!(r#"{{"candidates":[{{"finishReason":"{reason}","finishMessage":"why"}}]}}"#)
}

fn of(events: &[&str], reason: &str) -> Assistant {
    let mut events: Vec<String> = events.iter().map(|event| parts(event)).collect();
    events.push(finish(reason));
    read(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn parts_are_joined_only_where_nothing_is_lost() {
    let message = of(
        &[
            r#"{"text":"t","thought":true}"#,
            r#"{"text":"u","thought":true}"#,
            r#"{"text":"a"}"#,
            r#"{"text":"b"},{"text":"c","thoughtSignature":"S//="}"#,
            r#"{"text":"d"},{"executableCode":{"code":"1e2"}},{"text":"e"},{"text":""}"#,
            r#"{"text":"","thoughtSignature":"T+="}"#,
            r#"{"text":""}"#,
        ],
        "STOP",
    );
    let native: Vec<&str> = message.native.iter().map(|json| json.get()).collect();
    assert_eq!(
        native,
        [
            r#"{"text":"tu","thought":true}"#,
            r#"{"text":"ab"}"#,
            r#"{"text":"c","thoughtSignature":"S//="}"#,
            r#"{"text":"d"}"#,
            r#"{"executableCode":{"code":"1e2"}}"#,
            r#"{"text":"e"}"#,
            r#"{"text":"","thoughtSignature":"T+="}"#,
        ]
    );
    assert_eq!(content(&message), "abcde");
    assert_eq!(message.reasoning.unwrap(), "tu");
}

#[test]
fn a_call_keeps_its_signature_and_its_numbers() {
    let part = r#"{"functionCall":{"name":"f","args":{"n":1e2}},"thoughtSignature":"S//="}"#;
    let message = of(&[part], "STOP");
    assert_eq!(runnable(&message), [("f", r#"{"n":1e2}"#)]);
    assert_eq!(message.native[0].get(), part);
    assert_eq!(message.stop_reason(), StopReason::ToolUse);
    // None came, so none goes back, but a result needs one to be paired with.
    assert!(crate::is_made_id(&message.tool_calls[0].id));
    assert_eq!(
        runnable(&of(&[r#"{"functionCall":{"name":"f"}}"#], "STOP")),
        [("f", "{}")]
    );
}

#[test]
fn arguments_may_stream() {
    let message = of(
        &[
            r#"{"functionCall":{"id":"1","name":"f","willContinue":true},"thoughtSignature":"S="}"#,
            r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.city","stringValue":"Par","willContinue":true}],"willContinue":true}}"#,
            r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.city","stringValue":"is"},{"jsonPath":"$.n","numberValue":1e2}],"willContinue":true}}"#,
            r#"{"functionCall":{}}"#,
            r#"{"functionCall":{"id":"2","name":"g","args":{}}}"#,
        ],
        "STOP",
    );
    assert_eq!(
        runnable(&message),
        [("f", r#"{"city":"Paris","n":1e2}"#), ("g", "{}")]
    );
    assert_eq!(
        message.native[0].get(),
        r#"{"functionCall":{"id":"1","name":"f","args":{"city":"Paris","n":1e2}},"thoughtSignature":"S="}"#
    );
    // Never closed: what came may not be all of it.
    let open = of(
        &[r#"{"functionCall":{"name":"f","willContinue":true}}"#],
        "MAX_TOKENS",
    );
    assert!(runnable(&open).is_empty() && open.native.is_empty());
}

#[test]
fn every_reason_has_its_meaning() {
    let text = r#"{"text":"a"}"#;
    for (raw, reason) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxOutput),
        ("SAFETY", StopReason::Refusal),
        ("MALFORMED_FUNCTION_CALL", StopReason::Interrupted),
        ("OTHER", StopReason::Interrupted),
        ("FUNCTION_CALL", StopReason::Other),
    ] {
        let stop = of(&[text], raw).stop.unwrap();
        assert_eq!(stop.reason, reason, "{raw}");
        assert_eq!(stop.message.as_deref(), Some("why"));
    }
    let error = decode(
        Api::GeminiContents,
        &sse(&[&finish("MALFORMED_FUNCTION_CALL")]),
    );
    assert!(error.unwrap_err().retryable);
    let error = decode(
        Api::GeminiContents,
        &sse(&[&finish("MISSING_THOUGHT_SIGNATURE")]),
    );
    assert_eq!(
        error.unwrap_err().rule.as_deref(),
        Some("missing_signature")
    );
}

#[test]
fn a_blocked_prompt_is_a_refusal() {
    let blocked =
        r#"{"promptFeedback":{"blockReason":"OTHER"},"usageMetadata":{"promptTokenCount":4}}"#;
    let message = read(&[blocked]);
    let stop = message.stop.clone().unwrap();
    assert_eq!(stop.reason, StopReason::Refusal);
    assert_eq!(stop.category.as_deref(), Some("OTHER"));
    assert!(message.is_empty());
}

#[test]
fn counts_include_thoughts_and_tools() {
    let usage = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"toolUsePromptTokenCount":2,"cachedContentTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":5}}"#;
    let usage = read(&[usage]).usage.unwrap();
    assert_eq!((usage.input, usage.output), (Some(12), Some(8)));
    assert_eq!((usage.cache_read, usage.reasoning), (Some(4), Some(5)));
}

#[test]
fn an_array_in_pieces_is_a_stream() {
    let first = parts(r#"{"text":"a"}"#);
    let body = format!("[{first}\n,\r\n{}]", finish("STOP"));
    assert_eq!(content(&decode(Api::GeminiContents, &body).unwrap()), "a");
    let message = decode(Api::GeminiContents, &format!("[{first},\n{{\"cand")).unwrap();
    assert_eq!(message.stop_reason(), StopReason::Interrupted);
    let error = r#"[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"t/RetryInfo","retryDelay":"2s"}]}}]"#;
    let error = decode(Api::GeminiContents, error).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::RateLimited);
    assert_eq!(error.retry_after, Some(std::time::Duration::from_secs(2)));
}

#[test]
fn what_came_after_a_token_is_dropped_when_the_response_goes_on_from_it() {
    let mut decoder = Decoder::new(Api::GeminiContents, Origin::new("a", "p", "m"));
    let mut events = Vec::new();
    let token = r#"{"candidates":[{"content":{"parts":[{"text":"one"}]},"continuationToken":"dG9r"}],"usageMetadata":{"candidatesTokenCount":1}}"#;
    let body = sse(&[token, &parts(r#"{"text":" tw"}"#)]);
    decoder.push(body.as_bytes(), &mut events).unwrap();
    let handle = r#"{"continuation_token":"dG9r","text_bytes":3}"#;
    assert_eq!(decoder.handle().unwrap().get(), handle);
    assert!(decoder.resume());
    let end = r#"{"candidates":[{"content":{"parts":[{"text":" two"}]},"finishReason":"STOP"}],"usageMetadata":{"candidatesTokenCount":2}}"#;
    decoder.push(sse(&[end]).as_bytes(), &mut events).unwrap();
    decoder.finish(&mut events).unwrap();
    let Some(ModelEvent::Done(message)) = events.pop() else {
        panic!("no message");
    };
    assert_eq!(content(&message), "one two");
    assert_eq!(message.usage.unwrap().output, Some(3));
    // As the end of a response it says that the same request carries on.
    let paused = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"CONTINUATION","continuationToken":"x"}]}"#;
    let stop = read(&[paused]).stop.unwrap();
    assert_eq!(stop.reason, StopReason::Paused);
    assert_eq!(stop.detail.unwrap().get(), r#"{"continuation_token":"x"}"#);
}

#[test]
fn a_stop_before_the_code_ran_is_no_end() {
    let code = r#"{"candidates":[{"content":{"parts":[{"executableCode":{"code":"1"}}]},"finishReason":"STOP"}]}"#;
    let result = parts(r#"{"codeExecutionResult":{"output":"1"}}"#);
    let end = r#"{"candidates":[{"content":{"parts":[{"text":"1"}]},"finishReason":"STOP"}]}"#;
    for (events, reason) in [
        (&[code][..], StopReason::Interrupted),
        (&[code, &result], StopReason::Interrupted),
        (&[code, &result, end], StopReason::EndTurn),
        (
            &[code, &result, end, &parts(r#"{"text":""}"#)],
            StopReason::EndTurn,
        ),
    ] {
        assert_eq!(read(events).stop_reason(), reason, "{}", events.len());
    }
}
