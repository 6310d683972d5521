//! Delivery rates by queue.

use std::collections::BTreeMap;

use consign_kernel::{Backlog, OutcomeCounts, QueueMinutes, QueueName};
use jiff::{SignedDuration, Timestamp};

use super::{
    chart::{Chart, sparkline},
    words::count,
};
use crate::{problem::Problem, state::AppState};

/// How far back is looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Window {
    #[default]
    Hour,
    Day,
    Week,
}

impl Window {
    /// Every window with its words.
    pub(super) const ALL: [(&'static str, Self); 3] = [
        ("Last hour", Self::Hour),
        ("Last day", Self::Day),
        ("Last 7 days", Self::Week),
    ];

    /// The window in the address; the hour by default.
    pub(super) fn read(word: Option<&str>) -> Self {
        match word {
            Some("day" | "24h") => Self::Day,
            Some("week" | "7d") => Self::Week,
            _ => Self::Hour,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    /// Minutes in all, and in one point of a drawing.
    pub(super) fn minutes(self) -> (u32, u32) {
        match self {
            Self::Hour => (60, 1),
            Self::Day => (24 * 60, 30),
            Self::Week => (7 * 24 * 60, 120),
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
            Self::Week => 1,
        }
    }
}

/// What was done in the time of one point, and what was due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Its beginning.
    pub(super) at: Timestamp,
    pub(super) done: OutcomeCounts,
    pub(super) backlog: Backlog,
}

/// What was done in every queue, oldest first.
pub(super) struct Rates {
    window: Window,
    /// The beginning of the first point.
    begin: Timestamp,
    by_queue: BTreeMap<QueueName, Vec<Point>>,
}

/// What was done in one, in words.
pub(super) struct QueueRates {
    /// Deliveries a minute lately.
    pub(super) per_minute: String,
    /// Results that were no deliveries, of all.
    pub(super) errors: String,
    pub(super) has_errors: bool,
    pub(super) delivered: Chart,
}

impl Rates {
    /// No results.
    pub(super) fn none(window: Window, now: Timestamp) -> Self {
        let step = i64::from(window.minutes().1) * 60;
        let last = now.as_second().div_euclid(step);
        let begin = (last + 1 - window.points() as i64) * step;
        Self {
            window,
            begin: Timestamp::from_second(begin).unwrap_or(Timestamp::MIN),
            by_queue: BTreeMap::new(),
        }
    }

    /// Those that were read.
    pub(super) fn of_rows(window: Window, now: Timestamp, rows: &[QueueMinutes]) -> Self {
        let mut rates = Self::none(window, now);
        rows.iter().for_each(|row| rates.add(row));
        rates
    }

    pub(super) async fn look(
        state: &AppState,
        queue: Option<&QueueName>,
        window: Window,
    ) -> Result<Self, Problem> {
        let (minutes, step) = window.minutes();
        let rows = state.store.queue_stats(queue, minutes, step).await?;
        Ok(Self::of_rows(window, (state.clock)(), &rows))
    }

    fn add(&mut self, row: &QueueMinutes) {
        let (begin, step) = (self.begin, i64::from(self.window.minutes().1) * 60);
        let last = self.window.points() - 1;
        let index = (row.minute.as_second() - begin.as_second()).div_euclid(step);
        // The window may begin within a point. This clock and the database's may differ.
        let Ok(index) = usize::try_from(index) else {
            return;
        };
        let all = self.by_queue.entry(row.queue.clone());
        let all = all.or_insert_with(|| empty(begin, step, last + 1));
        let point = &mut all[index.min(last)];
        point.done.add(row.done);
        point.backlog = point.backlog.max(row.backlog);
    }

    /// The points of a queue.
    pub(super) fn points(&self, queue: &QueueName) -> Vec<Point> {
        let known = self.by_queue.get(queue).cloned();
        known.unwrap_or_else(|| self.empty())
    }

    /// Those of all queues together.
    pub(super) fn all(&self) -> Vec<Point> {
        let mut sums = self.empty();
        for points in self.by_queue.values() {
            for (sum, point) in sums.iter_mut().zip(points) {
                sum.done.add(point.done);
                sum.backlog = Backlog {
                    due: sum.backlog.due + point.backlog.due,
                    oldest_ms: sum.backlog.oldest_ms.max(point.backlog.oldest_ms),
                };
            }
        }
        sums
    }

    fn empty(&self) -> Vec<Point> {
        let step = i64::from(self.window.minutes().1) * 60;
        empty(self.begin, step, self.window.points())
    }

    pub(super) fn of(&self, queue: &QueueName) -> QueueRates {
        self.words(&self.points(queue))
    }

    /// Rates of these points in words.
    pub(super) fn words(&self, points: &[Point]) -> QueueRates {
        let mut whole = OutcomeCounts::default();
        points.iter().for_each(|point| whole.add(point.done));
        let lately = points.iter().rev().take(self.window.recent());
        let delivered: u64 = lately.map(|point| point.done.delivered).sum();
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
            delivered: sparkline(
                "Delivered",
                &points
                    .iter()
                    .map(|point| point.done.delivered as f64)
                    .collect::<Vec<_>>(),
            ),
        }
    }
}

fn empty(begin: Timestamp, step: i64, points: usize) -> Vec<Point> {
    let point = |index: usize| Point {
        at: begin
            .saturating_add(SignedDuration::from_secs(index as i64 * step))
            .expect("invariant: adding a duration saturates"),
        done: OutcomeCounts::default(),
        backlog: Backlog::default(),
    };
    (0..points).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_lately_and_errors_those_of_the_window() {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        let queue: QueueName = "mail".parse().unwrap();
        let row = |queue: &str, minutes: i64, delivered, dead, due| QueueMinutes {
            queue: queue.parse().unwrap(),
            minute: Timestamp::from_second(now.as_second() / 60 * 60 - minutes * 60).unwrap(),
            done: OutcomeCounts {
                delivered,
                dead,
                ..OutcomeCounts::default()
            },
            backlog: Backlog {
                due,
                oldest_ms: due * 10,
            },
        };
        let rows = [
            row("mail", 0, 10, 0, 0),
            row("mail", 30, 80, 10, 5),
            row("mail", 59, 0, 0, 0),
            row("mail", 61, 1_000, 0, 0),
            row("mail", -3, 5, 0, 0),
            row("jobs", 30, 1, 0, 7),
        ];
        let rates = Rates::of_rows(Window::Hour, now, &rows);
        let shown = rates.of(&queue);
        assert_eq!(shown.per_minute, "3.0");
        assert_eq!(shown.errors, "9.5 %");
        assert!(shown.has_errors);
        let nothing = rates.of(&"other".parse().unwrap());
        assert_eq!(
            (nothing.per_minute.as_str(), nothing.errors.as_str()),
            ("0", "–")
        );
        let all = rates.all();
        assert_eq!((all.len(), all[59].done.delivered), (60, 15));
        let half = &all[29];
        assert_eq!((half.done.delivered, half.backlog.due), (81, 12));
        assert_eq!(half.backlog.oldest_ms, 70);
    }
}
