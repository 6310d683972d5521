//! Enqueueing in the application's own transaction.

use consign_kernel::Filter;
use consign_kernel::prelude::*;
use sqlx::{Connection, SqliteConnection};

use crate::harness::{SqliteFixture, drain, fixture, messages};

async fn orders(connection: &mut SqliteConnection) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM customer_order")
        .fetch_one(connection)
        .await
        .unwrap()
}

async fn application(bench: &SqliteFixture) -> SqliteConnection {
    let mut connection = bench.connect().await;
    sqlx::query("CREATE TABLE customer_order (id INTEGER PRIMARY KEY)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection
}

#[tokio::test]
async fn the_message_comes_with_the_callers_commit() {
    let bench = fixture().await;
    let mut connection = application(&bench).await;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
    sqlx::query("INSERT INTO customer_order VALUES (1)")
        .execute(&mut *transaction)
        .await
        .unwrap();
    let enqueued = bench
        .store
        .enqueue_in(&mut transaction, &messages(3))
        .await
        .unwrap();
    let page = bench
        .store
        .list(&Filter::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(page.items, [], "not before the commit");
    transaction.commit().await.unwrap();
    assert_eq!(drain(&bench.store, 10).await.len(), enqueued.len());
    assert_eq!(orders(&mut connection).await, 1);
}

#[tokio::test]
async fn a_transaction_begun_by_hand_will_do() {
    let bench = fixture().await;
    let mut connection = application(&bench).await;
    for end in ["ROLLBACK", "COMMIT"] {
        sqlx::query("BEGIN").execute(&mut connection).await.unwrap();
        let enqueued = bench.store.enqueue_in(&mut connection, &messages(1)).await;
        enqueued.unwrap();
        sqlx::query(end).execute(&mut connection).await.unwrap();
    }
    assert_eq!(drain(&bench.store, 10).await.len(), 1, "the committed one");
}

#[tokio::test]
async fn a_refused_enqueue_leaves_the_callers_transaction_as_it_was() {
    let bench = fixture().await;
    let mut connection = application(&bench).await;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
    sqlx::query("INSERT INTO customer_order VALUES (1)")
        .execute(&mut *transaction)
        .await
        .unwrap();
    let mut batch = messages(2);
    batch[1].queue = "nowhere".parse().unwrap();
    let error = bench
        .store
        .enqueue_in(&mut transaction, &batch)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "unknown_queue");
    transaction.commit().await.unwrap();
    assert_eq!(orders(&mut connection).await, 1, "the order is kept");
    assert_eq!(drain(&bench.store, 10).await, [], "the messages do not");
}

#[tokio::test]
async fn a_write_that_fails_halfway_leaves_no_half_message() {
    let bench = fixture().await;
    let mut connection = application(&bench).await;
    let sabotage = "CREATE TRIGGER sabotage BEFORE INSERT ON ready \
                    BEGIN SELECT raise(ABORT, 'no room'); END";
    sqlx::query(sabotage)
        .execute(&mut connection)
        .await
        .unwrap();
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let failed = bench.store.enqueue_in(&mut transaction, &messages(2)).await;
    failed.unwrap_err();
    transaction.commit().await.unwrap();
    let page = bench.store.list(&Filter::default(), None, 10).await;
    assert_eq!(page.unwrap().items, [], "nothing of it was kept");
    bench.store.enqueue(&messages(1)).await.unwrap_err();
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}
