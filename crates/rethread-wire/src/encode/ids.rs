//! Call ids: what a provider accepts, and unique over a request.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// Which call ids a provider accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRule {
    letters: Letters,
    min: usize,
    max: usize,
    /// Whether an id may stand only once in a request.
    unique: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letters {
    Any,
    /// Letters, digits, `_` and `-`.
    Word,
    /// Letters and digits.
    Alphanumeric,
}

impl IdRule {
    /// Any id.
    pub const ANY: Self = Self::new(Letters::Any, 1, usize::MAX, false);
    /// `^[a-zA-Z0-9_-]+$`, unique over the request (Anthropic). No length is documented; 64 is what
    /// every provider takes.
    pub const WORD: Self = Self::new(Letters::Word, 1, 64, true);
    /// At most 40 characters (OpenAI Chat Completions).
    pub const SHORT: Self = Self::new(Letters::Any, 1, 40, true);
    /// At most 64 characters (OpenAI Responses).
    pub const LONG: Self = Self::new(Letters::Any, 1, 64, true);
    /// Exactly 9 letters and digits (Mistral).
    pub const NINE: Self = Self::new(Letters::Alphanumeric, 9, 9, true);

    const fn new(letters: Letters, min: usize, max: usize, unique: bool) -> Self {
        Self {
            letters,
            min,
            max,
            unique,
        }
    }

    pub(crate) fn fits(&self, id: &str) -> bool {
        let sound = |b: u8| match self.letters {
            Letters::Any => true,
            Letters::Word => b.is_ascii_alphanumeric() || b == b'_' || b == b'-',
            Letters::Alphanumeric => b.is_ascii_alphanumeric(),
        };
        (self.min..=self.max).contains(&id.len()) && id.bytes().all(sound)
    }

    /// The `n`th id that may stand for another; the first is as like it as the rule allows.
    pub(crate) fn stand_in(&self, id: &str, n: u32) -> String {
        if self.max < 16 || self.min > 1 {
            let digits = base62(hash(id).wrapping_add(u64::from(n).wrapping_mul(0x9e37_79b9)));
            let length = self.max.min(digits.len()).max(self.min);
            return digits.chars().cycle().take(length).collect();
        }
        let mut out: String = match self.letters {
            Letters::Any => id.to_owned(),
            Letters::Word | Letters::Alphanumeric => {
                let other = if self.letters == Letters::Word {
                    "_"
                } else {
                    ""
                };
                let keep = |c: char| {
                    c.is_ascii_alphanumeric() || (self.letters == Letters::Word && c == '-')
                };
                id.chars()
                    .map(|c| {
                        if keep(c) {
                            c.to_string()
                        } else {
                            other.to_owned()
                        }
                    })
                    .collect()
            }
        };
        if out.is_empty() {
            out.push_str("call");
        }
        let mut end = String::new();
        let joint = if self.letters == Letters::Alphanumeric {
            "x"
        } else {
            "_"
        };
        if out.len() > self.max {
            end = format!("{joint}{}", base62(hash(id)));
        }
        if n > 0 {
            end = format!("{end}{joint}{}", n + 1);
        }
        let room = self.max.saturating_sub(end.len());
        while out.len() > room {
            out.pop();
        }
        out + &end
    }
}

/// A pattern that is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPattern(String);

impl fmt::Display for UnknownPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the id pattern `{}` is not understood; write one like `^[a-zA-Z0-9_-]{{1,40}}$`",
            self.0
        )
    }
}

impl std::error::Error for UnknownPattern {}

/// Reads a pattern of one class and a count: `^[a-zA-Z0-9_-]+$`, `^[a-zA-Z0-9]{9}$`, `^.{1,40}$`.
impl FromStr for IdRule {
    type Err = UnknownPattern;

    fn from_str(pattern: &str) -> Result<Self, Self::Err> {
        let read = || {
            let inner = pattern.strip_prefix('^')?.strip_suffix('$')?;
            let (class, count) = match inner.strip_prefix('.') {
                Some(count) => ("", count),
                None => inner.strip_prefix('[')?.split_once(']')?,
            };
            let rest = class
                .replace("a-z", "")
                .replace("A-Z", "")
                .replace("0-9", "");
            let letters = match rest.as_str() {
                _ if inner.starts_with('.') => Letters::Any,
                "_-" | "-_" | "_\\-" | "\\w-" | "\\w\\-" => Letters::Word,
                "" if class.contains("0-9") => Letters::Alphanumeric,
                _ => return None,
            };
            let (min, max) = match count {
                "+" => (1, usize::MAX),
                "*" => (0, usize::MAX),
                _ => {
                    let range = count.strip_prefix('{')?.strip_suffix('}')?;
                    let (min, max) = range.split_once(',').unwrap_or((range, range));
                    let max = if max.is_empty() {
                        usize::MAX
                    } else {
                        max.parse().ok()?
                    };
                    (min.parse().ok()?, max)
                }
            };
            (min <= max && min <= 64).then_some(Self::new(letters, min, max, true))
        };
        read().ok_or_else(|| UnknownPattern(pattern.to_owned()))
    }
}

/// FNV-1a, the same on every machine and in every version.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn base62(mut number: u64) -> String {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    (0..11)
        .map(|_| {
            let digit = usize::try_from(number % 62).unwrap_or(0);
            number /= 62;
            DIGITS.get(digit).map_or('0', |byte| char::from(*byte))
        })
        .collect()
}

/// A call of the response whose results come next.
#[derive(Debug)]
pub(super) struct OpenCall {
    /// The id in the session.
    pub(super) id: String,
    /// The id in the request.
    pub(super) sent: String,
    pub(super) name: String,
    /// What the api needs to know when the result comes, such as that the call has no id there.
    pub(super) note: Note,
}

/// What an api remembers of a call.
#[derive(Debug, Default, PartialEq)]
pub(super) enum Note {
    #[default]
    None,
    /// Gemini: the call came without an id, so its response has none either.
    NoId,
    /// Responses: the call is of a custom tool.
    Custom,
    /// Anthropic: the toolset the result has to name, as JSON.
    Toolset(String),
}

/// The ids of a request.
#[derive(Debug)]
pub(super) struct Ids {
    rule: IdRule,
    /// The hash of each id that was sent, and how many stand-ins it has had.
    used: HashMap<u64, u32>,
    batch: Vec<OpenCall>,
}

impl Ids {
    pub(super) fn new(rule: IdRule) -> Self {
        Self {
            rule,
            used: HashMap::new(),
            batch: Vec::new(),
        }
    }

    /// Begins a response: the calls before are answered.
    pub(super) fn begin(&mut self) {
        self.batch.clear();
    }

    /// Takes a call and gives the id to send. Equal conversations give equal ids.
    pub(super) fn call(&mut self, id: &str, name: &str, note: Note) -> &str {
        let sent = self.assign(id);
        self.call_as(id, &sent, name, note)
    }

    /// Takes a call that is sent with an id of its own.
    pub(super) fn call_as(&mut self, id: &str, sent: &str, name: &str, note: Note) -> &str {
        self.batch.push(OpenCall {
            id: id.to_owned(),
            sent: sent.to_owned(),
            name: name.to_owned(),
            note,
        });
        self.batch.last().map_or("", |call| call.sent.as_str())
    }

    fn assign(&mut self, id: &str) -> String {
        let fits = self.rule.fits(id);
        if !self.rule.unique {
            return if fits {
                id.to_owned()
            } else {
                self.rule.stand_in(id, 0)
            };
        }
        if fits && !self.used.contains_key(&hash(id)) {
            self.used.insert(hash(id), 1);
            return id.to_owned();
        }
        // An id that fits is its own first stand-in. Ids may repeat thousands of times, so the
        // search goes on where it ended.
        let mut n = self.used.get(&hash(id)).copied().unwrap_or(u32::from(fits));
        loop {
            let candidate = self.rule.stand_in(id, n);
            n = n.saturating_add(1);
            let free = !self.used.contains_key(&hash(&candidate));
            if free || n == u32::MAX {
                self.used.insert(hash(&candidate), 1);
                self.used.insert(hash(id), n);
                return candidate;
            }
        }
    }

    /// The call a result answers.
    pub(super) fn answered(&self, id: &str) -> Option<&OpenCall> {
        self.batch.iter().find(|call| call.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(rule: IdRule, ids: &[&str]) -> Vec<String> {
        let mut all = Ids::new(rule);
        ids.iter()
            .map(|id| all.call(id, "t", Note::None).to_owned())
            .collect()
    }

    #[test]
    fn sound_ids_are_kept_and_others_replaced() {
        assert_eq!(
            sent(
                IdRule::WORD,
                &[
                    "toolu_1",
                    "functions.x:3",
                    "call_a|fc_b",
                    "functions_x_3",
                    "toolu_1",
                    "toolu_1",
                    ""
                ]
            ),
            [
                "toolu_1",
                "functions_x_3",
                "call_a_fc_b",
                "functions_x_3_2",
                "toolu_1_2",
                "toolu_1_3",
                "call"
            ]
        );
        let nine = sent(IdRule::NINE, &["abcdefgh1", "call_1", "call_1"]);
        assert_eq!(nine[0], "abcdefgh1");
        assert_ne!(nine[1], nine[2]);
        assert!(nine.iter().all(|id| IdRule::NINE.fits(id)), "{nine:?}");
        let long = "x".repeat(50);
        let short = sent(IdRule::SHORT, &[&long]);
        assert_eq!(short[0].len(), 40);
        assert_eq!(sent(IdRule::ANY, &["a", "a"]), ["a", "a"]);
    }

    #[test]
    fn patterns_read_back() {
        assert_eq!("^[a-zA-Z0-9]{9}$".parse(), Ok(IdRule::NINE));
        assert_eq!("^.{1,40}$".parse(), Ok(IdRule::SHORT));
        let word: IdRule = "^[a-zA-Z0-9_-]+$".parse().unwrap();
        assert!(word.fits(&"a".repeat(100)) && !word.fits("a.b") && !word.fits(""));
        assert!("(a|b)".parse::<IdRule>().is_err());
        assert!("^[a-z]{9,1}$".parse::<IdRule>().is_err());
    }

    #[test]
    fn an_id_that_repeats_for_ever_stays_cheap() {
        let mut ids = Ids::new(IdRule::WORD);
        for _ in 0..20_000 {
            ids.call("call_0", "t", Note::None);
            ids.begin();
        }
        assert_eq!(ids.call("call_0", "t", Note::None), "call_0_20001");
    }

    proptest! {
        #[test]
        fn every_id_fits_and_stands_once(
            ids in prop::collection::vec("[ab_.:|é]{0,4}|call_[12]{1,2}|x{60,70}", 0..40),
            rule in prop::sample::select(vec![IdRule::WORD, IdRule::SHORT, IdRule::LONG, IdRule::NINE]),
        ) {
            let mut all = Ids::new(rule);
            let mut seen = std::collections::HashSet::new();
            for id in &ids {
                let sent = all.call(id, "t", Note::None).to_owned();
                prop_assert!(rule.fits(&sent), "{}", sent);
                prop_assert!(seen.insert(sent.clone()), "{} twice", sent);
            }
        }
    }
}
