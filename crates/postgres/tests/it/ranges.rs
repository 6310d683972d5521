//! Ranges that messages past their time leave, whatever else is under way.

use std::time::Duration;

use consign_kernel::{
    By, Claim, DepartureCause, MessageId, NewMessage, QueuePolicy, Refusal, Report, Step, Token,
    prelude::*,
};
use consign_postgres::{PostgresStore, enqueue_in};
use consign_testkit::TestDatabase;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::harness::{connect, database, execute};

pub(crate) fn by() -> By {
    By::new("test", "test")
}

/// A store whose default queue keeps nothing, with these many delivered messages.
pub(crate) async fn delivered(count: usize) -> (TestDatabase, PostgresStore, Vec<MessageId>) {
    let database = database().await;
    let store = connect(&database).await;
    let policy = QueuePolicy {
        keep_ms: Some(0),
        keep_dead_ms: Some(0),
        archive: false,
        ..QueuePolicy::default()
    };
    let queue = "default".parse().unwrap();
    store.put_queue(&queue, &policy, &by()).await.unwrap();
    let ids = deliver(&store, count).await;
    (database, store, ids)
}

pub(crate) async fn deliver(store: &PostgresStore, count: usize) -> Vec<MessageId> {
    let queue: consign_kernel::QueueName = "default".parse().unwrap();
    let message = NewMessage::new(queue.clone(), json!({"a": 1}));
    store.enqueue(&vec![message; count]).await.unwrap();
    let lease = store.claim(&Claim::new(queue, "w", 1_000)).await.unwrap();
    let lease = lease.unwrap();
    let ids: Vec<_> = lease.messages.iter().map(|c| c.message.id).collect();
    let reports: Vec<_> = ids.iter().copied().map(Report::delivered).collect();
    store.settle(lease.token, &reports).await.unwrap();
    ids
}

pub(crate) async fn token(store: &PostgresStore) -> Token {
    let ttl = Duration::from_secs(60);
    let leased = store.lease_maintenance("test", None, ttl).await.unwrap();
    leased.unwrap()
}

pub(crate) async fn close_range(store: &PostgresStore, token: Token) -> Step<u32> {
    store
        .prepare_ranges(token, 1_000, Duration::ZERO)
        .await
        .unwrap()
}

/// Lets everything leave that may.
pub(crate) async fn leave(store: &PostgresStore, token: Token) -> u64 {
    assert!(matches!(close_range(store, token).await, Step::Done(_)));
    let mut removed = 0;
    while let Step::Done(Some(departure)) = store
        .begin_departure(token, DepartureCause::Age, true)
        .await
        .unwrap()
    {
        loop {
            let Step::Done(progress) = store.depart(token, departure.id).await.unwrap() else {
                panic!("refused");
            };
            removed += progress.removed;
            if progress.is_over {
                break;
            }
        }
    }
    removed
}

pub(crate) async fn count(database: &TestDatabase, sql: &'static str) -> i64 {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    sqlx::query_scalar(sql)
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

/// The SQLSTATE of a statement that fails; none if it succeeds.
pub(crate) async fn sqlstate(connection: &mut PgConnection, sql: &str) -> Option<String> {
    let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))
        .execute(connection)
        .await;
    let error = done.err()?;
    let code = error.as_database_error().and_then(|error| error.code());
    code.map(String::from)
}

/// A transaction that enqueued before the range was closed and commits afterwards loses nothing: the
/// range is not closed while it runs.
#[tokio::test]
async fn a_transaction_that_stays_open_keeps_its_range_open() {
    let (_database, store, _) = delivered(2).await;
    let token = token(&store).await;
    let mut producer = store.pool().begin().await.unwrap();
    let message = NewMessage::new("default".parse().unwrap(), json!(1));
    let late = enqueue_in(&mut producer, &[message]).await.unwrap();
    assert_eq!(
        close_range(&store, token).await,
        Step::Refused(Refusal::Locked)
    );
    let begun = store
        .begin_departure(token, DepartureCause::Age, true)
        .await
        .unwrap();
    assert_eq!(begun, Step::Done(None), "the range is open");
    producer.commit().await.unwrap();
    assert_eq!(leave(&store, token).await, 2);
    let found = store.explain(late[0].id).await.unwrap();
    assert!(found.is_some(), "what committed late stayed");
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A held snapshot, as of a backup, delays a departure and loses nothing.
#[tokio::test]
async fn a_held_snapshot_delays_a_departure() {
    let (database, store, ids) = delivered(2).await;
    let token = token(&store).await;
    close_range(&store, token).await;
    let Step::Done(Some(departure)) = store
        .begin_departure(token, DepartureCause::Age, true)
        .await
        .unwrap()
    else {
        panic!("nothing leaves");
    };
    let mut reader = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM consign.message")
        .execute(&mut reader)
        .await
        .unwrap();
    let step = store.depart(token, departure.id).await.unwrap();
    assert_eq!(step, Step::Refused(Refusal::Locked));
    assert!(store.explain(ids[0]).await.unwrap().is_some());
    assert_eq!(store.doctor().await.unwrap(), []);
    reader.close().await.unwrap();
    assert_eq!(leave(&store, token).await, 2);
}

/// What stayed leaves when a tenth of it may, or a day after the last replacement: not one by one.
#[tokio::test]
async fn what_stayed_leaves_together() {
    let (database, store, _) = delivered(2).await;
    let queue: consign_kernel::QueueName = "default".parse().unwrap();
    let message = NewMessage::new(queue.clone(), json!(1));
    store.enqueue(&vec![message; 20]).await.unwrap();
    let token = token(&store).await;
    assert_eq!(leave(&store, token).await, 2);
    let deliver_one = async || {
        let lease = store.claim(&Claim::new(queue.clone(), "w", 1)).await;
        let lease = lease.unwrap().unwrap();
        let report = Report::delivered(lease.messages[0].message.id);
        store.settle(lease.token, &[report]).await.unwrap();
    };
    deliver_one().await;
    assert_eq!(leave(&store, token).await, 0, "one of twenty");
    deliver_one().await;
    assert_eq!(leave(&store, token).await, 2, "two of twenty");
    deliver_one().await;
    assert_eq!(leave(&store, token).await, 0, "one of eighteen");
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    let day = "UPDATE consign.range SET closed_at = closed_at - interval '1 day'";
    assert_eq!(sqlstate(&mut owner, day).await, None);
    assert_eq!(leave(&store, token).await, 1, "after a day");
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A requeue that is under way when a departure begins cannot stop it: it is waited for, and its message stays.
#[tokio::test]
async fn a_requeue_under_way_at_the_beginning_keeps_its_message() {
    let (database, store, ids) = delivered(2).await;
    let queue: consign_kernel::QueueName = "default".parse().unwrap();
    let message = NewMessage::new(queue.clone(), json!(1));
    store.enqueue(&[message]).await.unwrap();
    let lease = store.claim(&Claim::new(queue, "w", 1)).await.unwrap();
    let lease = lease.unwrap();
    let dead = lease.messages[0].message.id;
    let report = Report::new(dead, consign_kernel::Outcome::Dead);
    store.settle(lease.token, &[report]).await.unwrap();
    let token = token(&store).await;
    close_range(&store, token).await;
    let mut operator = PgConnection::connect(database.url()).await.unwrap();
    let requeue = format!("BEGIN; SELECT consign.requeue(ARRAY[{dead}::bigint], 'a', 'b')");
    sqlx::raw_sql(sqlx::AssertSqlSafe(requeue))
        .execute(&mut operator)
        .await
        .unwrap();
    let begin = || store.begin_departure(token, DepartureCause::Age, true);
    let begun = begin().await.unwrap();
    assert_eq!(begun, Step::Refused(Refusal::Locked), "it is waited for");
    sqlx::raw_sql("COMMIT")
        .execute(&mut operator)
        .await
        .unwrap();
    let Step::Done(Some(departure)) = begin().await.unwrap() else {
        panic!("nothing leaves");
    };
    assert_eq!((departure.messages, departure.stay), (2, 1));
    assert_eq!(store.doctor().await.unwrap(), []);
    assert_eq!(leave(&store, token).await, 2);
    assert!(store.explain(dead).await.unwrap().is_some(), "it is ready");
    assert!(store.explain(ids[0]).await.unwrap().is_none());
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// An audit entry that is under way when a departure begins is archived with its message.
#[tokio::test]
async fn an_audit_entry_under_way_at_the_beginning_is_not_lost() {
    let (database, store, ids) = delivered(2).await;
    let token = token(&store).await;
    close_range(&store, token).await;
    let mut operator = PgConnection::connect(database.url()).await.unwrap();
    let reveal = format!("BEGIN; SELECT consign.reveal({}, 'a', 'b')", ids[0]);
    sqlx::raw_sql(sqlx::AssertSqlSafe(reveal))
        .execute(&mut operator)
        .await
        .unwrap();
    let begun = store
        .begin_departure(token, DepartureCause::Age, true)
        .await;
    assert_eq!(begun.unwrap(), Step::Refused(Refusal::Locked));
    sqlx::raw_sql("COMMIT")
        .execute(&mut operator)
        .await
        .unwrap();
    let Step::Done(Some(departure)) = store
        .begin_departure(token, DepartureCause::Age, true)
        .await
        .unwrap()
    else {
        panic!("nothing leaves");
    };
    let records = store.departing(departure.id, None, 10).await.unwrap();
    assert_eq!(records[0].audit.len(), 1);
    assert_eq!(leave(&store, token).await, 2);
    assert_eq!(store.audit(Some(ids[0]), None, 10).await.unwrap(), []);
}

/// Entries about no message are in a partition that no departure touches.
#[tokio::test]
async fn entries_about_no_message_stay() {
    let (database, store, ids) = delivered(2).await;
    let token = token(&store).await;
    store.reveal(ids[1], &by()).await.unwrap();
    assert_eq!(leave(&store, token).await, 2);
    let kept = "SELECT count(*) FROM consign.audit_0 WHERE action IN ('queue', 'depart')";
    assert_eq!(count(&database, kept).await, 2);
    let all = "SELECT count(*) FROM consign.audit";
    assert_eq!(count(&database, all).await, 2);
    let zero = MessageId(0);
    assert_eq!(store.audit(Some(zero), None, 10).await.unwrap(), []);
    execute(
        database.url(),
        "ALTER TABLE consign.audit_0 DISABLE TRIGGER permanent",
    )
    .await;
    let findings = store.doctor().await.unwrap();
    assert_eq!(findings[0].code, "append_only_off");
}

/// A policy that is changed while a departure begins is kept.
#[tokio::test]
async fn a_policy_change_under_way_at_the_beginning_is_kept() {
    let (database, store, ids) = delivered(2).await;
    let token = token(&store).await;
    close_range(&store, token).await;
    let mut operator = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT consign.put_queue('default', '{}', 'a', 'b')")
        .execute(&mut operator)
        .await
        .unwrap();
    let Step::Done(Some(departure)) = store
        .begin_departure(token, DepartureCause::Age, true)
        .await
        .unwrap()
    else {
        panic!("nothing leaves");
    };
    sqlx::raw_sql("COMMIT")
        .execute(&mut operator)
        .await
        .unwrap();
    let step = store.depart(token, departure.id).await.unwrap();
    assert_eq!(step, Step::Refused(Refusal::Changed));
    assert_eq!(leave(&store, token).await, 0);
    assert!(store.explain(ids[0]).await.unwrap().is_some());
}

/// A key that is forgotten while an enqueue waits for another key is free, and its message is new.
#[tokio::test]
async fn a_key_forgotten_during_an_enqueue_is_free() {
    let (database, store, _) = delivered(1).await;
    let policy = QueuePolicy {
        keep_ms: Some(0),
        keep_keys_ms: Some(0),
        archive: false,
        ..QueuePolicy::default()
    };
    let queue: consign_kernel::QueueName = "default".parse().unwrap();
    store.put_queue(&queue, &policy, &by()).await.unwrap();
    let keyed = |key: &str, n: i32| NewMessage::new(queue.clone(), json!(n)).with_key(key);
    store.enqueue(&[keyed("a", 1)]).await.unwrap();
    let lease = store.claim(&Claim::new(queue.clone(), "w", 1)).await;
    let lease = lease.unwrap().unwrap();
    let report = Report::delivered(lease.messages[0].message.id);
    store.settle(lease.token, &[report]).await.unwrap();
    let token = token(&store).await;
    assert_eq!(leave(&store, token).await, 2);

    let mut first = store.pool().begin().await.unwrap();
    enqueue_in(&mut first, &[keyed("b", 1)]).await.unwrap();
    let mut second = PgConnection::connect(database.url()).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut second)
        .await
        .unwrap();
    let waiting = tokio::spawn(async move {
        let enqueue = "SELECT id, duplicate FROM consign.enqueue_many('default', ARRAY['2', '1']::jsonb[], ARRAY['a', 'b'])";
        let answers: Vec<(i64, bool)> = sqlx::query_as(enqueue)
            .fetch_all(&mut second)
            .await
            .unwrap();
        answers
    });
    consign_testkit::eventually("it waits", Duration::from_secs(20), async || {
        let waits = format!("SELECT cardinality(pg_blocking_pids({pid}))::bigint");
        let mut connection = PgConnection::connect(database.url()).await.unwrap();
        let blocked: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(waits))
            .fetch_one(&mut connection)
            .await
            .unwrap();
        blocked > 0
    })
    .await;
    let forgotten = store.forget_keys(token, 10).await.unwrap();
    assert_eq!(forgotten, Step::Done(1));
    first.rollback().await.unwrap();
    for (id, is_duplicate) in waiting.await.unwrap() {
        assert!(!is_duplicate, "{id}");
        let found = store.explain(MessageId(id)).await.unwrap();
        assert!(found.is_some(), "{id} exists");
    }
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A vacuum of another range, for example, holds no departure up.
#[tokio::test]
async fn a_lock_on_another_range_delays_no_departure() {
    let (database, store, _) = delivered(2).await;
    let token = token(&store).await;
    close_range(&store, token).await;
    let begun = store.begin_departure(token, DepartureCause::Age, true);
    let Step::Done(Some(departure)) = begun.await.unwrap() else {
        panic!("nothing leaves");
    };
    let in_use = "SELECT number FROM consign.range WHERE closed_at IS NULL ORDER BY first LIMIT 1";
    let in_use = count(&database, in_use).await;
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    let lock = format!("BEGIN; LOCK TABLE consign.message_{in_use} IN SHARE UPDATE EXCLUSIVE MODE");
    assert_eq!(sqlstate(&mut other, &lock).await, None);
    let step = store.depart(token, departure.id).await.unwrap();
    assert!(matches!(step, Step::Done(progress) if progress.removed == 2));
    other.close().await.unwrap();
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// What comes in between the steps changes only what a departure is about.
#[tokio::test]
async fn producers_and_workers_go_on_during_a_departure() {
    let (database, store, _) = delivered(5).await;
    let token = token(&store).await;
    close_range(&store, token).await;
    let Step::Done(Some(departure)) = store
        .begin_departure(token, DepartureCause::Age, true)
        .await
        .unwrap()
    else {
        panic!("nothing leaves");
    };
    let before = deliver(&store, 3).await;
    let step = store.depart(token, departure.id).await.unwrap();
    assert!(matches!(step, Step::Done(progress) if progress.removed == 5));
    assert_eq!(store.doctor().await.unwrap(), [], "between detach and drop");
    let after = deliver(&store, 2).await;
    while !matches!(store.depart(token, departure.id).await.unwrap(), Step::Done(progress) if progress.is_over)
    {
        assert_eq!(store.doctor().await.unwrap(), [], "between two drops");
    }
    for id in before.iter().chain(&after) {
        assert!(store.explain(*id).await.unwrap().is_some(), "{id}");
    }
    assert_eq!(
        count(&database, "SELECT count(*) FROM consign.message").await,
        5
    );
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// What stayed of several ranges is in one: the number of partitions does not grow with time.
#[tokio::test]
async fn ranges_that_were_left_become_one() {
    let (database, store, _) = delivered(1).await;
    let kept = QueuePolicy::default();
    let queue = "kept".parse().unwrap();
    store.put_queue(&queue, &kept, &by()).await.unwrap();
    let token = token(&store).await;
    for _ in 0..5 {
        let message = NewMessage::new(queue.clone(), json!(1));
        store.enqueue(&[message]).await.unwrap();
        deliver(&store, 3).await;
        leave(&store, token).await;
    }
    let rests = "SELECT count(*) FROM consign.range WHERE is_rest";
    assert_eq!(count(&database, rests).await, 1);
    assert_eq!(
        count(&database, "SELECT count(*) FROM consign.message").await,
        5
    );
    let tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'consign'::regnamespace AND relname ~ '^message_\\d+$' AND relkind = 'r'";
    let ranges = count(&database, "SELECT count(*) FROM consign.range").await;
    assert_eq!(
        count(&database, tables).await,
        ranges,
        "no table is left over"
    );
    assert!(ranges <= 5, "{ranges} ranges");
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// An insert finds a range although the maintenance has slept, also after a pass that was stopped midway.
#[tokio::test]
async fn the_last_range_takes_messages_while_no_maintenance_runs() {
    let (database, store, _) = delivered(1).await;
    let set_last = async |id: i64| {
        let set = format!("SELECT setval('consign.message_id_seq', {id})");
        let mut owner = PgConnection::connect(database.url()).await.unwrap();
        assert_eq!(sqlstate(&mut owner, &set).await, None);
    };
    let prepare = async |token| {
        let prepared = store.prepare_ranges(token, 1_000, Duration::from_secs(3_600));
        assert!(matches!(prepared.await.unwrap(), Step::Done(_)));
    };
    set_last(5_000_000).await;
    let ids = deliver(&store, 2).await;
    assert!(ids[0].0 > 5_000_000);
    let findings = store.doctor().await.unwrap();
    assert_eq!(findings[0].code, "range_last_in_use");
    let ahead = "SELECT count(*) FROM consign.range r WHERE r.first > (SELECT last_value FROM consign.message_id_seq)
                     AND r.until < 9223372036854775807";
    let token = token(&store).await;
    prepare(token).await;
    assert_eq!(count(&database, ahead).await, 2, "by one call");
    // The maintenance sleeps again, for 200,000,000 messages.
    set_last(205_000_000).await;
    let ids = deliver(&store, 1).await;
    assert!(ids[0].0 > 205_000_000);
    prepare(token).await;
    let closed = "SELECT count(*) FROM consign.range r WHERE r.until = consign.last_range_end(r.first) AND r.closed_at IS NOT NULL";
    assert_eq!(count(&database, closed).await, 1, "it was the last one");
    assert_eq!(count(&database, ahead).await, 2);
    deliver(&store, 1).await;
    let constraints = "SELECT count(*) FROM pg_constraint WHERE conname = 'range_end'";
    assert_eq!(count(&database, constraints).await, 4, "of the last range");
    assert_eq!(leave(&store, token).await, 5);
    assert_eq!(store.doctor().await.unwrap(), []);
}
