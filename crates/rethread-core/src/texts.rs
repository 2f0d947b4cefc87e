//! The fixed sentences a model is told after an interruption.
//!
//! They are part of stored histories and of requests whose exact prefix some models bind their
//! reasoning to, so a change here changes no session that was recovered before.

use crate::{CallState, ToolCall, Wait};

/// The result of a call that started and whose outcome is not known.
pub const UNKNOWN_RESULT: &str = "The run was interrupted while this tool was at work. It may or may not have \
completed, and what it changes may or may not have happened. Check the current state before repeating it.";

/// The result of a call that never ran.
pub const NOT_STARTED_RESULT: &str = "This tool did not run: the run was interrupted before it started. Nothing was \
changed by it. Call it again if it is still needed.";

/// The result of a call that waited for leave to start which did not come.
pub const SUSPENDED_RESULT: &str = "This tool did not run: it waited for an answer from outside, and the conversation \
went on before one came.";

/// The result of a call whose tool had begun and then waited for an answer from outside which did
/// not come.
pub const DEFERRED_RESULT: &str = "This tool handed its work outside, and the conversation went on before an answer \
came. The work may or may not have been done. Check the current state before repeating it.";

/// The instruction after a response that broke off.
pub const RETRY_NOTICE: &str = "Your last response was cut off by an interruption before it was complete. Give that \
response again from its beginning.";

/// The instruction after a response that reached the output limit.
pub const CONTINUE_NOTICE: &str = "Your last response reached the output limit. Continue it exactly where it stopped; \
do not repeat what is already there.";

/// The result of a call whose arguments did not decode.
#[must_use]
pub fn undecoded_result(error: &str, text: Option<&str>) -> String {
    let mut result =
        format!("This tool did not run: its arguments are not a JSON object ({error}).");
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        result.push_str(" What arrived: ");
        result.push_str(text);
    }
    result
}

/// The result that closes a call in a state.
#[must_use]
pub fn closing_result(call: &ToolCall, state: CallState) -> String {
    if let Some(undecoded) = &call.undecoded {
        return undecoded_result(
            &undecoded.error,
            undecoded.text.as_ref().map(|text| text.to_str()).as_deref(),
        );
    }
    match state {
        CallState::Unknown => UNKNOWN_RESULT,
        CallState::NotStarted => NOT_STARTED_RESULT,
        CallState::Suspended(Wait::Approval) | CallState::Approved => SUSPENDED_RESULT,
        CallState::Suspended(_) => DEFERRED_RESULT,
    }
    .to_owned()
}

/// The message that tells the model of a result whose call had been closed.
#[must_use]
pub fn late_result(name: &str, id: &str, content: &str, success: bool) -> String {
    let what = if success { "result" } else { "failure" };
    format!(
        "The {what} of the earlier call `{id}` of the tool `{name}` has arrived after all: {content}"
    )
}
