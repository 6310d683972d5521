//! Frequent queries use an index, also with generic plans.

use sqlx::{Connection, PgConnection, Row};

use crate::harness::database;

/// A statement, arguments for it, and what its plan must say.
const PLANS: &[(&str, &str, &[&str])] = &[
    (
        include_str!("../../sql/list_code.sql"),
        "NULL, 9, 0, 10, 'gone'",
        &["dead_code"],
    ),
    (
        include_str!("../../sql/list_prefix.sql"),
        "NULL, 'a', 'b', 10",
        &["on message_key", "(key >= $2) AND (key < $3)"],
    ),
    (
        include_str!("../../sql/dead_code.sql"),
        "NULL, 'gone', 9, 10",
        &["dead_code"],
    ),
    (
        include_str!("../../sql/list_correlation.sql"),
        "NULL, 9, 0, 10, NULL, NULL, 'held', 'case'",
        &[
            "on message_1 ",
            "Index Cond: ((\"left\"(",
            "'discarded'::text WHEN (hashed SubPlan",
        ],
    ),
    (
        include_str!("../../sql/floor_correlation.sql"),
        "9, 10, 'case'",
        &["on message_1 ", "Index Cond: ((\"left\"("],
    ),
];

async fn plan(connection: &mut PgConnection, explain: String) -> String {
    let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(explain));
    let rows = rows.fetch_all(connection).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    plan.join("\n")
}

#[tokio::test]
async fn what_is_looked_for_is_found_by_an_index() {
    let database = database().await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    for (statement, arguments, expected) in PLANS {
        // Tables are empty here: without the second setting, reading all of them costs nothing.
        let prepare = format!(
            "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
             DEALLOCATE ALL; PREPARE question AS {statement}"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(prepare))
            .execute(&mut connection)
            .await
            .unwrap();
        let explain = format!("EXPLAIN EXECUTE question ({arguments})");
        let plan = plan(&mut connection, explain).await;
        for words in *expected {
            assert!(plan.contains(words), "{words}: {statement}{plan}");
        }
    }
}

#[tokio::test]
async fn spaces_of_memories_are_found_by_an_index() {
    let database = database().await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let body: String = sqlx::query_scalar(
        "SELECT prosrc FROM pg_proc WHERE oid = 'logbook.memory_spaces()'::regprocedure",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    let explain = format!("SET enable_seqscan = off; EXPLAIN {body}");
    let plan = plan(&mut connection, explain).await;
    assert!(plan.contains("using write_audit_space"), "{plan}");
    assert!(!plan.contains("Seq Scan on write_audit"), "{plan}");
}
