//! Leases: who may speak for which messages, and until when.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    LEASE_MESSAGES_MAX, LaneName, Message, MessageId, OWNER_BYTES_MAX,
    error::{Error, Result},
    lane::validate_ttl,
};

/// The random secret of a lease, compared for equality on every write under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub Uuid);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that grows with every lease; it travels to the sink so that the far side can refuse
/// older holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub i64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A request for messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The lane to take from.
    pub lane: LaneName,
    /// Who asks: a name people recognise. Not a credential.
    pub owner: String,
    /// At most this many messages.
    pub limit: u32,
    /// How long the lease shall live; the lane's policy decides when absent.
    pub ttl: Option<Duration>,
}

impl Claim {
    /// A claim with the lane's own lease time.
    pub fn new(lane: LaneName, owner: impl Into<String>, limit: u32) -> Self {
        Self {
            lane,
            owner: owner.into(),
            limit,
            ttl: None,
        }
    }

    /// The same claim with a lease time of its own.
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self {
            ttl: Some(ttl),
            ..self
        }
    }

    /// Refuses what no store could honour.
    pub fn validate(&self) -> Result<()> {
        if !(1..=LEASE_MESSAGES_MAX).contains(&self.limit) {
            return Err(Error::invalid(
                "limit",
                format!("must be from 1 to {LEASE_MESSAGES_MAX}"),
            ));
        }
        if self.owner.is_empty() || self.owner.len() > OWNER_BYTES_MAX || self.owner.contains('\0')
        {
            let why = format!("must be 1 to {OWNER_BYTES_MAX} bytes without U+0000");
            return Err(Error::invalid("owner", why));
        }
        self.ttl.map_or(Ok(()), |ttl| validate_ttl("ttl", ttl))
    }
}

/// A lease as handed to its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Its secret.
    pub token: Token,
    /// Its number.
    pub fence: Fence,
    /// When it was taken, by the database's clock.
    pub claimed_at: Timestamp,
    /// When it ends unless renewed, by the database's clock.
    pub expires_at: Timestamp,
    /// What it holds, oldest due first.
    pub messages: Vec<ClaimedMessage>,
}

/// A message in a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimedMessage {
    /// The message.
    pub message: Message,
    /// The number the attempt row of this lease will get.
    pub attempt_no: u32,
    /// Earlier attempts that count toward the lane's limit.
    pub tries: u32,
    /// Whether an earlier delivery may have happened, by its attempts or by a late result: ask the
    /// sink before sending.
    pub in_doubt: bool,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RenewAnswer {
    /// The lease now ends then.
    Renewed {
        /// By the database's clock. A renewal never shortens a lease.
        expires_at: Timestamp,
    },
    /// The token is unknown, or its lease has expired.
    LeaseLost,
}

/// The answer to a begin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BeginAnswer {
    /// Recorded: should the lease end now, these messages are uncertain.
    Begun,
    /// The token is unknown, or its lease has expired. Do not send.
    LeaseLost,
    /// The lease lives but does not hold these messages. Nothing was recorded.
    NotInLease(Vec<MessageId>),
}

/// The answer to a release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseAnswer {
    /// These messages went back uncounted; messages already begun stay in the lease.
    Released(Vec<MessageId>),
    /// The token is unknown, or its lease has expired.
    LeaseLost,
}

/// What an expiry did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Expired {
    /// Leases that ended.
    pub leases: u64,
    /// Messages they held.
    pub messages: u64,
}

/// A lease as seen by an operator. Carries no token: a token is a permission.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseView {
    /// Its number.
    pub fence: Fence,
    /// Its lane.
    pub lane: LaneName,
    /// Who holds it.
    pub owner: String,
    /// What it still holds.
    pub ids: Vec<MessageId>,
    /// Those whose transport call has begun.
    pub begun: Vec<MessageId>,
    /// When it was taken.
    pub claimed_at: Timestamp,
    /// When it ends unless renewed.
    pub expires_at: Timestamp,
}
