//! Frequent queries use an index.

use super::bench;

#[tokio::test]
async fn spaces_are_found_by_an_index() {
    let bench = bench().await;
    let mut connection = bench.connect().await;
    let statement = include_str!("../../../src/store/sqlite/sql/memory_spaces.sql");
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let expected = "SEARCH write_audit USING INDEX write_audit_space (target_space>?)";
    assert!(plan.iter().any(|step| step.3 == expected), "{plan:#?}");
}
