//! The rules of payments, one function each, in a file per topic; both stores must obey them.

pub(crate) mod alarms;
pub(crate) mod complete;
pub(crate) mod doubt;
pub(crate) mod enqueue;
pub(crate) mod erase;
pub(crate) mod fixture;
pub(crate) mod holds;
pub(crate) mod order;
pub(crate) mod reads;
pub(crate) mod repair;
pub(crate) mod repeat;
pub(crate) mod retention;

use std::sync::Arc;

use async_trait::async_trait;
use consign_conformance::Harness;
use consign_payments::{NewPayment, Payments};

/// A store with payments under examination.
#[async_trait]
pub(crate) trait PaymentsHarness: Harness {
    /// The payments in its database.
    fn payments(&self) -> Arc<dyn Payments>;

    /// The same payments through a second, independent instance.
    async fn another_payments(&self) -> Arc<dyn Payments>;

    /// Enqueues payments inside a caller's transaction and rolls it back.
    async fn enqueue_payments_and_roll_back(&self, payments: &[NewPayment]);
}

/// Doctor's findings that need an operator: a case may leave some behind, and nothing is damaged.
/// The cases of the topic `alarms` cover them.
const ALARMS: [&str; 4] = [
    "rail_reference_reused",
    "payment_lease_expired",
    "payment_late_unconfirmed",
    "payment_failed_in_doubt",
];

/// Whatever a case did, the store's own `doctor` must find nothing wrong afterwards.
pub(crate) async fn check_health(harness: &dyn PaymentsHarness) {
    let findings = harness.store().doctor().await;
    let mut findings = findings.expect("doctor answers after the case");
    findings.retain(|finding| !ALARMS.contains(&finding.code.as_str()));
    assert!(findings.is_empty(), "doctor found {findings:#?}");
}

/// One test per case, each over a fresh store.
macro_rules! tests {
    (($fresh:expr) $($topic:ident: $($case:ident)*;)*) => {
        $($(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let harness = $fresh.await;
                $crate::cases::$topic::$case(&harness).await;
                $crate::cases::check_health(&harness).await;
            }
        )*)*
    };
}
pub(crate) use tests;

/// The names of all cases of payments, by topic. The cases of
/// `alarms` check doctor's findings themselves.
macro_rules! each_case {
    ([$($callback:tt)+], $args:tt) => {
        $($callback)+! { $args
            enqueue:
                a_payment_is_a_row_and_a_message
                a_repeated_payment_is_the_first
                a_payment_sent_by_ten_at_once_is_one
                a_payment_that_differs_under_its_key_is_a_conflict
                a_key_is_its_tenants_own
                a_conflict_leaves_the_other_payments_of_its_call
                a_payment_twice_in_one_call_is_one
                a_repeated_payment_returns_its_state
                numbers_run_per_participant_without_gaps
                numbers_have_no_gaps_under_many_producers
                producers_of_several_participants_do_not_wait_for_ever
                a_rolled_back_payment_leaves_nothing
                rejects_payments_that_no_store_can_keep
                the_queue_of_payments_takes_nothing_else
                the_first_payment_makes_the_queue
                an_enqueue_of_no_payments_answers_nothing;
            complete:
                every_completion_leads_where_it_should
                a_retryable_payment_rests_at_least_a_second
                a_completion_without_its_lease_is_refused
                a_completion_that_is_nobodys_to_report_is_refused
                a_repeated_completion_answers_what_was_recorded
                a_stale_worker_of_the_same_name_cannot_complete
                a_batch_is_completed_all_or_none
                a_payment_fails_at_the_ceiling_and_can_be_requeued
                a_rail_message_is_stored_masked
                a_reference_too_long_to_keep_is_refused
                no_settle_dispatches_a_payment_without_its_reference;
            doubt:
                a_claim_returns_the_enqueued_payments
                a_claim_presumes_that_the_rail_was_called
                a_claim_that_presumes_nothing_leaves_no_doubt
                a_presumed_call_on_the_last_try_fails_in_doubt
                a_released_payment_is_not_in_doubt
                what_is_left_in_a_lease_is_still_presumed
                a_retryable_payment_is_in_doubt_as_reported
                a_doubt_lasts_until_it_is_ruled_out_explicitly
                a_doubt_on_the_last_try_is_held
                a_failure_in_doubt_is_refused
                a_late_success_leaves_a_doubt_for_good;
            repeat:
                a_different_completion_is_not_a_repetition
                a_contradiction_refuses_the_whole_call
                an_empty_completion_needs_its_lease_too
                a_result_other_than_the_recorded_one_is_kept_as_late
                a_late_success_is_always_stored;
            repair:
                a_lost_lease_is_repaired_once
                a_live_lease_is_not_repaired
                two_repairers_record_one_attempt
                a_repair_at_the_ceiling_does_not_block_the_next_ones
                every_crash_leaves_a_row_until_the_ceiling
                a_claim_repairs_what_it_finds_expired
                a_begun_payment_is_due_again_in_doubt;
            holds:
                a_payment_held_from_the_start_waits_for_its_release
                payments_are_moved_by_their_own_ids
                a_payment_is_resolved_as_dispatched_only_with_a_reference
                a_success_without_a_reference_is_held
                a_success_without_a_reference_is_held_on_the_last_try
                every_policy_of_the_queue_holds_what_has_no_reference;
            order:
                the_next_of_a_participant_waits
                a_held_payment_keeps_its_participant_waiting
                a_payment_held_while_it_waits_keeps_its_place;
            reads:
                payments_are_listed_by_filter
                payments_are_listed_in_pages
                the_status_counts_every_place
                payments_in_leases_are_shown_with_their_worker
                a_late_success_is_listed_by_reconcile
                what_may_have_been_paid_is_reconciled
                an_unknown_payment_is_not_found;
            retention:
                a_payment_that_left_is_still_known_by_its_key
                a_payment_that_left_still_conflicts
                a_forgotten_payment_leaves_its_number_used
                a_payment_to_be_reconciled_stays
                a_departure_of_payments_is_finished_step_by_step;
            erase:
                an_erased_payment_keeps_what_is_compared_with_the_rail
                the_key_of_an_erased_payment_is_repeated_as_before
                a_payment_that_must_be_compared_is_not_erased
                a_late_success_about_an_erased_payment_keeps_its_reference
                an_erased_payment_leaves_and_is_forgotten;
            alarms:
                a_reused_reference_is_an_alarm
                a_second_reference_is_an_alarm
                a_lease_that_stays_expired_is_an_alarm
                an_unconfirmed_late_success_is_an_alarm
                a_failure_in_doubt_is_an_alarm;
        }
    };
}
pub(crate) use each_case;
