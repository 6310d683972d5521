//! Everything that can be wrong in the file is found and named.

use std::io::{Seek, SeekFrom, Write};

use consign_kernel::{By, QueuePolicy, prelude::*};

use sqlx::Connection;

use crate::harness::{SqliteFixture, claim, drain, fixture, messages, queue};

/// A store in which every table has rows: 1 delivered, 2 dead, 3 held, 4 leased, 5 and 6 ready;
/// in the ordered queue, 7 is the head and 8 waits.
async fn busy_store() -> SqliteFixture {
    let bench = fixture().await;
    let store = &bench.store;
    let by = By::new("ada", "breaking things");
    store.enqueue(&messages(1)).await.unwrap();
    drain(store, 1).await;
    let id = store.enqueue(&messages(1)).await.unwrap()[0].id;
    let lease = store.claim(&claim(1)).await.unwrap().unwrap();
    let report = consign_kernel::Report::new(id, consign_kernel::Outcome::Dead);
    store.settle(lease.token, &[report]).await.unwrap();
    let id = store.enqueue(&messages(1)).await.unwrap()[0].id;
    store.hold(&[id], &by).await.unwrap();
    store.enqueue(&messages(1)).await.unwrap();
    store.claim(&claim(1)).await.unwrap().unwrap();
    store.enqueue(&messages(2)).await.unwrap();
    let ordered = "ordered".parse().unwrap();
    let policy = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    store.put_queue(&ordered, &policy, &by).await.unwrap();
    let mut grouped = messages(2);
    for message in &mut grouped {
        message.queue = ordered.clone();
        message.group = Some("g".into());
    }
    store.enqueue(&grouped).await.unwrap();
    assert_eq!(store.doctor().await.unwrap(), [], "all is well so far");
    bench
}

/// The doctor's findings after these statements, as `code: what` lines.
async fn after(statements: &'static str) -> String {
    let bench = busy_store().await;
    let mut connection = bench.connect().await;
    sqlx::raw_sql(statements)
        .execute(&mut connection)
        .await
        .unwrap();
    let findings = bench.store.doctor().await.unwrap();
    assert!(findings.iter().all(|finding| !finding.remedy.is_empty()));
    let line = |f: &consign_kernel::Finding| format!("{}: {}", f.code, f.what);
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_message_without_a_state_is_found() {
    let found = after("DELETE FROM held").await;
    assert_eq!(
        found,
        "message_lost: message 3 has no state: it would never be delivered"
    );
}

#[tokio::test]
async fn a_message_in_two_states_is_found() {
    let found = after("INSERT INTO held VALUES (4, 'default', 0, 'twice', 0, 0, NULL)").await;
    assert_eq!(
        found,
        "message_doubled: message 4 has 2 states: lease 3, held"
    );
    let found = after("INSERT INTO held VALUES (1, 'default', 0, 'done', 0, 1, NULL)").await;
    assert_eq!(
        found,
        "message_doubled: message 1 is delivered, but also in held"
    );
}

#[tokio::test]
async fn a_place_with_an_unknown_message_is_found() {
    let found = after("INSERT INTO dead VALUES (99, 'default', 0, 1, 'x', NULL)").await;
    assert_eq!(
        found,
        "unknown: dead holds message 99, which does not exist"
    );
    let found = after(
        "INSERT INTO attempt VALUES (99, 1, 'retry', 'w', 1, x'00', 0, 0, NULL, NULL, NULL, NULL)",
    )
    .await;
    assert!(
        found.starts_with("unknown: attempts of message 99"),
        "{found}"
    );
}

#[tokio::test]
async fn a_gap_in_the_attempts_is_found() {
    let found = after("DROP TRIGGER attempt_update; UPDATE attempt SET attempt_no = 2").await;
    assert!(
        found.contains("attempts: message 1 has a gap in its attempts"),
        "{found}"
    );
    assert!(
        found.contains("attempts: message 2 has a gap in its attempts"),
        "{found}"
    );
}

#[tokio::test]
async fn a_second_delivery_is_found() {
    let found = after(
        "INSERT INTO attempt VALUES \
         (1, 2, 'delivered', 'w', 9, x'00', 0, 0, NULL, NULL, NULL, NULL)",
    )
    .await;
    assert_eq!(found, "delivered: message 1 was delivered 2 times");
}

#[tokio::test]
async fn a_wrong_count_is_found() {
    let found = after("UPDATE held SET attempts = 5").await;
    assert_eq!(
        found,
        "attempts: message 3 carries 5 attempts in held, but 0 are recorded"
    );
    let found = after("UPDATE dead SET attempt_no = 0").await;
    assert_eq!(
        found,
        "attempts: message 2 carries 0 attempts in dead, but 1 are recorded"
    );
}

#[tokio::test]
async fn unequal_arrays_are_found() {
    let found = after("UPDATE lease SET tries = '[]'").await;
    assert!(
        found.contains("arrays: lease 3 has ids, tries and attempts of unequal"),
        "{found}"
    );
    assert!(
        found.contains("message_lost: message 4 has no state"),
        "{found}"
    );
}

#[tokio::test]
async fn a_message_that_is_not_the_group_head_is_found() {
    let found = after("UPDATE group_head SET message_id = 8").await;
    assert!(
        found.contains("group_head: message 7 is not the head of group \"g\""),
        "{found}"
    );
    let found = after("DELETE FROM group_head").await;
    assert!(
        found.contains("group_head: message 8 waits in group \"g\""),
        "{found}"
    );
    let found = after("UPDATE group_head SET message_id = 1").await;
    assert!(
        found.contains("has message 1 as its head, which is delivered"),
        "{found}"
    );
}

#[tokio::test]
async fn a_batch_longer_than_the_cap_is_found() {
    let bench = fixture().await;
    bench.store.enqueue(&messages(201)).await.unwrap();
    assert_eq!(bench.store.doctor().await.unwrap(), []);
    let mut connection = bench.connect().await;
    let merge = "UPDATE ready SET ids = (SELECT json_group_array(id) FROM message), \
                 tries = (SELECT json_group_array(0) FROM message), \
                 attempts = (SELECT json_group_array(0) FROM message) WHERE batch = 1; \
                 DELETE FROM ready WHERE batch = 2";
    sqlx::raw_sql(merge).execute(&mut connection).await.unwrap();
    let findings = bench.store.doctor().await.unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].code, "batch_length");
    assert_eq!(drain(&bench.store, 150).await.len(), 201, "harmless");
    assert_eq!(queue().as_str(), "default");
}

/// Overwrites every page of `table` but its first with `fill`.
async fn overwrite(bench: &SqliteFixture, table: &str, fill: &[u8]) {
    let mut connection = bench.connect().await;
    let pages: Vec<i64> = sqlx::query_scalar(
        "SELECT pageno FROM dbstat WHERE name = ?1 AND pagetype = 'leaf' ORDER BY pageno",
    )
    .bind(table)
    .fetch_all(&mut connection)
    .await
    .unwrap();
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let mut file = std::fs::File::options()
        .write(true)
        .open(bench.path())
        .unwrap();
    for page in &pages[1..] {
        let at = u64::try_from((page - 1) * 4096 + 8).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(fill).unwrap();
    }
}

#[tokio::test]
async fn damage_is_a_finding_and_not_an_error() {
    let bench = fixture().await;
    bench.store.enqueue(&messages(500)).await.unwrap();
    overwrite(&bench, "message", &[0xa5; 4000]).await;
    let findings = bench.open().await.doctor().await.unwrap();
    let damage = findings.iter().filter(|finding| finding.code == "file");
    assert!(damage.count() > 0, "{findings:?}");
}

#[tokio::test]
async fn changed_bytes_of_a_payload_are_found() {
    let bench = busy_store().await;
    let mut connection = bench.connect().await;
    sqlx::raw_sql("DROP TRIGGER message_update; UPDATE message SET payload = '{' WHERE id = 5")
        .execute(&mut connection)
        .await
        .unwrap();
    let findings = bench.store.doctor().await.unwrap();
    let found = findings.iter().find(|finding| finding.code == "file");
    let found = found.unwrap_or_else(|| panic!("{findings:?}"));
    assert!(found.what.contains("the payload of message 5"), "{found:?}");
}

#[tokio::test]
async fn a_result_that_another_program_wrote_deeply_is_shown() {
    let bench = busy_store().await;
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let mut connection = bench.connect().await;
    sqlx::query(
        "INSERT INTO attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at,
                              finished_at, result)
         VALUES (5, 1, 'retry', 'w', 1, zeroblob(16), 1, 1, ?1)",
    )
    .bind(&deep)
    .execute(&mut connection)
    .await
    .unwrap();
    let history = bench.store.history(consign_kernel::MessageId(5)).await;
    assert_eq!(history.unwrap()[0].result, Some(deep.into()));
}
