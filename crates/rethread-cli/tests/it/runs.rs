//! `run` and `resume`: outcomes, exit codes, documents, events.

use serde_json::{Value, json};

use crate::program::Place;

const TWO_TOOLS: &str = r#"{
  "replies": [
    {"text": "Reading.", "tool_calls": [
      {"id": "a", "name": "read_file", "arguments": {"x": "1"}},
      {"id": "b", "name": "boom", "arguments": {}}]},
    {"text": "All read."}],
  "tools": {"read_file": {"result": "ran {x}"}, "boom": {"fail": "no luck"}}
}"#;

#[test]
fn a_run_prints_its_answer_and_says_the_rest_aside() {
    let place = Place::with_script(TWO_TOOLS);
    let ran = place.ends(0, &["run", "Read it", "--session", "s"]);
    assert_eq!(ran.stdout, "Reading.\nAll read.\n");
    insta::assert_snapshot!(ran.stderr);
}

#[test]
fn the_document_holds_answer_tools_and_requests() {
    let place = Place::with_script(TWO_TOOLS);
    let done = place.json(
        0,
        &["run", "Read it", "--session", "s", "--record-requests"],
    );
    assert_eq!(done["session"], "s");
    assert_eq!(done["outcome"], "answered");
    assert_eq!(done["answer"], "All read.");
    assert_eq!(done["model_calls"], 2);
    assert_eq!(
        done["tool_runs"],
        json!([["read_file", {"x": "1"}], ["boom", {}]])
    );
    let roles = |request: &Value| -> Vec<String> {
        let messages = request.as_array().unwrap().iter();
        messages
            .map(|message| message["role"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(roles(&done["requests"][0]), ["user"]);
    assert_eq!(
        roles(&done["requests"][1]),
        ["user", "assistant", "tool", "tool"]
    );
    assert_eq!(done["requests"][1][3]["success"], false);
    // Without being asked for they are left out.
    let again = place.json(1, &["run", "Read it", "--session", "s"]);
    assert_eq!(again.get("requests"), None);
}

#[test]
fn every_outcome_has_its_exit_code() {
    let place = Place::new();
    for (name, script, code, outcome) in [
        ("answered", r#"{"replies":[{"text":"x"}]}"#, 0, "answered"),
        (
            "long",
            r#"{"replies":[{"text":"x","stop":"length"}]}"#,
            1,
            "stopped",
        ),
        (
            "cut",
            r#"{"replies":[{"text":"abcdefgh","error":"connection","cut_after":3}]}"#,
            1,
            "stopped",
        ),
        (
            "down",
            r#"{"replies":[{"error":"connection"}]}"#,
            1,
            "failed",
        ),
        ("out", r#"{"replies":[]}"#, 1, "failed"),
        (
            "waits",
            r#"{"replies":[{"tool_calls":[{"id":"a","name":"t","arguments":{}}]}],"tools":{"t":{"defer":true}}}"#,
            5,
            "suspended",
        ),
    ] {
        place.write("script.json", script);
        let done = place.json(code, &["run", "go", "--session", name]);
        assert_eq!(done["outcome"], outcome, "{done}");
        assert_eq!(
            done.get("reason").is_some(),
            done.get("answer").is_none(),
            "{done}"
        );
    }
    let done = place.json(3, &["resume", "answered"]);
    assert_eq!(
        (&done["outcome"], &done["reason"]),
        (&json!("not_resumable"), &json!("completed"))
    );
    let done = place.json(5, &["resume", "waits"]);
    assert_eq!(done["outcome"], "suspended");
    assert_eq!(
        done["waiting"],
        json!([{"id": "a", "name": "t", "for": "external", "arguments": {}}])
    );
}

#[test]
fn a_run_that_failed_says_how_to_go_on_and_a_resume_does() {
    let place = Place::new();
    place.write("down.json", r#"{"replies":[{"error":"overloaded"}]}"#);
    place.write("up.json", r#"{"replies":[{"text":"Here I am."}]}"#);
    let ran = place.ends(
        1,
        &["run", "go", "--session", "s", "--model", "script:down.json"],
    );
    insta::assert_snapshot!("failed", ran.stderr);
    let ran = place.ends(0, &["resume", "s", "--model", "script:up.json"]);
    assert_eq!(ran.stdout, "Here I am.\n");
    insta::assert_snapshot!("resumed", ran.stderr);
}

#[test]
fn a_step_limit_ends_a_run_and_a_resume_grants_a_new_one() {
    let place = Place::with_script(TWO_TOOLS);
    let done = place.json(1, &["run", "go", "--session", "s", "--max-steps", "1"]);
    assert_eq!(
        (&done["outcome"], &done["model_calls"]),
        (&json!("failed"), &json!(1))
    );
    let done = place.json(0, &["resume", "s", "--max-steps", "1"]);
    assert_eq!(done["answer"], "All read.");
}

#[test]
fn events_are_appended_one_a_line() {
    let place = Place::with_script(TWO_TOOLS);
    place.ends(
        0,
        &["run", "Read it", "--session", "s", "--events", "log.jsonl"],
    );
    let lines = || -> Vec<Value> {
        let log = place.read("log.jsonl");
        log.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let events = lines();
    let seen: Vec<(&str, &str)> = events
        .iter()
        .map(|event| {
            let call = event.get("call_id").and_then(Value::as_str).unwrap_or("");
            (event["type"].as_str().unwrap(), call)
        })
        .filter(|(kind, _)| !kind.ends_with("_delta"))
        .collect();
    assert_eq!(
        seen[..3],
        [
            ("run_started", ""),
            ("model_started", ""),
            ("model_completed", "")
        ]
    );
    assert_eq!(seen[3..5], [("tool_started", "a"), ("tool_started", "b")]);
    assert!(seen.contains(&("tool_completed", "a")) && seen.contains(&("tool_failed", "b")));
    assert_eq!(seen.last(), Some(&("run_ended", "")));
    let before = events.len();
    place.ends(3, &["resume", "s", "--events", "log.jsonl"]);
    place.ends(
        1,
        &["run", "More", "--session", "s", "--events", "log.jsonl"],
    );
    assert!(lines().len() > before);
}

#[test]
fn instructions_are_a_file_or_a_text_and_a_resume_keeps_them() {
    let place = Place::new();
    place.write(
        "down.json",
        r#"{"replies":[{"error":"connection"}],"then":{"text":"ok"}}"#,
    );
    place.write("be.md", "Be brief.");
    let setups = |session: &str| -> Vec<String> {
        let shown = place.json(0, &["show", session]);
        let entries = shown["entries"].as_array().unwrap().clone();
        let texts = entries
            .iter()
            .filter_map(|entry| entry["setup"]["instructions"].as_str());
        texts.map(str::to_owned).collect()
    };
    for (session, given) in [("file", "be.md"), ("text", "Be brief.")] {
        let model = ["--model", "script:down.json"];
        let run = ["run", "go", "--session", session, "--instructions", given];
        place.ends(1, &[&run[..], &model].concat());
        place.write("up.json", r#"{"replies":[],"then":{"text":"ok"}}"#);
        place.ends(0, &["resume", session, "--model", "script:up.json"]);
        assert_eq!(setups(session), ["Be brief."]);
    }
    let ran = place.ends(
        2,
        &[
            "run",
            "go",
            "--instructions",
            "no/such.md",
            "--model",
            "script:up.json",
        ],
    );
    assert!(ran.stderr.contains("cannot read `no/such.md`"), "{ran:?}");
}

#[test]
fn a_message_is_read_from_standard_input() {
    let place = Place::with_script(r#"{"replies":[{"text":"ok"}]}"#);
    place.write("message", "From a file\n");
    let output = place
        .command(&["run", "-", "--session", "s"])
        .stdin(std::fs::File::open(place.path("message")).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success());
    let shown = place.json(0, &["show", "s"]);
    assert_eq!(shown["messages"][0]["content"], "From a file\n");
}

#[test]
fn a_stop_that_is_refused_can_be_overridden() {
    let place = Place::with_script(
        r#"{"replies":[{"text":"No.","stop":"content_filter"},{"text":"Yes."}]}"#,
    );
    place.ends(1, &["run", "go", "--session", "s"]);
    assert_eq!(place.json(3, &["resume", "s"])["reason"], "refused");
    assert_eq!(
        place.json(0, &["resume", "s", "--override-stop"])["answer"],
        "Yes."
    );
}

#[test]
fn a_dry_run_says_what_would_be_sent_and_writes_nothing() {
    let place = Place::new();
    let call =
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"a","name":"t","arguments":{}}]}"#;
    place.import(
        "s",
        &format!(r#"[{{"role":"user","content":"go"}},{call}]"#),
    );
    let before = place.json(0, &["show", "s"]);
    let plan = place.json(0, &["resume", "s", "--dry-run"]); // no model is needed
    assert_eq!(plan["would_add"][0]["tool_call_id"], "a");
    assert_eq!(plan["would_add"][0]["success"], false);
    let roles: Vec<_> = plan["request"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].clone())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);
    assert_eq!(place.json(0, &["show", "s"]), before);
}

#[test]
fn the_last_session_goes_on_and_a_new_one_gets_an_id() {
    let place = Place::with_script(r#"{"replies":[{"text":"one"},{"text":"two"}]}"#);
    let first = place.json(0, &["run", "first"]);
    let second = place.json(0, &["run", "second", "--last"]);
    assert_eq!(first["session"], second["session"]);
    assert_eq!(second["answer"], "two");
    let other = place.json(0, &["run", "third"]);
    assert_ne!(first["session"], other["session"]);
    assert_eq!(other["session"].as_str().unwrap().len(), 8);
}
