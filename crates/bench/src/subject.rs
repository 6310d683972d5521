//! consign, as the benchmark drives it: through the `Store` trait, like every worker.

use std::{sync::Arc, time::Instant};

use anyhow::{Result, bail, ensure};
use consign_kernel::{Claim, NewMessage, QueueName, Report, SettleAnswer, Store};
use serde_json::{Value, json};

use crate::drain::{WorkStep, Worker};

/// Bytes of every payload, as compact JSON.
pub(crate) const PAYLOAD_BYTES: usize = 200;

/// A payload of 200 bytes, such as a small event has.
pub(crate) fn payload() -> Value {
    let with = |note: String| {
        json!({
            "type": "order.placed",
            "order": "0b6f3c1e-52a7-4d0e-9a35-6f0c6a1d2b48",
            "quantity": 3,
            "price": "19.99",
            "note": note,
        })
    };
    let bare = with(String::new()).to_string().len();
    with("x".repeat(PAYLOAD_BYTES - bare))
}

/// The queue that is measured; migrations make it.
pub(crate) fn queue() -> QueueName {
    "default".parse().expect("invariant: a valid name")
}

/// Enqueues `messages` through the store, `batch` per transaction.
pub(crate) async fn enqueue(
    store: &dyn Store,
    queue: &QueueName,
    messages: u32,
    batch: u32,
) -> Result<()> {
    let payload = payload();
    let mut left = messages;
    while left > 0 {
        let size = left.min(batch);
        let batch: Vec<NewMessage> = (0..size)
            .map(|_| NewMessage::new(queue.clone(), payload.clone()))
            .collect();
        let enqueued = store.enqueue(&batch).await?;
        ensure!(enqueued.len() == batch.len(), "an answer for every message");
        left -= size;
    }
    Ok(())
}

/// A worker of consign.
pub(crate) struct StoreWorker {
    store: Arc<dyn Store>,
    queue: QueueName,
    owner: String,
}

impl StoreWorker {
    pub(crate) fn new(store: Arc<dyn Store>, queue: QueueName) -> Self {
        Self {
            store,
            queue,
            owner: "bench-worker-1".to_owned(),
        }
    }
}

impl Worker for StoreWorker {
    async fn work(&mut self, limit: u32) -> Result<Option<WorkStep>> {
        let claim = Claim::new(self.queue.clone(), self.owner.as_str(), limit);
        let started = Instant::now();
        let Some(lease) = self.store.claim(&claim).await? else {
            return Ok(None);
        };
        let claimed = Instant::now();
        let delivered =
            |claimed: &consign_kernel::ClaimedMessage| Report::delivered(claimed.message.id);
        let reports: Vec<Report> = lease.messages.iter().map(delivered).collect();
        match self.store.settle(lease.token, &reports).await? {
            SettleAnswer::Settled(recorded) if recorded.len() == reports.len() => {
                Ok(Some(WorkStep {
                    messages: u32::try_from(recorded.len())?,
                    claim: claimed - started,
                    settle: claimed.elapsed(),
                }))
            }
            other => bail!("a settle under a live lease was answered with {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_has_the_size_in_the_report() {
        assert_eq!(payload().to_string().len(), PAYLOAD_BYTES);
    }
}
