//! Ids for tool calls that came without one.

use std::collections::HashSet;

const PREFIX: &str = "call_rt_";

/// Whether a tool call's id was made here because the provider sent none. Such an id is for pairing
/// a call with its result; a provider that gave the call no id must not be sent it in the native form.
#[must_use]
pub fn is_made_id(id: &str) -> bool {
    id.starts_with(PREFIX)
}

/// Gives every call of a response an id of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    taken: HashSet<String>,
}

impl Ids {
    /// The id that came, or one made from `seed` (the response's id and the tool's name) when none came or another call of this response has it. The same response always gets
    /// the same ids.
    pub(crate) fn take(&mut self, came: &str, seed: &[&str]) -> String {
        if !came.is_empty() && self.taken.insert(came.to_owned()) {
            return came.to_owned();
        }
        let mut hash = fnv(self.taken.len() as u64, came);
        for part in seed {
            hash = fnv(hash, part);
        }
        let id = format!("{PREFIX}{hash:016x}");
        self.taken.insert(id.clone());
        id
    }
}

/// FNV-1a: stable over versions and machines.
fn fnv(start: u64, text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in start.to_le_bytes().into_iter().chain(text.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_kept_unless_it_is_missing_or_taken() {
        let ids = || {
            let mut ids = Ids::default();
            ["a", "", "", "a"].map(|came| ids.take(came, &["resp_1", "tool"]))
        };
        let [first, second, third, fourth] = ids();
        assert_eq!(first, "a");
        for made in [&second, &third, &fourth] {
            assert!(is_made_id(made) && made.len() <= 40);
        }
        assert!(second != third && third != fourth && second != fourth);
        assert_eq!(ids()[1], second);
    }
}
