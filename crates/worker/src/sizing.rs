//! How many messages to claim: what will be delivered soon, and no more.

use std::time::Duration;

/// Prefetched messages should be gone after this long, whatever the lease allows: another worker
/// may be idle.
const HORIZON_MAX: Duration = Duration::from_millis(500);
/// No sink is faster than this, for the purpose of guessing.
const DELIVERY_MIN_S: f64 = 1e-6;

/// How long deliveries of a queue take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Speed {
    /// Moving average; none before the first delivery.
    average_s: Option<f64>,
}

impl Speed {
    /// A delivery took this long.
    pub(crate) fn observe(&mut self, took: Duration) {
        let took = took.as_secs_f64().max(DELIVERY_MIN_S);
        let average = self.average_s.unwrap_or(took);
        self.average_s = Some(average + (took - average) / 16.0);
    }

    /// The oldest delivery under way has taken this long already. Deliveries that hang are never
    /// observed; this is how they are noticed.
    pub(crate) fn observe_pending(&mut self, age: Duration) {
        let age = age.as_secs_f64();
        if self.average_s.is_some_and(|average| average < age) {
            self.average_s = Some(age);
        }
    }

    /// Deliveries a second, `concurrency` at a time; none before the first delivery.
    fn per_second(&self, concurrency: u32) -> Option<f64> {
        self.average_s
            .map(|average| f64::from(concurrency) / average)
    }
}

/// What the size of a claim depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) speed: Speed,
    /// Deliveries allowed at once.
    pub(crate) concurrency: u32,
    /// How many more could start right now.
    pub(crate) slots_free: u32,
    pub(crate) rate_per_second: Option<u32>,
    pub(crate) lease_ttl: Duration,
    pub(crate) prefetch_max: u32,
    /// Whether nothing is claimed ahead of a free slot.
    pub(crate) only_free_slots: bool,
    /// Whether a claim takes all it may, and nothing is claimed before that is done.
    pub(crate) whole_batches: bool,
}

impl Demand {
    /// How many messages should be waiting: what fills the free slots, and what can be delivered
    /// within a sixth of a lease.
    pub(crate) fn target(&self) -> u32 {
        let horizon = (self.lease_ttl / 6).min(HORIZON_MAX).as_secs_f64();
        let by_speed = self
            .speed
            .per_second(self.concurrency)
            .filter(|_| !self.only_free_slots)
            .map_or(0.0, |rate| rate * horizon);
        // At least one, or a rate below two a second would never let anything start.
        let by_rate = self
            .rate_per_second
            .map_or(f64::MAX, |rate| (f64::from(rate) * horizon).max(1.0));
        let target = by_speed.max(f64::from(self.slots_free)).min(by_rate);
        // The cast saturates, and cuts what is less than a whole message.
        (target as u32).min(self.prefetch_max)
    }

    /// How many to claim while `waiting` are here already. Claims only once half is gone, so that
    /// a busy queue makes few large claims instead of many small ones.
    pub(crate) fn claim(&self, waiting: u32) -> u32 {
        if self.whole_batches {
            return if waiting == 0 && self.slots_free == self.concurrency {
                self.prefetch_max
            } else {
                0
            };
        }
        let target = self.target();
        if self.only_free_slots {
            return target.saturating_sub(waiting);
        }
        if waiting > target / 2 {
            return 0;
        }
        target - waiting
    }

    /// How many waiting messages should be released, because the sink has become slow.
    pub(crate) fn surplus(&self, waiting: u32) -> u32 {
        if self.whole_batches {
            return 0;
        }
        let bearable = self.target().saturating_mul(4).max(self.concurrency);
        waiting.saturating_sub(bearable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(delivery: Option<Duration>) -> Demand {
        let mut speed = Speed::default();
        if let Some(delivery) = delivery {
            speed.observe(delivery);
        }
        Demand {
            speed,
            concurrency: 16,
            slots_free: 16,
            rate_per_second: None,
            lease_ttl: Duration::from_secs(15),
            prefetch_max: 500,
            only_free_slots: false,
            whole_batches: false,
        }
    }

    /// What is claimed together is recorded together, however slow the sink.
    #[test]
    fn a_queue_of_whole_batches_claims_one_after_the_other() {
        for (slots_free, waiting, claim) in [(1, 0, 10), (0, 0, 0), (1, 3, 0), (0, 9, 0)] {
            let demand = Demand {
                concurrency: 1,
                slots_free,
                prefetch_max: 10,
                whole_batches: true,
                ..demand(Some(Duration::from_secs(4)))
            };
            assert_eq!(demand.claim(waiting), claim, "{slots_free} {waiting}");
            assert_eq!(demand.surplus(waiting), 0);
        }
    }

    /// What waits in a claimed batch waits for nothing but its lease to run out.
    #[test]
    fn a_queue_that_claims_for_free_slots_never_claims_ahead() {
        for (slots_free, waiting, claim) in
            [(16, 0, 16), (4, 0, 4), (4, 3, 1), (1, 1, 0), (0, 0, 0)]
        {
            let demand = Demand {
                slots_free,
                only_free_slots: true,
                ..demand(Some(Duration::ZERO))
            };
            assert_eq!(demand.claim(waiting), claim, "{slots_free} {waiting}");
        }
    }

    #[test]
    fn claims_follow_the_speed_of_deliveries() {
        let table = [
            // (a delivery takes, free slots, waiting, claim)
            (None, 16, 0, 16),
            (None, 0, 0, 0),
            (Some(Duration::ZERO), 16, 0, 500),
            (Some(Duration::ZERO), 0, 0, 500),
            (Some(Duration::ZERO), 0, 250, 250),
            (Some(Duration::ZERO), 0, 251, 0),
            (Some(Duration::from_millis(10)), 16, 0, 500),
            (Some(Duration::from_millis(100)), 0, 0, 80),
            (Some(Duration::from_secs(1)), 0, 0, 8),
            (Some(Duration::from_secs(1)), 16, 0, 16),
            (Some(Duration::from_secs(10)), 3, 0, 3),
            (Some(Duration::from_secs(10)), 0, 0, 0),
        ];
        for (took, slots_free, waiting, expected) in table {
            let demand = Demand {
                slots_free,
                ..demand(took)
            };
            assert_eq!(
                demand.claim(waiting),
                expected,
                "{took:?} {slots_free} {waiting}"
            );
        }
    }

    #[test]
    fn a_short_lease_or_a_low_rate_means_small_claims() {
        let fast = demand(Some(Duration::from_millis(10)));
        let short = Demand {
            lease_ttl: Duration::from_millis(120),
            ..fast
        };
        assert_eq!(short.claim(0), 32, "20 ms of work");
        for (rate, expected) in [(1, 1), (100, 50), (10_000, 500)] {
            let limited = Demand {
                rate_per_second: Some(rate),
                ..fast
            };
            assert_eq!(limited.claim(0), expected, "{rate}/s");
        }
    }

    #[test]
    fn a_sink_that_slows_down_gives_work_back() {
        let mut now_slow = demand(Some(Duration::from_millis(1)));
        now_slow.slots_free = 0;
        assert_eq!(now_slow.surplus(500), 0);
        now_slow.speed.observe_pending(Duration::from_secs(4));
        assert_eq!(now_slow.surplus(500), 484);
        assert_eq!(now_slow.surplus(16), 0);
    }

    #[test]
    fn the_average_follows_slowly_and_forgets() {
        let mut speed = Speed::default();
        speed.observe(Duration::from_secs(1));
        for _ in 0..200 {
            speed.observe(Duration::from_millis(1));
        }
        assert!(speed.per_second(1).unwrap() > 900.0);
    }
}
