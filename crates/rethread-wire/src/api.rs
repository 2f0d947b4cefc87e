//! The four provider interfaces that are spoken.

use std::fmt;
use std::str::FromStr;

/// A provider interface: the shape of its requests and of its answers.
///
/// Many services speak one of these four; which service it is says
/// [`Origin::provider`](rethread_core::Origin).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Api {
    /// Anthropic Messages (`POST /v1/messages`).
    AnthropicMessages,
    /// OpenAI Chat Completions (`POST /v1/chat/completions`) and the servers that copy it.
    OpenAiChat,
    /// OpenAI Responses (`POST /v1/responses`).
    OpenAiResponses,
    /// Google Gemini (`POST /v1beta/models/{model}:streamGenerateContent`).
    GeminiContents,
}

impl Api {
    /// Every interface, in the order of their names.
    pub const ALL: [Api; 4] = [
        Api::AnthropicMessages,
        Api::GeminiContents,
        Api::OpenAiChat,
        Api::OpenAiResponses,
    ];

    /// The name used in stored messages and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Api::AnthropicMessages => "anthropic-messages",
            Api::OpenAiChat => "openai-chat",
            Api::OpenAiResponses => "openai-responses",
            Api::GeminiContents => "gemini-contents",
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is none of the four interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownApi(String);

impl fmt::Display for UnknownApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown api {:?}: use one of", self.0)?;
        for (i, api) in Api::ALL.iter().enumerate() {
            write!(f, "{}{api}", if i == 0 { " " } else { ", " })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownApi {}

impl FromStr for Api {
    type Err = UnknownApi;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Api::ALL
            .into_iter()
            .find(|api| api.as_str() == name)
            .ok_or_else(|| UnknownApi(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for api in Api::ALL {
            assert_eq!(api.to_string().parse(), Ok(api));
        }
        let error = "openai".parse::<Api>().unwrap_err();
        assert!(error.to_string().contains("openai-chat"));
    }
}
