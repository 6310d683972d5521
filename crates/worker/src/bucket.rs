//! A token bucket: how a rate is kept.

use std::time::Duration;

use tokio::time::Instant;

/// Lets through `rate` a second, and a tenth of a second's worth at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// A bucket for `rate_per_second`, full at first.
    pub(crate) fn new(now: Instant, rate_per_second: u32) -> Self {
        Self::with_burst(now, rate_per_second, f64::from(rate_per_second) / 10.0)
    }

    /// A bucket that holds up to `burst`, but no less than one.
    pub(crate) fn with_burst(now: Instant, rate_per_second: u32, burst: f64) -> Self {
        let burst = burst.max(1.0);
        Self {
            rate: f64::from(rate_per_second.max(1)),
            burst,
            tokens: burst,
            at: now,
        }
    }

    /// Takes a token, or says how long until there is one.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.burst);
        self.at = self.at.max(now);
        // Rounding must not leave a taker waiting for a billionth of a token.
        if self.tokens + 1e-9 >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.tokens) / self.rate))
    }

    /// Whether this bucket keeps the given rate.
    pub(crate) fn keeps(&self, rate_per_second: u32) -> bool {
        self.rate == f64::from(rate_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_within(rate: u32, seconds: u64) -> u32 {
        let start = Instant::now();
        let mut bucket = Bucket::new(start, rate);
        (0..seconds * 1_000)
            .map(|ms| start + Duration::from_millis(ms))
            .map(|now| {
                let mut taken = 0;
                while bucket.take(now).is_ok() {
                    taken += 1;
                }
                taken
            })
            .sum()
    }

    #[test]
    fn the_rate_is_kept_with_a_small_burst() {
        for (rate, burst) in [(1, 1), (10, 1), (100, 10), (2_000, 200)] {
            let taken = taken_within(rate, 10);
            let expected = rate * 10;
            assert!(
                (expected - 2..=expected + burst).contains(&taken),
                "{rate}/s: {taken} in 10 s"
            );
        }
    }

    #[test]
    fn an_empty_bucket_says_when_to_come_back() {
        let now = Instant::now();
        let mut bucket = Bucket::new(now, 4);
        assert_eq!(bucket.take(now), Ok(()));
        let wait = bucket.take(now).unwrap_err();
        assert_eq!(wait, Duration::from_millis(250));
        assert_eq!(bucket.take(now + wait), Ok(()));
    }
}
