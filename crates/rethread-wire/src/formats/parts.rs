//! Content as the providers write it, in the neutral form.

use std::collections::HashMap;

use rethread_core::{Body, Content, Json, Message, Part, Text};

use crate::decode::raw::{Joined, Members, Raw, elements, literal, string};

/// Reads a string or a list of parts of any of the providers.
pub(super) fn content(raw: Option<Raw<'_>>) -> Content {
    let Some(raw) = raw else {
        return Content::default();
    };
    if let Some(text) = literal_text(raw) {
        return Content::Text(text);
    }
    if !raw.get().starts_with('[') {
        return Content::Text(Text::new(raw.get()));
    }
    let mut parts: Vec<Part> = elements(raw).into_iter().map(part).collect();
    match (parts.pop(), parts.is_empty()) {
        (None, _) => Content::default(),
        (Some(Part::Text(text)), true) => Content::Text(text),
        (Some(last), _) => {
            parts.push(last);
            Content::Parts(parts)
        }
    }
}

/// A string as it stands.
pub(super) fn literal_text(raw: Raw<'_>) -> Option<Text> {
    literal(raw)
        .and_then(|literal| Json::parse(literal).ok())
        .and_then(Text::from_json)
}

/// Reads one part. What is of no known kind is kept whole.
pub(super) fn part(raw: Raw<'_>) -> Part {
    if let Some(text) = literal_text(raw) {
        return Part::Text(text);
    }
    let members = Members::read(raw.get());
    let kind = members.string("type").unwrap_or_default();
    let text = match kind.as_str() {
        "refusal" => members.get("refusal"),
        "" | "text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" => {
            members.get("text")
        }
        _ => None,
    };
    text.and_then(literal_text)
        .map(Part::Text)
        .or_else(|| image(&members))
        .or_else(|| Json::parse(raw.get()).ok().map(Part::Other))
        .unwrap_or(Part::Text(Text::default()))
}

/// An image of any of the providers.
fn image(part: &Members<'_>) -> Option<Part> {
    let data = |media_type: Option<String>, base64: Option<String>| {
        Some(Part::ImageData {
            media_type: media_type.filter(|kind| kind.starts_with("image/"))?,
            base64: base64?,
        })
    };
    let source = part.object("source");
    match part.string("type").as_deref() {
        Some("image") if source.get("url").is_some() => {
            return Some(Part::ImageUrl {
                url: source.string("url")?,
            });
        }
        Some("image") => return data(source.string("media_type"), source.string("data")),
        Some("image_url" | "input_image") => {
            let inner = part.object("image_url").string("url");
            let url = inner.or_else(|| part.string("image_url"))?;
            let inline = url
                .strip_prefix("data:")
                .and_then(|data| data.split_once(";base64,"));
            return Some(match inline {
                Some((media_type, base64)) => Part::ImageData {
                    media_type: media_type.to_owned(),
                    base64: base64.to_owned(),
                },
                None => Part::ImageUrl { url },
            });
        }
        _ => {}
    }
    let inline = part.object("inlineData");
    if inline.get("data").is_some() {
        return data(inline.string("mimeType"), inline.string("data"));
    }
    let file = part.object("fileData");
    let is_image = file
        .string("mimeType")
        .is_none_or(|kind| kind.starts_with("image/"));
    let url = file.string("fileUri").filter(|_| is_image)?;
    Some(Part::ImageUrl { url })
}

/// All text of a list of blocks, joined as a provider streams it: without anything between.
pub(super) fn joined<'a>(texts: impl Iterator<Item = Raw<'a>>) -> Text {
    let mut joined = Joined::default();
    for raw in texts {
        if let Some(literal) = literal(raw) {
            joined.push(literal);
        }
    }
    joined.text()
}

/// Pieces of reasoning, which are texts of their own.
pub(super) fn reasoning<'a>(texts: impl Iterator<Item = Raw<'a>>) -> Option<Text> {
    let mut joined = Joined::default();
    for literal in texts
        .filter_map(literal)
        .filter(|literal| literal.len() > 2)
    {
        if !joined.is_empty() {
            joined.push_str("\n\n");
        }
        joined.push(literal);
    }
    (!joined.is_empty()).then(|| joined.text())
}

/// What stands beside a list as instructions: a string, or parts with texts.
pub(super) fn instructions(json: Option<&Json>) -> Option<Text> {
    let raw: Raw<'_> = json?.decode().ok()?;
    let raw = match Members::read(raw.get()).get("parts") {
        Some(parts) => return Some(Text::new(&content(Some(parts)).to_text())),
        None => raw,
    };
    let text = literal_text(raw).unwrap_or_else(|| Text::new(&content(Some(raw)).to_text()));
    (!text.is_blank()).then_some(text)
}

/// Gives results the names of the tools they come from.
pub(super) fn name_results(messages: &mut [(usize, Message)]) {
    let mut names: HashMap<String, String> = HashMap::new();
    for (_, message) in messages {
        match &mut message.body {
            Body::Assistant(response) => {
                for call in &response.tool_calls {
                    names.insert(call.id.clone(), call.name.clone());
                }
            }
            Body::Tool(result) if result.name.is_empty() => {
                if let Some(name) = names.get(&result.call_id) {
                    result.name.clone_from(name);
                }
            }
            _ => {}
        }
    }
}

/// Makes what stands first as instructions a record only, and tells it as instructions: whoever goes
/// on brings instructions of their own.
pub(super) fn lead_in(messages: &mut [(usize, Message)]) -> Option<Text> {
    let mut texts = Vec::new();
    for (_, message) in messages {
        let Body::System(content) = &message.body else {
            break;
        };
        texts.push(content.to_text());
        message.in_context = false;
    }
    let text = texts.join("\n\n");
    (!text.trim().is_empty()).then(|| Text::new(&text))
}

/// The string members of an object, for what is written as text.
pub(super) fn json_text(raw: Raw<'_>) -> Text {
    literal_text(raw).unwrap_or_else(|| Text::new(raw.get()))
}

/// A member as a string, empty when there is none.
pub(super) fn word(members: &Members<'_>, name: &str) -> String {
    members.get(name).and_then(string).unwrap_or_default()
}
