//! Histories that come from and go to files.

use serde_json::{Value, json};

use crate::program::Place;

const SCRIPT: &str = r#"{
  "replies": [{"text": "Hm.", "tool_calls": [{"id": "a", "name": "look", "arguments": {}}]}, {"text": "Seen."}],
  "then": {"text": "More."},
  "tools": {"look": {"result": "a view"}}
}"#;

fn entries(place: &Place, session: &str) -> Vec<Value> {
    place.json(0, &["show", session])["entries"]
        .as_array()
        .unwrap()
        .clone()
}

/// Records without what every store gives them anew.
fn said(mut entries: Vec<Value>) -> Vec<Value> {
    for entry in &mut entries {
        entry.as_object_mut().unwrap().remove("at");
    }
    entries
}

#[test]
fn an_exported_session_comes_back_as_it_was() {
    let place = Place::with_script(SCRIPT);
    place.ends(0, &["run", "Look", "--session", "s"]);
    let exported = place.ends(0, &["export", "s"]).stdout;
    place.ends(0, &["export", "s", "--output", "s.jsonl"]);
    assert_eq!(place.read("s.jsonl"), exported);
    place.ends(0, &["import", "s.jsonl", "--session", "copy"]);
    let mut copy = entries(&place, "copy");
    assert_eq!(copy.pop().unwrap()["imported"]["format"], "rethread");
    assert_eq!(said(copy), said(entries(&place, "s")));
    assert_eq!(place.json(3, &["why", "copy"])["reason"], "completed");
}

#[test]
fn a_record_that_is_lost_leaves_the_others_what_they_were() {
    let place = Place::with_script(
        r#"{"replies":[{"tool_calls":[{"id":"a","name":"t","arguments":{}}]}],"tools":{"t":{"defer":true}}}"#,
    );
    place.ends(5, &["run", "Look", "--session", "s"]);
    let exported = place.ends(0, &["export", "s"]).stdout;
    let kept: Vec<&str> = exported
        .lines()
        .filter(|line| !line.contains("\"setup\":{"))
        .collect();
    assert_eq!(kept.len() + 1, exported.lines().count());
    place.write("s.jsonl", &kept.join("\n"));
    place.ends(0, &["import", "s.jsonl", "--session", "copy"]);
    assert_eq!(
        place.json(0, &["why", "copy"])["unanswered"][0]["state"],
        "suspended"
    );
}

#[test]
fn a_damaged_history_is_read_around_and_says_so() {
    let place = Place::new();
    place.write(
        "torn.jsonl",
        "{\"role\":\"user\",\"content\":\"one\"}\n{\"role\":\"assis",
    );
    let done = place.json(0, &["import", "torn.jsonl", "--session", "s"]);
    assert_eq!(
        (
            &done["messages"],
            done["problems"].as_array().unwrap().len()
        ),
        (&json!(1), 1)
    );
    assert_eq!(place.json(0, &["why", "s"])["kind"], "call_model");
}

#[test]
fn a_fork_goes_its_own_way() {
    let place = Place::with_script(SCRIPT);
    place.ends(0, &["run", "Look", "--session", "s"]);
    let whole = entries(&place, "s");
    place.ends(0, &["fork", "s", "--at", "3", "--to", "f"]);
    let fork = entries(&place, "f");
    assert_eq!(said(fork[..3].to_vec()), said(whole[..3].to_vec()));
    assert_eq!(fork[3]["forked"], json!({"session": "s", "at": 3}));
    place.ends(0, &["resume", "f"]);
    assert_eq!(entries(&place, "s"), whole);
    let made = place.json(0, &["fork", "s"]);
    assert_eq!(made["from"], "s");
    place.ends(3, &["why", made["session"].as_str().unwrap()]);
}

#[test]
fn a_trajectory_is_carried_on_by_its_last_message() {
    let place = Place::with_script(SCRIPT);
    place.write("user.json", r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]"#);
    let done = place.json(0, &["resume", "--from", "user.json", "--record-requests"]);
    assert_eq!(done["answer"], "Seen.");
    let said: Vec<_> = done["requests"][0]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["content"].clone())
        .collect();
    assert_eq!(said, ["a", "b", "c"]);
    assert!(!place.path("sessions.db").exists(), "it is kept in memory");

    // A result is no message of a person: the run goes on behind it.
    place.write(
        "result.json",
        r#"[{"role":"user","content":"a"},
            {"role":"assistant","content":"","tool_calls":[{"id":"x","name":"look","arguments":{}}]},
            {"role":"tool","tool_call_id":"x","name":"look","content":"r"}]"#,
    );
    let done = place.json(0, &["resume", "--from", "result.json", "--record-requests"]);
    assert_eq!(done["requests"][0].as_array().unwrap().len(), 3);
    place.write(
        "done.json",
        r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#,
    );
    assert_eq!(
        place.json(3, &["resume", "--from", "done.json"])["reason"],
        "completed"
    );
}

#[test]
fn a_trajectory_replaces_a_session_only_when_told_and_keeps_the_old_one() {
    let place = Place::with_script(SCRIPT);
    place.ends(0, &["run", "Look", "--session", "s"]);
    let before = entries(&place, "s");
    place.write("new.json", r#"[{"role":"user","content":"afresh"}]"#);
    let args = ["resume", "--from", "new.json", "--session", "s"];
    let ran = place.ends(2, &args);
    assert!(ran.stderr.contains("exists already"), "{ran:?}");
    assert_eq!(entries(&place, "s"), before);
    place.ends(0, &[&args[..], &["--replace"]].concat());
    assert_eq!(
        place.json(0, &["show", "s"])["messages"][0]["content"],
        "afresh"
    );
    let kept = entries(&place, "s.before-1");
    assert_eq!(said(kept[..before.len()].to_vec()), said(before));
}

#[test]
fn deleted_sessions_are_gone_and_others_are_not() {
    let place = Place::new();
    for session in ["a", "b", "c"] {
        place.import(session, r#"[{"role":"user","content":"x"}]"#);
    }
    assert_eq!(
        place.json(0, &["rm", "a", "c", "--yes"]),
        json!({"removed": ["a", "c"]})
    );
    let left = place.json(0, &["ls"]);
    assert_eq!(
        (left.as_array().unwrap().len(), &left[0]["session"]),
        (1, &json!("b"))
    );
}
