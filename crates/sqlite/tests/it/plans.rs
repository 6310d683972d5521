//! Frequent queries use an index.

use crate::harness::fixture;

#[tokio::test]
async fn what_is_looked_for_is_found_by_an_index() {
    let bench = fixture().await;
    let mut connection = bench.connect().await;
    let plans = [
        (
            include_str!("../../sql/dead_list_code.sql"),
            "SEARCH dead USING INDEX dead_code (code=? AND rowid<?)",
        ),
        (
            include_str!("../../sql/list_prefix.sql"),
            "SEARCH m USING COVERING INDEX message_key (queue=? AND key>? AND key<?)",
        ),
        (
            include_str!("../../sql/list_place.sql"),
            "SEARCH m USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
        ),
    ];
    for (statement, expected) in plans {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain)
            .fetch_all(&mut connection)
            .await
            .unwrap();
        let steps: Vec<String> = plan.into_iter().map(|(_, _, _, step)| step).collect();
        assert!(steps.iter().any(|step| step == expected), "{steps:#?}");
        let is_whole =
            |step: &String| step.starts_with("SCAN message") || step.starts_with("SCAN dead");
        assert!(!steps.iter().any(is_whole), "{steps:#?}");
    }
}
