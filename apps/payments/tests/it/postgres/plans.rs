//! Frequent queries use an index, also with generic plans.

use sqlx::{Connection, PgConnection, Row};

use super::harness::database;

#[tokio::test]
async fn payments_of_an_instruction_are_found_by_an_index() {
    let database = database().await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let statement = include_str!("../../../src/store/postgres/sql/payment_list_instruction.sql");
    // Tables are empty here: without the second setting, reading all of them costs nothing.
    let prepare = format!(
        "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
         PREPARE question AS {statement}"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(prepare))
        .execute(&mut connection)
        .await
        .unwrap();
    let explain = "EXPLAIN EXECUTE question (9, 10, NULL, NULL, 'ins-1', NULL)";
    let rows = sqlx::raw_sql(explain)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    assert!(plan.contains("payment_idempotency"), "{plan}");
}
