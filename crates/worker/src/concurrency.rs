//! How many deliveries at once: up by one a round on success, halved on failure or overload.

use std::time::Duration;

use tokio::time::Instant;

/// Failures of deliveries that started together count once.
const CUT_REST: Duration = Duration::from_millis(250);

/// The number of concurrent deliveries a sink sustains, between one and what policy allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concurrency {
    limit: f64,
    max: u32,
    last_cut: Option<Instant>,
}

impl Concurrency {
    /// Starts at what policy allows: a healthy sink should not have to wait for it.
    pub(crate) fn new(max: u32) -> Self {
        Self {
            limit: f64::from(max.max(1)),
            max: max.max(1),
            last_cut: None,
        }
    }

    /// How many deliveries may be under way now.
    pub(crate) fn now(&self) -> u32 {
        self.limit as u32
    }

    /// What policy allows.
    pub(crate) fn max(&self) -> u32 {
        self.max
    }

    /// Policy has changed. A limit that had not been cut moves along.
    pub(crate) fn set_max(&mut self, max: u32) {
        let max = max.max(1);
        let was_full = self.now() >= self.max;
        self.max = max;
        self.limit = if was_full {
            f64::from(max)
        } else {
            self.limit.min(f64::from(max))
        };
    }

    /// A delivery succeeded.
    pub(crate) fn succeeded(&mut self) {
        let max = f64::from(self.max);
        if self.limit < max {
            self.limit = (self.limit + 1.0 / self.limit).min(max);
        }
    }

    /// The sink failed, or was overloaded.
    pub(crate) fn record_overload(&mut self, now: Instant) {
        let rested = |cut: Instant| now.saturating_duration_since(cut) >= CUT_REST;
        if self.last_cut.is_none_or(rested) {
            self.last_cut = Some(now);
            self.limit = (self.limit / 2.0).max(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffering_halves_once_a_round_and_never_below_one() {
        let start = Instant::now();
        let mut concurrency = Concurrency::new(16);
        let mut seen = Vec::new();
        for ms in [0, 10, 250, 500, 750, 1_000, 1_250] {
            concurrency.record_overload(start + Duration::from_millis(ms));
            seen.push(concurrency.now());
        }
        assert_eq!(seen, [8, 8, 4, 2, 1, 1, 1]);
    }

    #[test]
    fn success_adds_one_a_round_up_to_policy() {
        let mut concurrency = Concurrency::new(8);
        concurrency.record_overload(Instant::now());
        assert_eq!(concurrency.now(), 4);
        for _ in 0..5 {
            concurrency.succeeded();
        }
        assert_eq!(concurrency.now(), 5);
        for _ in 0..1_000 {
            concurrency.succeeded();
        }
        assert_eq!(concurrency.now(), 8);
    }

    #[test]
    fn a_change_of_policy_takes_effect_at_once_both_ways() {
        let mut concurrency = Concurrency::new(8);
        concurrency.set_max(32);
        assert_eq!(concurrency.now(), 32);
        concurrency.set_max(4);
        assert_eq!(concurrency.now(), 4);
        concurrency.record_overload(Instant::now());
        concurrency.set_max(32);
        assert_eq!(
            concurrency.now(),
            2,
            "a suffering sink is not flooded by a change of policy"
        );
    }
}
