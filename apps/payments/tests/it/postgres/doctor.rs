//! `doctor` finds damage done to payments behind the engine's back.

use consign_kernel::NOT_CHECKED;
use consign_kernel::prelude::*;
use consign_postgres::PostgresStore;
use consign_testkit::Login;

use super::{
    Fixture,
    harness::{database, execute, options},
};

#[tokio::test]
async fn every_kind_of_damage_to_payments_is_named() {
    let damages = [
        (
            "SET session_replication_role = replica; DELETE FROM consign.message WHERE id = (SELECT min(id) FROM consign.message)",
            "payment_without_message",
        ),
        (
            "SET session_replication_role = replica; DELETE FROM consign.payment WHERE sequence_id = 3",
            "message_without_payment",
        ),
        (
            "SET session_replication_role = replica; DELETE FROM consign.payment WHERE sequence_id = 2",
            "payment_sequence_gap",
        ),
        (
            "SET session_replication_role = replica; DELETE FROM consign.payment_participant",
            "payment_sequence_gap",
        ),
        (
            "INSERT INTO consign.attempt SELECT message_id, fence, claimed_at, finished_at, next_due_at, 2, outcome, token, owner
             FROM consign.attempt",
            "payment_dispatched_twice",
        ),
        (
            "SELECT consign.set_hook('payments', 'check', NULL)",
            "payment_guard_off",
        ),
        (
            "UPDATE consign.queue SET hooks = hooks - 'settled' WHERE name = 'payments'",
            "payment_guard_off",
        ),
        (
            "DROP TRIGGER append_only ON consign.payment",
            "payment_guard_off",
        ),
    ];
    for (damage, code) in damages {
        let mut fixture = Fixture::open().await;
        fixture.enqueue("p", 3).await;
        let claimed = fixture.claim(1, "w", 60).await;
        fixture
            .complete(&claimed[0], "w", "DISPATCHED")
            .await
            .unwrap();
        assert_eq!(fixture.findings().await, Vec::<String>::new());
        execute(fixture.database.url(), damage).await;
        let findings = fixture.findings().await;
        assert!(
            findings.iter().any(|found| found == code),
            "{damage} was seen as {findings:?}"
        );
    }
}

/// Findings without damage: each is found when it is present, and gone when an operator
/// has seen to it.
#[tokio::test]
async fn payments_that_need_an_operator_are_listed() {
    let nothing = Vec::<String>::new();
    let mut fixture = Fixture::frozen().await;
    fixture.policy(r#"{"attempts_max": 1}"#).await;
    let ids = fixture.enqueue("p", 1).await;
    let lost = fixture.claim_one("w", 60).await;
    fixture.pass(60.0).await;
    assert_eq!(fixture.findings().await, nothing, "the next claim does it");
    fixture.pass(60.0).await;
    assert_eq!(fixture.findings().await, ["payment_lease_expired"]);
    fixture
        .run("SELECT consign.repair_expired_leases(10, 'me')")
        .await;
    assert_eq!(fixture.findings().await, ["payment_failed_in_doubt"]);
    let kind = "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'FAILED_IN_DOUBT' AND verdict = 'FAILED'";
    assert_eq!(fixture.count(kind).await, 1);

    let record_late =
        "SELECT consign.record_late_outbox_attempt($1, $2, 'w', 'DISPATCHED', 'rail-late')";
    sqlx::query(record_late)
        .bind(lost.outbox_id)
        .bind(lost.lease_token)
        .execute(&mut fixture.connection)
        .await
        .unwrap();
    assert_eq!(
        fixture.findings().await,
        ["payment_late_unconfirmed", "payment_failed_in_doubt"]
    );
    fixture
        .run("SELECT consign.requeue(ARRAY(SELECT message_id FROM consign.payment), 'me', 'check')")
        .await;
    assert_eq!(fixture.findings().await, ["payment_late_unconfirmed"]);
    let again = fixture.claim_one("v", 60).await;
    assert!(again.in_doubt);
    sqlx::query("SELECT consign.complete_outbox_attempt($1, $2, 'v', 'DISPATCHED', 'rail-late')")
        .bind(ids[0])
        .bind(again.lease_token)
        .execute(&mut fixture.connection)
        .await
        .unwrap();
    assert_eq!(fixture.findings().await, nothing, "the rail confirmed it");
}

/// A person's word ends the alarm, whatever it is.
#[tokio::test]
async fn what_a_person_resolved_is_not_looked_at_again() {
    for resolve in [
        r#"SELECT consign.resolve(ARRAY(SELECT message_id FROM consign.payment), 'delivered', 'me', 'it is in the books', '{"rail_reference": "R-1"}')"#,
        "SELECT consign.resolve(ARRAY(SELECT message_id FROM consign.payment), 'dead', 'me', 'it is not')",
    ] {
        let mut fixture = Fixture::frozen().await;
        fixture.enqueue("p", 1).await;
        let lost = fixture.claim_one("w", 60).await;
        fixture.pass(60.0).await;
        let record_late =
            "SELECT consign.record_late_outbox_attempt($1, $2, 'w', 'DISPATCHED', 'rail-late')";
        sqlx::query(record_late)
            .bind(lost.outbox_id)
            .bind(lost.lease_token)
            .execute(&mut fixture.connection)
            .await
            .unwrap();
        fixture.run(
            "SELECT consign.repair_expired_leases(10, 'me');
             SELECT consign.hold(ARRAY(SELECT message_id FROM consign.payment), 'me', 'ask the rail')",
        )
        .await;
        assert_eq!(fixture.findings().await, ["payment_late_unconfirmed"]);
        fixture.run(resolve).await;
        assert_eq!(fixture.findings().await, Vec::<String>::new());
        let verdict = "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'LATE_RESULT' AND verdict = 'RESOLVED'";
        assert_eq!(fixture.count(verdict).await, 1);
    }
}

/// Auditors and operators look everywhere; the roles of payments at what is in the server's catalog.
#[tokio::test]
async fn doctor_runs_under_every_role_of_payments() {
    const CHECKS: usize = 11;
    let database = database().await;
    for (role, checked) in [
        ("consign_auditor", CHECKS),
        ("consign_operator", CHECKS),
        // It also reads the hooks, with the policies of its queues.
        ("consign_worker", 2),
        ("symphony_control", 1),
        ("symphony_executor", 1),
        ("symphony_ingest", 1),
        ("symphony_readonly", 1),
        ("symphony_auditor", 1),
        ("symphony_tenant", 1),
    ] {
        let login = Login::create(&database).await;
        login.grant(role).await;
        let store = PostgresStore::connect(&options(login.url())).await.unwrap();
        let findings = store.doctor().await.unwrap();
        assert!(
            findings.iter().all(|it| it.code == NOT_CHECKED),
            "{role}: {findings:#?}"
        );
        assert_eq!(CHECKS - findings.len(), checked, "{role}: {findings:#?}");
        store.close().await;
        login.remove().await;
    }
}
