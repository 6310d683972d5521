//! The reference store: the executable specification of every store.
//!
//! Plain collections, no I/O, no clock, no randomness: the time, fresh tokens and the jitter come
//! in as arguments. It is meant to be read in one sitting. Where the SQL stores and this file
//! disagree, this file is right.
//!
//! The state of the queue is not a column on the message. It is which collection the message is
//! in: `waiting`, a batch in `ready`, a lease, `held`, `dead`, `discarded`, or none of them with a
//! delivered attempt. `check` proves that every message is in exactly one.

mod alert;
mod check;
mod claim;
mod close;
mod enqueue;
mod erase;
mod expire;
mod groups;
mod growth;
mod late;
mod list;
mod operate;
mod problems;
mod queues;
mod read;
mod redrive;
mod resolve;
mod retain;
mod schedule;
mod settle;
mod store;
#[cfg(feature = "twins")]
mod twin;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

pub use store::{ManualClock, ReferenceStore};
#[cfg(feature = "twins")]
pub use twin::Flaw;

use crate::{
    Acknowledgement, Attempt, AuditEntry, BATCH_MESSAGES_MAX, Backlog, By, DeadLetter, Departure,
    DepartureId, Erasure, Fence, LateResult, Message, MessageId, OutcomeCounts, PassRecord,
    Process, Queue, QueueName, Redrive, RedriveId, Sample, Schedule, ScheduleName, SlotReservation,
    StateKind, Token,
    error::{Error, Result},
    plan::{AlertBoard, AlertEvent, Cutoffs, Entry, later},
    suggest::nearest,
};

/// The whole state of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reference {
    queues: BTreeMap<QueueName, Queue>,
    messages: BTreeMap<MessageId, Message>,
    keys: BTreeMap<(QueueName, String), MessageId>,
    ready: BTreeMap<BatchKey, Batch>,
    leases: BTreeMap<Fence, LeaseRow>,
    attempts: BTreeMap<(MessageId, u32), Attempt>,
    dead: BTreeMap<MessageId, DeadRow>,
    discarded: BTreeMap<MessageId, DiscardedRow>,
    held: BTreeMap<MessageId, HeldRow>,
    waiting: BTreeMap<(QueueName, String, MessageId), WaitingRow>,
    /// The head of each group: no other message of it may be ready or leased.
    heads: BTreeMap<(QueueName, String), MessageId>,
    late: BTreeMap<(MessageId, Token), LateResult>,
    redrives: BTreeMap<RedriveId, RedriveRow>,
    schedules: BTreeMap<ScheduleName, Schedule>,
    /// What happened since the last step of the alerts.
    alert_events: Vec<AlertEvent>,
    alerts: AlertBoard,
    /// By problem.
    acknowledgements: BTreeMap<String, Acknowledgement>,
    maintenance: Option<MaintenanceRow>,
    /// All that were not given up; the last one may be under way.
    departures: BTreeMap<DepartureId, DepartureRow>,
    last_departure: i64,
    /// The keys of messages that have left.
    former_keys: BTreeMap<(QueueName, String), FormerKey>,
    /// All ever made, also of messages that have left.
    erasures: BTreeMap<MessageId, ErasureRow>,
    /// Those that the archive is still to be cleared of.
    due_erasures: BTreeSet<MessageId>,
    /// What has left of each queue.
    departed: BTreeMap<QueueName, DepartedCounts>,
    /// How the last passes of the maintenance ended.
    pass: Option<PassRecord>,
    /// By hour.
    samples: BTreeMap<Timestamp, Sample>,
    /// The last reservation of send slots of queues with a rate for all processes.
    slots: BTreeMap<QueueName, SlotReservation>,
    audit: Vec<AuditEntry>,
    processes: BTreeMap<String, Process>,
    /// By minute, and by hour.
    queue_stats: BTreeMap<(Timestamp, QueueName), StatsRow>,
    queue_hours: BTreeMap<(Timestamp, QueueName), StatsRow>,
    last_message: i64,
    last_batch: u64,
    last_fence: i64,
    #[cfg(feature = "twins")]
    flaw: Option<Flaw>,
}

/// Ready batches in the order in which they are claimed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct BatchKey {
    queue: QueueName,
    due_at: Timestamp,
    batch: u64,
}

/// Messages that move together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Batch {
    entries: Vec<Entry>,
    /// Came back from an expiry: leased alone until it settles, so that a culprit is isolated.
    isolated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LeaseRow {
    token: Token,
    queue: QueueName,
    owner: String,
    entries: Vec<Entry>,
    begun: BTreeSet<MessageId>,
    claimed_at: Timestamp,
    expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DeadRow {
    queue: QueueName,
    at: Timestamp,
    attempt_no: u32,
    code: String,
    detail: Option<String>,
}

impl DeadRow {
    fn letter(&self, message_id: MessageId) -> DeadLetter {
        DeadLetter {
            message_id,
            queue: self.queue.clone(),
            at: self.at,
            attempt_no: self.attempt_no,
            code: self.code.clone(),
            detail: self.detail.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DiscardedRow {
    at: Timestamp,
    attempts: u32,
    by: By,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HeldRow {
    at: Timestamp,
    reason: String,
    entry: Entry,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WaitingRow {
    entry: Entry,
    /// Not to be tried before, however early it becomes the head.
    due_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RedriveRow {
    redrive: Redrive,
    /// The time up to which its rate is used up.
    paced_at: Timestamp,
}

/// What was done in a queue in a minute or an hour, and what was due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct StatsRow {
    done: OutcomeCounts,
    /// What was due, once it was sampled.
    backlog: Option<Backlog>,
}

/// Who may take the steps of the maintenance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MaintenanceRow {
    owner: String,
    token: Token,
    expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DepartureRow {
    departure: Departure,
    /// By queue, as the policies were when it began.
    cutoffs: BTreeMap<QueueName, Cutoffs>,
    fingerprint: [u8; 32],
    archive: Option<String>,
    is_over: bool,
}

/// Counts of messages that left a queue, which no table can count any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct DepartedCounts {
    messages: u64,
    /// Of them, those that left as dead.
    dead: u64,
    /// Of them, those that left as discarded.
    discarded: u64,
    /// How often dead messages were requeued or discarded.
    revived: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FormerKey {
    message_id: MessageId,
    /// When the message was enqueued.
    at: Timestamp,
    state: StateKind,
    digest: [u8; 32],
    group: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ErasureRow {
    queue: QueueName,
    erasure: Erasure,
    digest: [u8; 32],
}

impl Reference {
    fn known_queue(&self, name: &QueueName) -> Result<&Queue> {
        self.queues.get(name).ok_or_else(|| Error::UnknownQueue {
            queue: name.to_string(),
            suggestion: nearest(name.as_str(), self.queues.keys().map(QueueName::as_str))
                .map(str::to_owned),
        })
    }

    fn policy(&self, name: &QueueName) -> &crate::QueuePolicy {
        &self
            .queues
            .get(name)
            .expect("invariant: messages live in known queues")
            .policy
    }

    /// Puts entries into ready batches of bounded length.
    fn make_ready(
        &mut self,
        queue: &QueueName,
        due_at: Timestamp,
        entries: &[Entry],
        isolated: bool,
    ) {
        for entries in entries.chunks(BATCH_MESSAGES_MAX) {
            self.last_batch += 1;
            let key = BatchKey {
                queue: queue.clone(),
                due_at,
                batch: self.last_batch,
            };
            self.ready.insert(
                key,
                Batch {
                    entries: entries.to_vec(),
                    isolated,
                },
            );
        }
    }

    fn record_action(
        &mut self,
        now: Timestamp,
        by: &By,
        action: &str,
        queue: Option<&QueueName>,
        message_id: Option<MessageId>,
    ) {
        self.audit.push(AuditEntry {
            // The newest entry never leaves: a departure records one of its own.
            id: self.audit.last().map_or(1, |newest| newest.id + 1),
            at: now,
            actor: by.actor.clone(),
            action: action.to_owned(),
            queue: queue.cloned(),
            message_id,
            reason: by.reason.clone(),
        });
    }
}
