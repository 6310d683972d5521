//! `doctor` finds damage done to payments behind the engine's back.

use super::Desk;
use crate::harness::execute;

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
            "ALTER TABLE consign.message DISABLE TRIGGER payments_only",
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
