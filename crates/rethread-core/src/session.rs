//! Sessions: handles to durable conversations.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::conversation::{Conversation, read_end};
use crate::driver::{CLAIMS, title};
use crate::machine::{Command, Config, Machine, Start};
use crate::tail::Tail;
use crate::{
    Agent, Body, CallApproved, CallKey, CallStarted, CallState, Commit, Content, Entry, Error,
    Forked, Head, History, Json, LateResult, Lease, LeftOut, Message, NotResumable, Page, Prompt,
    Record, ResumePoint, Run, Store, StoreError, Summary, Timestamp, ToolCall, ToolResult, Wait,
    Writer, resume_point, texts,
};

/// A handle to a durable conversation. Cheap to clone; nothing is read until it is asked something.
#[derive(Clone)]
pub struct Session {
    pub(crate) agent: Agent,
    pub(crate) id: Arc<str>,
    /// What the last run of this handle left at hand, so that the next one loads nothing.
    live: Arc<Mutex<Option<Conversation>>>,
}

/// What a suspended call waited for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// Its result, made elsewhere, or a person's reply.
    Result(Content),
    /// It failed, and why.
    Failure(String),
    /// It may start.
    Approve,
    /// It may start, with other arguments: a JSON object.
    ApproveWith(Json),
    /// It may not start, and why.
    Deny(String),
}

impl Session {
    pub(crate) fn new(agent: Agent, id: Arc<str>) -> Self {
        Self {
            agent,
            id,
            live: Arc::default(),
        }
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The agent.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Runs with a new message of a person. What an interrupted run left open is closed first.
    pub fn run(&self, content: impl Into<Content>) -> Run {
        self.run_with(vec![Message::user(content)])
    }

    /// Runs with new messages. One of them must be for the model to answer; the run fails if one is a
    /// response or a tool result.
    pub fn run_with(&self, messages: Vec<Message>) -> Run {
        Run::new(self.clone(), Start::Messages(messages))
    }

    /// The same as [`run`](Session::run), for callers who take its events.
    pub fn stream(&self, content: impl Into<Content>) -> Run {
        self.run(content)
    }

    /// Carries on where the session was interrupted, without a new message. Fails with
    /// [`Error::NotResumable`] when there is nothing to resume and with [`Error::Suspended`] while
    /// an answer is missing; ask [`resume_point`](Session::resume_point) first to avoid it.
    pub fn resume(&self) -> Run {
        Run::new(self.clone(), Start::Resume)
    }

    /// The same as [`resume`](Session::resume), for callers who take its events.
    pub fn stream_resume(&self) -> Run {
        self.resume()
    }

    /// Where the session was interrupted; `None` when there is nothing to resume. Reads the end of
    /// the session and writes nothing.
    ///
    /// # Errors
    /// When there is no such session or the store cannot be read.
    pub async fn resume_point(&self) -> Result<Option<ResumePoint>, Error> {
        Ok(self.status().await?.point.ok())
    }

    /// Where the session was interrupted, or why there is nothing to resume, and who works on it.
    ///
    /// # Errors
    /// When there is no such session or the store cannot be read.
    pub async fn status(&self) -> Result<Status, Error> {
        Ok(read_status(&*self.agent.inner.store, &self.id).await?)
    }

    /// What a resume would add and what could not be sent, without writing or calling anything.
    ///
    /// # Errors
    /// As those of [`resume`](Session::resume), without the model's.
    pub async fn dry_run(&self) -> Result<DryRun, Error> {
        let agent = &self.agent.inner;
        let opened = Conversation::open(Arc::clone(&agent.store), Arc::clone(&self.id)).await?;
        let (conversation, _) = opened.ok_or_else(|| self.not_found())?;
        let config = Config::of(agent, "dry-run".to_owned());
        let mut machine = Machine::begin(
            config,
            &conversation.tail(),
            conversation.last(),
            Start::Resume,
        )?;
        let mut entries = Vec::new();
        while let Some(command) = machine.next() {
            if let Command::Commit(batch) = command {
                entries = batch.entries;
            }
        }
        let mut prompt = conversation
            .preview(
                &*agent.model,
                &agent.options,
                &agent.setup.digest,
                entries.clone(),
            )
            .await?;
        Ok(DryRun {
            entries,
            left_out: prompt.left_out(),
            prompt,
        })
    }

    /// All records.
    ///
    /// # Errors
    /// When there is no such session or the store cannot be read.
    pub async fn history(&self) -> Result<History, Error> {
        Ok(read_history(&*self.agent.inner.store, &self.id).await?)
    }

    /// Gives a suspended call what it waited for, from any process. When the last answer is there,
    /// [`resume`](Session::resume) goes on. A result for a call that was closed in the meantime is
    /// kept, and the model is told of it in a new message.
    ///
    /// # Errors
    /// When there is no such session, or it has no such call; when the call has its answer, or is to
    /// be let start and does not wait for that; and when another writer is at work.
    pub async fn answer(&self, call_id: &str, answer: Answer) -> Result<(), Error> {
        let mut writer = self.open_writer(false).await?;
        match self.answering(call_id, answer, &writer.end).await {
            Ok(entries) => writer.write(entries, true).await,
            Err(error) => {
                writer.release().await?;
                Err(error)
            }
        }
    }

    /// The records that give a call its answer.
    async fn answering(
        &self,
        call_id: &str,
        answer: Answer,
        end: &[Record],
    ) -> Result<Vec<Entry>, Error> {
        match self.find_call(call_id, end).await? {
            Found::Open(key, call, state) => {
                // Leave starts a call, so only one that waits for leave can be given it: any other
                // may have run already.
                let waits = matches!(
                    state,
                    CallState::Suspended(Wait::Approval) | CallState::Approved
                );
                Ok(vec![match answer {
                    Answer::Result(content) => {
                        Entry::result(key, ToolResult::for_call(&call, content))
                    }
                    Answer::Failure(reason) => {
                        Entry::result(key, ToolResult::failure(&call, reason))
                    }
                    _ if !waits => {
                        return Err(Error::NotWaiting {
                            session: self.id.to_string(),
                            call: call_id.to_owned(),
                        });
                    }
                    Answer::Deny(reason) => {
                        Entry::result(key, ToolResult::failure(&call, denial(&reason)))
                    }
                    Answer::Approve => Entry::CallApproved(CallApproved {
                        call: key,
                        arguments: None,
                    }),
                    Answer::ApproveWith(arguments) => Entry::CallApproved(CallApproved {
                        call: key,
                        arguments: Some(arguments),
                    }),
                }])
            }
            Found::Closed(key, call) => {
                let (content, success) = match answer {
                    Answer::Result(content) => (content, true),
                    Answer::Failure(reason) => (Content::from(reason), false),
                    _ => return Err(self.already_answered(call_id)),
                };
                let told = texts::late_result(&call.name, &call.id, &content.to_text(), success);
                Ok(vec![
                    Entry::LateResult(LateResult {
                        call: key,
                        content,
                        success,
                    }),
                    Entry::message(Message::agent(told)),
                ])
            }
            Found::Answered => Err(self.already_answered(call_id)),
            Found::Nowhere => Err(Error::UnknownCall {
                session: self.id.to_string(),
                call: call_id.to_owned(),
            }),
        }
    }

    /// Appends messages without calling a model, each commit durable when it returns. The writer
    /// holds the session until it is released or dropped.
    ///
    /// # Errors
    /// When another writer is at work, or the store fails.
    pub async fn writer(&self) -> Result<SessionWriter, Error> {
        self.open_writer(true).await
    }

    /// Claims the session where it stands, again if it moved on between reading and claiming.
    async fn open_writer(&self, create: bool) -> Result<SessionWriter, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.claim_writer(create).await {
                Err(Error::Store(StoreError::Conflict { .. })) if tries < CLAIMS => {}
                // Another who answers or appends is done in a moment; a run is not.
                Err(Error::Store(StoreError::Busy { .. })) if tries < CLAIMS => {
                    tokio::task::yield_now().await;
                }
                claimed => return claimed,
            }
        }
    }

    async fn claim_writer(&self, create: bool) -> Result<SessionWriter, Error> {
        let store = &self.agent.inner.store;
        let mut end = Vec::new();
        let mut last = 0;
        match store.head(&self.id).await? {
            Some(head) => {
                last = head.last;
                end = read_end(&**store, &self.id).await?.records().to_vec();
            }
            None if create => {}
            None => return Err(self.not_found().into()),
        }
        let committed = store
            .commit(Commit {
                session: &self.id,
                writer: Writer::Claim {
                    ttl: self.agent.inner.lease,
                    create,
                    force: false,
                },
                after: last,
                rows: &[],
                summary: None,
                drop_draft: false,
                release: false,
            })
            .await?;
        let lease = committed
            .lease
            .ok_or_else(|| Error::Setup("the store gave no lease for a claim".to_owned()))?;
        Ok(SessionWriter {
            session: self.clone(),
            lease: Some(lease),
            last,
            end,
        })
    }

    /// Makes this session from entries: an import.
    ///
    /// # Errors
    /// When the session has records already, or the store fails; then nothing is written.
    pub async fn create(&self, entries: Vec<Entry>) -> Result<(), Error> {
        let store = &self.agent.inner.store;
        if store
            .head(&self.id)
            .await?
            .is_some_and(|head| head.last > 0)
        {
            return Err(Error::Exists {
                session: self.id.to_string(),
            });
        }
        let at = Timestamp::now();
        let rows = encode(at, &entries)?;
        let history: Vec<Record> = (1..)
            .zip(entries)
            .map(|(seq, entry)| Record { seq, at, entry })
            .collect();
        let history = History::new(history);
        let entries: Vec<&Entry> = history
            .records()
            .iter()
            .map(|record| &record.entry)
            .collect();
        let summary = Summary {
            state: state(&history).to_owned(),
            title: entries
                .iter()
                .find_map(|entry| title(std::slice::from_ref(*entry))),
            load_from: history
                .records()
                .iter()
                .rfind(|record| {
                    record
                        .entry
                        .as_message()
                        .is_some_and(|m| m.in_context && matches!(m.body, Body::Summary(_)))
                })
                .map(|record| record.seq),
            messages: history.messages().count() as u64,
        };
        let writer = Writer::Claim {
            ttl: self.agent.inner.lease,
            create: true,
            force: false,
        };
        let commit = Commit {
            session: &self.id,
            writer,
            after: 0,
            rows: &rows,
            summary: Some(&summary),
            drop_draft: true,
            release: true,
        };
        match store.commit(commit).await {
            Err(StoreError::Conflict { .. }) => Err(Error::Exists {
                session: self.id.to_string(),
            }),
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Copies this session up to a record, or all of it, into a new one with the id `to`.
    ///
    /// # Errors
    /// When there is no such session, when `to` exists, or when the store fails.
    pub async fn fork(&self, at: Option<u64>, to: impl Into<String>) -> Result<Session, Error> {
        let history = self.history().await?;
        let at = at.unwrap_or(u64::MAX).min(history.last());
        let (copied, rest): (Vec<Record>, Vec<Record>) = history
            .records()
            .iter()
            .cloned()
            .partition(|record| record.seq <= at);
        let mut entries: Vec<Entry> = Vec::with_capacity(copied.len() + 2);
        for record in &copied {
            // Records name each other by number, so one that cannot be read leaves its place empty.
            while (entries.len() as u64) + 1 < record.seq {
                entries.push(Entry::Unknown(Json::empty_object()));
            }
            entries.push(record.entry.clone());
        }
        // A call that is open in the copy may have started in this session since. The copy must not
        // say it never ran, nor start it again.
        let started = |key: &CallKey| {
            rest.iter().any(|record| {
                matches!(&record.entry, Entry::CallStarted(entry) if entry.calls.contains(key))
            })
        };
        let calls: Vec<CallKey> = Tail::of(&copied)
            .unanswered()
            .iter()
            .map(|open| open.call)
            .filter(started)
            .collect();
        if !calls.is_empty() {
            entries.push(Entry::CallStarted(CallStarted { calls }));
        }
        entries.push(Entry::Forked(Forked {
            session: self.id.to_string(),
            at,
        }));
        let fork = self.agent.session(to);
        fork.create(entries).await?;
        Ok(fork)
    }

    /// Deletes the session.
    ///
    /// # Errors
    /// When another writer is at work, or the store fails.
    pub async fn delete(&self) -> Result<(), Error> {
        Ok(self.agent.inner.store.delete(&self.id).await?)
    }

    pub(crate) fn take_live(&self) -> Option<Conversation> {
        self.live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    pub(crate) fn put_live(&self, conversation: Conversation) {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(conversation);
    }

    fn not_found(&self) -> StoreError {
        not_found(&*self.agent.inner.store, &self.id)
    }

    fn already_answered(&self, call: &str) -> Error {
        Error::AlreadyAnswered {
            session: self.id.to_string(),
            call: call.to_owned(),
        }
    }

    /// Finds a call by the provider's id: among the open ones first, then from the end backwards.
    async fn find_call(&self, id: &str, end: &[Record]) -> Result<Found, Error> {
        let open = Tail::of(end).unanswered();
        if let Some(open) = open.into_iter().find(|call| call.id == id)
            && let Some(call) = call_of(end, open.call)
        {
            return Ok(Found::Open(open.call, call, open.state));
        }
        let history = self.history().await?;
        for record in history.records().iter().rev() {
            let Some(response) = record.entry.as_message().and_then(Message::as_assistant) else {
                continue;
            };
            let Some((index, call)) = (0..)
                .zip(&response.tool_calls)
                .find(|(_, call)| call.id == id)
            else {
                continue;
            };
            let key = CallKey {
                message: record.seq,
                index,
            };
            let told = history
                .records()
                .iter()
                .any(|record| matches!(&record.entry, Entry::LateResult(late) if late.call == key));
            let closed = history.records().iter().any(|record| match &record.entry {
                Entry::Message(message, mark) if mark.call == Some(key) => {
                    message.as_tool().is_some_and(|result| {
                        !result.success
                            && [
                                CallState::Unknown,
                                CallState::NotStarted,
                                CallState::Approved,
                                CallState::Suspended(Wait::External),
                            ]
                            .iter()
                            .any(|state| {
                                result.content.to_text() == texts::closing_result(call, *state)
                            })
                    })
                }
                _ => false,
            });
            return Ok(if closed && !told {
                Found::Closed(key, call.clone())
            } else {
                Found::Answered
            });
        }
        Ok(Found::Nowhere)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

enum Found {
    Open(CallKey, ToolCall, CallState),
    Closed(CallKey, ToolCall),
    Answered,
    Nowhere,
}

fn call_of(records: &[Record], key: CallKey) -> Option<ToolCall> {
    let record = records.iter().find(|record| record.seq == key.message)?;
    record
        .entry
        .as_message()?
        .as_assistant()?
        .tool_calls
        .get(key.index as usize)
        .cloned()
}

fn denial(reason: &str) -> String {
    match reason.trim() {
        "" => "This tool did not run: the person did not allow it.".to_owned(),
        reason => {
            format!("This tool did not run: the person did not allow it. They said: {reason}")
        }
    }
}

fn encode(at: Timestamp, entries: &[Entry]) -> Result<Vec<Vec<u8>>, Error> {
    let rows: Result<Vec<_>, _> = entries
        .iter()
        .map(|entry| Record::encode(at, entry))
        .collect();
    rows.map_err(|error| Error::Setup(format!("a record cannot be encoded: {error}")))
}

/// What a resume finds: the kind, or the reason against one.
fn state(history: &History) -> &'static str {
    match resume_point(history) {
        Ok(point) => point.kind.as_str(),
        Err(reason) => reason.as_str(),
    }
}

/// Reads where a session stands from its end, without an agent. Writes nothing.
///
/// # Errors
/// When there is no such session or the store cannot be read.
pub async fn read_status(store: &dyn Store, session: &str) -> Result<Status, StoreError> {
    let head = store
        .head(session)
        .await?
        .ok_or_else(|| not_found(store, session))?;
    let end = read_end(store, session).await?;
    let mut point = Tail::of(end.records()).resume_point();
    if let Ok(point) = &mut point {
        point.draft = store.draft(session).await?;
        if head.is_busy() {
            point.cause = None; // its run is still going on
        }
    }
    let unreadable = end
        .problems()
        .iter()
        .map(|problem| problem.detail.clone())
        .collect();
    Ok(Status {
        point,
        head,
        unreadable,
    })
}

/// Reads all records of a session, without an agent.
///
/// # Errors
/// When there is no such session or the store cannot be read.
pub async fn read_history(store: &dyn Store, session: &str) -> Result<History, StoreError> {
    store
        .head(session)
        .await?
        .ok_or_else(|| not_found(store, session))?;
    let (mut rows, mut after) = (Vec::new(), 0);
    loop {
        let page = store
            .read(
                session,
                Page::After {
                    seq: after,
                    limit: 1024,
                },
            )
            .await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        rows.extend(page);
    }
    Ok(History::from_rows(&rows))
}

fn not_found(store: &dyn Store, session: &str) -> StoreError {
    StoreError::NotFound {
        session: session.to_owned(),
        store: format!("{store:?}"),
    }
}

/// Where a session stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Status {
    /// Where it was interrupted, or why there is nothing to resume.
    pub point: Result<ResumePoint, NotResumable>,
    /// The summary row, with who works on it.
    pub head: Head,
    /// Records near the end that could not be read.
    pub unreadable: Vec<String>,
}

/// What a resume would do.
pub struct DryRun {
    /// The records it would add before its first request.
    pub entries: Vec<Entry>,
    /// What its first request could not carry.
    pub left_out: Vec<LeftOut>,
    /// The conversation it would send.
    pub prompt: Box<dyn Prompt>,
}

impl fmt::Debug for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DryRun")
            .field("entries", &self.entries)
            .field("left_out", &self.left_out)
            .finish_non_exhaustive()
    }
}

/// The right to append to a session, held.
#[derive(Debug)]
pub struct SessionWriter {
    session: Session,
    lease: Option<Lease>,
    last: u64,
    end: Vec<Record>,
}

impl SessionWriter {
    /// Appends a message; durable when it returns. Gives its sequence number.
    ///
    /// # Errors
    /// When the lease was taken over, or the store fails.
    pub async fn append(&mut self, message: impl Into<Message>) -> Result<u64, Error> {
        self.write(vec![Entry::message(message)], false).await?;
        Ok(self.last)
    }

    /// Gives the session free.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn release(mut self) -> Result<(), Error> {
        match self.lease.take() {
            Some(lease) => Ok(self.session.agent.inner.store.release(&lease).await?),
            None => Ok(()),
        }
    }

    pub(crate) async fn write(&mut self, entries: Vec<Entry>, release: bool) -> Result<(), Error> {
        let Some(lease) = &self.lease else {
            return Err(StoreError::Fenced {
                session: self.session.id.to_string(),
            }
            .into());
        };
        let at = Timestamp::now();
        let rows = encode(at, &entries)?;
        let messages = entries.iter().filter_map(Entry::as_message).count() as u64;
        let after = self.last;
        let title = if after == 0 { title(&entries) } else { None };
        let mut load_from = None;
        for (seq, entry) in (after + 1..).zip(entries) {
            let record = Record { seq, at, entry };
            if crate::tail::reaches_response(&record) {
                self.end.clear();
            }
            if record
                .entry
                .as_message()
                .is_some_and(|m| m.in_context && matches!(m.body, Body::Summary(_)))
            {
                load_from = Some(seq);
            }
            self.end.push(record);
        }
        let point = Tail::of(&self.end).resume_point();
        let state = match &point {
            Ok(point) => point.kind.as_str(),
            Err(reason) => reason.as_str(),
        };
        let summary = Summary {
            state: state.to_owned(),
            title,
            load_from,
            messages,
        };
        let commit = Commit {
            session: &self.session.id,
            writer: Writer::Lease(lease),
            after,
            rows: &rows,
            summary: Some(&summary),
            drop_draft: false,
            release,
        };
        let store = &self.session.agent.inner.store;
        match store.commit(commit).await {
            Ok(committed) => {
                self.last = committed.last;
                if release {
                    self.lease = None;
                }
                Ok(())
            }
            Err(error) => {
                // Whether it was written is not known, so this writer cannot go on. The session is
                // free for one that reads it first.
                if let Some(lease) = self.lease.take()
                    && let Err(error) = store.release(&lease).await
                {
                    tracing::debug!(%error, session = %self.session.id, "the lease could not be released");
                }
                Err(error.into())
            }
        }
    }
}
