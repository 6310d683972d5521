//! Where messages are, and what can be read about them.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Erasure, Fence, LastAttempt, Message, MessageId, Queue, QueueName, decision::codes,
    error::Error,
};

/// The seven states of a message. At all times it has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// In an ordered group, behind its head.
    Waiting,
    /// In a ready batch; it may be claimed once due.
    Ready,
    /// In a lease.
    Leased,
    /// Held until it is resolved or unheld.
    Held,
    /// Not tried again unless it is requeued.
    Dead,
    /// Done.
    Delivered,
    /// Closed by an operator without delivery; final.
    Discarded,
}

impl StateKind {
    /// Every kind, in the order of a message's life.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Ready,
        Self::Leased,
        Self::Held,
        Self::Dead,
        Self::Delivered,
        Self::Discarded,
    ];

    /// The states that a message never leaves, but for a dead one that is requeued or discarded.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Dead | Self::Delivered | Self::Discarded)
    }

    /// Its name in SQL, JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Held => "held",
            Self::Dead => "dead",
            Self::Delivered => "delivered",
            Self::Discarded => "discarded",
        }
    }
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for StateKind {
    type Err = Error;
    fn from_str(word: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                Error::invalid(format!("state {word:?}"), format!("is not one of {known}"))
            })
    }
}

/// Where a message is, with what matters there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Behind the head of its group.
    Waiting {
        /// The head of its group; none if that is open, as it may be in
        /// PostgreSQL after a settle met an enqueue: the next claim promotes one.
        behind: Option<MessageId>,
    },
    /// In a ready batch.
    Ready {
        /// When it may be claimed.
        due_at: Timestamp,
    },
    /// In a lease.
    Leased {
        /// Who holds it.
        owner: String,
        /// The lease's number.
        fence: Fence,
        /// When the lease ends unless renewed.
        expires_at: Timestamp,
        /// Whether the transport call has begun.
        begun: bool,
    },
    /// Held.
    Held {
        /// Since when.
        at: Timestamp,
        /// Why.
        reason: String,
    },
    /// Given up.
    Dead {
        /// Since when.
        at: Timestamp,
        /// Why, for programs.
        code: String,
        /// Why, for people.
        detail: Option<String>,
    },
    /// Done.
    Delivered {
        /// When.
        at: Timestamp,
    },
    /// Closed by an operator without delivery.
    Discarded {
        /// When.
        at: Timestamp,
        /// Who.
        actor: String,
        /// Why.
        reason: String,
    },
}

impl State {
    /// The state without its particulars.
    pub fn kind(&self) -> StateKind {
        match self {
            Self::Waiting { .. } => StateKind::Waiting,
            Self::Ready { .. } => StateKind::Ready,
            Self::Leased { .. } => StateKind::Leased,
            Self::Held { .. } => StateKind::Held,
            Self::Dead { .. } => StateKind::Dead,
            Self::Delivered { .. } => StateKind::Delivered,
            Self::Discarded { .. } => StateKind::Discarded,
        }
    }
}

/// Why a message is where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The message.
    pub message: Message,
    /// Where it is.
    pub state: State,
    /// Queue with the policy that applies now.
    pub queue: Queue,
    /// Attempts recorded so far.
    pub attempts: u32,
    /// The newest of them.
    pub last_attempt: Option<LastAttempt>,
    /// Who erased its content, and when.
    pub erased: Option<Erasure>,
    /// The database's clock at the time of the read.
    pub now: Timestamp,
}

impl Explanation {
    /// Why the message is not delivered yet, and what to do about it.
    pub fn sentence(&self) -> String {
        let expiry = self.expiry();
        match (&self.erased, &self.state) {
            (None, _) => format!("{}{expiry}", self.why()),
            (Some(erasure), State::Dead { code, at, .. }) => format!(
                "Dead since {at:.3} after {} attempt(s): {code}. {} It cannot be requeued.",
                self.attempts,
                erasure.sentence()
            ),
            (Some(erasure), _) => format!("{} {}", self.why(), erasure.sentence()),
        }
    }

    /// When its time passes, as a sentence behind another; nothing for a finished message.
    fn expiry(&self) -> String {
        let Some(at) = self.message.expires_at else {
            return String::new();
        };
        if self.state.kind().is_finished() {
            return String::new();
        }
        let left = at.duration_since(self.now).as_secs();
        if at > self.now {
            let left = jiff::SignedDuration::from_secs(left);
            format!(" It expires in {left:#}, at {at:.3}: from then on it is not sent.")
        } else {
            format!(" It expired at {at:.3}: it is not sent any more.")
        }
    }

    fn why(&self) -> String {
        let id = self.message.id;
        match &self.state {
            State::Delivered { at } => {
                format!("Delivered at {at:.3}, after {} attempt(s).", self.attempts)
            }
            State::Discarded { at, actor, reason } => format!(
                "Discarded at {at:.3} by {actor} after {} attempt(s), never delivered: {reason}. This \
                 is final.",
                self.attempts
            ),
            State::Dead { code, at, .. } if code == codes::EXPIRED_BEFORE_DELIVERY => format!(
                "Dead since {at:.3} after {} attempt(s): {code}. Its time had passed before it could be \
                 delivered. A requeue does not change that; close it: `consign discard {id}`.",
                self.attempts
            ),
            State::Dead { code, detail, at } => {
                let detail = detail
                    .as_ref()
                    .map(|text| format!(" ({text})"))
                    .unwrap_or_default();
                format!(
                    "Dead since {at:.3} after {} attempt(s): {code}{detail}. It is not tried again until it \
                     is requeued: `consign requeue {id}`, or closed: `consign discard {id}`.",
                    self.attempts
                )
            }
            State::Held { at, reason } if reason == codes::UNCERTAIN => format!(
                "Held since {at:.3}: {reason}. It may have arrived: find out at the receiver, then \
                 record it with `consign resolve {id}`; `consign unhold {id}` sends it again.{}",
                self.before()
            ),
            State::Held { at, reason } if reason == codes::EXPIRED_BEFORE_DELIVERY => format!(
                "Held since {at:.3}: {reason}. An earlier attempt may have arrived: find out at the receiver, \
                 then record it with `consign resolve {id}`.{}",
                self.before()
            ),
            State::Held { at, reason } => {
                let before = self.before();
                format!("Held since {at:.3}: {reason}. It waits for `consign unhold {id}`.{before}")
            }
            State::Leased {
                owner,
                fence,
                expires_at,
                begun,
            } => {
                let stage = if *begun {
                    "sending it"
                } else {
                    "about to send it"
                };
                if *expires_at > self.now {
                    format!(
                        "Leased by {owner} until {expires_at:.3} (fence {fence}), {stage}.{}",
                        self.before()
                    )
                } else {
                    format!(
                        "Its lease (owner {owner}, fence {fence}) ended at {expires_at:.3} without a \
                         result; the next claim in queue {} takes it back.{}",
                        self.queue.name,
                        self.before()
                    )
                }
            }
            State::Waiting {
                behind: Some(behind),
            } => format!(
                "Waiting: message {behind} is the head of its group. Run \
                 `consign explain {behind}`.{}",
                self.before()
            ),
            State::Waiting { behind: None } => format!(
                "Waiting: its group has no head; the next claim promotes it.{}",
                self.before()
            ),
            State::Ready { due_at } => self.why_ready(*due_at),
        }
    }

    /// How the last attempt ended, as a sentence behind another.
    fn before(&self) -> String {
        let sentence = |last: &LastAttempt| format!(" Before: {last}.");
        self.last_attempt.as_ref().map(sentence).unwrap_or_default()
    }

    fn why_ready(&self, due_at: Timestamp) -> String {
        let queue = &self.queue.name;
        if let Some(paused_at) = self.queue.paused_at {
            return format!(
                "Ready, but queue {queue} is paused since {paused_at:.3}. Run `consign resume {queue}`.{}",
                self.before()
            );
        }
        let is_due = due_at <= self.now;
        match &self.last_attempt {
            None if is_due => format!(
                "Ready and due since {due_at:.3}; no worker holds it. Is one running for queue {queue}?"
            ),
            None => format!("Due later, at {due_at:.3}: it was enqueued with a delay."),
            // A worker tried it: what kept it from being delivered is the reason, and no missing worker.
            Some(last) if is_due => format!(
                "Ready and due again since {due_at:.3}: {last}; the next claim in queue {queue} takes it.{}",
                isolation(last)
            ),
            Some(last) => format!("Due later, at {due_at:.3}: {last}.{}", isolation(last)),
        }
    }
}

/// What follows from a lease that ended without a result.
fn isolation(last: &LastAttempt) -> &'static str {
    if last.code.as_deref() == Some(codes::LEASE_EXPIRED) {
        " What a lease held that ended without a result is claimed in smaller batches, until the message \
         that ends its worker is alone."
    } else {
        ""
    }
}

/// How many messages of a queue are where. Delivered and discarded ones are not
/// counted: there may be billions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Counts {
    /// Waiting behind the head of their group.
    pub waiting: u64,
    /// Ready and due.
    pub ready: u64,
    /// Ready, but due later.
    pub scheduled: u64,
    /// In leases, ended or not.
    pub leased: u64,
    /// Held.
    pub held: u64,
    /// Given up.
    pub dead: u64,
    /// When the oldest ready and due message became due.
    pub oldest_due_at: Option<Timestamp>,
}

impl Counts {
    /// Messages that are not finished.
    pub fn unfinished(&self) -> u64 {
        self.waiting + self.ready + self.scheduled + self.leased + self.held
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let oldest = [self.oldest_due_at, other.oldest_due_at];
        Self {
            waiting: self.waiting + other.waiting,
            ready: self.ready + other.ready,
            scheduled: self.scheduled + other.scheduled,
            leased: self.leased + other.leased,
            held: self.held + other.held,
            dead: self.dead + other.dead,
            oldest_due_at: oldest.into_iter().flatten().min(),
        }
    }
}

/// All queues together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Totals {
    /// How many queues there are.
    pub queues: u64,
    /// How many of their messages are where.
    pub counts: Counts,
}

/// Where a page begins: messages with smaller ids than this.
pub type Cursor = MessageId;

/// Some of a long answer, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The entries. Fewer than the limit, even none, while there is a `next`: a store stops the search
    /// for rare ones before that takes long.
    pub items: Vec<T>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// A message in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSummary {
    /// Number that the store gave the message; never reused.
    pub id: MessageId,
    /// Queue whose policy applies.
    pub queue: QueueName,
    /// Idempotency key: unique in its queue, 1 to 512 bytes.
    pub key: Option<String>,
    /// Ordering key: an ordered queue delivers its messages one after another.
    pub group: Option<String>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// From then on it is not sent any more.
    pub expires_at: Option<Timestamp>,
    /// Where it is.
    pub state: StateKind,
    /// Attempts recorded so far.
    pub attempts: u32,
    /// Why it is dead, for programs; none in another state.
    pub code: Option<String>,
    /// Why it is dead, for people.
    pub detail: Option<String>,
    /// Whether its content was erased.
    pub erased: bool,
}

/// A dead message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Number that the store gave the message; never reused.
    pub message_id: MessageId,
    /// Queue whose policy applies.
    pub queue: QueueName,
    /// Since when.
    pub at: Timestamp,
    /// Number of the attempt row, from 1 without gaps.
    pub attempt_no: u32,
    /// Why, for programs.
    pub code: String,
    /// Why, for people.
    pub detail: Option<String>,
}

/// The dead messages of a queue that have one code: what an outage left.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeadCause {
    /// Queue whose policy applies.
    pub queue: QueueName,
    /// Why, for programs: the code of their last attempt.
    pub code: String,
    /// How many there are.
    pub messages: u64,
    /// The fewest attempts recorded about one of them.
    pub attempts_min: u32,
    /// The most.
    pub attempts_max: u32,
    /// When the first of them died.
    pub first_at: Timestamp,
    /// When the last one did.
    pub last_at: Timestamp,
    /// How many died in the last quarter of an hour.
    pub recent: u64,
    /// How many died in the quarter of an hour before that.
    pub before: u64,
    /// The newest of them.
    pub example: MessageId,
    /// Why that one is dead, for people.
    pub detail: Option<String>,
}

/// The code of a check that `doctor` could not make, because the login lacks the right to read.
pub const NOT_CHECKED: &str = "not_checked";

/// A violated invariant that `doctor` found, or a check that it could not make.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Finding {
    /// A stable word for programs.
    pub code: String,
    /// What is wrong.
    pub what: String,
    /// What an operator does about it.
    pub remedy: String,
    /// Some of the messages concerned.
    pub ids: Vec<MessageId>,
}

#[cfg(test)]
mod tests;
