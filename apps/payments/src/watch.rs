//! Looks now and then for what must be compared with the rail's books.

use std::{sync::Arc, time::Duration};

use metrics::gauge;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use crate::{Payments, Reconciliation, metrics::UNRECONCILED};

/// Entries of each kind looked at; a gauge that stands here says "many".
const LOOKED_AT_MAX: u32 = 1_000;

/// Keeps the gauges of what waits for somebody, and says so when there is more of it. Runs until it
/// is dropped.
pub async fn watch(payments: Arc<dyn Payments>, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = [0; 4];
    loop {
        ticks.tick().await;
        match payments.reconcile_payments(LOOKED_AT_MAX).await {
            Ok(found) => before = tell(&found, before),
            Err(error) => warn!(%error, "payments could not be looked through"),
        }
    }
}

/// Tells what was found; answers how much.
fn tell(found: &Reconciliation, before: [usize; 4]) -> [usize; 4] {
    let now = [
        found.late_successes.len(),
        found.uncertain.len(),
        found.missing_references.len(),
        found.reused_references.len(),
    ];
    let kinds = [
        "late_success",
        "uncertain",
        "missing_reference",
        "reused_reference",
    ];
    for ((kind, count), before) in kinds.into_iter().zip(now).zip(before) {
        gauge!(UNRECONCILED, "kind" => kind).set(count as f64);
        if count > before {
            warn!(
                kind,
                count,
                "payments: {count} of kind {kind} wait to be compared with the rail's books; run \
                 `consign payments reconcile`"
            );
        }
    }
    now
}
