//! Server-sent events, read as they come.
//!
//! The rules are those of the WHATWG standard (section 9.2.6, "Interpreting an event stream"), which
//! all four provider interfaces follow: lines end in LF, CRLF or CR, one leading byte order mark is
//! dropped, an event ends with an empty line, and one that is not ended is dropped.

use std::fmt;

/// The most bytes one event or one line may have. No provider sends more; without a limit a broken
/// server could fill the memory.
pub const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// One thing read from a stream. The bytes are borrowed and may be any bytes, not only UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frame<'a> {
    /// The joined `data` lines of an event.
    Event(&'a [u8]),
    /// A line that is not of the format. Browsers skip it; here it is handed out, since servers
    /// break out of a stream to write a bare error.
    Stray(&'a [u8]),
}

/// An event or a line is longer than [`MAX_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    limit: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an event of the stream is longer than {} bytes",
            self.limit
        )
    }
}

impl std::error::Error for TooLong {}

/// Reads events from bytes that are cut anywhere.
///
/// An event that lies whole in one piece of input is handed out without being copied.
#[derive(Debug)]
pub struct SseReader {
    limit: usize,
    /// How much of the byte order mark was seen; more than its length once the start is past.
    bom: usize,
    /// The last line ended in CR, so an LF that comes next belongs to it.
    after_cr: bool,
    /// The begin of a line whose end has not come yet.
    line: Vec<u8>,
    /// The line in `line` was handed out and is to be dropped.
    line_used: bool,
    /// The `data` lines of the open event.
    data: Vec<u8>,
    has_data: bool,
}

impl Default for SseReader {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }
}

impl SseReader {
    /// A reader that takes events of up to [`MAX_EVENT_BYTES`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A reader that takes events of up to `limit` bytes.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            bom: 0,
            after_cr: false,
            line: Vec::new(),
            line_used: false,
            data: Vec::new(),
            has_data: false,
        }
    }

    /// The next frame, or `None` when `input` is used up. `input` is moved past what was read; call
    /// again with the rest, then with the next bytes.
    ///
    /// # Errors
    /// When an event is longer than the limit. The stream cannot be read any further then.
    pub fn next<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'s>>, TooLong> {
        let Self {
            limit,
            bom,
            after_cr,
            line,
            line_used,
            data,
            has_data,
        } = self;
        let too_long = TooLong { limit: *limit };
        if !*has_data {
            data.clear();
        }
        if std::mem::take(line_used) {
            line.clear();
        }
        skip_bom(bom, line, input);
        // The data of an event that has one `data` line, all of it in this input.
        let mut direct: Option<&'i [u8]> = None;
        loop {
            if *after_cr && let Some(next) = input.first() {
                *after_cr = false;
                if *next == b'\n' {
                    *input = input.get(1..).unwrap_or_default();
                }
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', input) else {
                if line.len() + data.len() + input.len() > *limit {
                    return Err(too_long);
                }
                line.extend_from_slice(input);
                *input = &[];
                if let Some(value) = direct {
                    data.extend_from_slice(value);
                }
                return Ok(None);
            };
            let (now, rest) = input.split_at_checked(end).unwrap_or((*input, &[]));
            *after_cr = rest.first() == Some(&b'\r');
            *input = rest.get(1..).unwrap_or_default();
            if line.len() + data.len() + now.len() > *limit {
                return Err(too_long);
            }
            let joined = !line.is_empty();
            if joined {
                line.extend_from_slice(now);
            }
            let text: &[u8] = if joined { line.as_slice() } else { now };
            match field(text) {
                Line::Blank => {
                    if std::mem::take(has_data) {
                        return Ok(Some(Frame::Event(direct.unwrap_or(data.as_slice()))));
                    }
                }
                Line::Data(value) => {
                    if let Some(first) = direct.take() {
                        data.extend_from_slice(first);
                    }
                    if *has_data {
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    } else if joined {
                        data.extend_from_slice(value);
                    } else {
                        // The same bytes as `value`, with the lifetime of the input.
                        direct = now.get(now.len() - value.len()..);
                    }
                    *has_data = true;
                }
                Line::Known => {}
                Line::Stray => {
                    if let Some(first) = direct.take() {
                        data.extend_from_slice(first);
                    }
                    *line_used = joined;
                    return Ok(Some(Frame::Stray(if joined {
                        line.as_slice()
                    } else {
                        now
                    })));
                }
            }
            if joined {
                line.clear();
            }
        }
    }

    /// The last line, when the input ended without closing it and it is not of the format.
    #[must_use]
    pub fn stray_rest(&self) -> Option<&[u8]> {
        let line = if self.line_used {
            &[]
        } else {
            self.line.as_slice()
        };
        let fields: [&[u8]; 4] = [b"data:", b"event:", b"id:", b"retry:"];
        let cut = fields.iter().any(|field| field.starts_with(line));
        (!cut && matches!(field(line), Line::Stray)).then_some(line)
    }
}

enum Line<'a> {
    Blank,
    Data(&'a [u8]),
    /// A comment or a field that carries nothing we use (`event`, `id`, `retry`).
    Known,
    Stray,
}

fn field(line: &[u8]) -> Line<'_> {
    if line.is_empty() {
        return Line::Blank;
    }
    if let Some(value) = line.strip_prefix(b"data") {
        match value {
            [] => return Line::Data(value),
            [b':', b' ', value @ ..] | [b':', value @ ..] => return Line::Data(value),
            _ => {}
        }
    }
    let name = line.split(|b| *b == b':').next().unwrap_or(line);
    match name {
        b"" | b"event" | b"id" | b"retry" => Line::Known,
        _ => Line::Stray,
    }
}

/// Drops a byte order mark at the very start, also when it comes in pieces.
fn skip_bom(seen: &mut usize, line: &mut Vec<u8>, input: &mut &[u8]) {
    while let (Some(expected), Some(byte)) = (BOM.get(*seen), input.first()) {
        if byte == expected {
            *seen += 1;
            *input = input.get(1..).unwrap_or_default();
        } else {
            // What looked like the mark's begin belongs to the first line.
            line.extend_from_slice(BOM.get(..*seen).unwrap_or_default());
            *seen = BOM.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All frames of a body read in the given pieces; stray lines carry a mark.
    fn frames<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut reader = SseReader::new();
        let mut out = Vec::new();
        for mut piece in pieces {
            while let Some(frame) = reader.next(&mut piece).unwrap() {
                out.push(match frame {
                    Frame::Event(data) => String::from_utf8_lossy(data).into_owned(),
                    Frame::Stray(line) => format!("!{}", String::from_utf8_lossy(line)),
                });
            }
        }
        out
    }

    fn whole(body: &str) -> Vec<String> {
        frames([body.as_bytes()])
    }

    #[test]
    fn every_line_end_closes_a_line() {
        for end in ["\n", "\r\n", "\r"] {
            let body = [
                "event: x", "data: a", "data:b", "", ": note", "data", "", "data: c", "",
            ]
            .map(|line| format!("{line}{end}"))
            .concat();
            assert_eq!(whole(&body), ["a\nb", "", "c"], "{end:?}");
        }
    }

    #[test]
    fn one_space_after_the_colon_belongs_to_the_format() {
        assert_eq!(whole("data:  a\n\ndata:b\n\n"), [" a", "b"]);
    }

    #[test]
    fn an_event_that_is_not_closed_is_dropped() {
        assert_eq!(whole("data: a\n\ndata: b\n"), ["a"]);
        assert_eq!(whole("data: a\n\ndata: b"), ["a"]);
    }

    #[test]
    fn a_byte_order_mark_is_dropped_once_and_only_at_the_start() {
        assert_eq!(whole("\u{feff}data: a\n\n"), ["a"]);
        assert_eq!(whole("data: \u{feff}a\n\n"), ["\u{feff}a"]);
        assert_eq!(frames(["\u{feff}".as_bytes(), b"data: a\n\n"]), ["a"]);
        assert_eq!(frames([&b"\xef\xbb"[..], b"data: a\n\n"]).len(), 1);
    }

    #[test]
    fn lines_out_of_the_format_are_handed_out() {
        assert_eq!(
            whole("data: a\n\n{\n  \"error\": 1\n}\ndatabase: x\n"),
            ["a", "!{", "!  \"error\": 1", "!}", "!database: x"]
        );
        assert_eq!(whole("data: a\nstray\n\n"), ["!stray", "a"]);
        for (body, rest) in [
            ("x", Some(&b"x"[..])),
            ("data: a\nda", None),
            ("{", Some(b"{")),
        ] {
            let mut reader = SseReader::new();
            let mut input = body.as_bytes();
            while reader.next(&mut input).unwrap().is_some() {}
            assert_eq!(reader.stray_rest(), rest, "{body}");
        }
    }

    #[test]
    fn an_event_over_the_limit_is_an_error() {
        for body in ["data: 0123456789", "data: 0123\ndata: 4567\n\n"] {
            let mut reader = SseReader::with_limit(12);
            let result: Result<Vec<_>, _> = body
                .as_bytes()
                .chunks(1)
                .map(|mut piece| reader.next(&mut piece).map(|_| ()))
                .collect();
            assert_eq!(result, Err(TooLong { limit: 12 }), "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_change_what_is_read(
            lines in prop::collection::vec("(data:|data: |: |event:|id:|\\{|)[a-zé]{0,3}", 0..12),
            ends in prop::collection::vec(0..3_usize, 12),
            size in 1..7_usize,
            bom in any::<bool>(),
        ) {
            let mut body = String::from(if bom { "\u{feff}" } else { "" });
            for (line, end) in lines.iter().zip(&ends) {
                body.push_str(line);
                body.push_str(["\n", "\r\n", "\r"][*end]);
            }
            prop_assert_eq!(whole(&body), frames(body.as_bytes().chunks(size)));
        }
    }
}
