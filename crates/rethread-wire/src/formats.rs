//! Histories as files hold them: rethread's own, the four providers', and the session files of other
//! programs.
//!
//! Everything that can be read is kept; everything else is set aside and told, line by line.

mod ag2;
pub(crate) mod anthropic;
mod chat;
mod claude_code;
mod codex;
mod document;
pub(crate) mod gemini;
mod lines;
mod parts;
mod recognise;
mod responses;
mod rethread;
pub(crate) mod stop;

use std::fmt;
use std::str::FromStr;

use rethread_core::{History, Message, NotResumable, Record, ResumePoint, Text, resume_point};

use crate::Api;

pub(crate) use document::Document;
pub use recognise::{UnknownFormat, recognise};

/// How a history is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// rethread JSON: a list of messages, or one message or record a line.
    Rethread,
    /// The `messages` of an Anthropic Messages request.
    AnthropicMessages,
    /// The `messages` of an OpenAI Chat Completions request.
    OpenAiChat,
    /// The `input` of an OpenAI Responses request.
    OpenAiResponses,
    /// The `contents` of a Gemini request.
    GeminiContents,
    /// The event log of AG2 (AutoGen), one event a line.
    Ag2Log,
    /// The session file of Claude Code.
    ClaudeCode,
    /// The rollout file of Codex.
    CodexRollout,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 8] = [
        Self::Rethread,
        Self::AnthropicMessages,
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::GeminiContents,
        Self::Ag2Log,
        Self::ClaudeCode,
        Self::CodexRollout,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rethread => "rethread",
            Self::AnthropicMessages => "anthropic-messages",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::GeminiContents => "gemini-contents",
            Self::Ag2Log => "ag2-log",
            Self::ClaudeCode => "claude-code",
            Self::CodexRollout => "codex-rollout",
        }
    }

    /// The interface whose requests are written like this.
    #[must_use]
    pub fn native_api(self) -> Option<Api> {
        match self {
            Self::AnthropicMessages => Some(Api::AnthropicMessages),
            Self::OpenAiChat => Some(Api::OpenAiChat),
            Self::OpenAiResponses => Some(Api::OpenAiResponses),
            Self::GeminiContents => Some(Api::GeminiContents),
            _ => None,
        }
    }

    /// The interface a history of this format was made with, if that is always one.
    #[must_use]
    pub fn api(self) -> Option<Api> {
        match self {
            Self::ClaudeCode => Some(Api::AnthropicMessages),
            Self::CodexRollout => Some(Api::OpenAiResponses),
            _ => self.native_api(),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Api> for Format {
    fn from(api: Api) -> Self {
        match api {
            Api::AnthropicMessages => Self::AnthropicMessages,
            Api::OpenAiChat => Self::OpenAiChat,
            Api::OpenAiResponses => Self::OpenAiResponses,
            Api::GeminiContents => Self::GeminiContents,
        }
    }
}

/// A name that is no format's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormatName(String);

impl fmt::Display for UnknownFormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown format {:?}: use one of", self.0)?;
        for (at, format) in Format::ALL.iter().enumerate() {
            write!(f, "{}{format}", if at == 0 { " " } else { ", " })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownFormatName {}

impl FromStr for Format {
    type Err = UnknownFormatName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|format| format.as_str() == name)
            .ok_or_else(|| UnknownFormatName(name.to_owned()))
    }
}

/// A history as it was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// How it was written.
    pub format: Format,
    /// The messages in order, each with its place: the index in a list, from 0, or the line, from 1.
    pub messages: Vec<(usize, Message)>,
    /// The records, numbered from 1 without gaps, where the file tells more than messages.
    pub records: Option<Vec<Record>>,
    /// The instructions that stood beside the messages or in front of them.
    pub instructions: Option<Text>,
    /// What could not be read, or was left out on purpose.
    pub problems: Vec<FileProblem>,
    /// The provider's own list.
    pub(crate) document: Option<Document>,
}

/// Something in a file that is not part of the history that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileProblem {
    /// The line, from 1; for a single JSON document the index in its list, from 0.
    pub line: usize,
    /// What it is, such as `torn_tail`.
    pub rule: &'static str,
    /// The same as a sentence.
    pub detail: String,
    /// Whether nothing of the history is lost, or what is lost cannot matter to what follows.
    pub fixable: bool,
}

impl FileProblem {
    pub(crate) fn new(rule: &'static str, line: usize, detail: impl Into<String>) -> Self {
        Self {
            line,
            rule,
            detail: detail.into(),
            fixable: true,
        }
    }
}

impl Loaded {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            messages: Vec::new(),
            records: None,
            instructions: None,
            problems: Vec::new(),
            document: None,
        }
    }

    pub(crate) fn problem(&mut self, rule: &'static str, line: usize, detail: impl Into<String>) {
        self.problems.push(FileProblem::new(rule, line, detail));
    }

    /// Whether nothing of what the file holds could be read, so that it is no history.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        let items = self
            .document
            .as_ref()
            .map_or(0, |document| document.items.len());
        self.messages.is_empty()
            && self.records.is_none()
            && items == 0
            && !self.problems.is_empty()
    }

    /// The records, or the messages as records of which nothing more is known.
    #[must_use]
    pub fn history(&self) -> History {
        match &self.records {
            Some(records) => History::new(records.clone()),
            None => {
                History::from_messages(self.messages.iter().map(|(_, message)| message.clone()))
            }
        }
    }

    /// Where the history stopped.
    ///
    /// # Errors
    /// The reason when there is nothing to resume.
    pub fn resume_point(&self) -> Result<ResumePoint, NotResumable> {
        resume_point(&self.history())
    }
}

/// Reads a history. Nothing is an error here: what cannot be read is told in [`Loaded::problems`].
///
/// ```
/// use rethread_wire::formats::{Format, read};
///
/// // The writer died inside its second line.
/// let loaded = read(b"{\"role\":\"user\",\"content\":\"hi\"}\n{\"role\":\"assi", Format::Rethread);
/// assert_eq!(loaded.messages.len(), 1);
/// assert_eq!(loaded.problems[0].rule, "torn_tail");
/// ```
#[must_use]
pub fn read(bytes: &[u8], format: Format) -> Loaded {
    let mut loaded = Loaded::new(format);
    let text = String::from_utf8_lossy(bytes);
    if let std::borrow::Cow::Owned(_) = text {
        let good = bytes
            .utf8_chunks()
            .next()
            .map_or(0, |chunk| chunk.valid().len());
        let before = bytes.get(..good).unwrap_or(&[]);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let detail = "the file is not all UTF-8; what is not stands as U+FFFD";
        loaded.problem("invalid_utf8", line, detail);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match format {
        Format::Rethread => rethread::read(text, &mut loaded),
        Format::AnthropicMessages => anthropic::read(text, &mut loaded),
        Format::OpenAiChat => chat::read(text, &mut loaded),
        Format::OpenAiResponses => responses::read(text, &mut loaded),
        Format::GeminiContents => gemini::read(text, &mut loaded),
        Format::Ag2Log => ag2::read(text, &mut loaded),
        Format::ClaudeCode => claude_code::read(text, &mut loaded),
        Format::CodexRollout => codex::read(text, &mut loaded),
    }
    loaded.problems.sort_by_key(|problem| problem.line);
    loaded
}

#[cfg(test)]
mod tests;
