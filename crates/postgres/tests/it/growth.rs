//! Totals and growth where there are ranges: counted once, named when stuck, exact under traffic.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use consign_kernel::{
    By, Claim, DepartureCause, MessageId, NewMessage, QueueHistory, QueueName, QueuePolicy, Report,
    Step, Token, prelude::*,
};
use consign_postgres::PostgresStore;
use consign_testkit::TestDatabase;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::harness::{connect, database};

fn queue() -> QueueName {
    "default".parse().unwrap()
}

async fn keep(store: &PostgresStore, keep_ms: Option<u64>) {
    let policy = QueuePolicy {
        keep_ms,
        archive: false,
        ..QueuePolicy::default()
    };
    let by = By::new("test", "test");
    store.put_queue(&queue(), &policy, &by).await.unwrap();
}

async fn enqueue(store: &PostgresStore, count: usize) {
    let messages = vec![NewMessage::new(queue(), json!({"a": 1})); count];
    for part in messages.chunks(500) {
        store.enqueue(part).await.unwrap();
    }
}

async fn deliver(store: &PostgresStore, count: usize) -> Vec<MessageId> {
    enqueue(store, count).await;
    let lease = store.claim(&Claim::new(queue(), "w", 1_000)).await.unwrap();
    let lease = lease.unwrap();
    let ids: Vec<_> = lease.messages.iter().map(|c| c.message.id).collect();
    let reports: Vec<_> = ids.iter().copied().map(Report::delivered).collect();
    store.settle(lease.token, &reports).await.unwrap();
    ids
}

async fn token(store: &PostgresStore) -> Token {
    let ttl = Duration::from_secs(600);
    let leased = store.lease_maintenance("test", None, ttl).await.unwrap();
    leased.unwrap()
}

/// Closes the range in use, again and again while a lock is in the way.
async fn close(store: &PostgresStore, token: Token) {
    while let Step::Refused(_) = store
        .prepare_ranges(token, 1_000, Duration::ZERO)
        .await
        .unwrap()
    {}
}

/// Lets messages leave; returns whether there were any.
async fn leave(store: &PostgresStore, token: Token) -> bool {
    let begun = store
        .begin_departure(token, DepartureCause::Age, true)
        .await;
    let Step::Done(Some(departure)) = begun.unwrap() else {
        return false;
    };
    loop {
        match store.depart(token, departure.id).await.unwrap() {
            Step::Done(progress) if progress.is_over => return true,
            // Others hold a lock, or it goes on.
            _ => {}
        }
    }
}

async fn history(store: &PostgresStore) -> QueueHistory {
    let all = store.queue_history().await.unwrap();
    all.into_iter().find(|it| it.queue == queue()).unwrap()
}

fn totals(history: &QueueHistory) -> [u64; 4] {
    [
        history.enqueued,
        history.delivered,
        history.dead,
        history.departed,
    ]
}

async fn count(database: &TestDatabase, sql: &'static str) -> i64 {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let counted = sqlx::query_scalar(sql).fetch_one(&mut connection).await;
    counted.unwrap()
}

/// A range of which less than a tenth may leave is replaced after a day, and not looked at by every pass if it is large.
#[tokio::test]
async fn a_large_range_is_not_replaced_for_a_few_messages() {
    let database = database().await;
    let store = connect(&database).await;
    deliver(&store, 5).await;
    enqueue(&store, 10_500).await;
    let token = token(&store).await;
    close(&store, token).await;
    // Changing a policy makes the next pass look again.
    keep(&store, Some(0)).await;
    let looks = "SELECT count(*) FROM consign.range WHERE look_at > consign.clock()";
    assert!(!leave(&store, token).await, "too few");
    assert_eq!(count(&database, looks).await, 1);
    assert_eq!(history(&store).await.may_leave, 5);
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    let day = "UPDATE consign.range SET closed_at = closed_at - interval '1 day'";
    sqlx::raw_sql(day).execute(&mut owner).await.unwrap();
    assert!(!leave(&store, token).await, "it was looked at");
    keep(&store, Some(1)).await;
    assert_eq!(count(&database, looks).await, 0);
    assert!(leave(&store, token).await);
    assert_eq!(history(&store).await.messages, 10_500);
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_closed_range_is_counted_once_and_anew_after_a_purge() {
    let database = database().await;
    let store = connect(&database).await;
    let ids = deliver(&store, 6).await;
    let token = token(&store).await;
    close(&store, token).await;
    enqueue(&store, 2).await;
    assert_eq!(totals(&history(&store).await), [8, 6, 0, 0]);
    store.record_pass(token, "done").await.unwrap();
    let counted = "SELECT coalesce(sum(messages), 0)::bigint FROM consign.range_count";
    assert_eq!(
        count(&database, counted).await,
        6,
        "the range in use is not"
    );
    assert_eq!(totals(&history(&store).await), [8, 6, 0, 0]);
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let purge = "SELECT consign.purge_messages('default', $1, 'test', 'test', consign.clock())";
    let purged: Vec<i64> = ids[..2].iter().map(|id| id.0).collect();
    sqlx::query(purge)
        .bind(purged)
        .execute(&mut connection)
        .await
        .unwrap();
    assert_eq!(count(&database, counted).await, 0);
    for _ in 0..2 {
        let now = history(&store).await;
        assert_eq!((now.messages, totals(&now)), (6, [8, 6, 0, 2]));
        assert_eq!(now.oldest_id, Some(ids[2]));
        store.record_pass(token, "done").await.unwrap();
    }
    assert_eq!(count(&database, counted).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn totals_never_go_backwards_while_ranges_are_replaced() {
    let database = database().await;
    let store = Arc::new(connect(&database).await);
    keep(&store, Some(0)).await;
    let over = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (store, over) = (Arc::clone(&store), Arc::clone(&over));
        async move {
            let (mut before, mut reads) = ([0; 4], 0);
            while !over.load(Ordering::Relaxed) {
                let now = totals(&history(&store).await);
                let is_less = before.iter().zip(&now).any(|(before, now)| now < before);
                assert!(!is_less, "{now:?} after {before:?}");
                (before, reads) = (now, reads + 1);
            }
            reads
        }
    });
    let token = token(&store).await;
    for round in 0..20 {
        deliver(&store, 50).await;
        close(&store, token).await;
        if round % 2 == 0 {
            store.record_pass(token, "done").await.unwrap();
        }
        while leave(&store, token).await {}
    }
    over.store(true, Ordering::Relaxed);
    assert!(reader.await.unwrap() > 0);
    assert_eq!(totals(&history(&store).await), [1_000, 1_000, 0, 1_000]);
}
