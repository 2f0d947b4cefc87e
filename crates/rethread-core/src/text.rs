//! Text and JSON kept exactly as they came.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON value kept as the bytes that came, never decoded and encoded again.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Reads one JSON value.
    ///
    /// # Errors
    /// When `text` is not exactly one JSON value.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        // Without surrounding white space, so that a stored record stays one line.
        let raw: Box<RawValue> = serde_json::from_str(text.trim())?;
        Ok(Self(raw))
    }

    /// Encodes a value.
    ///
    /// # Errors
    /// When the value's own `Serialize` fails.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The empty object, `{}`.
    #[must_use]
    pub fn empty_object() -> Self {
        RawValue::from_string("{}".to_owned()).map_or_else(|_| Self::null(), Self)
    }

    fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// The JSON text, byte for byte.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Decodes into a type.
    ///
    /// # Errors
    /// When the JSON does not fit the type.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// Whether this is a JSON object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Json {}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

/// A string kept as its JSON literal.
///
/// Conversations are read, stored and sent as JSON, so the literal travels from a provider to the
/// store and back into a request without being decoded. That keeps what a Rust string cannot hold
/// (a lone surrogate, `\ud83d`) and makes a request cheap to build. [`Text::to_str`] decodes.
#[derive(Clone)]
pub struct Text(Json);

impl Text {
    /// A text from a Rust string.
    #[must_use]
    pub fn new(text: &str) -> Self {
        // Encoding a string cannot fail.
        Self(Json::encode(text).unwrap_or_else(|_| Json::null()))
    }

    /// A text from a JSON string literal, quotes included.
    #[must_use]
    pub fn from_json(json: Json) -> Option<Self> {
        json.get().starts_with('"').then_some(Self(json))
    }

    /// The JSON string literal, quotes included.
    #[must_use]
    pub fn literal(&self) -> &str {
        self.0.get()
    }

    /// What stands between the quotes, still escaped.
    #[must_use]
    pub fn escaped(&self) -> &str {
        let literal = self.0.get();
        literal
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or("")
    }

    /// The decoded string. A lone surrogate becomes U+FFFD.
    #[must_use]
    pub fn to_str(&self) -> Cow<'_, str> {
        unescape(self.escaped())
    }

    /// Whether the text has no characters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.escaped().is_empty()
    }

    /// Whether the text has nothing but white space.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let escaped = self.escaped();
        match escaped.bytes().find(|b| !b.is_ascii_whitespace()) {
            None => true,
            Some(b'\\') | Some(0x80..) => self.to_str().trim().is_empty(),
            Some(_) => false,
        }
    }

    /// Whether the literal holds a surrogate escape without its other half. Such a text can be kept
    /// but no provider accepts it; [`Text::to_str`] gives what can be sent.
    #[must_use]
    pub fn has_lone_surrogate(&self) -> bool {
        has_lone_surrogate(self.escaped())
    }
}

/// Whether JSON text holds a surrogate escape (`\ud83d`) without its other half.
#[must_use]
pub fn has_lone_surrogate(json: &str) -> bool {
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let tail = rest.get(at..).unwrap_or("");
        match escape(tail) {
            (Err(()), _) => return true,
            (Ok(_), used) => rest = tail.get(used..).unwrap_or(""),
        }
    }
    false
}

/// Decodes one escape at the start of `text`: the character, or an error for a lone surrogate, and
/// the bytes it took.
fn escape(text: &str) -> (Result<char, ()>, usize) {
    let hex = |at: usize| {
        text.get(at..at + 4)
            .and_then(|h| u32::from_str_radix(h, 16).ok())
    };
    match text.as_bytes().get(1) {
        Some(b'n') => (Ok('\n'), 2),
        Some(b't') => (Ok('\t'), 2),
        Some(b'r') => (Ok('\r'), 2),
        Some(b'b') => (Ok('\u{8}'), 2),
        Some(b'f') => (Ok('\u{c}'), 2),
        Some(b'u') => match hex(2) {
            Some(high @ 0xd800..=0xdbff) => {
                let low = text.get(6..8).filter(|t| *t == "\\u").and_then(|_| hex(8));
                match low {
                    Some(low @ 0xdc00..=0xdfff) => {
                        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        (char::from_u32(code).ok_or(()), 12)
                    }
                    _ => (Err(()), 6),
                }
            }
            Some(code) => (char::from_u32(code).ok_or(()), 6),
            None => (Err(()), 2.min(text.len())),
        },
        Some(b'"') => (Ok('"'), 2),
        Some(b'/') => (Ok('/'), 2),
        Some(b'\\') => (Ok('\\'), 2),
        _ => (Err(()), 1),
    }
}

fn unescape(escaped: &str) -> Cow<'_, str> {
    if !escaped.contains('\\') {
        return Cow::Borrowed(escaped);
    }
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = rest.find('\\') {
        out.push_str(rest.get(..at).unwrap_or(""));
        let tail = rest.get(at..).unwrap_or("");
        let (char, used) = escape(tail);
        out.push(char.unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = tail.get(used..).unwrap_or("");
    }
    out.push_str(rest);
    Cow::Owned(out)
}

impl Default for Text {
    fn default() -> Self {
        Self::new("")
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        Self::new(text)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.literal() == other.literal() || self.to_str() == other.to_str()
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.to_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.to_str() == *other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.literal())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_str())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        if json.get() == "null" {
            return Ok(Self::default());
        }
        Self::from_json(json).ok_or_else(|| serde::de::Error::custom("expected a string"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_survives_and_decodes() {
        let literal = r#""a\n\u00e9\ud83d\ude00 \/ \u0000""#;
        let text: Text = serde_json::from_str(literal).unwrap();
        assert_eq!(text.literal(), literal);
        assert_eq!(text.to_str(), "a\né😀 / \0");
        assert_eq!(serde_json::to_string(&text).unwrap(), literal);
        assert!(!text.has_lone_surrogate());
    }

    #[test]
    fn a_lone_surrogate_is_kept_and_shown_as_replacement() {
        for literal in [r#""x\ud83d""#, r#""x\ude00""#, r#""x\ud83d\u0041""#] {
            let text: Text = serde_json::from_str(literal).unwrap();
            assert_eq!(text.literal(), literal);
            assert!(text.has_lone_surrogate(), "{literal}");
            assert!(text.to_str().starts_with("x\u{fffd}"));
        }
        assert!(
            !has_lone_surrogate(r#""\\ud83d""#),
            "an escaped backslash is no surrogate"
        );
    }

    #[test]
    fn blank_sees_through_escapes() {
        assert!(Text::new(" \n\t\u{a0}").is_blank());
        assert!(Text::new("").is_blank());
        assert!(!Text::new("\n.").is_blank());
    }

    #[test]
    fn equal_texts_may_be_written_differently() {
        let a: Text = serde_json::from_str(r#""\u00e9""#).unwrap();
        assert_eq!(a, Text::new("é"));
    }
}
