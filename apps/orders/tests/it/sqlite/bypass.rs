//! Plain SQL on the file: what was recorded goes only with an audited purge, and what succeeded
//! stays so.

use consign_conformance::fixture::sqlite::SqliteFixture;
use consign_kernel::Outcome;
use consign_kernel::prelude::*;
use consign_orders::{Ledger, LedgerStatus};
use sqlx::SqliteConnection;

use super::{accept, bench, ended, entry, execute, report};

/// A way to open the gate without an audit entry of one's own.
const BACK_DOORS: [&str; 7] = [
    "INSERT INTO purging (audit_id) VALUES (1)",
    "INSERT INTO purging (audit_id) VALUES (999)",
    "INSERT INTO purging (audit_id) SELECT max(id) FROM audit",
    "INSERT OR REPLACE INTO purging (audit_id) VALUES (0)",
    "UPDATE purged SET audit_id = 0, message_id = 0",
    "DELETE FROM purged",
    "INSERT OR REPLACE INTO purged VALUES (1, 0, 0)",
];

#[tokio::test]
async fn nothing_goes_without_an_audit_entry() {
    the_gate_is_shut(&bench().await).await;
}

/// Every removal needs its own permission.
pub(super) async fn the_gate_is_shut(bench: &SqliteFixture) {
    accept(bench, 1).await;
    report(
        bench,
        Outcome::Delivered,
        Some("EXECUTED"),
        Some(ended(200)),
    )
    .await;
    let mut connection = bench.connect().await;
    // After a purge the newest audit entry is a purge, but it was used.
    bench.clock.advance(jiff::SignedDuration::from_hours(49));
    bench.store.purge(10, 1, false, &super::by()).await.unwrap();
    accept(bench, 2).await;
    report(
        bench,
        Outcome::Delivered,
        Some("EXECUTED"),
        Some(ended(200)),
    )
    .await;
    for back_door in BACK_DOORS {
        stays_shut(&mut connection, back_door).await;
    }
    // A purge that was announced but not made, and something else since.
    let announced = "INSERT INTO audit (at, actor, action, reason) VALUES \
                     (0, 'eve', 'purge', 'later'), (0, 'eve', 'look', 'around')";
    execute(&mut connection, announced).await.unwrap();
    for back_door in [
        "INSERT INTO purging (audit_id) SELECT max(id) FROM audit",
        "INSERT INTO purging (audit_id) SELECT max(id) FROM audit WHERE action = 'purge'",
    ] {
        stays_shut(&mut connection, back_door).await;
    }
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

async fn stays_shut(connection: &mut SqliteConnection, back_door: &str) {
    let opened = execute(connection, back_door).await;
    opened.expect_err(back_door);
    for table in ["message", "attempt"] {
        let removed = execute(connection, &format!("DELETE FROM {table}")).await;
        let error = removed.expect_err(back_door).to_string();
        assert!(error.contains("append-only"), "{back_door}: {error}");
    }
}

#[tokio::test]
async fn a_purge_by_hand_is_on_record_and_opens_the_gate_once() {
    let bench = bench().await;
    accept(&bench, 1).await;
    report(
        &bench,
        Outcome::Delivered,
        Some("EXECUTED"),
        Some(ended(200)),
    )
    .await;
    let mut connection = bench.connect().await;
    let by_hand = "BEGIN IMMEDIATE; \
        INSERT INTO audit (at, actor, action, reason) VALUES (0, 'eve', 'purge', 'by hand'); \
        INSERT INTO purging (audit_id) SELECT max(id) FROM audit; \
        DELETE FROM idempo_ledger; DELETE FROM attempt; DELETE FROM message; \
        DELETE FROM purging; COMMIT";
    execute(&mut connection, by_hand).await.unwrap();
    let audit = bench.store.audit(None, None, 1).await.unwrap();
    assert_eq!((&*audit[0].actor, &*audit[0].action), ("eve", "purge"));
    let again = execute(
        &mut connection,
        "INSERT INTO purging (audit_id) SELECT max(id) FROM audit",
    );
    again.await.expect_err("this entry has been used");
    for change in [
        "UPDATE message SET queue = 'x'",
        "INSERT OR REPLACE INTO message SELECT * FROM message",
    ] {
        accept(&bench, 2).await;
        let opened = "BEGIN IMMEDIATE; \
            INSERT INTO audit (at, actor, action, reason) VALUES (0, 'eve', 'purge', 'by hand'); \
            INSERT INTO purging (audit_id) SELECT max(id) FROM audit";
        execute(&mut connection, opened).await.unwrap();
        let error = execute(&mut connection, change).await;
        error.expect_err("a purge removes, it does not change");
        execute(&mut connection, "ROLLBACK").await.unwrap();
        let gone = "BEGIN IMMEDIATE; \
            INSERT INTO audit (at, actor, action, reason) VALUES (0, 'eve', 'purge', 'by hand'); \
            INSERT INTO purging (audit_id) SELECT max(id) FROM audit; DELETE FROM ready; \
            DELETE FROM idempo_ledger; DELETE FROM message; DELETE FROM purging; COMMIT";
        execute(&mut connection, gone).await.unwrap();
    }
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn what_succeeded_stays_so() {
    succeeded_is_final(&bench().await).await;
}

/// For every kind of write.
pub(super) async fn succeeded_is_final(bench: &SqliteFixture) {
    accept(bench, 1).await;
    report(
        bench,
        Outcome::Delivered,
        Some("EXECUTED"),
        Some(ended(200)),
    )
    .await;
    let before = entry(bench, 1).await;
    let mut connection = bench.connect().await;
    for change in [
        "UPDATE idempo_ledger SET status = 'failed'",
        "UPDATE idempo_ledger SET http_status = 500",
        "UPDATE idempo_ledger SET response_payload_json = '{}'",
        "UPDATE idempo_ledger SET result_digest = NULL",
        "INSERT OR REPLACE INTO idempo_ledger (client, idempotency_key, request_digest, status, \
         http_status, first_seen_at, last_seen_at, expires_at) \
         SELECT client, idempotency_key, 'x', 'accepted', 201, 0, 0, 0 FROM idempo_ledger",
        "INSERT OR REPLACE INTO idempo_ledger (client, idempotency_key, request_digest, status, \
         http_status, outbox_id, first_seen_at, last_seen_at, expires_at) \
         SELECT client, 'another-key', 'x', 'accepted', 201, outbox_id, 0, 0, 0 FROM idempo_ledger",
    ] {
        let changed = execute(&mut connection, change).await;
        let error = changed.expect_err(change).to_string();
        assert!(error.contains("idempo_ledger"), "{change}: {error}");
    }
    assert_eq!(entry(bench, 1).await, before);
    assert_eq!(before.status, LedgerStatus::Succeeded);
    // Neither another result nor a death nor a requeue takes back what was set by hand.
    for (n, outcome) in [(2, Outcome::Delivered), (3, Outcome::Dead)] {
        let id = accept(bench, n).await;
        let by_hand = "UPDATE idempo_ledger SET status = 'succeeded', http_status = 200, \
                       response_payload_json = '{}' WHERE status = 'accepted'";
        execute(&mut connection, by_hand).await.unwrap();
        let before = entry(bench, n).await;
        report(bench, outcome, Some("AGAIN"), Some(ended(400))).await;
        assert_eq!(entry(bench, n).await, before, "{outcome:?}");
        bench.store.requeue(&[id], &super::by()).await.unwrap();
        assert_eq!(entry(bench, n).await, before, "requeued");
    }
}

#[tokio::test]
async fn a_message_does_not_end_or_bring_back_another_request() {
    another_request_is_left_alone(&bench().await).await;
}

/// The row is about another request than the message, and keeps its status.
pub(super) async fn another_request_is_left_alone(bench: &SqliteFixture) {
    let id = accept(bench, 1).await;
    let mut connection = bench.connect().await;
    let another = "UPDATE idempo_ledger SET request_digest = 'sha256:another'";
    execute(&mut connection, another).await.unwrap();
    let before = entry(bench, 1).await;
    report(
        bench,
        Outcome::Dead,
        Some("BROKER_REJECTED"),
        Some(ended(400)),
    )
    .await;
    assert_eq!(entry(bench, 1).await, before, "not failed");
    bench.store.requeue(&[id], &super::by()).await.unwrap();
    report(
        bench,
        Outcome::Delivered,
        Some("EXECUTED"),
        Some(ended(200)),
    )
    .await;
    assert_eq!(entry(bench, 1).await, before, "not succeeded");

    let id = accept(bench, 2).await;
    report(
        bench,
        Outcome::Dead,
        Some("BROKER_REJECTED"),
        Some(ended(400)),
    )
    .await;
    execute(&mut connection, another).await.unwrap();
    let before = entry(bench, 2).await;
    assert_eq!(before.status, LedgerStatus::Failed);
    bench.store.requeue(&[id], &super::by()).await.unwrap();
    assert_eq!(entry(bench, 2).await, before, "not accepted again");
}
