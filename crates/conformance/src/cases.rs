//! The rules, one function each, in a file per topic.

pub(crate) mod claim;
pub(crate) mod enqueue;

/// The names of all cases, by topic: the one list from which tests and `cases()` are made.
#[doc(hidden)]
#[macro_export]
macro_rules! each_case {
    ([$($callback:tt)+], $args:tt) => {
        $($callback)+! { $args
            enqueue:
                an_enqueued_message_is_claimed_as_it_was_sent
                ids_grow_in_order_of_enqueueing
                a_committed_enqueue_is_delivered
                a_rolled_back_enqueue_is_never_delivered
                a_rolled_back_ordered_enqueue_takes_no_turn
                an_unknown_lane_refuses_the_whole_batch
                one_key_is_one_message
                one_key_is_one_message_within_a_batch
                a_key_is_unique_in_its_lane_only
                a_key_with_another_payload_is_a_conflict
                a_key_with_another_group_is_a_conflict
                a_conflict_within_a_batch_writes_nothing
                headers_and_delay_are_not_part_of_a_keys_identity
                payloads_compare_by_value
                every_kind_of_payload_survives
                an_enqueue_of_nothing_answers_nothing
                ten_thousand_messages_fit_in_one_call
                a_batch_over_several_lanes_lands_in_each
                a_delayed_message_rests_until_its_time
                delays_in_one_batch_are_kept_apart;
            claim:
                a_claim_runs_from_now_for_the_lanes_lease_time
                a_claim_may_name_its_own_lease_time
                an_empty_lane_has_nothing_to_claim
                the_oldest_due_come_first
                a_limit_splits_a_run_and_the_rest_keeps_its_place
                a_claim_gathers_several_runs
                a_run_longer_than_the_cap_is_claimed_in_order
                fences_grow_and_tokens_differ
                a_leased_message_is_not_claimed_again
                lanes_do_not_share_their_messages
                a_claim_takes_back_what_expired_in_its_lane
                a_claim_leaves_other_lanes_leases_alone
                an_unknown_lane_cannot_be_claimed
                a_claim_outside_the_limits_is_refused;
        }
    };
}
