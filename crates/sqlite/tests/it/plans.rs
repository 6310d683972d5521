//! Frequent queries use an index.

use crate::harness::fixture;

#[tokio::test]
async fn what_is_looked_for_is_found_by_an_index() {
    let bench = fixture().await;
    let mut connection = bench.connect().await;
    let plans = [(
        include_str!("../../sql/dead_list_code.sql"),
        "SEARCH dead USING INDEX dead_code (code=? AND rowid<?)",
    )];
    for (statement, expected) in plans {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain)
            .fetch_all(&mut connection)
            .await
            .unwrap();
        let steps: Vec<String> = plan.into_iter().map(|(_, _, _, step)| step).collect();
        assert!(steps.iter().any(|step| step == expected), "{steps:#?}");
    }
}
