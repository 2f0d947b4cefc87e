//! The one async driver around the [machine](crate::machine): does what it is told, tells it what
//! happened.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::agent::Inner;
use crate::conversation::Conversation;
use crate::machine::{
    Batch, Command, Config, Finish, Input, Machine, Start, ToolOutcome, withheld,
};
use crate::run::{Plan, Shared, Watcher};
use crate::{
    Assistant, Body, CallKey, Commit, Committed, Content, Draft, Entry, Error, Event, Json, Lease,
    Message, ModelError, ModelErrorKind, ModelEvent, ModelStream, Outcome, Page, Record, Reply,
    RunContext, RunKind, Session, Stop, StopReason, StoreError, Summary, Timestamp, Tool,
    ToolContext, ToolOutput, Usage, Writer,
};

/// How often a session that moved on between reading and claiming is read again.
pub(crate) const CLAIMS: u32 = 5;
/// How often what only this process holds is tried to be stored, and how long is waited between.
const STORE_TRIES: u32 = 5;
const STORE_WAIT: Duration = Duration::from_secs(1);
/// How long tools get to stop by themselves when a run is cancelled.
const GRACE: Duration = Duration::from_millis(100);
/// How often a draft is written, at most.
const DRAFT: Duration = Duration::from_millis(250);
/// The longest wait a provider is granted before a retry.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// How many deltas may come in a row before a cancellation is looked for.
const DELTAS: u32 = 16;

pub(crate) async fn drive(plan: Plan, shared: Arc<Shared>) -> Result<Reply, Error> {
    let Plan {
        session,
        agent,
        start,
        grant,
        override_stop,
        take_over,
        watchers,
    } = plan;
    if let Start::Messages(messages) = &start {
        answerable(messages)?;
    }
    let run = uuid::Uuid::now_v7().to_string();
    let kind = if matches!(start, Start::Resume) {
        RunKind::Resume
    } else {
        RunKind::Run
    };
    let context = RunContext {
        session: Arc::clone(&session.id),
        run: run.clone(),
        kind,
    };
    for extension in &agent.extensions {
        extension
            .before_run(&context)
            .await
            .map_err(|message| Error::Extension {
                name: extension.name().to_owned(),
                message,
            })?;
    }
    let mut driver = Driver {
        conversation: Conversation::new(Arc::clone(&agent.store), Arc::clone(&session.id)),
        renewal: Box::pin(sleep(agent.lease / 3)),
        cancelled: Box::pin(shared.cancel.clone().cancelled_owned()),
        retries: agent.retries,
        agent,
        session,
        shared,
        watchers,
        context,
        take_over,
        lease: None,
        tools: JoinSet::new(),
        progress: None,
        response: None,
        usage: Usage::default(),
        failure: None,
    };
    let result = driver.claim_and_run(run, start, grant, override_stop).await;
    driver.close(result).await
}

/// Checks that a run has something to answer. Responses and results are what runs make; a history
/// from elsewhere is imported or appended.
fn answerable(messages: &[Message]) -> Result<(), Error> {
    let made = |message: &Message| matches!(message.body, Body::Assistant(_) | Body::Tool(_));
    let told = |message: &Message| message.in_context && !matches!(message.body, Body::System(_));
    if messages.iter().any(told) && !messages.iter().any(made) {
        return Ok(());
    }
    Err(Error::Setup(
        "a run begins with a message the model is to answer, and with no response or tool result; \
         append those with a writer, and use `resume` to go on without a message"
            .to_owned(),
    ))
}

struct Driver {
    agent: Arc<Inner>,
    session: Session,
    shared: Arc<Shared>,
    watchers: Vec<Watcher>,
    context: RunContext,
    take_over: bool,
    conversation: Conversation,
    lease: Option<Lease>,
    renewal: Pin<Box<Sleep>>,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    retries: u32,
    tools: JoinSet<(CallKey, ToolOutcome)>,
    progress: Option<(mpsc::Sender<Event>, mpsc::Receiver<Event>)>,
    response: Option<Assistant>,
    usage: Usage,
    failure: Option<ModelError>,
}

/// What a wait ended with.
enum Woken<T> {
    Ready(T),
    Cancelled,
    Renew,
}

impl Driver {
    /// Begins the run where the session stands, again if it moved on before it could be claimed.
    async fn claim_and_run(
        &mut self,
        run: String,
        start: Start,
        grant: bool,
        override_stop: bool,
    ) -> Result<Finish, Error> {
        let mut kept = self.session.take_live();
        for attempt in 1.. {
            let known = kept.is_some();
            match kept.take() {
                Some(conversation) => self.conversation = conversation,
                None => self.open(&start).await?,
            }
            let config = Config {
                grant,
                override_stop,
                ..Config::of(&self.agent, run.clone())
            };
            let tail = self.conversation.tail();
            let begun = Machine::begin(config, &tail, self.conversation.last(), start.clone());
            let mut machine = match begun {
                // Another writer may have gone on since this handle last saw the session: an answer
                // came, or a run that was interrupted. What is stored decides.
                Err(_) if known => continue,
                begun => begun?,
            };
            match self.run(&mut machine).await {
                Err(Error::Store(StoreError::Conflict { .. }))
                    if self.lease.is_none() && attempt < CLAIMS => {}
                result => return result,
            }
        }
        Err(Error::Setup("the session could not be claimed".to_owned()))
    }

    async fn open(&mut self, start: &Start) -> Result<(), Error> {
        let (store, session) = (Arc::clone(&self.agent.store), Arc::clone(&self.session.id));
        match Conversation::open(Arc::clone(&store), Arc::clone(&session)).await? {
            Some((conversation, _)) => self.conversation = conversation,
            None if matches!(start, Start::Messages(_)) => {
                self.conversation = Conversation::new(store, session)
            }
            None => {
                let store = format!("{store:?}");
                return Err(StoreError::NotFound {
                    session: session.to_string(),
                    store,
                }
                .into());
            }
        }
        Ok(())
    }

    async fn run(&mut self, machine: &mut Machine) -> Result<Finish, Error> {
        let mut told = false;
        loop {
            if !told && self.shared.cancel.is_cancelled() && machine.can_cancel() {
                told = true;
                let ended = self.finished_tools(GRACE).await;
                machine.cancel(ended);
            }
            match machine.next() {
                Some(Command::Commit(batch)) => {
                    self.commit(batch).await?;
                    machine.handle(Input::Committed);
                }
                Some(Command::Emit(event)) => self.emit(event).await,
                Some(Command::CallModel) => {
                    if let Some(input) = self.call_model().await? {
                        machine.handle(input);
                    }
                }
                Some(Command::StartTool {
                    call,
                    id,
                    tool,
                    arguments,
                }) => self.start_tool(call, id, tool, arguments),
                Some(Command::Finish(finish)) => return Ok(finish),
                None => {
                    if let Some(ended) = self.wait_for_tools().await? {
                        machine.handle(Input::ToolsEnded(ended));
                    }
                }
            }
        }
    }

    async fn close(mut self, result: Result<Finish, Error>) -> Result<Reply, Error> {
        // None starts, or goes on, once the session is free for another.
        self.tools.shutdown().await;
        if let Some(lease) = self.lease.take() {
            // The run's end could not be written. What can be done for the next writer is done.
            if let Err(error) = self.agent.store.release(&lease).await {
                tracing::debug!(%error, session = %self.session.id, "the lease could not be released");
            }
        }
        let (outcome, result) = match result {
            Ok(Finish::Answered) => {
                let message = self.response.take().unwrap_or_default();
                let normal = message.stop_reason().is_normal();
                self.session.put_live(self.conversation);
                let reply = Reply::new(self.session.clone(), message, self.usage);
                (
                    if normal {
                        Outcome::Completed
                    } else {
                        Outcome::Stopped
                    },
                    Ok(reply),
                )
            }
            Ok(Finish::Suspended) => {
                let point = self.conversation.tail().resume_point();
                let error = match point {
                    Ok(point) => Error::Suspended(Box::new(point)),
                    Err(reason) => Error::NotResumable(reason),
                };
                self.session.put_live(self.conversation);
                (Outcome::Suspended, Err(error))
            }
            Ok(Finish::Cancelled) => (Outcome::Cancelled, Err(Error::Cancelled)),
            Ok(Finish::StepLimit) => (
                Outcome::Failed,
                Err(Error::StepLimit {
                    limit: self.agent.limits.steps,
                }),
            ),
            Ok(Finish::TokenLimit) => (
                Outcome::Failed,
                Err(Error::TokenLimit {
                    limit: self.agent.limits.tokens.unwrap_or(0),
                }),
            ),
            Ok(Finish::Failed(failure)) => {
                let error = self
                    .failure
                    .take()
                    .unwrap_or_else(|| ModelError::new(ModelErrorKind::Other, failure.message));
                (Outcome::Failed, Err(Error::Model(error)))
            }
            Err(error) => (Outcome::Failed, Err(error)),
        };
        let failure = result.as_ref().err().map(Error::to_failure);
        for extension in &self.agent.extensions {
            extension
                .after_run(&self.context, outcome, failure.as_ref())
                .await;
        }
        result
    }

    // ------------------------------------------------------------ writing

    async fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let at = Timestamp::now();
        let Batch {
            entries,
            claim,
            release,
            drop_draft,
            state,
        } = batch;
        let rows: Result<Vec<_>, _> = entries
            .iter()
            .map(|entry| Record::encode(at, entry))
            .collect();
        let rows =
            rows.map_err(|error| Error::Setup(format!("a record cannot be encoded: {error}")))?;
        let after = self.conversation.last();
        let messages = entries.iter().filter_map(Entry::as_message);
        let summary = Summary {
            state: state.to_owned(),
            title: if self.conversation.is_titled() {
                None
            } else {
                title(&entries)
            },
            load_from: load_from(after, &entries),
            messages: messages.count() as u64,
        };
        let writer = match &self.lease {
            Some(lease) => Writer::Lease(lease),
            None => Writer::Claim {
                ttl: self.agent.lease,
                create: after == 0 || claim,
                force: self.take_over,
            },
        };
        // A result that arrived and a response that was paid for exist only here until they are
        // stored. What is written with a claim is made of records, and can be made again.
        let in_hand = self.lease.is_some()
            && entries.iter().any(|entry| match entry {
                Entry::Message(_, mark) => mark.call.is_some() || mark.step.is_some(),
                Entry::CallSuspended(_) => true,
                _ => false,
            });
        let mut tries = 1;
        let committed = loop {
            let commit = Commit {
                session: &self.session.id,
                writer,
                after,
                rows: &rows,
                summary: Some(&summary),
                drop_draft,
                release,
            };
            match self.agent.store.commit(commit).await {
                Ok(committed) => break committed,
                Err(StoreError::Io { .. }) if in_hand && tries < STORE_TRIES => {
                    sleep(STORE_WAIT).await;
                    tries += 1;
                }
                // An earlier try may have been written, the lease given back with it, and only the
                // answer lost.
                Err(StoreError::Conflict { .. } | StoreError::Fenced { .. })
                    if tries > 1 && self.is_stored(after, &rows).await =>
                {
                    break Committed {
                        lease: None,
                        last: after + rows.len() as u64,
                    };
                }
                Err(error) => return Err(error.into()),
            }
        };
        if let Some(lease) = committed.lease {
            self.lease = Some(lease);
        }
        if release {
            self.lease = None;
        }
        for entry in &entries {
            if let Some(Body::Assistant(response)) = entry.as_message().map(|message| &message.body)
            {
                self.response = Some(response.clone());
            }
        }
        self.conversation.appended(at, entries);
        Ok(())
    }

    /// Whether these rows stand after a record. They name the run and the moment, so no one else's
    /// are equal.
    async fn is_stored(&self, after: u64, rows: &[Vec<u8>]) -> bool {
        let page = Page::After {
            seq: after,
            limit: rows.len(),
        };
        let found = self.agent.store.read(&self.session.id, page).await;
        found.is_ok_and(|found| {
            found.len() == rows.len()
                && found
                    .iter()
                    .zip(rows)
                    .all(|(found, row)| found.body == *row)
        })
    }

    async fn renew(&mut self) -> Result<(), Error> {
        self.renewal = Box::pin(sleep(self.agent.lease / 3));
        let Some(lease) = &self.lease else {
            return Ok(());
        };
        match self.agent.store.renew(lease).await {
            Ok(()) => Ok(()),
            Err(error @ StoreError::Fenced { .. }) => Err(error.into()),
            Err(error) => {
                // The lease lasts for two more tries, and the next append tells for certain.
                tracing::debug!(%error, session = %self.session.id, "the lease could not be renewed");
                Ok(())
            }
        }
    }

    /// Waits for something, a cancellation or the time to renew the lease, whichever comes first.
    async fn wake<T>(
        cancelled: &mut Pin<Box<WaitForCancellationFutureOwned>>,
        renewal: &mut Pin<Box<Sleep>>,
        mut ready: impl FnMut(&mut std::task::Context<'_>) -> Poll<T>,
    ) -> Woken<T> {
        poll_fn(|cx| {
            if let Poll::Ready(value) = ready(cx) {
                return Poll::Ready(Woken::Ready(value));
            }
            if cancelled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Woken::Cancelled);
            }
            renewal.as_mut().poll(cx).map(|()| Woken::Renew)
        })
        .await
    }

    async fn emit(&mut self, event: Event) {
        for extension in &self.agent.extensions {
            extension.on_event(&self.context, &event);
        }
        for watch in &self.watchers {
            watch(&event);
        }
        self.shared.tell(event).await;
    }

    // ------------------------------------------------------------ the model

    /// Calls the model, again while that may help; `None` when the run was cancelled.
    async fn call_model(&mut self) -> Result<Option<Input>, Error> {
        let mut attempt = 1;
        loop {
            let (agent, digest) = (Arc::clone(&self.agent), &self.agent.setup.digest);
            let prompt = self
                .conversation
                .prompt(&*agent.model, &agent.options, digest)
                .await?;
            let left_out = prompt.left_out();
            let stream = prompt.send();
            for problem in self.conversation.take_unreadable() {
                let (record, reason) = (problem.at, problem.detail);
                self.emit(Event::SetAside { record, reason }).await;
            }
            for item in left_out {
                self.emit(Event::LeftOut {
                    item: item.item,
                    reason: item.reason,
                })
                .await;
            }
            match self.take_response(stream).await? {
                None => return Ok(None),
                Some(Ok(response)) => {
                    if let Some(usage) = &response.usage {
                        self.usage.add(usage);
                    }
                    return Ok(Some(Input::Response(response)));
                }
                Some(Err(error)) => {
                    let Some(wait) = self.wait_before_retry(&error, attempt) else {
                        let failure = error.to_failure();
                        self.failure = Some(error);
                        return Ok(Some(Input::ModelFailed(failure)));
                    };
                    attempt += 1;
                    self.retries = self.retries.saturating_sub(1);
                    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                    self.emit(Event::Retrying {
                        attempt,
                        wait_ms,
                        error: error.to_string(),
                    })
                    .await;
                    if !self.pause(wait).await? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn wait_before_retry(&self, error: &ModelError, attempt: u32) -> Option<Duration> {
        if !error.is_retryable() || self.retries == 0 {
            return None;
        }
        match error.retry_after() {
            Some(wait) => (wait <= MAX_WAIT).then_some(wait),
            None => {
                // Half a second, doubled each time up to eight, less up to a quarter at random.
                let wait = Duration::from_millis(500) * 2_u32.pow((attempt - 1).min(4));
                let random = uuid::Uuid::new_v4().as_u128() as u32;
                Some(wait - wait.mul_f64(0.25 * f64::from(random) / f64::from(u32::MAX)))
            }
        }
    }

    /// Waits; false when the run was cancelled.
    async fn pause(&mut self, wait: Duration) -> Result<bool, Error> {
        let mut timer = Box::pin(sleep(wait));
        loop {
            match Self::wake(&mut self.cancelled, &mut self.renewal, |cx| {
                timer.as_mut().poll(cx)
            })
            .await
            {
                Woken::Ready(()) => return Ok(true),
                Woken::Cancelled => return Ok(false),
                Woken::Renew => self.renew().await?,
            }
        }
    }

    /// Takes a response as it streams; `None` when the run was cancelled.
    async fn take_response(
        &mut self,
        mut stream: ModelStream,
    ) -> Result<Option<Result<Box<Assistant>, ModelError>>, Error> {
        let mut draft = DraftWriter::default();
        let mut deltas = 0_u32;
        loop {
            deltas += 1;
            if deltas.is_multiple_of(DELTAS) && self.shared.cancel.is_cancelled() {
                draft.write(self).await;
                return Ok(None);
            }
            let woken = Self::wake(&mut self.cancelled, &mut self.renewal, |cx| {
                stream.as_mut().poll_next(cx)
            })
            .await;
            let event = match woken {
                Woken::Cancelled => {
                    draft.write(self).await;
                    return Ok(None);
                }
                Woken::Renew => {
                    self.renew().await?;
                    continue;
                }
                Woken::Ready(Some(Ok(ModelEvent::Done(response)))) => {
                    return Ok(Some(Ok(response)));
                }
                Woken::Ready(Some(Ok(event))) => event,
                Woken::Ready(Some(Err(error))) => {
                    return Ok(Some(
                        draft.interrupted(Some(error), self.agent.model.origin()),
                    ));
                }
                Woken::Ready(None) => {
                    return Ok(Some(draft.interrupted(None, self.agent.model.origin())));
                }
            };
            draft.output = true;
            let event = match event {
                ModelEvent::Text(text) => {
                    draft.text.push_str(&text);
                    Event::TextDelta { text }
                }
                ModelEvent::Reasoning(text) => Event::ReasoningDelta { text },
                ModelEvent::ToolCall { id, name, .. } => {
                    draft.calls.push(name.clone());
                    Event::ToolCallDelta {
                        call_id: id,
                        name,
                        text: String::new(),
                    }
                }
                ModelEvent::ToolCallDelta { text, .. } => Event::ToolCallDelta {
                    call_id: String::new(),
                    name: String::new(),
                    text,
                },
                ModelEvent::Handle(handle) => {
                    draft.handle = Some(handle);
                    draft.write(self).await;
                    continue;
                }
                ModelEvent::Done(_) => continue,
            };
            self.emit(event).await;
            if draft.is_due() {
                draft.write(self).await;
            }
        }
    }

    // ------------------------------------------------------------ tools

    fn start_tool(&mut self, call: CallKey, id: String, tool: Arc<dyn Tool>, arguments: Json) {
        let (progress, _) = self.progress.get_or_insert_with(|| mpsc::channel(64));
        let (progress, call_id) = (progress.clone(), id.clone());
        let context = ToolContext {
            session: Arc::clone(&self.session.id),
            call_id: id,
            call,
            fence: self.lease.as_ref().map_or(0, |lease| lease.fence),
            cancellation: self.shared.cancel.child_token(),
            progress: Some(Arc::new(move |message| {
                // A watcher that cannot keep up misses some; a run is never held up by progress.
                let _ = progress.try_send(Event::ToolProgress {
                    call_id: call_id.clone(),
                    message,
                });
            })),
        };
        self.tools
            .spawn(async move { (call, run_tool(tool, context, arguments).await) });
    }

    /// Waits until a tool ends and takes all that have; `None` when the run was cancelled.
    async fn wait_for_tools(&mut self) -> Result<Option<Vec<(CallKey, ToolOutcome)>>, Error> {
        loop {
            let (tools, progress) = (&mut self.tools, &mut self.progress);
            let woken = Self::wake(&mut self.cancelled, &mut self.renewal, |cx| {
                if let Some((_, progress)) = progress
                    && let Poll::Ready(Some(event)) = progress.poll_recv(cx)
                {
                    return Poll::Ready(Err(event));
                }
                tools.poll_join_next(cx).map(Ok)
            })
            .await;
            match woken {
                Woken::Cancelled => return Ok(None),
                Woken::Renew => self.renew().await?,
                Woken::Ready(Err(event)) => self.emit(event).await,
                Woken::Ready(Ok(first)) => {
                    let mut ended: Vec<_> = first.and_then(Result::ok).into_iter().collect();
                    while let Some(more) = self.tools.try_join_next() {
                        ended.extend(more);
                    }
                    return Ok(Some(ended));
                }
            }
        }
    }

    /// What tools end with within a while.
    async fn finished_tools(&mut self, wait: Duration) -> Vec<(CallKey, ToolOutcome)> {
        let mut ended = Vec::new();
        let all = async {
            while let Some(one) = self.tools.join_next().await {
                ended.extend(one);
            }
        };
        // Tools that take no notice are given up when the time is over.
        let _ = tokio::time::timeout(wait, all).await;
        self.tools.shutdown().await;
        ended
    }
}

async fn run_tool(tool: Arc<dyn Tool>, context: ToolContext, arguments: Json) -> ToolOutcome {
    let (cancellation, timeout) = (context.cancellation.clone(), tool.spec().timeout);
    let name = tool.spec().name.clone();
    // A task of its own, so that a tool that panics takes nothing with it.
    let mut work = JoinSet::new();
    work.spawn(async move { tool.call(context, arguments).await });
    let joined = match timeout {
        None => work.join_next().await,
        Some(limit) => match tokio::time::timeout(limit, work.join_next()).await {
            Ok(joined) => joined,
            Err(_) => {
                cancellation.cancel();
                return ToolOutcome::Result {
                    content: Content::from(format!(
                        "`{name}` took longer than {} s and was given up. It may still be running, and what it changes \
may or may not have happened.",
                        limit.as_secs_f64()
                    )),
                    success: false,
                };
            }
        },
    };
    match joined {
        Some(Ok(Ok(ToolOutput::Content(content)))) => ToolOutcome::Result {
            content,
            success: true,
        },
        Some(Ok(Ok(ToolOutput::Deferred { wait, prompt }))) => {
            ToolOutcome::Suspended { wait, prompt }
        }
        Some(Ok(Err(error))) => ToolOutcome::Result {
            content: Content::from(error.message),
            success: false,
        },
        Some(Err(_)) | None => ToolOutcome::Result {
            content: Content::from(format!(
                "`{name}` broke down while it ran; what it changes may or may not have happened."
            )),
            success: false,
        },
    }
}

/// The text of the response at hand, and when it was last written down.
#[derive(Default)]
struct DraftWriter {
    text: String,
    /// The tools the response has begun to ask for.
    calls: Vec<String>,
    handle: Option<Json>,
    output: bool,
    written: usize,
    last: Option<Instant>,
}

impl DraftWriter {
    /// Whether enough time has passed and enough text has come: rewriting a long text often would
    /// cost more with every delta.
    fn is_due(&mut self) -> bool {
        let new = self.text.len() - self.written;
        if new == 0 || new < self.written / 16 {
            return false;
        }
        let last = *self.last.get_or_insert_with(Instant::now);
        last.elapsed() >= DRAFT
    }

    async fn write(&mut self, driver: &Driver) {
        self.last = Some(Instant::now());
        self.written = self.text.len();
        if self.text.is_empty() && self.handle.is_none() {
            return;
        }
        let draft = Draft {
            at: Timestamp::now(),
            text: self.text.clone(),
            handle: self.handle.clone(),
        };
        if let Some(lease) = &driver.lease
            && let Err(error) = driver.agent.store.set_draft(lease, &draft).await
        {
            tracing::debug!(%error, session = %driver.session.id, "the draft could not be kept");
        }
    }

    /// What a stream that broke off leaves: a failed call if nothing had come, otherwise an
    /// interrupted response.
    fn interrupted(
        self,
        error: Option<ModelError>,
        origin: &crate::Origin,
    ) -> Result<Box<Assistant>, ModelError> {
        if !self.output {
            return Err(error.unwrap_or_else(|| {
                ModelError::new(
                    ModelErrorKind::Interrupted,
                    "the response ended before anything came",
                )
            }));
        }
        let (reason, why) = match error {
            None => (
                StopReason::Interrupted,
                "the response ended without its end".to_owned(),
            ),
            Some(error) => (
                match error.kind {
                    ModelErrorKind::ContextFull => StopReason::ContextFull,
                    ModelErrorKind::Refusal => StopReason::Refusal,
                    _ => StopReason::Interrupted,
                },
                error.message,
            ),
        };
        let mut response = Assistant::new(self.text);
        let stop = response.stop.insert(Stop::new(reason).with_message(why));
        if !self.calls.is_empty() {
            stop.detail = withheld(&self.calls);
        }
        response.origin = Some(origin.clone());
        Ok(Box::new(response))
    }
}

/// The record from which the conversation is loaded after these entries: the last summary.
fn load_from(after: u64, entries: &[Entry]) -> Option<u64> {
    (after + 1..)
        .zip(entries)
        .filter(|(_, entry)| {
            entry.as_message().is_some_and(|message| {
                message.in_context && matches!(message.body, Body::Summary(_))
            })
        })
        .map(|(seq, _)| seq)
        .last()
}

/// A title from the first thing a person said.
pub(crate) fn title(entries: &[Entry]) -> Option<String> {
    entries
        .iter()
        .filter_map(Entry::as_message)
        .find_map(|message| match &message.body {
            Body::User(content) => {
                let text = content.to_text();
                let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
                Some(line.chars().take(80).collect())
            }
            _ => None,
        })
}
