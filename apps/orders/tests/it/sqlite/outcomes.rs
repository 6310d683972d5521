//! The outcome of a message ends its row in the ledger in the same transaction.

use consign_kernel::{Outcome, Resolution, prelude::*};
use consign_orders::{ExecResult, ExecStatus, Ledger, LedgerStatus, Reason};
use jiff::SignedDuration;
use serde_json::Value;

use super::{accept, bench, by, client, ended, entry, execute, key, order, report};

#[tokio::test]
async fn the_answer_is_kept_to_the_last_digit() {
    let bench = bench().await;
    accept(&bench, 1).await;
    report(
        &bench,
        Outcome::Delivered,
        Some("EXECUTED"),
        Some(ended(200)),
    )
    .await;
    let row = entry(&bench, 1).await;
    assert_eq!(row.status, LedgerStatus::Succeeded);
    assert_eq!(row.response.unwrap(), ended(200).exec_result);
    assert_eq!(row.result_digest.unwrap(), "sha256:r");
    assert_eq!(row.http_status, 200);
}

#[tokio::test]
async fn an_order_that_ends_without_a_result_gets_one_from_its_request() {
    let bench = bench().await;
    let id = accept(&bench, 1).await;
    bench.store.hold(&[id], &by()).await.unwrap();
    let dead = Resolution::Dead;
    bench.store.resolve(&[id], &dead, &by()).await.unwrap();
    let row = entry(&bench, 1).await;
    assert_eq!((row.status, row.http_status), (LedgerStatus::Failed, 400));
    let answer: Value = serde_json::from_str(&row.response.unwrap()).unwrap();
    assert_eq!(answer["status"], "error");
    assert_eq!(answer["reason_code"], "BROKER_REJECTED");
    assert_eq!(
        answer["error"], "BROKER_REJECTED",
        "as in every error of the API"
    );
    assert_eq!(answer["order_id"], "ord-1");
    assert_eq!(answer["idempotency_key"], "order-0001");
    assert_eq!(answer["completed_at"], "2027-01-15T08:00:00.000000Z");
    assert_eq!(row.result_digest, None);
}

#[tokio::test]
async fn a_result_that_cannot_be_read_does_not_stop_the_settle() {
    let bench = bench().await;
    for (n, broken) in [(1, 99), (2, 600), (3, 200)] {
        accept(&bench, n).await;
        let mut ended = ended(broken);
        if broken == 200 {
            ended.exec_result = "{not json".to_owned();
        }
        report(&bench, Outcome::Delivered, Some("EXECUTED"), Some(ended)).await;
        let row = entry(&bench, n).await;
        assert_eq!(
            (row.status, row.http_status),
            (LedgerStatus::Succeeded, 200)
        );
        let answer: Value = serde_json::from_str(&row.response.unwrap()).unwrap();
        let warnings = answer["warnings"].as_array().unwrap();
        assert_eq!(
            warnings.len(),
            1,
            "the executed quantity is unknown: {answer}"
        );
    }
}

#[tokio::test]
async fn a_second_requeue_does_not_extend_the_time_to_live() {
    let bench = bench().await;
    let id = accept(&bench, 1).await;
    for _ in 0..2 {
        report(
            &bench,
            Outcome::Dead,
            Some("BROKER_REJECTED"),
            Some(ended(400)),
        )
        .await;
        bench.clock.advance(SignedDuration::from_hours(7));
        bench.store.requeue(&[id], &by()).await.unwrap();
        let row = entry(&bench, 1).await;
        assert_eq!((row.status, row.http_status), (LedgerStatus::Accepted, 201));
        assert_eq!((row.response, row.result_digest), (None, None));
        let now = bench.clock.now();
        assert_eq!(
            row.expires_at.duration_since(now),
            SignedDuration::from_hours(48)
        );
        let left = row.order_expires_at.unwrap().duration_since(now);
        assert_eq!(left, SignedDuration::from_mins(10));
    }
}

#[tokio::test]
async fn a_purged_id_is_not_reused() {
    let bench = bench().await;
    let id = accept(&bench, 1).await;
    report(
        &bench,
        Outcome::Delivered,
        Some("EXECUTED"),
        Some(ended(200)),
    )
    .await;
    bench.clock.advance(SignedDuration::from_hours(49));
    let purged = bench.store.purge(10, 1, false, &by()).await.unwrap();
    assert_eq!(purged.succeeded, 1);
    assert_eq!(bench.store.explain(id).await.unwrap(), None);
    assert_eq!(bench.store.history(id).await.unwrap(), []);
    assert!(
        accept(&bench, 1).await > id,
        "a new order under the old key"
    );
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_conflict_leaves_an_overdue_row_as_it_is() {
    let bench = bench().await;
    let patience = std::time::Duration::from_secs(5);
    bench
        .store
        .open_direct(&order(1, "a"), patience)
        .await
        .unwrap();
    bench.clock.advance(SignedDuration::from_secs(6));
    let mut connection = bench.connect().await;
    let row = "SELECT quote(client || status || http_status || give_up_at || last_seen_at) \
               FROM idempo_ledger";
    let before: String = sqlx::query_scalar(row)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    bench.store.accept(&[order(1, "b")]).await.unwrap();
    let after: String = sqlx::query_scalar(row)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(before, after);
    assert_eq!(
        entry(&bench, 1).await.status,
        LedgerStatus::Failed,
        "in a read"
    );
    assert_eq!(entry(&bench, 1).await.conflicts, 1);
}

#[tokio::test]
async fn a_payload_that_cannot_be_read_does_not_stop_a_settle() {
    let bench = bench().await;
    accept(&bench, 1).await;
    let lease = super::claim(&bench.store).await;
    let mut connection = bench.connect().await;
    let damage = "DROP TRIGGER message_update; UPDATE message SET payload = '{\"client\":'";
    execute(&mut connection, damage).await.unwrap();
    let mut report = consign_kernel::Report::delivered(lease.messages[0].message.id);
    report.code = Some("EXECUTED".to_owned());
    bench.store.settle(lease.token, &[report]).await.unwrap();
    let row = bench
        .store
        .entry(&client(), &key(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.status, LedgerStatus::Accepted, "its owner is unknown");
}

/// Results written by the database have the same shape as those of adapters.
#[tokio::test]
async fn an_answer_made_by_the_database_is_an_exec_result() {
    let bench = bench().await;
    accept(&bench, 1).await;
    // A manual settle may report an execution without its result.
    report(&bench, Outcome::Delivered, Some("BY_HAND"), None).await;
    let id = accept(&bench, 2).await;
    bench.store.hold(&[id], &by()).await.unwrap();
    let dead = Resolution::Dead;
    bench.store.resolve(&[id], &dead, &by()).await.unwrap();
    let patience = std::time::Duration::from_secs(5);
    bench
        .store
        .open_direct(&order(3, "a"), patience)
        .await
        .unwrap();
    bench.clock.advance(SignedDuration::from_secs(5));
    for (n, status, reason) in [
        (1, ExecStatus::Ok, None),
        (2, ExecStatus::Error, Some(Reason::BrokerRejected)),
        (3, ExecStatus::Error, Some(Reason::BrokerTimeout)),
    ] {
        let text = entry(&bench, n).await.response.unwrap();
        let result: ExecResult = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (result.status, result.reason_code),
            (status, reason),
            "{text}"
        );
        assert_eq!(result.error, reason, "{text}");
        assert_eq!(result.order_id, format!("ord-{n}"));
        assert!(result.completed_at >= result.requested_at, "{text}");
    }
}
