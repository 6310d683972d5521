//! The reference store: the executable specification of every store.
//!
//! Plain collections, no I/O, no clock, no randomness: the time, fresh tokens and the jitter come
//! in as arguments. It is meant to be read in one sitting. Where the SQL stores and this file
//! disagree, this file is right.
//!
//! The state of the queue is not a column on the message. It is which collection the message is
//! in: `waiting`, a run in `ready`, a lease, `held`, `dead`, or none of them with a delivered
//! attempt. `check` proves that every message is in exactly one.

mod check;
mod claim;
mod enqueue;
mod expire;
mod groups;
mod operate;
mod pulse;
mod read;
mod redrive;
mod resolve;
mod settle;
#[cfg(feature = "twins")]
mod twin;
mod witness;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

#[cfg(feature = "twins")]
pub use twin::Flaw;

use crate::{
    Attempt, AuditEntry, By, DeadLetter, Done, Fence, LateResult, Message, MessageId, Process,
    Queue, QueueName, RUN_MESSAGES_MAX, Redrive, RedriveId, Token,
    error::{Error, Result},
    suggest::nearest,
};

/// The whole state of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reference {
    queues: BTreeMap<QueueName, Queue>,
    messages: BTreeMap<MessageId, Message>,
    keys: BTreeMap<(QueueName, String), MessageId>,
    ready: BTreeMap<RunKey, Run>,
    leases: BTreeMap<Fence, LeaseRow>,
    attempts: BTreeMap<(MessageId, u32), Attempt>,
    dead: BTreeMap<MessageId, DeadRow>,
    held: BTreeMap<MessageId, HeldRow>,
    waiting: BTreeMap<(QueueName, String, MessageId), WaitingRow>,
    /// The message of each group whose turn it is. A group with a turn lets nobody else through.
    turns: BTreeMap<(QueueName, String), MessageId>,
    late: BTreeMap<(MessageId, Token), LateResult>,
    redrives: BTreeMap<RedriveId, RedriveRow>,
    audit: Vec<AuditEntry>,
    processes: BTreeMap<String, Process>,
    pulses: BTreeMap<(Timestamp, QueueName), Done>,
    last_message: i64,
    last_run: u64,
    last_fence: i64,
    #[cfg(feature = "twins")]
    flaw: Option<Flaw>,
}

/// Ready runs in the order in which they are claimed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct RunKey {
    queue: QueueName,
    due_at: Timestamp,
    run: u64,
}

/// Messages that move together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run {
    entries: Vec<Entry>,
    /// Came back from an expiry: leased alone until it settles, so that a culprit is isolated.
    apart: bool,
}

/// A message on its way, with what must travel along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    id: MessageId,
    /// Attempts that count toward the queue's limit.
    tries: u32,
    /// Attempt rows written so far.
    attempts: u32,
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
struct HeldRow {
    at: Timestamp,
    reason: String,
    entry: Entry,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WaitingRow {
    entry: Entry,
    /// Not to be tried before, however early its turn comes.
    due_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RedriveRow {
    redrive: Redrive,
    /// The time up to which its rate is used up.
    paced_at: Timestamp,
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

    /// Puts entries into ready runs of bounded length.
    fn make_ready(&mut self, queue: &QueueName, due_at: Timestamp, entries: &[Entry], apart: bool) {
        for entries in entries.chunks(RUN_MESSAGES_MAX) {
            self.last_run += 1;
            let key = RunKey {
                queue: queue.clone(),
                due_at,
                run: self.last_run,
            };
            self.ready.insert(
                key,
                Run {
                    entries: entries.to_vec(),
                    apart,
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
            id: self.audit.len() as i64 + 1,
            at: now,
            actor: by.actor.clone(),
            action: action.to_owned(),
            queue: queue.cloned(),
            message_id,
            reason: by.reason.clone(),
        });
    }
}

/// `now` plus a duration, in the microseconds every database can keep.
fn later(now: Timestamp, by: Duration) -> Timestamp {
    let micros = i64::try_from(by.as_micros()).expect("invariant: durations are bounded");
    now.checked_add(SignedDuration::from_micros(micros))
        .expect("invariant: times are bounded")
}
