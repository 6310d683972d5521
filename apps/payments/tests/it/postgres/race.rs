//! The race the protocol exists for: worker A stalls, B claims, A wakes up.

use consign_testkit::eventually;
use sqlx::{Connection, PgConnection};

use super::{Claimed, Desk, SOON, claim, complete, sqlstate};

/// Claims for a second on a connection of its own, and waits until that is over.
async fn stall(desk: &Desk, worker: &str) -> (PgConnection, Claimed) {
    let mut connection = desk.another().await;
    let claimed = claim(&mut connection, 1, worker, 1).await.unwrap();
    expired(desk).await;
    (connection, claimed[0].clone())
}

async fn expired(desk: &Desk) {
    eventually("the lease is over", SOON, || async {
        let mut connection = desk.another().await;
        sqlx::query_scalar("SELECT bool_and(is_expired) FROM consign.payment_outbox_leases")
            .fetch_one(&mut connection)
            .await
            .unwrap()
    })
    .await;
}

/// P-06: over two real connections; with different names and with the same.
#[tokio::test(flavor = "multi_thread")]
async fn who_wakes_up_after_its_lease_was_taken_is_refused() {
    for (a, b) in [("worker-a", "worker-b"), ("worker", "worker")] {
        let mut desk = Desk::open().await;
        let id = desk.enqueue("p", 1).await[0];
        let (mut sleeper, stale) = stall(&desk, a).await;
        let mut heir = desk.another().await;
        let live = claim(&mut heir, 1, b, 60).await.unwrap().remove(0);
        assert_eq!(live.outbox_id, id);
        let late = complete(&mut sleeper, &stale, a, "DISPATCHED").await;
        assert_eq!(sqlstate(late), "P7002", "{a} {b}");
        let done = complete(&mut heir, &live, b, "DISPATCHED").await.unwrap();
        assert_eq!(done, (2, "DISPATCHED".to_owned()));
        let again = complete(&mut sleeper, &stale, a, "DISPATCHED").await;
        assert_eq!(sqlstate(again), "P7002", "afterwards too");
        assert_eq!(desk.states(id).await, ["ZOMBIE_REQUEUE", "DISPATCHED"]);
        assert_eq!(desk.findings().await, Vec::<String>::new());
    }
}

/// P-06, CP-09: what the rail told the one who came too late is evidence.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_success_is_kept_as_evidence() {
    let mut desk = Desk::open().await;
    let id = desk.enqueue("p", 1).await[0];
    let (mut sleeper, stale) = stall(&desk, "a").await;
    let witness = "SELECT consign.witness_outbox_attempt($1, $2, $3, 'DISPATCHED', $4)";
    let hand_in = async |connection: &mut PgConnection, worker: &str| -> bool {
        sqlx::query_scalar(witness)
            .bind(id)
            .bind(stale.lease_token)
            .bind(worker)
            .bind("rail-late")
            .fetch_one(connection)
            .await
            .unwrap()
    };
    assert_eq!(
        sqlstate(complete(&mut sleeper, &stale, "a", "DISPATCHED").await),
        "P7002"
    );
    assert!(hand_in(&mut sleeper, "a").await);
    assert!(hand_in(&mut sleeper, "a").await, "repeated without harm");
    assert!(!hand_in(&mut sleeper, "b").await, "not this worker's lease");
    let verdict = "SELECT verdict FROM consign.payment_outbox_reconcile WHERE kind = 'LATE_RESULT'";
    let verdicts = async |desk: &mut Desk| -> Vec<String> {
        sqlx::query_scalar(verdict)
            .fetch_all(&mut desk.connection)
            .await
            .unwrap()
    };
    assert_eq!(verdicts(&mut desk).await, ["PENDING"]);
    let live = desk.claim_one("b", 60).await;
    assert!(live.in_doubt, "ask the rail first");
    desk.complete(&live, "b", "DISPATCHED").await.unwrap();
    assert_eq!(
        verdicts(&mut desk).await,
        ["PAID_TWICE"],
        "the rail knows it under two references"
    );
    assert_eq!(desk.findings().await, ["payment_late_unconfirmed"]);
}

/// P-07, CP-03: the transaction began while the lease lived, and that does not help.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_by_the_clock_on_the_wall_inside_a_long_transaction() {
    let mut desk = Desk::open().await;
    let id = desk.enqueue("p", 1).await[0];
    let mut worker = desk.another().await;
    let claimed = claim(&mut worker, 1, "a", 1).await.unwrap().remove(0);
    let mut tx = worker.begin().await.unwrap();
    sqlx::query("SELECT now()").execute(&mut *tx).await.unwrap();
    expired(&desk).await;
    let late = complete(&mut tx, &claimed, "a", "DISPATCHED").await;
    assert_eq!(sqlstate(late), "P7002");
    tx.rollback().await.unwrap();
    assert_eq!(desk.attempts(id).await, []);
}

/// Waiting for somebody who locked the lease does not turn a lost one into a live one.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_waited_until_its_lease_was_over_records_nothing() {
    let mut desk = Desk::open().await;
    let id = desk.enqueue("p", 1).await[0];
    let claimed = desk.claim_one("a", 1).await;
    let mut other = desk.another().await;
    let mut tx = other.begin().await.unwrap();
    sqlx::query("SELECT FROM consign.lease FOR UPDATE")
        .execute(&mut *tx)
        .await
        .unwrap();
    let mut worker = desk.another().await;
    let waits =
        tokio::spawn(async move { complete(&mut worker, &claimed, "a", "DISPATCHED").await });
    eventually("it waits", SOON, || async {
        let mut connection = desk.another().await;
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
            .fetch_one(&mut connection)
            .await
            .unwrap()
    })
    .await;
    expired(&desk).await;
    tx.rollback().await.unwrap();
    assert_eq!(sqlstate(waits.await.unwrap()), "P7002");
    assert_eq!(desk.attempts(id).await, []);
    assert_eq!(desk.findings().await, Vec::<String>::new());
}
