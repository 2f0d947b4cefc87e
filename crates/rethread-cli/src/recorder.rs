//! Counting model calls and keeping what each was sent.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_core::{Json, LeftOut, Message, Model, ModelStream, Origin, Prompt, PromptOptions};
use serde::{Serialize, Serializer};

/// A model that counts its calls and, if asked to, keeps the neutral messages of each.
#[derive(Clone)]
pub(crate) struct Recorder {
    model: Arc<dyn Model>,
    keeps: bool,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    calls: usize,
    requests: Vec<Request>,
    /// The conversation begun last.
    current: Option<Arc<Mutex<Vec<Json>>>>,
}

/// The messages of one request: the beginning of a conversation, which later requests share.
#[derive(Clone)]
pub(crate) struct Request {
    messages: Arc<Mutex<Vec<Json>>>,
    len: usize,
}

impl Request {
    /// How many messages it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Serialize for Request {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(lock(&self.messages).iter().take(self.len))
    }
}

impl Recorder {
    pub(crate) fn new(model: Arc<dyn Model>, keeps: bool) -> Self {
        Self {
            model,
            keeps,
            log: Arc::default(),
        }
    }

    /// How often the model was called.
    pub(crate) fn calls(&self) -> usize {
        lock(&self.log).calls
    }

    /// The requests, in order; none unless they are kept.
    pub(crate) fn requests(&self) -> Vec<Request> {
        lock(&self.log).requests.clone()
    }

    /// What the conversation begun last would send now.
    pub(crate) fn current(&self) -> Option<Request> {
        let messages = lock(&self.log).current.clone()?;
        let len = lock(&messages).len();
        Some(Request { messages, len })
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.model.fmt(f)
    }
}

impl Model for Recorder {
    fn origin(&self) -> &Origin {
        self.model.origin()
    }

    fn prompt(&self, options: &PromptOptions) -> Box<dyn Prompt> {
        let messages = Arc::default();
        lock(&self.log).current = Some(Arc::clone(&messages));
        Box::new(Recording {
            prompt: self.model.prompt(options),
            keeps: self.keeps,
            messages,
            log: Arc::clone(&self.log),
        })
    }
}

struct Recording {
    prompt: Box<dyn Prompt>,
    keeps: bool,
    messages: Arc<Mutex<Vec<Json>>>,
    log: Arc<Mutex<Log>>,
}

impl Prompt for Recording {
    fn push(&mut self, message: &Message) {
        if self.keeps
            && let Ok(json) = Json::encode(message)
        {
            lock(&self.messages).push(json);
        }
        self.prompt.push(message);
    }

    fn send(&mut self) -> ModelStream {
        let mut log = lock(&self.log);
        log.calls += 1;
        if self.keeps {
            log.requests.push(Request {
                len: lock(&self.messages).len(),
                messages: Arc::clone(&self.messages),
            });
        }
        drop(log);
        self.prompt.send()
    }

    fn left_out(&mut self) -> Vec<LeftOut> {
        self.prompt.left_out()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
