//! The resume table: what a history says about where it stopped.

use std::fmt::Write as _;

use serde::Serialize;

use crate::tail::Tail;
use crate::{Body, CallKey, Draft, Failure, History, Outcome, Stop, StopReason, Wait};

/// What a history says about where it stopped, when a resume can go on from there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResumePoint {
    /// What a resume will do.
    pub kind: ResumeKind,
    /// The calls without a result, in the order the model asked for them.
    pub unanswered: Vec<Unanswered>,
    /// How the last response stopped, if that is what ends the history.
    pub stop: Option<Stop>,
    /// Why the last run ended; `None` when it ended normally or nothing is known of it.
    pub cause: Option<Cause>,
    /// What failed in the last run.
    pub failure: Option<Failure>,
    /// The text of a response that was streaming when the writer stopped.
    pub draft: Option<Draft>,
}

/// What a resume will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResumeKind {
    /// Waits for answers from outside; goes on when all are there.
    AwaitResults,
    /// Answers each missing call with its true state, then calls the model.
    RecoverTools,
    /// Calls the model; adds nothing.
    CallModel,
    /// Keeps the response that broke off and asks the model to start it again.
    RetryResponse,
    /// Keeps the response that reached the output limit and asks the model to go on.
    ContinueResponse,
}

impl ResumeKind {
    /// The name in `--json` output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AwaitResults => "await_results",
            Self::RecoverTools => "recover_tools",
            Self::CallModel => "call_model",
            Self::RetryResponse => "retry_response",
            Self::ContinueResponse => "continue_response",
        }
    }
}

/// A call without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unanswered {
    /// The call.
    pub call: CallKey,
    /// The provider's id of it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What is known of it.
    pub state: CallState,
}

/// What is known of a call without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallState {
    /// It never ran.
    NotStarted,
    /// It started; it may or may not have completed.
    Unknown,
    /// It waits for an answer from outside.
    Suspended(#[serde(skip)] Wait),
    /// A person let it start, and it has not started yet.
    Approved,
}

impl CallState {
    /// The name in `--json` output. A call that was let start is one that has not started.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted | Self::Approved => "not_started",
            Self::Unknown => "unknown",
            Self::Suspended(_) => "suspended",
        }
    }
}

/// Why the last run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// A provider, a limit or a hook failed.
    Failed,
    /// The caller cancelled.
    Cancelled,
    /// The process or its machine died.
    Crashed,
    /// It waits for an answer from outside.
    Suspended,
}

impl Cause {
    /// The name in `--json` output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Crashed => "crashed",
            Self::Suspended => "suspended",
        }
    }
}

/// Why a history has nothing to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NotResumable {
    /// There is no message.
    #[error("the session has no message yet")]
    Empty,
    /// The last response ended normally.
    #[error("the last response ended normally")]
    Completed,
    /// The last response was a refusal.
    #[error("the last response was a refusal; another model, or another message, may help")]
    Refused,
    /// The context window is full.
    #[error("the context window is full; a summary makes room")]
    ContextFull,
    /// The last response stopped for a reason this version does not know.
    #[error("the last response stopped for an unknown reason")]
    UnknownStop,
    /// A tool result at the end answers no call.
    #[error("a tool result at the end answers no call; `repair` sets it aside")]
    Malformed,
}

impl NotResumable {
    /// The name in `--json` output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Completed => "completed",
            Self::Refused => "refused",
            Self::ContextFull => "context_full",
            Self::UnknownStop => "unknown_stop",
            Self::Malformed => "malformed",
        }
    }
}

/// Says where a history stopped and what a resume will do.
///
/// Pure and total: no I/O, no clock, one answer for every history. The end of a session is enough,
/// as long as it reaches back to the last response.
///
/// # Errors
/// The reason when there is nothing to resume.
pub fn resume_point(history: &History) -> Result<ResumePoint, NotResumable> {
    Tail::of(history.records()).resume_point()
}

impl Tail {
    /// The first row of the resume table that fits.
    pub(crate) fn resume_point(&self) -> Result<ResumePoint, NotResumable> {
        if self.is_empty() {
            return Err(NotResumable::Empty);
        }
        let unanswered = self.unanswered();
        if unanswered
            .iter()
            .any(|call| matches!(call.state, CallState::Suspended(_) | CallState::Approved))
        {
            return Ok(self.point(ResumeKind::AwaitResults, unanswered));
        }
        if !unanswered.is_empty() {
            return Ok(self.point(ResumeKind::RecoverTools, unanswered));
        }
        if self.ends_in_foreign_result() {
            return Err(NotResumable::Malformed);
        }
        let Some(last) = self.last_deciding() else {
            return Err(NotResumable::Empty);
        };
        let kind = match &last.body {
            Body::Summary(_) => match self.response() {
                // A summary over a finished session leaves it finished.
                Some(response)
                    if self.only_summaries_follow()
                        && response.stop_reason().is_normal()
                        && response.tool_calls.is_empty() =>
                {
                    return Err(NotResumable::Completed);
                }
                _ => ResumeKind::CallModel,
            },
            Body::Assistant(response) => match response.stop_reason() {
                StopReason::EndTurn | StopReason::ToolUse => return Err(NotResumable::Completed),
                StopReason::Paused => ResumeKind::CallModel,
                StopReason::Interrupted => ResumeKind::RetryResponse,
                StopReason::MaxOutput => ResumeKind::ContinueResponse,
                StopReason::Refusal => return Err(NotResumable::Refused),
                StopReason::ContextFull => return Err(NotResumable::ContextFull),
                StopReason::Other => return Err(NotResumable::UnknownStop),
            },
            _ => ResumeKind::CallModel,
        };
        Ok(self.point(kind, unanswered))
    }

    fn point(&self, kind: ResumeKind, unanswered: Vec<Unanswered>) -> ResumePoint {
        let stop = match self.last_deciding().map(|message| &message.body) {
            Some(Body::Assistant(response)) => response.stop.clone(),
            _ => None,
        };
        ResumePoint {
            kind,
            unanswered,
            stop,
            cause: self.cause(),
            failure: self.run_end().and_then(|end| end.error.clone()),
            draft: None,
        }
    }

    /// Why the last run ended, if it did not end normally.
    pub(crate) fn cause(&self) -> Option<Cause> {
        match self.run_end() {
            Some(end) => match end.outcome {
                Outcome::Failed => Some(Cause::Failed),
                Outcome::Cancelled => Some(Cause::Cancelled),
                Outcome::Suspended => Some(Cause::Suspended),
                Outcome::Completed | Outcome::Stopped => None,
            },
            None if self.run_is_open() => Some(Cause::Crashed),
            None => None,
        }
    }
}

impl ResumePoint {
    /// Where the session stopped and what a resume will do, in a sentence or two.
    #[must_use]
    pub fn description(&self) -> String {
        let mut text = match self.cause {
            Some(Cause::Crashed) => "The process died. ".to_owned(),
            Some(Cause::Cancelled) => "The run was cancelled. ".to_owned(),
            Some(Cause::Failed) => match &self.failure {
                Some(failure) => format!(
                    "The run failed: {}. ",
                    failure.message.trim_end_matches('.')
                ),
                None => "The run failed. ".to_owned(),
            },
            Some(Cause::Suspended) | None => String::new(),
        };
        let names = |calls: &[Unanswered]| {
            let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
            names.join(", ")
        };
        // Writing to a string cannot fail.
        let _ = match self.kind {
            ResumeKind::AwaitResults => {
                let waiting: Vec<_> = self
                    .unanswered
                    .iter()
                    .filter(|call| matches!(call.state, CallState::Suspended(_)))
                    .cloned()
                    .collect();
                if waiting.is_empty() {
                    write!(
                        text,
                        "All answers are there; {} can go on.",
                        names(&self.unanswered)
                    )
                } else {
                    write!(
                        text,
                        "It waits for an answer from outside: {}.",
                        names(&waiting)
                    )
                }
            }
            ResumeKind::RecoverTools => {
                let unknown = self
                    .unanswered
                    .iter()
                    .filter(|call| call.state == CallState::Unknown)
                    .count();
                let rest = self.unanswered.len() - unknown;
                match (unknown, rest) {
                    (0, _) => write!(
                        text,
                        "{} had not started: {}. ",
                        calls(rest),
                        names(&self.unanswered)
                    ),
                    (_, 0) => write!(
                        text,
                        "{} may or may not have completed: {}. ",
                        calls(unknown),
                        names(&self.unanswered)
                    ),
                    _ => write!(
                        text,
                        "{} may or may not have completed, {} had not started: {}. ",
                        calls(unknown),
                        calls(rest),
                        names(&self.unanswered)
                    ),
                }
                .and_then(|()| {
                    write!(
                        text,
                        "The model will be told so and goes on; no tool is run again by itself."
                    )
                })
            }
            ResumeKind::CallModel => write!(
                text,
                "The model's next response is missing; it will be asked for."
            ),
            ResumeKind::RetryResponse => {
                write!(
                    text,
                    "The model's response broke off; it is kept, and the model will be asked to start it again."
                )
            }
            ResumeKind::ContinueResponse => {
                write!(
                    text,
                    "The model's response reached the output limit; the model will be asked to go on where it stopped."
                )
            }
        };
        text
    }

    /// Whether a resume can go on now: nothing waits for an answer.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self
            .unanswered
            .iter()
            .any(|call| matches!(call.state, CallState::Suspended(_)))
    }
}

fn calls(n: usize) -> String {
    if n == 1 {
        "1 tool call".to_owned()
    } else {
        format!("{n} tool calls")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;

    fn point(json: &str) -> String {
        let messages: Vec<Message> = serde_json::from_str(json).unwrap();
        match resume_point(&History::from_messages(messages)) {
            Ok(point) => {
                let open: Vec<_> = point
                    .unanswered
                    .iter()
                    .map(|call| format!("{}:{}", call.id, call.state.as_str()))
                    .collect();
                format!("{} {}", point.kind.as_str(), open.join(" "))
                    .trim()
                    .to_owned()
            }
            Err(reason) => reason.as_str().to_owned(),
        }
    }

    const CALLS: &str = r#"{"role":"assistant","content":"","tool_calls":[{"id":"a","name":"t","arguments":{}},{"id":"b","name":"t","arguments":{},"error":"cut"}]}"#;
    const A: &str = r#"{"role":"tool","tool_call_id":"a","content":"x"}"#;
    const B: &str = r#"{"role":"tool","tool_call_id":"b","content":"x"}"#;
    const USER: &str = r#"{"role":"user","content":"q"}"#;

    #[test]
    fn the_table() {
        for (history, want) in [
            ("[]".to_owned(), "empty"),
            (r#"[{"role":"system","content":"s"}]"#.to_owned(), "empty"),
            (format!("[{USER}]"), "call_model"),
            (
                format!("[{USER},{CALLS}]"),
                "recover_tools a:unknown b:not_started",
            ),
            (format!("[{USER},{CALLS},{B}]"), "recover_tools a:unknown"),
            (
                format!("[{USER},{CALLS},{USER},{B}]"),
                "recover_tools a:unknown",
            ),
            (format!("[{USER},{CALLS},{B},{A}]"), "call_model"),
            (format!("[{USER},{CALLS},{B},{A},{A}]"), "call_model"),
            (format!("[{USER},{A}]"), "malformed"),
            (format!("[{USER},{A},{USER}]"), "call_model"),
            (
                format!(
                    "[{USER},{CALLS},{A},{{\"role\":\"tool\",\"tool_call_id\":\"z\",\"content\":\"\"}}]"
                ),
                "recover_tools b:not_started",
            ),
        ] {
            assert_eq!(point(&history), want, "{history}");
        }
        for (stop, want) in [
            ("end_turn", "completed"),
            ("paused", "call_model"),
            ("interrupted", "retry_response"),
            ("max_output", "continue_response"),
            ("refusal", "refused"),
            ("context_full", "context_full"),
            ("new", "unknown_stop"),
        ] {
            let answer =
                format!(r#"{{"role":"assistant","content":"x","stop":{{"reason":"{stop}"}}}}"#);
            assert_eq!(point(&format!("[{USER},{answer}]")), want);
            assert_eq!(
                point(&format!(
                    r#"[{USER},{answer},{{"role":"system","content":"s","in_context":true}}]"#
                )),
                want,
                "a system message decides nothing"
            );
            let summary = r#"{"role":"summary","content":"s"}"#;
            let after = if want == "completed" {
                "completed"
            } else {
                "call_model"
            };
            assert_eq!(point(&format!("[{USER},{answer},{summary}]")), after);
            assert_eq!(
                point(&format!("[{USER},{answer},{summary},{USER}]")),
                "call_model"
            );
        }
    }

    #[test]
    fn a_result_that_is_set_aside_decides_nothing() {
        // Before and after it is set aside, the answer is the same.
        let done = r#"{"role":"assistant","content":"x"}"#;
        let summary = r#"{"role":"summary","content":"s"}"#;
        assert_eq!(
            point(&format!("[{USER},{done},{A},{summary}]")),
            "completed"
        );
        assert_eq!(
            point(&format!("[{USER},{done},{summary},{A},{summary}]")),
            "completed"
        );
        assert_eq!(
            point(&format!("[{USER},{done},{USER},{A},{summary}]")),
            "call_model"
        );
    }

    #[test]
    fn what_is_out_of_context_decides_nothing() {
        assert_eq!(
            point(r#"[{"role":"user","content":"q","in_context":false}]"#),
            "empty"
        );
        assert_eq!(
            point(&format!(
                r#"[{USER},{CALLS},{B},{{"role":"tool","tool_call_id":"a","content":"x","in_context":false}}]"#
            )),
            "recover_tools a:unknown"
        );
    }
}
