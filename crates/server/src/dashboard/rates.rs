//! Delivery rates by queue.

use std::collections::BTreeMap;

use consign_kernel::{OutcomeCounts, QueueName};
use jiff::Timestamp;

use super::{
    chart::{Chart, bars, sparkline},
    words::count,
};
use crate::{problem::Problem, state::AppState};

/// How far back is looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Window {
    #[default]
    Hour,
    Day,
}

impl Window {
    /// The window in the address; the hour by default.
    pub(super) fn read(word: Option<&str>) -> Self {
        match word {
            Some("day") => Self::Day,
            _ => Self::Hour,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    /// Minutes in all, and in one point of a drawing.
    fn minutes(self) -> (u32, u32) {
        match self {
            Self::Hour => (60, 1),
            Self::Day => (24 * 60, 30),
        }
    }

    fn points(self) -> usize {
        let (minutes, step) = self.minutes();
        (minutes / step) as usize
    }

    /// Points that are "lately".
    fn recent(self) -> usize {
        match self {
            Self::Hour => 5,
            Self::Day => 2,
        }
    }
}

/// What was done in every queue, oldest first.
pub(super) struct Rates {
    window: Window,
    by_queue: BTreeMap<QueueName, Vec<OutcomeCounts>>,
}

/// What was done in one, in words.
pub(super) struct QueueRates {
    /// Deliveries a minute lately.
    pub(super) per_minute: String,
    /// Results that were no deliveries, of all.
    pub(super) errors: String,
    pub(super) has_errors: bool,
    /// How long a delivery took on average.
    pub(super) took: String,
    pub(super) delivered: Chart,
    pub(super) results: Chart,
    pub(super) latency: Chart,
}

impl Rates {
    /// No results.
    pub(super) fn none(window: Window) -> Self {
        Self {
            window,
            by_queue: BTreeMap::new(),
        }
    }

    pub(super) async fn look(
        state: &AppState,
        queue: Option<&QueueName>,
        window: Window,
    ) -> Result<Self, Problem> {
        let (minutes, step) = window.minutes();
        let done = state.store.queue_stats(queue, minutes, step).await?;
        let now = (state.clock)();
        let mut rates = Self::none(window);
        for part in done {
            rates.add(part.queue, part.minute, part.done, now);
        }
        Ok(rates)
    }

    fn add(&mut self, queue: QueueName, minute: Timestamp, done: OutcomeCounts, now: Timestamp) {
        let (points, (_, step)) = (self.window.points(), self.window.minutes());
        let step = i64::from(step) * 60;
        let age = now.as_second().div_euclid(step) - minute.as_second().div_euclid(step);
        let all = self
            .by_queue
            .entry(queue)
            .or_insert_with(|| vec![OutcomeCounts::default(); points]);
        // This clock and the database's may differ, and the window may begin within a point.
        let age = usize::try_from(age.max(0)).unwrap_or(usize::MAX);
        if let Some(at) = points.checked_sub(1).and_then(|last| last.checked_sub(age)) {
            all[at].add(done);
        }
    }

    pub(super) fn of(&self, queue: &QueueName) -> QueueRates {
        let none = vec![OutcomeCounts::default(); self.window.points()];
        let points = self.by_queue.get(queue).unwrap_or(&none);
        let mut whole = OutcomeCounts::default();
        points.iter().for_each(|done| whole.add(*done));
        let lately = points.iter().rev().take(self.window.recent());
        let delivered: u64 = lately.map(|done| done.delivered).sum();
        let minutes = self.window.recent() as u64 * u64::from(self.window.minutes().1);
        let per_minute = delivered as f64 / minutes as f64;
        QueueRates {
            per_minute: match per_minute {
                0.0 => "0".to_owned(),
                few if few < 10.0 => format!("{few:.1}"),
                many => count(many.round() as u64),
            },
            errors: match whole.results() {
                0 => "–".to_owned(),
                all => format!("{:.1} %", whole.failed() as f64 * 100.0 / all as f64),
            },
            has_errors: whole.failed() > 0,
            took: match whole.took_ms.checked_div(whole.results()) {
                None => "–".to_owned(),
                Some(average) => format!("{} ms", count(average)),
            },
            delivered: sparkline(
                "Delivered",
                &points
                    .iter()
                    .map(|done| done.delivered as f64)
                    .collect::<Vec<_>>(),
            ),
            results: bars(
                "Results and failures",
                &points
                    .iter()
                    .map(|done| (done.results() as f64, done.failed() as f64))
                    .collect::<Vec<_>>(),
            ),
            latency: sparkline(
                "Milliseconds a delivery",
                &points.iter().map(average).collect::<Vec<_>>(),
            ),
        }
    }
}

fn average(done: &OutcomeCounts) -> f64 {
    match done.results() {
        0 => 0.0,
        all => done.took_ms as f64 / all as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_lately_and_errors_those_of_the_window() {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        let queue: QueueName = "mail".parse().unwrap();
        let mut rates = Rates {
            window: Window::Hour,
            by_queue: BTreeMap::new(),
        };
        let at = |minutes: i64| Timestamp::from_second(now.as_second() - minutes * 60).unwrap();
        let done = |delivered, dead| OutcomeCounts {
            delivered,
            dead,
            took_ms: 100 * (delivered + dead),
            ..OutcomeCounts::default()
        };
        rates.add(queue.clone(), at(0), done(10, 0), now);
        rates.add(queue.clone(), at(30), done(80, 10), now);
        rates.add(queue.clone(), at(59), done(0, 0), now);
        rates.add(queue.clone(), at(61), done(1_000, 0), now);
        rates.add(queue.clone(), at(-3), done(5, 0), now);
        let shown = rates.of(&queue);
        assert_eq!(shown.per_minute, "3.0");
        assert_eq!(shown.errors, "9.5 %");
        assert!(shown.has_errors);
        assert_eq!(shown.took, "100 ms");
        let nothing = rates.of(&"other".parse().unwrap());
        assert_eq!(
            (nothing.per_minute.as_str(), nothing.errors.as_str()),
            ("0", "–")
        );
    }
}
