//! The rules of the logbook, one function each, in a file per topic.
//!
//! For stores that keep one: their harness answers `logbook`. Cases name the vectors of the memory
//! protocol they stand for (O1 to O19, W1 to W14, E1 to E15, T1 to T60).

pub(crate) mod audits;
pub(crate) mod facts;
pub(crate) mod outbox;
pub(crate) mod search;
pub(crate) mod settings;
pub(crate) mod shelf;

/// The names of all cases of the logbook, by topic. After those of `alarms` doctor has something to
/// say, and they check what.
#[doc(hidden)]
#[macro_export]
macro_rules! each_memory_case {
    ([$($callback:tt)+], $args:tt) => {
        $($callback)+! { $args
            settings:
                settings_are_made_on_first_sight
                settings_asked_for_by_ten_at_once_are_one
                settings_change_with_their_audit
                a_refused_change_of_settings_leaves_nothing;
            audits:
                an_audit_is_read_back_as_written
                a_pending_audit_ends_once
                a_request_has_one_pending_audit
                the_end_of_an_audit_is_laid_over_it
                audits_are_found_by_every_filter
                audits_make_no_users;
            outbox:
                due_memories_are_claimed_by_one_worker
                the_oldest_due_are_claimed_first
                what_is_not_due_is_not_claimed
                what_somebody_holds_is_not_claimed
                a_lease_that_ran_out_is_claimed_again
                two_workers_share_the_memories_by_age
                a_memory_is_acknowledged_once
                a_worker_speaks_for_its_own_memories_only
                a_worker_whose_lease_ran_out_is_not_heard
                a_memory_that_failed_rests_until_its_time
                a_memory_may_be_given_up
                a_renewed_lease_is_never_claimed
                a_claim_of_nothing_takes_nothing
                workers_at_once_never_claim_the_same;
            facts:
                items_are_found_newest_first
                an_event_changes_its_item
                events_are_found_by_every_filter
                the_same_is_attached_once
                a_value_is_what_was_set_last
                a_candidate_is_kept_with_its_run;
            search:
                a_memory_is_kept_once
                a_memory_kept_by_ten_at_once_is_one
                a_kept_memory_is_found_as_it_was_kept
                any_word_fits_and_more_are_better
                a_query_is_words_and_nothing_else
                a_search_stays_in_its_spaces
                scripts_without_spaces_are_found_by_their_parts
                candidates_and_events_are_found;
        }
    };
}
