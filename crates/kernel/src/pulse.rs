//! Signs of life: which processes there are, and what they have done lately.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    OWNER_BYTES_MAX, QueueName,
    error::{Error, Result},
    limits::validate_name,
};

/// How long signs of life are kept.
pub const PULSES_KEPT: Duration = Duration::from_secs(25 * 3_600);
/// The longest step over which they are added up.
pub const PULSE_STEP_MAX: u32 = 60;

/// How many processes are kept: those that were heard of last.
pub const PROCESSES_KEPT: usize = 1_000;
/// Most queues in one pulse.
pub const PULSE_QUEUES_MAX: usize = 1_000;

const VERSION_BYTES_MAX: usize = 100;

/// What a process tells of itself, every few seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Its name, as in leases.
    pub process: String,
    /// Which program it is.
    pub version: String,
    /// How long it has been running.
    pub running_for: Duration,
    /// The queues it works on, with what it did since its last pulse.
    pub queues: Vec<QueuePulse>,
}

/// What a process did in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePulse {
    /// The queue.
    pub queue: QueueName,
    /// What it did.
    pub done: Done,
}

/// Results by outcome, and the time they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Done {
    /// Delivered.
    pub delivered: u64,
    /// Failed, to be tried again if tries are left.
    pub retried: u64,
    /// Failed for good.
    pub dead: u64,
    /// Nobody knows.
    pub uncertain: u64,
    /// All the deliveries together, in milliseconds.
    pub took_ms: u64,
}

impl Done {
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
    /// The queue.
    pub queue: QueueName,
    /// The first of the minutes, by the database's clock.
    pub minute: Timestamp,
    /// What was done.
    pub done: Done,
}

/// A process as it was last heard of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its name, as in leases.
    pub name: String,
    /// Which program it is.
    pub version: String,
    /// When it was started, by the database's clock.
    pub started_at: Timestamp,
    /// When it was last heard of, by the database's clock.
    pub seen_at: Timestamp,
    /// The queues it works on, by name.
    pub queues: Vec<QueueName>,
}

impl Pulse {
    /// Refuses what no store could keep.
    pub fn validate(&self) -> Result<()> {
        for (what, text, bytes_max) in [
            ("process", &self.process, OWNER_BYTES_MAX),
            ("version", &self.version, VERSION_BYTES_MAX),
        ] {
            validate_name(what, text, bytes_max)?;
        }
        if self.queues.len() > PULSE_QUEUES_MAX {
            let why = format!("must be at most {PULSE_QUEUES_MAX}");
            return Err(Error::invalid("queues", why));
        }
        let sums = self.queues.iter().flat_map(|QueuePulse { done, .. }| {
            [
                done.delivered,
                done.retried,
                done.dead,
                done.uncertain,
                done.took_ms,
            ]
        });
        // Far above what a process can do in a minute, far below what a database can add up.
        match sums.max().is_none_or(|most| most < 1 << 40) {
            true => Ok(()),
            false => Err(Error::invalid(
                "queues",
                "holds a number that cannot be true",
            )),
        }
    }
}
