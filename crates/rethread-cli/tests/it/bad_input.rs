//! What is wrong is said in one line that names it, with the exit code for it.

use crate::program::Place;

/// Runs a command that must fail with code 2 and one line.
fn refused(place: &Place, args: &[&str]) -> String {
    let ran = place.ends(2, args);
    assert_eq!(ran.stdout, "", "{args:?}");
    assert_eq!(
        ran.stderr.trim_end().lines().count(),
        1,
        "{args:?}: {ran:?}"
    );
    ran.stderr.trim_end().to_owned()
}

#[test]
fn wrong_input_is_told_in_one_line() {
    let place = Place::new();
    place.import("known", r#"[{"role":"user","content":"x"}]"#);
    place.write("notes.txt", &"no database ".repeat(1000));
    place.write("broken.json", "{");
    place.write("script.ok", r#"{"replies":[]}"#);
    std::fs::create_dir(place.path("folder")).unwrap();
    let mut told = String::new();
    for args in [
        &["why", "nobody"][..],
        &["show", "nobody"],
        &["resume", "nobody"],
        &["fork", "nobody"],
        &["export", "nobody"],
        &["answer", "nobody", "a", "--approve"],
        &["rm", "nobody", "--yes"],
        &["rm", "known"],
        &["why", "x", "--store", "sqlite:none.db"],
        &["ls", "--store", "sqlite:none.db"],
        &["ls", "--store", "sqlite:folder"],
        &["ls", "--store", "sqlite:notes.txt"],
        &["ls", "--store", "sqlite:"],
        &["ls", "--store", "sessions.db"],
        &["ls", "--store", "postgres://me:secret@host/db"],
        &[
            "run",
            "x",
            "--model",
            "script:script.ok",
            "--store",
            "sqlite:no/such/s.db",
        ],
        &["run", "x"],
        &["run", "", "--model", "script:script.ok"],
        &["run", "x", "--model", "nobody:x"],
        &["run", "x", "--model", "gizmo-5"],
        &["run", "x", "--model", "script:"],
        &["run", "x", "--model", "script:none.json"],
        &["run", "x", "--model", "script:broken.json"],
        &[
            "run",
            "x",
            "--model",
            "script:script.ok",
            "--events",
            "folder",
        ],
        &["resume", "known"],
        &["import", "none.json"],
        &["import", "broken.json"],
        &["import", "known.json", "--session", "known"],
        &["import", "known.json", "--format", "odd"],
        &[
            "resume",
            "--from",
            "none.json",
            "--model",
            "script:script.ok",
        ],
        &["decode", "broken.json", "--api", "odd"],
    ] {
        told.push_str(&format!(
            "$ rethread {}\n{}\n",
            args.join(" "),
            refused(&place, args)
        ));
    }
    insta::assert_snapshot!(told);
    assert!(!place.path("none.db").exists(), "asking made a store");
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let place = Place::new();
    // Made by hand so that it is a database with a table that is not ours.
    place.write("make.sh", "");
    let bytes = foreign_database();
    std::fs::write(place.path("other.db"), &bytes).unwrap();
    for args in [
        &["ls", "--store", "sqlite:other.db"][..],
        &[
            "import",
            "make.sh",
            "--store",
            "sqlite:other.db",
            "--format",
            "rethread",
        ],
    ] {
        place.ends(2, args);
    }
    assert_eq!(std::fs::read(place.path("other.db")).unwrap(), bytes);
}

/// A database of one page with another program's application id.
fn foreign_database() -> Vec<u8> {
    let mut page = vec![0_u8; 4096];
    page[..16].copy_from_slice(b"SQLite format 3\0");
    page[16..18].copy_from_slice(&4096_u16.to_be_bytes()); // page size
    page[18..20].copy_from_slice(&[1, 1]); // no write-ahead log
    page[21..24].copy_from_slice(&[64, 32, 32]); // payload fractions
    page[27] = 1; // change counter
    page[31] = 1; // pages
    page[43] = 1; // schema cookie
    page[47] = 4; // schema format
    page[59] = 1; // UTF-8
    page[63] = 7; // user version
    page[68..72].copy_from_slice(b"ELSE"); // application id
    page[95] = 1; // version valid for
    page[100] = 0x0d; // an empty leaf of the schema table
    page
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let place = Place::with_script(r#"{"replies":[{"text":"x"}]}"#);
    // Nobody, not even the superuser, makes files there.
    let line = refused(&place, &["run", "x", "--store", "sqlite:/proc/s.db"]);
    assert!(line.contains("/proc/s.db"), "{line}");
}

#[test]
fn a_missing_key_names_its_variable() {
    let place = Place::new();
    for (model, variable) in [
        ("anthropic:x", "ANTHROPIC_API_KEY"),
        ("claude-x", "ANTHROPIC_API_KEY"),
        ("openai:x", "OPENAI_API_KEY"),
        ("responses:x", "OPENAI_API_KEY"),
        ("gpt-x", "OPENAI_API_KEY"),
        ("gemini:x", "GEMINI_API_KEY"),
        ("openrouter:x/y", "OPENROUTER_API_KEY"),
        ("deepseek:x", "DEEPSEEK_API_KEY"),
    ] {
        let line = refused(&place, &["run", "x", "--model", model]);
        assert!(line.contains(variable), "{line}");
        assert!(
            !place.path("sessions.db").exists(),
            "a store was made for nothing"
        );
    }
}
