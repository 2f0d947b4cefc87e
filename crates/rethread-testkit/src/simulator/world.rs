//! What outlives a process: the stored records, the effects of tools, the provider's side, and the
//! plan of what is to go wrong where.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use rethread_core::{Budget, CallKey, Entry, History, Lease, Message, Record, StopReason};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::script::{Broken, Script};
use super::{Fault, Invariant, Judge, oracle};

/// What happens at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The process dies.
    Crash,
    /// The run's cancellation fires.
    Cancel,
    /// The run is dropped.
    Drop,
    /// The store fails at its next append, before or after it is durable.
    StoreError,
    /// Another process works on the session, too; the number says how.
    Rival(u64),
}

/// What the executor is asked to do when it is polled next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Drop,
    Rival(u64),
}

/// Whether the process goes on after a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    Go,
    /// Give way to the executor once.
    Yield,
    Dead,
}

/// Shared by all that stands for the outside of a process.
#[derive(Clone)]
pub(super) struct World(Arc<Mutex<State>>);

pub(super) struct State {
    pub(super) script: Arc<Script>,
    pub(super) points: u64,
    /// What stood at each point; kept in an undisturbed run, compared in the others.
    pub(super) labels: Vec<&'static str>,
    pub(super) known: Option<Arc<Undisturbed>>,
    plan: VecDeque<(u64, Stop)>,
    pub(super) crashes: u64,
    pub(super) interruptions: u64,
    pub(super) life: u32,
    pub(super) dead: bool,
    waker: Option<Waker>,
    pub(super) request: Option<Request>,
    pub(super) token: Option<CancellationToken>,
    pub(super) store_error: bool,
    /// Whether the store failed in this run, so that appends were tried again.
    pub(super) stored_late: bool,
    /// Commits in a row of renewals without anything else: a run that hangs.
    pub(super) renewals: u32,
    processes: u32,
    /// The session each process works on, and whether its run grants a new allowance.
    pub(super) at: HashMap<u32, (String, bool)>,
    pub(super) ledgers: BTreeMap<String, Ledger>,
    pub(super) effects: Vec<Effect>,
    failures: HashMap<(String, usize), usize>,
    /// What each process's last model call came to.
    pub(super) produced: HashMap<u32, Produced>,
    pub(super) requests: HashMap<(String, u64), Vec<String>>,
    /// The session and the request that must come next, after a crash.
    pub(super) expected: Option<(String, Vec<String>)>,
    /// Whether what happens is judged; what is known from the undisturbed run is not judged again.
    pub(super) judging: bool,
    pub(super) fault: Option<Fault>,
    pub(super) judge: Option<Judge>,
    /// Leases a broken store keeps alive.
    pub(super) kept: Vec<Lease>,
    pub(super) found: Vec<(u64, Invariant, String)>,
    pub(super) trace: Option<Vec<String>>,
}

/// What an undisturbed run of a script looked like.
#[derive(Debug, Default)]
pub(super) struct Undisturbed {
    pub(super) labels: Vec<&'static str>,
    /// By session and how many commits it had then.
    pub(super) requests: HashMap<(String, u64), Vec<String>>,
}

/// What a model call came to, as it must be stored.
#[derive(Clone, Debug)]
pub(super) enum Produced {
    /// A whole response: the JSON of its message.
    Whole(String),
    /// A broken one: what had come, and how it stopped.
    Cut {
        text: String,
        reason: StopReason,
        calls: Vec<String>,
    },
}

/// What is stored of one session.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) history: History,
    pub(super) commits: u64,
    pub(super) owner: Option<Owner>,
    pub(super) budget: Budget,
    /// The draft that is kept.
    pub(super) draft: Option<String>,
    /// The calls that had had an effect in the session it was forked from.
    pub(super) inherited: Vec<CallKey>,
}

/// Who holds the lease.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) process: u32,
    pub(super) fence: u64,
    pub(super) alive: Weak<()>,
}

/// A tool that was started.
#[derive(Debug)]
pub(super) struct Effect {
    pub(super) session: String,
    pub(super) key: CallKey,
    pub(super) process: u32,
    /// Whether something outside was changed, or may have been.
    pub(super) touched: bool,
    /// When it ended, and with what; nothing while it is at work or when it was given up.
    pub(super) ended: Option<(Instant, Option<String>)>,
}

impl Ledger {
    pub(super) fn records(&self) -> &[Record] {
        self.history.records()
    }

    /// The responses made by runs of ours.
    pub(super) fn responses(&self) -> usize {
        let own = |record: &&Record| matches!(&record.entry, Entry::Message(_, mark) if mark.step.is_some());
        self.records().iter().filter(own).count()
    }

    /// Whether a message that begins so is stored.
    pub(super) fn holds(&self, mark: &str) -> bool {
        self.records().iter().any(|record| {
            record.entry.as_message().is_some_and(|message| {
                message.as_assistant().is_none() && message.content().to_text().starts_with(mark)
            })
        })
    }

    /// The message at a place.
    pub(super) fn message(&self, seq: u64) -> Option<&Message> {
        let index = usize::try_from(seq.checked_sub(1)?).ok()?;
        self.records().get(index)?.entry.as_message()
    }
}

impl World {
    pub(super) fn new(
        script: Arc<Script>,
        plan: VecDeque<(u64, Stop)>,
        known: Option<Arc<Undisturbed>>,
        traced: bool,
    ) -> Self {
        Self(Arc::new(Mutex::new(State {
            script,
            points: 0,
            labels: Vec::new(),
            judging: known.is_none(),
            known,
            plan,
            crashes: 0,
            interruptions: 0,
            life: 0,
            dead: false,
            waker: None,
            request: None,
            token: None,
            store_error: false,
            stored_late: false,
            renewals: 0,
            processes: 0,
            at: HashMap::new(),
            ledgers: BTreeMap::new(),
            effects: Vec::new(),
            failures: HashMap::new(),
            produced: HashMap::new(),
            requests: HashMap::new(),
            expected: None,
            fault: None,
            judge: None,
            kept: Vec::new(),
            found: Vec::new(),
            trace: traced.then(Vec::new),
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new process begins.
    pub(super) fn process(&self, session: &str) -> u32 {
        let mut state = self.lock();
        state.processes += 1;
        let process = state.processes;
        state.at.insert(process, (session.to_owned(), true));
        process
    }

    /// A place where a process can be stopped.
    pub(super) fn hit(&self, process: u32, label: &'static str) -> Hit {
        let mut state = self.lock();
        if state.dead {
            return Hit::Dead;
        }
        state.points += 1;
        let point = state.points;
        state.note(|| format!("{point:>5}  process {process}  {label}"));
        match &state.known {
            None => state.labels.push(label),
            Some(known) if !state.judging => {
                let index = usize::try_from(point - 1).unwrap_or(usize::MAX);
                let before = known.labels.get(index).copied();
                if before != Some(label) {
                    state.violation(
                        Invariant::Deterministic,
                        format!("`{label}` where `{before:?}` was in the undisturbed run"),
                    );
                }
            }
            Some(_) => {}
        }
        let due = state.plan.front().filter(|(at, _)| *at <= point).copied();
        let Some((_, stop)) = due else {
            return if state.request.is_some() {
                Hit::Yield
            } else {
                Hit::Go
            };
        };
        state.plan.pop_front();
        state.note(|| format!("       {stop:?}"));
        state.judging = true;
        if stop != Stop::Crash {
            state.interruptions += 1;
        }
        match stop {
            Stop::Crash => {
                state.die();
                Hit::Dead
            }
            Stop::Cancel => {
                let token = state.token.clone();
                drop(state);
                if let Some(token) = token {
                    token.cancel();
                }
                Hit::Go
            }
            Stop::StoreError => {
                state.store_error = true;
                Hit::Go
            }
            Stop::Drop | Stop::Rival(_) => {
                state.expected = None;
                state.request = Some(match stop {
                    Stop::Rival(how) => Request::Rival(how),
                    _ => Request::Drop,
                });
                state.wake();
                Hit::Yield
            }
        }
    }

    /// A place in asynchronous code: a dead process goes no further.
    pub(super) async fn point(&self, process: u32, label: &'static str) {
        match self.hit(process, label) {
            Hit::Go => {}
            Hit::Yield => tokio::task::yield_now().await,
            Hit::Dead => std::future::pending().await,
        }
    }

    /// Goes no further in a dead process.
    pub(super) async fn alive(&self) {
        if self.lock().dead {
            std::future::pending::<()>().await;
        }
    }

    /// Runs a future until it ends or the process dies.
    pub(super) async fn live<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = Box::pin(future);
        std::future::poll_fn(|cx| {
            if self.is_dead(cx) {
                return Poll::Ready(None);
            }
            match future.as_mut().poll(cx) {
                Poll::Ready(value) if !self.lock().dead => Poll::Ready(Some(value)),
                _ if self.lock().dead => Poll::Ready(None),
                _ => Poll::Pending,
            }
        })
        .await
    }

    fn is_dead(&self, cx: &Context<'_>) -> bool {
        let mut state = self.lock();
        if !state
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            state.waker = Some(cx.waker().clone());
        }
        state.dead
    }

    /// The next failure of a reply's call that the provider has in store.
    pub(super) fn next_failure(
        &self,
        session: &str,
        reply: usize,
        of: &[Broken],
    ) -> Option<Broken> {
        let mut state = self.lock();
        let met = state
            .failures
            .entry((session.to_owned(), reply))
            .or_default();
        let failure = of.get(*met).copied();
        if failure.is_some() {
            *met += 1;
        }
        failure
    }
}

impl State {
    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    fn die(&mut self) {
        self.dead = true;
        self.crashes += 1;
        self.wake();
    }

    /// Ends a process that does not end by itself.
    pub(super) fn kill(&mut self) {
        self.dead = true;
        self.wake();
    }

    /// The next process can begin.
    pub(super) fn revive(&mut self) {
        self.expect();
        self.dead = false;
        self.life += 1;
        self.request = None;
        self.token = None;
        self.store_error = false;
        self.stored_late = false;
        self.renewals = 0;
        self.waker = None;
    }

    /// After the first crash: the request that must come next is the one that came next in the run
    /// that was not interrupted, if all that is missing is the model's response.
    fn expect(&mut self) {
        self.expected = None;
        let (Some(known), 1, 0) = (&self.known, self.crashes, self.interruptions) else {
            return;
        };
        for (session, ledger) in &self.ledgers {
            let held = ledger.owner.is_some();
            if held && oracle::view(ledger.records()).state == "call_model" {
                let key = (session.clone(), ledger.commits);
                let request = known.requests.get(&key).cloned();
                self.expected = request.map(|request| (session.clone(), request));
            }
        }
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    pub(super) fn violation(&mut self, invariant: Invariant, detail: String) {
        self.note(|| format!("       VIOLATION of {invariant}: {detail}"));
        if self.found.len() < 16 {
            self.found.push((self.points, invariant, detail));
        }
    }

    pub(super) fn require(
        &mut self,
        holds: bool,
        invariant: Invariant,
        detail: impl FnOnce() -> String,
    ) {
        if !holds {
            self.violation(invariant, detail());
        }
    }

    /// The session a process works on.
    pub(super) fn session(&self, process: u32) -> &str {
        self.at
            .get(&process)
            .map_or("", |(session, _)| session.as_str())
    }

    /// Whether a process holds the lease of its session.
    pub(super) fn owns(&self, process: u32) -> bool {
        self.ledgers
            .get(self.session(process))
            .and_then(|ledger| ledger.owner.as_ref())
            .is_some_and(|owner| owner.process == process)
    }
}
