//! Delays between attempts.

use consign_kernel::RetrySchedule;

/// Powers past this one exceed every cap.
const EXPONENT_MAX: u32 = 32;

/// The delay after the `retry_count`-th failed attempt, in whole seconds, at least one: `min(base *
/// 2^retry_count, max)`, spread by `jitter`. `chance` is a random number in `[0, 1)`; 0.5 gives the
/// delay without jitter.
///
/// For workers that use the seed's primitives; the queue's policy uses [`schedule`].
pub fn seconds(
    retry_count: u32,
    base_seconds: u64,
    max_seconds: u64,
    jitter: f64,
    chance: f64,
) -> u64 {
    let grown = base_seconds.saturating_mul(1 << retry_count.min(EXPONENT_MAX));
    let capped = grown.min(max_seconds) as f64;
    let spread = capped * (1.0 + jitter * (2.0 * chance - 1.0));
    (spread as u64).max(1)
}

/// The same as the policy of a queue, whose first delay follows the first attempt.
pub fn schedule(base_seconds: u64, max_seconds: u64, jitter: f64) -> RetrySchedule {
    let first_seconds = base_seconds.saturating_mul(2).min(max_seconds);
    RetrySchedule::Exponential {
        base_ms: first_seconds.saturating_mul(1_000),
        factor: 2.0,
        max_ms: max_seconds.saturating_mul(1_000),
        jitter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALMOST_ONE: f64 = 1.0 - f64::EPSILON;

    /// Without jitter, lowest, highest.
    const TABLE: [(u32, u64, u64, u64); 9] = [
        (0, 60, 42, 78),
        (1, 120, 84, 156),
        (2, 240, 168, 312),
        (3, 480, 336, 624),
        (4, 960, 672, 1_248),
        (5, 1_920, 1_344, 2_496),
        (6, 3_600, 2_520, 4_680),
        (10, 3_600, 2_520, 4_680),
        (u32::MAX, 3_600, 2_520, 4_680),
    ];

    #[test]
    fn rests_double_up_to_an_hour() {
        for (retry_count, even, lowest, highest) in TABLE {
            let rest = |chance| seconds(retry_count, 60, 3_600, 0.3, chance);
            assert_eq!(
                seconds(retry_count, 60, 3_600, 0.0, 0.9),
                even,
                "{retry_count}"
            );
            assert_eq!(rest(0.5), even, "{retry_count}");
            assert!(
                rest(0.0).abs_diff(lowest) <= 1,
                "{retry_count}: {}",
                rest(0.0)
            );
            assert!(
                rest(ALMOST_ONE).abs_diff(highest) <= 1,
                "{retry_count}: {}",
                rest(ALMOST_ONE)
            );
        }
    }

    #[test]
    fn a_rest_is_at_least_a_second_and_numbers_do_not_overflow() {
        assert_eq!(seconds(1, 100, 1_000, 0.3, 0.0), 140);
        assert!((259..=260).contains(&seconds(1, 100, 1_000, 0.3, ALMOST_ONE)));
        assert_eq!(seconds(0, 0, 3_600, 0.3, 0.5), 1);
        assert_eq!(seconds(3, 1, 1, 1.0, 0.0), 1);
        assert_eq!(seconds(u32::MAX, u64::MAX, 3_600, 0.0, 0.5), 3_600);
    }

    #[test]
    fn the_policy_of_the_queue_follows_the_same_table() {
        let schedule = schedule(60, 3_600, 0.3);
        for (tries, even, ..) in TABLE.into_iter().skip(1) {
            for chance in [0.0, 0.25, 0.5, ALMOST_ONE] {
                let rest = schedule.delay(tries, chance).as_secs();
                let wanted = seconds(tries, 60, 3_600, 0.3, chance);
                assert!(
                    rest.abs_diff(wanted) <= 1,
                    "{tries}, {chance}: {rest} or {wanted}"
                );
            }
            assert_eq!(schedule.delay(tries, 0.5).as_secs(), even);
        }
    }
}
