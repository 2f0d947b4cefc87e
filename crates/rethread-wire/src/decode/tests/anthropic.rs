use super::*;

fn read(events: &[&str]) -> Assistant {
    message(Api::AnthropicMessages, events)
}

const END: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;

#[test]
fn blocks_may_overlap_and_end_in_any_order() {
    let message = read(&[
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"b","name":"two"}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"be"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"n\":"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"gin"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1e2}"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
    ]);
    assert_eq!(content(&message), "begin");
    assert_eq!(runnable(&message), [("two", r#"{"n":1e2}"#)]);
    let native: Vec<&str> = message.native.iter().map(|json| json.get()).collect();
    assert_eq!(
        native,
        [
            r#"{"type":"text","text":"begin"}"#,
            r#"{"type":"tool_use","id":"b","name":"two","input":{"n":1e2}}"#,
        ]
    );
}

#[test]
fn a_block_that_only_began_is_no_output() {
    for block in [
        r#"{"type":"text","text":""}"#,
        r#"{"type":"thinking","thinking":"","signature":""}"#,
    ] {
        let start =
            format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#);
        let error = decode(Api::AnthropicMessages, &sse(&[&start])).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Interrupted);
        assert!(error.is_retryable());
        let signature = r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#;
        let signed = read(&[&start, signature]);
        assert_eq!(signed.stop_reason(), StopReason::Interrupted);
    }
}

#[test]
fn an_index_may_be_used_again() {
    let message = read(&[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}"#,
        END,
    ]);
    assert_eq!(content(&message), "ab");
    assert_eq!(message.native.len(), 2);
}

#[test]
fn only_signed_thinking_goes_back() {
    let message = read(&[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"a//b=="}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"x","signature":""}}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"redacted_thinking","data":"ZA=="}}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"container_upload","file_id":"f"}}"#,
        r#"{"type":"content_block_start","index":4,"content_block":{"type":"hologram","k":[1.50]}}"#,
        r#"{"type":"content_block_start","index":5,"content_block":{"type":"text","text":" \n"}}"#,
        END,
    ]);
    let native: Vec<&str> = message.native.iter().map(|json| json.get()).collect();
    assert_eq!(
        native,
        [
            r#"{"type":"thinking","thinking":"","signature":"a//b=="}"#,
            r#"{"type":"redacted_thinking","data":"ZA=="}"#,
            r#"{"type":"hologram","k":[1.50]}"#,
        ]
    );
    assert_eq!(message.reasoning.unwrap(), "x");
}

#[test]
fn citations_and_unknown_pieces_are_gathered() {
    let message = read(&[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","citations":[{"n":1}]}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"encrypted_index":"E+/="}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"t"}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"compaction","content":"a"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"compaction_delta","content":"b"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"compaction_delta","content":"c","n":2}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"compaction"}}"#,
    ]);
    let native: Vec<&str> = message.native.iter().map(|json| json.get()).collect();
    assert_eq!(
        native,
        [
            r#"{"type":"text","text":"t","citations":[{"n":1},{"encrypted_index":"E+/="}]}"#,
            r#"{"type":"compaction","content":"abc","n":2}"#,
        ]
    );
    assert_eq!(message.stop_reason(), StopReason::Paused);
}

#[test]
fn an_input_that_was_cut_is_kept_and_does_not_run() {
    let message = read(&[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"write","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"n"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}"#,
    ]);
    assert_eq!(message.stop_reason(), StopReason::MaxOutput);
    assert!(runnable(&message).is_empty() && message.native.is_empty());
    let undecoded = message.tool_calls[0].undecoded.clone().unwrap();
    assert_eq!(undecoded.text.unwrap(), r#"{"path":"n"#);
}

#[test]
fn a_refusal_says_why_and_keeps_no_call() {
    let message = read(&[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"write","input":{}}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"no","recommended_model":"m"}}}"#,
    ]);
    let stop = message.stop.clone().unwrap();
    assert_eq!(stop.reason, StopReason::Refusal);
    assert_eq!(stop.category.as_deref(), Some("cyber"));
    assert_eq!(stop.message.as_deref(), Some("no"));
    assert!(message.tool_calls.is_empty() && message.native.is_empty());
    assert_eq!(
        stop.detail.unwrap().get(),
        r#"{"recommended_model":"m","withheld_tool_calls":["write"]}"#
    );
}

#[test]
fn a_servers_own_call_goes_back_only_where_it_can() {
    let events = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
    ];
    let result = r#"{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":[]}}"#;
    let closed = r#"{"type":"content_block_stop","index":1}"#;
    let paused = r#"{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}"#;
    let count = |more: &[&str]| read(&[&events[..], more].concat()).native.len();
    assert_eq!(count(&[paused]), 1);
    assert_eq!(count(&[]), 0);
    assert_eq!(count(&[result, closed]), 2);
    assert_eq!(count(&[result]), 0, "the result may not be whole");
}

#[test]
fn counts_add_up_and_last() {
    let message = read(&[
        r#"{"type":"message_start","message":{"usage":{"input_tokens":1,"cache_creation_input_tokens":2,"cache_read_input_tokens":4,"output_tokens":1}}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":10,"output_tokens":7,"output_tokens_details":{"thinking_tokens":3}}}"#,
    ]);
    let usage = message.usage.unwrap();
    assert_eq!(usage.input, Some(16));
    assert_eq!((usage.cache_read, usage.cache_write), (Some(4), Some(2)));
    assert_eq!((usage.output, usage.reasoning), (Some(7), Some(3)));
}

#[test]
fn a_whole_body_reads_like_a_stream() {
    let body = r#"{"id":"m","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"a"},{"type":"tool_use","id":"c","name":"n","input":{"x": 1.0}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}"#;
    let message = decode(Api::AnthropicMessages, body).unwrap();
    assert_eq!(content(&message), "a");
    assert_eq!(runnable(&message), [("n", r#"{"x": 1.0}"#)]);
    assert_eq!(message.native.len(), 3);
    assert_eq!(
        message.native[2].get(),
        r#"{"type":"tool_use","id":"c","name":"n","input":{"x": 1.0}}"#
    );
}

#[test]
fn a_lone_surrogate_is_kept_in_the_view_and_mended_for_sending() {
    let message = read(&[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a\ud83d"}}"#,
        END,
    ]);
    assert_eq!(
        serde_json::to_string(&message.content).unwrap(),
        r#""a\ud83d""#
    );
    assert_eq!(
        message.native[0].get(),
        r#"{"type":"text","text":"a\ufffd"}"#
    );
}
