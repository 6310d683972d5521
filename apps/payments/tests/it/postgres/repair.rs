//! Repairing leases whose workers are gone.

use sqlx::Row;
use uuid::Uuid;

use super::{Fixture, claim};

async fn repair(fixture: &mut Fixture, batch: i32) -> Vec<(Uuid, i32, String)> {
    let rows = sqlx::query(
        "SELECT outbox_id, attempt_no, effective_state::text FROM consign.repair_expired_leases($1, 'repairer')",
    )
    .bind(batch)
    .fetch_all(&mut fixture.connection)
    .await
    .unwrap();
    rows.iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect()
}

#[tokio::test]
async fn a_repair_requeues_once_and_leaves_live_leases_alone() {
    let mut fixture = Fixture::frozen().await;
    let ids = fixture.enqueue("p", 2).await;
    fixture.claim(1, "a", 5).await;
    let live = fixture.claim(1, "b", 60).await;
    assert_eq!(repair(&mut fixture, 100).await, [], "nothing has ended");
    fixture.pass(5.0).await;
    let repaired = repair(&mut fixture, 100).await;
    assert_eq!(repaired, [(ids[0], 1, "ZOMBIE_REQUEUE".to_owned())]);
    assert_eq!(repair(&mut fixture, 100).await, [], "once");
    let row = sqlx::query(
        "SELECT claimed_by IS NULL AND lease_token IS NULL AND lease_expires_at IS NULL AS free, attempt_count,
                instruction_id, sequence_id, next_attempt_at = consign.clock() + interval '1 second' AS soon
         FROM consign.payment_outbox_pending WHERE outbox_id = $1",
    )
    .bind(ids[0])
    .fetch_one(&mut fixture.connection)
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
    fixture.complete(&live[0], "b", "DISPATCHED").await.unwrap();
    assert_eq!(
        fixture.count("SELECT count(*) FROM consign.payment").await,
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_repairers_at_once_write_one_attempt() {
    let mut fixture = Fixture::frozen().await;
    let ids = fixture.enqueue("p", 20).await;
    for _ in 0..20 {
        fixture.claim(1, "a", 5).await;
    }
    fixture.pass(5.0).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let mut connection = fixture.another().await;
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
        assert_eq!(fixture.attempts(id).await.len(), 1);
    }
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// One at the ceiling does not keep the others from being repaired.
#[tokio::test]
async fn a_repair_at_the_ceiling_fails_that_payment_and_repairs_the_others() {
    let mut fixture = Fixture::frozen().await;
    fixture.policy(r#"{"attempts_max": 2}"#).await;
    let ids = fixture.enqueue("p", 3).await;
    let first = fixture.claim(1, "a", 5).await;
    fixture.complete(&first[0], "a", "RETRYABLE").await.unwrap();
    fixture.pass(2.0).await;
    // Those that were never tried, each in a lease of its own; then the one that was, alone too.
    for _ in 0..3 {
        assert_eq!(fixture.claim(1, "a", 5).await.len(), 1);
    }
    fixture.pass(5.0).await;
    let mut repaired = repair(&mut fixture, 10).await;
    repaired.sort();
    let mut expected = vec![
        (ids[0], 2, "FAILED".to_owned()),
        (ids[1], 1, "ZOMBIE_REQUEUE".to_owned()),
        (ids[2], 1, "ZOMBIE_REQUEUE".to_owned()),
    ];
    expected.sort();
    assert_eq!(repaired, expected);
    let last = fixture.attempts(ids[0]).await.pop().unwrap();
    assert_eq!(last.2.as_deref(), Some("RETRY_CEILING_EXCEEDED"));
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM consign.payment_outbox_pending")
            .await,
        2
    );
    assert_eq!(fixture.findings().await, ["payment_failed_in_doubt"]);
}

/// Three crashes leave three rows; so many that the ceiling is reached end it.
#[tokio::test]
async fn every_crash_is_on_record_and_the_ceiling_ends_them() {
    for by_claim in [true, false] {
        let mut fixture = Fixture::frozen().await;
        fixture.policy(r#"{"attempts_max": 5}"#).await;
        let id = fixture.enqueue("p", 1).await[0];
        for crash in 1..=5 {
            let mut worker = fixture.another().await;
            let claimed = claim(&mut worker, 10, "crashing", 1).await.unwrap();
            assert_eq!(claimed.len(), 1, "crash {crash}");
            drop(worker);
            fixture.pass(1.0).await;
            if !by_claim {
                assert_eq!(repair(&mut fixture, 10).await.len(), 1);
                fixture.pass(1.0).await;
            }
            if crash == 3 {
                assert_eq!(fixture.count("SELECT count(*) FROM consign.payment_outbox_attempts WHERE state = 'ZOMBIE_REQUEUE'").await, if by_claim { 2 } else { 3 });
            }
        }
        assert_eq!(fixture.claim(10, "w", 1).await.len(), 0, "failed");
        let mut expected = vec!["ZOMBIE_REQUEUE"; 4];
        expected.push("FAILED");
        assert_eq!(fixture.states(id).await, expected, "by claim: {by_claim}");
        let doubts =
            "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'FAILED_IN_DOUBT'";
        assert_eq!(fixture.count(doubts).await, 1, "it may have been sent");
        assert_eq!(fixture.findings().await, ["payment_failed_in_doubt"]);
    }
}

#[tokio::test]
async fn three_crashes_leave_three_rows() {
    let mut fixture = Fixture::frozen().await;
    let id = fixture.enqueue("p", 1).await[0];
    for _ in 0..3 {
        fixture.claim_one("w", 1).await;
        fixture.pass(1.0).await;
    }
    let heir = fixture.claim_one("heir", 60).await;
    assert_eq!(fixture.states(id).await, ["ZOMBIE_REQUEUE"; 3]);
    assert_eq!(heir.attempt_count, 3);
}
