//! Retention: finished messages leave the store, in windows of ids, after they were archived.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Attempt, AuditEntry, By, DeadLetter, Erasure, LateResult, Message, MessageId, OWNER_BYTES_MAX,
    QueueName, StateKind,
    error::{Error, Result},
    limits::validate_name,
    queue::validate_ttl,
};

/// Longest name of an archive, in bytes: it must fit into an audit entry.
const ARCHIVE_BYTES_MAX: usize = 2_048;

/// The number of a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DepartureId(pub i64);

impl fmt::Display for DepartureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why messages leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DepartureCause {
    /// They are past the time that their queue keeps them.
    Age,
    /// The database is too large: delivered messages leave before their time, of queues that have one.
    Size,
}

/// How far a departure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DepartureState {
    /// The store copies what stays, as PostgreSQL does: `begin_departure` goes on.
    Copying,
    /// Its messages are fixed, and may be archived.
    Open,
    /// An archive holds its messages.
    Archived,
    /// Its messages are being removed: it can only go on.
    Leaving,
}

impl DepartureState {
    /// Its name in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Open => "open",
            Self::Archived => "archived",
            Self::Leaving => "leaving",
        }
    }

    /// The state of this name.
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Copying, Self::Open, Self::Archived, Self::Leaving];
        all.into_iter().find(|state| state.as_str() == word)
    }
}

/// A window of ids whose finished messages leave together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Departure {
    /// Its number.
    pub id: DepartureId,
    /// The first id of the window.
    pub first: MessageId,
    /// The last id of the window.
    pub last: MessageId,
    /// When its messages were fixed. Messages leave that were past their time then.
    pub at: Timestamp,
    /// How many messages leave.
    pub messages: u64,
    /// How many messages of the window stay.
    pub stay: u64,
    /// Whether a queue among them requires an archive.
    pub must_archive: bool,
    /// How far it is.
    pub state: DepartureState,
}

impl Departure {
    /// Whether it goes on in a process with an archive only.
    pub fn is_to_be_archived(&self) -> bool {
        self.state == DepartureState::Open && self.must_archive
    }

    /// Who and why, for its one audit entry: `owner` is the holder of the maintenance lease.
    pub fn by(&self, owner: &str, archive: Option<&str>) -> By {
        let archived = archive.map_or("not archived".to_owned(), |name| format!("archive {name}"));
        let Self {
            id, first, last, ..
        } = self;
        By::new(
            owner,
            format!(
                "departure {id}: {} messages from {first} to {last}, {archived}",
                self.messages
            ),
        )
    }
}

/// Rejects a lease of the maintenance that no store can give.
pub fn validate_maintenance(owner: &str, ttl: Duration) -> Result<()> {
    validate_name("owner", owner, OWNER_BYTES_MAX)?;
    validate_ttl("ttl", ttl)
}

/// Rejects the name of an archive that no audit entry can hold.
pub fn validate_archive(archive: &str) -> Result<()> {
    let is_plain = !archive.chars().any(char::is_control);
    if (1..=ARCHIVE_BYTES_MAX).contains(&archive.len()) && is_plain {
        return Ok(());
    }
    let why = format!("must be 1 to {ARCHIVE_BYTES_MAX} bytes without control characters");
    Err(Error::out_of_bounds("archive", crate::quoted(archive), why))
}

/// Rejects a word for the end of a pass that no store can keep.
pub fn validate_pass_end(end: &str) -> Result<()> {
    validate_name("end", end, 64)
}

/// A message that leaves, with everything recorded about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The message.
    pub message: Message,
    /// Delivered, dead or discarded.
    pub state: StateKind,
    /// When and why it died, if it is dead.
    pub dead: Option<DeadLetter>,
    /// Its attempts, first to last.
    pub attempts: Vec<Attempt>,
    /// Its late results, in order of arrival.
    pub late: Vec<LateResult>,
    /// What operators did to it, oldest first.
    pub audit: Vec<AuditEntry>,
    /// Who erased its content, and when.
    pub erased: Option<Erasure>,
}

/// Why a step of the maintenance was not taken. Nothing was changed; a later run tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Another process has taken over the maintenance.
    LeaseLost,
    /// A transaction that stays open holds a lock that the step needs.
    Locked,
    /// The messages of the departure have changed since they were fixed: it is given up, and begun anew later.
    Changed,
    /// A queue requires an archive, and there is none.
    NoArchive,
}

impl Refusal {
    /// Its name in SQL, JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LeaseLost => "lease_lost",
            Self::Locked => "locked",
            Self::Changed => "changed",
            Self::NoArchive => "no_archive",
        }
    }
}

/// The result of a step of the maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step<T> {
    /// It was taken.
    Done(T),
    /// It was not.
    Refused(Refusal),
}

/// How far a departure has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Progress {
    /// Messages removed by this step.
    pub removed: u64,
    /// Whether the departure is over.
    pub is_over: bool,
}

/// The history of a queue: what is in the store, and what has left.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueueHistory {
    /// Queue whose policy applies.
    pub queue: QueueName,
    /// Messages in the store.
    pub messages: u64,
    /// The first of them, by id.
    pub oldest_id: Option<MessageId>,
    /// When that was enqueued.
    pub oldest_at: Option<Timestamp>,
    /// Of them, those that may leave now by the policy of the queue.
    pub may_leave: u64,
    /// Messages enqueued, ever.
    pub enqueued: u64,
    /// Messages delivered, ever.
    pub delivered: u64,
    /// How often messages died, ever: one that was requeued and died again counts twice.
    pub dead: u64,
    /// Messages discarded and cancelled, ever.
    pub discarded: u64,
    /// Messages that have left, ever.
    pub departed: u64,
    /// Messages whose content was erased, ever.
    pub erased: u64,
    /// Keys of messages that have left.
    pub former_keys: u64,
}
