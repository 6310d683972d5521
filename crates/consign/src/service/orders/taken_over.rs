//! Counts orders whose last worker let its lease run out.
//!
//! Whoever was killed cannot count it, so whoever takes over does.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Store, codes};
use consign_orders::OrderSink;
use consign_worker::{Delivery, Probe, Sink, Verdict};
use metrics::{Counter, counter};
use tokio::time::timeout;

use crate::telemetry::metrics::OUTBOX_LOCK_LEASE_EXPIRED_TOTAL;

/// How long a look at earlier attempts may take.
const LOOK_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct TakenOver {
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

impl TakenOver {
    pub(super) fn new(sink: OrderSink, store: Arc<dyn Store>) -> Self {
        Self {
            sink,
            history: History(store),
            expired: counter!(OUTBOX_LOCK_LEASE_EXPIRED_TOTAL, "queue" => consign_orders::QUEUE),
        }
    }

    /// Looks at the attempt before this one, where there was one.
    async fn count(&self, delivery: &Delivery) {
        if delivery.attempt_no == 1 {
            return;
        }
        // A login that may not read attempts counts nothing; an outage is told by others, and no
        // order waits for a number.
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
impl Sink for TakenOver {
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
