//! The script model: a file plays the model and its tools, so that any session can be reproduced
//! without a network or a key.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use rethread_core::{
    Assistant, BoxFuture, Json, Message, Model, ModelError, ModelErrorKind, ModelEvent,
    ModelStream, Origin, Permission, Prompt, PromptOptions, Stop, StopReason, Tool, ToolCall,
    ToolContext, ToolError, ToolOutput, ToolSpec, Wait,
};
use serde::Deserialize;
use tokio::time::{Sleep, sleep};

/// The api of every response a script makes.
pub const SCRIPT_API: &str = "script";

/// How many characters of text come in one piece.
const PIECE: usize = 8;

/// A script: the replies of a model and the tools it can ask for.
#[derive(Debug, Clone, Deserialize)]
pub struct Script {
    replies: Vec<Reply>,
    #[serde(default)]
    then: Option<Reply>,
    #[serde(default)]
    tools: BTreeMap<String, ScriptedTool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Reply {
    #[serde(default)]
    text: String,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    /// A raw provider value.
    #[serde(default)]
    stop: Option<String>,
    #[serde(default)]
    error: Option<Fault>,
    /// So many characters come before the connection drops.
    #[serde(default)]
    cut_after: Option<usize>,
    /// How long each piece of text takes, in milliseconds.
    #[serde(default)]
    delay_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fault {
    Connection,
    Overloaded,
    Hang,
}

#[derive(Debug, Clone, Deserialize)]
struct ScriptedTool {
    #[serde(default = "yes")]
    parallel: bool,
    /// A JSON schema of the arguments; any object unless set.
    #[serde(default)]
    parameters: Option<Json>,
    /// A template over the arguments: `{x}` stands for the argument `x`.
    #[serde(default)]
    result: String,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    fail: Option<String>,
    /// The work goes on elsewhere; no result comes back.
    #[serde(default)]
    defer: bool,
    /// A person is asked before it starts.
    #[serde(default)]
    approve: bool,
    /// A file that gets one line, the tool's name and its arguments, each time the tool starts.
    #[serde(default)]
    append_to: Option<PathBuf>,
}

fn yes() -> bool {
    true
}

/// A script could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("the script `{path}` cannot be read")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no script.
    #[error("`{path}` is not a script: {source}")]
    Parse {
        /// The file.
        path: String,
        /// Where and why.
        source: serde_json::Error,
    },
}

impl Script {
    /// Reads a script file.
    ///
    /// # Errors
    /// When the file cannot be read or is no script.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let json = std::fs::read(path).map_err(|source| ScriptError::Read {
            path: shown.clone(),
            source,
        })?;
        serde_json::from_slice(&json).map_err(|source| ScriptError::Parse {
            path: shown,
            source,
        })
    }

    /// Reads a script from JSON.
    ///
    /// # Errors
    /// When it is no script.
    pub fn from_json(json: &str) -> Result<Self, ScriptError> {
        serde_json::from_str(json).map_err(|source| ScriptError::Parse {
            path: "the given JSON".to_owned(),
            source,
        })
    }

    /// The model that plays this script.
    #[must_use]
    pub fn model(&self) -> ScriptModel {
        ScriptModel {
            origin: Origin::new(SCRIPT_API, "script", "script"),
            play: Arc::new(Play {
                replies: self.replies.clone(),
                then: self.then.clone(),
                errors: AtomicUsize::new(0),
            }),
        }
    }

    /// The tools of this script.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        script_tools(self)
    }
}

/// The tools of a script.
#[must_use]
pub fn script_tools(script: &Script) -> Vec<Arc<dyn Tool>> {
    let make = |(name, tool): (&String, &ScriptedTool)| {
        let parameters = tool.parameters.clone().unwrap_or_else(any_object);
        let mut spec = ToolSpec::new(name, "A scripted tool.", parameters);
        spec.parallel = tool.parallel;
        Arc::new(Scripted {
            spec,
            tool: tool.clone(),
        }) as Arc<dyn Tool>
    };
    script.tools.iter().map(make).collect()
}

fn any_object() -> Json {
    Json::parse(r#"{"type":"object"}"#).unwrap_or_else(|_| Json::empty_object())
}

/// A model that plays a script: the next reply is the one after as many as the conversation holds
/// responses of scripts, plus the errors met in this process. Its errors are final.
#[derive(Debug, Clone)]
pub struct ScriptModel {
    origin: Origin,
    play: Arc<Play>,
}

impl ScriptModel {
    /// The model of a script file.
    ///
    /// # Errors
    /// When the file cannot be read or is no script.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        Script::open(path).map(|script| script.model())
    }

    /// The model of a script as JSON.
    ///
    /// # Errors
    /// When it is no script.
    pub fn from_json(json: &str) -> Result<Self, ScriptError> {
        Script::from_json(json).map(|script| script.model())
    }
}

#[derive(Debug)]
struct Play {
    replies: Vec<Reply>,
    then: Option<Reply>,
    errors: AtomicUsize,
}

impl Model for ScriptModel {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn prompt(&self, _options: &PromptOptions) -> Box<dyn Prompt> {
        Box::new(ScriptPrompt {
            origin: self.origin.clone(),
            play: Arc::clone(&self.play),
            made: 0,
        })
    }
}

struct ScriptPrompt {
    origin: Origin,
    play: Arc<Play>,
    /// Responses of scripts in the conversation.
    made: usize,
}

impl Prompt for ScriptPrompt {
    fn push(&mut self, message: &Message) {
        let origin = message
            .as_assistant()
            .and_then(|response| response.origin.as_ref());
        if origin.is_some_and(|origin| origin.api == SCRIPT_API) {
            self.made += 1;
        }
    }

    fn send(&mut self) -> ModelStream {
        let at = self.made + self.play.errors.load(Ordering::Relaxed);
        let reply = self.play.replies.get(at).or(self.play.then.as_ref());
        let Some(reply) = reply.cloned() else {
            let replies = self.play.replies.len();
            let message = format!(
                "the script has {replies} replies and no `then`; reply {} was asked for",
                at + 1
            );
            return failing(ModelError::new(ModelErrorKind::InvalidRequest, message));
        };
        // With something to say before it, a failure ends a response instead of a call.
        let says = |reply: &Reply| !reply.text.is_empty() && reply.cut_after != Some(0);
        let fault = match (reply.error, reply.cut_after) {
            (_, Some(_)) if says(&reply) => None,
            (Some(fault), _) => Some(fault),
            (None, Some(_)) => Some(Fault::Connection),
            (None, None) => None,
        };
        let (kind, said) = match fault {
            None => return Box::pin(Playing::new(reply, self.origin.clone())),
            Some(Fault::Hang) => return Box::pin(Hanging),
            Some(Fault::Overloaded) => (
                ModelErrorKind::Overloaded,
                "the scripted model is overloaded",
            ),
            Some(Fault::Connection) => (
                ModelErrorKind::Interrupted,
                "the scripted connection failed",
            ),
        };
        self.play.errors.fetch_add(1, Ordering::Relaxed);
        failing(ModelError::new(kind, said))
    }
}

fn failing(mut error: ModelError) -> ModelStream {
    error.retryable = false;
    Box::pin(Failing(Some(error)))
}

struct Failing(Option<ModelError>);

impl Stream for Failing {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(Err))
    }
}

struct Hanging;

impl Stream for Hanging {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Pending
    }
}

/// A reply as it streams.
struct Playing {
    pieces: std::vec::IntoIter<ModelEvent>,
    delay: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Stops answering after the pieces.
    hangs: bool,
    response: Option<Box<Assistant>>,
}

impl Playing {
    fn new(reply: Reply, origin: Origin) -> Self {
        let cut = reply.cut_after;
        let text: String = reply.text.chars().take(cut.unwrap_or(usize::MAX)).collect();
        let mut pieces: Vec<ModelEvent> = reply
            .reasoning
            .iter()
            .cloned()
            .map(ModelEvent::Reasoning)
            .collect();
        let characters: Vec<char> = text.chars().collect();
        pieces.extend(
            characters
                .chunks(PIECE)
                .map(|piece| ModelEvent::Text(piece.iter().collect())),
        );
        let mut response = Assistant::new(text);
        response.reasoning = reply.reasoning.map(Into::into);
        response.origin = Some(origin);
        response.stop = match (cut, reply.stop) {
            (Some(_), _) => {
                let stop = Stop::new(StopReason::Interrupted);
                Some(stop.with_message("the scripted connection dropped"))
            }
            (None, raw) => raw.map(|raw| Stop::from_raw(&raw, !reply.tool_calls.is_empty())),
        };
        if cut.is_none() {
            for (index, call) in reply.tool_calls.iter().enumerate() {
                pieces.push(ModelEvent::ToolCall {
                    index,
                    id: call.id.clone(),
                    name: call.name.clone(),
                });
                pieces.push(ModelEvent::ToolCallDelta {
                    index,
                    text: call.arguments.get().to_owned(),
                });
            }
            match &mut response.stop {
                Some(stop) if stop.reason.withholds_calls() => withhold(stop, &reply.tool_calls),
                _ => response.tool_calls = reply.tool_calls,
            }
        }
        Self {
            pieces: pieces.into_iter(),
            delay: Duration::from_millis(reply.delay_ms),
            timer: None,
            hangs: reply.error == Some(Fault::Hang),
            response: Some(Box::new(response)),
        }
    }
}

/// Notes the calls that are left out of a response that must not run them.
fn withhold(stop: &mut Stop, calls: &[ToolCall]) {
    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    if !names.is_empty() {
        stop.detail = Json::encode(&BTreeMap::from([("withheld_tool_calls", names)])).ok();
    }
}

impl Stream for Playing {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(timer) = &mut self.timer {
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.timer = None;
        }
        match self.pieces.next() {
            Some(piece) => {
                if !self.delay.is_zero() {
                    self.timer = Some(Box::pin(sleep(self.delay)));
                }
                Poll::Ready(Some(Ok(piece)))
            }
            None if self.hangs => Poll::Pending,
            None => Poll::Ready(
                self.response
                    .take()
                    .map(|response| Ok(ModelEvent::Done(response))),
            ),
        }
    }
}

/// A tool of a script.
struct Scripted {
    spec: ToolSpec,
    tool: ScriptedTool,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scripted").field(&self.spec.name).finish()
    }
}

impl Tool for Scripted {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn permission(&self, arguments: &Json) -> Permission {
        if self.tool.approve {
            return Permission::Ask {
                prompt: format!("Run {} with {}?", self.spec.name, arguments.get()),
            };
        }
        Permission::Start
    }

    fn call<'a>(
        &'a self,
        _context: ToolContext,
        arguments: Json,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            if let Some(path) = &self.tool.append_to {
                append_line(path, &format!("{} {}\n", self.spec.name, arguments.get())).map_err(
                    |error| {
                        ToolError::new(format!("{} cannot be written: {error}", path.display()))
                    },
                )?;
            }
            if self.tool.delay_ms > 0 {
                sleep(Duration::from_millis(self.tool.delay_ms)).await;
            }
            if self.tool.defer {
                return Ok(ToolOutput::Deferred {
                    wait: Wait::External,
                    prompt: None,
                });
            }
            match &self.tool.fail {
                Some(reason) => Err(ToolError::new(reason.clone())),
                None => Ok(fill(&self.tool.result, &arguments).into()),
            }
        })
    }
}

/// One write, so that lines of several processes do not mix.
fn append_line(path: &Path, line: &str) -> std::io::Result<()> {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?
        .write_all(line.as_bytes())
}

/// Fills a template with arguments: strings as they are, other values as JSON.
fn fill(template: &str, arguments: &Json) -> String {
    let arguments: BTreeMap<String, Json> = arguments.decode().unwrap_or_default();
    let mut out = template.to_owned();
    for (name, value) in arguments {
        let text = value
            .decode::<String>()
            .unwrap_or_else(|_| value.get().to_owned());
        out = out.replace(&format!("{{{name}}}"), &text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_with_arguments() {
        let arguments = Json::parse(r#"{"x":"a b","n":1e2}"#).unwrap();
        assert_eq!(fill("{n}: {x} {y}", &arguments), "1e2: a b {y}");
    }

    #[test]
    fn a_wrong_script_says_where() {
        let error = Script::from_json(r#"{"replies":[{"error":"boom"}]}"#).unwrap_err();
        assert!(error.to_string().contains("boom"), "{error}");
    }
}
