//! The rules of the ledger of orders, one function each, in a file per topic, run over every store that keeps one.

pub(crate) mod accept;
pub(crate) mod direct;
pub(crate) mod doubt;
pub(crate) mod erase;
pub(crate) mod fixture;
pub(crate) mod outcomes;
pub(crate) mod purge;
pub(crate) mod quota;
pub(crate) mod reads;
pub(crate) mod retention;

use std::{pin::Pin, sync::Arc};

use async_trait::async_trait;
use consign_conformance::Harness;
use consign_orders::Ledger;

/// A store with the ledger of orders.
#[async_trait]
pub(crate) trait LedgerHarness: Harness {
    /// The ledger in the database of the store.
    fn ledger(&self) -> Arc<dyn Ledger>;

    /// The same ledger through a second, independent instance.
    async fn another_ledger(&self) -> Arc<dyn Ledger>;
}

/// Makes fresh, empty, migrated stores. One per case.
#[async_trait]
pub(crate) trait LedgerFactory: Send + Sync {
    async fn fresh(&self) -> Box<dyn LedgerHarness>;
}

type Examination<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One rule, and its name.
type Case = (
    &'static str,
    for<'a> fn(&'a dyn LedgerHarness) -> Examination<'a>,
);

macro_rules! list {
    (() $($topic:ident: $($case:ident)*;)*) => {
        vec![$($((
            stringify!($case),
            (|harness| Box::pin($topic::$case(harness))) as for<'a> fn(&'a dyn LedgerHarness) -> Examination<'a>,
        )),*),*]
    };
}
/// One test per case over the stores of a factory.
macro_rules! ledger_suite {
    ($factory:expr) => {
        $crate::cases::each_order_case!([$crate::cases::tests], ($factory));
    };
}
pub(crate) use ledger_suite;

macro_rules! tests {
    (($factory:expr) $($topic:ident: $($case:ident)*;)*) => {
        $($(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                $crate::cases::run(stringify!($case), &$factory).await;
            }
        )*)*
    };
}
pub(crate) use tests;

/// The names of all cases of the ledger, by topic.
macro_rules! each_order_case {
    ([$($callback:tt)+], $args:tt) => {
        $($callback)+! { $args
            accept:
                an_accepted_order_is_a_row_and_a_message
                results_are_in_input_order
                an_accept_of_nothing_answers_nothing
                a_repeated_order_is_the_same_and_writes_no_message
                reports_the_sent_amounts_until_there_is_a_result
                a_key_with_another_body_is_a_conflict_in_every_state
                a_key_twice_in_one_call_counts_as_two_calls
                orders_are_accepted_all_or_none
                orders_need_their_queue
                an_order_whose_payload_lacks_its_digest_is_refused
                a_replay_is_noted_once_a_minute
                keys_of_two_clients_never_meet
                keys_are_compared_byte_by_byte
                fifty_identical_orders_at_once_are_one
                mixed_orders_at_once_end_without_a_deadlock
                the_queue_of_orders_takes_nothing_else;
            outcomes:
                every_end_of_a_message_is_the_end_of_its_order
                a_failure_that_will_be_retried_leaves_the_order_accepted
                an_order_whose_lease_ends_for_the_last_time_fails
                an_uncertain_order_is_sent_again_and_counts_once
                a_requeued_order_is_accepted_again_with_the_same_times_to_live
                a_redrive_brings_orders_back_too
                a_held_order_is_resolved_either_way
                a_delivery_without_a_result_is_the_end_of_its_order
                an_order_is_resolved_as_executed_only_with_its_result
                an_order_requested_to_the_nanosecond_is_resolved
                a_conflict_code_leaves_the_order_alone
                an_order_that_succeeded_never_changes
                an_answer_is_read_back_byte_by_byte
                a_result_that_cannot_be_read_does_not_stop_a_settle
                a_stale_worker_changes_no_order
                other_queues_have_no_orders;
            doubt:
                an_order_that_dies_in_doubt_may_have_been_executed
                a_doubt_that_the_sink_reports_is_stored_unchanged
                a_certain_end_replaces_an_earlier_doubt;
            direct:
                a_direct_order_has_no_message
                a_direct_order_is_closed_once
                a_direct_order_is_closed_only_under_its_own_digest
                a_direct_order_without_a_result_is_given_up
                a_result_after_giving_up_changes_nothing;
            reads:
                a_free_key_has_no_row
                verify_reports_an_expired_order
                rows_are_listed_newest_first
                rows_are_counted_by_status;
            purge:
                what_is_past_its_time_is_removed_with_its_message
                a_row_whose_message_is_alive_is_kept
                a_purged_key_is_free_again
                a_purge_is_audited_if_it_removes_something
                a_dry_run_changes_nothing
                failed_keys_with_many_conflicts_are_reported
                a_purge_goes_on_where_its_limit_ended
                a_purge_gives_up_direct_orders_without_a_result
                a_requeued_order_outlives_its_first_time_to_live;
            retention:
                an_order_leaves_when_its_key_is_over
                an_order_is_kept_for_the_time_of_its_queue
                a_requeued_order_stays_until_its_new_time_is_over
                a_departure_of_orders_is_finished_step_by_step
                a_purge_leaves_kept_orders_to_their_departure
                a_purge_and_a_departure_agree;
            erase:
                an_erased_order_keeps_its_end_but_not_its_result
                the_key_of_an_erased_order_is_repeated_as_before
                an_order_that_is_not_final_is_not_erased
                an_erased_order_is_not_requeued;
            quota:
                a_quota_is_taken_until_it_is_used_up
                a_quota_is_of_one_client_and_one_day
                a_quota_taken_at_once_is_never_exceeded;
        }
    };
}
pub(crate) use each_order_case;

/// Runs one case over a fresh store. Whatever the case did, the store's own `doctor` must find nothing wrong.
pub(crate) async fn run(name: &str, factory: &dyn LedgerFactory) {
    let cases: Vec<Case> = each_order_case!([list], ());
    let case = cases.into_iter().find(|(case, _)| *case == name);
    let (_, examine) = case.unwrap_or_else(|| panic!("there is no case {name:?}"));
    let harness = factory.fresh().await;
    examine(&*harness).await;
    let findings = harness.store().doctor().await;
    let findings = findings.expect("doctor answers after the case");
    assert!(
        findings.is_empty(),
        "doctor found after {name}: {findings:#?}"
    );
}
