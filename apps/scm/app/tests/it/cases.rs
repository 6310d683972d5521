//! The rules of the ledger of repositories, one function each, in a file per topic; both stores obey
//! them.

mod fixture;
pub(crate) mod history;
pub(crate) mod patches;
pub(crate) mod records;
pub(crate) mod repos;
pub(crate) mod reviews;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::Store;
use consign_memory::Logbook;
use consign_scm::ScmLedger;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::task::JoinSet;

/// A fresh database whose clock the test sets.
#[async_trait]
pub(crate) trait Harness: Send + Sync {
    fn store(&self) -> Arc<dyn Store>;

    fn ledger(&self) -> Arc<dyn ScmLedger>;

    /// The same ledger through a second, independent instance.
    async fn another(&self) -> Arc<dyn ScmLedger>;

    fn logbook(&self) -> Arc<dyn Logbook>;

    /// The rows of the view of all facts, by `source_id`.
    async fn facts(&self) -> Vec<Value>;

    async fn now(&self) -> Timestamp;

    async fn advance(&self, by: SignedDuration);
}

/// How long anything that runs beside something else may take, on a machine that is busy too.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for all tasks and hands on their panics.
async fn all<T: 'static>(tasks: JoinSet<T>) -> Vec<T> {
    let joined = tokio::time::timeout(PATIENCE, tasks.join_all()).await;
    joined.expect("every task ends")
}

/// Whatever a case did, `doctor` finds nothing wrong afterwards.
pub(crate) async fn check(harness: &dyn Harness) {
    let findings = harness.store().doctor().await;
    assert_eq!(findings.expect("doctor answers"), []);
}

/// One test per case over the harness that an async function makes.
macro_rules! suite {
    ($fresh:path) => {
        $crate::cases::suite! { $fresh;
            repos:
                a_repository_is_added_once
                a_repository_added_ten_times_at_once_is_one
                what_is_no_repository_is_refused
                status_counts_add_up
                the_end_of_a_step_is_stored
                a_note_is_an_event_of_the_repository
                notes_by_ten_at_once_share_an_item;
            records:
                records_are_written_with_their_watermark
                a_watermark_that_moved_refuses_the_batch
                stored_records_do_not_change
                a_batch_without_records_moves_the_watermark
                a_refused_record_refuses_its_batch
                records_of_no_repository_are_refused
                repositories_do_not_mix;
            history:
                positions_follow_the_order_of_history
                of_two_that_record_at_once_one_wins
                a_reader_misses_nothing_while_two_record;
            reviews:
                a_merge_request_takes_over_what_is_newer
                a_review_is_written_once
                a_review_of_nothing_is_refused;
            patches:
                what_has_no_change_is_listed
                what_failed_is_listed_by_its_attempts
                a_failure_becomes_the_change
                a_change_that_is_here_stays
                an_empty_change_is_a_change
                a_change_is_found_by_its_hash
                what_is_no_change_is_refused;
        }
    };
    ($fresh:path; $($topic:ident: $($case:ident)*;)*) => {
        $($(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let harness = $fresh().await;
                $crate::cases::$topic::$case(&harness).await;
                $crate::cases::check(&harness).await;
            }
        )*)*
    };
}
pub(crate) use suite;
