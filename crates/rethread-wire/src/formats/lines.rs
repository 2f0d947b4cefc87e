//! Files of one JSON object a line, as writers that were killed leave them.

use std::collections::HashSet;

use rethread_core::Json;
use serde_json::value::RawValue;

use super::FileProblem;

/// An object and the line it begins on, from 1.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) json: Json,
}

/// How many lines one record may be spread over.
const MAX_JOINED: usize = 10_000;

/// Reads all objects there are: lines may end in CR LF, be padded with NUL bytes, hold several objects
/// or the beginning of one and then another; an object may hold raw line breaks. Only LF ends a line.
pub(super) fn lines(text: &str, problems: &mut Vec<FileProblem>) -> Vec<Line> {
    let mut reader = Reader {
        lines: text.split('\n').collect(),
        keys: HashSet::new(),
        budget: text.len().saturating_mul(8).saturating_add(1 << 16),
        out: Vec::new(),
        problems,
    };
    let last = reader
        .lines
        .iter()
        .rposition(|line| !clean(line).is_empty())
        .unwrap_or(0);
    let mut at = 0;
    while at < reader.lines.len() {
        at = reader.line(at, at == last);
    }
    reader.out
}

struct Reader<'a, 'p> {
    lines: Vec<&'a str>,
    /// The first keys of records that were read: by them a record's beginning is known.
    keys: HashSet<&'a str>,
    /// How many bytes may still be looked at a second time, so that no file costs more than its length.
    budget: usize,
    out: Vec<Line>,
    problems: &'p mut Vec<FileProblem>,
}

impl<'a> Reader<'a, '_> {
    /// Reads the line at that index; gives the index of the next one to read.
    fn line(&mut self, at: usize, is_last: bool) -> usize {
        let number = at + 1;
        let raw = self.lines.get(at).copied().unwrap_or("");
        let line = clean(raw);
        let padded = raw.contains('\0') && !line.contains('\0');
        if padded {
            let detail =
                "the line is padded with NUL bytes, as a file system leaves them after a crash";
            self.problem("nul_padding", number, detail);
        }
        if line.is_empty() {
            return at + 1;
        }
        if let Some(json) = object(line) {
            self.take(number, line, json);
            return at + 1;
        }
        let (values, rest) = objects(line);
        let glued = !values.is_empty();
        if glued {
            if line.contains('\0') {
                self.problem("nul_padding", number, "NUL bytes stand between two records");
            }
            self.problem("glued_record", number, "several records stand on one line");
            for value in values {
                if let Some(json) = object(value) {
                    self.take(number, value, json);
                }
            }
            if rest.is_empty() {
                return at + 1;
            }
        }
        if let Some(start) = self.whole_behind(rest) {
            if !glued {
                let detail = "the beginning of a record stands before another on the same line; it is set aside";
                self.problem("glued_record", number, detail);
            }
            let (values, _) = objects(rest.get(start..).unwrap_or(""));
            for value in values {
                if let Some(json) = object(value) {
                    self.take(number, value, json);
                }
            }
            return at + 1;
        }
        if let Some((json, next)) = self.spread(at, rest) {
            let detail = "a record with raw line breaks is spread over several lines";
            self.problem("split_record", number, detail);
            self.out.push(Line { number, json });
            return next;
        }
        if is_last && !rest.ends_with('}') {
            let detail = "the last record was cut off while it was written; it is set aside";
            self.problem("torn_tail", number, detail);
        } else {
            let detail = format!(
                "the line is no JSON object and is set aside: {}",
                shown(rest)
            );
            self.problem("bad_line", number, &detail);
        }
        at + 1
    }

    fn problem(&mut self, rule: &'static str, line: usize, detail: &str) {
        self.problems.push(FileProblem::new(rule, line, detail));
    }

    fn take(&mut self, number: usize, text: &'a str, json: Json) {
        if self.keys.len() < 64
            && let Some(key) = first_key(text)
        {
            self.keys.insert(key);
        }
        self.out.push(Line { number, json });
    }

    /// Whether a text begins as records of this file do, or as `like` does.
    fn begins_record(&self, text: &str, like: &str) -> bool {
        let Some(key) = first_key(text) else {
            return false;
        };
        match first_key(like) {
            Some(like) => like == key || self.keys.contains(key),
            None => self.keys.is_empty() || self.keys.contains(key),
        }
    }

    /// Where behind the beginning of a record whole ones stand, up to the end.
    fn whole_behind(&mut self, text: &str) -> Option<usize> {
        let mut from = 1;
        while let Some(found) = text.get(from..)?.find('{') {
            let start = from + found;
            let tail = text.get(start..)?;
            from = start + 1;
            if !self.begins_record(tail, text) {
                continue;
            }
            self.budget = self.budget.checked_sub(tail.len())?;
            let (values, rest) = objects(tail);
            if !values.is_empty() && rest.is_empty() {
                return Some(start);
            }
        }
        None
    }

    /// Reads an object that goes on over the lines after `at`, and gives the index of the line behind
    /// it. A line that is a record of its own ends the search.
    fn spread(&mut self, at: usize, first: &str) -> Option<(Json, usize)> {
        if !first.starts_with('{') {
            return None;
        }
        let (mut joined, mut scan) = (String::new(), Scan::default());
        for (next, line) in self.lines.iter().enumerate().skip(at).take(MAX_JOINED) {
            let line = if next == at { first } else { line };
            self.budget = self.budget.checked_sub(line.len())?;
            if next > at {
                let alone = clean(line);
                if self.begins_record(alone, first) && object(alone).is_some() {
                    return None;
                }
                joined.push_str(if scan.in_string { "\\n" } else { "\n" });
            }
            for char in line.chars() {
                scan.step(char);
                match char {
                    _ if scan.in_string && char < ' ' => {
                        joined.push_str(&format!("\\u{:04x}", u32::from(char)));
                    }
                    _ => joined.push(char),
                }
            }
            if scan.depth == 0 {
                return Some((object(joined.trim())?, next + 1));
            }
        }
        None
    }
}

/// How deep inside JSON a text is.
#[derive(Default)]
struct Scan {
    depth: i64,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    fn step(&mut self, char: char) {
        match char {
            _ if self.escaped => self.escaped = false,
            '\\' if self.in_string => self.escaped = true,
            '"' => self.in_string = !self.in_string,
            _ if self.in_string => {}
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth -= 1,
            _ => {}
        }
    }
}

/// Without white space and NUL bytes at the ends.
fn clean(line: &str) -> &str {
    line.trim_matches(|char: char| char == '\0' || char.is_ascii_whitespace())
}

fn object(text: &str) -> Option<Json> {
    Json::parse(text).ok().filter(Json::is_object)
}

/// The objects a text begins with, and what stands behind them.
fn objects(text: &str) -> (Vec<&str>, &str) {
    let (mut values, mut rest) = (Vec::new(), clean(text));
    while rest.starts_with('{') {
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        match stream.next() {
            Some(Ok(value)) => values.push(value.get()),
            _ => break,
        }
        let end = stream.byte_offset();
        rest = clean(rest.get(end..).unwrap_or(""));
    }
    (values, rest)
}

/// The first key of a text that begins as an object.
fn first_key(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('{')?.trim_start().strip_prefix('"')?;
    let (key, behind) = inside.split_once('"')?;
    (key.len() < 64 && behind.trim_start().starts_with(':')).then_some(key)
}

/// The beginning of a text, for a message.
fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .filter(|char| !char.is_control())
        .take(40)
        .collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("`{shown}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> (Vec<String>, Vec<(&'static str, usize)>) {
        let mut problems = Vec::new();
        let lines = lines(text, &mut problems);
        let problems = problems.iter().map(|p| (p.rule, p.line)).collect();
        (
            lines
                .iter()
                .map(|line| line.json.get().to_owned())
                .collect(),
            problems,
        )
    }

    #[test]
    fn whole_lines_are_read_as_they_are() {
        let (lines, problems) = read("{\"a\":1}\r\n\n{\"a\":\"x\u{2028}y\"}");
        assert_eq!(lines, ["{\"a\":1}", "{\"a\":\"x\u{2028}y\"}"]);
        assert!(problems.is_empty());
    }

    #[test]
    fn damage_costs_the_damaged_record_alone() {
        for (text, want, what) in [
            ("{\"a\":1}\n{\"a\":2", vec!["{\"a\":1}"], ("torn_tail", 2)),
            (
                "{\"a\":1}\n{\"a\":\n{\"a\":3}\n",
                vec!["{\"a\":1}", "{\"a\":3}"],
                ("bad_line", 2),
            ),
            (
                "{\"a\":1}{\"a\":2}\n",
                vec!["{\"a\":1}", "{\"a\":2}"],
                ("glued_record", 1),
            ),
            (
                "{\"a\":1}\n\0\0\0\n{\"a\":2}",
                vec!["{\"a\":1}", "{\"a\":2}"],
                ("nul_padding", 2),
            ),
            (
                "{\"a\":1}\n{\"a\":2}\0\0",
                vec!["{\"a\":1}", "{\"a\":2}"],
                ("nul_padding", 2),
            ),
            (
                "{\"a\":{\"b\":\"x{\"a\":{\"b\":1}}\n",
                vec!["{\"a\":{\"b\":1}}"],
                ("glued_record", 1),
            ),
            (
                "{\"a\":\"x\ny\",\"b\":2}\n{\"a\":3}",
                vec!["{\"a\":\"x\\ny\",\"b\":2}", "{\"a\":3}"],
                ("split_record", 1),
            ),
            (
                "{\n  \"a\": 1\n}\n",
                vec!["{\n  \"a\": 1\n}"],
                ("split_record", 1),
            ),
            (
                "{\"a\":1}\nhello\n{\"a\":2}",
                vec!["{\"a\":1}", "{\"a\":2}"],
                ("bad_line", 2),
            ),
            (
                "{\"a\":\"1\"}\n{\"a\":\"2\n{\"a\":\"3\"}\n",
                vec!["{\"a\":\"1\"}", "{\"a\":\"3\"}"],
                ("bad_line", 2),
            ),
        ] {
            let (lines, problems) = read(text);
            assert_eq!(lines, want, "{text:?}");
            assert_eq!(problems, [what], "{text:?}");
        }
    }

    #[test]
    fn a_record_glued_to_nul_bytes_is_found() {
        let (lines, problems) = read("{\"a\":1}\0\0{\"a\":2}\n");
        assert_eq!(lines.len(), 2);
        assert_eq!(problems.len(), 2);
    }

    #[test]
    fn a_hostile_file_costs_no_more_than_its_length() {
        let mut text = "{\"a\":\"".repeat(50_000);
        text.push('\n');
        text.push_str(&"{\"a\":\"\n".repeat(50_000));
        let (lines, problems) = read(&text);
        assert!(lines.is_empty() && problems.len() > 50_000);
    }

    proptest! {
        #[test]
        fn every_cut_keeps_all_whole_records(
            contents in prop::collection::vec("[a-z\u{e9}{}\\\\\"\n\u{2028}]{0,8}", 1..6),
            cut in 0_usize..200,
        ) {
            let records: Vec<String> = contents
                .iter()
                .map(|text| format!("{{\"seq\":1,\"x\":{}}}", serde_json::to_string(text).unwrap()))
                .collect();
            let text = records.join("\n") + "\n";
            let mut cut = cut.min(text.len());
            while !text.is_char_boundary(cut) { cut -= 1; }
            let kept = &text[..cut];
            let (lines, _) = read(kept);
            let whole = records.iter().scan(0, |end, record| {
                *end += record.len();
                let fits = *end <= cut;
                *end += 1;
                Some(fits)
            }).filter(|fits| *fits).count();
            prop_assert_eq!(&lines[..], &records[..whole]);
            // Written on behind the cut, all that comes after is read.
            let (lines, _) = read(&format!("{kept}{text}"));
            let mut want = records[..whole].to_vec();
            want.extend(records.iter().cloned());
            prop_assert_eq!(lines, want);
        }
    }
}
