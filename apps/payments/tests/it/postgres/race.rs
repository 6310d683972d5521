//! The race the protocol exists for: worker A stalls, B claims, A wakes up.

use consign_testkit::eventually;
use sqlx::{Connection, PgConnection};

use super::{ClaimedRow, Fixture, SOON, claim, complete, sqlstate};

/// Claims for a second on a connection of its own, and waits until that is over.
async fn stall(fixture: &Fixture, worker: &str) -> (PgConnection, ClaimedRow) {
    let mut connection = fixture.another().await;
    let claimed = claim(&mut connection, 1, worker, 1).await.unwrap();
    expired(fixture).await;
    (connection, claimed[0].clone())
}

async fn expired(fixture: &Fixture) {
    eventually("the lease is over", SOON, || async {
        let mut connection = fixture.another().await;
        sqlx::query_scalar("SELECT bool_and(is_expired) FROM consign.payment_outbox_leases")
            .fetch_one(&mut connection)
            .await
            .unwrap()
    })
    .await;
}

/// Over two real connections; with different names and with the same.
#[tokio::test(flavor = "multi_thread")]
async fn who_wakes_up_after_its_lease_was_taken_is_refused() {
    for (a, b) in [("worker-a", "worker-b"), ("worker", "worker")] {
        let mut fixture = Fixture::open().await;
        let id = fixture.enqueue("p", 1).await[0];
        let (mut sleeper, stale) = stall(&fixture, a).await;
        let mut heir = fixture.another().await;
        let live = claim(&mut heir, 1, b, 60).await.unwrap().remove(0);
        assert_eq!(live.outbox_id, id);
        let late = complete(&mut sleeper, &stale, a, "DISPATCHED").await;
        assert_eq!(sqlstate(late), "P7002", "{a} {b}");
        let done = complete(&mut heir, &live, b, "DISPATCHED").await.unwrap();
        assert_eq!(done, (2, "DISPATCHED".to_owned()));
        let again = complete(&mut sleeper, &stale, a, "DISPATCHED").await;
        assert_eq!(sqlstate(again), "P7002", "afterwards too");
        assert_eq!(fixture.states(id).await, ["ZOMBIE_REQUEUE", "DISPATCHED"]);
        assert_eq!(fixture.findings().await, Vec::<String>::new());
    }
}

/// A late answer of the rail is stored as evidence.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_success_is_kept_as_evidence() {
    let mut fixture = Fixture::open().await;
    let id = fixture.enqueue("p", 1).await[0];
    let (mut sleeper, stale) = stall(&fixture, "a").await;
    let record_late = "SELECT consign.record_late_outbox_attempt($1, $2, $3, 'DISPATCHED', $4)";
    let hand_in = async |connection: &mut PgConnection, worker: &str| -> bool {
        sqlx::query_scalar(record_late)
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
    let verdicts = async |fixture: &mut Fixture| -> Vec<String> {
        sqlx::query_scalar(verdict)
            .fetch_all(&mut fixture.connection)
            .await
            .unwrap()
    };
    assert_eq!(verdicts(&mut fixture).await, ["PENDING"]);
    let live = fixture.claim_one("b", 60).await;
    assert!(live.in_doubt, "query the rail first");
    fixture.complete(&live, "b", "DISPATCHED").await.unwrap();
    assert_eq!(
        verdicts(&mut fixture).await,
        ["PAID_TWICE"],
        "the rail has it under two references"
    );
    assert_eq!(fixture.findings().await, ["payment_late_unconfirmed"]);
}

/// The transaction began while the lease lived, and that does not help.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_by_the_clock_on_the_wall_inside_a_long_transaction() {
    let mut fixture = Fixture::open().await;
    let id = fixture.enqueue("p", 1).await[0];
    let mut worker = fixture.another().await;
    let claimed = claim(&mut worker, 1, "a", 1).await.unwrap().remove(0);
    let mut tx = worker.begin().await.unwrap();
    sqlx::query("SELECT now()").execute(&mut *tx).await.unwrap();
    expired(&fixture).await;
    let late = complete(&mut tx, &claimed, "a", "DISPATCHED").await;
    assert_eq!(sqlstate(late), "P7002");
    tx.rollback().await.unwrap();
    assert_eq!(fixture.attempts(id).await, []);
}

/// Waiting for a lock on the lease does not turn a lost lease into a live one.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_waited_until_its_lease_was_over_records_nothing() {
    let mut fixture = Fixture::open().await;
    let id = fixture.enqueue("p", 1).await[0];
    let claimed = fixture.claim_one("a", 1).await;
    let mut other = fixture.another().await;
    let mut tx = other.begin().await.unwrap();
    sqlx::query("SELECT FROM consign.lease FOR UPDATE")
        .execute(&mut *tx)
        .await
        .unwrap();
    let mut worker = fixture.another().await;
    let waits =
        tokio::spawn(async move { complete(&mut worker, &claimed, "a", "DISPATCHED").await });
    eventually("it waits", SOON, || async {
        let mut connection = fixture.another().await;
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
            .fetch_one(&mut connection)
            .await
            .unwrap()
    })
    .await;
    expired(&fixture).await;
    tx.rollback().await.unwrap();
    assert_eq!(sqlstate(waits.await.unwrap()), "P7002");
    assert_eq!(fixture.attempts(id).await, []);
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}
