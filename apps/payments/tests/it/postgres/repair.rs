//! Repairing leases whose workers are gone.

use sqlx::Row;
use uuid::Uuid;

use super::{Desk, claim};

async fn repair(desk: &mut Desk, batch: i32) -> Vec<(Uuid, i32, String)> {
    let rows = sqlx::query(
        "SELECT outbox_id, attempt_no, effective_state::text FROM consign.repair_expired_leases($1, 'repairer')",
    )
    .bind(batch)
    .fetch_all(&mut desk.connection)
    .await
    .unwrap();
    rows.iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect()
}

/// P-08.
#[tokio::test]
async fn a_repair_requeues_once_and_leaves_live_leases_alone() {
    let mut desk = Desk::frozen().await;
    let ids = desk.enqueue("p", 2).await;
    desk.claim(1, "a", 5).await;
    let live = desk.claim(1, "b", 60).await;
    assert_eq!(repair(&mut desk, 100).await, [], "nothing has ended");
    desk.pass(5.0).await;
    let repaired = repair(&mut desk, 100).await;
    assert_eq!(repaired, [(ids[0], 1, "ZOMBIE_REQUEUE".to_owned())]);
    assert_eq!(repair(&mut desk, 100).await, [], "once");
    let row = sqlx::query(
        "SELECT claimed_by IS NULL AND lease_token IS NULL AND lease_expires_at IS NULL AS free, attempt_count,
                instruction_id, sequence_id, next_attempt_at = consign.clock() + interval '1 second' AS soon
         FROM consign.payment_outbox_pending WHERE outbox_id = $1",
    )
    .bind(ids[0])
    .fetch_one(&mut desk.connection)
    .await
    .unwrap();
    assert!(row.get::<bool, _>("free") && row.get::<bool, _>("soon"));
    assert_eq!(row.get::<i32, _>("attempt_count"), 1);
    assert_eq!(
        (
            row.get::<&str, _>("instruction_id"),
            row.get::<i64, _>("sequence_id")
        ),
        ("i-p1", 1),
        "the same payment"
    );
    desk.complete(&live[0], "b", "DISPATCHED").await.unwrap();
    assert_eq!(desk.count("SELECT count(*) FROM consign.payment").await, 2);
}

/// P-08.
#[tokio::test(flavor = "multi_thread")]
async fn two_repairers_at_once_write_one_attempt() {
    let mut desk = Desk::frozen().await;
    let ids = desk.enqueue("p", 20).await;
    for _ in 0..20 {
        desk.claim(1, "a", 5).await;
    }
    desk.pass(5.0).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let mut connection = desk.another().await;
        tasks.push(tokio::spawn(async move {
            let rows = sqlx::query("SELECT * FROM consign.repair_expired_leases(100, 'r')")
                .fetch_all(&mut connection)
                .await
                .unwrap();
            rows.len()
        }));
    }
    let mut repaired = 0;
    for task in tasks {
        repaired += task.await.unwrap();
    }
    assert_eq!(repaired, 20);
    for id in ids {
        assert_eq!(desk.attempts(id).await.len(), 1);
    }
    assert_eq!(desk.findings().await, Vec::<String>::new());
}

/// P-09, CP-01: one at the ceiling does not keep the others from being repaired.
#[tokio::test]
async fn a_repair_at_the_ceiling_fails_that_payment_and_repairs_the_others() {
    let mut desk = Desk::frozen().await;
    desk.policy(r#"{"attempts_max": 2}"#).await;
    let ids = desk.enqueue("p", 3).await;
    let first = desk.claim(1, "a", 5).await;
    desk.complete(&first[0], "a", "RETRYABLE").await.unwrap();
    desk.pass(2.0).await;
    // Those that were never tried, each in a lease of its own; then the one that was, alone too.
    for _ in 0..3 {
        assert_eq!(desk.claim(1, "a", 5).await.len(), 1);
    }
    desk.pass(5.0).await;
    let mut repaired = repair(&mut desk, 10).await;
    repaired.sort();
    let mut expected = vec![
        (ids[0], 2, "FAILED".to_owned()),
        (ids[1], 1, "ZOMBIE_REQUEUE".to_owned()),
        (ids[2], 1, "ZOMBIE_REQUEUE".to_owned()),
    ];
    expected.sort();
    assert_eq!(repaired, expected);
    let last = desk.attempts(ids[0]).await.pop().unwrap();
    assert_eq!(last.2.as_deref(), Some("RETRY_CEILING_EXCEEDED"));
    assert_eq!(
        desk.count("SELECT count(*) FROM consign.payment_outbox_pending")
            .await,
        2
    );
    assert_eq!(desk.findings().await, ["payment_failed_in_doubt"]);
}

/// P-10, CP-02: three crashes leave three rows; so many that the ceiling is reached end it.
#[tokio::test]
async fn every_crash_is_on_record_and_the_ceiling_ends_them() {
    for by_claim in [true, false] {
        let mut desk = Desk::frozen().await;
        desk.policy(r#"{"attempts_max": 5}"#).await;
        let id = desk.enqueue("p", 1).await[0];
        for crash in 1..=5 {
            let mut worker = desk.another().await;
            let claimed = claim(&mut worker, 10, "crashing", 1).await.unwrap();
            assert_eq!(claimed.len(), 1, "crash {crash}");
            drop(worker);
            desk.pass(1.0).await;
            if !by_claim {
                assert_eq!(repair(&mut desk, 10).await.len(), 1);
                desk.pass(1.0).await;
            }
            if crash == 3 {
                assert_eq!(desk.count("SELECT count(*) FROM consign.payment_outbox_attempts WHERE state = 'ZOMBIE_REQUEUE'").await, if by_claim { 2 } else { 3 });
            }
        }
        assert_eq!(desk.claim(10, "w", 1).await.len(), 0, "given up");
        let mut expected = vec!["ZOMBIE_REQUEUE"; 4];
        expected.push("FAILED");
        assert_eq!(desk.states(id).await, expected, "by claim: {by_claim}");
        let doubts =
            "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'FAILED_IN_DOUBT'";
        assert_eq!(desk.count(doubts).await, 1, "somebody may have sent it");
        assert_eq!(desk.findings().await, ["payment_failed_in_doubt"]);
    }
}

/// The issue's own words: three crashes in a row leave three ZOMBIE_REQUEUE rows.
#[tokio::test]
async fn three_crashes_leave_three_rows() {
    let mut desk = Desk::frozen().await;
    let id = desk.enqueue("p", 1).await[0];
    for _ in 0..3 {
        desk.claim_one("w", 1).await;
        desk.pass(1.0).await;
    }
    let heir = desk.claim_one("heir", 60).await;
    assert_eq!(desk.states(id).await, ["ZOMBIE_REQUEUE"; 3]);
    assert_eq!(heir.attempt_count, 3);
}
