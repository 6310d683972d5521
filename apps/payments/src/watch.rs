//! Periodic scan for payments to compare with the rail's records.

use std::{sync::Arc, time::Duration};

use metrics::gauge;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use crate::{Payments, Reconciliation, metrics::UNRECONCILED};

/// Maximum entries of each kind; the gauges saturate here.
const LOOKED_AT_MAX: u32 = 1_000;

/// Updates the gauges and logs increases. Runs until it is dropped.
pub async fn watch(payments: Arc<dyn Payments>, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = [0; 4];
    loop {
        ticks.tick().await;
        match payments.reconcile_payments(LOOKED_AT_MAX).await {
            Ok(found) => before = log_increases(&found, before),
            Err(error) => warn!(%error, "scanning payments failed"),
        }
    }
}

/// Logs increases; returns the counts.
fn log_increases(found: &Reconciliation, before: [usize; 4]) -> [usize; 4] {
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
                "payments: {count} of kind {kind} to compare with the rail's records; run \
                 `consign payments reconcile`"
            );
        }
    }
    now
}
