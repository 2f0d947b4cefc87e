//! The built-in tools, as a model uses them.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::program::Place;

/// Has a model make calls, and gives what each was answered: the text, and whether it succeeded.
fn answers(place: &Place, calls: &[(&str, Value)]) -> Vec<(String, bool)> {
    let calls: Vec<Value> = calls
        .iter()
        .zip(0..)
        .map(|((name, arguments), n)| json!({"id": format!("c{n}"), "name": name, "arguments": arguments}))
        .collect();
    let script = json!({"replies": [{"tool_calls": calls}, {"text": "done"}]});
    place.write("script.json", &script.to_string());
    let done = place.json(0, &["run", "go", "--yes", "--record-requests"]);
    let request = done["requests"][1].as_array().unwrap().clone();
    request
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| {
            (
                message["content"].as_str().unwrap().to_owned(),
                message["success"].as_bool().unwrap(),
            )
        })
        .collect()
}

fn ok(text: &str) -> (String, bool) {
    (text.to_owned(), true)
}

#[test]
fn files_are_written_edited_read_listed_and_searched() {
    let place = Place::new();
    let got = answers(
        &place,
        &[
            (
                "write_file",
                json!({"path": "src/a.txt", "content": "one\ntwo\nthree\n"}),
            ),
            (
                "edit_file",
                json!({"path": "src/a.txt", "old": "two", "new": "2"}),
            ),
            (
                "edit_file",
                json!({"path": "src/a.txt", "old": "e", "new": "E"}),
            ),
            (
                "edit_file",
                json!({"path": "src/a.txt", "old": "nine", "new": "9"}),
            ),
            ("read_file", json!({"path": "src/a.txt"})),
            (
                "read_file",
                json!({"path": "./src/../src/a.txt", "from_line": 3}),
            ),
            ("list_files", json!({"path": "src"})),
            ("list_files", json!({})),
            ("search", json!({"pattern": "^t\\w+e", "path": "src"})),
            ("search", json!({"pattern": "(unclosed"})),
            ("shell", json!({"command": "cat src/a.txt | wc -l; exit 4"})),
        ],
    );
    assert_eq!(got[0], ok("wrote 14 bytes to src/a.txt"));
    assert_eq!(got[1], ok("edited src/a.txt"));
    assert!(!got[2].1 && got[2].0.contains("3 times"), "{:?}", got[2]);
    assert!(
        !got[3].1 && got[3].0.contains("does not stand"),
        "{:?}",
        got[3]
    );
    assert_eq!(got[4], ok("one\n2\nthree\n"));
    assert_eq!(got[5], ok("three\n"));
    assert_eq!(got[6], ok("a.txt\n"));
    assert!(got[7].0.contains("src/\n"));
    assert_eq!(got[8], ok("src/a.txt:3: three\n"));
    assert!(
        got[9].1 && got[9].0.starts_with("script.json:1: "),
        "what is no expression is plain text: {:?}",
        got[9]
    );
    assert_eq!(got[10], ok("[exit status: 4]\n3\n"));
}

#[test]
fn no_tool_reaches_outside_the_working_directory() {
    let outside = Place::new();
    outside.write("secret.txt", "the secret");
    let place = Place::new();
    let there = outside.path("");
    symlink(&there, place.path("way_out")).unwrap();
    symlink(outside.path("secret.txt"), place.path("leak.txt")).unwrap();
    symlink("..", place.path("up")).unwrap();
    let absolute = outside.path("secret.txt").display().to_string();
    let name = there.file_name().unwrap().to_str().unwrap().to_owned();
    let mut calls = Vec::new();
    for path in [
        absolute.as_str(),
        "way_out/secret.txt",
        "leak.txt",
        &format!("../{name}/secret.txt"),
        &format!("up/{name}/secret.txt"),
    ] {
        calls.push(("read_file", json!({"path": path})));
        calls.push((
            "write_file",
            json!({"path": path, "content": "overwritten"}),
        ));
        calls.push((
            "edit_file",
            json!({"path": path, "old": "the", "new": "no"}),
        ));
        calls.push(("search", json!({"pattern": "secret", "path": path})));
    }
    for path in ["/", "..", "way_out", "up", "up/.."] {
        calls.push(("list_files", json!({"path": path})));
        calls.push(("search", json!({"pattern": "the secret", "path": path})));
        calls.push((
            "write_file",
            json!({"path": format!("{path}/new/file"), "content": "x"}),
        ));
    }
    for (answer, (tool, arguments)) in answers(&place, &calls).iter().zip(&calls) {
        assert!(!answer.1, "{tool} {arguments}: {answer:?}");
        assert!(
            !answer.0.contains("the secret"),
            "{tool} {arguments}: {answer:?}"
        );
    }
    // A search of everything does not follow links either.
    let got = answers(&place, &[("search", json!({"pattern": "the secret"}))]);
    assert!(
        got[0]
            .0
            .lines()
            .filter(|line| !line.ends_with("binary or unreadable]")) // the store itself
            .all(|line| line.starts_with("script.json:") || line.starts_with("sessions.db")),
        "{got:?}"
    );
    assert_eq!(outside.read("secret.txt"), "the secret");
    assert!(!outside.path("new").exists());
}

#[test]
fn a_write_replaces_a_file_whole_and_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.write("run.sh", "old");
    std::fs::set_permissions(place.path("run.sh"), std::fs::Permissions::from_mode(0o750)).unwrap();
    symlink("run.sh", place.path("link.sh")).unwrap();
    let got = answers(
        &place,
        &[("write_file", json!({"path": "link.sh", "content": "new"}))],
    );
    assert!(got[0].1, "{got:?}");
    assert_eq!(place.read("run.sh"), "new");
    let mode = std::fs::metadata(place.path("run.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o750);
    assert!(place.path("link.sh").is_symlink());
    let left: Vec<_> = std::fs::read_dir(place.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".tmp"))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn outputs_are_bounded() {
    let place = Place::new();
    place.write("long.txt", &"a line of text\n".repeat(20_000));
    place.write("wide.txt", &"x".repeat(500_000));
    std::fs::create_dir(place.path("many")).unwrap();
    for n in 0..1500 {
        place.write(&format!("many/{n}"), "");
    }
    let got = answers(
        &place,
        &[
            ("read_file", json!({"path": "long.txt"})),
            ("read_file", json!({"path": "wide.txt"})),
            ("search", json!({"pattern": "line|x", "path": "."})),
            ("list_files", json!({"path": "many"})),
            ("shell", json!({"command": "yes | head -c 3000000"})),
        ],
    );
    for (text, success) in &got {
        assert!(
            *success && text.len() < 80_000,
            "{} {}",
            text.len(),
            &text[..80]
        );
    }
    assert!(got[0].0.contains("from_line"));
    assert!(got[3].0.contains("500 more"));
}

#[test]
fn tools_that_act_ask_first_and_those_that_look_do_not() {
    let place = Place::with_script(
        r#"{"replies":[{"tool_calls":[
            {"id":"a","name":"write_file","arguments":{"path":"f","content":"x"}},
            {"id":"b","name":"edit_file","arguments":{"path":"f","old":"x","new":"y"}},
            {"id":"c","name":"shell","arguments":{"command":"touch g"}},
            {"id":"d","name":"list_files","arguments":{}}]},{"text":"ok"}]}"#,
    );
    let done = place.json(5, &["run", "go", "--session", "s"]);
    let asked: Vec<_> = done["waiting"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["prompt"].clone())
        .collect();
    assert_eq!(asked, ["Write 1 bytes to f?", "Edit f?", "Run `touch g`?"]);
    assert_eq!(done["tool_runs"], json!([["list_files", {}]]));
    assert!(!place.path("f").exists() && !place.path("g").exists());
    for call in ["a", "b", "c"] {
        place.ends(0, &["answer", "s", call, "--approve"]);
    }
    place.ends(0, &["resume", "s"]);
    assert_eq!(place.read("f"), "y");
    assert!(place.path("g").exists());
}

#[test]
fn a_script_brings_its_own_tools_of_the_same_name() {
    let place = Place::with_script(
        r#"{"replies":[{"tool_calls":[{"id":"a","name":"shell","arguments":{"command":"touch g"}}]},{"text":"ok"}],
            "tools":{"shell":{"result":"played {command}"}}}"#,
    );
    let done = place.json(0, &["run", "go", "--record-requests"]);
    assert_eq!(done["requests"][1][2]["content"], "played touch g");
    assert!(!place.path("g").exists());
}

#[test]
fn a_command_gets_no_keys() {
    let place = Place::with_script(
        r#"{"replies":[{"tool_calls":[{"id":"a","name":"shell","arguments":{"command":"env"}}]},{"text":"ok"}]}"#,
    );
    let output = place
        .command(&["run", "go", "--yes", "--json", "--record-requests"])
        .env("ANTHROPIC_API_KEY", "sk-very-secret")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        told.contains("PATH=") && !told.contains("sk-very-secret"),
        "{told}"
    );
}

#[test]
fn a_search_says_what_it_passed_over() {
    let place = Place::new();
    place.write("text.txt", "needle");
    place.write("binary.bin", "needle\0");
    let calls = [("search", json!({"pattern": "needle", "path": "binary.bin"}))];
    let got = answers(&place, &calls);
    assert!(got[0].0.contains("1 not searched"), "{got:?}");
}
