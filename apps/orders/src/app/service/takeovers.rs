//! Counts orders whose last lease expired. The worker that takes over counts, because the former one may
//! be dead.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Store, codes};
use consign_worker::{Delivery, Probe, Sink, Verdict};
use metrics::{Counter, Unit, counter, describe_counter};
use tokio::time::timeout;

use crate::OrderSink;

/// Orders taken over from a worker whose lease expired; by queue. A name of the seeds.
const OUTBOX_LOCK_LEASE_EXPIRED_TOTAL: &str = "outbox_lock_lease_expired_total";

/// Describes the metric to the recorder.
pub(in crate::app) fn describe() {
    describe_counter!(
        OUTBOX_LOCK_LEASE_EXPIRED_TOTAL,
        Unit::Count,
        "Expired leases: lost by this process; for orders, taken over from other workers."
    );
}

/// Time limit of reading earlier attempts.
const LOOK_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct TakeoverCounter {
    sink: OrderSink,
    history: History,
    expired: Counter,
}

struct History(Arc<dyn Store>);

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("History")
    }
}

impl TakeoverCounter {
    pub(super) fn new(sink: OrderSink, store: Arc<dyn Store>) -> Self {
        Self {
            sink,
            history: History(store),
            expired: counter!(OUTBOX_LOCK_LEASE_EXPIRED_TOTAL, "queue" => crate::QUEUE),
        }
    }

    /// Counts the delivery if the attempt before it expired.
    async fn count(&self, delivery: &Delivery) {
        if delivery.attempt_no == 1 {
            return;
        }
        // Without the right to read attempts nothing is counted; outages are reported elsewhere, and an
        // order must not wait for a metric.
        let history = self.history.0.history(delivery.message.id);
        let Ok(Ok(attempts)) = timeout(LOOK_MAX, history).await else {
            return;
        };
        let last = attempts.last().and_then(|last| last.code.as_deref());
        let is_expired = last == Some(codes::LEASE_EXPIRED);
        self.expired.increment(u64::from(is_expired));
    }
}

#[async_trait]
impl Sink for TakeoverCounter {
    fn kind(&self) -> &'static str {
        self.sink.kind()
    }

    fn destination(&self) -> &str {
        self.sink.destination()
    }

    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        self.count(delivery).await;
        self.sink.deliver(delivery).await
    }

    async fn probe(&self, delivery: &Delivery) -> Probe {
        self.sink.probe(delivery).await
    }
}
