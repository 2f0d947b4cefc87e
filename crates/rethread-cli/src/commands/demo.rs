//! `demo`: a run that is killed and carried on, with nothing but this program.

use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::args::Demo;
use crate::failure::{Code, Failure};
use crate::term::{self, BOLD, CYAN, DIM, GREEN, paint};

/// How long the killed run may take to get to its second tool.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the model says and its tools do. Each tool writes its line when it starts; the second is
/// killed before it can give its result.
const SCRIPT: &str = r#"{
  "replies": [
    {"tool_calls": [
      {"id": "call_1", "name": "book_flight", "arguments": {"to": "Lisbon"}},
      {"id": "call_2", "name": "charge_card", "arguments": {"euros": 240}},
      {"id": "call_3", "name": "send_mail", "arguments": {"to": "ada@example.com"}}]},
    {"tool_calls": [
      {"id": "call_4", "name": "send_mail", "arguments": {"to": "ada@example.com"}}]},
    {"text": "The flight is booked. The bank shows one charge of 240 euros, so I did not charge the card again. The mail is sent."}
  ],
  "tools": {
    "book_flight": {"parallel": false, "result": "booked {to}", "append_to": "effects.log"},
    "charge_card": {"parallel": false, "result": "charged {euros}", "append_to": "effects.log", "delay_ms": 60000},
    "send_mail": {"parallel": false, "result": "sent to {to}", "append_to": "effects.log"}
  }
}
"#;

pub(crate) fn demo(args: &Demo) -> Result<Code, Failure> {
    let directory = make_directory()?;
    let result = play(&directory);
    if args.keep {
        term::line(&format!("\nkept in {}", directory.display()));
    } else {
        // What is left is in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&directory);
    }
    result
}

fn play(directory: &Path) -> Result<Code, Failure> {
    let script = directory.join("script.json");
    std::fs::write(&script, SCRIPT).map_err(|error| Failure::file("write", &script, &error))?;

    step(
        1,
        "An agent books a trip with three tools. Each has an effect that must happen once.",
    );
    let run = ["run", "Book my trip to Lisbon", "--session", "trip"];
    command(&run);
    let mut child = rethread(directory, &run)
        .args(["--events", "events.jsonl"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Failure::new(Code::Failed, format!("cannot start: {error}")))?;
    let reached = wait_for_second_tool(directory, &mut child);
    // SIGKILL: nothing of the process gets to say goodbye.
    let _ = child.kill().and_then(|()| child.wait());
    reached?;
    output(&format!(
        "{} book_flight\n{} charge_card is at work…",
        paint(GREEN, "✓"),
        paint(CYAN, "▸")
    ));

    step(
        2,
        "The process is killed with SIGKILL while the card is being charged.",
    );

    step(3, "What is left?");
    command(&["why", "trip"]);
    output(&capture(directory, &["why", "trip"])?);

    step(4, "A new process carries on.");
    command(&["resume", "trip"]);
    let resumed = capture(directory, &["resume", "trip"])?;
    // It begins with what `why` said.
    let lines: Vec<&str> = resumed.lines().skip(4).collect();
    output(&lines.join("\n"));

    step(5, "What the tools really did:");
    let effects = read(&directory.join("effects.log"));
    output(effects.trim_end());
    let counts: Vec<usize> = ["book_flight", "charge_card", "send_mail"]
        .iter()
        .map(|tool| {
            effects
                .lines()
                .filter(|line| line.starts_with(tool))
                .count()
        })
        .collect();
    if counts.iter().any(|count| *count != 1) {
        return Err(Failure::new(
            Code::Failed,
            format!("the tools ran {counts:?} times, not once each"),
        ));
    }
    term::line(&format!(
        "\n{} Nothing was lost, and nothing was done twice.",
        paint(GREEN.bold(), "Each exactly once.")
    ));
    Ok(Code::Done)
}

fn step(number: u32, text: &str) {
    let gap = if number == 1 { "" } else { "\n" };
    term::line(&format!(
        "{gap}{} {}",
        paint(CYAN.bold(), &number.to_string()),
        paint(BOLD, text)
    ));
}

fn command(args: &[&str]) {
    let words: Vec<String> = args
        .iter()
        .map(|word| match word.contains(' ') {
            true => format!("\"{word}\""),
            false => (*word).to_owned(),
        })
        .collect();
    term::line(&paint(DIM, &format!("  $ rethread {}", words.join(" "))));
}

fn output(text: &str) {
    for line in text.lines() {
        term::line(&format!("  {line}"));
    }
}

/// This program, in the demo's directory with its store and its script.
fn rethread(directory: &Path, args: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("rethread"));
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(directory)
        .env("RETHREAD_STORE", "sqlite:sessions.db")
        .env("RETHREAD_MODEL", "script:script.json")
        .stdin(Stdio::null());
    command
}

/// What a command prints on either stream, in order.
fn capture(directory: &Path, args: &[&str]) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(
            Code::Failed,
            format!("cannot run `{}`: {error}", args.join(" ")),
        )
    };
    let (mut reader, writer) = std::io::pipe().map_err(failed)?;
    let mut command = rethread(directory, args);
    command
        .env("CLICOLOR_FORCE", "1") // colours that are not wanted are taken out when it is printed
        .stdout(writer.try_clone().map_err(failed)?)
        .stderr(writer);
    let mut child = command.spawn().map_err(failed)?;
    drop(command); // and with it this process's ends of the pipe
    let mut text = String::new();
    reader.read_to_string(&mut text).map_err(failed)?;
    child.wait().map_err(failed)?;
    Ok(text)
}

/// Waits until the second tool is on record as started and has begun its work.
fn wait_for_second_tool(directory: &Path, child: &mut Child) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let events = read(&directory.join("events.jsonl"));
        let effects = read(&directory.join("effects.log"));
        let started = events
            .lines()
            .any(|line| line.contains("\"tool_started\"") && line.contains("\"call_2\""));
        if started && effects.contains("charge_card") {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE || child.try_wait().is_ok_and(|status| status.is_some()) {
            return Err(Failure::new(
                Code::Failed,
                "the run ended before its second tool was at work",
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a file holds so far.
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn make_directory() -> Result<PathBuf, Failure> {
    let base = std::env::temp_dir();
    let name = format!("rethread-demo-{}", uuid::Uuid::new_v4().simple());
    let directory = base.join(name);
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&directory)
        .map_err(|error| Failure::file("make", &directory, &error))?;
    Ok(directory)
}
