//! Running the program in a directory of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory with a store, and the program run in it.
pub(crate) struct Place {
    directory: TempDir,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// A place with a script, which is the model unless another is named.
    pub(crate) fn with_script(script: &str) -> Self {
        let place = Self::new();
        place.write("script.json", script);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rethread"));
        command
            .args(args)
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.directory.path())
            .env("NO_COLOR", "1")
            .env("RETHREAD_STORE", "sqlite:sessions.db")
            .stdin(Stdio::null());
        if self.path("script.json").exists() {
            command.env("RETHREAD_MODEL", "script:script.json");
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        let text = |bytes: Vec<u8>| {
            let directory = self.directory.path().display().to_string();
            String::from_utf8(bytes).unwrap().replace(&directory, "DIR")
        };
        let ran = Ran {
            code: output.status.code().unwrap(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        assert!(!ran.stderr.contains("panicked"), "{ran:?}");
        ran
    }

    /// Runs a command that must end with a code.
    pub(crate) fn ends(&self, code: i32, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
        ran
    }

    /// The JSON document of a command that must end with a code.
    pub(crate) fn json(&self, code: i32, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let ran = self.ends(code, &args);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    /// Makes a session of messages in rethread JSON.
    pub(crate) fn import(&self, session: &str, messages: &str) {
        let file = format!("{session}.json");
        self.write(&file, messages);
        self.ends(
            0,
            &[
                "import",
                &file,
                "--session",
                session,
                "--format",
                "rethread",
            ],
        );
    }

    /// Starts a run whose events can be waited for: they go into a pipe.
    pub(crate) fn start(&self, args: &[&str]) -> Started {
        let pipe = self.path("events");
        if !pipe.exists() {
            let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
            assert!(made.success());
        }
        let child = self
            .command(args)
            .args(["--events", "events"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Opens when the run opens its end.
        let events = BufReader::new(File::open(pipe).unwrap());
        Started { child, events }
    }
}

/// A run at work.
pub(crate) struct Started {
    pub(crate) child: Child,
    events: BufReader<File>,
}

impl Started {
    /// Waits for an event; panics when the run ends before it comes.
    pub(crate) fn wait_for(&mut self, kind: &str, call: &str) {
        loop {
            let mut line = String::new();
            let read = self.events.read_line(&mut line).unwrap();
            assert!(read > 0, "the run ended before {kind} {call}");
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["type"] == kind && (call.is_empty() || event["call_id"] == call) {
                return;
            }
        }
    }

    /// Kills the process without a word.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop as Ctrl-C does, and gives its exit code and what it said.
    pub(crate) fn interrupt(self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
        drop(self.events); // nobody reads any more, which a run survives
        let output = self.child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    }
}
