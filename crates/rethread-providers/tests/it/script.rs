use std::sync::Arc;

use rethread_core::{
    Agent, Error, Event, Message, Model, ModelErrorKind, ModelEvent, PromptOptions, StopReason,
};
use rethread_providers::{Script, ScriptModel, script_tools};

use crate::collect;

fn agent(script: &str) -> Agent {
    let script = Script::from_json(script).unwrap();
    let agent = Agent::builder()
        .model(script.model())
        .tools(script_tools(&script));
    agent.build().unwrap()
}

#[tokio::test]
async fn replies_are_played_in_order_and_then_for_ever() {
    let session = agent(
        r#"{"replies":[{"tool_calls":[{"id":"a","name":"look","arguments":{"at":"x"}}]},{"text":"two"}],
            "then":{"text":"EXTRA"},"tools":{"look":{"result":"saw {at}"}}}"#,
    )
    .session("s");
    assert_eq!(session.run("go").await.unwrap().text(), "two");
    assert_eq!(session.run("go").await.unwrap().text(), "EXTRA");
    assert_eq!(session.run("go").await.unwrap().text(), "EXTRA");
    let history = session.history().await.unwrap();
    let result = history.messages().find_map(Message::as_tool).unwrap();
    assert_eq!(result.content.to_text(), "saw x");
}

#[tokio::test]
async fn a_script_without_an_end_says_so() {
    let error = agent(r#"{"replies":[]}"#)
        .session("s")
        .run("go")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no `then`"), "{error}");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn errors_are_final_and_the_next_reply_comes_after_them() {
    let agent =
        agent(r#"{"replies":[{"error":"connection"},{"error":"overloaded"},{"text":"x"}]}"#);
    let session = agent.session("s");
    for kind in [ModelErrorKind::Interrupted, ModelErrorKind::Overloaded] {
        let run = if kind == ModelErrorKind::Interrupted {
            session.run("go")
        } else {
            session.resume()
        };
        match run.await.unwrap_err() {
            Error::Model(error) => assert_eq!((error.kind, error.retryable), (kind, false)),
            other => panic!("{other}"),
        }
    }
    assert_eq!(session.resume().await.unwrap().text(), "x");
}

#[tokio::test]
async fn a_dropped_connection_leaves_what_came() {
    let agent = agent(
        r#"{"replies":[{"text":"0123456789abc","cut_after":10,"error":"connection"},{"text":"whole"}]}"#,
    );
    let session = agent.session("s");
    let cut = session.run("go").await.unwrap();
    assert_eq!(cut.text(), "0123456789");
    assert_eq!(cut.stop().unwrap().reason, StopReason::Interrupted);
    assert_eq!(session.resume().await.unwrap().text(), "whole");
}

#[tokio::test]
async fn a_raw_stop_is_read_and_its_calls_are_withheld() {
    let call = r#"[{"id":"a","name":"look","arguments":{}}]"#;
    for (stop, reason, calls) in [
        ("length", StopReason::MaxOutput, 1),
        ("content_filter", StopReason::Refusal, 0),
        ("brand_new", StopReason::Other, 1),
    ] {
        let script =
            format!(r#"{{"replies":[{{"text":"t","tool_calls":{call},"stop":"{stop}"}}]}}"#);
        let mut prompt = ScriptModel::from_json(&script)
            .unwrap()
            .prompt(&PromptOptions::default());
        let (mut events, _) = collect(prompt.send()).await;
        let Some(ModelEvent::Done(response)) = events.pop() else {
            panic!("no response")
        };
        assert_eq!(response.stop_reason(), reason);
        assert_eq!(response.tool_calls.len(), calls);
        if calls == 0 {
            let detail = response.stop.unwrap().detail.unwrap();
            assert_eq!(detail.get(), r#"{"withheld_tool_calls":["look"]}"#);
        }
    }
}

#[tokio::test]
async fn text_comes_in_small_pieces() {
    let script = r#"{"replies":[{"reasoning":"hm","text":"a rather long text","delay_ms":1}]}"#;
    let mut prompt = ScriptModel::from_json(script)
        .unwrap()
        .prompt(&PromptOptions::default());
    let (events, error) = collect(prompt.send()).await;
    assert!(error.is_none() && events.len() > 4);
    let text: String = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "a rather long text");
}

#[tokio::test]
async fn tools_wait_ask_fail_and_leave_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let file = folder.path().join("script.json");
    let script = format!(
        r#"{{"replies":[{{"tool_calls":[{{"id":"a","name":"act","arguments":{{"n":1}}}},{{"id":"b","name":"fail","arguments":{{}}}},
                                        {{"id":"c","name":"ask","arguments":{{}}}},{{"id":"d","name":"later","arguments":{{}}}}]}}],
             "tools":{{"act":{{"result":"did {{n}}","append_to":{trace:?},"parallel":false}},"fail":{{"fail":"no"}},
                       "ask":{{"approve":true}},"later":{{"defer":true}}}}}}"#
    );
    std::fs::write(&file, script).unwrap();
    let model: Arc<dyn Model> = Arc::new(ScriptModel::open(&file).unwrap());
    let tools = script_tools(&Script::open(&file).unwrap());
    let agent = Agent::builder()
        .shared_model(model)
        .tools(tools)
        .build()
        .unwrap();
    let mut run = agent.session("s").stream("go");
    let mut seen = Vec::new();
    while let Some(event) = run.next().await {
        match event {
            Event::ToolCompleted { call_id, .. } => seen.push(format!("{call_id} done")),
            Event::ToolFailed { call_id, error, .. } => seen.push(format!("{call_id} {error}")),
            Event::ToolSuspended { call_id, wait, .. } => seen.push(format!("{call_id} {wait:?}")),
            _ => {}
        }
    }
    seen.sort();
    assert_eq!(seen, ["a done", "b no", "c Approval", "d External"]);
    assert!(matches!(run.await.unwrap_err(), Error::Suspended(_)));
    assert_eq!(std::fs::read_to_string(trace).unwrap(), "act {\"n\":1}\n");
}

#[test]
fn a_file_that_is_no_script_is_named() {
    let error = ScriptModel::open("/nowhere/script.json").unwrap_err();
    assert!(
        error.to_string().contains("/nowhere/script.json"),
        "{error}"
    );
}
