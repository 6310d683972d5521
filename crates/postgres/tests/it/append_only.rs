//! Ranges are append-only: for every role, for the owner, and whatever became of them.

use consign_kernel::{
    Claim, DepartureCause, MessageId, NewMessage, Outcome, Report, Step, prelude::*,
};
use consign_postgres::PostgresStore;
use consign_testkit::TestDatabase;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::{
    advice::Login,
    ranges::{by, close_range, deliver, delivered, leave, sqlstate, token},
};

const PARENTS: [&str; 4] = ["message", "attempt", "late", "audit"];

/// The tables of messages and what is recorded about them: of ranges in use, of one that holds what
/// stayed, and of one that is detached and not dropped yet.
async fn range_tables(database: &TestDatabase) -> Vec<String> {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let sql = "SELECT c.oid::regclass::text, c.relispartition FROM pg_class c
                   WHERE c.relnamespace = 'consign'::regnamespace AND c.relkind = 'r'
                       AND c.relname ~ '^(message|attempt|late|audit)_[0-9]+$' ORDER BY c.oid";
    let tables: Vec<(String, bool)> = sqlx::query_as(sql)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let detached = tables.iter().filter(|(_, is_partition)| !is_partition);
    assert_eq!(detached.count(), PARENTS.len(), "{tables:?}");
    let rest = "SELECT count(*) FROM consign.range WHERE is_rest";
    let rest: i64 = sqlx::query_scalar(rest)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(rest, 1, "{tables:?}");
    tables.into_iter().map(|(name, _)| name).collect()
}

/// Replaces a range that holds a message which stays, with an attempt, an audit entry and a late
/// result. Its tables are detached, the next step would drop them.
async fn replaced() -> (TestDatabase, PostgresStore, MessageId) {
    let (database, store, _) = delivered(3).await;
    let queue: consign_kernel::QueueName = "default".parse().unwrap();
    let message = NewMessage::new(queue.clone(), json!({"a": 1}));
    store.enqueue(&[message]).await.unwrap();
    let lease = store
        .claim(&Claim::new(queue, "w", 1))
        .await
        .unwrap()
        .unwrap();
    let stays = lease.messages[0].message.id;
    let retry = Report::new(stays, Outcome::Retry);
    store.settle(lease.token, &[retry]).await.unwrap();
    store.hold(&[stays], &by()).await.unwrap();
    let late = format!(
        "INSERT INTO consign.late (message_id, fence, at, token, outcome, owner)
             SELECT {stays}, 1, consign.clock(), a.token, 'delivered', 'w' FROM consign.attempt a WHERE a.message_id = {stays}"
    );
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    assert_eq!(sqlstate(&mut owner, &late).await, None);
    let token = token(&store).await;
    close_range(&store, token).await;
    let begun = store
        .begin_departure(token, DepartureCause::Age, true)
        .await;
    let Step::Done(Some(departure)) = begun.unwrap() else {
        panic!("nothing leaves");
    };
    loop {
        let step = store.depart(token, departure.id).await.unwrap();
        let Step::Done(progress) = step else {
            panic!("{step:?}");
        };
        assert!(!progress.is_over);
        if progress.removed > 0 {
            break;
        }
    }
    deliver(&store, 3).await;
    (database, store, stays)
}

/// The column that has the message's id.
fn id_of(table: &str) -> &'static str {
    if table.contains("message") {
        "id"
    } else {
        "message_id"
    }
}

/// What no role may do.
fn attacks(table: &str) -> [String; 3] {
    let id = id_of(table);
    [
        format!("UPDATE {table} SET {id} = {id}"),
        format!("DELETE FROM {table}"),
        format!("TRUNCATE {table}"),
    ]
}

#[tokio::test]
async fn no_role_changes_a_range() {
    let (database, store, _) = replaced().await;
    let tables = range_tables(&database).await;
    let roles = [
        "consign_producer",
        "consign_worker",
        "consign_operator",
        "consign_auditor",
    ];
    for role in roles {
        let login = Login::create(&database).await;
        login.grant(role).await;
        let mut connection = PgConnection::connect(&login.url()).await.unwrap();
        for table in &tables {
            let more = [
                format!("INSERT INTO {table} SELECT * FROM {table}"),
                format!("DROP TABLE {table}"),
                format!("ALTER TABLE {table} DISABLE TRIGGER ALL"),
                format!("SELECT count(*) FROM {table}"),
            ];
            for attack in attacks(table).into_iter().chain(more) {
                let state = sqlstate(&mut connection, &attack).await;
                assert_eq!(state.as_deref(), Some("42501"), "{role}: {attack}");
            }
        }
        connection.close().await.unwrap();
        login.remove().await;
    }
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// The owner, whose rights no grant limits, meets the triggers: in the tables, and through the parents
/// at the rows that were copied when their range was replaced.
#[tokio::test]
async fn the_owner_changes_no_range() {
    let (database, store, stays) = replaced().await;
    let tables = range_tables(&database).await;
    let through_parents = [
        format!("UPDATE consign.message SET payload = '1' WHERE id = {stays}"),
        format!("UPDATE consign.attempt SET detail = 'x' WHERE message_id = {stays}"),
        format!("UPDATE consign.late SET detail = 'x' WHERE message_id = {stays}"),
        format!("UPDATE consign.audit SET reason = 'x' WHERE message_id = {stays}"),
    ];
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    for parent in PARENTS {
        let id = id_of(parent);
        let rows = format!("SELECT 1 / count(*) FROM consign.{parent} WHERE {id} = {stays}");
        assert_eq!(
            sqlstate(&mut owner, &rows).await,
            None,
            "{parent} has a row that stayed"
        );
    }
    let of_tables = tables.iter().flat_map(|table| attacks(table));
    for attack in of_tables.chain(through_parents) {
        let state = sqlstate(&mut owner, &attack).await;
        assert_eq!(state.as_deref(), Some("CN009"), "{attack}");
    }
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_range_without_its_trigger_is_named() {
    let (database, store, _) = delivered(1).await;
    let token = token(&store).await;
    assert_eq!(leave(&store, token).await, 1);
    for parent in PARENTS {
        let child = format!(
            "SELECT i.inhrelid::regclass::text FROM pg_inherits i
                 WHERE i.inhparent = 'consign.{parent}'::regclass ORDER BY i.inhrelid DESC LIMIT 1"
        );
        let mut connection = PgConnection::connect(database.url()).await.unwrap();
        let child: String = sqlx::query_scalar(sqlx::AssertSqlSafe(child))
            .fetch_one(&mut connection)
            .await
            .unwrap();
        let set = async |word: &str| {
            let alter = format!("ALTER TABLE {child} {word} TRIGGER append_only");
            let mut connection = PgConnection::connect(database.url()).await.unwrap();
            sqlx::raw_sql(sqlx::AssertSqlSafe(alter))
                .execute(&mut connection)
                .await
                .unwrap();
        };
        set("DISABLE").await;
        let findings = store.doctor().await.unwrap();
        let codes: Vec<_> = findings.iter().map(|f| f.code.as_str()).collect();
        assert_eq!(codes, ["append_only_off"]);
        assert!(findings[0].what.contains(&child), "{}", findings[0].what);
        set("ENABLE").await;
    }
}
