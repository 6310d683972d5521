//! What stores know of problems: what shows in no count, and what operators acknowledged.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ACKNOWLEDGED_MAX, PROBLEM_KEY_BYTES_MAX, Severity};
use crate::{
    AlertReason, By, QueueName, ScheduleName,
    error::{Error, Result},
    limits::validate_name,
    plan::later,
};

/// A problem to acknowledge, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemMark {
    /// Its key.
    pub problem: String,
    /// How bad it was.
    pub severity: Severity,
    /// The queue it is about, for the audit.
    pub queue: Option<QueueName>,
    /// For how long.
    pub lasts: Duration,
}

impl ProblemMark {
    /// Rejects what no store can keep.
    pub fn validate(&self) -> Result<()> {
        validate_name("problem", &self.problem, PROBLEM_KEY_BYTES_MAX)?;
        if self.lasts.is_zero() || self.lasts > ACKNOWLEDGED_MAX {
            let given = format!("{} ms", self.lasts.as_millis());
            return Err(Error::out_of_bounds(
                "for",
                given,
                "must be from 1 ms to 30 days",
            ));
        }
        Ok(())
    }

    /// The acknowledgement of it by an operator.
    pub fn at(&self, now: Timestamp, by: &By) -> Acknowledgement {
        Acknowledgement {
            problem: self.problem.clone(),
            severity: self.severity,
            at: now,
            until: later(now, self.lasts),
            actor: by.actor.clone(),
            reason: by.reason.clone(),
        }
    }
}

/// That an operator knows a problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// The key of the problem.
    pub problem: String,
    /// How bad it was: a worse one is not acknowledged.
    pub severity: Severity,
    /// When.
    pub at: Timestamp,
    /// Until when it holds.
    pub until: Timestamp,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
}

/// Groups of an ordered queue behind a dead message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedGroups {
    /// The queue.
    pub queue: QueueName,
    /// How many.
    pub groups: u64,
    /// Since when the first of them waits.
    pub since: Timestamp,
}

/// Alerts that the queue they are for did not take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckAlert {
    /// The queue they are about.
    pub queue: QueueName,
    /// What they are about.
    pub reason: AlertReason,
    /// The code, empty without one.
    pub code: String,
    /// Events that are pending.
    pub pending: u64,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub failure: String,
}

/// A schedule whose tick was due and is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverdueSchedule {
    /// Its name.
    pub name: ScheduleName,
    /// Where its messages go.
    pub queue: QueueName,
    /// When the tick was due.
    pub due_at: Timestamp,
}

/// What needs an operator and shows in no count, and what operators acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attention {
    /// The database's clock.
    pub now: Timestamp,
    /// Queues with blocked groups, by name.
    pub blocked: Vec<BlockedGroups>,
    /// By queue, reason and code.
    pub alerts: Vec<StuckAlert>,
    /// The most overdue first.
    pub overdue: Vec<OverdueSchedule>,
    /// Those that have not ended, by problem.
    pub acknowledgements: Vec<Acknowledgement>,
}
