use super::*;

fn read(events: &[&str]) -> Assistant {
    message(Api::OpenAiChat, events)
}

fn chunk(delta: &str) -> String {
    format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

fn finish(reason: &str) -> String {
    format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

/// The message of some deltas and a finish reason.
fn of(deltas: &[&str], reason: &str) -> Assistant {
    let mut events: Vec<String> = deltas.iter().map(|delta| chunk(delta)).collect();
    events.push(finish(reason));
    read(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

fn calls(message: &Assistant) -> Vec<(&str, &str)> {
    runnable(message)
}

#[test]
fn calls_are_told_apart_however_they_come() {
    let two = [("a", r#"{"x":1}"#), ("b", r#"{"y":2}"#)];
    for deltas in [
        // Interleaved, in reverse order within a chunk.
        vec![
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\""}},{"index":1,"id":"2","function":{"name":"b","arguments":"{"}}]}"#,
            r#"{"tool_calls":[{"index":1,"function":{"arguments":"\"y\":2}"}},{"index":0,"function":{"arguments":":1}"}}]}"#,
        ],
        // Id and name again in every piece.
        vec![
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\""}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":":1}"}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"2","function":{"name":"b","arguments":"{\"y\":2}"}}]}"#,
        ],
        // Whole calls, all at one index.
        vec![
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\":1}"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"2","function":{"name":"b","arguments":"{\"y\":2}"}}]}"#,
        ],
        // The same, without ids.
        vec![
            r#"{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{\"x\":1}"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"name":"b","arguments":"{\"y\":2}"}}]}"#,
        ],
        // Neither index nor id.
        vec![
            r#"{"tool_calls":[{"function":{"name":"a","arguments":"{\"x\":1}"}},{"function":{"name":"b","arguments":"{\"y\":2}"}}]}"#,
        ],
        vec![
            r#"{"tool_calls":[{"function":{"name":"a","arguments":""}}]}"#,
            r#"{"tool_calls":[{"function":{"arguments":"{\"x\":1}"}}]}"#,
            r#"{"tool_calls":[{"function":{"name":"b","arguments":"{\"y\""}}]}"#,
            r#"{"tool_calls":[{"function":{"arguments":":2}"}}]}"#,
        ],
        // Arguments as an object; nulls everywhere else.
        vec![
            r#"{"role":null,"content":null,"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":{"x":1}}}]}"#,
            r#"{"tool_calls":null}"#,
            r#"{"tool_calls":[{"index":1,"id":"2","function":{"name":"b","arguments":{"y":2}}}]}"#,
        ],
    ] {
        let message = of(&deltas, "stop");
        assert_eq!(calls(&message), two, "{deltas:?}");
        assert_eq!(message.stop_reason(), StopReason::ToolUse);
        let ids: Vec<&str> = message
            .tool_calls
            .iter()
            .map(|call| call.id.as_str())
            .collect();
        assert!(!ids[0].is_empty() && ids[0] != ids[1], "{ids:?}");
        let native = native(&message);
        assert_eq!(native[0]["tool_calls"][0]["id"], ids[0]);
        assert_eq!(
            native[0]["tool_calls"][1]["function"]["arguments"],
            r#"{"y":2}"#
        );
    }
}

#[test]
fn the_message_goes_back_as_one_object() {
    let message = of(
        &[
            r#"{"role":"assistant","content":"","reasoning_content":"be"}"#,
            r#"{"reasoning_content":"cause"}"#,
            r#"{"content":"so","annotations":[{"type":"url_citation"}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"a","arguments":""},"extra_content":{"google":{"thought_signature":"S+/="}}}]}"#,
        ],
        "tool_calls",
    );
    assert_eq!(
        message.native[0].get(),
        concat!(
            r#"{"role":"assistant","content":"so","reasoning_content":"because","#,
            r#""annotations":[{"type":"url_citation"}],"tool_calls":[{"id":"1","type":"function","#,
            r#""function":{"name":"a","arguments":"{}"},"#,
            r#""extra_content":{"google":{"thought_signature":"S+/="}}}]}"#
        )
    );
    assert_eq!(message.reasoning.unwrap(), "because");
}

#[test]
fn reasoning_is_shown_once_and_kept_in_every_field() {
    let message = of(
        &[
            r#"{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","format":"f","index":0}]}"#,
            r#"{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","signature":null,"index":0}]}"#,
            r#"{"reasoning":null,"reasoning_details":[{"type":"reasoning.text","signature":"S/=","index":0},{"type":"reasoning.encrypted","data":"D+","index":1}]}"#,
            r#"{"content":"t"}"#,
        ],
        "stop",
    );
    assert_eq!(message.reasoning.clone().unwrap(), "ab");
    let want: Value = serde_json::from_str(
        r#"[{"type":"reasoning.text","text":"ab","format":"f","index":0,"signature":"S/="},{"type":"reasoning.encrypted","data":"D+","index":1}]"#,
    )
    .unwrap();
    assert_eq!(native(&message)[0]["reasoning_details"], want);
    let both = of(
        &[
            r#"{"reasoning":"a","reasoning_content":"a"}"#,
            r#"{"content":"t"}"#,
        ],
        "stop",
    );
    assert_eq!(both.reasoning.unwrap(), "a");
}

#[test]
fn listed_content_is_one_text() {
    let message = of(
        &[
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}]}"#,
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"m"}]}]}"#,
            r#"{"content":[{"type":"text","text":"a"}]}"#,
            r#"{"content":"b"}"#,
        ],
        "stop",
    );
    assert_eq!(content(&message), "ab");
    assert_eq!(message.reasoning.clone().unwrap(), "hm");
    let want: Value = serde_json::from_str(
        r#"[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"ab"}]"#,
    )
    .unwrap();
    assert_eq!(native(&message)[0]["content"], want);
}

#[test]
fn a_refusal_in_a_normal_end_is_a_refusal() {
    let message = of(&[r#"{"refusal":"I "}"#, r#"{"refusal":"can't"}"#], "stop");
    assert_eq!(message.stop_reason(), StopReason::Refusal);
    assert_eq!(content(&message), "I can't");
    assert!(message.native.is_empty());
}

#[test]
fn only_the_first_candidate_is_read() {
    let other = r#"{"choices":[{"index":1,"delta":{"content":"X"},"finish_reason":"length"}]}"#;
    let message = read(&[
        &chunk(r#"{"content":"a"}"#),
        other,
        &chunk(r#"{"content":"b"}"#),
        &finish("stop"),
    ]);
    assert_eq!(content(&message), "ab");
    assert_eq!(message.stop_reason(), StopReason::EndTurn);
}

#[test]
fn an_end_may_say_more_than_its_reason() {
    let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"END"}]}"#;
    let message = read(&[&chunk(r#"{"content":"a"}"#), end]);
    assert_eq!(
        message.stop.unwrap().detail.unwrap().get(),
        r#"{"native_finish_reason":"END"}"#
    );
    let empty = r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":""}]}"#;
    assert_eq!(read(&[empty]).stop_reason(), StopReason::Interrupted);
    let failed = r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"insufficient_system_resource"}]}"#;
    let error = decode(Api::OpenAiChat, &sse(&[failed])).unwrap_err();
    assert!(error.retryable && error.code.as_deref() == Some("insufficient_system_resource"));
}

#[test]
fn a_custom_tool_takes_free_text() {
    let deltas = [
        r#"{"tool_calls":[{"index":0,"id":"1","type":"custom","custom":{"name":"sql","input":"select \""}}]}"#,
        r#"{"tool_calls":[{"index":0,"custom":{"input":"a\""}}]}"#,
    ];
    let message = of(&deltas, "tool_calls");
    assert_eq!(calls(&message), [("sql", r#"{"input":"select \"a\""}"#)]);
    let native = native(&message);
    assert_eq!(
        native[0]["tool_calls"][0]["custom"]["input"],
        "select \"a\""
    );
    // Nothing says whether the text was whole.
    assert!(calls(&of(&deltas, "length")).is_empty());
}

#[test]
fn a_shape_is_never_mistaken() {
    let message = read(&[
        &chunk(r#"{"content":"a"}"#),
        &chunk(r#"{"content":"b\n"}"#),
        &chunk(r#"{"content":"\u00e9"}"#),
        &chunk(r#"{"reasoning_content":"x"}"#),
        &chunk(r#"{"reasoning_content":"y"}"#),
        &chunk(r#"{"content":"c"}"#),
        &chunk(r#"{"refusal":"c"}"#),
        &chunk(r#"{"content":null}"#),
        &finish("stop"),
    ]);
    assert_eq!(content(&message), "ab\néc");
    assert_eq!(message.reasoning.unwrap(), "xy");
}

#[test]
fn counts_are_read_in_every_spelling() {
    for (usage, read, reasoning) in [
        (
            r#"{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":1}}"#,
            Some(3),
            Some(1),
        ),
        (
            r#"{"prompt_tokens":5,"completion_tokens":2,"prompt_cache_hit_tokens":3}"#,
            Some(3),
            None,
        ),
        (
            r#"{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":null}"#,
            None,
            None,
        ),
    ] {
        let body = format!(
            r#"{{"id":"x","object":"chat.completion","choices":[{{"index":0,"message":{{"role":"assistant","content":"a"}},"finish_reason":"stop"}}],"usage":{usage}}}"#
        );
        let message = decode(Api::OpenAiChat, &body).unwrap();
        let counts = message.usage.unwrap();
        assert_eq!((counts.input, counts.output), (Some(5), Some(2)));
        assert_eq!(
            (counts.cache_read, counts.reasoning),
            (read, reasoning),
            "{usage}"
        );
    }
}
