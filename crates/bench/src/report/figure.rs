//! One measured thing, its target, and whether it was met.

use serde::{Deserialize, Serialize};

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Messages per second.
    MessagesPerSecond,
    /// Bytes per message.
    BytesPerMessage,
    /// Something counted, per message.
    PerMessage,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds of processor time per message.
    MicrosecondsPerMessage,
    /// Seconds.
    Seconds,
    /// Something counted.
    Count,
    /// Something counted, per second.
    PerSecond,
    /// Parts of a hundred.
    Percent,
    /// Mebibytes of memory.
    Mebibytes,
}

/// What consign is compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Against {
    /// Which: the control, or consign under other conditions.
    pub name: &'static str,
    /// Its median.
    pub value: f64,
}

/// Which number a target is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// consign's own value.
    Value,
    /// consign's value divided by what it is compared with.
    Ratio,
}

/// Which side of a target is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The target or more.
    AtLeast,
    /// The target or less.
    AtMost,
}

/// What a figure should reach.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Target {
    /// Which number.
    pub measure: Measure,
    /// Which side.
    pub bound: Bound,
    /// How much.
    pub limit: f64,
}

/// One measured thing.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// consign's median over the rounds.
    pub value: f64,
    /// What it is compared with, if anything.
    pub against: Option<Against>,
    /// Median of the ratios of the rounds.
    pub ratio: Option<f64>,
    /// What it should reach, if there is a target.
    pub target: Option<Target>,
    /// Whether it did.
    pub met: Option<bool>,
    /// consign's value and the other's, round by round.
    pub rounds: Vec<(f64, Option<f64>)>,
}

impl Figure {
    /// consign's value alone.
    pub(crate) fn alone(name: impl Into<String>, unit: Unit, rounds: &[f64]) -> Self {
        Self {
            name: name.into(),
            unit,
            value: median(rounds.iter().copied()),
            against: None,
            ratio: None,
            target: None,
            met: None,
            rounds: rounds.iter().map(|value| (*value, None)).collect(),
        }
    }

    /// consign's value beside another, which took turns with it.
    pub(crate) fn beside(
        name: impl Into<String>,
        unit: Unit,
        against: &'static str,
        rounds: &[(f64, f64)],
    ) -> Self {
        let own: Vec<f64> = rounds.iter().map(|(own, _)| *own).collect();
        Self {
            against: Some(Against {
                name: against,
                value: median(rounds.iter().map(|(_, other)| *other)),
            }),
            ratio: Some(median(rounds.iter().map(|(own, other)| own / other)))
                .filter(|ratio| ratio.is_finite()),
            rounds: rounds
                .iter()
                .map(|(own, other)| (*own, Some(*other)))
                .collect(),
            ..Self::alone(name, unit, &own)
        }
    }

    /// Sets the target and judges.
    pub(crate) fn target(self, measure: Measure, bound: Bound, limit: f64) -> Self {
        let judged = match measure {
            Measure::Value => Some(self.value),
            Measure::Ratio => self.ratio,
        };
        let met = judged.map(|judged| match bound {
            Bound::AtLeast => judged >= limit,
            Bound::AtMost => judged <= limit,
        });
        let target = Target {
            measure,
            bound,
            limit,
        };
        Self {
            target: Some(target),
            met,
            ..self
        }
    }
}

/// The middle value; of an even number, the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        // The machine slowed down in the second round: the ratio does not notice.
        let rounds = [(400.0, 100.0), (40.0, 10.0), (410.0, 100.0)];
        let figure = Figure::beside("x", Unit::MessagesPerSecond, "control", &rounds);
        assert_eq!(figure.ratio, Some(4.0));
        assert_eq!(figure.value, 400.0);
        assert_eq!(figure.against.unwrap().value, 100.0);
    }

    #[test]
    fn a_target_is_met_at_its_limit_and_missed_beyond_it() {
        let figure = |value| Figure::alone("x", Unit::Milliseconds, &[value]);
        let at_most = |value| {
            figure(value)
                .target(Measure::Value, Bound::AtMost, 100.0)
                .met
        };
        assert_eq!(at_most(100.0), Some(true));
        assert_eq!(at_most(100.1), Some(false));
        let at_least = |value| {
            figure(value)
                .target(Measure::Value, Bound::AtLeast, 100.0)
                .met
        };
        assert_eq!(at_least(100.0), Some(true));
        assert_eq!(at_least(99.9), Some(false));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), 2.5);
    }
}
