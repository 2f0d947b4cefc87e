//! What a watcher is told while a run goes on.

use serde::Serialize;

use crate::{CallState, Failure, Json, Outcome, RunKind, Stop, Usage, Wait};

/// One thing that happened in a run.
///
/// Order: `run_started`, then what was recovered, then for each step `model_started`, deltas,
/// `model_completed`, and for its tools `tool_started` (after the record of the start is durable,
/// before the tool runs) and `tool_completed`, `tool_failed` or `tool_suspended` (after the result is
/// durable); at the end one `run_ended`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The run's first record is durable.
    RunStarted {
        /// The run.
        run: String,
        /// What began it.
        kind: RunKind,
    },
    /// An open call was closed with what is known of it.
    CallClosed {
        /// The call's id.
        call_id: String,
        /// The tool.
        name: String,
        /// What is known of it.
        state: CallState,
    },
    /// A record is not sent to the model.
    SetAside {
        /// The record.
        record: u64,
        /// Why.
        reason: String,
    },
    /// An instruction to retry or continue a response was added.
    Notice {
        /// The instruction.
        text: String,
    },
    /// The instructions, tools or model are not those of the last run.
    Drift {
        /// What differs.
        what: String,
    },
    /// A request could not carry something of the history.
    LeftOut {
        /// What.
        item: String,
        /// Why.
        reason: String,
    },
    /// The model is called.
    ModelStarted {
        /// The step of this run, from 1.
        step: u32,
    },
    /// More of the visible text.
    TextDelta {
        /// The text.
        text: String,
    },
    /// More of the readable reasoning.
    ReasoningDelta {
        /// The text.
        text: String,
    },
    /// The model begins to ask for a tool.
    ToolCallDelta {
        /// The call's id; empty for more of the arguments of the same call.
        call_id: String,
        /// The tool; empty for more of the same call.
        name: String,
        /// Argument text.
        text: String,
    },
    /// The call failed before any output and will be tried again.
    Retrying {
        /// The attempt that comes, from 2.
        attempt: u32,
        /// How long until then, in milliseconds.
        wait_ms: u64,
        /// What failed.
        error: String,
    },
    /// The response is stored.
    ModelCompleted {
        /// How it stopped; `None` for a normal end.
        stop: Option<Stop>,
        /// What it took.
        usage: Option<Usage>,
    },
    /// A tool is about to run.
    ToolStarted {
        /// The call's id.
        call_id: String,
        /// The tool.
        name: String,
        /// The arguments it gets.
        arguments: Json,
    },
    /// A tool tells how far it is.
    ToolProgress {
        /// The call's id.
        call_id: String,
        /// What it says.
        message: String,
    },
    /// A tool's result is stored.
    ToolCompleted {
        /// The call's id.
        call_id: String,
        /// The tool.
        name: String,
    },
    /// A call failed, or could not be run, and the model is told why.
    ToolFailed {
        /// The call's id.
        call_id: String,
        /// The tool.
        name: String,
        /// Why.
        error: String,
    },
    /// A call waits for an answer from outside.
    ToolSuspended {
        /// The call's id.
        call_id: String,
        /// The tool.
        name: String,
        /// What it waits for.
        wait: Wait,
        /// What to tell whoever answers.
        prompt: Option<String>,
        /// The arguments it has.
        arguments: Json,
    },
    /// The run is over and the session free.
    RunEnded {
        /// How it ended.
        outcome: Outcome,
        /// What failed.
        error: Option<Failure>,
    },
}
