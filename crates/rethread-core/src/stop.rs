//! How a response ended.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Json;

/// Why a response ended, in words all providers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// The model was done.
    EndTurn,
    /// The model asks for tools.
    ToolUse,
    /// The output limit was reached.
    MaxOutput,
    /// The context window is full.
    ContextFull,
    /// The model or a filter declined.
    Refusal,
    /// The provider paused a long turn; sending the history back continues it.
    Paused,
    /// The response broke off: a lost connection, a provider failure, no end marker.
    Interrupted,
    /// A value this version does not know.
    Other,
}

impl StopReason {
    /// The name in rethread JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxOutput => "max_output",
            Self::ContextFull => "context_full",
            Self::Refusal => "refusal",
            Self::Paused => "paused",
            Self::Interrupted => "interrupted",
            Self::Other => "other",
        }
    }

    fn from_name(name: &str) -> Self {
        match name {
            "end_turn" => Self::EndTurn,
            "tool_use" => Self::ToolUse,
            "max_output" => Self::MaxOutput,
            "context_full" => Self::ContextFull,
            "refusal" => Self::Refusal,
            "paused" => Self::Paused,
            "interrupted" => Self::Interrupted,
            _ => Self::Other,
        }
    }

    /// Whether the response ended by itself (done, or asking for tools).
    #[must_use]
    pub fn is_normal(self) -> bool {
        matches!(self, Self::EndTurn | Self::ToolUse)
    }

    /// Whether the tool calls of such a response may run. Under a full context or an unknown stop
    /// they are shown but not run; with a refusal or an interruption they are withheld.
    #[must_use]
    pub fn runs_calls(self) -> bool {
        matches!(
            self,
            Self::EndTurn | Self::ToolUse | Self::MaxOutput | Self::Paused
        )
    }

    /// Whether the tool calls of such a response are left out of what is stored.
    #[must_use]
    pub fn withholds_calls(self) -> bool {
        matches!(self, Self::Refusal | Self::Interrupted)
    }
}

impl Serialize for StopReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for StopReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self::from_name(&name))
    }
}

/// How a response ended: the neutral reason and what the provider said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stop {
    /// The neutral reason.
    pub reason: StopReason,
    /// The provider's own value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// A finer class, such as the filter that declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// What the provider says about it in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Anything more, as a JSON object. `withheld_tool_calls` names the calls that were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Json>,
}

impl Stop {
    /// A stop with nothing but its reason.
    #[must_use]
    pub fn new(reason: StopReason) -> Self {
        Self {
            reason,
            raw: None,
            category: None,
            message: None,
            detail: None,
        }
    }

    /// Reads a provider's raw value, in the words of any known provider. With `has_calls`, an
    /// ordinary end means that tools are asked for.
    ///
    /// Sources: the finish reasons of Anthropic Messages, OpenAI Chat Completions and Responses,
    /// Gemini, and the servers that copy them (Mistral, DeepSeek, GLM, vLLM, OpenRouter).
    #[must_use]
    pub fn from_raw(raw: &str, has_calls: bool) -> Self {
        let lower = raw.trim().to_ascii_lowercase();
        let reason = match lower.as_str() {
            "stop" | "end" | "end_turn" | "stop_sequence" | "completed" if has_calls => {
                StopReason::ToolUse
            }
            "stop" | "end" | "end_turn" | "stop_sequence" | "completed" => StopReason::EndTurn,
            "tool_use" | "tool_calls" | "function_call" => StopReason::ToolUse,
            "length" | "max_tokens" | "max_output_tokens" | "max_output" => StopReason::MaxOutput,
            "model_context_window_exceeded"
            | "model_length"
            | "context_length_exceeded"
            | "context_full" => StopReason::ContextFull,
            "refusal"
            | "content_filter"
            | "sensitive"
            | "safety"
            | "recitation"
            | "language"
            | "blocklist"
            | "prohibited_content"
            | "spii"
            | "image_safety"
            | "image_prohibited_content"
            | "image_recitation"
            | "jailbreak"
            | "model_armor" => StopReason::Refusal,
            "pause_turn" | "paused" | "compaction" | "continuation" => StopReason::Paused,
            "interrupted"
            | "error"
            | "aborted"
            | "network_error"
            | "insufficient_system_resource"
            | "malformed_function_call"
            | "malformed_response"
            | "unexpected_tool_call"
            | "too_many_tool_calls"
            | "no_image"
            | "image_other" => StopReason::Interrupted,
            _ => StopReason::Other,
        };
        let category = match reason {
            StopReason::Refusal => Some(raw.trim().to_owned()),
            StopReason::Interrupted if lower != "interrupted" => Some(raw.trim().to_owned()),
            _ => None,
        };
        Self {
            raw: Some(raw.to_owned()),
            category,
            ..Self::new(reason)
        }
    }

    /// The same stop with the provider's words.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_beat_an_ordinary_end_and_nothing_else() {
        assert_eq!(Stop::from_raw("STOP", true).reason, StopReason::ToolUse);
        assert_eq!(Stop::from_raw("STOP", false).reason, StopReason::EndTurn);
        assert_eq!(Stop::from_raw("length", true).reason, StopReason::MaxOutput);
        assert_eq!(Stop::from_raw("brand_new", true).reason, StopReason::Other);
    }

    #[test]
    fn an_unknown_reason_reads_as_other() {
        let stop: Stop = serde_json::from_str(r#"{"reason":"from_the_future","raw":"x"}"#).unwrap();
        assert_eq!(stop.reason, StopReason::Other);
        assert_eq!(stop.raw.as_deref(), Some("x"));
    }
}
