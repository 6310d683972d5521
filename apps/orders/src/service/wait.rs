//! Waits for a result (`Prefer: wait`).

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::OrderService;
use crate::{Answer, LedgerEntry, LedgerStatus, answer::PREFERENCE_APPLIED, metrics};

/// The first poll is early, because most orders are quick; later polls are less frequent.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_LAST: Duration = Duration::from_millis(250);

impl OrderService {
    /// The row once it has a result, or its state at the timeout.
    pub(super) async fn wait_for_result(&self, entry: LedgerEntry, wait: Duration) -> LedgerEntry {
        let started = Instant::now();
        let ends = started + wait;
        let mut rest = LOOK_FIRST;
        let mut entry = entry;
        let mut draining = self.draining.subscribe();
        while entry.status == LedgerStatus::Accepted && Instant::now() < ends && !*draining.borrow()
        {
            let drained = draining.wait_for(|draining| *draining);
            // After a notification or the timeout the ledger is read once more.
            drop(timeout_at(ends.min(Instant::now() + rest), drained).await);
            rest = (rest * 3 / 2).min(LOOK_LAST);
            // A failed read is retried with the next poll; the order is accepted in any case.
            if let Ok(Some(found)) = self.ledger.entry(&entry.client, &entry.key).await {
                entry = found;
            }
        }
        metrics::order_phase("wait", started.elapsed());
        entry
    }
}

/// RFC 7240: reports that the preference was honoured.
pub(super) fn applied(answer: Answer, wait: Duration) -> Answer {
    answer.with_header(PREFERENCE_APPLIED, format!("wait={}", wait.as_secs()))
}
