//! Claim, begin, renew, release.

use std::collections::HashSet;

use sqlx::Row;

use super::{Fixture, claim, refusal, sqlstate};

#[tokio::test]
async fn a_claim_takes_what_is_due_and_nothing_else() {
    let mut fixture = Fixture::frozen().await;
    assert_eq!(
        fixture.claim(10, "w", 60).await.len(),
        0,
        "no queue, no payments, no error"
    );
    fixture.enqueue("p", 1).await;
    let first = fixture.claim_one("a", 5).await;
    assert_eq!((first.attempt_count, first.in_doubt), (0, false));
    assert_eq!(fixture.claim(10, "b", 5).await.len(), 0, "leased");
    fixture.complete(&first, "a", "RETRYABLE").await.unwrap();
    assert_eq!(fixture.claim(10, "b", 5).await.len(), 0, "due in a second");
    fixture.pass(1.0).await;
    let again = fixture.claim_one("b", 5).await;
    assert_eq!(again.attempt_count, 1);
    assert_ne!(again.lease_token, first.lease_token);
    fixture.pass(5.0).await;
    let heir = fixture.claim_one("c", 5).await;
    assert_eq!(
        heir.attempt_count, 2,
        "an expired lease is not taken silently"
    );
    assert!(heir.in_doubt, "the previous owner may have called the rail");
    assert_eq!(
        fixture.states(heir.outbox_id).await,
        ["RETRYABLE", "ZOMBIE_REQUEUE"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_claimers_never_overlap_and_each_is_answered_in_order() {
    let mut fixture = Fixture::open().await;
    fixture.enqueue("p", 500).await;
    let mut tasks = Vec::new();
    for worker in 0..8 {
        let mut connection = fixture.another().await;
        tasks.push(tokio::spawn(async move {
            claim(&mut connection, 50, &format!("w{worker}"), 60)
                .await
                .unwrap()
        }));
    }
    let mut seen = HashSet::new();
    let mut taken = 0;
    for task in tasks {
        let claimed = task.await.unwrap();
        assert_eq!(claimed.len(), 50);
        assert!(
            claimed
                .windows(2)
                .all(|pair| pair[0].sequence_id < pair[1].sequence_id),
            "in order"
        );
        taken += claimed.len();
        seen.extend(claimed.into_iter().map(|payment| payment.outbox_id));
    }
    assert_eq!((taken, seen.len()), (400, 400));
}

#[tokio::test]
async fn sizes_and_seconds_out_of_bounds_are_refused() {
    let mut fixture = Fixture::open().await;
    fixture.enqueue("p", 1).await;
    for (batch, seconds) in [(0, 60), (-1, 60), (1001, 60), (1, 0), (1, -1), (1, 3601)] {
        let answer = claim(&mut fixture.connection, batch, "w", seconds).await;
        assert_eq!(sqlstate(answer), "CN006", "{batch} {seconds}");
    }
    for sql in [
        "SELECT consign.claim_outbox_batch(NULL, 'w', 60)",
        "SELECT consign.claim_outbox_batch(1, 'w', NULL)",
        "SELECT consign.claim_outbox_batch(1, '', 60)",
        "SELECT consign.claim_outbox_batch(1, NULL, 60)",
        "SELECT consign.repair_expired_leases(0, 'w')",
        "SELECT consign.repair_expired_leases(1, NULL)",
        "SELECT consign.renew_outbox_lease(gen_random_uuid(), 'w', 0)",
    ] {
        assert_eq!(
            refusal(&mut fixture.connection, sql).await,
            "CN006",
            "{sql}"
        );
    }
    assert_eq!(fixture.claim(1000, "w", 3600).await.len(), 1);
}

/// A renewal keeps what a lease of its own length would have lost.
#[tokio::test]
async fn a_renewed_lease_outlives_its_first_end() {
    let mut fixture = Fixture::frozen().await;
    fixture.enqueue("p", 1).await;
    let claimed = fixture.claim_one("a", 10).await;
    fixture.pass(9.0).await;
    let renew = "SELECT consign.renew_outbox_lease($1, $2, 10)";
    let stranger = sqlx::query(renew)
        .bind(claimed.lease_token)
        .bind("b")
        .execute(&mut fixture.connection)
        .await;
    assert_eq!(sqlstate(stranger), "P7002", "another worker's lease");
    sqlx::query(renew)
        .bind(claimed.lease_token)
        .bind("a")
        .execute(&mut fixture.connection)
        .await
        .unwrap();
    fixture.pass(9.0).await;
    assert_eq!(fixture.claim(1, "b", 10).await.len(), 0);
    fixture.complete(&claimed, "a", "DISPATCHED").await.unwrap();
    fixture.pass(10.0).await;
    let late = sqlx::query(renew)
        .bind(claimed.lease_token)
        .bind("a")
        .execute(&mut fixture.connection)
        .await;
    assert_eq!(sqlstate(late), "P7002");
}

#[tokio::test]
async fn a_release_leaves_no_trace_and_skips_begun_payments() {
    let mut fixture = Fixture::frozen().await;
    let ids = fixture.enqueue("p", 3).await;
    let claimed = fixture.claim(3, "a", 60).await;
    let begin = sqlx::query("SELECT consign.begin_outbox_attempts($1, 'a', ARRAY[$2])")
        .bind(claimed[0].lease_token)
        .bind(ids[0]);
    begin.execute(&mut fixture.connection).await.unwrap();
    let back = sqlx::query("SELECT consign.release_outbox_lease($1, 'a') AS id")
        .bind(claimed[0].lease_token)
        .fetch_all(&mut fixture.connection)
        .await
        .unwrap();
    let back: Vec<uuid::Uuid> = back.iter().map(|row| row.get("id")).collect();
    assert_eq!(back, ids[1..]);
    let next = fixture.claim(3, "b", 60).await;
    assert_eq!(next.len(), 2);
    assert_eq!(next[0].attempt_count, 0);
    fixture
        .complete(&claimed[0], "a", "DISPATCHED")
        .await
        .unwrap();
}

/// A worker that called the rail before its lease expired leaves a doubt, and the next claim
/// reports it.
#[tokio::test]
async fn a_begun_dispatch_is_due_again_in_doubt() {
    let mut fixture = Fixture::frozen().await;
    fixture.enqueue("p", 1).await;
    let claimed = fixture.claim_one("a", 5).await;
    for (token, worker, id) in [
        (claimed.lease_token, "b", claimed.outbox_id),
        (claimed.lease_token, "a", uuid::Uuid::nil()),
    ] {
        let refused = sqlx::query("SELECT consign.begin_outbox_attempts($1, $2, ARRAY[$3])")
            .bind(token)
            .bind(worker)
            .bind(id)
            .execute(&mut fixture.connection)
            .await;
        assert_eq!(sqlstate(refused), "P7002");
    }
    sqlx::query("SELECT consign.begin_outbox_attempts($1, 'a', ARRAY[$2])")
        .bind(claimed.lease_token)
        .bind(claimed.outbox_id)
        .execute(&mut fixture.connection)
        .await
        .unwrap();
    fixture.pass(5.0).await;
    let heir = fixture.claim_one("b", 5).await;
    assert!(heir.in_doubt, "query the rail first");
    assert_eq!(fixture.states(heir.outbox_id).await, ["ZOMBIE_REQUEUE"]);
    let uncertain =
        "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'UNCERTAIN'";
    assert_eq!(fixture.count(uncertain).await, 1);
    fixture.complete(&heir, "b", "DISPATCHED").await.unwrap();
    assert_eq!(fixture.count(uncertain).await, 0);
}

/// A worker that claims payments with the general claim may call the rail as well.
#[tokio::test]
async fn a_general_claim_leaves_a_doubt_too() {
    let mut fixture = Fixture::frozen().await;
    fixture.enqueue("p", 1).await;
    fixture
        .run("SELECT consign.claim('payments', 'a', 1, '5 seconds')")
        .await;
    fixture.pass(5.0).await;
    assert!(
        fixture.claim_one("b", 5).await.in_doubt,
        "query the rail first"
    );
}
