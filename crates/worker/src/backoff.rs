//! Delays that double up to a cap.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// The next delay of a series. Pure: the jitter comes in as an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    steps: u32,
}

impl Backoff {
    /// Delays from `min` to `max`, whichever way round they are given.
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self {
            min: min.min(max),
            max: max.max(min),
            steps: 0,
        }
    }

    /// For a database that does not answer. Capped at a second, so that work resumes soon after
    /// it is back.
    pub(crate) fn for_database() -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(1))
    }

    /// The next delay: doubled each time, then shortened by up to half by `chance` in `[0, 1)`, so
    /// that many workers do not reconnect at the same moment.
    pub(crate) fn next(&mut self, chance: f64) -> Duration {
        let delay = self.current();
        self.steps = self.steps.saturating_add(1);
        delay.mul_f64(1.0 - chance / 2.0)
    }

    /// The delay the next step is taken from.
    pub(crate) fn current(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.steps.min(31)).unwrap_or(u32::MAX);
        self.min.saturating_mul(factor).min(self.max)
    }

    /// Back to the first delay.
    pub(crate) fn reset(&mut self) {
        self.steps = 0;
    }

    /// How many delays were taken since the last reset.
    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }
}

/// A random number in `[0, 1)`, for spreading delays. The standard library seeds every hasher at random,
/// which is as much as jitter needs.
pub(crate) fn chance() -> f64 {
    let bits = RandomState::new().hash_one(0_u8);
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_start_again_after_a_reset() {
        let mut backoff = Backoff::for_database();
        let mut series = |chance: f64| {
            let delays: Vec<u128> = (0..7).map(|_| backoff.next(chance).as_millis()).collect();
            backoff.reset();
            delays
        };
        assert_eq!(series(0.0), [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(series(0.5), [37, 75, 150, 300, 600, 750, 750]);
    }

    #[test]
    fn a_long_absence_does_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        for _ in 0..100 {
            assert!(backoff.next(0.0) <= Duration::from_secs(60));
        }
        backoff.steps = u32::MAX;
        assert_eq!(backoff.next(0.0), Duration::from_secs(60));
    }

    #[test]
    fn chances_differ_and_stay_in_range() {
        let drawn: Vec<f64> = (0..100).map(|_| chance()).collect();
        assert!(drawn.iter().all(|chance| (0.0..1.0).contains(chance)));
        assert!(drawn.iter().any(|chance| *chance != drawn[0]));
    }
}
