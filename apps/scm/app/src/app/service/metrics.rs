//! Names of metrics of repositories. Names are API.

use metrics::{Unit, counter, describe_counter, describe_gauge};

/// Number of repositories.
pub(in crate::app) const REPOSITORIES: &str = "consign_scm_repositories";
/// Stored changes that were not consumed, by repository.
pub(in crate::app) const UNCONSUMED: &str = "consign_scm_unconsumed_changes";
/// Time since the last synchronisation, by repository; absent before the first.
pub(in crate::app) const SYNC_AGE_SECONDS: &str = "consign_scm_sync_age_seconds";
/// Changes that could not be fetched, by repository.
pub(in crate::app) const FAILED_PATCHES: &str = "consign_scm_failed_patches";
/// Synchronisations by repository and result: `ok` or the error code.
pub(in crate::app) const SYNCS_TOTAL: &str = "consign_scm_syncs_total";

/// Describes each metric.
pub(in crate::app) fn describe() {
    describe_gauge!(REPOSITORIES, Unit::Count, "Number of repositories.");
    describe_gauge!(
        UNCONSUMED,
        Unit::Count,
        "Stored changes that were not consumed."
    );
    describe_gauge!(
        SYNC_AGE_SECONDS,
        Unit::Seconds,
        "Time since the last synchronisation."
    );
    describe_gauge!(
        FAILED_PATCHES,
        Unit::Count,
        "Changes that could not be fetched."
    );
    describe_counter!(SYNCS_TOTAL, Unit::Count, "Synchronisations by result.");
}

/// Records a synchronisation.
pub(super) fn synced(repo_id: i64, result: &'static str) {
    counter!(SYNCS_TOTAL, "repo" => repo_id.to_string(), "result" => result).increment(1);
}
