//! Heartbeats of processes, and queue stats: what they did per minute.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    OWNER_BYTES_MAX, QueueName,
    error::{Error, Result},
    limits::validate_name,
};

/// How long heartbeats and queue stats are kept.
pub const STATS_RETENTION: Duration = Duration::from_secs(25 * 3_600);
/// The longest step over which queue stats are added up.
pub const STATS_STEP_MAX: u32 = 60;

/// How many processes are kept: those with the latest heartbeats.
pub const PROCESSES_KEPT: usize = 1_000;
/// Most queues in one heartbeat.
pub const HEARTBEAT_QUEUES_MAX: usize = 1_000;

const VERSION_BYTES_MAX: usize = 100;

/// What a process reports every few seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its name, as in leases.
    pub process: String,
    /// Which program it is.
    pub version: String,
    /// How long it has been running.
    pub running_for: Duration,
    /// The queues it works on, with what it did since its last heartbeat.
    pub queues: Vec<QueueStats>,
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
}

impl OutcomeCounts {
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
    /// The queues it works on, by name.
    pub queues: Vec<QueueName>,
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
        let sums = self.queues.iter().flat_map(|QueueStats { done, .. }| {
            [
                done.delivered,
                done.retried,
                done.dead,
                done.uncertain,
                done.took_ms,
            ]
        });
        // Far above what a process can do in a minute, far below what a database can add up.
        if sums.max().is_none_or(|most| most < 1 << 40) {
            Ok(())
        } else {
            Err(Error::invalid("queues", "holds a number of 2^40 or more"))
        }
    }
}
