//! The `contents` of a Gemini request.

use rethread_core::{
    Assistant, Content as Said, Json, Message, Origin, Part as SaidPart, ToolCall, ToolResult,
};

use super::parts::{instructions, joined, json_text, name_results, part as said_part, reasoning};
use super::stop::stop;
use super::{Loaded, document::document};
use crate::Api;
use crate::decode::raw::{Members, Raw};
use crate::ids::Ids;
use crate::rules::gemini::{Content, Kind, Part};
use crate::rules::pair::{Call, Event, Match, pair};

pub(super) fn read(text: &str, loaded: &mut Loaded) {
    let document = document(text, loaded);
    let system = ["systemInstruction", "system_instruction"];
    loaded.instructions = system
        .iter()
        .find_map(|name| instructions(document.get(name)));
    let origin = document
        .string("model")
        .map(|model| Origin::new(Api::GeminiContents.as_str(), "gemini", model));
    let mut contents = Vec::with_capacity(document.items.len());
    for (at, item) in document.items.iter().enumerate() {
        match Content::read(item) {
            Some(content) => contents.push((at, content)),
            None => loaded.problem("bad_record", at, "the item is no content"),
        }
    }
    // Calls and responses may have no ids; they are paired by name and place, and given ids.
    let mut events = Vec::new();
    for (_, content) in &contents {
        let calls: Vec<Call> = content.calls().map(Part::call).collect();
        if !calls.is_empty() {
            events.push(Event::Calls(calls));
        }
        events.extend(
            content
                .of_kind(Kind::Result)
                .map(|part| Event::Result(part.call())),
        );
    }
    let pairs = pair(&events);
    let mut matches = pairs.results.into_iter();
    let mut given: Vec<Vec<String>> = Vec::new();
    for (at, content) in contents {
        if content.is_model() {
            let said = document.stops.get(&at).map(Option::as_deref);
            let (response, ids) = response(&content, at, said, origin.as_ref());
            if !ids.is_empty() {
                given.push(ids);
            }
            loaded.messages.push((at, response.into()));
        }
        for part in content.of_kind(Kind::Result) {
            let id = match matches.next() {
                Some(Match::Answer { batch, call }) => {
                    given.get(batch).and_then(|ids| ids.get(call)).cloned()
                }
                _ => None,
            };
            let id = id.unwrap_or_else(|| part.id.clone());
            loaded.messages.push((at, result(part, &id).into()));
        }
        if !content.is_model() {
            let parts: Vec<SaidPart> = content
                .parts()
                .iter()
                .filter(|part| part.kind != Kind::Result && !part.is_empty)
                .filter_map(|part| {
                    serde_json::from_str::<Raw<'_>>(&part.raw)
                        .ok()
                        .map(said_part)
                })
                .collect();
            if !parts.is_empty() || !content.has_results() {
                let text = match parts.as_slice() {
                    [SaidPart::Text(text)] => Said::Text(text.clone()),
                    [] => Said::default(),
                    _ => Said::Parts(parts),
                };
                loaded.messages.push((at, Message::user(text)));
            }
        }
    }
    name_results(&mut loaded.messages);
    loaded.document = Some(document);
}

fn response(
    content: &Content,
    at: usize,
    said: Option<Option<&str>>,
    origin: Option<&Origin>,
) -> (Assistant, Vec<String>) {
    let mut response = Assistant::default();
    let raws: Vec<(Kind, Members<'_>)> = content
        .parts()
        .iter()
        .map(|part| (part.kind, Members::read(&part.raw)))
        .collect();
    let of = |kind: Kind| {
        let parts = raws.iter().filter(move |(other, _)| *other == kind);
        parts.filter_map(|(_, members)| members.get("text"))
    };
    response.content = Said::Text(joined(of(Kind::Text)));
    response.reasoning = reasoning(of(Kind::Thought));
    let (mut ids, mut given) = (Ids::default(), Vec::new());
    for part in content.calls() {
        // The place tells responses apart that say the same.
        let id = ids.take(&part.id, &[&at.to_string(), &part.name]);
        given.push(id.clone());
        response.tool_calls.push(call(part, &id));
    }
    let has_calls = !response.tool_calls.is_empty();
    response.stop = said.and_then(|raw| stop(Some(Api::GeminiContents), raw, has_calls));
    let parts = content
        .parts()
        .iter()
        .filter(|part| !part.is_empty && part.sound);
    response.native = parts
        .filter_map(|part| Json::parse(&part.raw).ok())
        .collect();
    response.origin = origin.cloned();
    response.digest = Some(response.view_digest());
    (response, given)
}

pub(crate) fn call(part: &Part, id: &str) -> ToolCall {
    let members = Members::read(&part.raw);
    let name = ["functionCall", "function_call"];
    let inner = name.iter().map(|name| members.object(name));
    let args = inner
        .filter_map(|inner| inner.get("args").map(|raw| raw.get().to_owned()))
        .next();
    ToolCall::from_text(id, &part.name, &args.unwrap_or_default())
}

fn result(part: &Part, id: &str) -> ToolResult {
    let members = Members::read(&part.raw);
    let inner = match members.get("functionResponse") {
        Some(_) => members.object("functionResponse"),
        None => members.object("function_response"),
    };
    let response = inner.object("response");
    let (text, success) = match (response.get("output"), response.get("error")) {
        (Some(output), _) => (json_text(output), true),
        (None, Some(error)) => (json_text(error), false),
        (None, None) => match response.get("result") {
            Some(result) if response.iter().count() == 1 => (json_text(result), true),
            _ => (
                inner.get("response").map(json_text).unwrap_or_default(),
                true,
            ),
        },
    };
    let media = inner.list("parts");
    let content = if media.is_empty() {
        Said::Text(text)
    } else {
        let text = std::iter::once(SaidPart::Text(text));
        Said::Parts(text.chain(media.into_iter().map(said_part)).collect())
    };
    let call = ToolCall::new(id, &part.name, Json::empty_object());
    let mut result = ToolResult::for_call(&call, content);
    result.success = success;
    result
}
