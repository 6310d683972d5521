//! A state of the model: the store and the parties around it.

use std::sync::Arc;

use consign_kernel::{
    By, Fence, MessageId, Outcome, Token,
    reference::{Flaw, Reference},
};
use jiff::Timestamp;
use uuid::Uuid;

use super::{
    bounds::{Bounds, queue},
    ledger::Ledger,
    rule::Alarms,
};

/// The number of a lease, never given twice: what a random token amounts to. A fence may be given
/// twice, because a failover rolls the store's counters back.
pub(super) type LeaseNo = u8;

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The database's clock, in ticks.
    pub(super) clock: u8,
    pub(super) primary: Arc<Primary>,
    /// What the standby has, once it has something: the primary as it was.
    pub(super) standby: Option<Arc<Primary>>,
    /// Sorted, so that worlds that differ only in which worker is which are one.
    pub(super) workers: [Worker; 2],
    /// What the sink received, sorted.
    pub(super) sink: Vec<Reception>,
    pub(super) last_lease: LeaseNo,
    /// The leases a failover made the store forget: after the first, up to the second.
    pub(super) forgotten: Option<(LeaseNo, LeaseNo)>,
    pub(super) spent: BoundsUsed,
    /// The rules broken by the step that led here.
    pub(super) alarms: Alarms,
}

/// The store and the account by which it is judged. A failover loses both alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Primary {
    pub(super) store: Reference,
    pub(super) ledger: Ledger,
}

/// What has been spent of the bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct BoundsUsed {
    pub(super) renewals: u8,
    pub(super) lost_replies: u8,
    pub(super) rescues: u8,
}

/// A worker: its leases as it sees them, and the last answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Worker {
    /// By how many ticks its clock is ahead. Harmless, unless the store trusts it.
    pub(super) skew: u8,
    pub(super) belief: Option<WorkerLease>,
    pub(super) heard: LastAnswer,
}

/// The answer to a worker's last settle, kept until its next claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum LastAnswer {
    #[default]
    Nothing,
    LeaseLost,
    AlreadySettled,
}

/// A lease as its worker sees it, rightly or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WorkerLease {
    pub(super) lease: LeaseNo,
    pub(super) token: Token,
    pub(super) fence: Fence,
    pub(super) tasks: Vec<(MessageId, Stage)>,
}

/// How far a worker has come with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stage {
    Claimed,
    Begun,
    Sent,
    /// Settled, but the reply was lost: all it can do is say the same again.
    Reported(OutcomeKind),
}

/// An outcome, in a form that can be sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutcomeKind {
    /// The sink has it.
    Delivered,
    /// To be tried again.
    Retry,
    /// Pointless.
    Dead,
    /// Uncertain.
    Uncertain,
}

impl From<Outcome> for OutcomeKind {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Delivered => Self::Delivered,
            Outcome::Retry => Self::Retry,
            Outcome::Dead => Self::Dead,
            Outcome::Uncertain => Self::Uncertain,
        }
    }
}

impl From<OutcomeKind> for Outcome {
    fn from(said: OutcomeKind) -> Self {
        match said {
            OutcomeKind::Delivered => Self::Delivered,
            OutcomeKind::Retry => Self::Retry,
            OutcomeKind::Dead => Self::Dead,
            OutcomeKind::Uncertain => Self::Uncertain,
        }
    }
}

/// A message that reached the sink.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Reception {
    pub(super) id: MessageId,
    pub(super) lease: LeaseNo,
    pub(super) token: Token,
    pub(super) fence: Fence,
}

impl World {
    /// The initial state: an empty queue.
    pub(super) fn new(bounds: &Bounds, flaw: Option<Flaw>) -> Self {
        let mut store = Reference::default();
        if let Some(flaw) = flaw {
            store = store.with_flaw(flaw);
        }
        store
            .put_queue(instant(0), &queue(), &bounds.policy(), &operator())
            .expect("invariant: the model's policy is valid");
        let skew = u8::from(matches!(flaw, Some(Flaw::WorkerClock(_))));
        let skewed = Worker {
            skew,
            ..Worker::default()
        };
        Self {
            clock: 0,
            primary: Arc::new(Primary {
                store,
                ledger: Ledger::default(),
            }),
            standby: None,
            workers: [Worker::default(), skewed],
            sink: Vec::new(),
            last_lease: 0,
            forgotten: None,
            spent: BoundsUsed::default(),
            alarms: Alarms::default(),
        }
    }

    pub(super) fn store(&self) -> &Reference {
        &self.primary.store
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.primary.ledger
    }

    /// Whether a failover made the store forget a lease.
    pub(super) fn is_forgotten(&self, lease: LeaseNo) -> bool {
        self.forgotten
            .is_some_and(|(after, until)| after < lease && lease <= until)
    }

    /// The messages in the store.
    pub(super) fn ids(&self) -> impl Iterator<Item = MessageId> {
        (1..=i64::from(self.ledger().messages)).map(MessageId)
    }
}

/// A tick as a time.
pub(super) fn instant(tick: u8) -> Timestamp {
    Timestamp::from_second(i64::from(tick)).expect("invariant: few ticks")
}

/// The token of a lease: as good as random, because its number is never given twice.
pub(super) fn token(number: u8) -> Token {
    Token(Uuid::from_u128(u128::from(number)))
}

/// The person who puts messages back.
pub(super) fn operator() -> By {
    By::new("operator", "model")
}
