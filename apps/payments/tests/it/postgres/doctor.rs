//! `doctor` finds damage done to payments behind the engine's back.

use consign_kernel::{NOT_CHECKED, Store as _};
use consign_postgres::PostgresStore;
use consign_testkit::Login;

use super::{
    Desk,
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
        let mut desk = Desk::open().await;
        desk.enqueue("p", 3).await;
        let claimed = desk.claim(1, "w", 60).await;
        desk.complete(&claimed[0], "w", "DISPATCHED").await.unwrap();
        assert_eq!(desk.findings().await, Vec::<String>::new());
        execute(desk.database.url(), damage).await;
        let findings = desk.findings().await;
        assert!(
            findings.iter().any(|found| found == code),
            "{damage} was seen as {findings:?}"
        );
    }
}

/// What is not damaged, but must be looked at: each is found when it is there, and gone when somebody
/// has seen to it.
#[tokio::test]
async fn payments_that_somebody_must_look_at_are_named() {
    let nothing = Vec::<String>::new();
    let mut desk = Desk::frozen().await;
    desk.policy(r#"{"attempts_max": 1}"#).await;
    let ids = desk.enqueue("p", 1).await;
    let lost = desk.claim_one("w", 60).await;
    desk.pass(60.0).await;
    assert_eq!(desk.findings().await, nothing, "the next claim does it");
    desk.pass(60.0).await;
    assert_eq!(desk.findings().await, ["payment_lease_expired"]);
    desk.run("SELECT consign.repair_expired_leases(10, 'me')")
        .await;
    assert_eq!(desk.findings().await, ["payment_failed_in_doubt"]);
    let kind = "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'FAILED_IN_DOUBT' AND verdict = 'FAILED'";
    assert_eq!(desk.count(kind).await, 1);

    let witness = "SELECT consign.witness_outbox_attempt($1, $2, 'w', 'DISPATCHED', 'rail-late')";
    sqlx::query(witness)
        .bind(lost.outbox_id)
        .bind(lost.lease_token)
        .execute(&mut desk.connection)
        .await
        .unwrap();
    assert_eq!(
        desk.findings().await,
        ["payment_late_unconfirmed", "payment_failed_in_doubt"]
    );
    desk.run("SELECT consign.requeue(ARRAY(SELECT message_id FROM consign.payment), 'me', 'ask')")
        .await;
    assert_eq!(desk.findings().await, ["payment_late_unconfirmed"]);
    let again = desk.claim_one("v", 60).await;
    assert!(again.in_doubt);
    sqlx::query("SELECT consign.complete_outbox_attempt($1, $2, 'v', 'DISPATCHED', 'rail-late')")
        .bind(ids[0])
        .bind(again.lease_token)
        .execute(&mut desk.connection)
        .await
        .unwrap();
    assert_eq!(desk.findings().await, nothing, "the rail said the same");
}

/// A person's word ends the alarm, whatever it is.
#[tokio::test]
async fn what_a_person_resolved_is_not_looked_at_again() {
    for resolve in [
        r#"SELECT consign.resolve(ARRAY(SELECT message_id FROM consign.payment), 'delivered', 'me', 'it is in the books', '{"rail_reference": "R-1"}')"#,
        "SELECT consign.resolve(ARRAY(SELECT message_id FROM consign.payment), 'dead', 'me', 'it is not')",
    ] {
        let mut desk = Desk::frozen().await;
        desk.enqueue("p", 1).await;
        let lost = desk.claim_one("w", 60).await;
        desk.pass(60.0).await;
        let witness =
            "SELECT consign.witness_outbox_attempt($1, $2, 'w', 'DISPATCHED', 'rail-late')";
        sqlx::query(witness)
            .bind(lost.outbox_id)
            .bind(lost.lease_token)
            .execute(&mut desk.connection)
            .await
            .unwrap();
        desk.run(
            "SELECT consign.repair_expired_leases(10, 'me');
             SELECT consign.hold(ARRAY(SELECT message_id FROM consign.payment), 'me', 'ask the rail')",
        )
        .await;
        assert_eq!(desk.findings().await, ["payment_late_unconfirmed"]);
        desk.run(resolve).await;
        assert_eq!(desk.findings().await, Vec::<String>::new());
        let verdict = "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'LATE_RESULT' AND verdict = 'RESOLVED'";
        assert_eq!(desk.count(verdict).await, 1);
    }
}

/// Auditors and operators look everywhere; the roles of payments at what is in the server's catalog.
#[tokio::test]
async fn doctor_comes_to_an_end_under_every_role_of_payments() {
    const CHECKS: usize = 8;
    let database = database().await;
    for (role, checked) in [
        ("consign_auditor", CHECKS),
        ("consign_operator", CHECKS),
        ("consign_worker", 1),
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
