//! Models that answer at once: what is measured is everything else.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use rethread_core::{
    Assistant, Body, Message, Model, ModelError, ModelErrorKind, ModelEvent, ModelStream, Origin,
    Prompt, PromptOptions, StopReason,
};
use rethread_wire::{Api, Encoder, Target};

/// Encodes Chat Completions requests and answers from a list, each reply once a step.
#[derive(Debug)]
pub(crate) struct Scripted {
    origin: Origin,
    replies: Arc<Vec<Assistant>>,
    next: Arc<AtomicUsize>,
    /// Bytes of the last request.
    pub(crate) body_bytes: Arc<AtomicUsize>,
    deltas: usize,
}

impl Scripted {
    pub(crate) fn new(replies: Vec<Assistant>) -> Self {
        Self {
            origin: Origin::new(Api::OpenAiChat.as_str(), "bench", "m"),
            replies: Arc::new(replies),
            next: Arc::default(),
            body_bytes: Arc::default(),
            deltas: 0,
        }
    }

    /// Streams so many texts of four bytes.
    pub(crate) fn streaming(deltas: usize) -> Self {
        Self {
            deltas,
            ..Self::new(Vec::new())
        }
    }
}

impl Model for Scripted {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn prompt(&self, options: &PromptOptions) -> Box<dyn Prompt> {
        Box::new(ScriptedPrompt {
            encoder: Encoder::new(
                Api::OpenAiChat,
                self.origin.clone(),
                options,
                Target::new(Api::OpenAiChat, "", "m"),
            ),
            origin: self.origin.clone(),
            replies: Arc::clone(&self.replies),
            next: Arc::clone(&self.next),
            body_bytes: Arc::clone(&self.body_bytes),
            deltas: self.deltas,
        })
    }
}

struct ScriptedPrompt {
    encoder: Encoder,
    origin: Origin,
    replies: Arc<Vec<Assistant>>,
    next: Arc<AtomicUsize>,
    body_bytes: Arc<AtomicUsize>,
    deltas: usize,
}

impl Prompt for ScriptedPrompt {
    fn push(&mut self, message: &Message) {
        self.encoder.push(message);
    }

    fn send(&mut self) -> ModelStream {
        self.body_bytes
            .store(self.encoder.body().len(), Ordering::Relaxed);
        if self.deltas > 0 {
            return Box::pin(Deltas {
                left: self.deltas,
                done: false,
            });
        }
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let reply = self
            .replies
            .get(at % self.replies.len().max(1))
            .cloned()
            .map(|mut reply| {
                reply.origin.get_or_insert_with(|| self.origin.clone());
                reply
            });
        Box::pin(Once(Some(match reply {
            Some(reply) => Ok(ModelEvent::Done(Box::new(reply))),
            None => Err(ModelError::new(ModelErrorKind::InvalidRequest, "no reply")),
        })))
    }
}

struct Once(Option<Result<ModelEvent, ModelError>>);

impl Stream for Once {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take())
    }
}

struct Deltas {
    left: usize,
    done: bool,
}

impl Stream for Deltas {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.left > 0 {
            self.left -= 1;
            return Poll::Ready(Some(Ok(ModelEvent::Text("abcd".to_owned()))));
        }
        if std::mem::replace(&mut self.done, true) {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(ModelEvent::Done(Box::new(Assistant::new("done"))))))
    }
}

/// The responses of a list of messages, in order, each with the stop its calls imply.
pub(crate) fn responses(messages: &[Message]) -> Vec<Assistant> {
    messages
        .iter()
        .filter_map(|message| match &message.body {
            Body::Assistant(response) => Some(response.clone()),
            _ => None,
        })
        .filter(|response| {
            matches!(
                response.stop_reason(),
                StopReason::EndTurn | StopReason::ToolUse
            )
        })
        .collect()
}
