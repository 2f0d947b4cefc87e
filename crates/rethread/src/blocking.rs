//! The same for code that is not async.
//!
//! Everything runs on one background runtime of this module, so the calls here can be made from
//! anywhere, also from a thread that an async runtime owns (which they block), without deadlock.
//!
//! ```
//! # use rethread::{Agent, Script};
//! # let script = Script::from_json(r#"{"replies":[],"then":{"text":"hello"}}"#)?;
//! use rethread::blocking;
//!
//! let agent = Agent::builder().model(script.model()).build()?;
//! let session = blocking::Session::new(agent.session("greeting"));
//! let reply = session.run("Say hello.").wait()?;
//! assert_eq!(reply.text(), "hello");
//!
//! for event in session.run("Again.") {
//!     println!("{event:?}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::future::Future;
use std::sync::{OnceLock, mpsc};

use rethread_core::{Answer, Content, Error, Event, History, Reply, ResumePoint, Status};
use tokio::runtime::{Builder, Runtime};

/// A handle to a durable conversation; see [`rethread_core::Session`].
#[derive(Clone, Debug)]
pub struct Session(rethread_core::Session);

impl Session {
    /// The blocking form of a session.
    #[must_use]
    pub fn new(session: rethread_core::Session) -> Self {
        Self(session)
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0.id()
    }

    /// Runs with a new message of a person.
    pub fn run(&self, content: impl Into<Content>) -> Run {
        Run(Some(self.0.run(content)))
    }

    /// The same as [`run`](Session::run), for callers who take its events.
    pub fn stream(&self, content: impl Into<Content>) -> Run {
        self.run(content)
    }

    /// Carries on where the session was interrupted.
    pub fn resume(&self) -> Run {
        Run(Some(self.0.resume()))
    }

    /// The same as [`resume`](Session::resume), for callers who take its events.
    pub fn stream_resume(&self) -> Run {
        self.resume()
    }

    /// Where the session was interrupted; see [`rethread_core::Session::resume_point`].
    ///
    /// # Errors
    /// When there is no such session or the store cannot be read.
    pub fn resume_point(&self) -> Result<Option<ResumePoint>, Error> {
        let session = self.0.clone();
        wait(async move { session.resume_point().await })?
    }

    /// Where the session stands; see [`rethread_core::Session::status`].
    ///
    /// # Errors
    /// When there is no such session or the store cannot be read.
    pub fn status(&self) -> Result<Status, Error> {
        let session = self.0.clone();
        wait(async move { session.status().await })?
    }

    /// All records.
    ///
    /// # Errors
    /// When there is no such session or the store cannot be read.
    pub fn history(&self) -> Result<History, Error> {
        let session = self.0.clone();
        wait(async move { session.history().await })?
    }

    /// Gives a suspended call what it waited for; see [`rethread_core::Session::answer`].
    ///
    /// # Errors
    /// As there.
    pub fn answer(&self, call_id: &str, answer: Answer) -> Result<(), Error> {
        let (session, call_id) = (self.0.clone(), call_id.to_owned());
        wait(async move { session.answer(&call_id, answer).await })?
    }
}

/// A run: an iterator of its events, and [`wait`](Run::wait) for its reply. Nothing happens before
/// either is used; dropping a run that has begun cancels it.
#[derive(Debug)]
#[must_use = "a run does nothing until it is waited for or its events are taken"]
pub struct Run(Option<rethread_core::Run>);

impl Run {
    /// Changes the run before it begins: its model, its cancellation, who watches it.
    pub fn with(mut self, change: impl FnOnce(rethread_core::Run) -> rethread_core::Run) -> Self {
        self.0 = self.0.take().map(change);
        self
    }

    /// Waits for the reply.
    ///
    /// # Errors
    /// When the run did not reach an answer.
    pub fn wait(mut self) -> Result<Reply, Error> {
        match self.0.take() {
            Some(run) => wait(run)?,
            None => Err(gone()),
        }
    }
}

impl Iterator for Run {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut run = self.0.take()?;
        let (run, event) = wait(async move {
            let event = run.next().await;
            (run, event)
        })
        .ok()?;
        self.0 = Some(run);
        event
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Inside the runtime, where what is needed to end the run well can go on.
        if let (Some(run), Ok(runtime)) = (self.0.take(), runtime()) {
            runtime.spawn(async move { drop(run) });
        }
    }
}

/// The runtime everything here runs on, made when it is first needed.
fn runtime() -> Result<&'static Runtime, Error> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name("rethread-blocking")
                .enable_all()
                .build()
                .map_err(|error| error.to_string())
        })
        .as_ref()
        .map_err(|error| Error::Setup(format!("the background runtime cannot start: {error}")))
}

fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T, Error> {
    let (done, result) = mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        // Whoever waited may be gone.
        let _ = done.send(future.await);
    });
    result.recv().map_err(|_| gone())
}

fn gone() -> Error {
    Error::Setup("the run broke down".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rethread_core::Agent;
    use rethread_providers::Script;

    fn session(script: &str) -> Session {
        let script = Script::from_json(script).unwrap();
        let agent = Agent::builder()
            .model(script.model())
            .tools(script.tools())
            .build()
            .unwrap();
        Session::new(agent.session("s"))
    }

    const SCRIPT: &str =
        r#"{"replies":[{"text":"one"},{"text":"cut here","cut_after":3}],"then":{"text":"two"}}"#;

    fn talk() {
        let session = session(SCRIPT);
        assert_eq!(session.run("go").wait().unwrap().text(), "one");
        let events: Vec<Event> = session.stream("more").collect();
        assert!(
            matches!(events.last(), Some(Event::RunEnded { .. })),
            "{events:?}"
        );
        let point = session.resume_point().unwrap().unwrap();
        assert_eq!(point.kind, rethread_core::ResumeKind::RetryResponse);
        assert_eq!(session.resume().wait().unwrap().text(), "two");
        assert_eq!(session.resume_point().unwrap(), None);
    }

    #[test]
    fn it_works_outside_any_runtime() {
        talk();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn it_works_inside_a_runtime() {
        talk();
    }

    #[test]
    fn a_run_that_is_dropped_leaves_a_session_that_goes_on() {
        let session = session(
            r#"{"replies":[{"tool_calls":[{"id":"a","name":"t","arguments":{}}]}],"then":{"text":"end"},
               "tools":{"t":{"delay_ms":60000}}}"#,
        );
        let mut run = session.run("go");
        for event in run.by_ref() {
            if let Event::ToolStarted { .. } = event {
                break;
            }
        }
        drop(run);
        // The dropped run writes its end first; until then the session is busy.
        let reply = loop {
            match session.resume().wait() {
                Err(Error::Store(rethread_core::StoreError::Busy { .. })) => {
                    std::thread::yield_now()
                }
                other => break other.unwrap(),
            }
        };
        assert_eq!(reply.text(), "end");
    }
}
