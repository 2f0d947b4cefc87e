//! Processes: one after the other they carry the session on until nothing is left to do.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rethread_core::{
    Agent, Answer, BoxFuture, CallState, Entry, Error, MemoryStore, Message, Reply, Run, Session,
    Store as _, StoreError, Wait,
};
use tokio_util::sync::CancellationToken;

use super::model::SimModel;
use super::person::{Action, decide, fork};
use super::random::Random;
use super::script::{Script, Turn, mark};
use super::store::SimStore;
use super::tools::tools;
use super::world::{Request, Undisturbed, World};
use super::{Invariant, check, oracle};

/// What a script came to under a plan.
pub(super) struct Played {
    pub(super) points: u64,
    pub(super) crashes: u64,
    pub(super) interruptions: u64,
    pub(super) undisturbed: Undisturbed,
    pub(super) found: Vec<(u64, Invariant, String)>,
    pub(super) trace: Vec<String>,
}

/// Plays a script to its end, however often it is interrupted.
pub(super) fn play(world: &World) -> Played {
    let store = MemoryStore::new();
    let mut rounds = 0;
    loop {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                let detail = format!("there is no runtime: {error}");
                world.lock().violation(Invariant::Ends, detail);
                break;
            }
        };
        let process = Process::new(world, &store, "main");
        let ended = runtime.block_on(world.live(process.work(&mut rounds)));
        // All that the process had in memory goes with it.
        drop(runtime);
        drop(process);
        let mut state = world.lock();
        if ended.is_some() || !state.found.is_empty() {
            break;
        }
        state.revive();
        state.note(|| "------ the process is gone; another begins".to_owned());
    }
    finish(world);
    let mut state = world.lock();
    Played {
        points: state.points,
        crashes: state.crashes,
        interruptions: state.interruptions,
        undisturbed: Undisturbed {
            labels: std::mem::take(&mut state.labels),
            requests: std::mem::take(&mut state.requests),
        },
        found: std::mem::take(&mut state.found),
        trace: state.trace.take().unwrap_or_default(),
    }
}

/// At the end everything has been said, and every session rests.
fn finish(world: &World) {
    let mut state = world.lock();
    if !state.found.is_empty() || !state.judging {
        return;
    }
    let turns = state.script.turns.clone();
    let mut missing = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        let done = match turn {
            Turn::Say(_) | Turn::Append(_) => state
                .ledgers
                .get("main")
                .is_some_and(|ledger| ledger.holds(&mark(index))),
            Turn::Fork(_) => true,
        };
        if !done {
            missing.push(index);
        }
    }
    state.require(missing.is_empty(), Invariant::Ends, || {
        format!("the turns {missing:?} were never taken")
    });
    let open: Vec<String> = state
        .ledgers
        .iter()
        .filter(|(session, _)| !session.starts_with(COPY))
        .filter_map(|(session, ledger)| {
            let view = oracle::view(ledger.records());
            let ends = matches!(
                view.state,
                "completed" | "refused" | "context_full" | "unknown_stop" | "empty" | "malformed"
            );
            (!ends).then(|| format!("{session} is {}", view.state))
        })
        .collect();
    state.require(open.is_empty(), Invariant::Ends, || open.join(", "));
}

/// A process with its agent.
struct Process {
    world: World,
    store: MemoryStore,
    id: u32,
    agent: Result<Agent, Error>,
}

/// How an operation ended that others may have taken part in.
struct Done<T> {
    /// Nothing when it was dropped.
    value: Option<T>,
    /// Whether another process worked on the session meanwhile.
    rival: bool,
}

impl Process {
    fn new(world: &World, store: &MemoryStore, session: &str) -> Self {
        let id = world.process(session);
        let script = Arc::clone(&world.lock().script);
        // Sometimes the program has been changed when it is started again.
        let life = u64::from(world.lock().life);
        let instructions = match Random::of(&[script.seed, life, 7]).percent(10) {
            true if life > 0 => "be very brief",
            _ => "be brief",
        };
        let agent = Agent::builder()
            .model(SimModel::new(world.clone(), id))
            .instructions(instructions)
            .tools(tools(world, id, &script))
            .store(SimStore {
                inner: store.clone(),
                world: world.clone(),
                process: id,
            })
            .max_steps(script.limits.steps)
            .max_pauses(script.limits.pauses)
            .max_tokens(script.limits.tokens)
            .max_retries(script.retries)
            .build();
        Self {
            world: world.clone(),
            store: store.clone(),
            id,
            agent,
        }
    }

    /// Carries everything on to its end.
    async fn work(&self, rounds: &mut u32) {
        let script = Arc::clone(&self.world.lock().script);
        self.carry_on("main", &script.turns, rounds).await;
        let last = [Turn::Say(vec![Message::user(mark(0))])];
        for (index, turn) in script.turns.iter().enumerate() {
            let there = self.world.lock().ledgers.contains_key(&fork(index));
            if matches!(turn, Turn::Fork(_)) && there {
                self.carry_on(&fork(index), &last, rounds).await;
            }
        }
    }

    async fn carry_on(&self, id: &str, turns: &[Turn], rounds: &mut u32) {
        let agent = match &self.agent {
            Ok(agent) => agent,
            Err(error) => {
                let detail = format!("there is no agent: {error}");
                self.world.lock().violation(Invariant::Ends, detail);
                return;
            }
        };
        let kept = agent.session(id);
        loop {
            *rounds += 1;
            {
                let mut state = self.world.lock();
                state.at.insert(self.id, (id.to_owned(), true));
                let stops = state.crashes + state.interruptions;
                let most = 60 + 12 * (script_len(&state.script) + stops);
                if u64::from(*rounds) > most {
                    let detail = format!("{rounds} rounds and no end");
                    state.violation(Invariant::Ends, detail);
                }
                if !state.found.is_empty() {
                    return;
                }
            }
            // A handle that was used before knows where its last run ended; a new one reads it.
            let fresh = Random::of(&[u64::from(*rounds)]).percent(30);
            let session = if fresh {
                agent.session(id)
            } else {
                kept.clone()
            };
            let status = match session.status().await {
                Ok(status) => {
                    check::status(&mut self.world.lock(), id, &status);
                    Some(status)
                }
                Err(Error::Store(StoreError::NotFound { .. })) => None,
                Err(_) => continue,
            };
            let action = decide(&self.world.lock(), id, turns, status.as_ref(), *rounds);
            self.world.lock().note(|| format!("       {action:?}"));
            if matches!(action, Action::Rest) {
                return;
            }
            self.perform(&session, action).await;
        }
    }

    async fn perform(&self, session: &Session, action: Action) {
        let id = session.id().to_owned();
        if !matches!(
            action,
            Action::Fork { .. }
                | Action::Resume {
                    grant: true,
                    override_stop: false
                }
        ) {
            self.world.lock().expected = None;
        }
        let mut refuses = false;
        let problem = match action {
            Action::Rest => None,
            Action::Say(messages) => return self.run(&id, session.run_with(messages), true).await,
            Action::Resume {
                grant,
                override_stop,
            } => {
                let mut run = session.resume();
                if !grant {
                    run = run.without_grant();
                }
                if override_stop {
                    run = run.override_stop();
                }
                return self.run(&id, run, grant).await;
            }
            Action::Import(messages) => {
                let entries = messages.into_iter().map(Entry::message).collect();
                self.alone(session.create(entries)).await
            }
            Action::Append(message) => {
                let append = async {
                    let mut writer = session.writer().await?;
                    writer.append(*message).await?;
                    writer.release().await
                };
                self.alone(append).await
            }
            Action::Fork { at, to } => {
                let fork = async { session.fork(Some(at), to).await.map(|_| ()) };
                self.alone(fork).await
            }
            Action::Answer(call, answer) => {
                refuses = !takes(&self.world, &id, &call, &answer);
                self.alone(session.answer(&call, answer)).await
            }
        };
        let expected = match problem {
            None => true, // or someone else took part
            Some(Error::Store(StoreError::Io { .. })) => true,
            Some(Error::NotWaiting { .. }) => refuses,
            Some(_) => false,
        };
        let mut state = self.world.lock();
        state.require(expected, Invariant::TrueEnd, || {
            format!("refused: {problem:?}")
        });
    }

    /// Does something that is no run; gives what went wrong with it when nobody else took part.
    async fn alone(&self, work: impl Future<Output = Result<(), Error>>) -> Option<Error> {
        let done = self.supervise(work).await;
        match done.value {
            Some(Err(error)) if !done.rival => Some(error),
            _ => None,
        }
    }

    async fn run(&self, id: &str, run: Run, grant: bool) {
        let token = CancellationToken::new();
        let streams = {
            let mut state = self.world.lock();
            state.token = Some(token.clone());
            state.at.insert(self.id, (id.to_owned(), grant));
            state.script.streams
        };
        let (world, process, session) = (self.world.clone(), self.id, id.to_owned());
        let mut run = run.cancellation(token).watch(move |event| {
            if !world.lock().dead {
                world.hit(process, "an event");
                check::event(&mut world.lock(), &session, event);
            }
        });
        let (world, process) = (self.world.clone(), self.id);
        let done = self
            .supervise(async move {
                if streams {
                    while run.next().await.is_some() {
                        world.point(process, "an event is taken").await;
                    }
                }
                run.await
            })
            .await;
        self.world.lock().token = None;
        match done {
            Done {
                value: Some(result),
                rival: false,
            } => check::outcome(&mut self.world.lock(), id, &result),
            Done { value: Some(_), .. } => {}
            Done { value: None, .. } => self.settle(id).await,
        }
        check::over(&mut self.world.lock(), self.id);
    }

    /// Waits until what a dropped run left to do is done.
    async fn settle(&self, id: &str) {
        for _ in 0..10_000 {
            // Time passes only when nothing else can happen.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let head = self.store.head(id).await;
            if !head.ok().flatten().is_some_and(|head| head.is_busy()) {
                return;
            }
        }
        let mut state = self.world.lock();
        state.violation(
            Invariant::Free,
            format!("{id} is held after its run was dropped"),
        );
    }

    /// Polls an operation, and does to it what the plan asks for.
    async fn supervise<T>(&self, work: impl Future<Output = T>) -> Done<T> {
        let mut work = Some(Box::pin(work));
        let mut other: Option<BoxFuture<'static, ()>> = None;
        let (mut value, mut rival) = (None, false);
        poll_fn(|cx| {
            loop {
                let request = self.world.lock().request.take();
                match request {
                    Some(Request::Drop) => work = None,
                    Some(Request::Rival(how)) if other.is_none() => {
                        let id = self.world.lock().session(self.id).to_owned();
                        rival = true;
                        other = Some(Box::pin(rival_work(
                            self.world.clone(),
                            self.store.clone(),
                            id,
                            how,
                        )));
                    }
                    _ => {}
                }
                if let Some(going) = &mut work
                    && let Poll::Ready(done) = going.as_mut().poll(cx)
                {
                    value = Some(done);
                    work = None;
                }
                if let Some(going) = &mut other
                    && going.as_mut().poll(cx).is_ready()
                {
                    other = None;
                }
                let state = self.world.lock();
                if state.request.is_some() && !state.dead {
                    continue;
                }
                return if work.is_none() && other.is_none() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                };
            }
        })
        .await;
        Done { value, rival }
    }
}

/// Whether the first open call of an id takes an answer: leave only if it waits for that.
fn takes(world: &World, session: &str, call: &str, answer: &Answer) -> bool {
    if matches!(answer, Answer::Result(_) | Answer::Failure(_)) {
        return true;
    }
    let state = world.lock();
    let open = state
        .ledgers
        .get(session)
        .and_then(|ledger| {
            let open = oracle::view(ledger.records()).open;
            open.into_iter().find(|open| open.id == call)
        })
        .map(|open| open.state);
    matches!(
        open,
        Some(CallState::Suspended(Wait::Approval) | CallState::Approved)
    )
}

fn script_len(script: &Script) -> u64 {
    let failures: usize = script
        .replies
        .iter()
        .map(|reply| reply.failures.len())
        .sum();
    let calls: usize = script
        .replies
        .iter()
        .map(|reply| reply.response.tool_calls.len())
        .sum();
    (script.turns.len() + script.replies.len() + failures + calls) as u64
}

/// How the names of the forks begin that a rival makes; nobody carries them on.
const COPY: &str = "copy-";

/// Another process that works on the same session.
async fn rival_work(world: World, store: MemoryStore, id: String, how: u64) {
    let process = Process::new(&world, &store, &id);
    world
        .lock()
        .note(|| format!("       process {} is a rival", process.id));
    let Ok(agent) = &process.agent else { return };
    let session = agent.session(&id);
    let watched = |run: Run| {
        let (world, process, session) = (world.clone(), process.id, id.clone());
        run.watch(move |event| {
            if !world.lock().dead {
                world.hit(process, "an event");
                check::event(&mut world.lock(), &session, event);
            }
        })
    };
    let result: Result<Option<Reply>, Error> = match how % 7 {
        0 => watched(session.resume()).await.map(Some),
        1 => watched(session.run("someone else speaks")).await.map(Some),
        2 => watched(session.resume().take_over()).await.map(Some),
        3 => watched(session.run("someone else takes over").take_over())
            .await
            .map(Some),
        4 => {
            let status = session.status().await;
            let open = status.ok().and_then(|status| status.point.ok());
            let open = open.and_then(|point| point.unanswered.into_iter().next());
            match open {
                Some(open) => {
                    let answer = Answer::Result("someone else answers".into());
                    session.answer(&open.id, answer).await.map(|()| None)
                }
                None => Ok(None),
            }
        }
        5 => session
            .fork(None, format!("{COPY}{}", process.id))
            .await
            .map(|_| None),
        _ => {
            async {
                let mut writer = session.writer().await?;
                writer
                    .append(Message::agent("a note from elsewhere"))
                    .await?;
                writer.release().await?;
                Ok(None)
            }
            .await
        }
    };
    world.lock().note(|| match result {
        Ok(_) => "       the rival is done".to_owned(),
        Err(error) => format!("       the rival ends: {error}"),
    });
}
