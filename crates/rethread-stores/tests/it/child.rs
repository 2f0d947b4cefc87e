//! Other processes: this test program once more, playing a part.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PART: &str = "RETHREAD_TEST_PART";
const STORE: &str = "RETHREAD_TEST_STORE";

/// The part this process plays and the store it uses, if it is a child.
pub(crate) fn part() -> Option<(String, String)> {
    Some((env::var(PART).ok()?, env::var(STORE).ok()?))
}

/// The command that plays a part. The test named `test` in the child must call [`part`].
pub(crate) fn command(test: &str, part: &str, store: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture", "--quiet"])
        .env(PART, part)
        .env(STORE, store)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Says something to the parent.
pub(crate) fn tell(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\ntold: {what}").unwrap();
    out.flush().unwrap();
}

/// Waits until the parent lets this process go on, or is gone.
pub(crate) fn wait_for_parent() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// A child, killed at the latest when it goes out of scope.
pub(crate) struct Player {
    pub(crate) process: Child,
    told: BufReader<std::process::ChildStdout>,
}

impl Player {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let told = BufReader::new(process.stdout.take().unwrap());
        Self { process, told }
    }

    /// The next thing the child says; `None` when it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.told.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(what) = line.strip_prefix("told: ") {
                return Some(what.trim_end().to_owned());
            }
        }
    }

    pub(crate) fn go_on(&mut self) {
        writeln!(self.process.stdin.as_mut().unwrap()).unwrap();
    }

    /// Kills the child in the middle of what it does.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
