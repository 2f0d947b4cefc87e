//! Writing to the terminal. The only place that does.
//!
//! What a command was asked for goes to standard output, what it says about it to standard error.
//! Colours are left out where they are not wanted (no terminal, `NO_COLOR`, `TERM=dumb`).

use std::io::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use rethread_core::Timestamp;
use serde::Serialize;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();

/// A line on standard output. A reader that has gone away is no failure.
pub(crate) fn line(text: &str) {
    let _ = writeln!(anstream::stdout().lock(), "{text}");
}

/// Text on standard output as it comes.
pub(crate) fn text(text: &str) {
    let mut out = anstream::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A JSON document on standard output.
pub(crate) fn json(document: &impl Serialize) {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    // Whoever cannot be written to any more misses nothing.
    let _ = serde_json::to_writer(&mut out, document);
    let _ = writeln!(out).and_then(|()| out.flush());
}

/// A line on standard error.
pub(crate) fn say(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Text on standard error, without an end of line.
pub(crate) fn prompt(text: &str) {
    let mut out = anstream::stderr().lock();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

pub(crate) fn error(message: &str) {
    let message = clean(message);
    say(&format!("{}: {message}", paint(RED, "error")));
}

pub(crate) fn warning(message: &str) {
    let message = clean(message);
    say(&format!("{}: {message}", paint(YELLOW, "warning")));
}

pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// A text from a model, a tool or a file as it may be shown: nothing in it moves the cursor, changes
/// the terminal or makes what is read differ from what is there.
pub(crate) fn clean(text: &str) -> String {
    let turns = |char: char| matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .filter(|char| matches!(char, '\n' | '\t') || !(char.is_control() || turns(*char)))
        .collect()
}

/// The lines of a text, indented, and how many are left out after so many.
pub(crate) fn indented(text: &str, most: usize) -> Vec<String> {
    let text = clean(text);
    let text = text.trim_end();
    let mut lines: Vec<String> = text
        .lines()
        .take(most)
        .map(|line| format!("  {line}"))
        .collect();
    let more = text.lines().count().saturating_sub(most);
    if more > 0 {
        let more = format!("  [{} more]", count(more as u64, "line"));
        lines.push(paint(DIM, &more));
    }
    lines
}

/// The first words of a text, on one line.
pub(crate) fn short(text: &str, characters: usize) -> String {
    let mut words = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() > characters {
        words = words.chars().take(characters.saturating_sub(1)).collect();
        words.push('…');
    }
    words
}

/// How long ago something was, in words.
pub(crate) fn ago(at: Timestamp) -> String {
    let micros = Timestamp::now().0.saturating_sub(at.0).max(0);
    let seconds = Duration::from_micros(micros.unsigned_abs()).as_secs();
    let (n, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3600 => (seconds / 60, "min"),
        3600..86_400 => (seconds / 3600, "h"),
        _ => (seconds / 86_400, "d"),
    };
    format!("{n} {unit} ago")
}

/// A number with the noun it counts.
pub(crate) fn count(n: u64, one: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n => format!("{n} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_characters_on_one_line() {
        assert_eq!(short(" a\n\tb  c ", 9), "a b c");
        assert_eq!(short("ééééé", 3), "éé…");
        assert_eq!(short("\u{1b}[31mred", 20), "[31mred");
    }

    #[test]
    fn an_age_is_told_in_its_unit() {
        let before = |seconds: i64| ago(Timestamp(Timestamp::now().0 - seconds * 1_000_000));
        assert_eq!(before(5), "just now");
        assert_eq!(before(130), "2 min ago");
        assert_eq!(before(7300), "2 h ago");
        assert_eq!(before(200_000), "2 d ago");
        assert_eq!(before(-50), "just now");
    }
}
