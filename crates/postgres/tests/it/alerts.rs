//! Alerts where PostgreSQL is special: sessions that are cut off, rows that an owner changes, and SQL.

use std::time::Duration;

use consign_kernel::{
    AlertReason, By, Claim, NewMessage, Outcome, QueueName, QueuePolicy, Report, prelude::*,
};
use consign_postgres::PostgresStore;
use consign_testkit::{TestDatabase, eventually};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::{
    advice::Login,
    harness::{connect, database, execute},
};

const SOON: Duration = Duration::from_secs(20);

fn queue(name: &str) -> QueueName {
    name.parse().unwrap()
}

/// The queue `ops`, and `mail`, whose alerts go there and whose messages die at once.
async fn watched() -> (TestDatabase, PostgresStore) {
    let database = database().await;
    let store = connect(&database).await;
    add(&store, "ops", None).await;
    add(&store, "mail", Some("ops")).await;
    (database, store)
}

async fn add(store: &PostgresStore, name: &str, alert_queue: Option<&str>) {
    let policy = QueuePolicy {
        alert_queue: alert_queue.map(queue),
        ..QueuePolicy::default()
    };
    let by = By::new("ada", "a test");
    store.put_queue(&queue(name), &policy, &by).await.unwrap();
}

/// Lets `count` messages of a queue die.
async fn bury(store: &PostgresStore, name: &str, count: usize) {
    let message = |n| NewMessage::new(queue(name), json!(n));
    let messages: Vec<NewMessage> = (0..count).map(message).collect();
    store.enqueue(&messages).await.unwrap();
    let claim = Claim::new(queue(name), "w", 1_000);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let dead = |m: &consign_kernel::ClaimedMessage| Report::new(m.message.id, Outcome::Dead);
    let reports: Vec<Report> = lease.messages.iter().map(dead).collect();
    store.settle(lease.token, &reports).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_cut_off_loses_and_doubles_nothing() {
    let (database, store) = watched().await;
    bury(&store, "mail", 3).await;
    // The step has counted the events when it comes to the enqueue, where it waits.
    let mut blocker = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE consign.message IN EXCLUSIVE MODE")
        .execute(&mut blocker)
        .await
        .unwrap();
    let mut victim = PgConnection::connect(database.url()).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut victim)
        .await
        .unwrap();
    let step = tokio::spawn(async move {
        let step = sqlx::query("SELECT * FROM consign.step_alerts(100)");
        step.execute(&mut victim).await.map(drop)
    });
    let waits = format!("SELECT EXISTS (SELECT FROM pg_locks WHERE pid = {pid} AND NOT granted)");
    eventually("the step waits for the lock", SOON, async || {
        let waits = sqlx::query_scalar::<_, bool>(AssertSqlSafe(waits.clone()));
        waits.fetch_one(store.pool()).await.unwrap()
    })
    .await;
    let kill = format!("SELECT pg_terminate_backend({pid})");
    sqlx::raw_sql(AssertSqlSafe(kill))
        .execute(store.pool())
        .await
        .unwrap();
    assert!(step.await.unwrap().is_err(), "it was cut off");
    // It holds its locks until it is gone, after its last answer.
    let gone = format!("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid})");
    eventually("the step is gone", SOON, async || {
        let gone = sqlx::query_scalar::<_, bool>(AssertSqlSafe(gone.clone()));
        gone.fetch_one(store.pool()).await.unwrap()
    })
    .await;
    sqlx::raw_sql("ROLLBACK")
        .execute(&mut blocker)
        .await
        .unwrap();

    let step = store.step_alerts(100).await.unwrap();
    assert_eq!(step.raised.len(), 1, "{step:?}");
    assert_eq!(
        (step.raised[0].reason, step.raised[0].count),
        (AlertReason::Died, 3)
    );
    let again = store.step_alerts(100).await.unwrap();
    assert_eq!((again.events, again.raised), (0, vec![]));
    let counts = store.queue_counts(&queue("ops")).await.unwrap().unwrap().1;
    assert_eq!(counts.ready, 1);
}

/// Two steps that lock the rows of alerts in different orders could wait for each other.
#[tokio::test]
async fn a_step_writes_alerts_in_one_order() {
    let (database, store) = watched().await;
    execute(
        database.url(),
        "CREATE TABLE public.written (n bigint GENERATED ALWAYS AS IDENTITY, code text COLLATE \"C\");
         CREATE FUNCTION public.write_down() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN INSERT INTO public.written (code) VALUES (NEW.code); RETURN NEW; END';
         CREATE TRIGGER write_down BEFORE INSERT ON consign.alert FOR EACH ROW EXECUTE FUNCTION public.write_down();
         SELECT consign.record_breaker_open('mail', 'z' || lpad(n::text, 3, '0')) FROM generate_series(1, 20) n",
    )
    .await;
    store.step_alerts(100).await.unwrap();
    // Those of the letter a share the row `other`, which is behind them and before the rest.
    execute(
        database.url(),
        "TRUNCATE public.written;
         SELECT consign.record_breaker_open('mail', c || n) FROM generate_series(10, 29) n, unnest('{a,z0}'::text[]) c",
    )
    .await;
    store.step_alerts(100).await.unwrap();
    let codes: Vec<String> = sqlx::query_scalar("SELECT code FROM public.written ORDER BY n")
        .fetch_all(store.pool())
        .await
        .unwrap();
    assert!(codes.contains(&"other".to_owned()), "{codes:?}");
    assert!(codes.is_sorted(), "{codes:?}");
    let other = "SELECT pending + (alerted_at IS NOT NULL)::int * 1000 FROM consign.alert WHERE code = 'other'";
    let pending: i64 = sqlx::query_scalar(other)
        .fetch_one(store.pool())
        .await
        .unwrap();
    assert_eq!(pending, 1000, "all of them went out as one alert");
}

#[tokio::test]
async fn a_queue_that_is_gone_holds_up_no_other() {
    let (database, store) = watched().await;
    add(&store, "night", None).await;
    add(&store, "invoices", Some("night")).await;
    bury(&store, "invoices", 2).await;
    bury(&store, "mail", 1).await;
    execute(
        database.url(),
        "DELETE FROM consign.queue WHERE name = 'night'",
    )
    .await;
    let findings = store.doctor().await.unwrap();
    assert_eq!(findings.len(), 1, "before the first step: {findings:?}");
    let step = store.step_alerts(100).await.unwrap();
    assert_eq!(step.raised[0].queue, queue("mail"));
    assert_eq!(step.refused[0].alert.queue, queue("invoices"));
    assert!(step.refused[0].failure.contains("night"), "{step:?}");
    let findings = store.doctor().await.unwrap();
    assert_eq!(findings[0].code, "alerts");
    assert!(findings[0].what.contains("does not exist"), "{findings:?}");
    add(&store, "night", None).await;
    let step = store.step_alerts(100).await.unwrap();
    assert_eq!(step.raised[0].count, 2, "{step:?}");
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A step covers all queues, but its answer only those of the login: an alert has codes and message ids.
#[tokio::test]
async fn a_worker_sees_no_alerts_of_queues_that_it_may_not_work() {
    let (database, store) = watched().await;
    add(&store, "fax", Some("ops")).await;
    execute(
        database.url(),
        "UPDATE consign.queue SET workers = '{consign_operator}' WHERE name = 'mail'",
    )
    .await;
    let login = Login::create(&database).await;
    let mut connection = PgConnection::connect(&login.url()).await.unwrap();
    let mut ops = 0;
    for (role, seen) in [
        ("consign_worker", &["fax"][..]),
        ("consign_operator", &["fax", "mail"]),
    ] {
        login.grant(role).await;
        bury(&store, "mail", 1).await;
        bury(&store, "fax", 1).await;
        let raised = "SELECT coalesce(array_agg(r->>'queue' ORDER BY r->>'queue'), '{}')
                          FROM consign.step_alerts(), jsonb_array_elements(raised) r";
        let raised: Vec<String> = sqlx::query_scalar(raised)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(raised, seen, "{role}");
        ops += 2;
        let counts = store.queue_counts(&queue("ops")).await.unwrap().unwrap().1;
        assert_eq!(counts.ready, ops, "both are enqueued");
        // The next alerts need not wait for the interval.
        execute(
            database.url(),
            "UPDATE consign.alert SET alerted_at = alerted_at - interval '1 hour'",
        )
        .await;
    }
    // What the alert queue does not take.
    execute(
        database.url(),
        "DELETE FROM consign.queue WHERE name = 'ops'",
    )
    .await;
    login
        .run(format!("REVOKE consign_operator FROM {}", login.name()))
        .await;
    bury(&store, "mail", 1).await;
    bury(&store, "fax", 1).await;
    let refused = "SELECT array_agg(r->'alert'->>'queue')
                       FROM consign.step_alerts(), jsonb_array_elements(refused) r";
    let refused: Vec<String> = sqlx::query_scalar(refused)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(refused, ["fax"]);
    connection.close().await.unwrap();
    login.remove().await;
}

#[tokio::test]
async fn rejects_the_queue_of_an_app_and_values_of_another_type() {
    let (database, store) = watched().await;
    execute(
        database.url(),
        "CREATE SCHEMA shop;
         CREATE FUNCTION shop.enqueued(text, bigint[]) RETURNS void LANGUAGE sql AS '';
         SELECT consign.put_queue('shop', '{}', 'ada', 'a queue of the shop');
         SELECT consign.set_hook('shop', 'enqueued', 'shop.enqueued');",
    )
    .await;
    for (policy, part) in [
        (
            json!({"alert_queue": "shop"}),
            "must not be the queue of an app",
        ),
        (json!({"alert_queue": "mail"}), "must be another queue"),
        (json!({"alert_queue": "No Such"}), "must exist"),
        (json!({"alert_queue": 7}), "must be the name of a queue"),
        (
            json!({"alert_interval_ms": null}),
            "alert_interval_ms: is null",
        ),
        (json!({"alert_interval_ms": 1000.5}), "must be whole"),
        (json!({"alert_age_ms": "5m"}), "alert_age_ms: must be from"),
    ] {
        let put = sqlx::query("SELECT consign.put_queue('mail', $1, 'ada', 'a test')")
            .bind(&policy)
            .execute(store.pool());
        let error = put.await.unwrap_err().to_string();
        assert!(error.contains(part), "{policy}: {error}");
    }
}
