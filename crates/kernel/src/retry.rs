//! When to try again.

use std::{
    hash::{Hash, Hasher},
    mem,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Delay of a message after a failed try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RetrySchedule {
    /// The same delay every time.
    Fixed {
        /// The delay.
        delay_ms: u64,
    },
    /// A delay per try; the last one repeats.
    Table {
        /// The delays, first try first.
        delays_ms: Vec<u64>,
    },
    /// `base * factor^(try - 1)`, capped, then spread by jitter.
    Exponential {
        /// Delay after the first failed try.
        base_ms: u64,
        /// Growth per try.
        factor: f64,
        /// Cap before jitter.
        max_ms: u64,
        /// Fraction by which the delay is spread either way: 0.3 means 70 % to 130 %.
        jitter: f64,
    },
}

// Factors are validated finite numbers, so equality is total and bits can be hashed.
impl Eq for RetrySchedule {}

impl Hash for RetrySchedule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        mem::discriminant(self).hash(state);
        match self {
            Self::Fixed { delay_ms } => delay_ms.hash(state),
            Self::Table { delays_ms } => delays_ms.hash(state),
            Self::Exponential {
                base_ms,
                factor,
                max_ms,
                jitter,
            } => {
                (base_ms, factor.to_bits(), max_ms, jitter.to_bits()).hash(state);
            }
        }
    }
}

impl Default for RetrySchedule {
    fn default() -> Self {
        Self::Exponential {
            base_ms: 1_000,
            factor: 2.0,
            max_ms: 3_600_000,
            jitter: 0.2,
        }
    }
}

impl RetrySchedule {
    /// The delay after the `tries`-th failed try (from 1).
    ///
    /// `chance` is a random number in `[0, 1)`; 0.5 gives the delay without jitter.
    pub fn delay(&self, tries: u32, chance: f64) -> Duration {
        assert!(tries >= 1, "a delay follows a try");
        assert!((0.0..1.0).contains(&chance), "chance is in [0, 1)");
        let delay_ms = match self {
            Self::Fixed { delay_ms } => *delay_ms,
            Self::Table { delays_ms } => {
                let index = (tries as usize - 1).min(delays_ms.len().saturating_sub(1));
                delays_ms.get(index).copied().unwrap_or(0)
            }
            Self::Exponential {
                base_ms,
                factor,
                max_ms,
                jitter,
            } => {
                // The bounds of consign.retry_delay in SQL, where a float that overflows is an error.
                let exponent = (tries - 1).min(if *factor > 2.0 { 140 } else { 900 });
                let grown = *base_ms as f64 * factor.powi(exponent as i32);
                let capped = grown.min(*max_ms as f64);
                (capped * (1.0 + jitter * (2.0 * chance - 1.0))).floor() as u64
            }
        };
        Duration::from_millis(delay_ms)
    }

    pub(crate) fn validate(&self) -> Result<()> {
        const DELAY_MS_MAX: u64 = 366 * 24 * 3_600_000;
        let refuse = |why: String| Err(Error::invalid("policy.retry", why));
        match self {
            Self::Fixed { delay_ms } if *delay_ms > DELAY_MS_MAX => {
                refuse(format!("delay_ms is {delay_ms}; must be at most a year"))
            }
            Self::Table { delays_ms } if delays_ms.is_empty() => {
                refuse("delays_ms is empty; name at least one delay".into())
            }
            Self::Table { delays_ms } => match delays_ms.iter().find(|ms| **ms > DELAY_MS_MAX) {
                Some(ms) => refuse(format!("a delay is {ms} ms; must be at most a year")),
                None => Ok(()),
            },
            Self::Exponential { factor, .. } if !(1.0..=100.0).contains(factor) => {
                refuse(format!("factor is {factor}; must be from 1 to 100"))
            }
            Self::Exponential { jitter, .. } if !(0.0..=1.0).contains(jitter) => {
                refuse(format!("jitter is {jitter}; must be from 0 to 1"))
            }
            Self::Exponential {
                base_ms, max_ms, ..
            } if base_ms > max_ms || *max_ms > DELAY_MS_MAX => refuse(format!(
                "base_ms is {base_ms}, max_ms is {max_ms}; must be base_ms <= max_ms <= a year"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schedule: &RetrySchedule, chance: f64, expected_s: &[f64]) {
        for (tries, expected) in (1..).zip(expected_s) {
            let actual = schedule.delay(tries, chance).as_secs_f64();
            assert_eq!(actual, *expected, "{schedule:?} after try {tries}");
        }
    }

    #[test]
    fn each_kind_follows_its_table() {
        check(
            &RetrySchedule::Fixed { delay_ms: 1_500 },
            0.5,
            &[1.5, 1.5, 1.5],
        );
        let table = RetrySchedule::Table {
            delays_ms: vec![5_000, 10_000, 80_000],
        };
        check(&table, 0.0, &[5.0, 10.0, 80.0, 80.0]);
        let exponential = RetrySchedule::Exponential {
            base_ms: 60_000,
            factor: 2.0,
            max_ms: 3_600_000,
            jitter: 0.3,
        };
        // 60 s doubling to an hour.
        check(
            &exponential,
            0.5,
            &[60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0],
        );
        check(&exponential, 0.0, &[42.0, 84.0]);
        assert_eq!(
            exponential.delay(u32::MAX, 0.5).as_secs(),
            3_600,
            "no overflow"
        );
    }

    #[test]
    fn jitter_stays_within_its_fraction() {
        let schedule = RetrySchedule::default();
        for step in 0..100 {
            let delay = schedule.delay(1, f64::from(step) / 100.0).as_millis();
            assert!((800..=1_200).contains(&delay), "{delay}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let bad = [
            RetrySchedule::Table { delays_ms: vec![] },
            RetrySchedule::Exponential {
                base_ms: 10,
                factor: 2.0,
                max_ms: 5,
                jitter: 0.0,
            },
            RetrySchedule::Exponential {
                base_ms: 1,
                factor: 0.5,
                max_ms: 5,
                jitter: 0.0,
            },
            RetrySchedule::Exponential {
                base_ms: 1,
                factor: 2.0,
                max_ms: 5,
                jitter: 1.5,
            },
            RetrySchedule::Exponential {
                base_ms: 1,
                factor: f64::NAN,
                max_ms: 5,
                jitter: 0.1,
            },
        ];
        for schedule in bad {
            assert!(schedule.validate().is_err(), "{schedule:?}");
        }
    }
}
