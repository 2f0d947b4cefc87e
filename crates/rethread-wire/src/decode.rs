//! From the bytes a provider sends to a message, as they come.
//!
//! All four interfaces follow the same rules here: a response is finished only when its own end mark
//! came, whatever the transport says; an error before the first output is an error, after it an
//! interrupted message; tool calls of a response that was refused or broke off are withheld; and what
//! the provider wants back is kept as the bytes that came, beside the neutral view.

mod anthropic;
mod chat;
mod gemini;
pub(crate) mod raw;
mod responses;
mod template;

use std::fmt;

use rethread_core::{
    Assistant, Content, Json, ModelError, ModelErrorKind, ModelEvent, Origin, Stop, StopReason,
    Text, ToolCall, Undecoded, Usage,
};
use serde::Deserialize;

use crate::error::stream_error;
use crate::sse::MAX_EVENT_BYTES;
use crate::{Api, Frame, SseReader, decode_error};
use raw::{Members, Object};

/// The most bytes one response may have: memory is bounded whatever a server sends.
const MAX_RESPONSE_BYTES: usize = 512 * 1024 * 1024;

/// Reads one response as its bytes come, however they are cut.
///
/// Give it the body of an answer with a success status; [`decode_error`] reads the others. Besides an
/// event stream it takes a whole JSON body.
///
/// What [`Assistant::native`] holds may go back to the same origin as it is: no block that was cut, no
/// reasoning without its signature, no call that was withheld, and no call whose arguments do not
/// decode. Such a call is in [`Assistant::tool_calls`] only; a request that answers it writes it afresh,
/// with no arguments.
#[derive(Debug)]
pub struct Decoder {
    api: Api,
    origin: Origin,
    sse: SseReader,
    protocol: Box<dyn Protocol>,
    /// A body, or the rest of one, that is not an event stream.
    document: Option<Vec<u8>>,
    /// Whether an event came.
    streaming: bool,
    /// The first text that is not of the format.
    stray: Option<Vec<u8>>,
    /// How the response broke off; the rest is not read.
    broken: Option<Stop>,
    /// Nothing more is read.
    closed: bool,
    bytes: usize,
}

/// What is special to one interface.
trait Protocol: fmt::Debug + Send {
    /// Reads the data of one event.
    fn event(&mut self, json: &str, out: &mut Vec<ModelEvent>) -> Result<(), Failure>;

    /// Reads a whole body that is one JSON object. False when it is no response of this interface.
    fn document(&mut self, json: &str, out: &mut Vec<ModelEvent>) -> Result<bool, Failure>;

    /// Whether anything of the response has come, beyond its frame.
    fn has_output(&self) -> bool;

    /// How the response ended; `None` while its end mark has not come.
    fn stop(&self) -> Option<Stop>;

    /// The response, given how it ended.
    fn parts(&mut self, reason: StopReason) -> Parts;

    /// What the provider can continue this response with.
    fn handle(&self) -> Option<Json> {
        None
    }

    /// Drops what the provider sends again when it continues from the handle.
    fn rewind(&mut self) {}
}

/// What a protocol makes of a response.
#[derive(Debug, Default)]
struct Parts {
    text: Text,
    reasoning: Option<Text>,
    /// All calls, also those that are withheld.
    calls: Vec<ToolCall>,
    native: Vec<Json>,
    usage: Option<Usage>,
}

/// Why a response cannot be read any further.
#[derive(Debug)]
enum Failure {
    /// Something was lost on the way.
    Lost(String),
    /// The provider says what failed.
    Error(Box<ModelError>),
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::Error(Box::new(error))
    }
}

impl Decoder {
    /// A decoder for one response of `api`. The message is marked with `origin`.
    #[must_use]
    pub fn new(api: Api, origin: Origin) -> Self {
        Self {
            api,
            origin,
            sse: SseReader::new(),
            protocol: match api {
                Api::AnthropicMessages => Box::<anthropic::Messages>::default(),
                Api::OpenAiChat => Box::<chat::Chat>::default(),
                Api::OpenAiResponses => Box::<responses::Responses>::default(),
                Api::GeminiContents => Box::<gemini::Gemini>::default(),
            },
            document: None,
            streaming: false,
            stray: None,
            broken: None,
            closed: false,
            bytes: 0,
        }
    }

    /// Reads the next bytes and adds what they say to `out`.
    ///
    /// # Errors
    /// When the provider reports a failure, or something else than a response comes, before the first
    /// output. A failure after it ends the response instead; [`Decoder::finish`] then gives the
    /// interrupted message.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let mut input = bytes;
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > MAX_RESPONSE_BYTES {
            let message = format!("the response is longer than {MAX_RESPONSE_BYTES} bytes");
            return self.break_off(Failure::Lost(message));
        }
        while !self.closed && self.broken.is_none() {
            if let Some(document) = &mut self.document {
                if document.len() + input.len() > MAX_EVENT_BYTES {
                    let message = format!("the body is longer than {MAX_EVENT_BYTES} bytes");
                    return self.break_off(Failure::Lost(message));
                }
                document.extend_from_slice(input);
                return Ok(());
            }
            let result = match self.sse.next(&mut input) {
                Ok(None) => return Ok(()),
                Ok(Some(Frame::Event(data))) => {
                    self.streaming = true;
                    match std::str::from_utf8(data) {
                        Ok(json) => match json.trim() {
                            "" => Ok(()),
                            "[DONE]" => {
                                self.closed = true;
                                Ok(())
                            }
                            json => self.protocol.event(json, out),
                        },
                        Err(_) => Err(Failure::Lost("an event is not valid UTF-8".to_owned())),
                    }
                }
                Ok(Some(Frame::Stray(line))) => {
                    if let Some(error) = line.strip_prefix(b"error:") {
                        // Older llama.cpp servers have a field of that name.
                        Err(stream_error(self.api, &String::from_utf8_lossy(error)).into())
                    } else {
                        if is_document(line) && self.stray.is_none() {
                            let mut document = line.to_vec();
                            document.push(b'\n');
                            self.document = Some(document);
                        } else if self.stray.is_none() {
                            self.stray = Some(line.iter().copied().take(1000).collect());
                        }
                        Ok(())
                    }
                }
                Err(error) => Err(Failure::Lost(error.to_string())),
            };
            if let Err(failure) = result {
                return self.break_off(failure);
            }
        }
        Ok(())
    }

    /// Ends the body: adds the message, [`ModelEvent::Done`], to `out`.
    ///
    /// # Errors
    /// When the response failed or broke off before its first output, or what came is no response.
    pub fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.end(None, out)
    }

    /// Ends a body whose transport broke for the given cause: adds the message, interrupted unless its
    /// end mark had come, to `out`.
    ///
    /// # Errors
    /// When there was no output yet.
    pub fn fail(&mut self, cause: &str, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.end(Some(cause), out)
    }

    /// What the provider can continue this response with if it breaks off now: Gemini's continuation
    /// token, or the id of a stored background response and its last event.
    #[must_use]
    pub fn handle(&self) -> Option<Json> {
        self.protocol.handle()
    }

    /// Gets ready for the body of a request that continues this response from its
    /// [`handle`](Decoder::handle), and drops what the provider sends again. False when it cannot be
    /// continued.
    pub fn resume(&mut self) -> bool {
        if self.protocol.handle().is_none() {
            return false;
        }
        self.protocol.rewind();
        self.sse = SseReader::new();
        self.document = None;
        self.broken = None;
        self.closed = false;
        true
    }

    fn end(&mut self, cause: Option<&str>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.document.is_none()
            && self.stray.is_none()
            && let Some(line) = self.sse.stray_rest()
        {
            if is_document(line) {
                self.document = Some(line.to_vec());
            } else {
                self.stray = Some(line.iter().copied().take(1000).collect());
            }
        }
        if let Some(document) = self.document.take()
            && self.broken.is_none()
            && let Err(failure) = self.read_document(&document, out)
        {
            self.break_off(failure)?;
        }
        let nothing_of_the_format = !self.streaming && cause.is_none();
        if nothing_of_the_format
            && !self.protocol.has_output()
            && self.protocol.stop().is_none()
            && self.broken.is_none()
            && let Some(stray) = self.stray.take()
        {
            self.closed = true;
            return Err(decode_error(self.api, 200, &[], &stray));
        }
        let stop = self.protocol.stop().or_else(|| self.broken.take());
        let mut stop = stop.unwrap_or_else(|| {
            let cause = cause.unwrap_or("the stream ended before the response was finished");
            Stop::new(StopReason::Interrupted).with_message(cause)
        });
        self.closed = true;
        if stop.reason == StopReason::Interrupted && !self.protocol.has_output() {
            let message = stop
                .message
                .or_else(|| stop.raw.clone())
                .unwrap_or_else(|| "the response broke off before any output".to_owned());
            let mut error = ModelError::new(ModelErrorKind::Interrupted, message);
            error.code = stop.raw;
            return Err(error);
        }
        let parts = self.protocol.parts(stop.reason);
        let mut message = Assistant::default();
        message.content = Content::Text(parts.text);
        message.reasoning = parts.reasoning;
        if stop.reason.withholds_calls() {
            note_withheld(&mut stop, &parts.calls);
        } else {
            message.tool_calls = parts.calls;
        }
        message.stop = Some(stop);
        message.origin = Some(self.origin.clone());
        message.native = parts.native;
        if !message.native.is_empty() {
            message.digest = Some(message.view_digest());
        }
        message.usage = parts.usage;
        out.push(ModelEvent::Done(Box::new(message)));
        Ok(())
    }

    /// Reads a body that is not an event stream, or what a server wrote after it broke out of one.
    fn read_document(&mut self, body: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), Failure> {
        let lost = |what: &str| Err(Failure::Lost(what.to_owned()));
        let Ok(text) = std::str::from_utf8(body) else {
            return lost("the body is not valid UTF-8");
        };
        let text = text.trim();
        if self.streaming {
            let json = serde_json::from_str::<raw::Raw<'_>>(text);
            return match json {
                Ok(json) => Err(stream_error(self.api, json.get()).into()),
                Err(_) => lost("the server broke out of the event stream"),
            };
        }
        let no_response = || Err(decode_error(self.api, 200, &[], body).into());
        if text.starts_with('[') && self.api == Api::GeminiContents {
            let (documents, whole) = gemini::elements_so_far(text);
            for document in documents {
                if !self.protocol.document(document.get(), out)? {
                    return no_response();
                }
            }
            return if whole {
                Ok(())
            } else {
                lost("the body ends inside its JSON")
            };
        }
        if !text.starts_with('{') {
            return no_response();
        }
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<raw::Raw<'_>>();
        match documents.next() {
            Some(Ok(json)) if documents.next().is_none() => {
                if self.protocol.document(json.get(), out)? {
                    Ok(())
                } else {
                    no_response()
                }
            }
            // Several documents are of another protocol; one that cannot be read was cut.
            Some(Ok(_)) => no_response(),
            _ => lost("the body ends inside its JSON"),
        }
    }

    /// Ends the response where it is. After its end mark nothing can break it any more.
    fn break_off(&mut self, failure: Failure) -> Result<(), ModelError> {
        self.closed = true;
        if self.protocol.stop().is_some() {
            return Ok(());
        }
        let error = match failure {
            Failure::Lost(message) => ModelError::new(ModelErrorKind::Interrupted, message),
            Failure::Error(error) => *error,
        };
        if !self.protocol.has_output() {
            // What ends the stream now is the error, not a lack of an end.
            self.broken = Some(Stop::new(StopReason::Interrupted).with_message(&error.message));
            return Err(error);
        }
        self.broken = Some(stop_of(&error));
        Ok(())
    }
}

/// Reads a whole body: JSON, a JSON array of Gemini, or a recorded event stream.
///
/// # Errors
/// As [`Decoder::push`] and [`Decoder::finish`].
pub fn decode_body(api: Api, origin: Origin, body: &[u8]) -> Result<Assistant, ModelError> {
    let mut decoder = Decoder::new(api, origin);
    let mut out = Vec::new();
    decoder.push(body, &mut out)?;
    decoder.finish(&mut out)?;
    match out.pop() {
        Some(ModelEvent::Done(message)) => Ok(*message),
        _ => Err(ModelError::new(
            ModelErrorKind::Interrupted,
            "the body holds no response",
        )),
    }
}

/// How a response ended that failed after it had begun.
fn stop_of(error: &ModelError) -> Stop {
    let reason = match error.kind {
        ModelErrorKind::ContextFull => StopReason::ContextFull,
        ModelErrorKind::Refusal => StopReason::Refusal,
        _ => StopReason::Interrupted,
    };
    let mut stop = Stop::new(reason).with_message(&error.message);
    stop.raw = error.code.clone();
    stop.category = Some(
        error
            .code
            .clone()
            .unwrap_or_else(|| error.kind.as_str().to_owned()),
    );
    stop
}

/// Notes the names of the calls that are left out.
fn note_withheld(stop: &mut Stop, calls: &[ToolCall]) {
    if calls.is_empty() {
        return;
    }
    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    let mut detail = Object::new();
    if let Some(before) = &stop.detail {
        for (key, value) in Members::read(before.get()).iter() {
            detail.raw(key, value.get());
        }
    }
    if let Ok(names) = Json::encode(&names) {
        detail.raw("withheld_tool_calls", names.get());
    }
    stop.detail = Json::parse(&detail.end()).ok();
}

/// Whether a line begins something that is no event stream: JSON or a page.
fn is_document(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), Some(b'{' | b'[' | b'<'))
}

/// Reads an event. `None` for JSON that is no object: nothing the interfaces know, so nothing is lost.
fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<Option<T>, Failure> {
    match serde_json::from_str(json) {
        Ok(event) => Ok(Some(event)),
        Err(error) if error.is_data() && !json.starts_with('{') => Ok(None),
        Err(error) => Err(Failure::Lost(format!("an event cannot be read: {error}"))),
    }
}

/// A count, when it came.
fn set(into: &mut Option<u64>, value: Option<u64>) {
    if value.is_some() {
        *into = value;
    }
}

/// Adds text to what is shown, unless there is none.
fn show(out: &mut Vec<ModelEvent>, text: String, event: impl FnOnce(String) -> ModelEvent) {
    if !text.is_empty() {
        out.push(event(text));
    }
}

/// A text that is there only if it has something to say.
fn readable(joined: &raw::Joined) -> Option<Text> {
    (!joined.is_empty()).then(|| joined.text())
}

/// Between two pieces of reasoning that are not one text.
const BREAK: &str = "\n\n";

/// The arguments a native item is given back with: as they came, unless they are not JSON as it is
/// (nothing at all, raw control characters).
fn native_arguments(call: &ToolCall, came: &raw::Joined) -> String {
    if came.to_str().trim() == call.arguments.get() {
        came.literal()
    } else {
        Text::new(call.arguments.get()).literal().to_owned()
    }
}

/// A call of a custom tool, whose argument is a free text.
fn free_text_call(id: &str, name: &str, text: &raw::Joined) -> ToolCall {
    let mut input = Object::new();
    input.raw("input", &text.literal());
    ToolCall::from_text(id, name, &input.end())
}

/// Marks a call whose free text ends where the response did: nothing in the text says whether it was
/// cut.
fn cut_free_text(call: &mut ToolCall, text: &raw::Joined) {
    call.arguments = Json::empty_object();
    call.undecoded = Some(Undecoded {
        text: Some(text.text()),
        error: "the response stopped inside this text".to_owned(),
    });
}

#[cfg(test)]
mod tests;
