//! The names of what is measured of repositories. Names are API.

use metrics::{Unit, counter, describe_counter, describe_gauge};

/// Repositories that are known.
pub(crate) const REPOSITORIES: &str = "consign_scm_repositories";
/// Changes that are known and have not become memories, by repository.
pub(crate) const UNCONSUMED: &str = "consign_scm_unconsumed_changes";
/// How long ago a repository was synchronised last, by repository; absent while it never was.
pub(crate) const SYNC_AGE_SECONDS: &str = "consign_scm_sync_age_seconds";
/// Changes that could not be fetched so far, by repository.
pub(crate) const FAILED_PATCHES: &str = "consign_scm_failed_patches";
/// Synchronisations, by repository and result: `ok` or the code of what went wrong.
pub(crate) const SYNCS_TOTAL: &str = "consign_scm_syncs_total";

/// Tells the recorder what each metric means.
pub(crate) fn describe() {
    describe_gauge!(REPOSITORIES, Unit::Count, "Repositories that are known.");
    describe_gauge!(
        UNCONSUMED,
        Unit::Count,
        "Changes that have not become memories."
    );
    describe_gauge!(
        SYNC_AGE_SECONDS,
        Unit::Seconds,
        "How long ago a repository was synchronised."
    );
    describe_gauge!(
        FAILED_PATCHES,
        Unit::Count,
        "Changes that could not be fetched so far."
    );
    describe_counter!(SYNCS_TOTAL, Unit::Count, "Synchronisations, by result.");
}

/// A synchronisation has ended.
pub(super) fn synced(repo_id: i64, result: &'static str) {
    counter!(SYNCS_TOTAL, "repo" => repo_id.to_string(), "result" => result).increment(1);
}
