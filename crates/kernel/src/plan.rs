//! What an operation changes, as pure functions: rows and facts in, rows to write out.
//!
//! The reference store and SQLite write what these return. PostgreSQL decides the same in SQL,
//! because workers in other languages call it there; the conformance suite checks that they agree.

mod alert;
mod claim;
mod enqueue;
mod erase;
mod expired;
mod groups;
mod operate;
mod retention;
mod settle;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub use alert::{AlertBoard, AlertEvent, AlertKey, AlertRow, deaths};
pub use claim::{Room, Share, claimable};
pub use enqueue::{
    Duplicate, KeyHolder, batches, duplicates, ids, key_conflict, validate_expiries,
};
pub use erase::ErasureCandidate;
pub use expired::{EXPIRED_ROUNDS_MAX, expired_report, split_expired};
pub use groups::{Promotion, group_moves_on, next_head};
pub use operate::OperatorMove;
pub use retention::{Cutoffs, Finished, fingerprint, hour, key_cutoff, may_leave};
pub use settle::{
    DeadEntry, LeasePlan, NewAttempt, ReadyBatch, ReportClass, classify_reports, expiry,
    not_in_lease, reject_repeats, settle,
};

use crate::MessageId;

/// A message on its way, with what must travel along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Number that the store gave the message; never reused.
    pub id: MessageId,
    /// Attempts that count toward the queue's limit.
    pub tries: u32,
    /// Attempt rows written so far.
    pub attempts: u32,
}

impl Entry {
    /// A message that was never tried.
    pub fn new(id: MessageId) -> Self {
        Self {
            id,
            tries: 0,
            attempts: 0,
        }
    }
}

/// `now` plus a duration, in the microseconds every database can keep; at the end of the calendar
/// at the latest.
pub fn later(now: Timestamp, by: Duration) -> Timestamp {
    let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    now.saturating_add(SignedDuration::from_micros(micros))
        .expect("invariant: adding a duration saturates")
}
