//! The rules, one function each, in a file per topic.

pub(crate) mod alerts;
pub(crate) mod audit;
pub(crate) mod begin;
pub(crate) mod bytes;
pub(crate) mod cancel;
pub(crate) mod claim;
pub(crate) mod clock;
pub(crate) mod close_races;
pub(crate) mod concurrency;
pub(crate) mod discard;
pub(crate) mod ending;
pub(crate) mod enqueue;
pub(crate) mod erase;
pub(crate) mod erase_races;
pub(crate) mod expire;
pub(crate) mod fence;
pub(crate) mod find;
pub(crate) mod heartbeat;
pub(crate) mod late;
pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod operate;
pub(crate) mod order;
pub(crate) mod pages;
pub(crate) mod payload;
pub(crate) mod poison;
pub(crate) mod problems;
pub(crate) mod queues;
pub(crate) mod races;
pub(crate) mod read;
pub(crate) mod redrive;
pub(crate) mod redrive_pace;
pub(crate) mod redrive_races;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod resend;
pub(crate) mod resolve;
pub(crate) mod retention;
pub(crate) mod retention_keys;
pub(crate) mod retention_size;
pub(crate) mod retention_stay;
pub(crate) mod retention_steps;
pub(crate) mod retention_totals;
pub(crate) mod schedule;
pub(crate) mod settle;
pub(crate) mod skip;
pub(crate) mod slots;
pub(crate) mod totals;
pub(crate) mod uncertain;
pub(crate) mod validity;
pub(crate) mod wait;

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
                a_rolled_back_ordered_enqueue_leaves_no_group_head
                an_unknown_queue_refuses_the_whole_call
                one_key_is_one_message
                one_key_is_one_message_within_a_call
                a_key_is_unique_in_its_queue_only
                a_key_with_another_payload_is_a_conflict
                a_key_with_another_group_is_a_conflict
                a_conflict_within_a_call_writes_nothing
                headers_and_delay_are_not_part_of_a_keys_identity
                payloads_compare_by_value
                every_kind_of_payload_survives
                an_enqueue_of_nothing_answers_nothing
                ten_thousand_messages_fit_in_one_call
                a_call_over_several_queues_lands_in_each
                a_delayed_message_rests_until_its_time
                a_message_rests_until_its_absolute_time
                a_time_in_the_past_is_due_now_and_overtakes_nothing
                a_time_is_kept_to_the_microsecond
                delays_in_one_call_make_separate_batches;
            claim:
                a_claim_runs_from_now_for_the_queues_lease_time
                a_claim_may_name_its_own_lease_time
                an_empty_queue_has_nothing_to_claim
                the_oldest_due_come_first
                a_limit_splits_a_batch_and_the_rest_keeps_its_place
                a_claim_gathers_several_batches
                a_batch_longer_than_the_cap_is_claimed_in_order
                fences_grow_and_tokens_differ
                a_leased_message_is_not_claimed_again
                queues_do_not_share_their_messages
                a_claim_takes_back_what_expired_in_its_queue
                a_claim_leaves_other_queues_leases_alone
                an_unknown_queue_cannot_be_claimed
                a_claim_outside_the_limits_is_refused;
            bytes:
                a_claim_takes_no_more_bytes_than_its_queue_allows
                a_claim_may_ask_for_fewer_bytes
                a_message_beyond_the_bytes_is_claimed_alone
                bytes_are_counted_over_several_batches
                headers_count_too
                a_suspect_batch_split_by_bytes_stays_suspect
                small_messages_are_claimed_as_before;
            ending:
                a_claim_cannot_ask_for_more_time_than_its_queue_allows
                a_renewal_cannot_ask_for_more_time_than_its_queue_allows
                an_ended_lease_comes_back_as_by_expiry
                results_of_an_ended_lease_are_late
                what_had_begun_is_uncertain_when_its_lease_is_ended
                an_ended_lease_is_recorded_with_who_and_why
                a_lease_is_named_by_its_token_alone;
            renew:
                a_renewal_runs_from_now
                a_renewal_never_shortens
                an_expired_lease_cannot_be_renewed
                an_unknown_token_cannot_renew
                a_settled_lease_cannot_be_renewed
                a_renewed_lease_outlives_its_first_term
                a_renewal_outside_the_limits_is_refused;
            release:
                a_release_gives_back_without_an_attempt
                a_release_keeps_what_has_begun
                a_lost_lease_cannot_release
                a_released_lease_is_over
                released_messages_queue_up_behind_the_due;
            begin:
                begun_messages_are_marked
                beginning_twice_is_beginning_once
                an_empty_begin_checks_the_lease
                a_lost_lease_cannot_begin
                beginning_a_stranger_begins_nothing
                a_settled_message_cannot_begin;
            settle:
                a_delivery_is_recorded_in_full
                a_retry_waits_for_the_delay_of_the_schedule
                jitter_stays_within_its_fraction
                a_report_may_name_its_own_delay
                the_last_try_ends_dead
                a_dead_report_ends_at_once
                a_partial_settle_leaves_the_rest_leased
                a_message_meant_for_another_destination_keeps_its_tries
                a_misdirected_message_rests_as_after_its_next_failure
                retries_of_one_settle_come_back_in_report_order
                an_empty_settle_checks_the_lease
                a_message_named_twice_refuses_the_settle
                a_changed_policy_applies_to_leases_in_flight
                a_thousand_messages_settle_in_one_call;
            fence:
                a_stale_lease_cannot_settle
                an_expired_lease_cannot_settle_even_before_it_is_ended
                an_ended_lease_cannot_settle
                an_unknown_token_cannot_settle
                a_repeated_settle_returns_what_was_recorded
                a_repeated_settle_cannot_change_its_mind
                a_repeated_settle_returns_the_current_state
                a_settle_may_repeat_some_and_add_others
                a_settle_repeated_after_the_rest_expired
                a_stranger_refuses_the_whole_settle
                a_repeat_with_a_stranger_is_refused
                the_kernels_own_code_cannot_be_borrowed
                a_token_settles_its_own_lease_only
                a_token_from_a_lost_timeline_is_refused;
            heartbeat:
                what_processes_do_adds_up_by_queue_and_minute
                stats_of_hours_stay_for_a_week
                the_backlog_is_sampled_once_a_minute
                processes_show_their_breakers
                processes_show_until_a_day_after_their_last_heartbeat
                an_impossible_heartbeat_is_refused
                keeps_the_processes_with_the_latest_heartbeats
                records_who_views_a_payload;
            problems:
                blocked_groups_show_until_they_go_on
                overdue_schedules_and_stuck_alerts_show
                deaths_are_counted_by_when_they_happened
                an_acknowledgement_holds_for_its_time
                an_acknowledgement_is_replaced_and_ended
                an_impossible_acknowledgement_is_refused;
            uncertain:
                an_uncertain_report_is_resent_under_on_uncertain_resend
                uncertain_reports_exhaust_the_tries
                doubt_lasts_until_the_sink_has_answered
                doubt_survives_a_requeue
                an_uncertain_report_is_held_under_on_uncertain_hold
                an_uncertain_last_try_is_held_rather_than_dead
                an_uncertain_report_with_a_code_to_hold_is_held_at_once
                a_begun_message_is_resent_after_a_crash
                a_begun_message_is_in_doubt_after_a_crash
                a_begun_message_is_held_after_a_crash
                a_begun_message_alone_is_held_even_on_its_last_try;
            expire:
                a_lease_that_ends_now_has_ended
                a_lost_lease_is_recorded_in_full
                an_expiry_ends_the_oldest_leases_first
                an_expiry_reaches_every_queue
                an_expiry_with_nothing_to_do_does_nothing
                an_expiry_counts_against_a_message_alone
                an_expiry_does_not_count_for_messages_that_share_a_lease
                the_last_of_a_partly_settled_lease_is_alone
                a_message_that_keeps_killing_its_worker_ends_dead
                tries_and_losses_count_together;
            validity:
                a_message_is_kept_with_its_expiry
                an_expired_message_is_not_claimed
                expired_messages_leave_their_lease
                a_claim_goes_on_behind_expired_messages
                a_claim_goes_on_behind_many_expired_messages
                a_message_expires_in_the_moment_of_its_expiry
                a_retry_after_the_expiry_dies
                a_lost_lease_may_outlast_the_expiry
                an_expired_head_is_a_death_to_its_group
                an_expiry_leaves_time_to_send
                an_expiry_is_not_part_of_a_keys_identity
                the_rest_of_a_lease_settles_as_ever
                an_expired_message_dies_again_after_a_requeue
                a_message_in_doubt_is_no_death_to_a_careful_queue
                deaths_by_expiry_are_alerted
                a_paused_queue_keeps_its_expired_messages;
            poison:
                what_comes_back_from_an_expiry_comes_back_in_halves
                a_suspect_batch_is_not_leased_with_others
                older_messages_pass_over_a_suspect_batch
                a_suspect_batch_split_by_a_limit_stays_suspect
                a_message_that_was_reported_is_no_suspect
                poison_is_isolated_and_its_neighbours_delivered
                two_poisons_do_not_hide_each_other
                everything_drains_after_faults_end;
            order:
                only_the_oldest_of_a_group_may_be_claimed
                an_enqueue_answers_who_waits
                messages_without_a_group_do_not_wait
                an_unordered_queue_ignores_groups
                the_same_group_in_two_queues_is_two_groups
                a_retried_message_stays_group_head
                an_expired_message_stays_group_head
                a_released_message_stays_group_head
                a_dead_message_blocks_its_group_until_delivered
                a_dead_message_lets_its_group_continue
                a_death_by_expiry_is_a_death_to_its_group
                a_requeued_message_waits_while_its_group_is_busy
                a_held_message_blocks_its_group
                a_held_waiting_message_keeps_its_place
                a_held_waiting_message_may_return_before_it_is_head
                many_held_messages_keep_their_places
                a_held_waiting_message_may_find_its_group_free
                an_uncertain_message_held_blocks_its_group
                a_waiting_message_keeps_its_delay
                a_drained_group_starts_afresh
                a_settle_promotes_in_many_groups
                a_thousand_groups_drain_in_order;
            operate:
                a_paused_queue_gives_nothing_out
                pausing_twice_keeps_the_first_time
                a_claim_ends_expired_leases_of_a_paused_queue
                an_unknown_queue_cannot_be_paused
                a_requeue_gives_a_fresh_set_of_tries
                only_dead_messages_can_be_requeued
                only_ready_and_waiting_messages_can_be_held
                only_held_messages_can_be_unheld
                moves_answer_by_id_and_each_id_once
                a_held_message_keeps_its_tries
                a_hold_leaves_the_rest_of_a_batch_in_order
                delivered_is_final;
            resend:
                a_message_is_sent_again_as_a_new_one
                a_resend_that_is_rejected_writes_nothing;
            resolve:
                a_held_message_may_be_resolved_as_delivered
                a_held_message_may_be_resolved_as_dead
                a_message_resolved_as_unknown_stays_in_doubt
                a_result_is_refused_where_it_means_nothing
                only_held_messages_can_be_resolved
                a_resolved_message_lets_its_group_move_on
                a_message_resolved_as_dead_blocks_its_group
                a_message_held_while_it_waited_promotes_no_other
                many_are_resolved_in_one_call;
            discard:
                a_dead_message_is_discarded_for_good
                a_held_message_is_discarded
                only_dead_and_held_messages_are_discarded
                nothing_moves_a_discarded_message
                a_discarded_head_lets_its_group_go_on
                the_last_of_a_group_is_discarded
                a_discarded_message_of_the_middle_promotes_no_other
                many_of_many_groups_are_discarded_in_one_call
                a_key_of_a_discarded_message_stays_taken
                discarded_messages_are_counted_for_ever
                a_departed_record_shows_a_discard
                a_discard_restarts_the_time_of_a_dead_message
                a_discarded_message_can_be_erased
                an_erased_dead_message_can_be_discarded
                a_late_result_of_a_discarded_message_is_evidence
                discarded_messages_are_listed;
            cancel:
                a_ready_message_is_cancelled
                a_message_due_later_is_cancelled
                only_ready_and_waiting_messages_are_cancelled
                a_cancelled_head_lets_its_group_go_on
                a_waiting_message_is_cancelled
                cancelled_messages_leave_in_their_time
                a_redrive_discards_the_dead_of_a_code
                a_redrive_opens_the_groups_that_it_discards_the_heads_of
                a_redrive_cancels_what_was_enqueued_before
                a_redrive_closes_within_its_rate_and_limit
                a_redrive_that_cancels_names_a_queue;
            skip:
                a_dead_head_is_skipped
                a_held_head_is_skipped
                a_ready_head_is_skipped
                a_leased_head_is_not_skipped
                a_skip_closes_the_head_only
                a_skip_needs_an_ordered_queue_and_a_name;
            slots:
                slots_stay_apart_however_many_are_asked_for
                a_full_reservation_names_when_to_call_again
                a_clock_set_back_hands_out_no_slot_twice;
            close_races:
                a_discard_races_a_settle_and_an_expiry
                a_discard_races_a_requeue
                redrives_of_two_minds_share_the_dead
                a_cancel_races_claims
                a_skip_races_settles_and_enqueues
                a_cancelled_head_races_an_enqueue
                cancels_and_holds_race_settles_of_many_groups;
            audit:
                moving_nothing_answers_nothing
                every_action_is_recorded_with_who_and_why
                refused_moves_leave_no_record
                an_audit_is_read_in_pages
                operator_actions_need_an_actor_and_a_reason;
            late:
                a_late_result_is_kept_as_evidence
                no_late_result_changes_anything
                a_late_success_puts_later_claims_in_doubt
                a_result_is_late_before_the_lease_is_taken_back
                a_live_lease_has_no_late_results
                only_a_lost_lease_records_late_results
                what_was_released_or_settled_was_not_lost
                a_held_message_may_have_been_delivered_after_all
                the_first_late_result_stands
                late_results_come_in_order_of_time
                a_late_result_is_cut_like_any_report
                a_message_named_twice_refuses_late_results
                late_results_at_once_leave_one_record;
            redrive:
                a_redrive_requeues_the_dead_by_id
                a_redrive_takes_its_queue_and_code_only
                a_redrive_takes_first_what_was_shown_first
                every_requeue_of_a_redrive_is_recorded
                a_redrive_takes_only_what_was_dead_at_its_start
                what_died_in_the_moment_of_the_start_is_not_taken_twice
                what_a_person_requeued_is_passed_over
                a_redrive_ends_at_its_limit
                a_redrive_of_nothing_is_done_at_once
                a_redrive_keeps_groups_in_order
                a_redrive_opens_blocked_groups
                rejects_redrives_that_cannot_run
                redrives_are_listed_newest_first
                the_dead_are_counted;
            redrive_pace:
                a_redrive_keeps_its_rate
                a_rate_that_divides_unevenly_is_kept
                a_rate_is_kept_to_the_microsecond
                a_clock_set_back_does_not_stall_a_redrive
                a_stopped_redrive_waits_until_it_is_resumed
                a_slow_redrive_does_not_hold_up_another;
            redrive_races:
                another_process_goes_on_where_one_stopped
                many_steppers_move_each_message_once
                many_steppers_keep_the_rate_together
                a_redrive_races_people_and_deaths;
            schedule:
                a_schedule_is_kept_as_it_was_put
                a_change_keeps_the_next_tick_unless_it_is_computed_otherwise
                a_tick_enqueues_its_message_and_moves_on
                a_step_takes_several_ticks_in_order
                missed_ticks_may_pass_without_a_message
                only_the_databases_clock_makes_a_tick_due
                a_paused_schedule_has_no_ticks
                a_plan_for_what_has_changed_is_not_taken
                many_processes_take_each_tick_once
                a_schedule_is_run_by_hand_beside_its_ticks
                upcoming_ticks_are_ordered_and_paged
                a_schedule_that_its_queue_refuses_is_refused
                bad_calls_about_schedules_are_refused;
            alerts:
                deaths_are_alerted_with_their_number
                an_interval_has_one_alert_and_the_next_counts_the_rest
                each_reason_and_code_has_its_own_interval
                codes_beyond_the_most_share_an_alert
                three_lost_leases_within_the_interval_are_alerted
                lost_leases_older_than_the_interval_are_dropped
                a_queue_older_than_its_limit_is_alerted
                the_text_of_an_alert_has_no_markup_of_others
                an_open_breaker_is_alerted
                a_queue_without_alerts_records_nothing
                a_changed_policy_takes_effect_at_the_next_step
                requeued_and_resolved_deaths_count
                a_death_that_was_not_committed_is_not_counted
                an_alert_that_its_queue_refuses_is_kept
                rejects_alert_policies_that_cannot_work
                a_step_takes_no_more_than_its_limit
                queues_that_alert_each_other_are_bounded
                a_clock_set_back_does_not_silence_alerts
                steppers_at_once_lose_and_double_nothing;
            erase:
                an_erasure_removes_content_and_keeps_history
                an_erasure_is_in_the_audit_and_in_lists
                what_is_not_final_is_not_erased
                erasing_again_changes_nothing
                messages_are_erased_by_key
                messages_are_erased_by_correlation_id
                an_erased_message_is_not_sent_again
                a_late_result_of_an_erased_message_has_no_content
                a_key_is_compared_after_its_message_was_erased
                a_dead_head_of_a_blocked_group_is_not_erased
                an_erasure_needs_a_name_a_reason_and_a_bound;
            erase_races:
                an_erased_message_leaves_with_its_erasure
                an_erasure_restarts_a_departure
                an_archive_is_cleared_of_an_erasure_once
                an_erasure_races_a_requeue
                an_erasure_races_late_results;
            retention:
                nothing_leaves_by_default
                delivered_messages_leave_after_their_time
                dead_messages_leave_after_theirs
                what_is_not_finished_never_leaves
                times_count_from_the_last_event
                a_late_result_prolongs_a_messages_time
                a_queue_that_keeps_longer_keeps_its_messages
                a_policy_change_takes_effect_at_once
                a_blocked_group_keeps_its_dead_head
                what_left_is_gone_for_every_read
                audit_entries_leave_with_their_message
                what_left_cannot_be_settled_again
                ids_are_not_used_again
                the_departed_are_counted_for_ever
                doctor_is_clean_after_departures;
            retention_steps:
                a_departure_has_every_record
                many_messages_leave_in_steps
                a_requeue_keeps_a_dead_message
                a_record_about_a_message_restarts_its_departure
                a_departure_under_way_keeps_its_times
                a_policy_change_gives_up_a_departure
                an_archive_is_required_unless_the_policy_disables_it
                without_an_archive_messages_leave_that_need_none
                without_an_archive_a_departure_that_needs_one_is_given_up
                one_process_at_a_time_maintains
                a_lost_maintenance_lease_changes_nothing
                a_departure_goes_on_after_its_process
                a_departure_that_is_over_stays_over
                the_departure_is_on_record
                rejects_names_that_cannot_be_recorded;
            retention_stay:
                a_queue_that_keeps_everything_holds_no_other_back
                what_happens_to_what_stays_meanwhile_is_kept;
            retention_totals:
                totals_count_what_is_there_and_what_has_left
                deaths_stay_in_the_totals_after_a_requeue
                the_totals_of_a_queue_never_go_backwards
                a_pass_is_recorded_with_its_end
                only_the_maintenance_records_a_pass
                samples_show_how_a_queue_grows
                of_an_hour_the_last_sample_stays
                samples_are_kept_for_a_week;
            retention_size:
                by_size_delivered_messages_leave_before_their_time
                by_size_the_oldest_leave_first
                by_size_nothing_leaves_that_its_queue_keeps_for_ever
                by_size_an_archive_is_still_required
                by_size_a_policy_change_gives_up_a_departure
                the_size_of_the_database_grows_with_its_messages;
            retention_keys:
                a_key_outlives_its_message
                a_key_compares_numbers_by_value_after_its_message_left
                a_key_names_one_message_at_a_time
                a_forgotten_key_is_free
                keys_are_forgotten_a_few_at_a_time
                a_key_stays_while_its_message_does;
            queues:
                a_queue_keeps_every_rule_it_was_given
                an_uncreated_queue_does_not_exist
                queues_are_listed_by_name_with_their_counts
                queues_are_listed_in_pages
                counts_take_ended_leases_as_leased
                new_rules_leave_a_pause_in_place
                rules_no_store_could_honour_are_refused
                order_cannot_change_while_messages_are_unfinished
                order_cannot_change_while_a_group_is_blocked
                order_may_change_once_all_is_delivered
                on_dead_may_let_blocked_groups_go_on
                on_dead_may_block_from_now_on;
            read:
                an_explanation_carries_the_whole_message
                an_explanation_carries_the_last_attempt
                an_unknown_message_has_no_history
                every_place_has_its_sentence
                leases_are_listed_oldest_first;
            list:
                a_list_runs_from_the_newest_in_pages
                a_listed_message_shows_where_it_is
                a_list_can_be_filtered
                a_case_is_found_by_its_correlation_id
                a_correlation_id_is_a_text_of_any_length
                filtered_pages_lose_nothing
                the_dead_are_listed_with_their_cause;
            find:
                a_list_is_narrowed_by_group_key_headers_and_time
                narrow_pages_go_on_and_reach_everything
                a_narrowed_list_can_be_of_one_state
                the_dead_are_grouped_by_queue_and_code;
            pages:
                pages_that_look_at_little_go_on_and_reach_everything
                a_page_of_nothing_has_no_next
                a_filter_with_nul_finds_nothing
                a_list_by_state_shows_no_other_state;
            payload:
                a_payload_is_kept_to_the_last_digit
                a_key_compares_numbers_by_value
                a_payload_is_measured_written_out
                a_payload_may_be_as_deep_as_the_limit;
            limits:
                a_payload_may_be_as_large_as_its_queue_allows
                a_megabyte_of_payload_survives
                keys_and_groups_have_a_length
                nul_is_refused_wherever_it_hides
                headers_have_a_size
                a_delay_has_an_end
                a_time_is_at_most_ten_years_ahead
                a_babbling_report_is_cut_not_refused
                a_deep_result_is_kept_as_text
                text_is_data_and_never_code;
            clock:
                every_time_is_the_databases
                two_instances_agree_on_when_a_lease_ends
                a_clock_set_back_prolongs_a_lease
                a_clock_set_forward_ends_a_lease
                an_expired_lease_lives_again_if_the_clock_is_set_back
                an_ended_lease_stays_ended_if_the_clock_is_set_back
                messages_of_the_future_are_not_due
                a_promotion_never_comes_before_the_message
                a_message_leaves_by_its_latest_event;
            concurrency:
                many_claimers_share_without_overlap
                nothing_enqueued_during_claims_is_lost
                two_expirers_record_one_loss
                one_key_sent_by_many_is_one_message
                groups_stay_in_order_under_many_workers
                a_wait_comes_back_by_itself;
            totals:
                no_more_messages_are_leased_than_the_queue_allows
                what_expires_or_is_released_counts_no_more
                a_limit_of_all_processes_follows_the_policy
                many_claimers_keep_the_limit_together
                send_slots_follow_each_other_at_the_rate
                send_slots_follow_the_policy_and_the_clock
                send_slots_of_nothing_are_refused
                no_slot_is_handed_out_twice;
            wait:
                an_enqueue_ends_a_wait
                a_delayed_enqueue_ends_a_wait_when_it_is_due
                a_retry_ends_a_wait_when_it_is_due
                a_promotion_ends_a_wait;
            races:
                of_two_payloads_for_one_key_one_wins
                a_requeue_races_a_settle
                one_settle_of_many_repeats_is_recorded
                a_group_that_drains_while_it_fills_is_never_stuck
                a_renewal_races_an_expiry
                queues_made_by_many_are_made_once;
        }
    };
}
