//! Forgetting keys whose time is over.

use std::{sync::Arc, time::Duration};

use consign_kernel::{By, Result};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use crate::{Ledger, OrdersOptions, PurgeReport, keys::Keys, metrics};

/// How often a process looks.
const EVERY: Duration = Duration::from_secs(3_600);
/// Rows removed in one transaction.
const ROWS_MAX: u32 = 500;
/// From this many conflicts a failed key is reported before it is forgotten.
const CONFLICTS_MIN: u64 = 3;

/// Purges the ledger now and then once an hour, for ever.
pub async fn purge_loop(ledger: Arc<dyn Ledger>, options: OrdersOptions) {
    let keys = Keys::new(&options);
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match purge_all(ledger.as_ref()).await {
            Ok(report) => tell(&report, &keys),
            Err(error) => warn!(
                code = error.code(),
                "the ledger could not be purged: {error}"
            ),
        }
    }
}

/// Purges until nothing is left to purge; several processes may do so at once.
pub(crate) async fn purge_all(ledger: &dyn Ledger) -> Result<PurgeReport> {
    let by = By::new(
        "consign",
        "idempo_ttl_hours: the time of these keys is over",
    );
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

/// Keys are told as hashes: a log is read by more people than the ledger.
fn tell(report: &PurgeReport, keys: &Keys) {
    metrics::purged(report);
    for restless in &report.restless {
        let key = keys.hash(&restless.client, &restless.key);
        warn!(
            idempotency_key = key, client = %restless.client, conflicts = restless.conflicts,
            "a failed key is forgotten that came with other bodies {} times: its client may not \
             have understood the failure",
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
        "the ledger was purged: {succeeded} succeeded and {failed} failed keys are forgotten, \
         {kept_alive} are kept because their order is alive, {given_up} were given up"
    );
}
