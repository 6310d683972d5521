//! Samples the status of repositories for the metrics.

use std::{sync::Arc, time::Duration};

use consign_scm::{RepoStatus, ScmLedger};
use jiff::Timestamp;
use metrics::gauge;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::metrics::{FAILED_PATCHES, REPOSITORIES, SYNC_AGE_SECONDS, UNCONSUMED};

/// Minimum interval, because unconsumed changes are counted.
const EVERY_MIN: Duration = Duration::from_secs(5);
/// Time limit of a query.
const PATIENCE: Duration = Duration::from_secs(10);

/// Samples until it is dropped.
pub(super) async fn sample(ledger: Arc<dyn ScmLedger>, every: Duration) {
    let mut ticks = interval(every.max(EVERY_MIN));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match timeout(PATIENCE, ledger.status()).await {
            Ok(Ok(standing)) => record(&standing, Timestamp::now()),
            // Outages are reported elsewhere; the login may lack the rights.
            Ok(Err(error)) => tracing::debug!("sampling repositories failed: {error}"),
            Err(_) => tracing::debug!("repositories cannot be counted within {PATIENCE:?}"),
        }
    }
}

fn record(standing: &[RepoStatus], now: Timestamp) {
    gauge!(REPOSITORIES).set(standing.len() as f64);
    for status in standing {
        let repo = status.repo.repo_id.to_string();
        gauge!(UNCONSUMED, "repo" => repo.clone()).set(status.unconsumed as f64);
        gauge!(FAILED_PATCHES, "repo" => repo.clone()).set(status.patches_failed as f64);
        if let Some(at) = status.synced_at {
            let age = now.duration_since(at).as_secs_f64().max(0.0);
            gauge!(SYNC_AGE_SECONDS, "repo" => repo).set(age);
        }
    }
}
