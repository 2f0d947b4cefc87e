//! `shell`.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::ToolError;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::output::Bounded;
use super::root::Root;
use crate::model::KEY_VARIABLES;

/// How long a command may take.
const TIMEOUT: Duration = Duration::from_secs(600);
/// How long output is waited for after the command has ended: what it left in the background may
/// hold its output open.
const LINGER: Duration = Duration::from_millis(250);

/// The shell and what it started, killed as a group unless it has ended by itself.
struct Group {
    child: Child,
    group: Option<Pid>,
}

impl Group {
    fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            // It may have ended in this moment.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

enum End {
    Status(std::io::Result<std::process::ExitStatus>),
    Cancelled,
    TimedOut,
}

pub(super) async fn shell(
    root: Arc<Root>,
    cancellation: CancellationToken,
    command: String,
) -> Result<String, ToolError> {
    run(&root, cancellation, &command, TIMEOUT).await
}

async fn run(
    root: &Root,
    cancellation: CancellationToken,
    command: &str,
    timeout: Duration,
) -> Result<String, ToolError> {
    let failed =
        |error: std::io::Error| ToolError::new(format!("the command cannot be started: {error}"));
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(command)
        .current_dir(root.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    for name in KEY_VARIABLES {
        shell.env_remove(name); // a command of a model has no business with the keys
    }
    let child = shell.spawn().map_err(failed)?;
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    let mut group = Group { child, group };
    let (mut stdout, mut stderr) = (group.child.stdout.take(), group.child.stderr.take());
    let mut output = Bounded::default();
    let end = {
        let mut timer = std::pin::pin!(tokio::time::sleep(timeout));
        loop {
            tokio::select! {
                biased; // a command that prints without end is stopped all the same
                () = cancellation.cancelled() => break End::Cancelled,
                () = &mut timer => break End::TimedOut,
                bytes = next(&mut stdout), if stdout.is_some() => output.push(&bytes),
                bytes = next(&mut stderr), if stderr.is_some() => output.push(&bytes),
                status = group.child.wait() => break End::Status(status),
            }
        }
    };
    if matches!(end, End::Status(_)) {
        group.group = None; // its number may be another's from now on
    }
    group.kill();
    let drain = async {
        while stdout.is_some() || stderr.is_some() {
            tokio::select! {
                bytes = next(&mut stdout), if stdout.is_some() => output.push(&bytes),
                bytes = next(&mut stderr), if stderr.is_some() => output.push(&bytes),
            }
        }
    };
    // What is still held open is not waited for.
    let _ = tokio::time::timeout(LINGER, drain).await;
    let output = output.into_text();
    match end {
        End::Status(Err(error)) => Err(failed(error)),
        End::Status(Ok(status)) if status.success() => Ok(match output.is_empty() {
            true => "[no output]".to_owned(),
            false => output,
        }),
        End::Status(Ok(status)) => Ok(format!("[{status}]\n{output}")),
        End::Cancelled => Err(ToolError::new(format!(
            "the command was cancelled and killed; what it had changed by then stays\n{output}"
        ))),
        End::TimedOut => Err(ToolError::new(format!(
            "the command took longer than {} s and was killed; what it had changed by then stays\n{output}",
            timeout.as_secs_f64()
        ))),
    }
}

/// The next bytes of a stream; the stream is gone when it has ended.
async fn next(stream: &mut Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    let read = match stream {
        Some(open) => open.read(&mut bytes).await.unwrap_or(0),
        None => 0,
    };
    if read == 0 {
        *stream = None;
    }
    bytes.truncate(read);
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn output_status_and_directory() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        let run = |command: &str| block_on(run(&root, CancellationToken::new(), command, TIMEOUT));
        assert_eq!(
            run("echo a; pwd").unwrap(),
            format!("a\n{}\n", root.path().display())
        );
        assert_eq!(run("true").unwrap(), "[no output]");
        assert_eq!(run("echo b >&2; exit 3").unwrap(), "[exit status: 3]\nb\n");
        // A background process that holds the output open is not waited for.
        assert_eq!(run("echo c; sleep 30 &").unwrap(), "c\n");
    }

    /// A pipe is open for writing as long as anyone of the group lives.
    #[test]
    fn the_whole_group_dies_on_a_cancellation_and_on_a_timeout() {
        for cancels in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let root = Root::open(directory.path()).unwrap();
            let fifo = directory.path().join("alive");
            let made = std::process::Command::new("mkfifo").arg(&fifo).status();
            assert!(made.unwrap().success());
            let cancellation = CancellationToken::new();
            let watcher = std::thread::spawn({
                let cancellation = cancellation.clone();
                move || {
                    let mut alive = std::fs::File::open(&fifo).unwrap(); // waits for a writer
                    if cancels {
                        cancellation.cancel();
                    }
                    alive.read_to_end(&mut Vec::new()).unwrap() // waits until the last is gone
                }
            });
            let timeout = Duration::from_secs(if cancels { 60 } else { 1 });
            let command = "echo begun; exec 9>alive; (sleep 60; sleep 60) & yes";
            let run = run(&root, cancellation, command, timeout);
            let error = block_on(run).unwrap_err();
            assert!(error.message.contains("killed"), "{error}");
            assert!(error.message.contains("begun"), "{error}");
            assert_eq!(watcher.join().unwrap(), 0);
        }
    }
}
