//! Erasures on the file itself: what the triggers allow, and what is left in its bytes.

use std::fs;

use consign_kernel::{By, ErasureAnswer, ErasureTarget, MessageId, NewMessage, Report, prelude::*};
use serde_json::json;
use sqlx::{AssertSqlSafe, SqliteConnection};

use crate::harness::{SqliteFixture, claim, fixture, queue};

const SECRET: &str = "Jane Doe of Elm Street";

/// A long message and a short one, delivered, each with the secret in every place.
async fn delivered(bench: &SqliteFixture) -> Vec<MessageId> {
    let message = |length: usize| {
        let mut message = NewMessage::new(queue(), json!({"name": SECRET.repeat(length)}));
        let correlation_id = json!(format!("{SECRET} {length}"));
        message
            .headers
            .insert("correlation_id".into(), correlation_id);
        message
    };
    bench
        .store
        .enqueue(&[message(1), message(1_000)])
        .await
        .unwrap();
    let lease = bench.store.claim(&claim(2)).await.unwrap().unwrap();
    let ids: Vec<_> = lease.messages.iter().map(|c| c.message.id).collect();
    let report = |id: &MessageId| Report {
        detail: Some(format!("{SECRET} has it")),
        result: Some(json!({"to": SECRET})),
        ..Report::delivered(*id)
    };
    let reports: Vec<_> = ids.iter().map(report).collect();
    bench.store.settle(lease.token, &reports).await.unwrap();
    ids
}

async fn erase(bench: &SqliteFixture, ids: &[MessageId]) {
    let by = By::new("grace", "request 12");
    let target = ErasureTarget::Ids(ids.to_vec());
    let results = bench.store.erase(&target, &by).await.unwrap();
    let is_new = |answer: ErasureAnswer| answer == ErasureAnswer::Erased;
    assert!(results.iter().all(|result| is_new(result.answer)));
}

async fn run(connection: &mut SqliteConnection, sql: &str) -> Result<(), String> {
    let done = sqlx::query(AssertSqlSafe(sql.to_owned())).execute(connection);
    done.await.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn only_an_erasure_on_record_changes_what_was_recorded() {
    let bench = fixture().await;
    let ids = delivered(&bench).await;
    erase(&bench, &ids[..1]).await;
    let mut connection = bench.connect().await;
    let (erased, other) = (ids[0], ids[1]);
    let refused = [
        // Of a message that is not on record as erased.
        format!("UPDATE message SET payload = 'null', headers = '{{}}' WHERE id = {other}"),
        format!("UPDATE attempt SET detail = NULL, result = NULL WHERE message_id = {other}"),
        format!(
            "INSERT INTO erasure VALUES ({other}, 'default', 0, 'mallory', 'why', zeroblob(32))"
        ),
        // Of one that is: nothing but its content goes.
        format!("UPDATE message SET payload = '\"forged\"' WHERE id = {erased}"),
        format!("UPDATE message SET headers = '{{\"a\":1}}' WHERE id = {erased}"),
        format!("UPDATE message SET queue = 'elsewhere' WHERE id = {erased}"),
        format!("UPDATE message SET key = 'k' WHERE id = {erased}"),
        format!("UPDATE attempt SET outcome = 'dead' WHERE message_id = {erased}"),
        format!("UPDATE attempt SET detail = 'forged' WHERE message_id = {erased}"),
        format!("UPDATE attempt SET code = 'forged' WHERE message_id = {erased}"),
        "UPDATE erasure SET actor = 'mallory'".to_owned(),
        "DELETE FROM erasure".to_owned(),
        "INSERT OR REPLACE INTO erasure SELECT * FROM erasure".to_owned(),
    ];
    for sql in refused {
        let error = run(&mut connection, &sql).await.expect_err(&sql);
        let is_named = error.contains("append-only") || error.contains("needs an audit entry");
        assert!(is_named, "{sql}: {error}");
    }
    let again =
        format!("UPDATE message SET payload = 'null', headers = '{{}}' WHERE id = {erased}");
    run(&mut connection, &again).await.unwrap();
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn an_erased_content_is_overwritten_in_the_file() {
    let bench = fixture().await;
    let ids = delivered(&bench).await;
    let mut connection = bench.connect().await;
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    run(&mut connection, checkpoint).await.unwrap();
    let holds = || {
        let bytes = fs::read(bench.path()).unwrap();
        bytes
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes())
    };
    assert!(holds(), "it is in the file as long as it is not erased");
    erase(&bench, &ids).await;
    run(&mut connection, checkpoint).await.unwrap();
    assert!(!holds(), "overwritten, not only freed");
}

#[tokio::test]
async fn content_that_is_written_past_the_triggers_is_found() {
    let bench = fixture().await;
    let ids = delivered(&bench).await;
    erase(&bench, &ids).await;
    let mut connection = bench.connect().await;
    run(&mut connection, "DROP TRIGGER message_update")
        .await
        .unwrap();
    let forged = format!("UPDATE message SET payload = '1' WHERE id = {}", ids[1]);
    run(&mut connection, &forged).await.unwrap();
    let findings = bench.store.doctor().await.unwrap();
    let found = findings.iter().find(|finding| finding.code == "erasure");
    assert_eq!(found.unwrap().ids, ids[1..]);
}
