//! Waiting for a result, because the client would rather wait than ask again.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::OrderService;
use crate::{Answer, LedgerEntry, LedgerStatus, answer::PREFERENCE_APPLIED, metrics};

/// The first look comes soon: most orders are quick. Those that are not are looked at ever more
/// rarely.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_LAST: Duration = Duration::from_millis(250);

impl OrderService {
    /// The row once it has a result, or as it is when the time is over.
    pub(super) async fn wait_for_result(&self, entry: LedgerEntry, wait: Duration) -> LedgerEntry {
        let started = Instant::now();
        let ends = started + wait;
        let mut rest = LOOK_FIRST;
        let mut entry = entry;
        let mut draining = self.draining.subscribe();
        while entry.status == LedgerStatus::Accepted && Instant::now() < ends && !*draining.borrow()
        {
            let told = draining.wait_for(|draining| *draining);
            // Whether it is told or the time is over, the ledger is asked once more.
            drop(timeout_at(ends.min(Instant::now() + rest), told).await);
            rest = (rest * 3 / 2).min(LOOK_LAST);
            // A ledger that cannot be asked now may answer the next time; the order is accepted
            // all the same.
            if let Ok(Some(found)) = self.ledger.entry(&entry.client, &entry.key).await {
                entry = found;
            }
        }
        metrics::order_phase("wait", started.elapsed());
        entry
    }
}

/// RFC 7240: the client is told that its preference was honoured.
pub(super) fn applied(answer: Answer, wait: Duration) -> Answer {
    answer.with_header(PREFERENCE_APPLIED, format!("wait={}", wait.as_secs()))
}
