//! A model that says what the script says, and that can be stopped at every delta.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use rethread_core::{
    Assistant, Message, Model, ModelError, ModelErrorKind, ModelEvent, ModelStream, Origin, Prompt,
    PromptOptions, Stop, StopReason,
};
use tokio::time::{Sleep, sleep};

use super::script::{Broken, Reply, origin};
use super::world::{Hit, World};
use super::{Fault, check};

/// The model as one process reaches it.
pub(super) struct SimModel {
    pub(super) world: World,
    pub(super) process: u32,
    pub(super) origin: Origin,
}

impl SimModel {
    pub(super) fn new(world: World, process: u32) -> Self {
        Self {
            world,
            process,
            origin: origin(),
        }
    }
}

impl fmt::Debug for SimModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the simulated model")
    }
}

impl Model for SimModel {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn prompt(&self, _: &PromptOptions) -> Box<dyn Prompt> {
        Box::new(SimPrompt {
            world: self.world.clone(),
            process: self.process,
            messages: Vec::new(),
        })
    }
}

struct SimPrompt {
    world: World,
    process: u32,
    messages: Vec<Message>,
}

impl Prompt for SimPrompt {
    fn push(&mut self, message: &Message) {
        let state = self.world.lock();
        let (fault, life) = (state.fault, state.life);
        drop(state);
        match fault {
            Some(Fault::SkipsResults) if message.as_tool().is_some() => return,
            Some(Fault::SaysItOtherwise) if life > 0 && message.as_tool().is_some() => {
                self.messages.push(Message::user("by the way"));
            }
            _ => {}
        }
        self.messages.push(message.clone());
    }

    fn send(&mut self) -> ModelStream {
        let mut steps = VecDeque::from([Step::Point("before a request")]);
        let state = self.world.lock();
        let odd = state.fault == Some(Fault::ForgetsTheOrder) && state.known.is_some();
        drop(state);
        if odd {
            self.world.hit(self.process, "an odd point");
        }
        if self.world.hit(self.process, "a request is made") == Hit::Dead {
            return Box::pin(Playing::new(self, VecDeque::from([Step::Forever])));
        }
        let mut state = self.world.lock();
        check::request(&mut state, self.process, &self.messages);
        let session = state.session(self.process).to_owned();
        let index = state
            .ledgers
            .get(&session)
            .map_or(0, |ledger| ledger.responses());
        let (script, fault) = (state.script.clone(), state.fault);
        drop(state);
        let mut reply = script.reply(index);
        if fault == Some(Fault::NeverEnds) {
            reply.response.stop = Some(Stop::new(StopReason::Interrupted));
        }
        let failure = self.world.next_failure(&session, index, &reply.failures);
        steps.extend(play(reply, failure));
        Box::pin(Playing::new(self, steps))
    }
}

/// What a stream does next.
enum Step {
    Point(&'static str),
    Wait(std::time::Duration),
    Give(ModelEvent),
    Fail(ModelError),
    /// Notes what the call came to.
    Done(Box<Assistant>),
    Forever,
}

fn play(reply: Reply, failure: Option<Broken>) -> Vec<Step> {
    let mut steps = Vec::new();
    let (after, error) = match failure {
        Some(Broken::Refused(kind, retry_after)) => {
            let mut error = ModelError::new(kind, "the provider refuses");
            error.retry_after = retry_after;
            return vec![Step::Fail(error)];
        }
        Some(Broken::Cut { after, error }) => (Some(after), error),
        None => (None, None),
    };
    for (given, delta) in reply.deltas.into_iter().enumerate() {
        if after.is_some_and(|after| given >= after) {
            break;
        }
        if !reply.delay.is_zero() {
            steps.push(Step::Wait(reply.delay));
        }
        steps.push(Step::Give(delta));
        steps.push(Step::Point("after a delta"));
    }
    match after {
        Some(_) => steps
            .extend(error.map(|kind| Step::Fail(ModelError::new(kind, "the connection dropped")))),
        None => {
            steps.push(Step::Point("before a response is complete"));
            steps.push(Step::Done(Box::new(reply.response)));
        }
    }
    steps
}

/// A response as it streams.
struct Playing {
    world: World,
    process: u32,
    steps: VecDeque<Step>,
    timer: Option<Pin<Box<Sleep>>>,
    text: String,
    calls: Vec<String>,
    output: bool,
}

impl Playing {
    fn new(prompt: &SimPrompt, steps: VecDeque<Step>) -> Self {
        Self {
            world: prompt.world.clone(),
            process: prompt.process,
            steps,
            timer: None,
            text: String::new(),
            calls: Vec::new(),
            output: false,
        }
    }

    /// Notes that the call broke off.
    fn broken(&self, error: Option<&ModelError>) {
        if self.output {
            let reason = match error.map(|error| error.kind) {
                Some(ModelErrorKind::ContextFull) => StopReason::ContextFull,
                Some(ModelErrorKind::Refusal) => StopReason::Refusal,
                _ => StopReason::Interrupted,
            };
            let mut state = self.world.lock();
            check::produced_cut(&mut state, self.process, &self.text, reason, &self.calls);
        }
    }
}

impl Stream for Playing {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.world.lock().dead {
                return Poll::Pending;
            }
            if let Some(timer) = &mut self.timer {
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.timer = None;
            }
            match self.steps.pop_front() {
                None => {
                    self.broken(None);
                    return Poll::Ready(None);
                }
                Some(Step::Forever) => {
                    self.steps.push_back(Step::Forever);
                    return Poll::Pending;
                }
                Some(Step::Wait(wait)) => self.timer = Some(Box::pin(sleep(wait))),
                Some(Step::Point(label)) => match self.world.hit(self.process, label) {
                    Hit::Go => {}
                    Hit::Dead => return Poll::Pending,
                    Hit::Yield => {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                },
                Some(Step::Give(event)) => {
                    self.output = true;
                    match &event {
                        ModelEvent::Text(text) => self.text.push_str(text),
                        ModelEvent::ToolCall { name, .. } => self.calls.push(name.clone()),
                        _ => {}
                    }
                    return Poll::Ready(Some(Ok(event)));
                }
                Some(Step::Fail(error)) => {
                    self.broken(Some(&error));
                    self.steps.clear();
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Step::Done(response)) => {
                    check::produced(&mut self.world.lock(), self.process, &response);
                    return Poll::Ready(Some(Ok(ModelEvent::Done(response))));
                }
            }
        }
    }
}
