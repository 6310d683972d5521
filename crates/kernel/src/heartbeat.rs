//! Heartbeats of processes, and queue stats: what they did per minute.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    OWNER_BYTES_MAX, QueueName,
    error::{Error, Result},
    limits::validate_name,
};

/// How long heartbeats and the queue stats of a minute are kept.
pub const STATS_RETENTION: Duration = Duration::from_secs(25 * 3_600);
/// How long the queue stats of an hour are kept: seven days, and the hour in which they begin.
pub const HOURS_RETENTION: Duration = Duration::from_secs(169 * 3_600);
/// The longest step over which queue stats are added up, in minutes. Steps of whole hours are read from
/// the stats of hours, others from those of minutes.
pub const STATS_STEP_MAX: u32 = 24 * 60;
/// Queues whose backlog is sampled in a minute, at most: those with the most due messages.
pub const SAMPLED_QUEUES_MAX: u32 = 1_000;

/// The upper bounds of the buckets that the times of results are counted in; the last bucket has none.
pub const LATENCY_BOUNDS_MS: [u64; LATENCY_BUCKETS - 1] =
    [10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000];
/// How many buckets there are.
pub const LATENCY_BUCKETS: usize = 10;

/// How many processes are kept: those with the latest heartbeats.
pub const PROCESSES_KEPT: usize = 1_000;
/// Most queues in one heartbeat.
pub const HEARTBEAT_QUEUES_MAX: usize = 1_000;

/// Most breakers in one heartbeat.
pub const HEARTBEAT_BREAKERS_MAX: usize = 100;
/// The longest destination of a breaker.
pub const DESTINATION_BYTES_MAX: usize = 512;

const VERSION_BYTES_MAX: usize = 100;

/// Whether deliveries to a sink are let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Deliveries pass.
    Closed,
    /// The sink failed too often; nothing is sent for a while.
    Open,
    /// One delivery at a time is let through to see.
    HalfOpen,
}

/// What a process reports every few seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its name, as in leases.
    pub process: String,
    /// Which program it is.
    pub version: String,
    /// How long it has been running.
    pub running_for: Duration,
    /// The queues it works on, with what it did since its last heartbeat.
    pub queues: Vec<QueueStats>,
    /// The breakers of its sinks that are not closed.
    pub breakers: Vec<BreakerReport>,
    /// Whether the process ends now: from then on it works on no queue.
    pub is_last: bool,
}

/// A breaker that keeps deliveries back, as its process reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerReport {
    /// The queue.
    pub queue: QueueName,
    /// Where its sink delivers to, without secrets.
    pub destination: String,
    /// Its state; one that is closed is not recorded.
    pub state: BreakerState,
    /// How long it has kept deliveries back.
    pub lasts: Duration,
}

/// A breaker that keeps deliveries back, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessBreaker {
    /// The queue.
    pub queue: QueueName,
    /// Where its sink delivers to, without secrets.
    pub destination: String,
    /// Its state.
    pub state: BreakerState,
    /// Since when it keeps deliveries back, by the database's clock.
    pub since: Timestamp,
}

/// What a process did in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// Queue whose policy applies.
    pub queue: QueueName,
    /// What it did.
    pub done: OutcomeCounts,
}

/// Results by outcome, and the time they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OutcomeCounts {
    /// Delivered.
    pub delivered: u64,
    /// Failed, to be tried again if tries are left.
    pub retried: u64,
    /// Failed for good.
    pub dead: u64,
    /// The outcome is uncertain.
    pub uncertain: u64,
    /// All the deliveries together, in milliseconds.
    pub took_ms: u64,
    /// How many took how long: by the buckets of [`LATENCY_BOUNDS_MS`].
    pub latency: [u64; LATENCY_BUCKETS],
}

impl OutcomeCounts {
    /// Counts results that took a time each.
    pub fn count_latency(&mut self, took: Duration, results: u64) {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_MS.partition_point(|bound| *bound < took_ms);
        self.latency[bucket] = self.latency[bucket].saturating_add(results);
    }

    /// The time in milliseconds that a share of the results did not exceed, as exactly as the buckets
    /// have it: in its bucket, times count as spread evenly. `None` without counted times.
    pub fn percentile_ms(&self, percent: u64) -> Option<f64> {
        let all = self.latency.iter().sum::<u64>();
        if all == 0 {
            return None;
        }
        let rank = all as f64 * percent as f64 / 100.0;
        let mut below = 0_u64;
        for (bucket, results) in self.latency.iter().enumerate() {
            if *results > 0 && (below + results) as f64 >= rank {
                let low = match bucket {
                    0 => 0,
                    _ => LATENCY_BOUNDS_MS[bucket - 1],
                };
                // Of the last bucket, only its lower bound is known.
                let high = LATENCY_BOUNDS_MS.get(bucket).copied().unwrap_or(low);
                let share = (rank - below as f64) / *results as f64;
                return Some(low as f64 + (high - low) as f64 * share);
            }
            below += results;
        }
        None
    }

    /// How many results there were.
    pub fn results(&self) -> u64 {
        self.delivered.saturating_add(self.failed())
    }

    /// How many of them were no deliveries.
    pub fn failed(&self) -> u64 {
        let given_up = self.dead.saturating_add(self.uncertain);
        self.retried.saturating_add(given_up)
    }

    /// Adds what was done elsewhere.
    pub fn add(&mut self, other: Self) {
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.retried = self.retried.saturating_add(other.retried);
        self.dead = self.dead.saturating_add(other.dead);
        self.uncertain = self.uncertain.saturating_add(other.uncertain);
        self.took_ms = self.took_ms.saturating_add(other.took_ms);
        for (sum, more) in self.latency.iter_mut().zip(other.latency) {
            *sum = sum.saturating_add(more);
        }
    }
}

/// What all processes together did in a queue, over some minutes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueMinutes {
    /// Queue whose policy applies.
    pub queue: QueueName,
    /// The first of the minutes, by the database's clock.
    pub minute: Timestamp,
    /// What was done.
    pub done: OutcomeCounts,
    /// What was due, in the minute with the most.
    pub backlog: Backlog,
}

/// Messages that are due and wait, as sampled once a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Backlog {
    /// How many.
    pub due: u64,
    /// How long the oldest of them has been due, in milliseconds.
    pub oldest_ms: u64,
}

impl Backlog {
    /// The larger of both, number by number.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            due: self.due.max(other.due),
            oldest_ms: self.oldest_ms.max(other.oldest_ms),
        }
    }
}

/// A process, by its latest heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its name, as in leases.
    pub name: String,
    /// Which program it is.
    pub version: String,
    /// When it was started, by the database's clock.
    pub started_at: Timestamp,
    /// The time of its latest heartbeat, by the database's clock.
    pub seen_at: Timestamp,
    /// The queues it works on, by name; none after its last heartbeat.
    pub queues: Vec<QueueName>,
    /// The breakers of its sinks that are not closed, by queue.
    pub breakers: Vec<ProcessBreaker>,
}

impl Process {
    /// The process that sent a heartbeat at a time.
    pub fn at(now: Timestamp, heartbeat: &Heartbeat) -> Self {
        let is_alive = !heartbeat.is_last;
        let worked = heartbeat.queues.iter().map(|done| done.queue.clone());
        let mut queues: Vec<QueueName> = worked.filter(|_| is_alive).collect();
        queues.sort_unstable();
        queues.dedup();
        let before = |lasts: Duration| {
            let lasts = SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX);
            now.saturating_sub(lasts).unwrap_or(Timestamp::MIN)
        };
        let open = heartbeat.breakers.iter();
        let open = open.filter(|breaker| is_alive && breaker.state != BreakerState::Closed);
        let mut breakers: Vec<ProcessBreaker> = open
            .map(|breaker| ProcessBreaker {
                queue: breaker.queue.clone(),
                destination: breaker.destination.clone(),
                state: breaker.state,
                since: before(breaker.lasts),
            })
            .collect();
        breakers.sort_by(|a, b| (&a.queue, &a.destination).cmp(&(&b.queue, &b.destination)));
        Self {
            name: heartbeat.process.clone(),
            version: heartbeat.version.clone(),
            started_at: before(heartbeat.running_for),
            seen_at: now,
            queues,
            breakers,
        }
    }
}

impl Heartbeat {
    /// Rejects what no store can keep.
    pub fn validate(&self) -> Result<()> {
        for (what, text, bytes_max) in [
            ("process", &self.process, OWNER_BYTES_MAX),
            ("version", &self.version, VERSION_BYTES_MAX),
        ] {
            validate_name(what, text, bytes_max)?;
        }
        if self.queues.len() > HEARTBEAT_QUEUES_MAX {
            let why = format!("must be at most {HEARTBEAT_QUEUES_MAX}");
            let count = format!("a list of {}", self.queues.len());
            return Err(Error::out_of_bounds("queues", count, why));
        }
        if self.breakers.len() > HEARTBEAT_BREAKERS_MAX {
            let why = format!("must be at most {HEARTBEAT_BREAKERS_MAX}");
            let count = format!("a list of {}", self.breakers.len());
            return Err(Error::out_of_bounds("breakers", count, why));
        }
        for breaker in &self.breakers {
            validate_name("destination", &breaker.destination, DESTINATION_BYTES_MAX)?;
        }
        let sums = self.queues.iter().flat_map(|QueueStats { done, .. }| {
            let counts = [
                done.delivered,
                done.retried,
                done.dead,
                done.uncertain,
                done.took_ms,
            ];
            counts.into_iter().chain(done.latency)
        });
        // Far above what a process can do in a minute, far below what a database can add up.
        if sums.max().is_none_or(|most| most < 1 << 40) {
            Ok(())
        } else {
            Err(Error::invalid("queues", "holds a number of 2^40 or more"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_estimated_within_their_bucket() {
        let mut done = OutcomeCounts::default();
        assert_eq!(done.percentile_ms(50), None);
        done.count_latency(Duration::from_millis(10), 50);
        done.count_latency(Duration::from_millis(11), 40);
        done.count_latency(Duration::from_secs(60), 10);
        assert_eq!(done.latency[..2], [50, 40]);
        assert_eq!(done.latency[LATENCY_BUCKETS - 1], 10);
        assert_eq!(done.percentile_ms(25), Some(5.0));
        assert_eq!(done.percentile_ms(50), Some(10.0));
        assert_eq!(done.percentile_ms(70), Some(17.5));
        assert_eq!(done.percentile_ms(99), Some(10_000.0));
    }
}
