//! Messages, attempts, late results and audit entries cannot be changed, by any program that opens the file.

use consign_kernel::{By, Report, prelude::*};
use jiff::SignedDuration;

use crate::harness::{claim, fixture, messages, queue};

#[tokio::test]
async fn what_was_recorded_cannot_be_changed() {
    let bench = fixture().await;
    let keyed = messages(1).remove(0).with_key("k");
    bench.store.enqueue(&[keyed]).await.unwrap();
    let lost = bench.store.claim(&claim(1)).await.unwrap().unwrap();
    bench.clock.advance(SignedDuration::from_mins(1));
    let late = [Report::delivered(lost.messages[0].message.id)];
    bench.store.record_late(lost.token, &late).await.unwrap();
    bench.store.expire(1).await.unwrap();
    let by = By::new("ada", "a look around");
    bench.store.pause(&queue(), &by).await.unwrap();

    let mut connection = bench.connect().await;
    for table in ["message", "attempt", "late", "audit"] {
        let count = format!("SELECT count(*) FROM {table}");
        let statements = [
            format!("UPDATE {table} SET rowid = rowid"),
            format!("DELETE FROM {table}"),
            format!("INSERT OR REPLACE INTO {table} SELECT * FROM {table}"),
        ];
        for statement in statements {
            let statement = match table {
                "attempt" | "late" => statement.replace("rowid = rowid", "owner = 'mallory'"),
                _ => statement.replace("rowid = rowid", "queue = 'elsewhere'"),
            };
            let result = sqlx::query(sqlx::AssertSqlSafe(statement.clone()))
                .execute(&mut connection)
                .await;
            let error = result.expect_err(&statement).to_string();
            assert!(error.contains("append-only"), "{statement}: {error}");
        }
        let rows: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(count))
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(rows, 1, "{table} keeps its row");
    }
}

#[tokio::test]
async fn a_key_cannot_be_stolen_by_replacing_its_message() {
    let bench = fixture().await;
    let keyed = messages(1).remove(0).with_key("k");
    bench.store.enqueue(&[keyed]).await.unwrap();
    let mut connection = bench.connect().await;
    let result = sqlx::query(
        "INSERT OR REPLACE INTO message (id, queue, key, created_at, headers, payload) \
         VALUES (99, 'default', 'k', 0, '{}', '{}')",
    )
    .execute(&mut connection)
    .await;
    let error = result.expect_err("the key is taken").to_string();
    assert!(error.contains("append-only"), "{error}");
}
