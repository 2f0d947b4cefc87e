//! The `messages` of an Anthropic Messages request.

use rethread_core::{
    Assistant, Body, Content, Json, Message, Origin, Stop, StopReason, ToolCall, ToolResult,
    Undecoded,
};

use super::parts::{content, instructions, joined, name_results, part, reasoning, word};
use super::stop::stop;
use super::{Loaded, document::document};
use crate::Api;
use crate::decode::raw::{Members, Raw};
use crate::ids::Ids;
use crate::rules::anthropic::{Block, Kind, Turn, input_text, is_cut};

pub(super) fn read(text: &str, loaded: &mut Loaded) {
    let document = document(text, loaded);
    loaded.instructions = instructions(document.get("system"));
    let origin = document
        .string("model")
        .map(|model| Origin::new(Api::AnthropicMessages.as_str(), "anthropic", model));
    for (at, item) in document.items.iter().enumerate() {
        let Some(turn) = Turn::read(item) else {
            loaded.problem("bad_record", at, "the item is no message");
            continue;
        };
        let own = Members::read(item.get()).string("stop_reason");
        let said = match document.stops.get(&at) {
            Some(said) => Some(said.as_deref()),
            None => own.as_deref().map(Some),
        };
        for message in messages(&turn, origin.as_ref(), said) {
            loaded.messages.push((at, message));
        }
    }
    name_results(&mut loaded.messages);
    loaded.document = Some(document);
}

/// What a message says in the neutral form. `said` is what is known of how a response stopped: nothing,
/// or a value, or that none came.
pub(super) fn messages(
    turn: &Turn,
    origin: Option<&Origin>,
    said: Option<Option<&str>>,
) -> Vec<Message> {
    if turn.is_assistant() {
        return vec![response(turn, origin, said).into()];
    }
    let mut messages = Vec::new();
    let mut parts = Vec::new();
    for block in turn.blocks() {
        if block.kind == Kind::Result {
            messages.push(result(block).into());
        } else if let Ok(raw) = serde_json::from_str::<Raw<'_>>(&block.raw) {
            parts.push(part(raw));
        }
    }
    if parts.is_empty() && !messages.is_empty() {
        return messages;
    }
    let content = match (parts.pop(), parts.is_empty()) {
        (None, _) => Content::default(),
        (Some(rethread_core::Part::Text(text)), true) => Content::Text(text),
        (Some(last), _) => {
            parts.push(last);
            Content::Parts(parts)
        }
    };
    messages.push(match turn.role.as_str() {
        "system" | "developer" => {
            let mut message = Message::system(content);
            message.in_context = true;
            message
        }
        _ => Message::user(content),
    });
    messages
}

fn response(turn: &Turn, origin: Option<&Origin>, said: Option<Option<&str>>) -> Assistant {
    let has_calls = turn.calls().next().is_some();
    let stop = said.and_then(|raw| stop(Some(Api::AnthropicMessages), raw, has_calls));
    let mut response = Assistant::default();
    let raws: Vec<Members<'_>> = turn
        .blocks()
        .iter()
        .map(|block| Members::read(&block.raw))
        .collect();
    let of = |kind: Kind, name: &'static str| {
        let blocks = turn.blocks().iter().zip(&raws);
        blocks
            .filter(move |(block, _)| block.kind == kind)
            .filter_map(move |(_, members)| members.get(name))
    };
    response.content = Content::Text(joined(of(Kind::Text, "text")));
    response.reasoning = reasoning(of(Kind::Thinking, "thinking"));
    let mut ids = Ids::default();
    let last = turn.blocks().len().saturating_sub(1);
    for (n, block) in turn.blocks().iter().enumerate() {
        if block.kind == Kind::Call {
            let id = ids.take(&block.id, &["", &block.name]);
            response
                .tool_calls
                .push(call(block, &id, stop.as_ref(), n == last));
        }
    }
    let goes_back = |block: &&Block| {
        block.sound || !matches!(block.kind, Kind::Text | Kind::Thinking | Kind::Call)
    };
    let blocks = turn.blocks().iter().filter(goes_back);
    response.native = blocks
        .filter_map(|block| Json::parse(&block.raw).ok())
        .collect();
    response.stop = stop;
    response.origin = origin.cloned();
    response.digest = Some(response.view_digest());
    response
}

/// A call; `is_last` tells whether its response ends with it.
pub(crate) fn call(block: &Block, id: &str, stop: Option<&Stop>, is_last: bool) -> ToolCall {
    let mut call = ToolCall::from_text(id, &block.name, &input_text(block));
    if is_last && stop.is_some_and(|stop| stop.reason == StopReason::MaxOutput) && is_cut(block) {
        call.undecoded.get_or_insert(Undecoded {
            text: None,
            error: "the output limit was reached inside them".to_owned(),
        });
    }
    call
}

fn result(block: &Block) -> ToolResult {
    let members = Members::read(&block.raw);
    let named = ToolCall::new(&block.id, word(&members, "name"), Json::empty_object());
    let mut result = ToolResult::for_call(&named, content(members.get("content")));
    result.success = members
        .get("is_error")
        .is_none_or(|raw| raw.get() != "true");
    result
}

/// Whether a message is a response with nothing in it that could be kept.
pub(super) fn is_empty(message: &Message) -> bool {
    matches!(&message.body, Body::Assistant(response) if response.is_empty())
}
