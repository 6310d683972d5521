//! Connections that die without a word, or with one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use consign_kernel::{NewMessage, QueueName, prelude::*};
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_testkit::{ChaosProxy, eventually};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

use crate::harness::{connect, database, execute};

fn queue() -> QueueName {
    "default".parse().unwrap()
}

async fn through(proxy: &ChaosProxy, database: &consign_testkit::TestDatabase) -> PostgresStore {
    let options = PostgresOptions {
        connections_max: 4,
        acquire_timeout: Duration::from_secs(2),
        ..PostgresOptions::new(database.url_via(proxy.address()))
    };
    PostgresStore::connect(&options).await.unwrap()
}

/// One enqueue, given up after a second like a worker's operations are.
async fn enqueues(store: &PostgresStore) -> bool {
    let message = NewMessage::new(queue(), json!(1));
    let messages = [message];
    let enqueue = timeout(Duration::from_secs(1), store.enqueue(&messages));
    matches!(enqueue.await, Ok(Ok(_)))
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_fall_silent_do_not_use_up_the_pool() {
    let database = database().await;
    let proxy = ChaosProxy::start(database.address().await).await;
    let store = through(&proxy, &database).await;
    for round in 0..4 {
        let (a, b, c) = tokio::join!(enqueues(&store), enqueues(&store), enqueues(&store));
        assert!(a && b && c, "round {round}");
        proxy.strand();
        eventually("an enqueue gets through", Duration::from_secs(15), || {
            enqueues(&store)
        })
        .await;
    }
}

#[tokio::test]
async fn connections_ended_by_the_server_are_not_kept_at_hand() {
    let database = database().await;
    let store = connect(&database).await;
    let at_once = || async {
        tokio::join!(
            enqueues(&store),
            enqueues(&store),
            enqueues(&store),
            enqueues(&store)
        )
    };
    assert_eq!(at_once().await, (true, true, true, true));
    execute(
        database.url(),
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'consign'",
    )
    .await;
    let mut failures = 0;
    for _ in 0..8 {
        failures += u32::from(!enqueues(&store).await);
    }
    assert!(failures <= 1, "one failure closes the others: {failures}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_up_comes_though_the_listening_connection_fell_silent() {
    let database = database().await;
    let proxy = ChaosProxy::start(database.address().await).await;
    let store = through(&proxy, &database).await;
    let direct = connect(&database).await;
    let woken = store
        .wait(&queue(), Duration::from_millis(100))
        .await
        .unwrap();
    assert!(!woken, "nothing is there yet");
    let accepted = proxy.accepted_count();
    proxy.strand();
    // Pinged after ten seconds without a notification, it does not answer and is replaced.
    let patience = Duration::from_secs(30);
    eventually("a connection listens in its place", patience, || async {
        proxy.accepted_count() > accepted && listeners(database.url()).await > 1
    })
    .await;
    let messages = [NewMessage::new(queue(), json!(1))];
    let queue = queue();
    let wait = store.wait(&queue, Duration::from_secs(20));
    let enqueue = async {
        direct.enqueue(&messages).await.unwrap();
    };
    let (woken, ()) = tokio::join!(timeout(Duration::from_secs(5), wait), enqueue);
    assert!(woken.unwrap().unwrap());
}

async fn listeners(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let count = sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    count
}

#[tokio::test]
async fn a_store_can_be_closed_though_it_keeps_connections_at_hand() {
    let database = database().await;
    let store = connect(&database).await;
    assert!(enqueues(&store).await);
    let closed = timeout(Duration::from_secs(10), store.close()).await;
    assert!(closed.is_ok(), "nothing is waited for");
    assert!(!enqueues(&store).await);
}

/// More callers than connections, each with its next statement as soon as the last is answered.
#[tokio::test(flavor = "multi_thread")]
async fn callers_share_the_lock_and_none_is_left_waiting() {
    let database = database().await;
    let options = PostgresOptions {
        connections_max: 4,
        acquire_timeout: Duration::from_secs(1),
        ..PostgresOptions::new(database.url())
    };
    let store = Arc::new(PostgresStore::connect(&options).await.unwrap());
    let ends = Instant::now() + Duration::from_secs(3);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let mut answered = 0;
            while Instant::now() < ends {
                store.queue(&queue()).await.expect("a connection in time");
                answered += 1;
            }
            answered
        });
    }
    let answered = callers.join_all().await;
    let (least, most) = (answered.iter().min(), answered.iter().max());
    assert!(
        least.unwrap() * 3 > *most.unwrap(),
        "all alike: {least:?} to {most:?}"
    );
}
