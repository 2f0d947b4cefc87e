//! Numbers that look random and are the same for the same seed.

/// A small generator (splitmix64): the same seed gives the same scripts on every machine.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// A generator for one decision, named by what it depends on.
    pub(super) fn of(parts: &[u64]) -> Self {
        let mut random = Self(0x5eed);
        for part in parts {
            random.0 ^= part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            random.next();
        }
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `n`; 0 when `n` is 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next().checked_rem(n).unwrap_or(0)
    }

    /// A number from `low` up to and including `high`.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True so many times of a hundred.
    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of these; the first when there is no other.
    pub(super) fn pick<T: Copy>(&mut self, first: T, others: &[T]) -> T {
        let index = self.below(others.len() as u64 + 1);
        match index.checked_sub(1) {
            None => first,
            Some(index) => usize::try_from(index)
                .ok()
                .and_then(|index| others.get(index))
                .copied()
                .unwrap_or(first),
        }
    }
}
