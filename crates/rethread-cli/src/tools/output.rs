//! Output that stays small.

use std::collections::VecDeque;

/// How many bytes of a tool's output are kept at its beginning, and as many at its end.
const KEPT: usize = 16 * 1024;

/// The beginning and the end of a stream of bytes.
#[derive(Debug, Default)]
pub(super) struct Bounded {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Bounded {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = KEPT.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    pub(super) fn into_text(mut self) -> String {
        let mut out = String::from_utf8_lossy(&self.head).into_owned();
        if self.left_out > 0 {
            out.push_str(&format!("\n[{} bytes are left out here]\n", self.left_out));
        } else if let Some(cut) = std::str::from_utf8(&self.head).err()
            && cut.error_len().is_none()
        {
            // The cut between head and tail went through a character.
            self.head.extend(self.tail.drain(..));
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        out.push_str(&String::from_utf8_lossy(self.tail.make_contiguous()));
        out
    }
}

/// A text of at most so many bytes, cut between characters.
pub(super) fn cut(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_keeps_both_ends_and_a_short_one_all() {
        let mut short = Bounded::default();
        let text = "é".repeat(KEPT / 2) + "x" + &"é".repeat(KEPT / 4);
        for piece in text.as_bytes().chunks(7) {
            short.push(piece);
        }
        assert_eq!(short.into_text(), text);

        let mut long = Bounded::default();
        for n in 0..100_000 {
            long.push(format!("{n}\n").as_bytes());
        }
        let text = long.into_text();
        assert!(text.starts_with("0\n1\n") && text.ends_with("99998\n99999\n"));
        assert!(text.contains("left out here") && text.len() < 2 * KEPT + 100);
    }

    #[test]
    fn a_cut_keeps_characters_whole() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 9), "aé");
    }
}
