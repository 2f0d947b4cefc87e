//! Google Gemini.

use rethread_core::Json;

use super::pair::{Call, Event, Match, Pairs, pair};
use super::{Found, Target, call_named, is_something, text};
use crate::Api;
use crate::decode::raw::{Members, literal};

/// What a part is, as far as the rules tell parts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Thought,
    Call,
    Result,
    Other,
}

/// A part of a content.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) raw: String,
    pub(crate) kind: Kind,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) is_signed: bool,
    /// Nothing of its own is wrong with it: the arguments and the response are objects.
    pub(crate) sound: bool,
    /// Whether it says nothing at all and carries nothing.
    pub(crate) is_empty: bool,
}

impl Part {
    pub(crate) fn read(raw: &str) -> Self {
        let members = Members::read(raw);
        let is_signed = is_something(
            members
                .get("thoughtSignature")
                .or(members.get("thought_signature")),
        );
        let has =
            |names: [&'static str; 2]| names.into_iter().find(|name| members.get(name).is_some());
        let thought = members
            .get("thought")
            .is_some_and(|raw| raw.get() == "true");
        let is_object = |inner: &Members<'_>, name: &str, needed: bool| match inner.get(name) {
            Some(raw) => raw.get().starts_with('{'),
            None => !needed,
        };
        let mut part = Self {
            raw: raw.to_owned(),
            kind: Kind::Other,
            id: String::new(),
            name: String::new(),
            is_signed,
            sound: true,
            is_empty: false,
        };
        if let Some(name) = has(["functionCall", "function_call"]) {
            let inner = members.object(name);
            part.kind = Kind::Call;
            part.sound = is_object(&inner, "args", false);
            (part.id, part.name) = (text(&inner, "id"), text(&inner, "name"));
        } else if let Some(name) = has(["functionResponse", "function_response"]) {
            let inner = members.object(name);
            part.kind = Kind::Result;
            part.sound = is_object(&inner, "response", true);
            (part.id, part.name) = (text(&inner, "id"), text(&inner, "name"));
        } else if let Some(text) = members.get("text") {
            part.kind = if thought { Kind::Thought } else { Kind::Text };
            part.is_empty = literal(text) == Some("\"\"") && !is_signed;
        } else {
            part.is_empty = members.iter().next().is_none() || raw.trim() == "{\"text\":null}";
        }
        part
    }

    pub(crate) fn call(&self) -> Call {
        Call {
            id: self.id.clone(),
            name: self.name.clone(),
        }
    }
}

/// A content.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) role: String,
    /// `None` when there is no list of parts.
    pub(crate) parts: Option<Vec<Part>>,
}

impl Content {
    /// Reads a content; `None` for what is no object.
    pub(crate) fn read(item: &Json) -> Option<Self> {
        if !item.is_object() {
            return None;
        }
        let members = Members::read(item.get());
        let parts = members.get("parts").and_then(|raw| {
            raw.get().starts_with('[').then(|| {
                let parts = crate::decode::raw::elements(raw);
                parts.iter().map(|raw| Part::read(raw.get())).collect()
            })
        });
        Some(Self {
            role: text(&members, "role"),
            parts,
        })
    }

    pub(crate) fn parts(&self) -> &[Part] {
        self.parts.as_deref().unwrap_or(&[])
    }

    pub(crate) fn is_model(&self) -> bool {
        self.role == "model"
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Part> {
        self.parts().iter().filter(move |part| part.kind == kind)
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = &Part> {
        let is_model = self.is_model();
        self.of_kind(Kind::Call).filter(move |_| is_model)
    }

    pub(crate) fn has_results(&self) -> bool {
        !self.is_model() && self.of_kind(Kind::Result).next().is_some()
    }
}

/// Calls and responses with their places.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The contents with calls.
    pub(crate) batches: Vec<usize>,
    /// Content and part.
    pub(crate) results: Vec<(usize, usize)>,
    pub(crate) pairs: Pairs,
}

impl Rounds {
    pub(crate) fn of(contents: &[Content]) -> Self {
        let (mut rounds, mut events) = (Self::default(), Vec::new());
        for (at, content) in contents.iter().enumerate() {
            let calls: Vec<Call> = content.calls().map(Part::call).collect();
            if !calls.is_empty() {
                rounds.batches.push(at);
                events.push(Event::Calls(calls));
            }
            for (n, part) in content.parts().iter().enumerate() {
                if part.kind == Kind::Result {
                    rounds.results.push((at, n));
                    events.push(Event::Result(part.call()));
                }
            }
        }
        rounds.pairs = pair(&events);
        rounds
    }
}

pub(super) fn check(found: &mut Found, items: &[Json], target: &Target) {
    let mut contents = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        contents.push(Content::read(item).unwrap_or_else(|| {
            found.add("missing_field", at, None, "this is no content");
            Content {
                role: "user".to_owned(),
                parts: Some(vec![Part::read("{\"text\":\"?\"}")]),
            }
        }));
    }
    for (at, content) in contents.iter().enumerate() {
        check_content(found, at, content, target);
        let before = at.checked_sub(1).and_then(|at| contents.get(at));
        if content.calls().next().is_some()
            && before.is_none_or(Content::is_model)
            && !(target.chained && at == 0)
        {
            let detail =
                "a content with calls has to come directly after the user or after responses";
            found.add("turn_order", at, None, detail);
        }
    }
    pairing(found, &contents, target);
    if signs(target) {
        for at in unsigned(&contents) {
            let call = contents.get(at).and_then(|content| content.calls().next());
            let name = call.map_or("", |call| call.name.as_str());
            let detail = format!("the first call of the step, of `{name}`, has no signature");
            found.add("missing_signature", at, None, detail);
        }
    }
    if let Some(last) = contents.last()
        && last.is_model()
        && target.refuses_prefill(Api::GeminiContents)
    {
        let detail = "the history ends with a response, which the model does not go on with";
        found.add("prefill", contents.len() - 1, None, detail);
    }
}

fn check_content(found: &mut Found, at: usize, content: &Content, target: &Target) {
    match content.role.as_str() {
        // Without a role it is the user's.
        "user" | "model" | "" => {}
        role => {
            let detail = format!("the role `{role}` is neither `user` nor `model`");
            found.add("wrong_role", at, None, detail);
        }
    }
    if content.parts().is_empty() {
        found.add("empty_content", at, None, "the content has no parts");
    }
    for part in content.parts() {
        let named = call_named(&part.name, &part.id);
        let id = (!part.id.is_empty()).then_some(part.id.as_str());
        match part.kind {
            _ if part.is_empty => {
                found.add("empty_content", at, None, "a part has nothing in it");
            }
            Kind::Call if !content.is_model() => {
                let detail = format!("{named} cannot stand in a content of the user");
                found.add("wrong_role", at, id, detail);
            }
            Kind::Result if content.is_model() => {
                let detail =
                    format!("a response to {named} cannot stand in a content of the model");
                found.add("wrong_role", at, id, detail);
            }
            Kind::Call | Kind::Result if part.name.is_empty() => {
                found.add(
                    "missing_field",
                    at,
                    id,
                    "a call or response names no function",
                );
            }
            Kind::Call if !part.sound => {
                let detail = format!("the arguments of {named} are no object");
                found.add("bad_arguments", at, id, detail);
            }
            Kind::Result if !part.sound => {
                let detail = format!("the response to {named} is no object");
                found.add("missing_field", at, id, detail);
            }
            Kind::Call => {
                let args = Members::read(&part.raw).object("functionCall");
                let args = args.get("args").map_or("", |raw| raw.get());
                let most = target.max_argument_chars.unwrap_or(usize::MAX);
                let long = if most < args.len() {
                    args.chars().count()
                } else {
                    0
                };
                if long > most {
                    let detail =
                        format!("the arguments of {named} are {long} characters, {most} are taken");
                    found.add("arguments_too_long", at, id, detail);
                }
            }
            _ => {}
        }
    }
}

fn pairing(found: &mut Found, contents: &[Content], target: &Target) {
    let rounds = Rounds::of(contents);
    for ((at, n), what) in rounds.results.iter().zip(&rounds.pairs.results) {
        let part = contents
            .get(*at)
            .and_then(|content| content.parts().get(*n));
        let Some(part) = part else { continue };
        let named = call_named(&part.name, &part.id);
        let id = (!part.id.is_empty()).then_some(part.id.as_str());
        match what {
            Match::Answer { .. } => {}
            _ if target.chained => {}
            Match::Extra if id.is_some() => {
                let detail = format!("a second response to {named}");
                found.add("duplicate_tool_result", *at, id, detail);
            }
            _ => {
                let detail =
                    format!("a response to {named}, which no open call before it asks for");
                found.add("orphan_tool_result", *at, id, detail);
            }
        }
    }
    for (at, slots) in rounds.batches.iter().zip(&rounds.pairs.answers) {
        let Some(content) = contents.get(*at) else {
            continue;
        };
        for (call, slot) in content.calls().zip(slots) {
            let named = call_named(&call.name, &call.id);
            let id = (!call.id.is_empty()).then_some(call.id.as_str());
            let place = slot.and_then(|result| rounds.results.get(result));
            let result = place.and_then(|(at, n)| contents.get(*at)?.parts().get(*n));
            match (place, result) {
                (Some((other, _)), Some(_)) if *other != at + 1 => {
                    let detail = format!(
                        "the response to {named} stands in content {other}, not directly after it"
                    );
                    found.add("turn_order", *at, id, detail);
                }
                (_, Some(result)) if result.name != call.name => {
                    let detail = format!("{named} is answered by a response of `{}`", result.name);
                    found.add("orphan_tool_result", *at, id, detail);
                }
                (_, Some(result)) if result.id != call.id => {
                    let detail = format!("the response to {named} names the id `{}`", result.id);
                    found.add("id_format", *at, id, detail);
                }
                (_, Some(_)) => {}
                (_, None) => {
                    found.add(
                        "unanswered_tool_call",
                        *at,
                        id,
                        format!("{named} has no response"),
                    );
                }
            }
        }
    }
}

/// Whether the calls of the current turn must be signed.
pub(crate) fn signs(target: &Target) -> bool {
    target.gemini_version().is_some_and(|version| version >= 3)
}

/// The contents of the current turn whose first call is not signed. The turn begins with the last
/// content of the user that is no response.
pub(crate) fn unsigned(contents: &[Content]) -> Vec<usize> {
    let start = contents
        .iter()
        .rposition(|content| !content.is_model() && !content.has_results())
        .unwrap_or(0);
    let steps = contents.iter().enumerate().skip(start);
    steps
        .filter(|(_, content)| content.calls().next().is_some_and(|call| !call.is_signed))
        .map(|(at, _)| at)
        .collect()
}
