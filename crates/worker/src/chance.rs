//! A little randomness, for spreading delays.

use std::hash::{BuildHasher, RandomState};

/// A random number in `[0, 1)`. The standard library seeds every hasher at random, which is as
/// much as jitter needs.
pub(crate) fn chance() -> f64 {
    let bits = RandomState::new().hash_one(0_u8);
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::chance;

    #[test]
    fn chances_differ_and_stay_in_range() {
        let drawn: Vec<f64> = (0..100).map(|_| chance()).collect();
        assert!(drawn.iter().all(|chance| (0.0..1.0).contains(chance)));
        assert!(drawn.iter().any(|chance| *chance != drawn[0]));
    }
}
