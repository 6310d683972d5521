//! Queue policy and worker settings derived from the options.

use std::{sync::Arc, time::Duration};

use consign_kernel::{OnUncertain, QueueName, QueuePolicy, RetrySchedule};
use consign_worker::{BreakerOptions, QueueWork, Sink};

use super::{Adapter, OrdersOptions, seconds};

/// How long a worker retries ledger reads before the delivery fails. The queue's timeout exceeds
/// the broker's by this and a margin, so that the adapter's more precise error is recorded.
pub(crate) const LEDGER_PATIENCE: Duration = Duration::from_secs(10);
const MARGIN: Duration = Duration::from_secs(5);

/// The policy of the queue `orders`.
///
/// A lease shorter than the broker's timeout is valid: leases are renewed while an order is sent.
pub fn queue_policy(options: &OrdersOptions) -> QueuePolicy {
    let delays = options.outbox_backoff_sec.iter().copied();
    let timeout = options.broker_timeout_max() + LEDGER_PATIENCE + MARGIN;
    let lease_ttl_ms = millis(seconds(options.outbox_lock_lease_sec));
    QueuePolicy {
        lease_ttl_ms,
        lease_ttl_max_ms: lease_ttl_ms.max(QueuePolicy::default().lease_ttl_max_ms),
        attempts_max: options.outbox_max_attempts,
        retry: RetrySchedule::Table {
            delays_ms: delays.map(|delay| millis(seconds(delay))).collect(),
        },
        on_uncertain: on_uncertain(options),
        concurrency: options.outbox_concurrency,
        timeout_ms: millis(timeout),
        record_begin: true,
        ..QueuePolicy::default()
    }
}

/// What happens to an order that may have been executed.
fn on_uncertain(options: &OrdersOptions) -> OnUncertain {
    let has_status_query = options.broker_status_url().is_some();
    match options.broker_adapter {
        Adapter::Paper => OnUncertain::Resend,
        Adapter::Http if options.broker_takes_keys => OnUncertain::Resend,
        Adapter::Http if has_status_query => OnUncertain::Probe,
        Adapter::Http => OnUncertain::Hold,
    }
}

/// Worker configuration of the queue `orders`.
pub fn queue_work(sink: Arc<dyn Sink>, options: &OrdersOptions) -> QueueWork {
    let queue: QueueName = crate::QUEUE.parse().expect("invariant: a queue's name");
    let pause = seconds(options.breaker_open_sec);
    QueueWork {
        breaker: BreakerOptions {
            // Only the share of failed calls counts.
            failures_max: u32::MAX,
            samples_min: u32::MAX,
            failure_ratio: options.breaker_share,
            last_calls: options.breaker_calls,
            pause_min: pause,
            pause_max: pause,
            ..BreakerOptions::default()
        },
        only_free_slots: true,
        claim_max: Some(options.outbox_batch),
        poll_max: Some(seconds(options.outbox_poll_interval_sec)),
        ..QueueWork::new(queue, sink)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
