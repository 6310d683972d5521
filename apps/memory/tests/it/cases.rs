//! The rules of the logbook, one function each, in a file per topic; every store obeys them.

pub(crate) mod alarms;
pub(crate) mod audits;
pub(crate) mod backends;
pub(crate) mod cursor;
pub(crate) mod defer;
pub(crate) mod erase;
pub(crate) mod erased;
pub(crate) mod evidence;
pub(crate) mod facts;
pub(crate) mod fixture;
pub(crate) mod list;
pub(crate) mod open;
pub(crate) mod outbox;
pub(crate) mod outcomes;
pub(crate) mod reconcile;
pub(crate) mod retention;
pub(crate) mod search;
pub(crate) mod settings;
pub(crate) mod versions;
pub(crate) mod write_lock;

use std::sync::Arc;

use async_trait::async_trait;
use consign_kernel::MessageId;
use consign_memory::Logbook;

/// A store that keeps a logbook.
#[async_trait]
pub(crate) trait Harness: consign_conformance::Harness {
    fn book(&self) -> Arc<dyn Logbook>;

    /// The same logbook through a second, independent instance.
    async fn another_book(&self) -> Arc<dyn Logbook>;

    /// Removes the audits of an outbox row, which only the database's owner can.
    async fn lose_audits(&self, outbox_id: MessageId);

    /// Makes every write of an audit fail from now on, or work again.
    async fn break_audits(&self, is_broken: bool);
}

/// Whatever a case did, the store's `doctor` must find nothing wrong afterwards.
pub(crate) async fn examine(topic: &str, harness: &dyn Harness) {
    let findings = harness.store().doctor().await;
    let mut findings = findings.expect("doctor answers after the case");
    // A case of this topic checks doctor's findings itself.
    findings.retain(|f| !(topic == "alarms" && f.code.starts_with("memory_")));
    assert!(findings.is_empty(), "doctor found: {findings:#?}");
}

/// One test per case over the harness that a function makes.
macro_rules! suite {
    ($fresh:path) => {
        $crate::cases::each_case! { ($fresh) }
    };
}
pub(crate) use suite;

/// The names of all cases of the logbook, by topic. After those of `alarms` doctor has something to
/// say, and they check what.
macro_rules! each_case {
    ($args:tt) => {
        $crate::cases::tests! { $args
            settings:
                settings_are_made_on_first_sight
                settings_read_by_ten_at_once_are_one_row
                settings_change_with_their_audit
                a_refused_change_of_settings_leaves_nothing;
            audits:
                an_audit_is_read_back_as_written
                a_pending_audit_ends_once
                a_request_has_one_pending_audit
                the_end_of_an_audit_is_laid_over_it
                audits_are_found_by_every_filter
                audits_make_no_users;
            open:
                a_write_begins_with_its_audit
                a_write_of_what_is_stored_does_not_begin
                a_write_by_settings_of_yesterday_does_not_begin
                a_write_without_an_active_user_does_not_begin
                a_kept_memory_is_there_with_its_audit
                a_memory_begun_by_ten_at_once_is_kept_once;
            outbox:
                due_memories_are_claimed_by_one_worker
                the_oldest_due_are_claimed_first
                what_is_not_due_is_not_claimed
                a_leased_message_is_not_claimed
                a_lease_that_ran_out_is_claimed_again
                two_workers_share_the_memories_by_age
                a_memory_is_acknowledged_once
                a_worker_settles_its_own_memories_only
                rejects_results_of_a_worker_whose_lease_expired
                a_memory_that_failed_rests_until_its_time
                a_memory_may_be_given_up
                a_renewed_lease_is_never_claimed
                a_claim_of_nothing_takes_nothing
                a_lease_of_no_length_is_the_shortest
                workers_at_once_never_claim_the_same;
            backends:
                what_was_stored_elsewhere_is_not_known
                a_row_is_for_one_backend
                what_was_sent_and_is_gone_gets_a_row_of_its_own
                a_memory_that_may_be_stored_is_in_doubt
                a_kept_memory_that_is_gone_is_kept_again
                an_audit_of_a_delivery_names_its_backend
                a_memory_for_another_worker_keeps_its_tries;
            defer:
                a_deferred_memory_is_a_row_and_the_end_of_its_audit
                a_deferral_is_done_whole_or_not_at_all
                a_memory_is_kept_although_its_audit_has_ended
                a_twin_is_answered_instead_of_enqueued
                a_memory_enqueued_by_ten_at_once_is_one
                what_is_stored_is_known
                the_queue_of_memories_takes_memories_only
                the_first_memory_makes_the_queue
                a_requeued_memory_starts_afresh
                rows_are_listed_newest_first;
            outcomes:
                a_delivery_is_audited
                a_dedup_hit_is_audited_as_one
                every_repeat_is_audited_by_its_code
                a_memory_that_used_up_its_tries_is_dead
                a_refused_memory_is_dead_at_once
                the_actor_of_a_flush_is_who_wanted_it
                a_batch_shares_its_correlation_id
                a_delivery_without_a_word_is_audited_too
                an_expiry_is_not_audited_but_a_death_is
                a_resolved_memory_is_audited
                a_late_result_is_a_conflict
                a_worker_that_comes_too_late_leaves_a_conflict
                the_seeds_primitives_are_audited
                an_outcome_stands_although_its_audit_fails;
            reconcile:
                nothing_is_found_where_everything_fits
                a_missing_audit_is_written_once
                every_death_needs_its_audit
                nothing_starves_behind_a_window
                a_stale_lease_is_freed
                a_lease_may_be_stale_again
                a_reconciler_marks_no_message_dead
                a_hanging_audit_ends_as_failed
                reconcilers_at_once_repair_once
                every_figure_of_nothing_is_there
                the_figures_add_up;
            retention:
                a_memory_leaves_and_its_audits_stay
                a_memory_that_left_is_still_known
                what_left_and_is_gone_gets_a_row_of_its_own
                a_dead_memory_that_left_is_in_doubt
                a_dead_memory_that_left_is_enqueued_anew
                a_forgotten_key_hides_no_row
                a_memory_stays_until_its_outcome_is_audited
                a_pending_audit_keeps_its_memory
                a_deferral_without_its_audit_keeps_its_memory
                a_departure_loses_no_figure
                a_departure_of_memories_is_finished_step_by_step;
            erase:
                an_erased_memory_shows_space_and_hash
                memories_are_erased_by_key_and_by_request
                a_memory_that_is_not_final_is_not_erased
                a_memory_that_something_refers_to_is_not_erased
                the_audits_of_an_erased_memory_lose_their_error_texts
                a_late_result_about_an_erased_memory_is_audited
                the_audit_of_an_erased_memory_is_written_once
                what_an_attempt_says_of_its_memory_stays
                an_erasure_moves_no_cursor;
            erased:
                an_erased_memory_is_known_where_it_was_stored
                a_dead_memory_that_was_erased_is_enqueued_anew
                an_erased_memory_leaves
                an_erased_text_may_be_stored_again;
            alarms:
                an_audit_without_its_row_is_reported
                a_deferred_row_without_its_audit_is_found
                doctor_finds_evidence_with_an_unreadable_uri
                a_hanging_audit_is_found
                an_outcome_without_its_audit_is_found
                a_lost_row_is_not_taken_for_one_that_left;
            cursor:
                a_stored_record_moves_the_cursor
                a_deferred_record_moves_the_cursor
                a_record_stored_before_moves_the_cursor
                a_failed_record_moves_nothing
                a_cursor_that_stands_elsewhere_stays
                every_repository_has_its_cursor
                of_two_that_consume_at_once_one_moves_it
                an_invalid_step_moves_no_cursor;
            facts:
                items_are_found_newest_first
                an_event_changes_its_item
                events_are_found_by_every_filter
                the_same_is_attached_once
                a_value_is_what_was_set_last
                a_candidate_is_kept_with_its_run;
            evidence:
                facts_hold_no_credentials
                facts_are_in_the_space_of_their_item
                evidence_is_kept_with_its_audit
                an_audit_holds_no_credentials;
            search:
                a_memory_is_kept_once
                a_memory_kept_by_ten_at_once_is_one
                a_kept_memory_is_found_as_it_was_kept
                any_word_fits_and_more_are_better
                a_query_is_words_and_nothing_else
                a_search_stays_in_its_spaces
                english_words_are_found_in_their_other_forms
                scripts_without_spaces_are_found_by_their_parts
                candidates_and_events_are_found;
            list:
                kept_memories_are_listed_newest_first
                memories_of_one_moment_are_listed_once_each
                filters_hold_for_searches_and_lists
                spaces_are_those_that_memories_were_stored_in;
            versions:
                a_newer_version_replaces_the_old_one
                memories_do_not_replace_each_other_in_a_circle
                a_memory_stays_where_its_removal_cannot_be_audited
                a_removed_memory_takes_its_versions_along
                a_removed_text_may_be_stored_again;
            write_lock:
                a_write_lock_has_one_holder_until_it_is_released
                a_write_lock_that_is_not_renewed_is_free_again
                the_first_waiting_process_is_next
                the_next_holder_has_to_ask_again
                a_write_lock_requested_by_ten_at_once_has_one_holder;
        }
    };
}
pub(crate) use each_case;

/// What `suite!` writes for each case.
macro_rules! tests {
    (($fresh:path) $($topic:ident: $($case:ident)*;)*) => {
        $($(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let harness = $fresh().await;
                $crate::cases::$topic::$case(&harness).await;
                $crate::cases::examine(stringify!($topic), &harness).await;
            }
        )*)*
    };
}
pub(crate) use tests;
