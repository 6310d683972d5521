//! The queues of a random life, and how their policies change.

use consign_kernel::{OnDead, OnUncertain, QueueName, QueuePolicy, RetrySchedule};

/// A change of rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    Original,
    AttemptsMax(u32),
    FlipOrdered,
    FlipOnDead,
    OnUncertain(OnUncertain),
    /// Messages and keys leave after so many seconds.
    KeepSeconds(u64),
    /// Without alerts.
    NoAlerts,
    /// So many messages in leases at most.
    TotalConcurrency(u32),
    /// So many send slots per second.
    TotalRate(u32),
}

/// The queue of their alerts, which no step claims from.
pub(super) const ALERTS: &str = "ops";

/// The three queues everything happens in.
pub(super) fn queues() -> [(QueueName, QueuePolicy); 3] {
    let name = |name: &str| name.parse().expect("invariant: a plain name");
    let plain = QueuePolicy {
        lease_ttl_ms: 5_000,
        attempts_max: 2,
        keep_ms: Some(1_000),
        keep_dead_ms: Some(5_000),
        keep_keys_ms: Some(8_000),
        alert_queue: Some(name(ALERTS)),
        alert_interval_ms: 2_000,
        alert_age_ms: Some(3_000),
        total_rate_per_second: Some(3),
        // Without jitter, so that both stores compute the same time.
        retry: RetrySchedule::Fixed { delay_ms: 500 },
        ..QueuePolicy::default()
    };
    let held = QueuePolicy {
        ordered: true,
        keep_dead_ms: None,
        // Long enough for three leases to be lost in it.
        alert_interval_ms: 60_000,
        on_dead: OnDead::Block,
        on_uncertain: OnUncertain::Hold,
        ..plain.clone()
    };
    let probed = QueuePolicy {
        ordered: true,
        on_dead: OnDead::Continue,
        on_uncertain: OnUncertain::Probe,
        attempts_max: 4,
        alert_interval_ms: 60_000,
        retry: RetrySchedule::Table {
            delays_ms: vec![500, 1_000, 4_000],
        },
        ..plain.clone()
    };
    [
        (name("plain"), plain),
        (name("held"), held),
        (name("probed"), probed),
    ]
}

impl Change {
    /// The queue's original rules with this change.
    pub(super) fn of(self, policy: &QueuePolicy) -> QueuePolicy {
        let mut policy = policy.clone();
        match self {
            Self::Original => {}
            Self::AttemptsMax(max) => policy.attempts_max = max,
            Self::FlipOrdered => policy.ordered = !policy.ordered,
            Self::FlipOnDead => {
                policy.on_dead = match policy.on_dead {
                    OnDead::Block => OnDead::Continue,
                    OnDead::Continue => OnDead::Block,
                }
            }
            Self::KeepSeconds(s) => {
                let ms = Some(s * 1_000);
                (policy.keep_ms, policy.keep_dead_ms, policy.keep_keys_ms) = (ms, ms, ms);
            }
            Self::NoAlerts => policy.alert_queue = None,
            Self::TotalConcurrency(most) => policy.total_concurrency = Some(most),
            Self::TotalRate(rate) => policy.total_rate_per_second = Some(rate),
            Self::OnUncertain(on_uncertain) => policy.on_uncertain = on_uncertain,
        }
        policy
    }
}
