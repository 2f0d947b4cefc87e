//! A model that says what it is told to, tools that do, and processes that die.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use rethread_core::{
    Agent, AgentBuilder, Assistant, BoxFuture, Event, Json, MemoryStore, Message, Model,
    ModelError, ModelEvent, ModelStream, Origin, Permission, Prompt, PromptOptions, Repeat, Run,
    Tool, ToolCall, ToolContext, ToolError, ToolOutput, ToolSpec, Wait,
};
use tokio::time::{Sleep, sleep};

/// One piece of a response.
#[derive(Clone)]
pub(crate) enum Say {
    Event(ModelEvent),
    Fail(Arc<dyn Fn() -> ModelError + Send + Sync>),
    Wait(Duration),
    Forever,
}

/// Plays responses in order, whoever asks; after the last it says "done".
#[derive(Clone)]
pub(crate) struct Plays {
    responses: Arc<Mutex<VecDeque<Vec<Say>>>>,
    /// The text of the messages of each request.
    pub(crate) requests: Arc<Mutex<Vec<Vec<String>>>>,
    origin: Origin,
}

impl fmt::Debug for Plays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plays")
    }
}

impl Plays {
    pub(crate) fn new(responses: impl IntoIterator<Item = Vec<Say>>) -> Self {
        Self {
            responses: Arc::new(Mutex::new(responses.into_iter().collect())),
            requests: Arc::default(),
            origin: Origin::new("test", "test", "test"),
        }
    }

    pub(crate) fn last_request(&self) -> Vec<String> {
        self.requests.lock().unwrap().last().unwrap().clone()
    }
}

/// A response that asks for tools by these names; the call of `x` has the id `x`.
pub(crate) fn calls(names: &[&str]) -> Vec<Say> {
    let mut response = Assistant::new("");
    response.tool_calls = names
        .iter()
        .map(|name| ToolCall::new(*name, *name, Json::empty_object()))
        .collect();
    vec![Say::Event(ModelEvent::Done(Box::new(response)))]
}

impl Model for Plays {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn prompt(&self, _: &PromptOptions) -> Box<dyn Prompt> {
        Box::new(Told {
            model: self.clone(),
            told: Vec::new(),
        })
    }
}

struct Told {
    model: Plays,
    told: Vec<String>,
}

impl Prompt for Told {
    fn push(&mut self, message: &Message) {
        self.told.push(message.content().to_text());
    }

    fn send(&mut self) -> ModelStream {
        self.model.requests.lock().unwrap().push(self.told.clone());
        let next = self.model.responses.lock().unwrap().pop_front();
        let done = || {
            let done = Box::new(Assistant::new("done"));
            vec![Say::Event(ModelEvent::Done(done))]
        };
        Box::pin(Playing {
            rest: next.unwrap_or_else(done).into(),
            timer: None,
        })
    }
}

struct Playing {
    rest: VecDeque<Say>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stream for Playing {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(timer) = &mut self.timer {
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.timer = None;
            }
            match self.rest.pop_front() {
                None => return Poll::Ready(None),
                Some(Say::Event(event)) => return Poll::Ready(Some(Ok(event))),
                Some(Say::Fail(error)) => return Poll::Ready(Some(Err(error()))),
                Some(Say::Wait(wait)) => self.timer = Some(Box::pin(sleep(wait))),
                Some(Say::Forever) => {
                    self.rest.push_front(Say::Forever);
                    return Poll::Pending;
                }
            }
        }
    }
}

/// What a tool does.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    Returns,
    NeverEnds,
    Defers(Wait),
}

/// A tool that counts how often it starts.
#[derive(Clone)]
pub(crate) struct Counts {
    spec: ToolSpec,
    does: Does,
    asks: bool,
    /// Held by every call that is at work.
    work: Arc<()>,
    pub(crate) starts: Arc<AtomicUsize>,
}

impl Counts {
    pub(crate) fn new(name: &str, does: Does) -> Self {
        Self {
            spec: ToolSpec::new(name, "", Json::parse(r#"{"type":"object"}"#).unwrap()),
            does,
            asks: false,
            work: Arc::default(),
            starts: Arc::default(),
        }
    }

    pub(crate) fn repeat(mut self, repeat: Repeat) -> Self {
        self.spec = self.spec.repeat(repeat);
        self
    }

    pub(crate) fn serial(mut self) -> Self {
        self.spec = self.spec.serial();
        self
    }

    pub(crate) fn asks(self) -> Self {
        Self { asks: true, ..self }
    }

    pub(crate) fn is_at_work(&self) -> bool {
        Arc::weak_count(&self.work) > 0
    }

    pub(crate) fn starts(&self) -> usize {
        self.starts.load(Ordering::Relaxed)
    }
}

impl Tool for Counts {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn permission(&self, _: &Json) -> Permission {
        if self.asks {
            Permission::Ask {
                prompt: "may it?".to_owned(),
            }
        } else {
            Permission::Start
        }
    }

    fn call<'a>(&'a self, _: ToolContext, _: Json) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        let work = Arc::downgrade(&self.work);
        Box::pin(async move {
            let _at_work = work;
            self.starts.fetch_add(1, Ordering::Relaxed);
            match self.does {
                Does::Returns => Ok(ToolOutput::from("the result")),
                Does::NeverEnds => std::future::pending().await,
                Does::Defers(wait) => Ok(ToolOutput::Deferred { wait, prompt: None }),
            }
        })
    }
}

/// An agent of a process.
pub(crate) fn agent(store: &MemoryStore, model: &Plays, tools: &[&Counts]) -> Agent {
    builder(model, tools).store(store.clone()).build().unwrap()
}

pub(crate) fn builder(model: &Plays, tools: &[&Counts]) -> AgentBuilder {
    tools
        .iter()
        .fold(Agent::builder().model(model.clone()), |builder, tool| {
            builder.tool((*tool).clone())
        })
}

/// A process's life, in which time does not pass.
pub(crate) fn live<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}

/// A process that dies at an event of its run.
pub(crate) fn die_at(make: impl FnOnce() -> Run, at: impl Fn(&Event) -> bool) {
    let mut run = make();
    live(async {
        while !at(&run.next().await.expect("the event comes")) {}
        // What was started gets to start, and nothing more comes of it.
        let _ = tokio::time::timeout(Duration::from_millis(1), run.next()).await;
    });
    drop(run); // there is no runtime any more in which it could end well
}
