//! Counts of what a data file holds.

use std::collections::BTreeMap;

use consign_kernel::QueueName;
use serde::{Deserialize, Serialize};

use crate::Record;

/// How many rows of each kind a data file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages, one per line.
    pub messages: u64,
    /// Attempts of these messages.
    pub attempts: u64,
    /// Late results of these messages.
    pub late: u64,
}

impl Counts {
    fn add(&mut self, record: &Record) {
        self.messages += 1;
        self.attempts += record.attempts.len() as u64;
        self.late += record.late.len() as u64;
    }
}

/// The counts of all records and of each queue.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    pub(crate) queues: BTreeMap<QueueName, Counts>,
}

impl Tally {
    pub(crate) fn add(&mut self, record: &Record) {
        self.counts.add(record);
        let queue = record.message.queue.clone();
        self.queues.entry(queue).or_default().add(record);
    }
}
