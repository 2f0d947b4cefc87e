//! The models against a server that refuses what the real services refuse, and the script model.

#![allow(clippy::unwrap_used, clippy::panic)]

mod http;
mod recordings;
mod script;

use rethread_core::{ModelError, ModelEvent, ModelStream};

/// All that a model says, or its error after that.
async fn collect(mut stream: ModelStream) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut events = Vec::new();
    loop {
        match std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
            Some(Ok(event)) => events.push(event),
            Some(Err(error)) => return (events, Some(error)),
            None => return (events, None),
        }
    }
}
