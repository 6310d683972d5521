//! A suite that has never failed is no evidence: each broken statement of the hook and each broken trigger must be
//! caught.

use std::any::Any;

use async_trait::async_trait;
use consign_conformance::fixture::sqlite::SqliteFixture;
use consign_orders::store::{Statements, sqlite_component, sqlite_component_with};

use super::{bench_of, bypass, doctor, execute, harness::fixture};
use crate::cases::{LedgerFactory, LedgerHarness, run};

/// A statement of the hook or a trigger in which something else is written in place of a part.
#[derive(Clone, Copy, Debug)]
struct BrokenTrigger {
    name: &'static str,
    part: &'static str,
    instead: &'static str,
}

impl BrokenTrigger {
    /// A store with this flaw.
    async fn bench(&self) -> SqliteFixture {
        let mut statements = Statements::default();
        let statement = match self.name {
            "settled" => &mut statements.settled,
            "died" => &mut statements.died,
            "requeued" => &mut statements.requeued,
            _ => {
                let bench = fixture(sqlite_component()).await;
                self.break_trigger(&bench).await;
                return bench;
            }
        };
        assert!(statement.contains(self.part), "{self:?} breaks nothing");
        *statement = statement.replace(self.part, self.instead).leak();
        fixture(sqlite_component_with(statements)).await
    }

    async fn break_trigger(&self, bench: &SqliteFixture) {
        let mut connection = bench.connect().await;
        let text: String = sqlx::query_scalar("SELECT sql FROM sqlite_schema WHERE name = ?1")
            .bind(self.name)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert!(text.contains(self.part), "{self:?} breaks nothing");
        let broken = text.replace(self.part, self.instead);
        let statements = format!("DROP TRIGGER {}; {broken}", self.name);
        execute(&mut connection, &statements).await.unwrap();
    }
}

#[async_trait]
impl LedgerFactory for BrokenTrigger {
    async fn fresh(&self) -> Box<dyn LedgerHarness> {
        Box::new(self.bench().await)
    }
}

/// Breaks a statement or a trigger; each of the cases must fail by an assertion of its own, not by what doctor
/// finds afterwards.
async fn caught(name: &'static str, part: &'static str, instead: &'static str, cases: &[&str]) {
    let broken = BrokenTrigger {
        name,
        part,
        instead,
    };
    // By itself first: a trigger that cannot be made would catch everything.
    drop(broken.fresh().await);
    for case in cases {
        let name = (*case).to_owned();
        let examined = tokio::spawn(async move { run(&name, &broken).await });
        let error = examined
            .await
            .expect_err(&format!("{case} passes over {broken:?}"));
        let message = panic_message(&*error.into_panic());
        assert!(
            !message.starts_with("doctor found"),
            "{case} over {broken:?}: {message}"
        );
        assert!(!message.starts_with("there is no case"), "{message}");
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_not_followed_is_caught() {
    for (part, instead, cases) in [
        (
            "WHERE a.outcome",
            "WHERE 0 AND a.outcome",
            &[
                "every_end_of_a_message_is_the_end_of_its_order",
                "an_order_is_resolved_as_executed_only_with_its_result",
                "a_key_with_another_body_is_a_conflict_in_every_state",
            ][..],
        ),
        (
            "a.outcome = 'delivered'",
            "true",
            &["a_failure_that_will_be_retried_leaves_the_order_accepted"],
        ),
        (
            "SELECT 2, 200",
            "SELECT 0, 200",
            &["an_answer_is_read_back_byte_by_byte"],
        ),
        (
            "SELECT 2, 200, NULL",
            "SELECT 2, 200, 'x'",
            &["a_delivery_without_a_result_is_the_end_of_its_order"],
        ),
        (
            "AND attempt_no = a.attempt_no",
            "AND attempt_no = 1",
            &["an_uncertain_order_is_sent_again_and_counts_once"],
        ),
    ] {
        caught("settled", part, instead, cases).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_that_is_not_followed_is_caught() {
    for (part, instead, cases) in [
        (
            "WHERE d.code <>",
            "WHERE 0 AND d.code <>",
            &[
                "every_end_of_a_message_is_the_end_of_its_order",
                "an_order_whose_lease_ends_for_the_last_time_fails",
            ][..],
        ),
        (
            "d.code <> 'IDEMPOTENCY_CONFLICT'",
            "true",
            &["a_conflict_code_leaves_the_order_alone"],
        ),
        (
            "SELECT 2, http_status, NULL",
            "SELECT 0, http_status, NULL",
            &["a_failure_that_will_be_retried_leaves_the_order_accepted"],
        ),
        (
            "'reason_code', reason",
            "'reason_code', NULL",
            &["an_order_whose_lease_ends_for_the_last_time_fails"],
        ),
        (
            "http_status = 504",
            "1",
            &["an_order_that_dies_in_doubt_may_have_been_executed"],
        ),
        (
            "http_status = 504",
            "0",
            &["a_doubt_that_the_sink_reports_is_stored_unchanged"],
        ),
        (
            "SELECT 2 AS choice, 504",
            "SELECT 5 AS choice, 504",
            &["an_order_that_dies_in_doubt_may_have_been_executed"],
        ),
        (
            "AND attempt_no = d.attempt_no",
            "AND attempt_no = 1",
            &["a_held_order_is_resolved_either_way"],
        ),
    ] {
        caught("died", part, instead, cases).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeue_that_is_not_followed_is_caught() {
    const AGAIN: &str = "a_requeued_order_is_accepted_again_with_the_same_times_to_live";
    for (part, instead, cases) in [
        (
            "WHERE outbox_id",
            "WHERE 0 AND outbox_id",
            &[AGAIN, "a_redrive_brings_orders_back_too"][..],
        ),
        (
            "AND +status = 'failed'",
            "",
            &["a_conflict_code_leaves_the_order_alone"],
        ),
        ("http_status = 201", "http_status = 200", &[AGAIN]),
        ("result_digest = NULL,", "", &[AGAIN]),
        ("requeued_at = ?2,", "", &[AGAIN]),
        (
            "    expires_at = min(?2",
            "    expires_at = min(coalesce(requeued_at, first_seen_at)",
            &["a_requeued_order_outlives_its_first_time_to_live"],
        ),
        (
            "order_expires_at = min(?2",
            "order_expires_at = min(coalesce(requeued_at, first_seen_at)",
            &[AGAIN],
        ),
    ] {
        caught("requeued", part, instead, cases).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_that_leaves_something_behind_is_caught() {
    const REMOVED: &str = "what_is_past_its_time_is_removed_with_its_message";
    let gate = "WHEN NOT EXISTS (SELECT 1 FROM purging WHERE OLD.message_id >= first AND OLD.message_id <= last)";
    let of_messages =
        "WHEN NOT EXISTS (SELECT 1 FROM purging WHERE OLD.id >= first AND OLD.id <= last)";
    caught("message_delete", of_messages, "", &[REMOVED]).await;
    for trigger in ["attempt_delete", "late_delete"] {
        caught(trigger, gate, "", &[REMOVED]).await;
    }
    let given_again = &["a_purged_key_is_free_again"];
    caught(
        "message_purged",
        "max(message_id, OLD.id)",
        "message_id",
        given_again,
    )
    .await;
}

/// Breaks a statement or a trigger; a rule for plain SQL must fail, since no operation of the store comes there.
macro_rules! caught_by_hand {
    ($rule:path: $(($name:literal, $part:expr, $instead:expr)),+ $(,)?) => {$(
        let broken = BrokenTrigger {
            name: $name,
            part: $part,
            instead: $instead,
        };
        let fixture = bench_of(broken.bench().await).await;
        let examined = tokio::spawn(async move { $rule(&fixture).await });
        let what = format!("{} passes over {broken:?}", stringify!($rule));
        examined.await.expect_err(&what);
    )+};
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_against_plain_sql_that_is_broken_is_caught() {
    let digest = |id: &str| -> &'static str {
        let condition =
            "AND request_digest = (SELECT request_digest FROM order_message WHERE id = ";
        format!("{condition}{id})").leak()
    };
    caught_by_hand!(bypass::another_request_is_left_alone:
        ("settled", digest("a.message_id"), ""),
        ("died", digest("d.message_id"), ""),
        ("requeued", digest("outbox_id"), ""),
    );
    caught_by_hand!(bypass::succeeded_is_final:
        ("settled", "AND +status = 'accepted'", ""),
        ("died", "AND +status = 'accepted'", ""),
        ("idempo_ledger_final", "WHEN OLD", "WHEN 0 AND OLD"),
        ("idempo_ledger_replace", "WHEN EXISTS", "WHEN 0 AND EXISTS"),
        ("idempo_ledger_replace", "OR EXISTS", "AND EXISTS"),
    );
    caught_by_hand!(doctor::without_a_code_nothing_follows:
        ("settled", "AND a.code IS NOT NULL", ""),
    );
    caught_by_hand!(bypass::the_gate_is_shut:
        ("message_delete", "WHEN NOT EXISTS", "WHEN 0 AND NOT EXISTS"),
        ("attempt_delete", "WHEN NOT EXISTS", "WHEN 0 AND NOT EXISTS"),
        ("message_purged", "(SELECT audit_id FROM purging)", "audit_id"),
        ("purging_insert", "NEW.audit_id IS (SELECT max(id) FROM audit)", "1"),
        ("purging_insert", "AND NEW.audit_id > (SELECT audit_id FROM purged)", ""),
        ("purging_insert", "AND 'purge' IS (SELECT action FROM audit WHERE id = NEW.audit_id)", ""),
        ("purged_insert", "BEFORE INSERT ON purged", "BEFORE INSERT ON purged WHEN 0"),
        ("purged_delete", "BEFORE DELETE ON purged", "BEFORE DELETE ON purged WHEN 0"),
        ("purged_update", "NEW.message_id < OLD.message_id OR NEW.audit_id < OLD.audit_id", "0"),
    );
}
