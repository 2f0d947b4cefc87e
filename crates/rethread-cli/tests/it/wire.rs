//! `check`, `repair` and `decode`, and sessions from other programs' files.

use serde_json::{Value, json};

use crate::program::Place;

const OPEN: &str = r#"{"messages":[
  {"role":"user","content":"go"},
  {"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"ship","input":{"to":"Rome"}}]}]}"#;

#[test]
fn a_history_is_checked_repaired_and_then_sound() {
    let place = Place::new();
    place.write("open.json", OPEN);
    let check = place.json(3, &["check", "open.json"]);
    assert_eq!(
        (&check["format"], &check["valid"]),
        (&json!("anthropic-messages"), &json!(false))
    );
    assert_eq!(check["problems"][0]["rule"], "unanswered_tool_call");
    assert_eq!(check["point"]["kind"], "recover_tools");

    let api = ["--for", "anthropic-messages"];
    let repaired = place.json(0, &[&["repair", "open.json"], &api[..]].concat());
    assert_eq!(
        repaired["request"]["messages"][2]["content"][0]["tool_use_id"],
        "toolu_1"
    );
    assert_eq!(repaired["changes"].as_array().unwrap().len(), 1);
    assert_eq!(place.read("open.json"), OPEN);

    let said = place.ends(
        0,
        &[&["repair", "open.json", "-o", "sound.json"], &api[..]].concat(),
    );
    assert_eq!(said.stdout, "");
    assert_eq!(
        serde_json::from_str::<Value>(&place.read("sound.json")).unwrap(),
        repaired["request"]
    );
    place.ends(0, &["check", "sound.json"]);
    insta::assert_snapshot!(place.ends(3, &["check", "open.json"]).stdout);
}

#[test]
fn the_history_itself_is_never_written() {
    let place = Place::new();
    place.write("open.json", OPEN);
    let args = [
        "repair",
        "open.json",
        "--for",
        "anthropic-messages",
        "-o",
        "./open.json",
    ];
    let ran = place.ends(2, &args);
    assert!(ran.stderr.contains("never written"), "{ran:?}");
    assert_eq!(place.read("open.json"), OPEN);
}

#[test]
fn a_response_is_decoded_with_its_status_and_headers() {
    let place = Place::new();
    place.write(
        "ok.sse",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    );
    let message = place.json(0, &["decode", "ok.sse", "--api", "openai-chat"]);
    assert_eq!(
        (&message["role"], &message["content"]),
        (&json!("assistant"), &json!("Hi"))
    );

    place.write(
        "slow.json",
        r#"{"error":{"message":"slow down","type":"rate_limit_error"}}"#,
    );
    place.write("headers.json", r#"{"retry-after":"7"}"#);
    let decoded = [
        "decode",
        "slow.json",
        "--api",
        "openai-chat",
        "--status",
        "429",
    ];
    let error = place.json(1, &[&decoded[..], &["--headers", "headers.json"]].concat());
    assert_eq!(error["error"]["kind"], "rate_limited");
    assert_eq!(error["error"]["retry_after_ms"], 7000);
}

#[test]
fn a_providers_history_becomes_a_session() {
    let place = Place::with_script(r#"{"replies":[],"then":{"text":"Shipped?"}}"#);
    place.write("open.json", OPEN);
    place.ends(0, &["import", "open.json", "--session", "s"]);
    assert_eq!(
        place.json(0, &["why", "s"])["unanswered"][0]["name"],
        "ship"
    );
    let done = place.json(0, &["resume", "--from", "open.json", "--record-requests"]);
    assert_eq!(done["answer"], "Shipped?");
    assert_eq!(done["requests"][0][2]["role"], "tool");
}

#[test]
fn wrong_names_are_told() {
    let place = Place::new();
    place.write("open.json", OPEN);
    place.write("odd.txt", "{\"once\":1}\n{\"upon\":2}\n");
    for (args, error) in [
        (&["check", "odd.txt"][..], "not recognised"),
        (&["check", "open.json", "--format", "odd"], "unknown format"),
        (&["check", "open.json", "--for", "odd"], "unknown api"),
        (
            &["check", "open.json", "--target", "[]"],
            "--target cannot be read",
        ),
        (&["repair", "open.json"], "--for"),
        (
            &[
                "decode",
                "open.json",
                "--api",
                "openai-chat",
                "--headers",
                "odd.txt",
            ],
            "no JSON object of headers",
        ),
    ] {
        let ran = place.ends(2, args);
        assert!(ran.stderr.contains(error), "{ran:?}");
    }
}
