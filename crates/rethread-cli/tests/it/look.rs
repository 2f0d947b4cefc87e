//! `why`, `show` and `ls`.

use serde_json::json;

use crate::program::Place;

const USER: &str = r#"{"role":"user","content":"Fix the parser"}"#;
const CALLS: &str = r#"{"role":"assistant","content":"On it.","tool_calls":[{"id":"a","name":"edit","arguments":{"path":"p.rs"}},{"id":"b","name":"test","arguments":{}}]}"#;

fn stopped(reason: &str) -> String {
    format!(r#"{{"role":"assistant","content":"Half of","stop":{{"reason":"{reason}"}}}}"#)
}

#[test]
fn why_says_where_each_kind_of_session_stopped() {
    let place = Place::new();
    let mut told = String::new();
    for (session, last, code) in [
        ("asked", String::new(), 0),
        ("calling", format!(",{CALLS}"), 0),
        ("cut", format!(",{}", stopped("interrupted")), 0),
        ("long", format!(",{}", stopped("max_output")), 0),
        ("paused", format!(",{}", stopped("paused")), 0),
        ("done", format!(",{}", stopped("end_turn")), 3),
        ("declined", format!(",{}", stopped("refusal")), 3),
        ("full", format!(",{}", stopped("context_full")), 3),
    ] {
        place.import(session, &format!("[{USER}{last}]"));
        let why = place.ends(code, &["why", session]);
        assert_eq!(why.stderr, "");
        told.push_str(&format!(
            "$ rethread why {session}  # exit {code}\n{}\n",
            why.stdout
        ));
    }
    insta::assert_snapshot!(told);
}

#[test]
fn why_prints_the_resume_point_and_leaves_no_trace() {
    let place = Place::new();
    place.import("s", &format!("[{USER},{CALLS}]"));
    let before = place.json(0, &["show", "s"]);
    assert_eq!(
        place.json(0, &["why", "s"]),
        json!({
            "resumable": true,
            "kind": "recover_tools",
            "description": "2 tool calls may or may not have completed: edit, test. The model will be told so and goes on; no tool is run again by itself.",
            "unanswered": [
                {"id": "a", "name": "edit", "state": "unknown"},
                {"id": "b", "name": "test", "state": "unknown"},
            ],
            "stop": null,
            "cause": null,
            "draft": null,
        })
    );
    assert_eq!(place.json(0, &["show", "s"]), before);
    place.import("d", &format!("[{USER},{}]", stopped("end_turn")));
    assert_eq!(
        place.json(3, &["why", "d"]),
        json!({"resumable": false, "reason": "completed", "description": "The last response ended normally."})
    );
}

#[test]
fn show_gives_every_message_in_order_and_every_record() {
    let place = Place::new();
    let aside = r#"{"role":"user","content":"not sent","in_context":false}"#;
    place.import(
        "s",
        &format!(r#"[{{"role":"system","content":"be kind"}},{USER},{aside},{CALLS}]"#),
    );
    let shown = place.json(0, &["show", "s"]);
    let roles: Vec<&str> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "user", "assistant"]);
    assert_eq!(shown["entries"].as_array().unwrap().len(), 5);
    assert_eq!(shown["entries"][4]["imported"]["format"], "rethread");
    insta::assert_snapshot!(place.ends(0, &["show", "s"]).stdout);
}

#[test]
fn what_is_shown_cannot_change_the_terminal() {
    let place = Place::new();
    place.import(
        "s",
        r#"[{"role":"user","content":"a\u001b[2Jb\u0007\u202ec\rd"}]"#,
    );
    let shown = place.ends(0, &["show", "s"]).stdout;
    assert_eq!(shown, "user\n  a[2Jbcd\n");
}

#[test]
fn ls_puts_what_needs_attention_first() {
    let place = Place::with_script(
        r#"{"replies":[{"tool_calls":[{"id":"a","name":"ship","arguments":{}}]}],"tools":{"ship":{"approve":true}}}"#,
    );
    place.import("cut", &format!("[{USER},{}]", stopped("interrupted")));
    place.ends(5, &["run", "Ship it\nnow", "--session", "shipping"]);
    place.import("declined", &format!("[{USER},{}]", stopped("refusal")));
    place.import("done", &format!("[{USER},{}]", stopped("end_turn")));
    let listed = place.ends(0, &["ls"]);
    assert_eq!(listed.stderr, "");
    insta::assert_snapshot!(listed.stdout);
    let listed = place.json(0, &["ls", "--limit", "3"]);
    let statuses: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["session"].as_str().unwrap(),
                row["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        statuses,
        [
            ("shipping", "waiting"),
            ("cut", "interrupted"),
            ("done", "done")
        ]
    );
}

#[test]
fn without_sessions_ls_says_how_to_begin() {
    let place = Place::new();
    let mut command = place.command(&["ls"]);
    let output = command.env_remove("RETHREAD_STORE").output().unwrap();
    assert!(output.status.success());
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("rethread demo")
    );
    assert!(!place.path(".local").exists(), "looking makes nothing");
}

#[test]
fn a_session_is_found_by_the_beginning_of_its_id() {
    let place = Place::new();
    place.import("alpha", &format!("[{USER}]"));
    place.import("alpine", &format!("[{USER},{}]", stopped("end_turn")));
    place.import("al", &format!("[{USER},{}]", stopped("interrupted")));
    let kind = |args: &[&str]| place.json(0, args)["kind"].clone();
    assert_eq!(kind(&["why", "alph"]), "call_model");
    assert_eq!(
        kind(&["why", "al"]),
        "retry_response",
        "the whole id counts first"
    );
    assert_eq!(kind(&["why", "--last"]), "retry_response");
    let ran = place.ends(2, &["why", "alp"]);
    assert!(ran.stderr.contains("several sessions: al"), "{ran:?}");
}
