//! Retention in a file: short steps, pages given back, and nothing removed by hand.

use std::{sync::Arc, time::Duration};

use consign_conformance::stage::Maintenance;
use consign_kernel::{
    By, Departure, MessageId, NewMessage, Outcome, Progress, QueuePolicy, Report, StateKind, Step,
    Store, prelude::*,
};
use jiff::SignedDuration;
use serde_json::json;
use sqlx::{AssertSqlSafe, SqliteConnection};

use crate::harness::{SqliteFixture, claim, drain, fixture, messages, queue};

/// A file whose messages leave at once.
pub(crate) async fn forgetful() -> SqliteFixture {
    let bench = fixture().await;
    keep(&bench, Some(0)).await;
    bench
}

async fn keep(bench: &SqliteFixture, keep_ms: Option<u64>) {
    let policy = QueuePolicy {
        keep_ms,
        keep_dead_ms: keep_ms,
        ..QueuePolicy::default()
    };
    let by = By::new("ada", "a test");
    bench.store.put_queue(&queue(), &policy, &by).await.unwrap();
}

pub(crate) async fn maintenance(bench: &SqliteFixture) -> Maintenance {
    let store: Arc<dyn Store> = Arc::new(bench.store.clone());
    Maintenance::lease(&store).await
}

/// Sends messages of which all die.
pub(crate) async fn dead(bench: &SqliteFixture, count: usize) -> Vec<MessageId> {
    let sent = bench.store.enqueue(&messages(count)).await.unwrap();
    while let Some(lease) = bench.store.claim(&claim(1_000)).await.unwrap() {
        let dead = |m: &consign_kernel::ClaimedMessage| Report::new(m.message.id, Outcome::Dead);
        let reports: Vec<Report> = lease.messages.iter().map(dead).collect();
        bench.store.settle(lease.token, &reports).await.unwrap();
    }
    sent.iter().map(|receipt| receipt.id).collect()
}

/// Begins the departure of these messages and takes its first step, after which it only goes on.
pub(crate) async fn leaving(maintenance: &Maintenance, messages: u64) -> Departure {
    let departure = maintenance.begin_of(messages).await;
    maintenance.archive(&departure).await;
    let started = Progress {
        removed: 0,
        is_over: false,
    };
    assert_eq!(maintenance.step(&departure).await, Step::Done(started));
    departure
}

async fn removed_by(maintenance: &Maintenance, departure: &Departure) -> u64 {
    match maintenance.step(departure).await {
        Step::Done(Progress { removed, .. }) => removed,
        refused => panic!("expected a step, got {refused:?}"),
    }
}

async fn number(connection: &mut SqliteConnection, statement: &'static str) -> i64 {
    let number = sqlx::query_scalar(statement);
    number.fetch_one(connection).await.unwrap()
}

/// The size of the file after its log was copied into it.
async fn file_bytes(bench: &SqliteFixture) -> u64 {
    let mut connection = bench.connect().await;
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut connection)
        .await
        .unwrap();
    std::fs::metadata(bench.path()).unwrap().len()
}

#[tokio::test]
async fn a_new_file_can_give_pages_back() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("queue.db");
    let options = consign_sqlite::SqliteOptions::new(file.to_str().unwrap()).unwrap();
    consign_sqlite::migrate(&options).await.unwrap();
    let connect = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
    let mut connection = sqlx::ConnectOptions::connect(&connect).await.unwrap();
    let mode = number(&mut connection, "PRAGMA auto_vacuum").await;
    assert_eq!(mode, 2, "incremental");
}

#[tokio::test]
async fn the_file_shrinks_after_a_departure() {
    let bench = forgetful().await;
    let maintenance = maintenance(&bench).await;
    let text = "x".repeat(2_000);
    let large: Vec<NewMessage> = (0..3_000)
        .map(|n| NewMessage::new(queue(), json!([n, text])))
        .collect();
    bench.store.enqueue(&large).await.unwrap();
    drain(&bench.store, 1_000).await;
    let before = file_bytes(&bench).await;
    assert!(before > 6_000_000, "{before}");
    assert_eq!(maintenance.leave().await, 3_000);
    let after = file_bytes(&bench).await;
    assert!(after < before / 4, "{before} bytes before, {after} after");
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn large_messages_leave_a_few_at_a_time() {
    let bench = forgetful().await;
    let maintenance = maintenance(&bench).await;
    let text = "x".repeat(1_000_000);
    for n in 0..10 {
        let large = NewMessage::new(queue(), json!([n, text]));
        bench.store.enqueue(&[large]).await.unwrap();
    }
    drain(&bench.store, 3).await;
    let departure = leaving(&maintenance, 10).await;
    let mut removed = Vec::new();
    for _ in 0..3 {
        removed.push(removed_by(&maintenance, &departure).await);
    }
    assert_eq!(removed, [4, 4, 2]);
    assert_eq!(maintenance.begin().await, None, "it is over");
}

/// Under a bound that is over at once, a window has a thousand ids, and a step removes a hundred messages.
#[tokio::test]
async fn steps_end_when_they_have_held_the_lock_for_long_enough() {
    let bench = SqliteFixture::new(|options| options.hold_max(Duration::ZERO)).await;
    keep(&bench, Some(0)).await;
    let maintenance = maintenance(&bench).await;
    dead(&bench, 1_250).await;
    let departure = leaving(&maintenance, 1_000).await;
    bench.store.take_longest_hold();
    for step in 1..=10 {
        assert_eq!(removed_by(&maintenance, &departure).await, 100, "{step}");
    }
    assert!(bench.store.take_longest_hold() > Duration::ZERO);
    assert_eq!(bench.store.take_longest_hold(), Duration::ZERO);
    assert_eq!(maintenance.leave().await, 250);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

/// What an operator puts back while its departure removes others is not removed.
#[tokio::test]
async fn nothing_that_came_back_is_removed() {
    let bench = forgetful().await;
    let maintenance = maintenance(&bench).await;
    let dead = dead(&bench, 2_500).await;
    let departure = leaving(&maintenance, 2_500).await;
    assert_eq!(removed_by(&maintenance, &departure).await, 1_000);
    let back = [dead[1_000], dead[2_499]];
    let by = By::new("ada", "the receiver is back");
    // By a clock that was set back, this happened before the departure.
    bench.clock.advance(SignedDuration::from_secs(-5));
    bench.store.requeue(&back, &by).await.unwrap();
    bench.clock.advance(SignedDuration::from_secs(6));
    let shown = dead[1_500];
    bench.store.reveal(shown, &by).await.unwrap();
    assert_eq!(maintenance.depart(&departure).await, 1_497);
    assert_eq!(drain(&bench.store, 10).await, back);
    let left = bench.store.explain(shown).await.unwrap().unwrap();
    assert_eq!(left.state.kind(), StateKind::Dead);
    assert_eq!(bench.store.history(back[0]).await.unwrap().len(), 2);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

/// What is delivered under a clock that was set back is as old as what leaves, but in no archive.
#[tokio::test]
async fn nothing_that_finished_meanwhile_is_removed() {
    let bench = forgetful().await;
    let maintenance = maintenance(&bench).await;
    let by = By::new("ada", "a test");
    let dead_before = dead(&bench, 1_050).await;
    let held = bench.store.enqueue(&messages(1)).await.unwrap()[0].id;
    bench.store.hold(&[held], &by).await.unwrap();
    bench.clock.advance(SignedDuration::from_secs(10));
    let departure = leaving(&maintenance, 1_050).await;
    assert_eq!(removed_by(&maintenance, &departure).await, 1_000);
    bench.clock.advance(SignedDuration::from_secs(-5));
    bench.store.unhold(&[held], &by).await.unwrap();
    assert_eq!(drain(&bench.store, 10).await, [held]);
    let shown = dead_before[1_020];
    bench.store.reveal(shown, &by).await.unwrap();
    assert_eq!(maintenance.depart(&departure).await, 49);
    for id in [held, shown] {
        assert!(bench.store.explain(id).await.unwrap().is_some());
    }
    assert_eq!(maintenance.leave().await, 2, "by another departure");
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

/// The search goes on where it stopped, and comes around.
#[tokio::test]
async fn every_window_is_found() {
    let bench = fixture().await;
    let maintenance = maintenance(&bench).await;
    for _ in 0..3 {
        bench.store.enqueue(&messages(8_000)).await.unwrap();
    }
    drain(&bench.store, 1_000).await;
    let first = bench.store.list(&Default::default(), None, 1).await;
    let newest = first.unwrap().items[0].id;
    assert_eq!(maintenance.begin().await, None);
    keep(&bench, Some(60_000)).await;
    // Recent: only the first two windows' messages are old enough once this one is shown.
    bench.clock.advance(SignedDuration::from_secs(60));
    let by = By::new("ada", "a test");
    let early = MessageId(17);
    bench.store.reveal(early, &by).await.unwrap();
    assert_eq!(maintenance.leave().await, 23_999);
    assert!(bench.store.explain(newest).await.unwrap().is_none());
    bench.clock.advance(SignedDuration::from_secs(60));
    assert_eq!(maintenance.leave().await, 1, "in a window passed before");
    assert!(bench.store.explain(early).await.unwrap().is_none());
    let mut connection = bench.connect().await;
    let windows = number(&mut connection, "SELECT count(*) FROM departure").await;
    assert_eq!(windows, 4, "of 10,000 ids");
}

/// Runs statements that must all be refused.
async fn refuse(bench: &SqliteFixture, statements: &[&str]) {
    let mut connection = bench.connect().await;
    for statement in statements {
        let run = sqlx::raw_sql(AssertSqlSafe((*statement).to_owned()));
        let result = run.execute(&mut connection).await;
        assert!(result.is_err(), "{statement} passed");
        // What came before the refusal in the same statement list stays open otherwise.
        sqlx::raw_sql("SELECT 1; ROLLBACK")
            .execute(&mut connection)
            .await
            .ok();
    }
}

#[tokio::test]
async fn nothing_is_removed_by_hand_under_a_departure_that_is_over() {
    let bench = forgetful().await;
    let maintenance = maintenance(&bench).await;
    bench.store.enqueue(&messages(3)).await.unwrap();
    drain(&bench.store, 3).await;
    assert_eq!(maintenance.leave().await, 3);
    bench.store.enqueue(&messages(3)).await.unwrap();
    drain(&bench.store, 3).await;
    let under_it = "(SELECT audit_id FROM departure)";
    let again = format!(
        "BEGIN; INSERT INTO departure (first, last, at, cutoffs, messages, stay, fingerprint, \
         must_archive, cursor) VALUES (1, 99, 0, '{{}}', 3, 0, zeroblob(32), 0, 0); \
         UPDATE OR REPLACE departure SET state = 'leaving', audit_id = {under_it} \
         WHERE ended_at IS NULL"
    );
    let statements = [
        format!("BEGIN; INSERT INTO purging (audit_id) VALUES ({under_it})"),
        format!("BEGIN; INSERT INTO purging (audit_id, first, last) VALUES ({under_it}, 1, 3)"),
        "DELETE FROM message".to_owned(),
        "DELETE FROM attempt".to_owned(),
        "UPDATE departure SET ended_at = NULL".to_owned(),
        "UPDATE OR REPLACE departure SET ended_at = NULL".to_owned(),
        "DELETE FROM departure".to_owned(),
        "INSERT OR REPLACE INTO departure SELECT * FROM departure".to_owned(),
        "INSERT INTO departure (first, last, at, cutoffs, messages, stay, fingerprint, \
         must_archive, cursor, state, audit_id) \
         VALUES (1, 99, 0, '{}', 3, 0, zeroblob(32), 0, 0, 'leaving', 1)"
            .to_owned(),
        again,
    ];
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    refuse(&bench, &statements).await;
    let mut connection = bench.connect().await;
    let rows = number(&mut connection, "SELECT count(*) FROM message").await;
    assert_eq!(rows, 3);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_departure_under_way_opens_its_window_only() {
    let bench = forgetful().await;
    let maintenance = maintenance(&bench).await;
    bench.store.enqueue(&messages(2)).await.unwrap();
    drain(&bench.store, 3).await;
    let departure = leaving(&maintenance, 2).await;
    // A message beyond the window of 10,000 ids.
    let mut connection = bench.connect().await;
    sqlx::raw_sql(
        "INSERT INTO message (id, queue, created_at, headers, payload) \
         VALUES (20000, 'default', 0, '{}', '{}'); \
         INSERT INTO attempt VALUES \
         (20000, 1, 'delivered', 'w', 1, zeroblob(16), 0, 0, NULL, NULL, NULL, NULL)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    let open = "BEGIN; INSERT INTO purging (audit_id, first, last) \
                SELECT audit_id, first, last FROM departure; ";
    let wide = "BEGIN; INSERT INTO purging (audit_id) SELECT audit_id FROM departure";
    let outside = format!("{open} DELETE FROM message WHERE id = 20000");
    let attempts = format!("{open} DELETE FROM attempt WHERE message_id = 20000");
    let permanent = format!("{open} DELETE FROM audit WHERE message_id IS NULL");
    let back = "UPDATE departure SET state = 'open', audit_id = NULL";
    let unlogged = "DELETE FROM message WHERE id = 1";
    let statements = [wide, &outside, &attempts, &permanent, back, unlogged];
    refuse(&bench, &statements).await;
    assert_eq!(maintenance.depart(&departure).await, 2);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn what_was_counted_and_kept_of_the_departed_cannot_be_changed() {
    let bench = forgetful().await;
    let maintenance = maintenance(&bench).await;
    let keyed = messages(1).remove(0).with_key("k");
    bench.store.enqueue(&[keyed]).await.unwrap();
    drain(&bench.store, 1).await;
    assert_eq!(maintenance.leave().await, 1);
    refuse(
        &bench,
        &[
            "UPDATE departed SET messages = 0",
            "UPDATE departed SET queue = 'other'",
            "DELETE FROM departed",
            "INSERT OR REPLACE INTO departed VALUES ('default', 0)",
            "UPDATE former_key SET message_id = 7",
            "INSERT OR REPLACE INTO former_key SELECT * FROM former_key",
        ],
    )
    .await;
}

/// The doctor's findings after these statements, as `code: what` lines.
async fn findings(bench: &SqliteFixture, statements: &'static str) -> Vec<String> {
    let mut connection = bench.connect().await;
    sqlx::raw_sql(statements)
        .execute(&mut connection)
        .await
        .unwrap();
    let findings = bench.store.doctor().await.unwrap();
    let line = |f: &consign_kernel::Finding| format!("{}: {}", f.code, f.what);
    findings.iter().map(line).collect()
}

#[tokio::test]
async fn a_former_key_of_a_message_that_exists_is_found() {
    for former in [
        "INSERT INTO former_key VALUES ('default', 'other', 1, 0, 0, 0, zeroblob(32), NULL)",
        "INSERT INTO former_key VALUES ('default', 'k', 99, 0, 0, 0, zeroblob(32), NULL)",
    ] {
        let bench = fixture().await;
        let keyed = messages(1).remove(0).with_key("k");
        bench.store.enqueue(&[keyed]).await.unwrap();
        let found = findings(&bench, former).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("former_key: key "), "{found:?}");
        assert!(found[0].ends_with("message 1 is in the store"), "{found:?}");
    }
}

#[tokio::test]
async fn a_window_that_leaves_twice_is_found() {
    let bench = forgetful().await;
    let maintenance = maintenance(&bench).await;
    bench.store.enqueue(&messages(1)).await.unwrap();
    drain(&bench.store, 1).await;
    maintenance.begin_of(1).await;
    let found = findings(
        &bench,
        "DROP INDEX departure_under_way; DROP TRIGGER departure_insert; \
         INSERT INTO departure (first, last, at, cutoffs, messages, stay, fingerprint, \
         must_archive, cursor) SELECT first + 5, last + 5, at, cutoffs, messages, stay, \
         fingerprint, must_archive, cursor FROM departure",
    )
    .await;
    assert_eq!(
        found,
        [
            "departure: departure 2 is about messages 6 to 10005, of which departure 1 is under way",
            "trigger_missing: the trigger departure_insert is missing",
        ]
    );
}
