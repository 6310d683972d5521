//! The rules of what is known of repositories, one function each, in a file per topic.
//!
//! For stores that keep it: their harness answers `scm`. Cases name the facts and traps of the memory
//! protocol they stand for.

pub(crate) mod cursor;
pub(crate) mod depot;
pub(crate) mod history;
pub(crate) mod patches;
pub(crate) mod records;
pub(crate) mod repos;
pub(crate) mod reviews;

/// The names of all cases about repositories, by topic.
#[doc(hidden)]
#[macro_export]
macro_rules! each_scm_case {
    ([$($callback:tt)+], $args:tt) => {
        $($callback)+! { $args
            repos:
                a_repository_is_known_once
                a_repository_made_known_by_ten_at_once_is_one
                what_is_no_repository_is_refused
                how_a_repository_stands_adds_up
                how_a_step_ended_is_known
                a_note_is_an_event_of_the_repository
                notes_by_ten_at_once_share_an_item;
            records:
                records_are_written_with_their_watermark
                a_watermark_that_moved_refuses_the_batch
                what_is_known_stays
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
            cursor:
                a_stored_record_moves_the_cursor
                a_deferred_record_moves_the_cursor
                a_record_stored_before_moves_the_cursor
                a_failed_record_moves_nothing
                a_cursor_that_stands_elsewhere_stays
                every_repository_has_its_cursor
                of_two_that_consume_at_once_one_moves_it
                a_step_nobody_understands_is_none;
        }
    };
}
