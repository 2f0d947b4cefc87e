//! Runs that are really killed, cancelled and contested.

use serde_json::json;

use crate::program::Place;

const THREE: &str = r#"{
  "replies": [
    {"tool_calls": [
      {"id": "a", "name": "first", "arguments": {"n": 1}},
      {"id": "b", "name": "second", "arguments": {"n": 2}},
      {"id": "c", "name": "third", "arguments": {"n": 3}}]},
    {"text": "It is done."}],
  "tools": {
    "first": {"parallel": false, "result": "one", "append_to": "effects.log"},
    "second": {"parallel": false, "result": "two", "delay_ms": 600000},
    "third": {"parallel": false, "result": "three", "append_to": "effects.log"}}
}"#;

#[test]
fn a_killed_run_is_explained_and_carried_on_and_no_tool_runs_twice() {
    let place = Place::with_script(THREE);
    let mut run = place.start(&["run", "go", "--session", "s"]);
    run.wait_for("tool_started", "b");
    run.kill();

    let point = place.json(0, &["why", "s"]);
    assert_eq!(point["cause"], "crashed");
    assert_eq!(
        point["unanswered"],
        json!([
            {"id": "b", "name": "second", "state": "unknown"},
            {"id": "c", "name": "third", "state": "not_started"},
        ])
    );
    insta::assert_snapshot!(place.ends(0, &["why", "s"]).stdout);
    assert_eq!(place.json(0, &["ls"])[0]["status"], "interrupted");

    let done = place.json(0, &["resume", "s", "--record-requests"]);
    assert_eq!(done["answer"], "It is done.");
    assert_eq!(done["tool_runs"], json!([]));
    let request = &done["requests"][0];
    assert_eq!(request[2]["content"], "one", "what arrived is kept");
    assert_eq!(
        (&request[3]["success"], &request[4]["success"]),
        (&json!(false), &json!(false))
    );
    assert_ne!(
        request[3]["content"], request[4]["content"],
        "the true state of each is told"
    );
    assert_eq!(place.read("effects.log"), "first {\"n\": 1}\n");
}

#[test]
fn a_response_that_was_killed_while_it_streamed_keeps_its_draft() {
    let place = Place::with_script(
        r#"{"replies":[{"text":"Once upon a time","error":"hang","cut_after":16}],"then":{"text":"The end."}}"#,
    );
    let mut run = place.start(&["run", "Tell me", "--session", "s"]);
    run.wait_for("text_delta", "");
    let (code, said) = run.interrupt();
    assert_eq!(code, Some(130));
    assert!(said.contains("go on with `rethread resume s`"), "{said}");
    let point = place.json(0, &["why", "s"]);
    assert_eq!(
        (&point["kind"], &point["cause"]),
        (&json!("call_model"), &json!("cancelled"))
    );
    assert!("Once upon a time".starts_with(point["draft"]["text"].as_str().unwrap()));
}

#[test]
fn a_session_at_work_names_its_holder_and_is_left_alone() {
    let place = Place::with_script(THREE);
    let mut run = place.start(&["run", "go", "--session", "s"]);
    run.wait_for("tool_started", "b");
    let pid = run.child.id();

    let row = &place.json(0, &["ls"])[0];
    assert_eq!(row["status"], "running");
    assert!(
        row["holder"]
            .as_str()
            .unwrap()
            .contains(&format!("process {pid}")),
        "{row}"
    );
    assert!(
        place
            .ends(0, &["why", "s"])
            .stdout
            .contains(&format!("process {pid}"))
    );
    let before = place.json(0, &["show", "s"]);
    for args in [
        &["resume", "s"][..],
        &["run", "more", "--session", "s"],
        &["rm", "s", "--yes"],
        &["answer", "s", "b", "--result", "x"],
    ] {
        let ran = place.ends(4, args);
        let last = ran.stderr.lines().last().unwrap();
        assert!(
            last.contains(&format!("in use by process {pid}")),
            "{ran:?}"
        );
    }
    assert_eq!(place.json(4, &["resume", "s"])["outcome"], "busy");
    assert_eq!(place.json(0, &["show", "s"]), before);

    let (code, said) = run.interrupt();
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(place.json(0, &["why", "s"])["cause"], "cancelled");
    assert_eq!(place.json(0, &["resume", "s"])["answer"], "It is done.");
}

#[test]
fn a_session_can_be_taken_over_and_the_loser_writes_nothing() {
    let place = Place::with_script(THREE);
    let mut run = place.start(&["run", "go", "--session", "s"]);
    run.wait_for("tool_started", "b");
    let done = place.json(0, &["resume", "s", "--take-over"]);
    assert_eq!(done["outcome"], "answered");
    let before = place.json(0, &["show", "s"]);
    let (code, said) = run.interrupt();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("taken over"), "{said}");
    assert_eq!(place.json(0, &["show", "s"]), before);
}
