//! The privilege matrix: every role against every function and every table.

use std::collections::BTreeSet;

use sqlx::{PgConnection, Row};

use crate::{
    harness::{connect, database},
    payments,
};

const ROLES: [&str; 4] = [
    "consign_producer",
    "consign_worker",
    "consign_operator",
    "consign_auditor",
];

/// What each role may execute; everything else in the schema is refused to it.
fn may_execute(role: &str) -> &'static [&'static str] {
    match role {
        "consign_producer" => &[
            "enqueue",
            "enqueue_many",
            "enqueue_mixed",
            "payload_limits",
            "accept_orders",
            "open_direct_order",
            "close_direct_order",
            "take_order_quota",
            "order_entry",
            "count_orders",
        ],
        "consign_worker" => &[
            "claim",
            "claim_packed",
            "renew",
            "release",
            "begin",
            "settle",
            "settle_packed",
            "witness",
            "expire",
            "until_due",
            "rest",
            "look",
            "forget_idle",
            "pulse",
            "verify_order",
            "count_orders",
        ],
        "consign_operator" => &[
            "put_lane",
            "pause",
            "resume",
            "requeue",
            "hold",
            "unhold",
            "resolve",
            "start_redrive",
            "step_redrive",
            "stop_redrive",
            "resume_redrive",
            "reveal",
            "pulse",
            "clock",
            "state_of",
            "purge_orders",
            "order_entry",
            "order_body",
            "count_orders",
        ],
        "consign_auditor" => &[
            "clock",
            "state_of",
            "order_entry",
            "order_body",
            "count_orders",
        ],
        // What the roles of a protocol may do is the protocol's.
        _ => &[],
    }
}

/// What each role may read, besides the schema's version.
fn may_read(role: &str) -> &'static [&'static str] {
    match role {
        "consign_operator" | "consign_auditor" => &[
            "lane",
            "message",
            "ready",
            "attempt",
            "dead",
            "held",
            "waiting",
            "turn",
            "audit",
            "late",
            "redrive",
            "process",
            "pulse",
            "idempo_ledger",
            "idempo_conflict",
            "order_quota",
            "outbox_orders",
        ],
        "consign_worker" => &["lane"],
        _ => &[],
    }
}

async fn names(connection: &mut PgConnection, sql: &'static str) -> Vec<(String, String)> {
    let rows = sqlx::query(sql).fetch_all(connection).await.unwrap();
    rows.iter()
        .map(|row| (row.get("name"), row.get("identity")))
        .collect()
}

async fn allowed(connection: &mut PgConnection, sql: &'static str, binds: [&str; 3]) -> bool {
    let [a, b, c] = binds;
    sqlx::query_scalar(sql)
        .bind(a)
        .bind(b)
        .bind(c)
        .fetch_one(connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn every_role_may_do_its_own_work_and_nothing_else() {
    let database = database().await;
    let store = connect(&database).await;
    let mut connection = store.pool().acquire().await.unwrap();
    let functions = names(
        &mut connection,
        "SELECT proname::text AS name, oid::regprocedure::text AS identity FROM pg_proc
         WHERE pronamespace = 'consign'::regnamespace",
    )
    .await;
    let tables = names(
        &mut connection,
        "SELECT relname::text AS name, 'consign.' || quote_ident(relname) AS identity FROM pg_class
         WHERE relnamespace = 'consign'::regnamespace AND relkind IN ('r', 'v')",
    )
    .await;
    assert!(
        functions.len() > 25 && tables.len() >= 17,
        "{functions:?} {tables:?}"
    );
    for role in ROLES.into_iter().chain(payments::PROTOCOL_ROLES) {
        let execute = [may_execute(role), &payments::may_execute(role)].concat();
        let read = [may_read(role), &payments::may_read(role)].concat();
        for (name, identity) in &functions {
            let may = allowed(
                &mut connection,
                "SELECT has_function_privilege($1, $2, $3)",
                [role, identity, "EXECUTE"],
            )
            .await;
            assert_eq!(may, execute.contains(&name.as_str()), "{role} {identity}");
        }
        for (name, identity) in &tables {
            for privilege in [
                "SELECT",
                "INSERT",
                "UPDATE",
                "DELETE",
                "TRUNCATE",
                "REFERENCES",
                "TRIGGER",
            ] {
                let may = allowed(
                    &mut connection,
                    "SELECT has_table_privilege($1, $2, $3)",
                    [role, identity, privilege],
                )
                .await;
                let reads = read.contains(&name.as_str()) || name == "schema_version";
                // Through the view an operator asks for two of the kernel's operations.
                let asks = (role, privilege, name.as_str())
                    == ("consign_operator", "UPDATE", "outbox_orders");
                assert_eq!(
                    may,
                    (privilege == "SELECT" && reads) || asks,
                    "{role} {privilege} {identity}"
                );
            }
        }
    }
    let known: BTreeSet<&str> = functions.iter().map(|(name, _)| name.as_str()).collect();
    let roles = ROLES.into_iter().chain(payments::PROTOCOL_ROLES);
    let granted = roles.flat_map(|role| [may_execute(role), &payments::may_execute(role)].concat());
    assert!(
        granted.into_iter().all(|name| known.contains(name)),
        "a grant names nothing"
    );
}

#[tokio::test]
async fn nothing_is_granted_to_everybody() {
    let database = database().await;
    let store = connect(&database).await;
    let open: Vec<String> = sqlx::query_scalar(
        "SELECT oid::regprocedure::text FROM pg_proc
             WHERE pronamespace = 'consign'::regnamespace AND has_function_privilege('public', oid, 'EXECUTE')
         UNION ALL
         SELECT oid::regclass::text FROM pg_class
             WHERE relnamespace = 'consign'::regnamespace AND relkind IN ('r', 'v', 'S')
                 AND has_table_privilege('public', oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')
         UNION ALL
         SELECT 'schema' WHERE has_schema_privilege('public', 'consign', 'USAGE, CREATE')",
    )
    .fetch_all(store.pool())
    .await
    .unwrap();
    assert_eq!(open, Vec::<String>::new());
}

/// Left out, pg_temp would be searched first, and a caller's own types would run the caller's code as
/// the owner. Functions with a parsed body need no path.
#[tokio::test]
async fn every_function_pins_its_search_path() {
    let database = database().await;
    let store = connect(&database).await;
    let loose: Vec<String> = sqlx::query_scalar(
        "SELECT oid::regprocedure::text FROM pg_proc
         WHERE pronamespace = 'consign'::regnamespace AND prosqlbody IS NULL
             AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)",
    )
    .fetch_all(store.pool())
    .await
    .unwrap();
    assert_eq!(loose, Vec::<String>::new());
}

/// What each role tries, and whether it works: the grants as they act, not as they are written.
#[tokio::test]
async fn roles_act_as_granted() {
    let database = database().await;
    let store = connect(&database).await;
    let tries = [
        (
            "consign_producer",
            "SELECT consign.enqueue('default', '1')",
            true,
        ),
        (
            "consign_producer",
            "SELECT consign.claim('default', 'w', 1)",
            false,
        ),
        ("consign_producer", "SELECT * FROM consign.message", false),
        (
            "consign_producer",
            "INSERT INTO consign.message (created_at, lane, payload, headers) VALUES (now(), 'default', '1', '{}')",
            false,
        ),
        (
            "consign_worker",
            "SELECT consign.claim('default', 'w', 1)",
            true,
        ),
        ("consign_worker", "SELECT consign.expire(1)", true),
        (
            "consign_worker",
            "SELECT consign.enqueue('default', '1')",
            false,
        ),
        (
            "consign_worker",
            "SELECT consign.requeue(ARRAY[1], 'me', 'why')",
            false,
        ),
        ("consign_worker", "SELECT token FROM consign.lease", false),
        (
            "consign_operator",
            "SELECT consign.pause('default', 'me', 'why')",
            true,
        ),
        (
            "consign_operator",
            "SELECT consign.requeue(ARRAY[1], 'me', 'why')",
            true,
        ),
        (
            "consign_operator",
            "SELECT consign.claim('default', 'w', 1)",
            false,
        ),
        (
            "consign_worker",
            "SELECT consign.witness(gen_random_uuid(), ARRAY[1])",
            true,
        ),
        ("consign_worker", "SELECT * FROM consign.late", false),
        ("consign_worker", "SELECT consign.step_redrive()", false),
        (
            "consign_operator",
            "SELECT consign.start_redrive('me', 'why'), consign.step_redrive(10)",
            true,
        ),
        (
            "consign_operator",
            "UPDATE consign.redrive SET moved = 0",
            false,
        ),
        (
            "consign_operator",
            "SELECT consign.witness(gen_random_uuid(), ARRAY[1])",
            false,
        ),
        (
            "consign_operator",
            "SELECT fence, owner FROM consign.lease",
            true,
        ),
        ("consign_operator", "SELECT token FROM consign.lease", false),
        ("consign_auditor", "SELECT * FROM consign.attempt", true),
        ("consign_auditor", "SELECT * FROM consign.audit", true),
        ("consign_auditor", "SELECT * FROM consign.late", true),
        ("consign_auditor", "SELECT * FROM consign.redrive", true),
        (
            "consign_auditor",
            "SELECT consign.start_redrive('me', 'why')",
            false,
        ),
        ("consign_auditor", "SELECT token FROM consign.lease", false),
        ("consign_auditor", "DELETE FROM consign.attempt", false),
        (
            "consign_auditor",
            "SELECT consign.pause('default', 'me', 'why')",
            false,
        ),
        (
            "consign_producer",
            "SELECT consign.order_entry('desk-1', 'key-0001')",
            true,
        ),
        (
            "consign_producer",
            "SELECT consign.purge_orders('me', 'why')",
            false,
        ),
        (
            "consign_producer",
            "SELECT * FROM consign.idempo_ledger",
            false,
        ),
        (
            "consign_worker",
            "SELECT consign.verify_order('desk-1', 'key-0001')",
            true,
        ),
        (
            "consign_worker",
            "SELECT consign.accept_orders('{}', '{}', '{}', '{}', NULL, '{}', NULL)",
            false,
        ),
        (
            "consign_worker",
            "UPDATE consign.outbox_orders SET status = 'pending'",
            false,
        ),
        (
            "consign_operator",
            "SELECT consign.purge_orders('me', 'why')",
            true,
        ),
        (
            "consign_operator",
            "UPDATE consign.outbox_orders SET status = 'pending'",
            true,
        ),
        (
            "consign_operator",
            "UPDATE consign.idempo_ledger SET status = 'failed'",
            false,
        ),
        (
            "consign_auditor",
            "SELECT * FROM consign.outbox_orders",
            true,
        ),
        (
            "consign_auditor",
            "UPDATE consign.outbox_orders SET status = 'pending'",
            false,
        ),
        (
            "consign_auditor",
            "SELECT consign.purge_orders('me', 'why')",
            false,
        ),
    ];
    for (role, sql, works) in tries {
        let mut tx = store.pool().begin().await.unwrap();
        let become_role = sqlx::AssertSqlSafe(format!("SET LOCAL ROLE {role}"));
        sqlx::raw_sql(become_role).execute(&mut *tx).await.unwrap();
        let result = sqlx::raw_sql(sql).execute(&mut *tx).await;
        match result {
            Ok(_) => assert!(works, "{role} must not: {sql}"),
            Err(error) => {
                let code = error
                    .as_database_error()
                    .unwrap()
                    .code()
                    .unwrap()
                    .into_owned();
                assert!(!works && code == "42501", "{role}: {sql}: {error}");
            }
        }
        tx.rollback().await.unwrap();
    }
}
