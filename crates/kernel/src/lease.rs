//! Leases: which owner may settle which messages, and until when.

use std::{fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    LEASE_MESSAGES_MAX, Message, MessageId, OWNER_BYTES_MAX, QueueName, QueuePolicy,
    TOKEN_PREFIX_MIN,
    error::{Error, Result},
    limits::validate_name,
    queue::validate_ttl,
};

/// The random secret of a lease, compared for equality on every write under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub Uuid);

impl Token {
    /// Its first characters: enough to identify a lease, not to settle under it.
    pub fn shown(&self) -> String {
        self.0.to_string()[..TOKEN_SHOWN].to_owned()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that grows with every lease; it is sent to the sink so that the receiver can reject
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
    /// The queue to take from.
    pub queue: QueueName,
    /// The worker's name, for operators. Not a credential.
    pub owner: String,
    /// At most this many messages.
    pub limit: u32,
    /// The lease time; the queue's default when absent. The queue rejects more than
    /// its `lease_ttl_max_ms`.
    pub ttl: Option<Duration>,
    /// At most this many bytes of payloads and headers, as the store keeps them, and never more than
    /// the queue's `claim_max_bytes`. The first message is claimed whatever its size.
    pub bytes_max: Option<u64>,
}

impl Claim {
    /// A claim with the queue's own lease time.
    pub fn new(queue: QueueName, owner: impl Into<String>, limit: u32) -> Self {
        Self {
            queue,
            owner: owner.into(),
            limit,
            ttl: None,
            bytes_max: None,
        }
    }

    /// The same claim with a lease time of its own.
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self {
            ttl: Some(ttl),
            ..self
        }
    }

    /// The same claim of at most so many bytes.
    pub fn with_bytes_max(self, bytes_max: u64) -> Self {
        Self {
            bytes_max: Some(bytes_max),
            ..self
        }
    }

    /// How many bytes it may take from a queue with this policy.
    pub fn bytes_allowed(&self, policy: &QueuePolicy) -> u64 {
        let queue = policy.claim_max_bytes as u64;
        self.bytes_max.map_or(queue, |own| own.min(queue))
    }

    /// Rejects what no store can do.
    pub fn validate(&self) -> Result<()> {
        if !(1..=LEASE_MESSAGES_MAX).contains(&self.limit) {
            return Err(Error::out_of_bounds(
                "limit",
                self.limit,
                format!("must be from 1 to {LEASE_MESSAGES_MAX}"),
            ));
        }
        validate_name("owner", &self.owner, OWNER_BYTES_MAX)?;
        self.ttl.map_or(Ok(()), |ttl| validate_ttl("ttl", ttl))
    }
}

/// A lease as handed to its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Permission to renew and settle the lease; secret.
    pub token: Token,
    /// Grows with every lease: a receiver may reject smaller ones.
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
    /// Earlier attempts that count toward the queue's limit.
    pub tries: u32,
    /// Whether an earlier delivery may have happened, by its attempts or by a late result: probe the
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
pub struct Expiry {
    /// Leases that ended.
    pub leases: u64,
    /// Messages they held.
    pub messages: u64,
}

/// The first characters of a token, by which an operator identifies a lease. Lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenPrefix(String);

impl TokenPrefix {
    /// As in a token's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The one lease it names, of those it could.
    pub fn only<T: Copy>(&self, named: &[T]) -> Result<T> {
        match named {
            [only] => Ok(*only),
            [] => Err(Error::UnknownLease {
                prefix: self.0.clone(),
            }),
            several => Err(Error::invalid(
                format!("token {:?}", self.0),
                format!(
                    "{} lease tokens have this prefix; give more characters",
                    several.len()
                ),
            )),
        }
    }
}

impl FromStr for TokenPrefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_part = text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if is_part && (TOKEN_PREFIX_MIN..=36).contains(&text.len()) {
            return Ok(Self(text.to_ascii_lowercase()));
        }
        Err(Error::invalid(
            format!("token {text:?}"),
            format!(
                "must be the first {TOKEN_PREFIX_MIN} to 36 characters of a lease's token; \
                 `consign leases` shows them"
            ),
        ))
    }
}

/// A lease that an operator ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EndedLease {
    /// Grows with every lease: a receiver may reject smaller ones.
    pub fence: Fence,
    /// Queue whose policy applies.
    pub queue: QueueName,
    /// Who held it.
    pub owner: String,
    /// Messages it held.
    pub messages: u64,
}

/// How many characters of a token are shown.
pub const TOKEN_SHOWN: usize = 8;

/// A lease as seen by an operator. Carries no token: a token is a permission.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseView {
    /// Grows with every lease: a receiver may reject smaller ones.
    pub fence: Fence,
    /// The first characters of its token, to end it by.
    pub token_prefix: String,
    /// Queue whose policy applies.
    pub queue: QueueName,
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
