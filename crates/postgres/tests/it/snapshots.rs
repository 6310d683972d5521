//! Snapshots from before a range was replaced.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Claim, DepartureCause, NewMessage, QueuePolicy, Report, Step, prelude::*};
use consign_testkit::{TestDatabase, eventually};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::ranges::{by, close_range, count, deliver, delivered, leave, sqlstate, token};

/// A transaction with a snapshot from before everything that leaves has left; it holds no lock.
async fn old_snapshot(database: &TestDatabase) -> PgConnection {
    let mut old = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        .execute(&mut old)
        .await
        .unwrap();
    old
}

/// A snapshot from before a range was replaced does not see the messages that stayed, which were
/// copied: what would be answered without them is a serialization failure.
#[tokio::test]
async fn an_old_snapshot_gets_no_answer_about_what_stayed() {
    let (database, store, ids) = delivered(2).await;
    let keyed = |key: &str| NewMessage {
        key: Some(key.to_owned()),
        ..NewMessage::new("default".parse().unwrap(), json!(1))
    };
    store.enqueue(&[keyed("stays")]).await.unwrap();
    let token = token(&store).await;
    let mut old = old_snapshot(&database).await;
    let mut other = old_snapshot(&database).await;
    assert_eq!(leave(&store, token).await, 2);
    assert!(store.explain(ids[0]).await.unwrap().is_none());

    let enqueue =
        |key| format!("SELECT * FROM consign.enqueue_many('default', '{{1}}', '{{{key}}}')");
    assert_eq!(sqlstate(&mut other, &enqueue("new")).await, None);
    let repeat = enqueue("stays");
    let refused = sqlstate(&mut old, &repeat).await;
    assert_eq!(refused.as_deref(), Some("40001"));
    // Repeated, as the caller does.
    sqlx::raw_sql("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ")
        .execute(&mut old)
        .await
        .unwrap();
    let (state, duplicate): (String, bool) = sqlx::query_as(
        "SELECT state, duplicate FROM consign.enqueue_many('default', '{1}', '{stays}')",
    )
    .fetch_one(&mut old)
    .await
    .unwrap();
    assert_eq!((state.as_str(), duplicate), ("ready", true));
}

/// Without the failure, the group of a message that stayed would not be found, and stop for ever.
#[tokio::test]
async fn an_old_snapshot_settles_nothing_that_stayed() {
    let (database, store, _) = delivered(2).await;
    let letters: consign_kernel::QueueName = "letters".parse().unwrap();
    let ordered = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    store.put_queue(&letters, &ordered, &by()).await.unwrap();
    let message = NewMessage {
        group: Some("ada".into()),
        ..NewMessage::new(letters.clone(), json!(1))
    };
    let enqueued = store.enqueue(&[message.clone(), message]).await.unwrap();
    let lease = store.claim(&Claim::new(letters.clone(), "w", 1)).await;
    let lease = lease.unwrap().unwrap();
    let maintenance = token(&store).await;
    let mut old = old_snapshot(&database).await;
    let mut older = old_snapshot(&database).await;
    assert_eq!(leave(&store, maintenance).await, 2);

    let (token, first) = (lease.token.0, enqueued[0].id);
    let settle = format!("SELECT * FROM consign.settle('{token}', '{{{first}}}')");
    let refused = sqlstate(&mut old, &settle).await;
    assert_eq!(refused.as_deref(), Some("40001"));
    old.close().await.unwrap();
    let report = Report::delivered(first);
    store.settle(lease.token, &[report]).await.unwrap();
    // A repeated settle is not told that its lease is lost.
    sqlx::raw_sql("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        .execute(&mut older)
        .await
        .unwrap();
    deliver(&store, 1).await;
    assert_eq!(leave(&store, maintenance).await, 1);
    let refused = sqlstate(&mut older, &settle).await;
    assert_eq!(refused.as_deref(), Some("40001"));
    older.close().await.unwrap();
    let next = store.claim(&Claim::new(letters, "w", 1)).await.unwrap();
    assert_eq!(next.unwrap().messages[0].message.id, enqueued[1].id);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A late result is recorded under an attempt that the snapshot does not see.
#[tokio::test]
async fn an_old_snapshot_loses_no_late_result() {
    let (database, store, _) = delivered(2).await;
    let message = NewMessage::new("default".parse().unwrap(), json!(1));
    let id = store.enqueue(&[message]).await.unwrap()[0].id;
    let short = Claim {
        ttl: Some(Duration::from_millis(1)),
        ..Claim::new("default".parse().unwrap(), "w", 1)
    };
    let lease = store.claim(&short).await.unwrap().unwrap();
    eventually("the lease ends", Duration::from_secs(10), async || {
        store.expire(10).await.unwrap().leases > 0
    })
    .await;
    let maintenance = token(&store).await;
    let mut old = old_snapshot(&database).await;
    assert_eq!(leave(&store, maintenance).await, 2);
    let token = lease.token.0;
    let late = format!("SELECT consign.record_late('{token}', '{{{id}}}')");
    let refused = sqlstate(&mut old, &late).await;
    assert_eq!(refused.as_deref(), Some("40001"));
    assert_eq!(sqlstate(&mut old, "ROLLBACK").await, None);
    assert_eq!(sqlstate(&mut old, &late).await, None);
    assert_eq!(store.late(id).await.unwrap().len(), 1);
}

/// A doctor that comes while a range is being replaced looks afterwards.
#[tokio::test]
async fn doctor_is_clean_while_a_range_is_replaced() {
    let (database, store, _) = delivered(2).await;
    let store = Arc::new(store);
    let message = NewMessage::new("default".parse().unwrap(), json!(1));
    store.enqueue(&[message]).await.unwrap();
    let token = token(&store).await;
    close_range(&store, token).await;
    let begun = store
        .begin_departure(token, DepartureCause::Age, true)
        .await;
    let Step::Done(Some(departure)) = begun.unwrap() else {
        panic!("nothing leaves");
    };
    let mut maintenance = PgConnection::connect(database.url()).await.unwrap();
    let depart = format!(
        "BEGIN; SELECT consign.depart('{}', {})",
        token.0, departure.id
    );
    assert_eq!(sqlstate(&mut maintenance, &depart).await, None);
    let doctor = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.doctor().await.unwrap() }
    });
    eventually("it waits", Duration::from_secs(20), async || {
        let sql = "SELECT count(*) FROM pg_locks l WHERE NOT l.granted AND l.database =
                       (SELECT oid FROM pg_database WHERE datname = current_database())";
        count(&database, sql).await > 0
    })
    .await;
    assert_eq!(sqlstate(&mut maintenance, "COMMIT").await, None);
    assert_eq!(doctor.await.unwrap(), []);
}
