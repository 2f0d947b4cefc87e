//! The shape of the event before this one.
//!
//! Most events of a stream differ from the one before only in a piece of text, and in values nobody
//! reads (a sequence number, padding). Comparing an event with that shape is several times faster than
//! parsing it, and says the same: what is equal outside the values, and has values of the same kind,
//! is the same JSON with other values.

use std::ops::Range;

/// The shape of an event that carries a piece of text for `T`.
#[derive(Debug)]
pub(super) struct Template<T> {
    event: String,
    /// Where values may differ, in order, and whether each is the piece.
    holes: Vec<(Range<usize>, bool)>,
    target: Option<T>,
}

impl<T> Default for Template<T> {
    fn default() -> Self {
        Self {
            event: String::new(),
            holes: Vec::new(),
            target: None,
        }
    }
}

impl<T: Copy> Template<T> {
    /// Learns a shape: an event that does nothing but bring `piece`, a string literal, to `target`.
    /// `unread` are values in it that may differ: literals or whole numbers. All are slices of `event`.
    pub(super) fn learn(&mut self, event: &str, target: T, piece: &str, unread: &[Option<&str>]) {
        self.target = None;
        self.holes.clear();
        let place = |value: &str| {
            let start = (value.as_ptr() as usize).checked_sub(event.as_ptr() as usize)?;
            let range = start..start.checked_add(value.len())?;
            (event.get(range.clone()) == Some(value)).then_some(range)
        };
        let Some(piece) = place(piece) else { return };
        self.holes.push((piece, true));
        for value in unread.iter().copied().flatten() {
            // A value of another kind stays part of the shape.
            if value_len(value.as_bytes()) == Some(value.len()) {
                self.holes.extend(place(value).map(|range| (range, false)));
            }
        }
        self.holes.sort_by_key(|(range, _)| range.start);
        self.event.clear();
        self.event.push_str(event);
        self.target = Some(target);
    }

    /// The target and the piece of an event of this shape.
    pub(super) fn fit<'a>(&self, event: &'a str) -> Option<(T, &'a str)> {
        let target = self.target?;
        let mut piece = None;
        let (mut known, mut rest) = (self.event.as_str(), event);
        let mut at = 0;
        for (range, is_piece) in &self.holes {
            let (fixed, _) = known.split_at_checked(range.start - at)?;
            rest = rest.strip_prefix(fixed)?;
            let hole = self.event.as_bytes().get(range.start)?;
            let length = value_len(rest.as_bytes())?;
            if (*hole == b'"') != rest.starts_with('"') {
                return None;
            }
            let (value, after) = rest.split_at_checked(length)?;
            if *is_piece {
                piece = Some(value);
            }
            rest = after;
            at = range.end;
            known = self.event.get(at..)?;
        }
        (rest == known).then_some((target, piece?))
    }
}

/// The length of the string literal or the whole number that JSON text begins with.
fn value_len(json: &[u8]) -> Option<usize> {
    let (first, rest) = json.split_first()?;
    if *first != b'"' {
        let digits = json.iter().take_while(|b| b.is_ascii_digit()).count();
        let sound = (1..=18).contains(&digits) && (*first != b'0' || digits == 1);
        return sound.then_some(digits);
    }
    let mut bytes = rest.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at + 2),
            b'\\' => match bytes.next()?.1 {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                b'u' => {
                    for _ in 0..4 {
                        bytes.next().filter(|(_, hex)| hex.is_ascii_hexdigit())?;
                    }
                }
                _ => return None,
            },
            0x20.. => {}
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn learned(event: &str, number: &str, piece: &str) -> Template<u8> {
        let slice = |part: &str| {
            let at = event.find(part).unwrap();
            &event[at..at + part.len()]
        };
        let mut template = Template::default();
        template.learn(event, 7, slice(piece), &[Some(slice(number)), None]);
        template
    }

    #[test]
    fn only_values_may_differ() {
        let template = learned(r#"{"n":12,"d":"ab","x":null}"#, "12", "\"ab\"");
        let fit = |event| template.fit(event);
        assert_eq!(
            fit(r#"{"n":3,"d":"c\nd","x":null}"#),
            Some((7, r#""c\nd""#))
        );
        assert_eq!(fit(r#"{"n":12,"d":"","x":null}"#), Some((7, r#""""#)));
        for other in [
            r#"{"n":3,"d":"c","x":1}"#,
            r#"{"n":03,"d":"c","x":null}"#,
            r#"{"n":-3,"d":"c","x":null}"#,
            r#"{"n":3.5,"d":"c","x":null}"#,
            r#"{"n":"3","d":"c","x":null}"#,
            r#"{"n":3,"d":"\x","x":null}"#,
            r#"{"n":3,"d":"\u12g4","x":null}"#,
            "{\"n\":3,\"d\":\"a\tb\",\"x\":null}",
            r#"{"n":3,"d":"c","x":null} "#,
            r#"{"n":3,"d":"c"#,
            r#"{"n":3,"d":null,"x":null}"#,
            "",
        ] {
            assert_eq!(fit(other), None, "{other}");
        }
    }

    #[test]
    fn nothing_fits_before_a_shape_is_known() {
        assert_eq!(Template::<u8>::default().fit("{}"), None);
    }

    proptest! {
        /// What fits is JSON, and its values are where the shape has them.
        #[test]
        fn what_fits_reads_the_same(number in "[0-9]{1,3}", text in "[a\\\\\"nu0-9é]{0,6}") {
            let template = learned(r#"{"n":1,"d":"ab"}"#, "1", "\"ab\"");
            let event = format!(r#"{{"n":{number},"d":"{text}"}}"#);
            if let Some((_, piece)) = template.fit(&event) {
                let value: Value = serde_json::from_str(&event).unwrap();
                let piece: Value = serde_json::from_str(piece).unwrap();
                prop_assert_eq!(&value["d"], &piece);
                prop_assert_eq!(value["n"].as_u64(), number.parse().ok());
            }
        }
    }
}
