//! Driving a run to its end: events, what a person sees, questions, and what it ended with.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rethread_core::{Agent, Error, Event, Json, Model, Reply, Run, Session, Store, Wait};
use tokio_util::sync::CancellationToken;

use crate::args::Work;
use crate::ask::{self, Asked, ask};
use crate::document::{Document, End, Waiting};
use crate::failure::{Code, Failure};
use crate::model::Chosen;
use crate::recorder::{Recorder, Request};
use crate::remembered::Remembered;
use crate::view::View;
use crate::{signals, term, tools};

/// A run about to begin, and what is needed to tell of it.
pub(crate) struct Going {
    agent: Agent,
    recorder: Recorder,
    watcher: Arc<Mutex<Watcher>>,
    cancel: CancellationToken,
    json: bool,
    records: bool,
    asks: bool,
    hints: Hints,
}

/// What is done at every event.
struct Watcher {
    file: Option<(PathBuf, File)>,
    tool_runs: Vec<(String, Json)>,
    view: Option<View>,
}

impl Watcher {
    fn take(&mut self, event: &Event) {
        if let Event::ToolStarted {
            name, arguments, ..
        } = event
        {
            self.tool_runs.push((name.clone(), arguments.clone()));
        }
        if let Some((path, file)) = &mut self.file
            && let Err(error) = write_event(file, event)
        {
            // The run is worth more than its log.
            term::warning(&format!("cannot write `{}`: {error}", path.display()));
            self.file = None;
        }
        if let Some(view) = &mut self.view {
            view.show(event);
        }
    }
}

/// One write for one line, so that a reader sees whole lines and a crash loses none.
fn write_event(file: &mut File, event: &Event) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    file.write_all(&line)
}

impl Going {
    /// Puts the agent together.
    pub(crate) fn new(
        work: &Work,
        store: Option<Arc<dyn Store>>,
        chosen: Chosen,
        remembered: Remembered,
        hints: Hints,
    ) -> Result<Self, Failure> {
        let file = match &work.events {
            None => None,
            Some(path) => {
                let file = OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(path)
                    .map_err(|error| Failure::file("write", path, &error))?;
                Some((path.clone(), file))
            }
        };
        let keeps = work.record_requests;
        let model: Arc<dyn Model> = chosen.model;
        let recorder = Recorder::new(model, keeps);
        let built_in = tools::tools(Path::new("."), work.yes)
            .map_err(|error| Failure::file("open", Path::new("."), &error))?;
        let mut builder = Agent::builder()
            .model(recorder.clone())
            .tools(built_in)
            .tools(chosen.tools);
        let instructions = match &work.instructions {
            Some(given) => Some(instructions(given)?),
            None => remembered.instructions,
        };
        if let Some(instructions) = instructions {
            builder = builder.instructions(instructions);
        }
        if let Some(steps) = work.max_steps {
            builder = builder.max_steps(steps);
        }
        if let Some(store) = store {
            builder = builder.shared_store(store);
        }
        Ok(Self {
            agent: builder.build()?,
            recorder,
            watcher: Arc::new(Mutex::new(Watcher {
                file,
                tool_runs: Vec::new(),
                view: (!work.json).then(View::new),
            })),
            cancel: CancellationToken::new(),
            json: work.json,
            records: keeps,
            asks: !work.json && ask::is_possible(),
            hints,
        })
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Runs to the end and says how it ended.
    pub(crate) async fn go(self, session: Session, run: Run) -> Result<Code, Failure> {
        signals::watch(&self.cancel);
        let mut always = HashSet::new();
        let mut result = self.one(run).await;
        while self.asks && !self.cancel.is_cancelled() && matches!(result, Err(Error::Suspended(_)))
        {
            let store = self.agent.store();
            let calls = ask::waiting(&**store, session.id()).await?;
            // A handle of its own: the answers are news to the one that ran.
            let session = self.agent.session(session.id());
            let asked = tokio::select! {
                asked = ask(&session, calls, &mut always) => asked,
                () = self.cancel.cancelled() => Ok(Asked::NotAll),
            };
            match asked? {
                Asked::All => result = self.one(session.resume()).await,
                Asked::NotAll => break,
            }
        }
        self.tell(session.id(), result).await
    }

    async fn one(&self, run: Run) -> Result<Reply, Error> {
        let watcher = Arc::clone(&self.watcher);
        run.cancellation(self.cancel.clone())
            .watch(move |event| {
                watcher
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(event);
            })
            .await
    }

    async fn tell(self, session: &str, result: Result<Reply, Error>) -> Result<Code, Failure> {
        let waiting = match &result {
            Err(Error::Suspended(_)) => ask::waiting(&**self.agent.store(), session).await?,
            _ => Vec::new(),
        };
        let tool_runs = {
            let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(view) = &mut watcher.view {
                view.end();
            }
            std::mem::take(&mut watcher.tool_runs)
        };
        let done = Done {
            model_calls: self.recorder.calls(),
            tool_runs,
            waiting,
            requests: self.records.then(|| self.recorder.requests()),
        };
        done.tell(session, self.json, &self.hints, result)
    }
}

/// What a run did.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) model_calls: usize,
    pub(crate) tool_runs: Vec<(String, Json)>,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) requests: Option<Vec<Request>>,
}

impl Done {
    /// Says how a run ended; to a person the answer itself has been shown as it came.
    pub(crate) fn tell(
        self,
        session: &str,
        json: bool,
        hints: &Hints,
        result: Result<Reply, Error>,
    ) -> Result<Code, Failure> {
        if !json {
            return Ok(self.tell_person(session, hints, result));
        }
        let end = End::of(result)?;
        let code = end.code;
        term::json(&Document {
            session,
            end,
            model_calls: self.model_calls,
            tool_runs: self.tool_runs,
            waiting: self.waiting,
            requests: self.requests,
        });
        Ok(code)
    }

    fn tell_person(self, session: &str, hints: &Hints, result: Result<Reply, Error>) -> Code {
        let session = &quoted(session);
        let go_on = format!("rethread resume {session}{}{}", hints.store, hints.model);
        let error = match result {
            Ok(reply) if reply.stop().is_none() => return Code::Done,
            Ok(_) => {
                term::say(&format!("see `rethread why {session}{}`", hints.store));
                return Code::Failed;
            }
            Err(error) => error,
        };
        match &error {
            Error::Cancelled => {
                term::say(&format!("cancelled; go on with `{go_on}`"));
                return Code::Cancelled;
            }
            Error::Suspended(_) => {
                for call in &self.waiting {
                    let with = match call.wait {
                        Wait::Approval => "--approve",
                        _ => "--result TEXT",
                    };
                    // All of it, and line breaks as such: it is what is let through.
                    let prompt = call.prompt.as_deref().unwrap_or(&call.name);
                    let prompt = match call.arguments.get() {
                        "{}" => term::clean(prompt),
                        arguments => {
                            format!("{}\n  {}", term::clean(prompt), term::clean(arguments))
                        }
                    };
                    term::say(&format!(
                        "{}\n  answer with `rethread answer {session} {} {with}{}`",
                        term::paint(term::BOLD, &prompt),
                        quoted(&term::short(&call.id, 64)),
                        hints.store
                    ));
                }
                term::say(&format!("then go on with `{go_on}`"));
                return Code::Waiting;
            }
            _ => {}
        }
        let resumable = matches!(
            &error,
            Error::Model(_) | Error::StepLimit { .. } | Error::TokenLimit { .. }
        );
        let failure = Failure::from(error);
        term::error(&failure.message);
        if resumable {
            term::say(&format!("go on with `{go_on}`"));
        }
        failure.code
    }
}

/// What has to be repeated on the command line for another command to find the same things.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    store: String,
    model: String,
}

impl Hints {
    pub(crate) fn new(store: Option<&str>, model: Option<&str>) -> Self {
        let option = |name: &str, value: Option<&str>| {
            value.map_or_else(String::new, |value| format!(" {name} {}", quoted(value)))
        };
        Self {
            store: option("--store", store),
            // Other models are remembered.
            model: option("--model", model.filter(|name| name.starts_with("script:"))),
        }
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=@%+,".contains(char);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The instructions: what a file holds, or the text itself.
fn instructions(given: &str) -> Result<String, Failure> {
    let path = Path::new(given);
    let is_one_word = !given.contains(char::is_whitespace);
    let looks_like_a_file =
        is_one_word && (given.contains('/') || path.extension().is_some_and(|e| !e.is_empty()));
    if path.is_file() || looks_like_a_file {
        return std::fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error));
    }
    Ok(given.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_words_a_shell_takes() {
        let hints = Hints::new(Some("sqlite:my file's.db"), Some("script:s.json"));
        assert_eq!(hints.store, r" --store 'sqlite:my file'\''s.db'");
        assert_eq!(hints.model, " --model script:s.json");
        assert_eq!(Hints::new(None, Some("anthropic:x")).model, "");
    }
}
