//! Purges expired keys.

use std::{sync::Arc, time::Duration};

use consign_kernel::{By, Result};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use crate::{Ledger, OrdersOptions, PurgeReport, keys::Keys, metrics};

/// Interval between purges.
const EVERY: Duration = Duration::from_secs(3_600);
/// Rows removed in one transaction.
const ROWS_MAX: u32 = 500;
/// From this many conflicts on, a failed key is logged before it is purged.
const CONFLICTS_MIN: u64 = 3;

/// Purges the ledger once an hour, forever.
pub async fn purge_loop(ledger: Arc<dyn Ledger>, options: OrdersOptions) {
    let keys = Keys::new(&options);
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match purge_all(ledger.as_ref()).await {
            Ok(report) => log_report(&report, &keys),
            Err(error) => warn!(code = error.code(), "purging the ledger failed: {error}"),
        }
    }
}

/// Purges until nothing is left; several processes may run it concurrently.
pub(crate) async fn purge_all(ledger: &dyn Ledger) -> Result<PurgeReport> {
    let by = By::new("consign", "idempo_ttl_hours: these keys have expired");
    let mut total = PurgeReport::default();
    loop {
        let report = ledger.purge(ROWS_MAX, CONFLICTS_MIN, false, &by).await?;
        let removed = report.succeeded + report.failed + report.given_up;
        let has_more = report.has_more && removed > 0;
        total.succeeded += report.succeeded;
        total.failed += report.failed;
        total.given_up += report.given_up;
        total.kept_alive = total.kept_alive.max(report.kept_alive);
        total.restless.extend(report.restless);
        if !has_more {
            return Ok(total);
        }
    }
}

/// Logs hashes of keys: logs have more readers than the ledger.
fn log_report(report: &PurgeReport, keys: &Keys) {
    metrics::purged(report);
    for restless in &report.restless {
        let key = keys.hash(&restless.client, &restless.key);
        warn!(
            idempotency_key = key, client = %restless.client, conflicts = restless.conflicts,
            "purged a failed key that was used with other bodies {} times: its client may not \
             handle the failure",
            restless.conflicts
        );
    }
    let PurgeReport {
        succeeded,
        failed,
        kept_alive,
        given_up,
        ..
    } = report;
    if succeeded + failed + kept_alive + given_up == 0 {
        return;
    }
    info!(
        succeeded,
        failed,
        kept_alive,
        given_up,
        "purged the ledger: {succeeded} succeeded and {failed} failed keys removed, \
         {kept_alive} kept because their order is not finished, {given_up} given up"
    );
}
