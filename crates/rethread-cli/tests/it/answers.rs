//! Calls that wait for someone, answered from another process.

use serde_json::json;

use crate::program::Place;

fn waiting(tools: &str) -> Place {
    let place = Place::with_script(&format!(
        r#"{{"replies":[{{"tool_calls":[
            {{"id":"a","name":"ship","arguments":{{"x":"one"}}}},
            {{"id":"b","name":"ship","arguments":{{"x":"two"}}}}]}},
            {{"text":"Shipped."}}],
            "tools":{tools}}}"#
    ));
    place.ends(5, &["run", "Ship", "--session", "s"]);
    place
}

const APPROVE: &str = r#"{"ship":{"approve":true,"result":"shipped {x}"}}"#;
const DEFER: &str = r#"{"ship":{"defer":true}}"#;

#[test]
fn leave_lets_a_call_start_and_a_denial_does_not() {
    let place = waiting(APPROVE);
    let point = place.json(0, &["why", "s"]);
    assert_eq!(
        (&point["kind"], &point["cause"]),
        (&json!("await_results"), &json!("suspended"))
    );
    place.ends(5, &["resume", "s"]);

    place.ends(0, &["answer", "s", "a", "--approve"]);
    place.ends(5, &["resume", "s"]);
    let answered = place.json(0, &["answer", "s", "b", "--deny", "too late"]);
    assert_eq!(answered["call"], "b");
    let done = place.json(0, &["resume", "s", "--record-requests"]);
    assert_eq!(done["answer"], "Shipped.");
    let request = &done["requests"][0];
    assert_eq!(request[2]["content"], "shipped one");
    assert!(request[3]["content"].as_str().unwrap().contains("too late"));
    assert_eq!(request[3]["success"], false);
}

#[test]
fn leave_with_other_arguments_runs_with_those() {
    let place = waiting(APPROVE);
    place.ends(0, &["answer", "s", "a", "--edit", r#"{"x":"three"}"#]);
    place.ends(0, &["answer", "s", "b", "--deny"]);
    let done = place.json(0, &["resume", "s"]);
    assert_eq!(done["tool_runs"], json!([["ship", {"x": "three"}]]));
}

#[test]
fn results_made_elsewhere_are_taken_and_cannot_be_approved() {
    let place = waiting(DEFER);
    let ran = place.ends(2, &["answer", "s", "a", "--approve"]);
    assert!(ran.stderr.contains("does not wait for leave"), "{ran:?}");
    place.ends(0, &["answer", "s", "a", "--result", "by hand"]);
    place.ends(0, &["answer", "s", "b", "--failure", "lost at sea"]);
    let done = place.json(0, &["resume", "s", "--record-requests"]);
    let request = &done["requests"][0];
    assert_eq!(
        (&request[2]["content"], &request[2]["success"]),
        (&json!("by hand"), &json!(true))
    );
    assert_eq!(
        (&request[3]["content"], &request[3]["success"]),
        (&json!("lost at sea"), &json!(false))
    );
}

#[test]
fn answers_that_fit_nothing_are_refused() {
    let place = waiting(APPROVE);
    for (args, error) in [
        (
            &["answer", "s", "z", "--approve"][..],
            "session `s` has no call `z`",
        ),
        (
            &["answer", "s", "a", "--edit", "[1]"],
            "--edit is not a JSON object",
        ),
        (&["answer", "s", "a", "--edit", "{"], "--edit is not JSON"),
        (
            &["answer", "s", "a", "--approve", "--result", "x"],
            "cannot be used with",
        ),
    ] {
        let ran = place.ends(2, args);
        assert!(ran.stderr.contains(error), "{ran:?}");
    }
    place.ends(0, &["answer", "s", "a", "--approve"]);
    let ran = place.ends(2, &["answer", "s", "a", "--approve"]);
    assert!(ran.stderr.contains("may start already"), "{ran:?}");
    place.ends(0, &["answer", "s", "b", "--result", "x"]);
    let ran = place.ends(2, &["answer", "s", "b", "--result", "y"]);
    assert!(ran.stderr.contains("answered before"), "{ran:?}");
}

#[test]
fn a_run_that_waits_says_how_to_answer() {
    let place = waiting(APPROVE);
    insta::assert_snapshot!(place.ends(5, &["resume", "s"]).stderr);
}
