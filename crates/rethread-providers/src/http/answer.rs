//! An answer as it comes.

use std::collections::VecDeque;
use std::error::Error as _;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_core::Stream;
use http_body::{Body as _, Frame, SizeHint};
use reqwest::Response;
use rethread_core::{ModelError, ModelErrorKind, ModelEvent};
use rethread_wire::{Decoder, decode_error};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use super::{Call, HttpModel, invalid};

/// The most bytes that are read of an answer that is an error.
const MAX_ERROR_BYTES: usize = 256 * 1024;

/// A call to a model: first it connects, then it reads.
pub(super) struct Answer {
    model: HttpModel,
    state: State,
}

enum State {
    Connecting(Pin<Box<dyn Future<Output = Result<Reading, ModelError>> + Send>>),
    Reading(Box<Reading>),
    Over,
}

struct Reading {
    body: reqwest::Body,
    decoder: Decoder,
    /// What the last bytes said.
    read: Vec<ModelEvent>,
    ready: VecDeque<ModelEvent>,
    ended: bool,
    idle: Duration,
    /// When nothing more is waited for.
    timer: Pin<Box<Sleep>>,
}

impl Answer {
    pub(super) fn new(model: HttpModel, call: Result<Call, ModelError>) -> Self {
        let caller = model.clone();
        let state = State::Connecting(Box::pin(async move { open(&caller, call?).await }));
        Self { model, state }
    }
}

impl Stream for Answer {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let result = match &mut self.state {
                State::Over => return Poll::Ready(None),
                State::Connecting(opening) => match opening.as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(reading)) => {
                        self.state = State::Reading(Box::new(reading));
                        continue;
                    }
                    Poll::Ready(Err(error)) => Some(Err(error)),
                },
                State::Reading(reading) => match reading.poll_next(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(result) => result,
                },
            };
            if !matches!(result, Some(Ok(_))) {
                self.state = State::Over;
            }
            let redacted = |error| self.model.setup.redacted(error);
            return Poll::Ready(result.map(|result| result.map_err(redacted)));
        }
    }
}

impl Reading {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ModelEvent, ModelError>>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let result = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Some(data) = frame.data_ref().filter(|data| data.has_remaining()) else {
                        continue;
                    };
                    let result = self.decoder.push(data, &mut self.read);
                    self.timer.as_mut().reset(after(self.idle));
                    result
                }
                Poll::Ready(Some(Err(error))) => {
                    self.ended = true;
                    let cause = format!("the connection broke: {}", chain(&error));
                    self.decoder.fail(&cause, &mut self.read)
                }
                Poll::Ready(None) => {
                    self.ended = true;
                    self.decoder.finish(&mut self.read)
                }
                Poll::Pending => {
                    if self.timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    self.ended = true;
                    let cause = "the service sent nothing for too long";
                    self.decoder.fail(cause, &mut self.read)
                }
            };
            if let Err(error) = result {
                self.ended = true;
                return Poll::Ready(Some(Err(error)));
            }
            self.ready.extend(self.read.drain(..));
        }
    }
}

/// Sends a request and waits for an answer that can be read as a response.
async fn open(model: &HttpModel, call: Call) -> Result<Reading, ModelError> {
    let client = model.client()?;
    let (setup, timeouts) = (&model.setup, model.setup.timeouts);
    let url = reqwest::Url::parse(&call.url)
        .map_err(|error| invalid(format!("`{}` is no address: {error}", setup.base_url)))?;
    let host = url.host_str().unwrap_or("").to_owned();
    let request = client
        .post(url)
        .headers(call.headers)
        .body(reqwest::Body::wrap(Chunks::new(call.body)))
        .send();
    let deadline = after(timeouts.connect.saturating_add(timeouts.first_byte));
    let response = match timeout_at(deadline, request).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(unreachable_service(&host, error)),
        Err(_) => {
            let message = format!("{host} did not answer within {:?}", timeouts.first_byte);
            return Err(ModelError::new(ModelErrorKind::Interrupted, message));
        }
    };
    let status = response.status();
    let id = ["request-id", "x-request-id", "x-generation-id"]
        .iter()
        .find_map(|name| response.headers().get(*name)?.to_str().ok());
    tracing::debug!(%host, status = status.as_u16(), request_id = id, "answered");
    if !status.is_success() {
        return Err(read_error(model, response, deadline).await);
    }
    let body = http_body_of(response);
    Ok(Reading {
        body,
        decoder: Decoder::new(setup.api, setup.origin.clone()),
        read: Vec::new(),
        ready: VecDeque::new(),
        ended: false,
        idle: timeouts.idle,
        timer: Box::pin(sleep_until(deadline)),
    })
}

fn http_body_of(response: Response) -> reqwest::Body {
    reqwest::Body::from(response)
}

/// Reads an answer that is an error, as much of it as there may be.
async fn read_error(model: &HttpModel, mut response: Response, deadline: Instant) -> ModelError {
    let status = response.status().as_u16();
    let headers: Vec<(String, String)> = response
        .headers()
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect();
    let idle = after(model.setup.timeouts.idle).min(deadline);
    let mut body = Vec::new();
    // What an error says does not get better by waiting: a broken body is told as far as it came.
    while let Ok(Ok(Some(chunk))) = timeout_at(idle, response.chunk()).await {
        let room = MAX_ERROR_BYTES.saturating_sub(body.len());
        body.extend(chunk.iter().take(room));
        if body.len() >= MAX_ERROR_BYTES {
            break;
        }
    }
    decode_error(model.setup.api, status, &headers, &body)
}

fn unreachable_service(host: &str, error: reqwest::Error) -> ModelError {
    let error = error.without_url();
    let what = if error.is_connect() {
        format!("the connection to {host} failed")
    } else {
        format!("the connection to {host} broke")
    };
    let kind = if error.is_builder() {
        ModelErrorKind::InvalidRequest
    } else {
        ModelErrorKind::Interrupted
    };
    let mut failure = ModelError::new(kind, format!("{what}: {}", chain(&error)));
    failure.source = Some(Box::new(error));
    failure
}

/// An error with its causes in one line.
pub(super) fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// That long from now. A time that cannot be reached is far away.
fn after(duration: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(duration)
        .unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 3600))
}

/// A request body whose length is known, so that no server has to take it in pieces.
struct Chunks {
    rest: std::vec::IntoIter<Bytes>,
    left: u64,
}

impl Chunks {
    fn new(body: rethread_wire::Body) -> Self {
        Self {
            left: body.len() as u64,
            rest: body.into_iter(),
        }
    }
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let chunk = self.rest.next();
        self.left = self
            .left
            .saturating_sub(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64));
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
