//! The `messages` of an OpenAI Chat Completions request.

use rethread_core::{
    Assistant, Body, Json, Message, Origin, Stop, StopReason, ToolCall, ToolResult,
};

use super::parts::{content, lead_in, literal_text, name_results, word};
use super::stop::stop;
use super::{Loaded, document::document};
use crate::Api;
use crate::decode::raw::Members;
use crate::ids::Ids;
use crate::rules::chat::Turn;

pub(super) fn read(text: &str, loaded: &mut Loaded) {
    let document = document(text, loaded);
    let origin = document
        .string("model")
        .map(|model| Origin::new(Api::OpenAiChat.as_str(), "openai", model));
    // The id made up for the last call of the older kind, which has none.
    let mut function = String::new();
    for (at, item) in document.items.iter().enumerate() {
        let Some(turn) = Turn::read(item) else {
            loaded.problem("bad_record", at, "the item is no message");
            continue;
        };
        let said = document.stops.get(&at).map(Option::as_deref);
        let message = message(item, &turn, said, &mut function, origin.as_ref());
        loaded.messages.push((at, message));
    }
    name_results(&mut loaded.messages);
    loaded.instructions = lead_in(&mut loaded.messages);
    loaded.document = Some(document);
}

fn message(
    item: &Json,
    turn: &Turn,
    said: Option<Option<&str>>,
    function: &mut String,
    origin: Option<&Origin>,
) -> Message {
    let members = Members::read(item.get());
    let content = content(members.get("content"));
    match turn.role.as_str() {
        "assistant" => response(item, turn, said, function, origin).into(),
        "tool" => tool_result(&turn.answers, &turn.name, content).into(),
        "function" => tool_result(function, &turn.name, content).into(),
        "system" | "developer" => {
            let mut message = Message::system(content);
            message.in_context = true;
            message
        }
        _ => Message::new(Body::User(content)),
    }
}

fn tool_result(id: &str, name: &str, content: rethread_core::Content) -> ToolResult {
    let call = ToolCall::new(id, name, Json::empty_object());
    ToolResult::for_call(&call, content)
}

fn response(
    item: &Json,
    turn: &Turn,
    said: Option<Option<&str>>,
    function: &mut String,
    origin: Option<&Origin>,
) -> Assistant {
    let members = Members::read(item.get());
    let mut response = Assistant::default();
    response.content = content(members.get("content"));
    let reasoning = members
        .get("reasoning_content")
        .or(members.get("reasoning"));
    response.reasoning = reasoning
        .and_then(literal_text)
        .filter(|text| !text.is_empty());
    let mut ids = Ids::default();
    for call in turn.calls() {
        let id = ids.take(&call.id, &["", &call.name]);
        let object = Members::read(&call.raw).object("function");
        // Some servers give the arguments as an object.
        let text = call.arguments.clone().or_else(|| {
            let raw = object.get("arguments")?;
            Some(raw.get().to_owned())
        });
        let text = text.unwrap_or_default();
        response
            .tool_calls
            .push(ToolCall::from_text(id, &call.name, &text));
    }
    let older = members.object("function_call");
    if response.tool_calls.is_empty() && older.get("name").is_some() {
        let name = word(&older, "name");
        *function = ids.take("", &["", &name]);
        let arguments = word(&older, "arguments");
        response
            .tool_calls
            .push(ToolCall::from_text(function.as_str(), name, &arguments));
    }
    let has_calls = !response.tool_calls.is_empty();
    response.stop = said.and_then(|raw| stop(Some(Api::OpenAiChat), raw, has_calls));
    if let Some(refusal) = &turn.refusal {
        if response.content.is_blank() {
            response.content = refusal.into();
        }
        let refused = Stop::new(StopReason::Refusal).with_message(refusal);
        response.stop.get_or_insert(refused);
    }
    if turn.says_something || has_calls {
        response.native.push(item.clone());
    }
    response.origin = origin.cloned();
    response.digest = Some(response.view_digest());
    response
}
