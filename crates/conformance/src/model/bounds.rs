//! How much may happen in a world.

use consign_kernel::{OnUncertain, Outcome, QueueName, QueuePolicy, RetrySchedule};

/// What a world may spend, and the policy of its one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// What this world is meant to show.
    pub name: &'static str,
    /// Messages in the store at any time, at most two.
    pub messages: u8,
    /// Claims that lead to a lease.
    pub leases: u8,
    /// Steps of the database's clock.
    pub ticks: u8,
    /// Renewals.
    pub renewals: u8,
    /// Settles whose reply does not arrive.
    pub lost_replies: u8,
    /// Dead messages requeued, held messages put back, and messages discarded or cancelled by an operator.
    pub rescues: u8,
    /// Whether the store may once be replaced by a lagging standby.
    pub failover: bool,
    /// Whether workers record that they are about to send.
    pub begins: bool,
    /// The outcomes workers report, besides `delivered`.
    pub outcomes: &'static [Outcome],
    /// The tick at which the first message expires.
    pub expires: Option<u8>,
    /// The queue's limit.
    pub attempts_max: u32,
    /// The queue's rule for uncertain outcomes.
    pub on_uncertain: OnUncertain,
}

impl Bounds {
    /// The worlds explored on every change: small enough to be exhausted in a minute together.
    pub fn suite() -> Vec<Self> {
        vec![
            Self::crashes(),
            Self::outcomes(),
            Self::hold(),
            Self::failover(),
            Self::long_failover(),
            Self::expiry(),
        ]
    }

    /// Two messages, crashes, pauses and lost replies: who may settle what.
    pub fn crashes() -> Self {
        Self {
            name: "crashes",
            messages: 2,
            leases: 4,
            ticks: 2,
            renewals: 1,
            lost_replies: 1,
            rescues: 0,
            failover: false,
            begins: false,
            outcomes: &[],
            expires: None,
            attempts_max: 2,
            on_uncertain: OnUncertain::Resend,
        }
    }

    /// One message, every outcome, exhaustion and requeueing: where a message may go.
    pub fn outcomes() -> Self {
        Self {
            name: "outcomes",
            messages: 1,
            leases: 3,
            ticks: 2,
            renewals: 0,
            lost_replies: 0,
            rescues: 1,
            begins: true,
            outcomes: &[Outcome::Retry, Outcome::Dead, Outcome::Uncertain],
            ..Self::crashes()
        }
    }

    /// Two messages in a queue that must not send twice on its own.
    pub fn hold() -> Self {
        Self {
            name: "hold",
            leases: 3,
            ticks: 2,
            renewals: 0,
            lost_replies: 0,
            rescues: 1,
            begins: true,
            outcomes: &[Outcome::Uncertain],
            on_uncertain: OnUncertain::Hold,
            ..Self::crashes()
        }
    }

    /// Two messages and a standby that lags: what the old timeline's workers may still do.
    pub fn failover() -> Self {
        Self {
            name: "failover",
            ticks: 1,
            renewals: 0,
            failover: true,
            ..Self::crashes()
        }
    }

    /// One message and a standby that lags, for longer.
    pub fn long_failover() -> Self {
        Self {
            name: "long failover",
            messages: 1,
            leases: 4,
            ticks: 3,
            renewals: 1,
            failover: true,
            ..Self::crashes()
        }
    }

    /// Two messages, of which one expires, in a queue that must not bury what may have arrived.
    pub fn expiry() -> Self {
        Self {
            name: "expiry",
            leases: 3,
            renewals: 0,
            lost_replies: 0,
            rescues: 1,
            outcomes: &[Outcome::Uncertain],
            expires: Some(1),
            on_uncertain: OnUncertain::Hold,
            begins: true,
            ..Self::crashes()
        }
    }

    /// The same world with more of everything that costs time.
    pub fn deeper(self, by: u8) -> Self {
        Self {
            leases: self.leases + by,
            ticks: self.ticks + by,
            ..self
        }
    }

    pub(super) fn policy(&self) -> QueuePolicy {
        QueuePolicy {
            attempts_max: self.attempts_max,
            retry: RetrySchedule::Fixed { delay_ms: 0 },
            on_uncertain: self.on_uncertain,
            ..QueuePolicy::default()
        }
    }
}

/// The one queue of every world.
pub(super) fn queue() -> QueueName {
    "a".parse().expect("invariant: a plain name")
}
