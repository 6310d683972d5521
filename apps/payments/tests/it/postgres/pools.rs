//! Payments that wait for a participant's lock do not block others.

use std::{sync::Arc, time::Duration};

use consign_kernel::{
    Claim, Error, NewMessage, QueueName, RenewAnswer, Report, SettleAnswer, prelude::*,
};
use consign_payments::{Payments, store::enqueue_in_postgres};
use consign_postgres::PostgresStore;
use consign_testkit::{TestDatabase, eventually};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::{task::JoinSet, time::timeout};

use super::harness::{connect, database};
use crate::cases::fixture::payment;

/// Far more than an operation takes that waits for nothing, far less than a lock is waited for.
const SOON: Duration = Duration::from_millis(1_500);

async fn soon<T>(what: &str, answer: impl Future<Output = consign_kernel::Result<T>>) -> T {
    let answer = timeout(SOON, answer).await;
    let answer = answer.unwrap_or_else(|_| panic!("{what} waits for others"));
    answer.unwrap_or_else(|error| panic!("{what}: {error:?}"))
}

/// Everything that callers who wait for nothing do.
async fn everything_else_goes_on(store: &PostgresStore, round: u32) {
    let queue: QueueName = "default".parse().unwrap();
    let message = NewMessage::new(queue.clone(), json!(1)).with_key(format!("free {round}"));
    soon("an enqueue", store.enqueue(&[message])).await;
    soon("a probe", store.probe()).await;
    soon("a page", store.list(&Default::default(), None, 10)).await;
    soon("the counts", store.queues(None, 1_000)).await;
    let minute = Duration::from_secs(60);
    let claim = Claim::new(queue, "w", 1).with_ttl(minute);
    let lease = soon("a claim", store.claim(&claim)).await.unwrap();
    let id = lease.messages[0].message.id;
    let renewed = soon("a renewal", store.renew(lease.token, minute)).await;
    assert!(matches!(renewed, RenewAnswer::Renewed { .. }));
    soon("a begin", store.begin(lease.token, &[id])).await;
    let reports = [Report::delivered(id)];
    let settled = soon("a settle", store.settle(lease.token, &reports)).await;
    assert!(matches!(settled, SettleAnswer::Settled(_)));
}

/// How many connections of stores wait for a lock.
async fn blocked(database: &TestDatabase) -> i64 {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                   AND application_name = 'consign' AND wait_event_type = 'Lock'";
    let count = sqlx::query_scalar(sql).fetch_one(&mut connection).await;
    connection.close().await.unwrap();
    count.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_of_a_participant_does_not_block_others() {
    let database = database().await;
    let store = Arc::new(connect(&database).await);
    let mut producer = PgConnection::connect(database.url()).await.unwrap();
    let mut tx = producer.begin().await.unwrap();
    enqueue_in_postgres(&mut tx, &[payment(0)]).await.unwrap();

    let mut waiting = JoinSet::new();
    for n in 1..=12 {
        let store = Arc::clone(&store);
        waiting.spawn(async move { store.enqueue_payments(&[payment(n)]).await });
    }
    eventually("they meet the lock", Duration::from_secs(10), || async {
        blocked(&database).await > 0
    })
    .await;
    for round in 0..5 {
        everything_else_goes_on(&store, round).await;
    }
    for answer in waiting.join_all().await {
        assert!(matches!(answer, Err(Error::Locked { .. })), "{answer:?}");
    }
    tx.commit().await.unwrap();
    store.enqueue_payments(&[payment(1)]).await.unwrap();
}
