//! Runs the real program with a slow script, kills it with SIGKILL at random moments (in a stream,
//! in a tool, between), resumes it, and checks what is left: on the database file, and on a log that
//! the tools write.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rethread_core::{CallKey, Entry, History, Message, NotResumable, read_history, resume_point};
use rethread_stores::SqliteStore;
use serde_json::{Value, json};

/// How often one session is killed at most before it may run to its end.
const KILLS: u64 = 3;
/// How long a program may take for what it is asked here.
const PATIENCE: Duration = Duration::from_secs(60);

/// `RETHREAD_KILLS` kills, a few unless it is set.
#[test]
fn killed_at_random_moments() {
    let read = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let (times, seed) = (
        read("RETHREAD_KILLS").unwrap_or(12),
        read("RETHREAD_SEED").unwrap_or(1),
    );
    let done = harness(Path::new(env!("CARGO_BIN_EXE_rethread")), times, seed);
    match done {
        Ok(line) => println!("{line}"),
        Err(error) => panic!("{error}"),
    }
}

type Result<T> = std::result::Result<T, String>;

fn harness(program: &Path, times: u64, seed: u64) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(words)?;
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut kills, mut sessions, mut found) = (0, 0, HashMap::new());
    while kills < times {
        sessions += 1;
        let folder = std::env::temp_dir().join(format!(
            "rethread-kill-{}-{seed}-{sessions}",
            std::process::id()
        ));
        std::fs::create_dir_all(&folder).map_err(words)?;
        let case = Case {
            program,
            folder: &folder,
        };
        let killed = case.play(&mut random, times - kills, &mut found)?;
        runtime.block_on(case.check()).map_err(|error| {
            format!(
                "session {sessions} of seed {seed} ({}): {error}",
                folder.display()
            )
        })?;
        kills += killed;
        std::fs::remove_dir_all(&folder).map_err(words)?;
        if sessions % 20 == 0 {
            println!("{kills} kills in {sessions} sessions");
        }
    }
    let mut where_ = String::new();
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort();
    for (kind, n) in found {
        let _ = write!(where_, ", {n} {kind}");
    }
    Ok(format!(
        "{kills} kills in {sessions} sessions: 0 results lost, 0 tools started twice, 0 sessions stuck (found after a kill{where_})"
    ))
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A small generator, so that a failure can be played again from its seed (the moments cannot).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }
}

struct Case<'a> {
    program: &'a Path,
    folder: &'a Path,
}

impl Case<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn store(&self) -> String {
        format!("sqlite:{}", self.path("s.db").display())
    }

    fn start(&self, arguments: &[&str]) -> Result<Child> {
        Command::new(self.program)
            .args(arguments)
            .args(["--store", &self.store(), "--json", "--model"])
            .arg(format!("script:{}", self.path("script.json").display()))
            .arg("--events")
            .arg(self.path("events.jsonl"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.display()))
    }

    /// Runs a session to its end, killing it on the way; gives how often.
    fn play(
        &self,
        random: &mut Random,
        most: u64,
        found: &mut HashMap<String, u64>,
    ) -> Result<u64> {
        let script = script(random, &self.path("effects.log"));
        std::fs::write(self.path("script.json"), script.to_string()).map_err(words)?;
        let kills = (1 + random.below(KILLS)).min(most);
        let mut killed = 0;
        let mut child = self.start(&["run", "go", "--session", "s"])?;
        loop {
            if killed < kills {
                std::thread::sleep(Duration::from_micros(random.below(120_000)));
                if child.try_wait().map_err(words)?.is_none() {
                    // SIGKILL: nothing of it can be caught.
                    child.kill().map_err(words)?;
                    child.wait().map_err(words)?;
                    killed += 1;
                    *found.entry(self.kind()?).or_default() += 1;
                    child = self.start(&["resume", "s"])?;
                    continue;
                }
            }
            match self.wait(child)? {
                0 | 3 => return Ok(killed),
                // A session that was killed before its first commit does not exist.
                2 => child = self.start(&["run", "go", "--session", "s"])?,
                other => return Err(format!("the last run ended with exit code {other}")),
            }
        }
    }

    /// What `why` says after a kill.
    fn kind(&self) -> Result<String> {
        let output = Command::new(self.program)
            .args(["why", "s", "--json", "--store", &self.store()])
            .output()
            .map_err(words)?;
        let said: Value = match output.status.code() {
            Some(0 | 3) => serde_json::from_slice(&output.stdout).map_err(words)?,
            Some(2) => return Ok("no session yet".to_owned()),
            code => return Err(format!("`why` ended with {code:?} after a kill")),
        };
        let kind = said
            .get("kind")
            .or_else(|| said.get("reason"))
            .and_then(Value::as_str);
        let kind = kind.ok_or("`why` says neither a kind nor a reason")?;
        if said.get("resumable") == Some(&Value::Bool(true))
            && said.get("cause") != Some(&json!("crashed"))
        {
            return Err(format!(
                "after a kill `why` gives the cause {:?}",
                said.get("cause")
            ));
        }
        Ok(kind.to_owned())
    }

    fn wait(&self, mut child: Child) -> Result<i32> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().map_err(words)? {
                return status
                    .code()
                    .ok_or_else(|| "it was killed by someone else".to_owned());
            }
            if Instant::now() > end {
                let _ = child.kill();
                return Err("the session is stuck".to_owned());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What must hold in the end, whatever was killed.
    async fn check(&self) -> Result<()> {
        let store = SqliteStore::open_read_only(self.path("s.db")).map_err(words)?;
        let history = read_history(&store, "s").await.map_err(words)?;
        if let Some(problem) = history.problems().first() {
            return Err(problem.detail.clone());
        }
        match resume_point(&history) {
            Err(NotResumable::Completed) => {}
            other => return Err(format!("it is not completed: {other:?}")),
        }
        let effects = std::fs::read_to_string(self.path("effects.log")).unwrap_or_default();
        let mut ran: HashMap<&str, usize> = HashMap::new();
        for line in effects.lines() {
            *ran.entry(line).or_default() += 1;
        }
        if let Some((line, n)) = ran.iter().find(|(_, n)| **n > 1) {
            return Err(format!("a tool ran {n} times: {line}"));
        }
        check_calls(&history, &ran)?;
        let events = std::fs::read_to_string(self.path("events.jsonl")).unwrap_or_default();
        for line in events.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                continue;
            }; // torn by a kill
            if event.get("type") == Some(&json!("tool_completed")) {
                let id = event
                    .get("call_id")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let kept = history.messages().filter_map(Message::as_tool);
                if !kept
                    .into_iter()
                    .any(|result| result.call_id == id && result.success)
                {
                    return Err(format!("the result of `{id}` was told and is gone"));
                }
            }
        }
        Ok(())
    }
}

/// Every call has one result; a result that says a tool ran is true, one that says it did not is
/// true, and what ran was recorded before it ran.
fn check_calls(history: &History, ran: &HashMap<&str, usize>) -> Result<()> {
    let mut started: Vec<CallKey> = Vec::new();
    for record in history.records() {
        if let Entry::CallStarted(entry) = &record.entry {
            for call in &entry.calls {
                if started.contains(call) {
                    return Err(format!("call {call:?} started twice"));
                }
                started.push(*call);
            }
        }
    }
    for record in history.records() {
        let Some(response) = record.entry.as_message().and_then(Message::as_assistant) else {
            continue;
        };
        for (index, call) in (0..).zip(&response.tool_calls) {
            let key = CallKey {
                message: record.seq,
                index,
            };
            let results: Vec<_> = history
                .records()
                .iter()
                .filter_map(|record| match &record.entry {
                    Entry::Message(message, mark) if mark.call == Some(key) => message.as_tool(),
                    _ => None,
                })
                .collect();
            let [result] = results.as_slice() else {
                return Err(format!("call `{}` has {} results", call.id, results.len()));
            };
            let effect =
                ran.contains_key(format!("{} {}", call.name, call.arguments.get()).as_str());
            if result.success && !effect {
                return Err(format!("call `{}` has a result and did not run", call.id));
            }
            if effect && !started.contains(&key) {
                return Err(format!(
                    "call `{}` ran before its start was recorded",
                    call.id
                ));
            }
        }
    }
    Ok(())
}

/// A slow script of some rounds of tools, each call with arguments of its own.
fn script(random: &mut Random, log: &Path) -> Value {
    let mut replies = Vec::new();
    let rounds = 1 + random.below(3);
    for round in 0..rounds {
        let calls: Vec<_> = (0..1 + random.below(3))
            .map(|n| {
                let name = ["serial", "parallel", "other"].get(random.below(3) as usize).copied().unwrap_or("serial");
                json!({ "id": format!("c{round}_{n}"), "name": name, "arguments": { "x": format!("{round}.{n}") } })
            })
            .collect();
        replies.push(json!({ "text": "some words that take a while to stream", "delay_ms": random.below(6), "tool_calls": calls }));
    }
    replies.push(
        json!({ "text": "the last words, which take a while too", "delay_ms": random.below(6) }),
    );
    let mut tool = |parallel: bool| json!({ "parallel": parallel, "delay_ms": random.below(40), "result": "did {x}", "append_to": log });
    json!({ "replies": replies, "tools": { "serial": tool(false), "parallel": tool(true), "other": tool(true) } })
}
