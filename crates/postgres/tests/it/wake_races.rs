//! Producers and workers that miss each other by a moment; see docs/adr/0006-wake-ups.md.
//!
//! A wait here lasts a minute unless something wakes it, so that a lost wake-up shows.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use consign_kernel::{By, Claim, NewMessage, QueueName, QueuePolicy, Report, prelude::*};
use consign_postgres::{PostgresOptions, PostgresStore, enqueue_in};
use consign_testkit::{TestDatabase, eventually};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection, postgres::PgListener};
use tokio::{task::JoinHandle, time::timeout};

use crate::harness::{connect, database};

const LONG: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(15);

/// A table whose rows keep the commit of their transaction waiting for the gate, and may fail it.
const GATE: &str = "
CREATE TABLE public.gated (fails boolean NOT NULL);
CREATE FUNCTION public.pass_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(42);
    IF NEW.fails THEN RAISE EXCEPTION 'refused at commit'; END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER pass_gate AFTER INSERT ON public.gated
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.pass_gate();
";

fn queue() -> QueueName {
    "default".parse().unwrap()
}

fn message() -> NewMessage {
    NewMessage::new(queue(), json!(1))
}

struct Fixture {
    database: TestDatabase,
    hand: PgConnection,
}

impl Fixture {
    async fn new() -> Self {
        let database = database().await;
        let hand = PgConnection::connect(database.url()).await.unwrap();
        let mut fixture = Self { database, hand };
        fixture.run(GATE).await;
        fixture
    }

    async fn run(&mut self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&mut self.hand).await.unwrap();
    }

    async fn connection(&self) -> PgConnection {
        PgConnection::connect(self.database.url()).await.unwrap()
    }

    async fn count(&mut self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql)
            .fetch_one(&mut self.hand)
            .await
            .unwrap()
    }

    async fn until(&mut self, what: &str, sql: &'static str, expected: i64) {
        let hand = tokio::sync::Mutex::new(&mut self.hand);
        eventually(what, SOON, || async {
            let mut hand = hand.lock().await;
            let count: i64 = sqlx::query_scalar(sql)
                .fetch_one(&mut **hand)
                .await
                .unwrap();
            count == expected
        })
        .await;
    }

    /// A worker of another process that has registered, and has looked at least once since.
    async fn sleeper(&mut self) -> JoinHandle<bool> {
        let store = connect(&self.database).await;
        let sleeper = tokio::spawn(async move { store.wait(&queue(), LONG).await.unwrap() });
        let looked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                          AND pid <> pg_backend_pid() AND state = 'idle' AND query LIKE '%consign.look%'";
        self.until("a worker sleeps", looked, 1).await;
        sleeper
    }

    /// A producer whose commit has looked for sleeping workers and has not ended.
    async fn committing_producer(&mut self, fails: bool) -> JoinHandle<bool> {
        self.run("SELECT pg_advisory_lock(42)").await;
        let mut producer = self.connection().await;
        let commit = tokio::spawn(async move {
            let sql = format!(
                "BEGIN; SELECT consign.enqueue('default', '1'); INSERT INTO public.gated VALUES ({fails}); COMMIT"
            );
            let committed = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut producer);
            committed.await.is_ok()
        });
        let at_gate = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        self.until("its commit is under way", at_gate, 1).await;
        commit
    }

    async fn open_gate(&mut self) {
        self.run("SELECT pg_advisory_unlock(42)").await;
    }

    async fn listener(&self) -> PgListener {
        let mut listener = PgListener::connect(self.database.url()).await.unwrap();
        listener.listen("consign").await.unwrap();
        listener
    }

    /// What was notified so far.
    async fn heard(&mut self, listener: &mut PgListener) -> Vec<String> {
        self.run("NOTIFY consign, 'the end'").await;
        let mut heard = Vec::new();
        loop {
            let next = timeout(SOON, listener.recv()).await.unwrap().unwrap();
            if next.payload() == "the end" {
                return heard;
            }
            heard.push(next.payload().to_owned());
        }
    }
}

async fn wakes(sleeper: JoinHandle<bool>) {
    let woken = timeout(SOON, sleeper).await.expect("no wake-up came");
    assert!(woken.unwrap(), "woken by a commit");
}

async fn claims(store: &PostgresStore, count: usize) {
    let lease = store.claim(&Claim::new(queue(), "w", 10)).await.unwrap();
    assert_eq!(lease.map_or(0, |lease| lease.messages.len()), count);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_looked_before_the_registration_is_found() {
    let mut fixture = Fixture::new().await;
    let commit = fixture.committing_producer(false).await;
    let sleeper = fixture.sleeper().await;
    fixture.open_gate().await;
    assert!(commit.await.unwrap());
    wakes(sleeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_was_open_for_long_wakes_at_its_commit() {
    let mut fixture = Fixture::new().await;
    let mut producer = fixture.connection().await;
    let mut open = producer.begin().await.unwrap();
    enqueue_in(&mut open, &[message()]).await.unwrap();
    let sleeper = fixture.sleeper().await;
    open.commit().await.unwrap();
    wakes(sleeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_with_an_old_snapshot_wakes() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut fixture = Fixture::new().await;
        let mut producer = fixture.connection().await;
        let begin = format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM consign.queue");
        sqlx::raw_sql(AssertSqlSafe(begin))
            .execute(&mut producer)
            .await
            .unwrap();
        let sleeper = fixture.sleeper().await;
        sqlx::raw_sql("SELECT consign.enqueue('default', '1'); COMMIT")
            .execute(&mut producer)
            .await
            .unwrap();
        wakes(sleeper).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_wakes_though_another_has_taken_the_registration_and_does_not_commit() {
    let mut fixture = Fixture::new().await;
    let sleeper = fixture.sleeper().await;
    let stuck = fixture.committing_producer(false).await;
    let store = connect(&fixture.database).await;
    store.enqueue(&[message()]).await.unwrap();
    wakes(sleeper).await;
    claims(&store, 1).await;
    fixture.open_gate().await;
    assert!(stuck.await.unwrap());
}

/// Any login of the database may notify. What it can make a worker do is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_notifications_makes_a_worker_register_now_and_then() {
    let mut fixture = Fixture::new().await;
    // A sequence counts at once, whatever becomes of the transaction.
    fixture
        .run(
            "CREATE SEQUENCE public.rests;
             CREATE FUNCTION public.count_rest() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM nextval('public.rests'); RETURN NULL; END $$;
             CREATE TRIGGER count_rest AFTER INSERT ON consign.idle
                 FOR EACH ROW EXECUTE FUNCTION public.count_rest()",
        )
        .await;
    let sleeper = fixture.sleeper().await;
    let mut flood = fixture.connection().await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        let notify = sqlx::raw_sql("NOTIFY consign, 'default later'");
        notify.execute(&mut flood).await.unwrap();
    }
    let took = started.elapsed();
    let rests = fixture.count("SELECT last_value FROM public.rests").await;
    assert!(rests > 1, "it does receive them");
    let most = took.as_millis() as i64 / 20 + 2;
    assert!(rests <= most, "{rests} in {took:?}");
    fixture.run("SELECT consign.enqueue('default', '1')").await;
    wakes(sleeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_wakes_though_another_that_took_the_registration_fails() {
    let mut fixture = Fixture::new().await;
    let sleeper = fixture.sleeper().await;
    let failing = fixture.committing_producer(true).await;
    let store = connect(&fixture.database).await;
    store.enqueue(&[message()]).await.unwrap();
    fixture.open_gate().await;
    assert!(!failing.await.unwrap());
    wakes(sleeper).await;
    claims(&store, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_looks_early_is_found_when_it_commits() {
    let mut fixture = Fixture::new().await;
    let mut producer = fixture.connection().await;
    sqlx::raw_sql("BEGIN; SET CONSTRAINTS ALL IMMEDIATE; SELECT consign.enqueue('default', '1')")
        .execute(&mut producer)
        .await
        .unwrap();
    let sleeper = fixture.sleeper().await;
    sqlx::raw_sql("COMMIT")
        .execute(&mut producer)
        .await
        .unwrap();
    wakes(sleeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_registration_of_a_killed_worker_is_notified_once_at_most() {
    let mut fixture = Fixture::new().await;
    let mut listener = fixture.listener().await;
    fixture
        .run("SELECT consign.register_idle('default', gen_random_uuid(), '1 minute')")
        .await;
    for _ in 0..3 {
        fixture.run("SELECT consign.enqueue('default', '1')").await;
    }
    assert_eq!(fixture.heard(&mut listener).await, ["default"]);
    assert_eq!(fixture.count("SELECT count(*) FROM consign.idle").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_no_notification_without_a_sleeping_worker() {
    let mut fixture = Fixture::new().await;
    let mut listener = fixture.listener().await;
    fixture.run("SELECT consign.enqueue('default', '1')").await;
    fixture
        .run("SELECT consign.claim('default', 'w', 10)")
        .await;
    // Asleep for another queue, and in this one until before the message is due.
    fixture
        .run("SELECT consign.put_queue('other', '{}', 'test', 'test')")
        .await;
    fixture
        .run("SELECT consign.register_idle('other', gen_random_uuid(), '1 minute')")
        .await;
    fixture
        .run("SELECT consign.register_idle('default', gen_random_uuid(), '1 second')")
        .await;
    fixture
        .run("SELECT consign.enqueue('default', '1', p_delay => '30 s')")
        .await;
    assert!(fixture.heard(&mut listener).await.is_empty());
    fixture
        .run("SELECT consign.register_idle('default', gen_random_uuid(), '1 minute')")
        .await;
    fixture
        .run("SELECT consign.enqueue('default', '1', p_delay => '5 s')")
        .await;
    assert_eq!(fixture.heard(&mut listener).await, ["default later"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_up_comes_though_the_listening_connection_is_cut() {
    let mut fixture = Fixture::new().await;
    let sleeper = fixture.sleeper().await;
    fixture
        .run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = current_database() AND query LIKE 'LISTEN%';
             SELECT consign.enqueue('default', '1')",
        )
        .await;
    wakes(sleeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_waits_behind_an_open_head_wakes() {
    let mut fixture = Fixture::new().await;
    let store = connect(&fixture.database).await;
    let ordered = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    let by = By::new("test", "test");
    store.put_queue(&queue(), &ordered, &by).await.unwrap();
    let grouped = message().with_group("g");
    store.enqueue(std::slice::from_ref(&grouped)).await.unwrap();
    let lease = store.claim(&Claim::new(queue(), "w", 1)).await.unwrap();
    let lease = lease.unwrap();
    let mut producer = fixture.connection().await;
    let mut open = producer.begin().await.unwrap();
    enqueue_in(&mut open, &[grouped]).await.unwrap();
    // The head stays open, because the message that waits cannot be seen yet.
    let delivered = Report::delivered(lease.messages[0].message.id);
    store.settle(lease.token, &[delivered]).await.unwrap();
    let sleeper = fixture.sleeper().await;
    open.commit().await.unwrap();
    wakes(sleeper).await;
    claims(&store, 1).await;
}

/// Long polls and the worker of one process share a store.
#[tokio::test]
async fn a_wait_is_woken_after_a_shorter_one_of_its_process_ended() {
    let mut fixture = Fixture::new().await;
    let store = Arc::new(connect(&fixture.database).await);
    let long = Arc::clone(&store);
    let sleeper = tokio::spawn(async move { long.wait(&queue(), LONG).await.unwrap() });
    let registered = "SELECT count(*) FROM consign.idle";
    fixture.until("the long wait sleeps", registered, 1).await;
    let short = Duration::from_millis(200);
    assert!(!store.wait(&queue(), short).await.unwrap());
    fixture.run("SELECT consign.enqueue('default', '1')").await;
    wakes(sleeper).await;
}

/// What producers pay while vacuum cannot remove the registrations of before.
#[tokio::test]
async fn a_producer_reads_no_registration_that_is_over() {
    let mut fixture = Fixture::new().await;
    let mut dump = fixture.connection().await;
    let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM consign.idle";
    sqlx::raw_sql(snapshot).execute(&mut dump).await.unwrap();
    fixture
        .run(
            "INSERT INTO consign.idle SELECT 'default', now() - interval '1 hour', gen_random_uuid()
                 FROM generate_series(1, 500);
             DELETE FROM consign.idle",
        )
        .await;
    fixture
        .run("BEGIN; SET CONSTRAINTS ALL IMMEDIATE; SELECT consign.enqueue('default', '1')")
        .await;
    let read = "SELECT pg_stat_get_xact_tuples_returned('consign.idle_queue'::regclass)";
    assert!(fixture.count(read).await < 10);
}

/// An address that accepts connections and never answers.
#[tokio::test]
async fn a_wait_looks_by_itself_where_the_listening_address_is_silent() {
    let mut fixture = Fixture::new().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let options = PostgresOptions {
        listen_url: Some(format!("postgres://postgres@127.0.0.1:{port}/postgres")),
        ..PostgresOptions::new(fixture.database.url())
    };
    let store = PostgresStore::connect(&options).await.unwrap();
    let sleeper = tokio::spawn(async move { store.wait(&queue(), LONG).await.unwrap() });
    fixture.run("SELECT consign.enqueue('default', '1')").await;
    wakes(sleeper).await;
}
