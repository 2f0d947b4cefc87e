//! JSON kept as the text that came: read in slices, put together again from slices.

use std::borrow::Cow;
use std::fmt;

use rethread_core::{Json, Text};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A piece of JSON as it came.
pub(crate) type Raw<'a> = &'a RawValue;

/// The members of a JSON object, in order, as they came.
#[derive(Debug, Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, Raw<'a>)>);

impl<'a> Members<'a> {
    /// Reads an object; anything else has no members.
    pub(crate) fn read(json: &'a str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }

    /// The member of that name that is not null. The last one counts, as in every JSON reader the
    /// providers use.
    pub(crate) fn get(&self, name: &str) -> Option<Raw<'a>> {
        self.0
            .iter()
            .rev()
            .find(|(key, _)| key == name)
            .map(|(_, value)| *value)
            .filter(|value| value.get() != "null")
    }

    /// The members of the object that is that member.
    pub(crate) fn object(&self, name: &str) -> Members<'a> {
        self.get(name)
            .map(|raw| Members::read(raw.get()))
            .unwrap_or_default()
    }

    /// The elements of the array that is that member.
    pub(crate) fn list(&self, name: &str) -> Vec<Raw<'a>> {
        self.get(name).map(elements).unwrap_or_default()
    }

    pub(crate) fn string(&self, name: &str) -> Option<String> {
        self.get(name).and_then(string)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Raw<'a>)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), *value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Object<'a> {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<Key<'de>, Raw<'de>>()? {
                    members.push((member.0.0, member.1));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object(std::marker::PhantomData))
    }
}

/// A key, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The elements of an array; anything else has none.
pub(crate) fn elements(raw: Raw<'_>) -> Vec<Raw<'_>> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// A string, decoded. Numbers and booleans count as the text they are written in, since some servers
/// give ids and codes as numbers.
pub(crate) fn string(raw: Raw<'_>) -> Option<String> {
    match literal(raw) {
        Some(literal) => Some(decode(literal).into_owned()),
        None => match raw.get().as_bytes().first() {
            Some(b'{' | b'[' | b'n') | None => None,
            Some(_) => Some(raw.get().to_owned()),
        },
    }
}

/// A count. Some servers write counts as floats; negative ones mean nothing.
pub(crate) fn number(raw: Raw<'_>) -> Option<u64> {
    let text = raw.get();
    text.parse().ok().or_else(|| {
        let float: f64 = text.parse().ok().filter(|f: &f64| f.is_finite())?;
        // Within the range in which every whole number has a float of its own.
        (0.0..9e15).contains(&float).then_some(float as u64)
    })
}

/// The literal of a JSON string, quotes included.
pub(crate) fn literal(raw: Raw<'_>) -> Option<&str> {
    raw.get().starts_with('"').then_some(raw.get())
}

/// What stands between the quotes of a literal.
fn escaped(literal: &str) -> &str {
    literal
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or("")
}

/// Decodes a literal; a lone surrogate becomes U+FFFD.
fn decode(literal: &str) -> Cow<'_, str> {
    let escaped = escaped(literal);
    if escaped.as_bytes().contains(&b'\\') {
        Cow::Owned(text(literal).to_str().into_owned())
    } else {
        Cow::Borrowed(escaped)
    }
}

fn text(literal: &str) -> Text {
    Json::parse(literal)
        .ok()
        .and_then(Text::from_json)
        .unwrap_or_default()
}

/// A string that comes in pieces. The pieces are joined as they are written, so an escape, or a
/// character of two escapes, may be split between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joined {
    escaped: String,
    /// How much of `escaped` was handed out decoded.
    shown: usize,
}

impl Joined {
    /// Adds a piece, a string literal with its quotes, and gives back what can be shown because of
    /// it.
    pub(crate) fn push(&mut self, literal: &str) -> String {
        let piece = escaped(literal);
        let plain = self.shown == self.escaped.len() && !piece.as_bytes().contains(&b'\\');
        self.escaped.push_str(piece);
        if plain {
            self.shown = self.escaped.len();
            return piece.to_owned();
        }
        let pending = self.escaped.get(self.shown..).unwrap_or("");
        let ready = pending.len() - open_surrogate(pending);
        let shown = format!("\"{}\"", pending.get(..ready).unwrap_or(""));
        self.shown += ready;
        decode(&shown).into_owned()
    }

    /// Adds text that is not written as JSON.
    pub(crate) fn push_str(&mut self, text: &str) -> String {
        self.push(Text::new(text).literal())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.escaped.is_empty()
    }

    /// How long the text is, as it is written.
    pub(crate) fn len(&self) -> usize {
        self.escaped.len()
    }

    /// The whole as a literal with its quotes.
    pub(crate) fn literal(&self) -> String {
        format!("\"{}\"", self.escaped)
    }

    pub(crate) fn text(&self) -> Text {
        text(&self.literal())
    }

    /// The whole, decoded.
    pub(crate) fn to_str(&self) -> String {
        decode(&self.literal()).into_owned()
    }

    /// Adds what another has.
    pub(crate) fn append(&mut self, other: &Joined) {
        self.escaped.push_str(&other.escaped);
        self.shown = self.escaped.len();
    }
}

/// The bytes at the end that are the first half of a surrogate pair.
fn open_surrogate(escaped: &str) -> usize {
    let bytes = escaped.as_bytes();
    let Some(start) = bytes.len().checked_sub(6) else {
        return 0;
    };
    let (before, last) = bytes.split_at_checked(start).unwrap_or((bytes, &[]));
    let high = matches!(
        last,
        [
            b'\\',
            b'u',
            b'd' | b'D',
            b'8' | b'9' | b'a'..=b'b' | b'A'..=b'B',
            ..,
        ]
    );
    let slashes = before.iter().rev().take_while(|b| **b == b'\\').count();
    if high && slashes % 2 == 0 { 6 } else { 0 }
}

/// Writes a JSON object member by member.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Self(String::from("{"))
    }

    /// A member whose value is JSON already.
    pub(crate) fn raw(&mut self, key: &str, json: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(Text::new(key).literal());
        self.0.push(':');
        self.0.push_str(json);
    }

    pub(crate) fn string(&mut self, key: &str, value: &str) {
        self.raw(key, Text::new(value).literal());
    }

    /// A member that is an array of JSON values.
    pub(crate) fn list(&mut self, key: &str, items: &[impl AsRef<str>]) {
        let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
        self.raw(key, &format!("[{}]", items.join(",")));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// An object with some members replaced, or added where it has none of that name, and some removed.
/// All other members stay as they came.
pub(crate) fn edited(members: &Members<'_>, set: &[(&str, String)], remove: &[&str]) -> String {
    let mut object = Object::new();
    let mut left: Vec<&(&str, String)> = set.iter().collect();
    for (key, value) in members.iter() {
        if remove.contains(&key) {
            continue;
        }
        match set.iter().find(|(name, _)| *name == key) {
            Some((name, new)) => {
                // A key that comes twice is written once.
                let before = left.len();
                left.retain(|(open, _)| open != name);
                if left.len() < before {
                    object.raw(key, new);
                }
            }
            None => object.raw(key, value.get()),
        }
    }
    for (key, value) in left {
        object.raw(key, value);
    }
    object.end()
}

/// A JSON item that can be sent: a surrogate escape without its other half, which no provider takes,
/// becomes U+FFFD.
pub(crate) fn sendable(json: String) -> Option<Json> {
    if rethread_core::has_lone_surrogate(&json) {
        return Json::parse(&mended(&json)).ok();
    }
    Json::parse(&json).ok()
}

fn mended(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let is_unicode = tail.as_bytes().get(1) == Some(&b'u');
        let pair = tail.get(..12).unwrap_or("");
        let single = tail.get(..6).unwrap_or("");
        let used = match is_unicode {
            true if pair.get(6..8) == Some("\\u") && !rethread_core::has_lone_surrogate(pair) => {
                out.push_str(pair);
                12
            }
            true if rethread_core::has_lone_surrogate(single) => {
                out.push_str("\\ufffd");
                6
            }
            true => {
                out.push_str(single);
                6
            }
            false => {
                out.push_str(tail.get(..2).unwrap_or(tail));
                2
            }
        };
        rest = tail.get(used..).unwrap_or("");
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_escape_split_between_pieces_is_one_character() {
        let mut joined = Joined::default();
        assert_eq!(joined.push(r#""a\n\ud83d""#), "a\n");
        assert_eq!(joined.push(r#""\ude00b""#), "😀b");
        assert_eq!(joined.push(r#""\\ud83d""#), "\\ud83d");
        assert_eq!(joined.to_str(), "a\n😀b\\ud83d");
        assert_eq!(joined.text().literal(), r#""a\n\ud83d\ude00b\\ud83d""#);
    }

    #[test]
    fn a_member_is_replaced_in_place_and_the_rest_is_untouched() {
        let members = Members::read(r#"{"a": 1e2,"input":{},"z":[ 1 ]}"#);
        let set = [("input", "{\"n\":1}".to_owned()), ("b", "2".to_owned())];
        assert_eq!(
            edited(&members, &set, &["z"]),
            r#"{"a":1e2,"input":{"n":1},"b":2}"#
        );
    }

    #[test]
    fn only_lone_surrogates_are_mended() {
        let json = r#"{"a":"\ud83d\ude00 \ud83d \\ud83d \u00e9 \ude00\n"}"#;
        let want = r#"{"a":"\ud83d\ude00 \ufffd \\ud83d \u00e9 \ufffd\n"}"#;
        assert_eq!(sendable(json.to_owned()).unwrap().get(), want);
    }

    #[test]
    fn counts_may_be_written_as_floats() {
        let read = |text: &str| number(serde_json::from_str(text).unwrap());
        assert_eq!(read("7"), Some(7));
        assert_eq!(read("7.0"), Some(7));
        assert_eq!(read("1e3"), Some(1000));
        assert_eq!(read("-1"), None);
        assert_eq!(read("\"x\""), None);
    }

    proptest! {
        #[test]
        fn what_was_shown_is_what_was_joined(
            pieces in prop::collection::vec("(a|é|\\\\n|\\\\\\\\|\\\\u00e9|\\\\ud83d\\\\ude00){0,3}", 0..6),
        ) {
            let mut joined = Joined::default();
            let mut shown = String::new();
            for piece in &pieces {
                shown.push_str(&joined.push(&format!("\"{piece}\"")));
            }
            prop_assert_eq!(shown, joined.to_str());
        }
    }
}
