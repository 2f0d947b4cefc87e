//! What the server plays: replies, faults, and how a reply is chosen.

use crate::api::Api;
use crate::rules::Rules;
use std::time::Duration;

/// An HTTP answer: status, headers, body.
pub(crate) type Answer = (u16, Vec<(String, String)>, String);

/// A whole script: replies in order, how to choose among them, and the rules in force.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The replies, in order.
    pub replies: Vec<Reply>,
    /// How the reply for a request is chosen.
    pub pick: Pick,
    /// What to do when no reply is left.
    pub after_end: AfterEnd,
    /// The rules requests are held to.
    pub rules: Rules,
}

impl Script {
    /// A script that serves `replies` one after another under the default rules.
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: replies.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Choose the reply by the number of assistant turns in the request.
    #[must_use]
    pub fn by_turns(mut self) -> Self {
        self.pick = Pick::AssistantTurns;
        self
    }

    /// Set the rules.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Serve the last reply again and again once all were served.
    #[must_use]
    pub fn repeat_last(mut self) -> Self {
        self.after_end = AfterEnd::RepeatLast;
        self
    }
}

/// How the reply for a request is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// The next one in order. A reply is used up once its faults are played and it was
    /// served (or, for [`Reply::fail`], once its faults are played). A refused request
    /// uses up nothing.
    #[default]
    Counter,
    /// Reply N for a request that holds N assistant turns, however often it is asked
    /// for, so that a client that resumes goes on at the right place. The faults of a
    /// reply are played once each, in order, before it is served.
    AssistantTurns,
}

/// What happens when the script has no reply for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterEnd {
    /// Answer 400 and note a problem.
    #[default]
    Refuse,
    /// Serve the last reply again.
    RepeatLast,
}

/// One scripted answer of the model.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// Reasoning text; comes with an opaque signature or encrypted blob.
    pub reasoning: Option<String>,
    /// A second opaque block without readable text (Anthropic `redacted_thinking` only).
    pub redacted: bool,
    /// Answer text.
    pub text: Option<String>,
    /// A second reasoning block between the text and the calls (Anthropic, Responses).
    pub reasoning_before_calls: Option<String>,
    /// Tool calls.
    pub calls: Vec<Call>,
    /// Stop reason; by default tool use if there are calls, else end of turn.
    pub stop: Option<Stop>,
    /// Faults, one per time this reply is asked for, before it is served whole.
    pub faults: Vec<Fault>,
    /// There is no whole answer, only the faults ([`Reply::fail`]).
    pub only_faults: bool,
    /// Leave out signatures and encrypted blobs.
    pub unsigned: bool,
    /// Characters per text and argument piece; 0 means the default of 7.
    pub piece: usize,
    /// Bytes per socket write, to cut frames anywhere; 0 means a frame at a time.
    pub write_size: usize,
    /// Wait before each event.
    pub delay: Duration,
}

impl Reply {
    /// A reply with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A reply of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// A reply that only fails.
    #[must_use]
    pub fn fail(fault: Fault) -> Self {
        Self {
            faults: vec![fault],
            only_faults: true,
            ..Self::default()
        }
    }

    /// Add reasoning.
    #[must_use]
    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        self.reasoning = Some(text.into());
        self
    }

    /// Add a second reasoning block between the text and the calls.
    #[must_use]
    pub fn reasoning_before_calls(mut self, text: impl Into<String>) -> Self {
        self.reasoning_before_calls = Some(text.into());
        self
    }

    /// Add a `redacted_thinking` block (Anthropic only).
    #[must_use]
    pub fn redacted(mut self) -> Self {
        self.redacted = true;
        self
    }

    /// Add a tool call; `args` is JSON text and is streamed exactly as written.
    #[must_use]
    pub fn call(
        mut self,
        id: impl Into<String>,
        name: impl Into<String>,
        args: impl Into<String>,
    ) -> Self {
        self.calls.push(Call {
            id: id.into(),
            name: name.into(),
            args: args.into(),
        });
        self
    }

    /// Set the stop reason.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Add a fault, played once before the reply is served whole.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Leave out signatures and encrypted blobs.
    #[must_use]
    pub fn unsigned(mut self) -> Self {
        self.unsigned = true;
        self
    }

    /// Set the number of characters per text and argument piece.
    #[must_use]
    pub fn piece(mut self, chars: usize) -> Self {
        self.piece = chars;
        self
    }

    /// Set the number of bytes per socket write.
    #[must_use]
    pub fn write_size(mut self, bytes: usize) -> Self {
        self.write_size = bytes;
        self
    }

    /// Wait `millis` before each event.
    #[must_use]
    pub fn delay_ms(mut self, millis: u64) -> Self {
        self.delay = Duration::from_millis(millis);
        self
    }

    /// The stop reason in force.
    #[must_use]
    pub fn stop_in_force(&self) -> Stop {
        match &self.stop {
            Some(stop) => stop.clone(),
            None if self.calls.is_empty() => Stop::EndTurn,
            None => Stop::ToolUse,
        }
    }
}

/// A tool call in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The call id; empty on Gemini means a call without an id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as JSON text.
    pub args: String,
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// End of the turn.
    EndTurn,
    /// Tool calls were made.
    ToolUse,
    /// Output limit.
    MaxOutput,
    /// Refusal or content filter.
    Refusal,
    /// The context window filled during generation.
    ContextFull,
    /// Anthropic's `pause_turn`.
    Paused,
    /// A raw value, put where the API has its stop reason.
    Raw(String),
}

/// Something that goes wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An HTTP answer. Without a body one in the API's own shape is made.
    Status {
        /// The status code.
        status: u16,
        /// Extra headers.
        headers: Vec<(String, String)>,
        /// The body, as it is.
        body: Option<String>,
    },
    /// 400 (or what the API has) with the API's words for a prompt that is too long.
    Overflow,
    /// 401 (400 on Gemini) with the API's words for a bad key.
    BadKey,
    /// The account has no money left: 429 or 402, not to be retried.
    Quota,
    /// Close the connection without any answer.
    Drop,
    /// Close the socket, without the last chunk, after so many bytes of body.
    CutAfterBytes(usize),
    /// Close the socket, without the last chunk, after so many events.
    CutAfterEvents(usize),
    /// End the body cleanly after so many events.
    EndAfterEvents(usize),
    /// Send so many events and then nothing more until the server is shut down.
    StallAfterEvents(usize),
    /// Send nothing at all, not even headers, until the server is shut down.
    Hang,
    /// After so many events the data of the next one is cut in half (the line itself is
    /// closed); the later events follow.
    TruncatedJsonAfterEvents(usize),
    /// After so many events the API's error event comes, and the body ends.
    ErrorAfterEvents(usize),
    /// 200 with an HTML page.
    Html200,
    /// 200 with an event stream of no bytes.
    Empty200,
    /// 200 with `application/json` and an error body.
    Json200,
}

impl Fault {
    /// An HTTP status with a body in the API's own shape.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Status {
            status,
            headers: Vec::new(),
            body: None,
        }
    }

    /// 429 with `retry-after` in seconds (Gemini: `RetryInfo` in the body, no header).
    #[must_use]
    pub fn rate_limited(retry_after_seconds: u32) -> Self {
        Self::Status {
            status: 429,
            headers: vec![("retry-after".into(), retry_after_seconds.to_string())],
            body: None,
        }
    }

    /// 529, Anthropic's "overloaded" (503 on the others).
    #[must_use]
    pub fn overloaded() -> Self {
        Self::status(529)
    }

    /// Add a header (only to a [`Fault::Status`]).
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Self::Status { headers, .. } = &mut self {
            headers.push((name.into(), value.into()));
        }
        self
    }

    /// Set the body (only of a [`Fault::Status`]).
    #[must_use]
    pub fn body(mut self, text: impl Into<String>) -> Self {
        if let Self::Status { body, .. } = &mut self {
            *body = Some(text.into());
        }
        self
    }

    /// The whole HTTP answer, for faults that are one: status, headers, body.
    pub(crate) fn answer(&self, api: Api) -> Option<Answer> {
        let json = |status: u16, code: Option<&str>, message: &str| {
            let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            Some((status, headers, api.error_body(status, code, message, None)))
        };
        match self {
            Self::Status {
                status,
                headers,
                body,
            } => Some(status_answer(api, *status, headers, body.as_deref())),
            Self::Overflow => match api {
                Api::Anthropic => json(
                    400,
                    None,
                    "prompt is too long: 208310 tokens > 200000 maximum",
                ),
                Api::Chat => json(
                    400,
                    Some("context_length_exceeded"),
                    "This model's maximum context length is 128000 tokens. However, your messages resulted in 140231 tokens. Please reduce the length of the messages.",
                ),
                Api::Responses => json(
                    400,
                    Some("context_length_exceeded"),
                    "Your input exceeds the context window of this model. Please adjust your input and try again.",
                ),
                Api::Gemini => json(
                    400,
                    None,
                    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).",
                ),
            },
            Self::BadKey => match api {
                Api::Anthropic => json(401, None, "invalid x-api-key"),
                Api::Chat | Api::Responses => json(
                    401,
                    Some("invalid_api_key"),
                    "Incorrect API key provided: sk-x.",
                ),
                Api::Gemini => {
                    let body = serde_json::json!({"error": {
                        "code": 400,
                        "message": "API key not valid. Please pass a valid API key.",
                        "status": "INVALID_ARGUMENT",
                        "details": [{
                            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                            "reason": "API_KEY_INVALID",
                            "domain": "googleapis.com",
                        }],
                    }});
                    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
                    Some((400, headers, body.to_string()))
                }
            },
            Self::Quota => match api {
                Api::Anthropic => json(
                    402,
                    None,
                    "Your credit balance is too low to access the Anthropic API.",
                ),
                Api::Chat | Api::Responses => json(
                    429,
                    Some("insufficient_quota"),
                    "You exceeded your current quota, please check your plan and billing details.",
                ),
                Api::Gemini => json(
                    403,
                    None,
                    "This API method requires billing to be enabled. Please enable billing on the project.",
                ),
            },
            Self::Html200 => Some((
                200,
                vec![("content-type".to_owned(), "text/html".to_owned())],
                "<html><head><title>Sign in to the network</title></head></html>".to_owned(),
            )),
            Self::Json200 => json(200, None, "Upstream failed behind the gateway"),
            Self::Drop
            | Self::CutAfterBytes(_)
            | Self::CutAfterEvents(_)
            | Self::EndAfterEvents(_)
            | Self::StallAfterEvents(_)
            | Self::Hang
            | Self::TruncatedJsonAfterEvents(_)
            | Self::ErrorAfterEvents(_)
            | Self::Empty200 => None,
        }
    }
}

fn status_answer(
    api: Api,
    status: u16,
    headers: &[(String, String)],
    body: Option<&str>,
) -> Answer {
    let status = if status == 529 && api != Api::Anthropic {
        503
    } else {
        status
    };
    let mut headers = headers.to_vec();
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
    {
        headers.push(("content-type".into(), "application/json".into()));
    }
    if let Some(body) = body {
        return (status, headers, body.to_owned());
    }
    let wait = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("retry-after"))
        .map(|(_, value)| value.clone());
    if api == Api::Gemini && status == 429 {
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case("retry-after"));
        let body = serde_json::json!({"error": {
            "code": 429,
            "message": "Resource has been exhausted (e.g. check quota).",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": format!("{}s", wait.as_deref().unwrap_or("1")),
            }],
        }});
        return (429, headers, body.to_string());
    }
    let message = match (api, status) {
        (Api::Anthropic, 429) => {
            "This request would exceed your organization's rate limit of 50 requests per minute."
        }
        (_, 429) => {
            "Rate limit reached for the model in organization org-x on requests per min (RPM): Limit 500, Used 500, Requested 1."
        }
        (Api::Anthropic, 529) => "Overloaded",
        (_, 503) => "The model is overloaded. Please try again later.",
        (_, 504) => "Request timed out",
        (_, 500..) => "Internal server error",
        (_, 404) => "The requested resource was not found",
        _ => "The request was refused by the script",
    };
    let code = (status == 429 && matches!(api, Api::Chat | Api::Responses))
        .then_some("rate_limit_exceeded");
    let body = api.error_body(status, code, message, None);
    (status, headers, body)
}
