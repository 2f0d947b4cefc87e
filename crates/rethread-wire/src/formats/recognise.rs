//! Which format a file has.

use std::fmt;

use super::lines::lines;
use super::{Format, document, rethread};
use crate::decode::raw::{Members, Raw, elements};

/// How many lines or items are looked at.
const LOOKED_AT: usize = 64;

/// A file whose format is not recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownFormat {
    /// What it was compared with, and why it is none of that.
    pub tried: Vec<(Format, &'static str)>,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the format is not recognised; tried")?;
        for (at, (format, reason)) in self.tried.iter().enumerate() {
            write!(f, "{}{format} ({reason})", if at == 0 { " " } else { ", " })?;
        }
        f.write_str("; name it with --format")
    }
}

impl std::error::Error for UnknownFormat {}

/// Says which format a file has, by what stands in it.
///
/// # Errors
/// When it is none; the error says what was tried.
pub fn recognise(bytes: &[u8]) -> Result<Format, UnknownFormat> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.trim_matches(|char: char| char == '\0' || char.is_ascii_whitespace());
    if text.starts_with('[') {
        let (items, _) = document::elements_so_far(text);
        return of_items(&items, None).ok_or_else(unknown);
    }
    if let Ok(whole) = serde_json::from_str::<Raw<'_>>(text)
        && let Some(found) = of_object(whole.get())
    {
        return Ok(found);
    }
    // Enough to see what the lines are.
    let end = text
        .char_indices()
        .filter(|(_, char)| *char == '\n')
        .nth(LOOKED_AT)
        .map_or(text.len(), |(at, _)| at);
    let lines = lines(text.get(..end).unwrap_or(text), &mut Vec::new());
    let jsons: Vec<&str> = lines
        .iter()
        .take(LOOKED_AT)
        .map(|line| line.json.get())
        .collect();
    let raws: Vec<Raw<'_>> = jsons
        .iter()
        .filter_map(|json| serde_json::from_str(json).ok())
        .collect();
    of_lines(&raws)
        .or_else(|| of_items(&raws, None).filter(|_| !raws.is_empty()))
        .or_else(|| of_object(text))
        .ok_or_else(unknown)
}

fn unknown() -> UnknownFormat {
    let tried = Format::ALL.map(|format| {
        let reason = match format {
            Format::Rethread => "no messages or records",
            Format::AnthropicMessages | Format::OpenAiChat => "no list of messages",
            Format::OpenAiResponses => "no list of items",
            Format::GeminiContents => "no list of contents",
            Format::Ag2Log => "no AG2 events",
            Format::ClaudeCode => "no lines with a uuid and a sessionId",
            Format::CodexRollout => "no lines with a payload",
        };
        (format, reason)
    });
    UnknownFormat {
        tried: tried.to_vec(),
    }
}

/// A session file of another program, by its lines.
fn of_lines(lines: &[Raw<'_>]) -> Option<Format> {
    for raw in lines {
        let members = Members::read(raw.get());
        let kind = members.string("type").unwrap_or_default();
        let has = |name: &str| members.get(name).is_some();
        if has("data") && (kind.starts_with("ag2.") || kind.starts_with("autogen.")) {
            return Some(Format::Ag2Log);
        }
        if has("payload")
            && matches!(
                kind.as_str(),
                "session_meta" | "response_item" | "event_msg" | "turn_context" | "compacted"
            )
        {
            return Some(Format::CodexRollout);
        }
        if (has("uuid") && (has("sessionId") || has("parentUuid")))
            || (kind == "summary" && has("leafUuid"))
            || (has("sessionId") && has("operation") && kind == "queue-operation")
            || (kind == "file-history-snapshot" && has("snapshot"))
        {
            return Some(Format::ClaudeCode);
        }
        // The first line of an older rollout.
        if has("instructions") && has("timestamp") && has("id") && !has("role") {
            return Some(Format::CodexRollout);
        }
        if rethread::ENTRIES.iter().any(|name| has(name))
            && (has("seq") || has("at") || has("message"))
        {
            return Some(Format::Rethread);
        }
    }
    // An event log of a program of its own, with nothing of AG2 in it, is none.
    None
}

/// A list of a provider's, or of rethread's, by its items.
fn of_items(items: &[Raw<'_>], beside: Option<&Members<'_>>) -> Option<Format> {
    let mut plain = items.is_empty();
    for raw in items.iter().take(LOOKED_AT * 16) {
        let members = Members::read(raw.get());
        let role = members.string("role").unwrap_or_default();
        let kind = members.string("type").unwrap_or_default();
        let has = |name: &str| members.get(name).is_some();
        if has("parts") && matches!(role.as_str(), "user" | "model" | "function" | "") {
            return Some(Format::GeminiContents);
        }
        let is_item = kind == "reasoning"
            || kind == "message"
            || kind.ends_with("_call")
            || kind.ends_with("_call_output");
        if is_item && (has("role") || !has("content") || kind == "reasoning") && !has("uuid") {
            return Some(Format::OpenAiResponses);
        }
        if role == "model" {
            return Some(Format::GeminiContents);
        }
        let rethread = [
            "success",
            "in_context",
            "stop",
            "native",
            "attributes",
            "origin",
        ];
        if matches!(role.as_str(), "agent" | "summary")
            || (!role.is_empty() && rethread.iter().any(|name| has(name)))
        {
            return Some(Format::Rethread);
        }
        if let Some(call) = members.list("tool_calls").first() {
            let call = Members::read(call.get());
            let format = if call.get("function").is_some() {
                Format::OpenAiChat
            } else {
                Format::Rethread
            };
            return Some(format);
        }
        if has("reasoning_content")
            || has("tool_call_id")
            || role == "developer"
            || has("function_call")
        {
            return Some(Format::OpenAiChat);
        }
        for block in members.list("content") {
            let block = Members::read(block.get());
            match block.string("type").as_deref() {
                Some(
                    "tool_use" | "tool_result" | "thinking" | "redacted_thinking"
                    | "server_tool_use" | "document",
                ) => {
                    return Some(Format::AnthropicMessages);
                }
                Some("image") if block.get("source").is_some() => {
                    return Some(Format::AnthropicMessages);
                }
                Some("image_url" | "input_audio" | "file" | "refusal") => {
                    return Some(Format::OpenAiChat);
                }
                Some("input_text" | "output_text" | "input_image") => {
                    return Some(Format::OpenAiResponses);
                }
                _ => {}
            }
        }
        if ENTRY_OR_SEQ.iter().any(|name| has(name)) && role.is_empty() {
            return Some(Format::Rethread);
        }
        plain |= matches!(role.as_str(), "user" | "assistant" | "system" | "tool");
    }
    // Only texts: all three read alike. What stands beside them may tell.
    let has = |name: &str| beside.is_some_and(|beside| beside.get(name).is_some());
    let format = match beside {
        Some(_) if has("system") || has("stop_sequences") || has("anthropic_version") => {
            Format::AnthropicMessages
        }
        Some(beside)
            if beside
                .string("model")
                .is_some_and(|model| model.contains("claude"))
                && has("max_tokens") =>
        {
            Format::AnthropicMessages
        }
        Some(_) if has("model") || has("stops") => Format::OpenAiChat,
        _ => Format::Rethread,
    };
    plain.then_some(format)
}

const ENTRY_OR_SEQ: [&str; 2] = ["seq", "message"];

/// A request, or the beginning of one.
fn of_object(text: &str) -> Option<Format> {
    let (members, _) = document::members_so_far(text);
    let read = Members::read(text);
    let name = |name: &str| {
        members
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, raw)| *raw)
    };
    if name("contents").is_some() {
        return Some(Format::GeminiContents);
    }
    if name("input").is_some() {
        return Some(Format::OpenAiResponses);
    }
    if let Some(request) = name("request") {
        return of_object(request.get());
    }
    if let Some(list) = name("messages") {
        return of_items(&elements(list), Some(&read));
    }
    // One that was cut off inside its list.
    if text.contains("\"contents\"") {
        return Some(Format::GeminiContents);
    }
    let (_, list) = text
        .split_once("\"messages\"")
        .or_else(|| text.split_once("\"input\""))?;
    let list = list.trim_start().strip_prefix(':')?.trim_start();
    let (items, _) = document::elements_so_far(list);
    of_items(&items, Some(&read))
}
