//! Whether a queue is delivered, and whether its backlog grows.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{OpenProblem, ProblemKind, Severity, Situation, Trend, many, seconds, span};
use crate::{BreakerState, Counts, OutcomeCounts, Process, Queue, QueueMinutes, QueueName};

/// A queue whose oldest due message is younger is worked as it should be.
const LATE: Duration = Duration::from_secs(60);
/// Without a delivery for this long, nothing is delivered. Without an alert limit, this is also the age at
/// which a queue is old.
const QUIET: Duration = Duration::from_secs(5 * 60);
/// The backlog is compared with that of so long ago.
const COMPARED: Duration = Duration::from_secs(10 * 60);
/// So many more are noise.
const GROWTH_MIN: u64 = 10;

impl Situation {
    /// The problems of one queue: one about its deliveries, the worst; and what is held or paused.
    pub(super) fn of_queue(&self, queue: &Queue, counts: &Counts) -> Vec<OpenProblem> {
        let mut problems = Vec::new();
        if let Some(paused_at) = queue.paused_at {
            let text = format!("the queue is paused, {} due", many(counts.ready, "message"));
            problems.push(OpenProblem {
                count: counts.ready,
                since: Some(paused_at),
                ..problem(ProblemKind::Paused, Severity::Info, &queue.name, text)
            });
        } else {
            let found = self.breaker(queue, counts);
            let found = found.or_else(|| self.undelivered(queue, counts));
            problems.extend(found.or_else(|| self.late(queue, counts)));
        }
        if counts.held > 0 {
            let text = format!("{} held: resolve or unhold", many(counts.held, "message"));
            problems.push(OpenProblem {
                count: counts.held,
                ..problem(ProblemKind::Held, Severity::Low, &queue.name, text)
            });
        }
        problems
    }

    /// A breaker that keeps messages back. In part only, if another process works the queue without one.
    fn breaker(&self, queue: &Queue, counts: &Counts) -> Option<OpenProblem> {
        let of_queue = |open: &&crate::ProcessBreaker| open.queue == queue.name;
        let mut open: Vec<_> = (self.live())
            .flat_map(|process| process.breakers.iter().filter(of_queue))
            .collect();
        open.sort_by_key(|open| open.since);
        let first = open.first()?;
        let count = counts.waiting + counts.ready + counts.scheduled + counts.leased;
        if count == 0 {
            return None;
        }
        let state = match first.state {
            BreakerState::HalfOpen => "half-open, one message at a time is tried",
            BreakerState::Open | BreakerState::Closed => "open, nothing is sent",
        };
        let destination = &first.destination;
        let text = format!(
            "the breaker of {destination} is {state}; {} behind it",
            many(count, "message")
        );
        let is_open = |process: &Process| process.breakers.iter().any(|it| of_queue(&it));
        let mut works = self.live().filter(|it| it.queues.contains(&queue.name));
        let severity = if works.all(is_open) {
            Severity::Critical
        } else {
            Severity::High
        };
        Some(OpenProblem {
            count,
            since: Some(first.since),
            trend: self.backlog_trend(&queue.name, counts),
            ..problem(ProblemKind::Breaker, severity, &queue.name, text)
        })
    }

    /// Messages are due, and none is delivered.
    fn undelivered(&self, queue: &Queue, counts: &Counts) -> Option<OpenProblem> {
        let since = self.late_since(counts, LATE)?;
        let done = self.done_in(&queue.name, QUIET);
        if done.delivered > 0 {
            return None;
        }
        let is_worked = (self.live()).any(|process| process.queues.contains(&queue.name));
        let (kind, text) = if !is_worked && counts.leased == 0 && done.results() == 0 {
            let text = format!(
                "no process works the queue; {} due",
                many(counts.ready, "message")
            );
            (ProblemKind::NoWorker, text)
        } else if self.age(since) > seconds(QUIET) && (counts.leased == 0 || done.failed() > 0) {
            let text = format!(
                "nothing was delivered for {}: {} failed, {} due",
                span(seconds(QUIET)),
                many(done.failed(), "attempt"),
                many(counts.ready, "message")
            );
            (ProblemKind::NothingDelivered, text)
        } else {
            return None;
        };
        Some(OpenProblem {
            count: counts.ready,
            since: Some(since),
            trend: self.backlog_trend(&queue.name, counts),
            ..problem(kind, Severity::Critical, &queue.name, text)
        })
    }

    /// Messages are delivered too late, or later and later.
    fn late(&self, queue: &Queue, counts: &Counts) -> Option<OpenProblem> {
        let since = self.late_since(counts, LATE)?;
        let before = self.due_before(&queue.name);
        let due = many(counts.ready, "message");
        let (kind, text) =
            if counts.ready >= before + GROWTH_MIN.max(before / 5) && self.has_samples_before() {
                let ago = span(seconds(COMPARED));
                (
                    ProblemKind::BacklogGrows,
                    format!("{due} due, {before} were {ago} ago"),
                )
            } else {
                let limit = seconds(queue.policy.alert_age().unwrap_or(QUIET));
                if self.age(since) <= limit {
                    return None;
                }
                let limit = span(limit);
                (
                    ProblemKind::QueueOld,
                    format!("the oldest of {due} due waits for more than {limit}"),
                )
            };
        Some(OpenProblem {
            count: counts.ready,
            since: Some(since),
            trend: self.backlog_trend(&queue.name, counts),
            ..problem(kind, Severity::High, &queue.name, text)
        })
    }

    /// Since when the oldest message is due, if that is longer ago than `limit`.
    fn late_since(&self, counts: &Counts, limit: Duration) -> Option<Timestamp> {
        let since = counts.oldest_due_at?;
        (counts.ready > 0 && self.age(since) > seconds(limit)).then_some(since)
    }

    /// What was done in a queue in the last minutes.
    fn done_in(&self, queue: &QueueName, time: Duration) -> OutcomeCounts {
        let mut sum = OutcomeCounts::default();
        let minutes = self.minutes.iter();
        minutes
            .filter(|row| row.queue == *queue && self.age(row.minute) <= seconds(time))
            .for_each(|row| sum.add(row.done));
        sum
    }

    /// The row that the backlog is compared with: the newest that is old enough.
    fn is_compared(&self, row: &QueueMinutes) -> bool {
        let age = self.age(row.minute);
        (seconds(COMPARED)..seconds(COMPARED) + SignedDuration::from_mins(2)).contains(&age)
    }

    /// Whether anything was recorded then: without, growth is not known.
    fn has_samples_before(&self) -> bool {
        let is_old = |row: &QueueMinutes| self.age(row.minute) >= seconds(COMPARED);
        self.minutes.iter().any(is_old)
    }

    /// How many were due before.
    fn due_before(&self, queue: &QueueName) -> u64 {
        let rows = self.minutes.iter().filter(|row| row.queue == *queue);
        let compared = rows.filter(|row| self.is_compared(row));
        compared.map(|row| row.backlog.due).max().unwrap_or(0)
    }

    fn backlog_trend(&self, queue: &QueueName, counts: &Counts) -> Trend {
        if self.has_samples_before() {
            Trend::of(counts.ready, self.due_before(queue))
        } else {
            Trend::Same
        }
    }
}

fn problem(kind: ProblemKind, severity: Severity, queue: &QueueName, text: String) -> OpenProblem {
    let problem = OpenProblem::new(kind, severity, Some(queue), text);
    match kind {
        // One problem, whose reason changes.
        ProblemKind::Breaker
        | ProblemKind::NoWorker
        | ProblemKind::NothingDelivered
        | ProblemKind::BacklogGrows
        | ProblemKind::QueueOld => OpenProblem {
            key: format!("delivery:{queue}"),
            ..problem
        },
        _ => problem,
    }
}
