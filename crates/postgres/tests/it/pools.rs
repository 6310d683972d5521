//! One caller's wait does not block the others: connections are divided by use, and a request
//! that meets a lock gives its connection back.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use consign_kernel::{
    Claim, Error, NewMessage, QueueName, RenewAnswer, Report, SettleAnswer, prelude::*,
};
use consign_postgres::{Pooler, PostgresOptions, PostgresStore, enqueue_in};
use consign_testkit::{TestDatabase, eventually};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::{task::JoinSet, time::timeout};

use crate::harness::{connect, database};

/// Far more than an operation takes that waits for nothing, far less than a lock is waited for.
const SOON: Duration = Duration::from_millis(1_500);
/// A request that meets a lock is answered by then.
const LOCKED_BY: Duration = Duration::from_secs(8);

fn queue(name: &str) -> QueueName {
    name.parse().unwrap()
}

fn keyed(key: &str) -> NewMessage {
    NewMessage::new(queue("default"), json!(1)).with_key(key)
}

async fn soon<T>(what: &str, answer: impl Future<Output = consign_kernel::Result<T>>) -> T {
    let answer = timeout(SOON, answer).await;
    let answer = answer.unwrap_or_else(|_| panic!("{what} waits for others"));
    answer.unwrap_or_else(|error| panic!("{what}: {error:?}"))
}

/// Everything that callers who wait for nothing do.
async fn everything_else_goes_on(store: &PostgresStore, round: u32) {
    let message = keyed(&format!("free {round}"));
    soon("an enqueue", store.enqueue(&[message])).await;
    soon("a probe", store.probe()).await;
    soon("a page", store.list(&Default::default(), None, 10)).await;
    soon("the counts", store.queues(None, 1_000)).await;
    let claim = Claim::new(queue("default"), "w", 1).with_ttl(Duration::from_secs(60));
    let lease = soon("a claim", store.claim(&claim)).await.unwrap();
    let id = lease.messages[0].message.id;
    let renewed = soon(
        "a renewal",
        store.renew(lease.token, Duration::from_secs(60)),
    )
    .await;
    assert!(matches!(renewed, RenewAnswer::Renewed { .. }));
    soon("a begin", store.begin(lease.token, &[id])).await;
    let reports = [Report::delivered(id)];
    let settled = soon("a settle", store.settle(lease.token, &reports)).await;
    assert!(matches!(settled, SettleAnswer::Settled(_)));
}

async fn backends(database: &TestDatabase, where_: &str) -> i64 {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'consign' AND {where_}"
    );
    let count = sqlx::query_scalar(sqlx::AssertSqlSafe(sql));
    let count = count.fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    count
}

async fn callers_of_one_key(pooler: Pooler) {
    let database = database().await;
    let options = PostgresOptions {
        pooler,
        ..PostgresOptions::new(database.url())
    };
    let store = Arc::new(PostgresStore::connect(&options).await.unwrap());
    let mut producer = PgConnection::connect(database.url()).await.unwrap();
    let mut tx = producer.begin().await.unwrap();
    enqueue_in(&mut tx, &[keyed("same")]).await.unwrap();

    let mut blocked = JoinSet::new();
    for _ in 0..12 {
        let store = Arc::clone(&store);
        blocked.spawn(async move {
            let started = Instant::now();
            let answer = store.enqueue(&[keyed("same")]).await;
            (answer, started.elapsed())
        });
    }
    eventually("they meet the lock", Duration::from_secs(10), || async {
        backends(&database, "wait_event_type = 'Lock'").await > 0
    })
    .await;
    for round in 0..5 {
        everything_else_goes_on(&store, round).await;
    }
    for (answer, took) in blocked.join_all().await {
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::Locked { .. }), "{error:?}");
        assert!(error.is_retryable());
        assert!(took < LOCKED_BY, "{took:?}");
    }
    tx.commit().await.unwrap();
    let repeated = store.enqueue(&[keyed("same")]).await.unwrap();
    assert!(repeated[0].duplicate);
}

#[tokio::test(flavor = "multi_thread")]
async fn enqueues_of_a_key_in_an_open_transaction_block_no_other_key() {
    callers_of_one_key(Pooler::Session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_do_they_behind_a_transaction_pooler() {
    callers_of_one_key(Pooler::Transaction).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_that_meets_a_short_lock_waits_for_it() {
    let database = database().await;
    let store = Arc::new(connect(&database).await);
    let mut producer = PgConnection::connect(database.url()).await.unwrap();
    let mut tx = producer.begin().await.unwrap();
    let first = enqueue_in(&mut tx, &[keyed("same")]).await.unwrap();
    let blocked = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.enqueue(&[keyed("same")]).await }
    });
    eventually("it meets the lock", Duration::from_secs(10), || async {
        backends(&database, "wait_event_type = 'Lock'").await > 0
    })
    .await;
    tx.commit().await.unwrap();
    let second = blocked.await.unwrap().unwrap();
    assert_eq!((second[0].id, second[0].duplicate), (first[0].id, true));
}

/// The server goes on with a statement whose caller has left.
#[tokio::test(flavor = "multi_thread")]
async fn callers_that_leave_keep_no_more_than_their_connections_busy() {
    let database = database().await;
    let store = Arc::new(connect(&database).await);
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE consign.dead IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *tx)
        .await
        .unwrap();
    for _ in 0..12 {
        let left = timeout(Duration::from_millis(30), store.queues(None, 1_000)).await;
        assert!(left.is_err(), "it waits for the lock");
    }
    let busy = backends(&database, "state = 'active'").await;
    assert!((1..=2).contains(&busy), "{busy} reports at once");
    tx.rollback().await.unwrap();
    store.queues(None, 1_000).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_opens_no_more_connections_than_it_may() {
    let database = database().await;
    let options = PostgresOptions {
        connections_max: 8,
        ..PostgresOptions::new(database.url())
    };
    let store = Arc::new(PostgresStore::connect(&options).await.unwrap());
    let mut callers = JoinSet::new();
    for round in 0..24 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let message = keyed(&format!("{round}"));
            let (a, b, c) = tokio::join!(
                store.enqueue(std::slice::from_ref(&message)),
                store.queues(None, 1_000),
                store.probe()
            );
            let claim = Claim::new(queue("default"), "w", 1);
            let lease = store.claim(&claim).await.unwrap();
            if let Some(lease) = lease {
                store.release(lease.token).await.unwrap();
            }
            (a.unwrap(), b.unwrap(), c.unwrap())
        });
    }
    callers.join_all().await;
    let open = backends(&database, "true").await;
    assert!(open <= 8, "{open} connections");
}
