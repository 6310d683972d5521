//! The queue as the protocol names it.

use consign_conformance::fixture::sqlite::SqliteFixture;
use consign_kernel::{Outcome, QueuePolicy, RetrySchedule, prelude::*};
use consign_orders::Ledger;
use sqlx::SqliteConnection;

use super::{accept, bench, by, claim, ended, order, report};

async fn row(connection: &mut SqliteConnection, n: i64) -> (String, i64, Option<String>) {
    sqlx::query_as("SELECT status, attempts, last_error_code FROM outbox_orders WHERE id = ?1")
        .bind(n)
        .fetch_one(connection)
        .await
        .unwrap()
}

async fn retry_after(bench: &SqliteFixture, delay_ms: u64) {
    let policy = QueuePolicy {
        attempts_max: 2,
        retry: RetrySchedule::Table {
            delays_ms: vec![delay_ms],
        },
        ..QueuePolicy::default()
    };
    let queue = "orders".parse().unwrap();
    bench.store.put_queue(&queue, &policy, &by()).await.unwrap();
}

#[tokio::test]
async fn the_view_shows_five_states_by_where_a_message_is() {
    let bench = bench().await;
    let mut connection = bench.connect().await;
    let expected = |status: &str, attempts, code: Option<&str>| {
        (status.to_owned(), attempts, code.map(str::to_owned))
    };
    accept(&bench, 1).await;
    assert_eq!(row(&mut connection, 1).await, expected("pending", 0, None));
    let lease = claim(&bench.store).await;
    assert_eq!(row(&mut connection, 1).await, expected("sending", 0, None));
    bench.store.release(lease.token).await.unwrap();

    // The view goes by the machine's clock, before which this test's clock is.
    retry_after(&bench, 60_000).await;
    report(&bench, Outcome::Retry, Some("BROKER_TIMEOUT"), None).await;
    let failed = expected("failed", 1, Some("BROKER_TIMEOUT"));
    assert_eq!(row(&mut connection, 1).await, failed);
    bench.clock.advance(jiff::SignedDuration::from_mins(1));
    report(&bench, Outcome::Retry, Some("BROKER_DOWN"), None).await;
    let aborted = expected("aborted", 2, Some("BROKER_DOWN"));
    assert_eq!(row(&mut connection, 1).await, aborted);

    let id = consign_kernel::MessageId(1);
    bench.clock.advance(jiff::SignedDuration::from_mins(1));
    bench.store.requeue(&[id], &by()).await.unwrap();
    assert_eq!(
        row(&mut connection, 1).await,
        expected("pending", 0, None),
        "a fresh start"
    );
    bench.store.hold(&[id], &by()).await.unwrap();
    assert_eq!(row(&mut connection, 1).await.0, "failed", "held");
    bench.store.unhold(&[id], &by()).await.unwrap();
    report(
        &bench,
        Outcome::Delivered,
        Some("EXECUTED"),
        Some(ended(200)),
    )
    .await;
    let succeeded = expected("succeeded", 0, None);
    assert_eq!(
        row(&mut connection, 1).await,
        succeeded,
        "none failed since"
    );

    accept(&bench, 2).await;
    report(
        &bench,
        Outcome::Delivered,
        Some("EXECUTED"),
        Some(ended(200)),
    )
    .await;
    assert_eq!(row(&mut connection, 2).await, succeeded, "the first time");
}

#[tokio::test]
async fn a_row_has_client_digest_and_message() {
    let bench = bench().await;
    bench.store.accept(&[order(7, "a")]).await.unwrap();
    let lease = claim(&bench.store).await;
    let mut connection = bench.connect().await;
    let found: (String, String, String, String, String, i64, i64) = sqlx::query_as(
        "SELECT client, idempotency_key, order_request_json, request_digest, locked_by, \
                locked_at, expires_at FROM outbox_orders",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    let now = bench.clock.now().as_microsecond();
    let expected = (
        "desk-1".to_owned(),
        "order-0007".to_owned(),
        "{\"qty\": 0.10}".to_owned(),
        "sha256:a".to_owned(),
        "worker-1".to_owned(),
        now,
        now + 600_000_000,
    );
    assert_eq!(found, expected);
    // A renewal moves the lock's time.
    bench.clock.advance(jiff::SignedDuration::from_secs(5));
    let ttl = QueuePolicy::default().lease_ttl();
    bench.store.renew(lease.token, ttl).await.unwrap();
    let locked_at: i64 = sqlx::query_scalar("SELECT locked_at FROM outbox_orders")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(locked_at, now + 5_000_000);
}

#[tokio::test]
async fn the_protocols_count_by_status_works_as_printed_and_writing_is_refused() {
    let bench = bench().await;
    accept(&bench, 1).await;
    accept(&bench, 2).await;
    report(
        &bench,
        Outcome::Delivered,
        Some("EXECUTED"),
        Some(ended(200)),
    )
    .await;
    let mut connection = bench.connect().await;
    let mut counts: Vec<(String, i64)> =
        sqlx::query_as("SELECT status, count(*) FROM outbox_orders GROUP BY 1")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    counts.sort();
    assert_eq!(
        counts,
        [("pending".to_owned(), 1), ("succeeded".to_owned(), 1)]
    );
    let written = super::execute(
        &mut connection,
        "UPDATE outbox_orders SET status = 'pending'",
    );
    let error = written.await.expect_err("a view to be read").to_string();
    assert!(error.contains("cannot modify outbox_orders"), "{error}");
}
