//! Every role against every function, table and view of the logbook.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Row as _};

use super::Desk;

const ROLES: [&str; 4] = [
    "consign_producer",
    "consign_worker",
    "consign_operator",
    "consign_auditor",
];
const SCHEMAS: &str = "('logbook', 'governance', 'identity', 'analysis')";

const EVERYBODY: &[&str] = &["get_or_create_settings", "query_write_audit"];
const AUDIT: &[&str] = &["insert_write_audit"];
const WRITE: &[&str] = &[
    "update_write_audit",
    "change_settings",
    "create_user",
    "enqueue_memory",
    "put_memory",
    "open_write",
    "defer_memory",
    "create_item",
    "add_event",
    "attach",
    "keep_evidence",
    "set_kv",
    "delete_memory",
    "add_candidate",
];
const WORK: &[&str] = &[
    "claim_outbox",
    "ack_sent",
    "fail_retry",
    "mark_dead_by_worker",
    "renew_lease",
    "renew_lease_batch",
];
const STORE: &[&str] = &[
    "check_dedup",
    "may_be_stored",
    "keep_memory",
    "supersede_memory",
    "kept_memory",
    "take_turn",
    "keep_turn",
    "leave_turn",
];
const LOOK: &[&str] = &[
    "get_kv",
    "item_space",
    "search_logbook",
    "list_memory",
    "memory_spaces",
    "read_memory",
    "search_memory",
    "memory_counts",
    "outbox_counts",
];
const OPERATE: &[&str] = &["upsert_settings", "reconcile_outbox"];
const OUTBOX: &[&str] = &["outbox_memory"];
const FACTS: &[&str] = &[
    "users",
    "items",
    "events",
    "attachments",
    "knowledge_candidates",
];
const REST: &[&str] = &[
    "accounts",
    "role_profiles",
    "kv",
    "memory",
    "claimed_for",
    "requeued",
    "turn",
    "runs",
    "settings",
    "write_audit",
    "promotion_queue",
];

/// Which functions of the logbook a role may execute.
fn may_execute(role: &str) -> Vec<&'static str> {
    let parts: &[&[&str]] = match role {
        "consign_producer" => &[EVERYBODY, AUDIT, WRITE, STORE, LOOK],
        "consign_worker" => &[EVERYBODY, AUDIT, WORK, STORE],
        "consign_operator" => &[EVERYBODY, LOOK, OPERATE],
        "consign_auditor" => &[EVERYBODY, LOOK],
        other => panic!("no such role: {other}"),
    };
    parts.concat()
}

/// Which tables and views of the logbook a role may read.
fn may_read(role: &str) -> Vec<&'static str> {
    let parts: &[&[&str]] = match role {
        "consign_producer" => &[OUTBOX, FACTS],
        "consign_worker" => &[OUTBOX],
        _ => &[OUTBOX, FACTS, REST],
    };
    parts.concat()
}

#[tokio::test]
async fn every_role_has_its_grants_and_no_more() {
    let mut desk = Desk::open().await;
    let functions = format!(
        "SELECT proname::text AS name, oid::regprocedure::text AS identity FROM pg_proc
         WHERE pronamespace::regnamespace::text IN {SCHEMAS}"
    );
    let tables = format!(
        "SELECT relname::text AS name, oid::regclass::text AS identity FROM pg_class
         WHERE relnamespace::regnamespace::text IN {SCHEMAS} AND relkind IN ('r', 'v')"
    );
    let mut names = Vec::new();
    for sql in [functions, tables] {
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut desk.connection);
        let rows = rows.await.unwrap();
        let pair = |row: &sqlx::postgres::PgRow| (row.get("name"), row.get("identity"));
        names.push(rows.iter().map(pair).collect::<Vec<(String, String)>>());
    }
    let [functions, tables] = &names[..] else {
        unreachable!()
    };
    assert!(functions.len() > 40 && tables.len() == 17, "{names:#?}");
    for role in ROLES {
        for (kind, list, allowed, privileges) in [
            ("function", functions, may_execute(role), &["EXECUTE"][..]),
            (
                "table",
                tables,
                may_read(role),
                &["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE"],
            ),
        ] {
            let known: BTreeSet<&str> = list.iter().map(|(name, _)| &**name).collect();
            assert!(
                allowed.iter().all(|name| known.contains(name)),
                "{role}: {allowed:?}"
            );
            for (name, identity) in list {
                for privilege in privileges {
                    let sql = format!("SELECT has_{kind}_privilege($1, $2, $3)");
                    let may: bool = sqlx::query_scalar(AssertSqlSafe(sql))
                        .bind(role)
                        .bind(identity)
                        .bind(privilege)
                        .fetch_one(&mut desk.connection)
                        .await
                        .unwrap();
                    let expected =
                        allowed.contains(&&**name) && ["EXECUTE", "SELECT"].contains(privilege);
                    assert_eq!(may, expected, "{role} {privilege} {identity}");
                }
            }
        }
    }
}

#[tokio::test]
async fn nothing_of_the_logbook_is_granted_to_everybody() {
    let mut desk = Desk::open().await;
    let sql = format!(
        "SELECT oid::regprocedure::text FROM pg_proc
             WHERE pronamespace::regnamespace::text IN {SCHEMAS} AND has_function_privilege('public', oid, 'EXECUTE')
         UNION ALL
         SELECT oid::regprocedure::text FROM pg_proc
             WHERE pronamespace::regnamespace::text IN {SCHEMAS} AND prosqlbody IS NULL
                 AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)
         UNION ALL
         SELECT oid::regclass::text FROM pg_class
             WHERE relnamespace::regnamespace::text IN {SCHEMAS} AND relkind IN ('r', 'v', 'S')
                 AND has_table_privilege('public', oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')
         UNION ALL
         SELECT nspname::text FROM pg_namespace WHERE nspname IN {SCHEMAS} AND has_schema_privilege('public', oid, 'USAGE, CREATE')"
    );
    let open: Vec<String> = sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_all(&mut desk.connection)
        .await
        .unwrap();
    assert_eq!(open, Vec::<String>::new());
}

const PRODUCER: &[&str] = &["consign_producer"];
const WORKER: &[&str] = &["consign_worker"];
const OPERATOR: &[&str] = &["consign_operator"];
const READERS: &[&str] = &["consign_operator", "consign_auditor"];
const BOTH: &[&str] = &["consign_producer", "consign_worker"];
const NOBODY: &[&str] = &[];

/// What is tried by every role, and for whom it works.
#[rustfmt::skip]
const TRIES: &[(&str, &[&str])] = &[
    ("SELECT logbook.enqueue_memory('three', 'team:p')", PRODUCER),
    ("SELECT logbook.defer_memory('team:p', 'three', '{}', 'corr-1', 'redirected')", PRODUCER),
    ("SELECT logbook.claim_outbox('w')", WORKER),
    ("SELECT logbook.ack_sent(1, 'w')", WORKER),
    ("SELECT * FROM logbook.outbox_memory", &ROLES),
    ("SELECT * FROM logbook.check_dedup('team:p', 'x')", BOTH),
    ("SELECT logbook.keep_memory('team:p', 'x')", BOTH),
    ("SELECT governance.insert_write_audit('a', 'team:p', 'allow')", BOTH),
    ("SELECT logbook.query_write_audit()", &ROLES),
    ("SELECT governance.get_or_create_settings('p')", &ROLES),
    ("SELECT governance.upsert_settings('p', true)", OPERATOR),
    ("SELECT logbook.reconcile_outbox()", OPERATOR),
    ("SELECT logbook.search_memory('x', '{team:p}')", &["consign_producer", "consign_operator", "consign_auditor"]),
    ("SELECT logbook.supersede_memory('x', 'y')", BOTH),
    ("SELECT logbook.delete_memory('x')", &["consign_producer"]),
    ("SELECT logbook.read_memory('x')", &["consign_producer", "consign_operator", "consign_auditor"]),
    ("SELECT logbook.list_memory('{team:p}')", &["consign_producer", "consign_operator", "consign_auditor"]),
    ("SELECT logbook.memory_spaces()", &["consign_producer", "consign_operator", "consign_auditor"]),
    ("SELECT * FROM governance.write_audit", READERS),
    ("SELECT * FROM logbook.memory", READERS),
    ("INSERT INTO governance.write_audit (target_space, action) VALUES ('team:p', 'allow')", NOBODY),
    ("UPDATE governance.settings SET team_write_enabled = true", NOBODY),
    ("DELETE FROM logbook.outbox_memory", NOBODY),
    ("INSERT INTO identity.users (user_id, display_name) VALUES ('x', 'x')", NOBODY),
    ("CREATE TABLE logbook.mine ()", NOBODY),
];

/// The grants as they act, not as they are written.
#[tokio::test]
async fn every_role_acts_on_the_logbook_as_granted() {
    let mut desk = Desk::open().await;
    desk.run(
        "SELECT logbook.enqueue_memory('one', 'team:p'), logbook.enqueue_memory('two', 'team:p');
         SELECT logbook.claim_outbox('w', 1); SELECT logbook.ack_sent(1, 'w', 'mem-1')",
    )
    .await;
    for (sql, allowed) in TRIES {
        for role in ROLES {
            let attempt = format!("BEGIN; SET LOCAL ROLE {role}; {sql}");
            let result = sqlx::raw_sql(AssertSqlSafe(attempt))
                .execute(&mut desk.connection)
                .await;
            desk.run("ROLLBACK").await;
            match result {
                Ok(_) => assert!(allowed.contains(&role), "{role} must not: {sql}"),
                Err(error) => {
                    let code = error
                        .as_database_error()
                        .unwrap()
                        .code()
                        .unwrap()
                        .into_owned();
                    // 55000: nobody can delete from such a view, so that rights are not even looked at.
                    let is_refusal = ["42501", "55000"].contains(&code.as_str());
                    assert!(
                        !allowed.contains(&role) && is_refusal,
                        "{role}: {sql}: {error}"
                    );
                }
            }
        }
    }
}
