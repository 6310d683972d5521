//! What stays is copied before anyone waits: page by page, by any process, followed by every change.

use consign_kernel::{
    Claim, Departure, DepartureCause, DepartureState, MessageId, QueueName, QueuePolicy, Refusal,
    Report, Step, Token, prelude::*,
};
use consign_postgres::PostgresStore;
use consign_testkit::TestDatabase;
use sqlx::{Connection as _, PgConnection, Row as _};

use crate::{
    harness::{connect, database, execute},
    ranges::{by, close_range, count, leave, sqlstate, token},
};

/// Messages 1 to `$1`: of every ten, nine were delivered an hour ago and leave, and one is ready.
const FILL: &str = "
WITH made AS (
    INSERT INTO consign.message (id, created_at, queue, key, payload, headers)
        SELECT g, now() - interval '1 hour', 'default', 'k' || g, '1', '{}' FROM generate_series(1, $1) g RETURNING id, key, created_at),
keyed AS (
    INSERT INTO consign.message_key (queue, key, message_id, at, digest) SELECT 'default', key, id, created_at, '' FROM made),
delivered AS (
    INSERT INTO consign.attempt (message_id, fence, claimed_at, finished_at, attempt_no, outcome, token, owner)
        SELECT id, 0, created_at, created_at, 1, 'delivered', gen_random_uuid(), 'w' FROM made WHERE id % 10 > 0),
ready AS (
    INSERT INTO consign.ready (queue, due_at, isolated, ids, tries, attempts)
        SELECT 'default', min(created_at) + id / 1000 * interval '1 second', false, array_agg(id ORDER BY id),
               array_fill(0, ARRAY[count(*)::int]), array_fill(0, ARRAY[count(*)::int])
            FROM made WHERE id % 10 = 0 GROUP BY id / 1000)
SELECT setval('consign.message_id_seq', $1)";
const TABLES: &str =
    "SELECT count(*) FROM pg_class WHERE relnamespace = 'consign'::regnamespace AND relkind = 'r'
                          AND relname ~ '^(message|attempt|late|audit)_\\d+$'";
const TRIGGERS: &str = "SELECT count(*) FROM pg_trigger WHERE tgname = 'follow_change'";

fn queue() -> QueueName {
    "default".parse().unwrap()
}

/// A store with a closed range of these many messages.
async fn filled(messages: i32) -> (TestDatabase, PostgresStore, Token) {
    let database = database().await;
    let store = connect(&database).await;
    let policy = QueuePolicy {
        keep_ms: Some(0),
        keep_dead_ms: Some(0),
        archive: false,
        ..QueuePolicy::default()
    };
    store.put_queue(&queue(), &policy, &by()).await.unwrap();
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    let fill = sqlx::query(FILL).bind(messages);
    fill.execute(&mut owner).await.unwrap();
    let token = token(&store).await;
    assert!(matches!(close_range(&store, token).await, Step::Done(_)));
    (database, store, token)
}

/// One step of a beginning departure; returns its state and the first id that is not decided.
async fn step(database: &TestDatabase, token: Token) -> (String, Option<i64>) {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let sql =
        "SELECT (b.departure).state, (b.departure).next_id FROM consign.begin_departure($1) b";
    let row = sqlx::query(sql)
        .bind(token.0)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    (row.get(0), row.get(1))
}

async fn begun(store: &PostgresStore, token: Token) -> Departure {
    let begun = store
        .begin_departure(token, DepartureCause::Age, true)
        .await;
    match begun.unwrap() {
        Step::Done(Some(departure)) => departure,
        other => panic!("no departure: {other:?}"),
    }
}

/// Delivers the next ready messages; returns them.
async fn deliver(store: &PostgresStore, limit: u32) -> Vec<MessageId> {
    let lease = store.claim(&Claim::new(queue(), "w", limit)).await;
    let lease = lease.unwrap().unwrap();
    let ids: Vec<_> = lease.messages.iter().map(|c| c.message.id).collect();
    let reports: Vec<_> = ids.iter().copied().map(Report::delivered).collect();
    store.settle(lease.token, &reports).await.unwrap();
    ids
}

/// A process that is killed between two pages is followed by another. What is delivered meanwhile stays,
/// in pages that were copied and in those that were not.
#[tokio::test]
async fn a_copy_goes_on_after_its_process() {
    let (database, store, killed) = filled(12_000).await;
    let tables = count(&database, TABLES).await;
    assert_eq!(
        step(&database, killed).await,
        ("copying".to_owned(), None),
        "found"
    );
    assert_eq!(store.doctor().await.unwrap(), []);
    assert_eq!(step(&database, killed).await.0, "copying", "followed");
    let before = deliver(&store, 50).await;
    let page = step(&database, killed).await;
    assert_eq!(page, ("copying".to_owned(), Some(10_001)), "a page");
    let between = deliver(&store, 50).await;
    assert_eq!(store.doctor().await.unwrap(), []);

    execute(
        database.url(),
        "UPDATE consign.maintenance SET expires_at = '-infinity'",
    )
    .await;
    let token = token(&store).await;
    let departure = begun(&store, token).await;
    assert_eq!(departure.state, DepartureState::Open);
    assert_eq!((departure.messages, departure.stay), (10_800, 1_200));
    let after = deliver(&store, 50).await;
    assert_eq!(
        leave(&store, token).await,
        10_800 + 150,
        "and what was delivered"
    );
    for id in before.iter().chain(&between).chain(&after) {
        assert!(store.explain(*id).await.unwrap().is_none(), "{id}");
    }
    let stay = "SELECT count(*) FROM consign.message";
    assert_eq!(count(&database, stay).await, 1_050);
    assert_eq!(count(&database, TRIGGERS).await, 0);
    // Two ranges more were made ahead, four tables each.
    assert!(count(&database, TABLES).await <= tables + 8);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// What a stopped departure has made is removed, and another one begins.
#[tokio::test]
async fn a_stopped_departure_leaves_nothing_behind() {
    let (database, store, token) = filled(2_000).await;
    let tables = count(&database, TABLES).await;
    let departure = begun(&store, token).await;
    assert_eq!(count(&database, TABLES).await, tables + 4);
    // A message that leaves: the departure is of no use any more.
    store.reveal(MessageId(1), &by()).await.unwrap();
    let changed = Step::Refused(Refusal::Changed);
    assert_eq!(store.depart(token, departure.id).await.unwrap(), changed);
    assert_eq!(store.doctor().await.unwrap(), []);
    deliver(&store, 10).await;
    let again = begun(&store, token).await;
    assert_ne!(again.id, departure.id);
    assert_eq!(count(&database, TABLES).await, tables + 4);
    assert_eq!(leave(&store, token).await, 1_810);
    assert_eq!(count(&database, TRIGGERS).await, 0);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A change of a message that leaves is a refusal, also while others are being copied.
#[tokio::test]
async fn a_departure_that_is_stopped_while_it_copies_is_refused() {
    let (database, store, token) = filled(12_000).await;
    while step(&database, token).await.1 != Some(10_001) {}
    store.reveal(MessageId(1), &by()).await.unwrap();
    let begun = store.begin_departure(token, DepartureCause::Age, true);
    assert_eq!(begun.await.unwrap(), Step::Refused(Refusal::Changed));
    assert_eq!(leave(&store, token).await, 10_800);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// What is recorded about a message that is not decided yet keeps the message, and stops nothing.
#[tokio::test]
async fn a_record_about_a_message_of_a_later_page_keeps_it() {
    let (database, store, token) = filled(12_000).await;
    while step(&database, token).await.1 != Some(10_001) {}
    let revealed = MessageId(11_001);
    store.reveal(revealed, &by()).await.unwrap();
    let departure = begun(&store, token).await;
    assert_eq!(
        (departure.messages, departure.stay),
        (10_800 - 1, 1_200 + 1)
    );
    let before = store.audit(Some(revealed), None, 10).await.unwrap();
    while !matches!(store.depart(token, departure.id).await.unwrap(), Step::Done(progress) if progress.is_over)
    {
    }
    let after = store.audit(Some(revealed), None, 10).await.unwrap();
    assert_eq!((before.len(), &before), (1, &after));
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A transaction with a snapshot from before the departure does not see it, and meets it all the same.
#[tokio::test]
async fn an_old_snapshot_changes_nothing_that_leaves() {
    let (database, store, token) = filled(2_000).await;
    let mut old = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        .execute(&mut old)
        .await
        .unwrap();
    let departure = begun(&store, token).await;
    let reveal = "SELECT consign.reveal(1, 'a', 'b')";
    let refused = sqlstate(&mut old, reveal).await;
    assert_eq!(refused.as_deref(), Some("40001"));
    assert_eq!(sqlstate(&mut old, "ROLLBACK").await, None);
    let going_on = begun(&store, token).await;
    assert_eq!(going_on, departure);
    // Repeated, as the caller does.
    let again = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {reveal}; COMMIT");
    assert_eq!(sqlstate(&mut old, &again).await, None);
    let changed = Step::Refused(Refusal::Changed);
    assert_eq!(store.depart(token, departure.id).await.unwrap(), changed);
}

/// A purge of a message that was copied must not bring it back.
#[tokio::test]
async fn a_purge_of_what_stays_stops_the_departure() {
    let (database, store, token) = filled(2_000).await;
    let delivered = deliver(&store, 1).await[0];
    let departure = begun(&store, token).await;
    let purge = format!(
        "SELECT consign.purge_messages('default', '{{{delivered}}}', 'a', 'b', consign.clock())"
    );
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    assert_eq!(sqlstate(&mut owner, &purge).await, None);
    let changed = Step::Refused(Refusal::Changed);
    assert_eq!(store.depart(token, departure.id).await.unwrap(), changed);
    leave(&store, token).await;
    assert!(store.explain(delivered).await.unwrap().is_none());
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// The number of dead messages that are removed under the lock has a bound; the others follow.
#[tokio::test]
async fn dead_messages_leave_by_the_thousand() {
    let (database, store, token) = filled(8_000).await;
    execute(
        database.url(),
        "SET session_replication_role = replica;
         UPDATE consign.attempt SET outcome = 'dead';
         INSERT INTO consign.dead (message_id, queue, at, attempt_no, code)
             SELECT message_id, 'default', finished_at, 1, 'gone' FROM consign.attempt",
    )
    .await;
    let departure = begun(&store, token).await;
    assert_eq!((departure.messages, departure.stay), (5_000, 3_000));
    assert_eq!(leave(&store, token).await, 7_200);
    let died = "SELECT count(*) FROM consign.message_key WHERE died";
    assert_eq!(count(&database, died).await, 7_200);
    let dead = "SELECT dead FROM consign.departed WHERE queue = 'default'";
    assert_eq!(count(&database, dead).await, 7_200);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A key says nothing about a message that died, came back and was delivered.
#[tokio::test]
async fn a_key_forgets_the_death_of_a_message_that_came_back() {
    let (database, store, token) = filled(100).await;
    execute(
        database.url(),
        "SET session_replication_role = replica;
         UPDATE consign.attempt SET outcome = 'dead' WHERE message_id = 1;
         INSERT INTO consign.dead (message_id, queue, at, attempt_no, code) VALUES (1, 'default', now() - interval '1 hour', 1, 'gone')",
    )
    .await;
    begun(&store, token).await;
    let died = "SELECT count(*) FROM consign.message_key WHERE died";
    assert_eq!(count(&database, died).await, 1, "it is to leave as dead");
    store.requeue(&[MessageId(1)], &by()).await.unwrap();
    assert_eq!(deliver(&store, 20).await.len(), 11);
    assert_eq!(leave(&store, token).await, 100);
    assert_eq!(count(&database, died).await, 0);
}

/// A page of an archive has about 16 MiB at most.
#[tokio::test]
async fn a_page_of_large_messages_is_short() {
    let (database, store, token) = filled(60).await;
    execute(
        database.url(),
        "SET session_replication_role = replica;
         UPDATE consign.message SET payload = to_jsonb(repeat('x', 1000000))",
    )
    .await;
    let departure = begun(&store, token).await;
    let page = store.departing(departure.id, None, 1_000).await.unwrap();
    assert_eq!(page.len(), 17);
    let after = page.last().map(|record| record.message.id);
    let next = store.departing(departure.id, after, 1_000).await.unwrap();
    assert!(next[0].message.id > page[16].message.id);
    assert_eq!(next.len(), 17);
}
