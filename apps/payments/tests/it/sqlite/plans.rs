//! Frequent queries use an index.

use super::fixture;

#[tokio::test]
async fn payments_of_an_instruction_are_found_by_an_index() {
    let bench = fixture().await;
    let statement = include_str!("../../../src/store/sqlite/sql/payment_list_instruction.sql");
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain)
        .fetch_all(&mut bench.connect().await)
        .await
        .unwrap();
    let steps: Vec<String> = plan.into_iter().map(|(_, _, _, step)| step).collect();
    let expected = "SEARCH p USING INDEX payment_idempotency (instruction_id=?)";
    assert!(steps.iter().any(|step| step == expected), "{steps:#?}");
}
