//! Writing JSON from JSON: what is escaped already is copied as it stands.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use rethread_core::{Content, LeftOut, Part, Text, has_lone_surrogate};
use serde::Deserialize;
use serde_json::value::RawValue;

/// JSON as it came.
pub(super) type Raw<'a> = &'a RawValue;

/// Adds what is JSON already and known to be sendable.
pub(super) fn put(out: &mut Vec<u8>, json: &str) {
    out.extend_from_slice(json.as_bytes());
}

/// Adds JSON that came from outside. No provider takes half of a surrogate pair, so one becomes
/// U+FFFD.
pub(super) fn splice(out: &mut Vec<u8>, json: &str) {
    out.extend_from_slice(sendable(json).as_bytes());
}

/// Adds a string as a JSON literal.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    // A write into a vector cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Adds JSON as the content of a string, as two of the providers want arguments.
pub(super) fn quoted(out: &mut Vec<u8>, json: &str) {
    string(out, &sendable(json));
}

/// Adds an image as a literal of its `data:` address.
pub(super) fn data_url(out: &mut Vec<u8>, media_type: &str, base64: &str) {
    string(out, &format!("data:{media_type};base64,"));
    out.pop();
    let start = out.len();
    string(out, base64);
    // Two literals become one.
    out.remove(start);
}

/// The JSON without lone surrogates.
pub(super) fn sendable(json: &str) -> Cow<'_, str> {
    // Such escapes are rare, and looking for their start is much faster than decoding.
    static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\\u"));
    if ESCAPE.find(json.as_bytes()).is_none() || !has_lone_surrogate(json) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        // A pair is twelve bytes, any other escape with `u` six, all others two.
        let pair = tail.get(..12).filter(|pair| pair.get(6..8) == Some("\\u"));
        let single = tail.get(..6).unwrap_or(tail);
        let used = match pair {
            _ if !tail.starts_with("\\u") => tail.get(..2).unwrap_or(tail),
            _ if !has_lone_surrogate(single) => single,
            Some(pair) if !has_lone_surrogate(pair) => pair,
            _ => {
                out.push_str("\\ufffd");
                rest = tail.get(6..).unwrap_or("");
                continue;
            }
        };
        out.push_str(used);
        rest = tail.get(used.len()..).unwrap_or("");
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Adds one literal with all text of a content, parts joined by a line break. Nothing is decoded.
pub(super) fn joined(out: &mut Vec<u8>, content: &Content) {
    match content {
        Content::Text(text) => splice(out, text.literal()),
        Content::Parts(parts) => {
            out.push(b'"');
            let mut first = true;
            for part in parts {
                if let Part::Text(text) = part {
                    if !first {
                        put(out, "\\n");
                    }
                    first = false;
                    splice(out, text.escaped());
                }
            }
            out.push(b'"');
        }
    }
}

/// All text of a content, decoded and without anything between the parts.
pub(super) fn plain(content: &Content) -> String {
    match content {
        Content::Text(text) => text.to_str().into_owned(),
        Content::Parts(parts) => parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.to_str()),
                _ => None,
            })
            .collect(),
    }
}

/// The parts of a content; a text is one part.
pub(super) enum Piece<'a> {
    Text(&'a Text),
    Url(&'a str),
    Data {
        media_type: &'a str,
        base64: &'a str,
    },
    Other,
}

pub(super) fn pieces(content: &Content) -> impl Iterator<Item = Piece<'_>> {
    let (text, parts) = match content {
        Content::Text(text) => (Some(text), [].as_slice()),
        Content::Parts(parts) => (None, parts.as_slice()),
    };
    let parts = parts.iter().map(|part| match part {
        Part::Text(text) => Piece::Text(text),
        Part::ImageUrl { url } => Piece::Url(url),
        Part::ImageData { media_type, base64 } => Piece::Data { media_type, base64 },
        _ => Piece::Other,
    });
    text.map(Piece::Text).into_iter().chain(parts)
}

/// Decodes a literal; what is no string is empty.
pub(super) fn decoded(raw: Raw<'_>) -> String {
    serde_json::from_str::<Literal>(raw.get())
        .map(|literal| literal.0.to_str().into_owned())
        .unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Literal(Text);

/// Whether a literal has nothing but white space.
pub(super) fn is_blank(raw: Raw<'_>) -> bool {
    let mut between = raw.get().bytes().skip(1);
    match between.find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'\\' | 0x80..) => decoded(raw).trim().is_empty(),
        Some(b'"') | None => true,
        Some(_) => false,
    }
}

/// A copy of a JSON object with some members set. All others stay as they came.
pub(super) fn edited(json: &str, set: &[(&str, String)]) -> String {
    let members: Members<'_> = serde_json::from_str(json).unwrap_or_default();
    let mut out = Vec::with_capacity(json.len() + 64);
    out.push(b'{');
    let mut member = |key: &str, value: &str| {
        if out.len() > 1 {
            out.push(b',');
        }
        string(&mut out, key);
        out.push(b':');
        splice(&mut out, value);
    };
    for (key, value) in &members.0 {
        if !set.iter().any(|(name, _)| name == key) {
            member(key, value.get());
        }
    }
    for (key, value) in set {
        // An empty value removes the member.
        if !value.is_empty() {
            member(key, value);
        }
    }
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}

/// The members of an object in order.
#[derive(Default)]
pub(super) struct Members<'a>(pub(super) Vec<(String, Raw<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<(String, Raw<'de>)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Visitor).map(Self)
    }
}

/// Different things that may be left out before the report stops growing.
const MAX_LEFT_OUT: usize = 64;

/// What a request could not carry, each thing once.
#[derive(Debug, Default)]
pub(super) struct Left(Vec<LeftOut>);

impl Left {
    pub(super) fn add(&mut self, item: &str, reason: impl Into<String>) {
        let reason = reason.into();
        let known = |left: &LeftOut| left.item == item && left.reason == reason;
        if self.0.len() < MAX_LEFT_OUT && !self.0.iter().any(known) {
            let item = item.to_owned();
            self.0.push(LeftOut { item, reason });
        }
    }

    pub(super) fn take(&mut self) -> Vec<LeftOut> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_halves_of_pairs_are_replaced() {
        for (json, want) in [
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ud83d\u0041""#, r#""\ufffd\u0041""#),
            (r#""\uD83D\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ude00\\ud83d\n""#, r#""\ufffd\\ud83d\n""#),
            (r#"{"a":"\udfff é","b":1e2}"#, r#"{"a":"\ufffd é","b":1e2}"#),
        ] {
            assert_eq!(sendable(json), want);
        }
    }

    #[test]
    fn a_member_is_set_and_the_rest_stays_as_it_was() {
        let set = [
            ("b", "2".to_owned()),
            ("c", String::new()),
            ("d", "[]".to_owned()),
        ];
        let got = edited(r#"{"a": 1e2,"b":1,"c":{"x":1},"e":"\u00e9"}"#, &set);
        assert_eq!(got, r#"{"a":1e2,"e":"\u00e9","b":2,"d":[]}"#);
    }

    proptest! {
        #[test]
        fn what_is_sent_is_strict_json(
            pieces in prop::collection::vec(
                prop::sample::select(vec!["a", "é", "\\n", "\\\\", "\\\"", "\\ud83d", "\\uDE00", "\\u00e9", "u", "d8"]),
                0..12,
            ),
        ) {
            let literal = format!("\"{}\"", pieces.concat());
            let text: Literal = serde_json::from_str(&literal).unwrap();
            let sent = sendable(&literal);
            prop_assert_eq!(serde_json::from_str::<String>(&sent).unwrap(), text.0.to_str());
        }
    }
}
