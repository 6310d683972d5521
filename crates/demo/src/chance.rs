//! Chance that comes out the same for the same seed.

/// SplitMix64: small, and good enough to make up letters.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`. The slight bias for small ones does not matter here.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// One of them.
    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let last = all.len() as u64;
        let index = usize::try_from(self.below(last)).unwrap_or_default();
        &all[index]
    }

    /// One of them, those with more weight more often.
    pub(crate) fn weigh<T: Copy>(&mut self, all: &[(u64, T)]) -> T {
        let total = all.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(total);
        for (weight, one) in all {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *one,
            }
        }
        unreachable!("invariant: what is left is below the sum of the weights")
    }
}
