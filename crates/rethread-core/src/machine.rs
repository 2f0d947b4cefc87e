//! The run as a step machine without I/O: inputs in, commands out.
//!
//! Every crash point is the moment after a command. The machine decides what is written and in which
//! order; the [driver](crate::run) does it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::agent::Inner;
use crate::event::Event;
use crate::tail::Tail;
use crate::toolbox::Toolbox;
use crate::{
    Assistant, Budget, CallKey, CallStarted, CallState, CallSuspended, Content, Entry, Error,
    Failure, Json, Limits, Mark, Message, NotResumable, Origin, Outcome, Permission, Repeat,
    ResumeKind, ResumePoint, RunEnded, RunKind, RunStarted, SetAside, Setup, Step, StopReason,
    Tool, ToolCall, ToolResult, Unanswered, Wait, texts,
};

/// What a run is begun with.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) run: String,
    pub(crate) tools: Toolbox,
    pub(crate) limits: Limits,
    /// Whether a new allowance is granted, or what the last one left is used.
    pub(crate) grant: bool,
    /// Whether to go on after a stop that the table refuses (refused, context_full, unknown_stop).
    pub(crate) override_stop: bool,
    pub(crate) model: Origin,
    pub(crate) setup: Setup,
}

impl Config {
    /// A run of an agent that grants a new allowance.
    pub(crate) fn of(agent: &Inner, run: String) -> Self {
        Self {
            run,
            tools: agent.tools.clone(),
            limits: agent.limits,
            grant: true,
            override_stop: false,
            model: agent.model.origin().clone(),
            setup: agent.setup.clone(),
        }
    }
}

/// What begins a run.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    /// New messages.
    Messages(Vec<Message>),
    /// Nothing new.
    Resume,
}

/// Why a run does not begin.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    NotResumable(NotResumable),
    /// Calls wait for an answer from outside.
    Suspended(Box<ResumePoint>),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotResumable(reason) => Self::NotResumable(reason),
            Refusal::Suspended(point) => Self::Suspended(point),
        }
    }
}

/// What the driver has to do next.
#[derive(Debug)]
pub(crate) enum Command {
    /// Write these records in one commit, then say [`Input::Committed`].
    Commit(Batch),
    /// Tell watchers.
    Emit(Event),
    /// Call the model, then say [`Input::Response`] or [`Input::ModelFailed`].
    CallModel,
    /// Start a tool, and say [`Input::ToolsEnded`] when it is done.
    StartTool {
        call: CallKey,
        id: String,
        tool: Arc<dyn Tool>,
        arguments: Json,
    },
    /// The run is over.
    Finish(Finish),
}

impl std::fmt::Debug for dyn Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tool({})", self.spec().name)
    }
}

/// Records that are written in one commit.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<Entry>,
    /// Whether the lease is taken with it.
    pub(crate) claim: bool,
    /// Whether the lease is given back with it.
    pub(crate) release: bool,
    /// Whether a draft is dropped with it.
    pub(crate) drop_draft: bool,
    /// What a resume would find after it.
    pub(crate) state: &'static str,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Input {
    Committed,
    Response(Box<Assistant>),
    ModelFailed(Failure),
    ToolsEnded(Vec<(CallKey, ToolOutcome)>),
}

/// What became of a tool.
#[derive(Clone, Debug)]
pub(crate) enum ToolOutcome {
    Result { content: Content, success: bool },
    Suspended { wait: Wait, prompt: Option<String> },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Finish {
    /// With a response; whether it ended normally is in its stop.
    Answered,
    Failed(Failure),
    StepLimit,
    TokenLimit,
    Suspended,
    Cancelled,
}

#[derive(Debug)]
enum State {
    /// Waits for a commit, then does what follows.
    Committing(Next),
    Calling,
    Tools,
    Over,
}

#[derive(Debug)]
enum Next {
    Call,
    Tools,
    Finish(Finish),
}

/// The calls of the response at hand.
#[derive(Debug, Default)]
struct Calls {
    message: u64,
    calls: Vec<ToolCall>,
    arguments: Vec<Json>,
    /// Whether a person ever let it start.
    approved: Vec<bool>,
    /// Whether it may have run before this run.
    began: Vec<bool>,
    status: Vec<Status>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Waiting,
    /// Waits, and a person let it start.
    Approved,
    /// Its start is recorded, or about to be, and the driver has not taken it yet.
    Starting,
    Running,
    Ended,
    Suspended,
}

/// The run.
#[derive(Debug)]
pub(crate) struct Machine {
    config: Config,
    last: u64,
    used: Budget,
    step: u32,
    state: State,
    calls: Calls,
    commands: VecDeque<Command>,
    /// Events of the commit in flight, and the tools it starts.
    after: Vec<Command>,
}

impl Machine {
    /// Begins a run on a session whose end is `tail` and whose last record is `last`.
    pub(crate) fn begin(
        config: Config,
        tail: &Tail,
        last: u64,
        start: Start,
    ) -> Result<Self, Refusal> {
        let point = tail.resume_point();
        let notice = match (&start, &point) {
            (Start::Messages(_), _) => None,
            (Start::Resume, Ok(point)) if !point.is_ready() => {
                return Err(Refusal::Suspended(Box::new(point.clone())));
            }
            (Start::Resume, Ok(point)) => match point.kind {
                ResumeKind::RetryResponse => Some(("retry_response", texts::RETRY_NOTICE)),
                ResumeKind::ContinueResponse => Some(("continue_response", texts::CONTINUE_NOTICE)),
                _ => None,
            },
            (
                Start::Resume,
                Err(NotResumable::Refused | NotResumable::ContextFull | NotResumable::UnknownStop),
            ) if config.override_stop => Some(("retry_response", texts::RETRY_NOTICE)),
            (Start::Resume, Err(reason)) => return Err(Refusal::NotResumable(*reason)),
        };
        let mut machine = Self {
            used: if config.grant {
                Budget::default()
            } else {
                tail.used()
            },
            config,
            last,
            step: 0,
            state: State::Over,
            calls: Calls::default(),
            commands: VecDeque::new(),
            after: Vec::new(),
        };
        let resuming = matches!(start, Start::Resume);
        let mut entries = machine.opening(tail, resuming);
        machine.close_open_calls(tail, resuming, &mut entries);
        for (record, reason) in &tail.extras {
            entries.push(Entry::SetAside(SetAside {
                record: *record,
                reason: reason.clone(),
            }));
            machine.after.push(Command::Emit(Event::SetAside {
                record: *record,
                reason: reason.clone(),
            }));
        }
        if let Some((kind, text)) = notice {
            let mut message = Message::agent(text);
            message.attributes = Json::parse(&format!(r#"{{"resume":"{kind}"}}"#)).ok();
            entries.push(Entry::message(message));
            machine.after.push(Command::Emit(Event::Notice {
                text: text.to_owned(),
            }));
        }
        if let Start::Messages(messages) = start {
            entries.extend(messages.into_iter().map(Entry::message));
        }
        let next = machine.schedule(&mut entries);
        machine.commit(entries, next, true);
        if !resuming && let Some(Command::Commit(batch)) = machine.commands.back_mut() {
            batch.drop_draft = true; // what was streaming answered an earlier message
        }
        Ok(machine)
    }

    /// The next thing to do; `None` when the machine waits for an input.
    pub(crate) fn next(&mut self) -> Option<Command> {
        let command = self.commands.pop_front();
        if let Some(Command::StartTool { call, .. }) = &command {
            self.calls.set(call.index as usize, Status::Running);
        }
        command
    }

    /// Takes what happened.
    pub(crate) fn handle(&mut self, input: Input) {
        match input {
            Input::Committed => self.committed(),
            Input::Response(response) => self.response(*response),
            Input::ModelFailed(failure) => {
                if matches!(self.state, State::Calling) {
                    self.end(
                        Vec::new(),
                        Outcome::Failed,
                        Some(failure.clone()),
                        Finish::Failed(failure),
                    );
                }
            }
            Input::ToolsEnded(ended) => self.tools_ended(ended),
        }
    }

    fn opening(&mut self, tail: &Tail, resuming: bool) -> Vec<Entry> {
        let mut entries = Vec::new();
        let config = &self.config;
        if tail.setup() != Some(config.setup.digest.as_str()) {
            if tail.setup().is_some() {
                let what = "the instructions or tools are not those of the last run".to_owned();
                self.after.push(Command::Emit(Event::Drift { what }));
            }
            entries.push(Entry::Setup(config.setup.clone()));
        }
        let kind = if resuming {
            RunKind::Resume
        } else {
            RunKind::Run
        };
        entries.push(Entry::RunStarted(RunStarted {
            run: config.run.clone(),
            kind,
            limits: config.limits,
            used: self.used,
            model: Some(config.model.clone()),
            setup: Some(config.setup.digest.clone()),
        }));
        self.after.insert(
            0,
            Command::Emit(Event::RunStarted {
                run: config.run.clone(),
                kind,
            }),
        );
        entries
    }

    /// Answers the open calls of the last response with their true state. On a resume, those a
    /// person let start and those declared repeatable are run instead.
    fn close_open_calls(&mut self, tail: &Tail, resuming: bool, entries: &mut Vec<Entry>) {
        let (Some(response), Some(message)) = (tail.response(), tail.response_seq()) else {
            return;
        };
        let mut calls = Calls::of(message, response, Status::Ended);
        let edited = tail.edited_arguments();
        for open in tail.unanswered() {
            let index = open.call.index as usize;
            let Some(call) = calls.calls.get(index) else {
                continue;
            };
            let arguments = edited.get(&open.call).unwrap_or(&call.arguments);
            let runs = resuming && self.runs_on_resume(&open, call, arguments, tail);
            if runs {
                calls.set(
                    index,
                    match open.state {
                        CallState::Approved => Status::Approved,
                        _ => Status::Waiting,
                    },
                );
                if let (Some(approved), Some(began)) =
                    (calls.approved.get_mut(index), calls.began.get_mut(index))
                {
                    *approved = tail.has_leave(open.call);
                    *began = open.state == CallState::Unknown;
                }
                if let (Some(slot), Some(arguments)) =
                    (calls.arguments.get_mut(index), edited.get(&open.call))
                {
                    slot.clone_from(arguments);
                }
                continue;
            }
            let result = ToolResult::failure(call, texts::closing_result(call, open.state));
            entries.push(Entry::result(open.call, result));
            self.after.push(Command::Emit(Event::CallClosed {
                call_id: open.id,
                name: open.name,
                state: open.state,
            }));
        }
        self.calls = calls;
    }

    /// Whether a resume starts an open call: one a person let start, or one declared repeatable.
    fn runs_on_resume(
        &self,
        open: &Unanswered,
        call: &ToolCall,
        arguments: &Json,
        tail: &Tail,
    ) -> bool {
        if open.state == CallState::Approved {
            return true;
        }
        let Ok(tool) = self.config.tools.check(call, arguments) else {
            return false;
        };
        match (open.state, tool.spec().repeat) {
            (CallState::NotStarted, repeat) => repeat != Repeat::Never,
            // One that would have to wait for leave is closed: while it waits it would count as
            // one that never ran.
            (CallState::Unknown, Repeat::Always) => {
                tail.has_leave(open.call) || tool.permission(arguments) == Permission::Start
            }
            _ => false,
        }
    }

    fn response(&mut self, mut response: Assistant) {
        if !matches!(self.state, State::Calling) {
            return;
        }
        let reason = response.stop_reason();
        if reason.withholds_calls() && !response.tool_calls.is_empty() {
            withhold_calls(&mut response);
        }
        self.used.steps = self.used.steps.saturating_add(1);
        if let Some(usage) = &response.usage {
            let tokens = usage
                .input
                .unwrap_or(0)
                .saturating_add(usage.output.unwrap_or(0));
            self.used.tokens = self.used.tokens.saturating_add(tokens);
        }
        let goes_on = reason == StopReason::Paused
            && response.tool_calls.is_empty()
            && self.used.pauses < self.config.limits.pauses;
        if goes_on {
            self.used.pauses += 1;
        }
        let step = Step {
            run: self.config.run.clone(),
            used: self.used,
        };
        self.after.push(Command::Emit(Event::ModelCompleted {
            stop: response
                .stop
                .clone()
                .filter(|stop| !stop.reason.is_normal()),
            usage: response.usage.clone(),
        }));
        self.calls = Calls::of(self.last + 1, &response, Status::Waiting);
        let runs_calls = reason.runs_calls() && !response.tool_calls.is_empty();
        let mark = Mark {
            step: Some(step),
            call: None,
        };
        let mut entries = vec![Entry::Message(Box::new(response.into()), mark)];
        if runs_calls {
            let next = self.schedule(&mut entries);
            self.commit(entries, next, false);
        } else if goes_on {
            let next = self.after_tools();
            self.commit(entries, next, false);
        } else {
            let normal = reason.is_normal();
            let outcome = if normal {
                Outcome::Completed
            } else {
                Outcome::Stopped
            };
            self.end_in(
                entries,
                outcome,
                None,
                Finish::Answered,
                state_after(reason),
            );
        }
    }

    fn tools_ended(&mut self, ended: Vec<(CallKey, ToolOutcome)>) {
        if !matches!(self.state, State::Tools) {
            return;
        }
        let mut entries = Vec::new();
        for (key, outcome) in ended {
            self.tool_ended(key, outcome, &mut entries);
        }
        if entries.is_empty() {
            return;
        }
        let next = self.schedule(&mut entries);
        self.commit(entries, next, false);
    }

    fn tool_ended(&mut self, key: CallKey, outcome: ToolOutcome, entries: &mut Vec<Entry>) {
        let index = key.index as usize;
        let running = key.message == self.calls.message
            && self.calls.status.get(index) == Some(&Status::Running);
        let (true, Some(call)) = (running, self.calls.calls.get(index).cloned()) else {
            return;
        };
        match outcome {
            ToolOutcome::Result { content, success } => {
                self.calls.set(index, Status::Ended);
                let event = if success {
                    Event::ToolCompleted {
                        call_id: call.id.clone(),
                        name: call.name.clone(),
                    }
                } else {
                    Event::ToolFailed {
                        call_id: call.id.clone(),
                        name: call.name.clone(),
                        error: content.to_text(),
                    }
                };
                self.after.push(Command::Emit(event));
                let mut result = ToolResult::for_call(&call, content);
                result.success = success;
                entries.push(Entry::result(key, result));
            }
            ToolOutcome::Suspended { wait, prompt } => self.suspend(index, wait, prompt, entries),
        }
    }

    fn suspend(
        &mut self,
        index: usize,
        wait: Wait,
        prompt: Option<String>,
        entries: &mut Vec<Entry>,
    ) {
        let (Some(call), Some(arguments)) =
            (self.calls.calls.get(index), self.calls.arguments.get(index))
        else {
            return;
        };
        let key = self.calls.key(index);
        entries.push(Entry::CallSuspended(CallSuspended {
            call: key,
            wait,
            prompt: prompt.as_deref().map(Into::into),
        }));
        self.after.push(Command::Emit(Event::ToolSuspended {
            call_id: call.id.clone(),
            name: call.name.clone(),
            wait,
            prompt,
            arguments: arguments.clone(),
        }));
        self.calls.set(index, Status::Suspended);
    }

    /// Starts the calls that may start now: the next ones that run in parallel, or the next one that
    /// runs alone. Those that cannot run are answered, those that need leave are suspended.
    fn schedule(&mut self, entries: &mut Vec<Entry>) -> Next {
        while !self.calls.any(&[Status::Starting, Status::Running]) {
            let group = self.calls.next_group(&self.config.tools);
            if group.is_empty() {
                return self.after_tools();
            }
            let mut started = Vec::new();
            for index in group {
                self.begin_call(index, entries, &mut started);
            }
            if !started.is_empty() {
                entries.push(Entry::CallStarted(CallStarted { calls: started }));
            }
        }
        Next::Tools
    }

    fn begin_call(&mut self, index: usize, entries: &mut Vec<Entry>, started: &mut Vec<CallKey>) {
        let (Some(call), Some(arguments)) = (
            self.calls.calls.get(index).cloned(),
            self.calls.arguments.get(index).cloned(),
        ) else {
            return;
        };
        let key = self.calls.key(index);
        let tool = match self.config.tools.check(&call, &arguments) {
            Ok(tool) => Arc::clone(tool),
            Err(reason) => {
                self.calls.set(index, Status::Ended);
                self.after.push(Command::Emit(Event::ToolFailed {
                    call_id: call.id.clone(),
                    name: call.name.clone(),
                    error: reason.clone(),
                }));
                entries.push(Entry::result(key, ToolResult::failure(&call, reason)));
                return;
            }
        };
        if self.calls.approved.get(index) != Some(&true)
            && let Permission::Ask { prompt } = tool.permission(&arguments)
        {
            return self.suspend(index, Wait::Approval, Some(prompt), entries);
        }
        self.calls.set(index, Status::Starting);
        started.push(key);
        self.after.push(Command::Emit(Event::ToolStarted {
            call_id: call.id.clone(),
            name: call.name,
            arguments: arguments.clone(),
        }));
        self.after.push(Command::StartTool {
            call: key,
            id: call.id,
            tool,
            arguments,
        });
    }

    /// What follows when no call can start any more.
    fn after_tools(&self) -> Next {
        if self.calls.any(&[Status::Suspended]) {
            Next::Finish(Finish::Suspended)
        } else if self.used.steps >= self.config.limits.steps {
            Next::Finish(Finish::StepLimit)
        } else if self
            .config
            .limits
            .tokens
            .is_some_and(|limit| self.used.tokens >= limit)
        {
            Next::Finish(Finish::TokenLimit)
        } else {
            Next::Call
        }
    }

    /// Whether the run can be cancelled now; while a commit is under way it has to be waited for.
    pub(crate) fn can_cancel(&self) -> bool {
        matches!(self.state, State::Calling | State::Tools)
    }

    /// Ends the run: stores what tools ended with, and marks the calls that did not end.
    pub(crate) fn cancel(&mut self, ended: Vec<(CallKey, ToolOutcome)>) {
        if !self.can_cancel() {
            return;
        }
        // What is durable is still told; what has not begun does not begin.
        self.commands.retain(|command| {
            matches!(command, Command::Emit(event)
                if !matches!(event, Event::ToolStarted { .. } | Event::ModelStarted { .. }))
        });
        let mut entries = Vec::new();
        for (key, outcome) in ended {
            self.tool_ended(key, outcome, &mut entries);
        }
        for index in 0..self.calls.calls.len() {
            let state = match self.calls.status.get(index) {
                Some(Status::Running) => CallState::Unknown,
                Some(Status::Waiting | Status::Approved | Status::Starting)
                    if self.calls.began.get(index) == Some(&true) =>
                {
                    CallState::Unknown
                }
                Some(Status::Waiting | Status::Approved | Status::Starting) => {
                    CallState::NotStarted
                }
                _ => continue,
            };
            let Some(call) = self.calls.calls.get(index) else {
                continue;
            };
            entries.push(Entry::result(
                self.calls.key(index),
                ToolResult::failure(call, texts::closing_result(call, state)),
            ));
            self.after.push(Command::Emit(Event::CallClosed {
                call_id: call.id.clone(),
                name: call.name.clone(),
                state,
            }));
            self.calls.set(index, Status::Ended);
        }
        self.end(entries, Outcome::Cancelled, None, Finish::Cancelled);
    }

    fn end(
        &mut self,
        entries: Vec<Entry>,
        outcome: Outcome,
        error: Option<Failure>,
        finish: Finish,
    ) {
        self.end_in(entries, outcome, error, finish, "call_model");
    }

    /// Ends the run; `state` is what a resume finds when no call is open.
    fn end_in(
        &mut self,
        mut entries: Vec<Entry>,
        outcome: Outcome,
        error: Option<Failure>,
        finish: Finish,
        state: &'static str,
    ) {
        entries.push(Entry::RunEnded(RunEnded {
            run: self.config.run.clone(),
            outcome,
            error: error.clone(),
            setup: Some(self.config.setup.digest.clone()),
        }));
        self.after
            .push(Command::Emit(Event::RunEnded { outcome, error }));
        self.last += entries.len() as u64;
        let drop_draft = matches!(finish, Finish::Answered);
        let state = self.calls.open_state().unwrap_or(state);
        self.commands.push_back(Command::Commit(Batch {
            entries,
            claim: false,
            release: true,
            drop_draft,
            state,
        }));
        self.state = State::Committing(Next::Finish(finish));
    }

    fn commit(&mut self, entries: Vec<Entry>, next: Next, claim: bool) {
        if let Next::Finish(finish) = next {
            // Only the end of a round of tools finishes without a response.
            let (outcome, error) = match &finish {
                Finish::Suspended => (Outcome::Suspended, None),
                Finish::StepLimit => (Outcome::Failed, Some(limit_failure("step_limit", "step"))),
                Finish::TokenLimit => {
                    (Outcome::Failed, Some(limit_failure("token_limit", "token")))
                }
                _ => (Outcome::Completed, None),
            };
            self.end(entries, outcome, error, finish);
            if let Some(Command::Commit(batch)) = self.commands.back_mut() {
                batch.claim = claim;
                batch.drop_draft = !claim;
            }
            return;
        }
        let state = self.calls.open_state().unwrap_or("call_model");
        let drop_draft = entries.iter().any(|entry| {
            matches!(
                entry.as_message().map(|message| &message.body),
                Some(crate::Body::Assistant(_))
            )
        });
        self.last += entries.len() as u64;
        self.commands.push_back(Command::Commit(Batch {
            entries,
            claim,
            release: false,
            drop_draft,
            state,
        }));
        self.state = State::Committing(next);
    }

    fn committed(&mut self) {
        let State::Committing(next) = std::mem::replace(&mut self.state, State::Over) else {
            return;
        };
        self.commands.extend(self.after.drain(..));
        match next {
            Next::Tools => self.state = State::Tools,
            Next::Finish(finish) => self.commands.push_back(Command::Finish(finish)),
            Next::Call => {
                self.step += 1;
                self.state = State::Calling;
                self.commands
                    .push_back(Command::Emit(Event::ModelStarted { step: self.step }));
                self.commands.push_back(Command::CallModel);
            }
        }
    }
}

impl Calls {
    fn of(message: u64, response: &Assistant, status: Status) -> Self {
        let calls = response.tool_calls.clone();
        Self {
            message,
            arguments: calls.iter().map(|call| call.arguments.clone()).collect(),
            approved: vec![false; calls.len()],
            began: vec![false; calls.len()],
            status: vec![status; calls.len()],
            calls,
        }
    }

    fn key(&self, index: usize) -> CallKey {
        CallKey {
            message: self.message,
            index: u32::try_from(index).unwrap_or(u32::MAX),
        }
    }

    fn set(&mut self, index: usize, status: Status) {
        if let Some(slot) = self.status.get_mut(index) {
            *slot = status;
        }
    }

    fn any(&self, of: &[Status]) -> bool {
        self.status.iter().any(|status| of.contains(status))
    }

    /// What a resume finds while calls are open, by the resume table.
    fn open_state(&self) -> Option<&'static str> {
        if self.any(&[Status::Suspended, Status::Approved]) {
            Some("await_results")
        } else if self.any(&[Status::Waiting, Status::Starting, Status::Running]) {
            Some("recover_tools")
        } else {
            None
        }
    }

    /// The next calls that start together.
    fn next_group(&self, tools: &Toolbox) -> Vec<usize> {
        let parallel = |call: &ToolCall| {
            tools
                .get(&call.name)
                .is_none_or(|tool| tool.spec().parallel || !call.is_decoded())
        };
        let waiting = |index: &usize| {
            matches!(
                self.status.get(*index),
                Some(Status::Waiting | Status::Approved)
            )
        };
        let Some(first) = (0..self.calls.len()).find(waiting) else {
            return Vec::new();
        };
        if !self.calls.get(first).is_some_and(parallel) {
            return vec![first];
        }
        (first..self.calls.len())
            .filter(waiting)
            .take_while(|index| self.calls.get(*index).is_some_and(parallel))
            .collect()
    }
}

/// What a resume finds after a response that stopped so, when no call is open.
fn state_after(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn | StopReason::ToolUse => "completed",
        StopReason::Paused => "call_model",
        StopReason::Interrupted => "retry_response",
        StopReason::MaxOutput => "continue_response",
        StopReason::Refusal => "refused",
        StopReason::ContextFull => "context_full",
        StopReason::Other => "unknown_stop",
    }
}

fn limit_failure(kind: &str, what: &str) -> Failure {
    Failure {
        kind: kind.to_owned(),
        code: None,
        message: format!("the {what} limit is reached"),
    }
}

/// Stores a response without its calls, their names noted: they came with a refusal or an
/// interruption and must not run.
fn withhold_calls(response: &mut Assistant) {
    let names: Vec<String> = response
        .tool_calls
        .drain(..)
        .map(|call| call.name)
        .collect();
    response.native.clear();
    response.digest = None;
    if let Some(stop) = &mut response.stop
        && stop.detail.is_none()
    {
        stop.detail = withheld(&names);
    }
}

/// What is said of the calls a response is stored without.
pub(crate) fn withheld(names: &[String]) -> Option<Json> {
    Json::encode(&serde_json::json!({ "withheld_tool_calls": names })).ok()
}
