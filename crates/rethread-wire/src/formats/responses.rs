//! The `input` of an OpenAI Responses request.

use std::collections::{BTreeMap, HashMap};

use rethread_core::{
    Assistant, Body, Content, Json, Message, Origin, Stop, StopReason, ToolCall, ToolResult,
};

use super::parts::{content, instructions, json_text, lead_in, name_results};
use super::stop::stop;
use super::{Loaded, document::document};
use crate::Api;
use crate::decode::raw::{Joined, Members, Object, elements, literal, string};
use crate::ids::Ids;
use crate::rules::responses::{Item, Kind};

pub(super) fn read(text: &str, loaded: &mut Loaded) {
    let document = document(text, loaded);
    let origin = document
        .string("model")
        .map(|model| Origin::new(Api::OpenAiResponses.as_str(), "openai", model));
    let items = document.items.iter().cloned().enumerate().collect();
    let stops = document
        .stops
        .iter()
        .map(|(at, said)| (*at, said.clone()))
        .collect();
    messages(items, &stops, origin.as_ref(), loaded);
    let lead = lead_in(&mut loaded.messages);
    loaded.instructions = instructions(document.get("instructions")).or(lead);
    loaded.document = Some(document);
}

/// How responses stopped, by the place of one of their items.
pub(super) type Stops = HashMap<usize, Option<String>>;

/// Turns items into messages. Items of the model that stand side by side are one response, whose place
/// is that of its first item.
pub(super) fn messages(
    items: Vec<(usize, Json)>,
    stops: &Stops,
    origin: Option<&Origin>,
    loaded: &mut Loaded,
) {
    let mut reading = Reading {
        stops,
        origin,
        open: None,
        behind: HashMap::new(),
        last_response: None,
        late: BTreeMap::new(),
        messages: Vec::new(),
    };
    for (at, json) in items {
        let Some(item) = Item::read(&json) else {
            loaded.problem("bad_record", at, "the item is none of a conversation");
            continue;
        };
        if item.kind == Kind::Reference {
            let detail = format!(
                "the item `{}` is with the service, only its id is here",
                item.id
            );
            loaded.problem("bad_record", at, detail);
        }
        reading.item(at, item, json);
    }
    loaded.messages.append(&mut reading.end());
    name_results(&mut loaded.messages);
}

/// The messages so far.
struct Reading<'a> {
    stops: &'a Stops,
    origin: Option<&'a Origin>,
    open: Option<Group>,
    /// The response each call belongs to, as a place among the messages.
    behind: HashMap<String, usize>,
    last_response: Option<usize>,
    /// Results of other responses than the last: the service takes an output anywhere behind its call.
    late: BTreeMap<usize, Vec<(usize, Message)>>,
    messages: Vec<(usize, Message)>,
}

impl Reading<'_> {
    fn item(&mut self, at: usize, item: Item, json: Json) {
        let members = Members::read(json.get());
        match item.kind {
            Kind::Said => {
                self.close();
                let content = content(members.get("content"));
                let message = match item.role.as_str() {
                    "system" | "developer" => {
                        let mut message = Message::system(content);
                        message.in_context = true;
                        message
                    }
                    _ => Message::new(Body::User(content)),
                };
                self.messages.push((at, message));
            }
            Kind::Output => {
                self.close();
                let call = ToolCall::new(&item.call_id, "", Json::empty_object());
                let message = Message::from(ToolResult::for_call(&call, output(&members)));
                match self.behind.get(&item.call_id) {
                    Some(response) if Some(*response) != self.last_response => {
                        self.late.entry(*response).or_default().push((at, message));
                    }
                    _ => self.messages.push((at, message)),
                }
            }
            Kind::Reference => self.close(),
            _ => {
                let group = self.open.get_or_insert_with(|| Group {
                    place: at,
                    items: Vec::new(),
                });
                group.items.push((at, item, json));
            }
        }
    }

    fn close(&mut self) {
        let Some(group) = self.open.take() else {
            return;
        };
        let (place, at) = (group.place, self.messages.len());
        let response = group.response(self.stops, self.origin);
        for call in &response.tool_calls {
            self.behind.insert(call.id.clone(), at);
        }
        self.last_response = Some(at);
        self.messages.push((place, response.into()));
    }

    fn end(mut self) -> Vec<(usize, Message)> {
        self.close();
        if self.late.is_empty() {
            return self.messages;
        }
        let (mut all, mut waiting) = (Vec::with_capacity(self.messages.len()), Vec::new());
        for (at, message) in self.messages.into_iter().enumerate() {
            if message.1.as_tool().is_none() {
                all.append(&mut waiting);
            }
            all.push(message);
            if let Some(late) = self.late.remove(&at) {
                waiting = late;
            }
        }
        all.append(&mut waiting);
        all
    }
}

fn output(members: &Members<'_>) -> Content {
    match members.get("output") {
        Some(raw) if raw.get().starts_with('[') => content(Some(raw)),
        Some(raw) => Content::Text(json_text(raw)),
        None => Content::default(),
    }
}

/// Items of one response.
struct Group {
    place: usize,
    items: Vec<(usize, Item, Json)>,
}

impl Group {
    fn response(self, stops: &Stops, origin: Option<&Origin>) -> Assistant {
        let mut response = Assistant::default();
        let (mut text, mut reasoning, mut refusal) = (Joined::default(), Joined::default(), None);
        let (mut ids, mut said) = (Ids::default(), None);
        for (at, item, json) in &self.items {
            let members = Members::read(json.get());
            said = stops.get(at).or(said);
            match item.kind {
                Kind::Answer => match members.get("content") {
                    Some(raw) if literal(raw).is_some() => {
                        text.push(raw.get());
                    }
                    Some(raw) => {
                        for part in elements(raw) {
                            let part = Members::read(part.get());
                            if let Some(piece) = part.get("text").and_then(literal) {
                                text.push(piece);
                            }
                            if let Some(said) = part.get("refusal").and_then(string) {
                                text.push_str(&said);
                                refusal = Some(said);
                            }
                        }
                    }
                    None => {}
                },
                Kind::Reasoning => {
                    let pieces = members
                        .list("summary")
                        .into_iter()
                        .chain(members.list("content"));
                    for piece in pieces {
                        let piece = Members::read(piece.get());
                        if let Some(piece) = piece.get("text").and_then(literal) {
                            if !reasoning.is_empty() {
                                reasoning.push_str("\n\n");
                            }
                            reasoning.push(piece);
                        }
                    }
                }
                Kind::Call => response.tool_calls.push(call(item, &members, &mut ids)),
                _ => {}
            }
            response.native.push(json.clone());
        }
        response.content = Content::Text(text.text());
        response.reasoning = (!reasoning.is_empty()).then(|| reasoning.text());
        let has_calls = !response.tool_calls.is_empty();
        response.stop = said
            .and_then(|raw| stop(Some(Api::OpenAiResponses), raw.as_deref(), has_calls))
            .or_else(|| Some(Stop::new(StopReason::Refusal).with_message(refusal?)));
        response.origin = origin.cloned();
        response.digest = Some(response.view_digest());
        response
    }
}

fn call(item: &Item, members: &Members<'_>, ids: &mut Ids) -> ToolCall {
    let id = ids.take(&item.call_id, &["", &item.name]);
    if item.is_function() {
        let text = item.arguments.as_deref().unwrap_or("");
        return ToolCall::from_text(id, &item.name, text);
    }
    let mut input = Object::new();
    let name = match (item.name.as_str(), members.get("input")) {
        ("", _) => item.word.as_str(),
        (name, Some(free)) => {
            input.raw("input", free.get());
            name
        }
        (name, None) => name,
    };
    if let Some(action) = members.get("action").or(members.get("operation")) {
        input.raw("action", action.get());
    }
    ToolCall::from_text(id, name, &input.end())
}
