//! A provider's history: the bare list, or an object with it as in a request.

use std::collections::BTreeMap;
use std::fmt;

use rethread_core::Json;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{FileProblem, Loaded, lines};
use crate::decode::raw::{Members, Object, Raw, elements, literal, string};

/// A provider's own list, and what stood beside it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    /// The elements, as they came.
    pub(crate) items: Vec<Json>,
    /// How responses stopped, by index; `None` when no end of it came.
    pub(crate) stops: BTreeMap<usize, Option<String>>,
    /// The members of the request besides the list and the stops.
    pub(crate) beside: Vec<(String, Json)>,
}

impl Document {
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        let mut members = self.beside.iter();
        members.find(|(key, _)| key == name).map(|(_, json)| json)
    }

    /// The string that is a member.
    pub(crate) fn string(&self, name: &str) -> Option<String> {
        self.get(name)?.decode().ok()
    }
}

/// The names of the list in the four requests.
const LISTS: [&str; 3] = ["messages", "input", "contents"];

/// Reads a document as far as it goes.
pub(super) fn document(text: &str, loaded: &mut Loaded) -> Document {
    let trimmed = text.trim_matches(|char: char| char == '\0' || char.is_ascii_whitespace());
    if trimmed.len() < text.trim().len() {
        let detail =
            "the file is padded with NUL bytes, as a file system leaves them after a crash";
        loaded.problem("nul_padding", 0, detail);
    }
    let mut document = Document::default();
    if trimmed.starts_with('[') {
        list(trimmed, &mut document, loaded);
    } else if trimmed.starts_with('{') {
        object(trimmed, &mut document, loaded);
    } else if !trimmed.is_empty() {
        let detail = "the file is neither a JSON list nor an object with one";
        loaded.problem("bad_line", 0, detail);
    }
    document
}

fn list(text: &str, document: &mut Document, loaded: &mut Loaded) {
    let (items, whole) = elements_so_far(text);
    document.items = items
        .iter()
        .filter_map(|raw| Json::parse(raw.get()).ok())
        .collect();
    if !whole {
        let detail = "the list was cut off while it was written; what is not whole is set aside";
        loaded.problem("torn_tail", document.items.len(), detail);
    }
}

fn object(text: &str, document: &mut Document, loaded: &mut Loaded) {
    let (members, whole) = members_so_far(text);
    let mut found = false;
    for (name, raw) in &members {
        match name.as_str() {
            name if LISTS.contains(&name) && raw.get().starts_with('[') => {
                found = true;
                let items = elements(raw);
                document.items = items
                    .iter()
                    .filter_map(|raw| Json::parse(raw.get()).ok())
                    .collect();
            }
            // Responses take a text for a single message of the user.
            "input" if literal(raw).is_some() => {
                found = true;
                let mut item = Object::new();
                item.string("type", "message");
                item.string("role", "user");
                item.raw("content", raw.get());
                document.items.extend(Json::parse(&item.end()));
            }
            "stops" if raw.get().starts_with('{') => {
                for (at, raw) in Members::read(raw.get()).iter() {
                    match at.parse() {
                        Ok(at) => {
                            document.stops.insert(at, string(raw));
                        }
                        Err(_) => {
                            let detail = format!("`stops` names `{at}`, which is no index");
                            loaded.problem("bad_line", 0, detail);
                        }
                    }
                }
            }
            name => {
                let json = Json::parse(raw.get()).ok();
                document
                    .beside
                    .extend(json.map(|json| (name.to_owned(), json)));
            }
        }
    }
    if !whole {
        // The member that was cut is most likely the list.
        let cut = LISTS.iter().find_map(|name| {
            let (_, behind) = text.split_once(&format!("\"{name}\""))?;
            let behind = behind.trim_start().strip_prefix(':')?.trim_start();
            behind.starts_with('[').then_some(behind)
        });
        if let Some(cut) = cut.filter(|_| !found) {
            return list(cut, document, loaded);
        }
        let (lines, mut problems) = several(text);
        if !found && !lines.is_empty() {
            // One item a line.
            document.beside.clear();
            document.items = lines;
            loaded.problems.append(&mut problems);
            return;
        }
        let at = document.items.len();
        loaded.problem("torn_tail", at, "the file was cut off while it was written");
    } else if !found {
        // As `repair` prints it.
        if let Some(at) = document
            .beside
            .iter()
            .position(|(name, _)| name == "request")
        {
            let (_, request) = document.beside.swap_remove(at);
            document.beside.clear();
            return object(request.get(), document, loaded);
        }
        document.beside.clear();
        document.items.extend(Json::parse(text));
    }
    let items = document.items.len();
    if let Some((at, _)) = document.stops.range(items..).next() {
        let detail = format!("`stops` names the index {at}, and there are {items} items");
        loaded.problem("bad_line", *at, detail);
    }
}

fn several(text: &str) -> (Vec<Json>, Vec<FileProblem>) {
    let mut problems = Vec::new();
    let lines = lines::lines(text, &mut problems);
    (lines.into_iter().map(|line| line.json).collect(), problems)
}

/// The elements of an array that may end early, and whether it is whole.
pub(super) fn elements_so_far(json: &str) -> (Vec<Raw<'_>>, bool) {
    let mut found = Collect::default();
    let mut reader = serde_json::Deserializer::from_str(json);
    let whole = found.elements(&mut reader) && reader.end().is_ok();
    (found.elements, whole)
}

/// The members of an object that may end early, and whether it is whole.
pub(super) fn members_so_far(json: &str) -> (Vec<(String, Raw<'_>)>, bool) {
    let mut found = Collect::default();
    let mut reader = serde_json::Deserializer::from_str(json);
    let whole = found.members(&mut reader) && reader.end().is_ok();
    (found.members, whole)
}

#[derive(Default)]
struct Collect<'a> {
    elements: Vec<Raw<'a>>,
    members: Vec<(String, Raw<'a>)>,
}

impl<'a> Collect<'a> {
    fn elements<D: Deserializer<'a>>(&mut self, reader: D) -> bool {
        Elements(&mut self.elements).deserialize(reader).is_ok()
    }

    fn members<D: Deserializer<'a>>(&mut self, reader: D) -> bool {
        MembersOf(&mut self.members).deserialize(reader).is_ok()
    }
}

struct Elements<'v, 'a>(&'v mut Vec<Raw<'a>>);

impl<'a> DeserializeSeed<'a> for Elements<'_, 'a> {
    type Value = ();
    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'a> Visitor<'a> for Elements<'_, 'a> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            self.0.push(element);
        }
        Ok(())
    }
}

struct MembersOf<'v, 'a>(&'v mut Vec<(String, Raw<'a>)>);

impl<'a> DeserializeSeed<'a> for MembersOf<'_, 'a> {
    type Value = ();
    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for MembersOf<'_, 'a> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key()? {
            let value = map.next_value()?;
            self.0.push((name, value));
        }
        Ok(())
    }
}
