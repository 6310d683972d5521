//! P-13: every role against every function, table and view of payments.

use sqlx::AssertSqlSafe;

use super::Desk;

/// The protocol's own roles.
pub(crate) const PROTOCOL_ROLES: [&str; 6] = [
    "symphony_control",
    "symphony_executor",
    "symphony_ingest",
    "symphony_readonly",
    "symphony_auditor",
    "symphony_tenant",
];

const ENQUEUE: &[&str] = &["enqueue_payment_outbox", "enqueue_payments"];
const WORK: &[&str] = &[
    "claim_outbox_batch",
    "begin_outbox_attempts",
    "renew_outbox_lease",
    "release_outbox_lease",
    "complete_outbox_attempt",
    "complete_outbox_attempts",
    "complete_payments",
    "hold_outbox_attempt",
    "witness_payments",
    "witness_outbox_attempt",
    "repair_expired_leases",
];
const READ: &[&str] = &["outbox_attempt_state"];
const FIGURES: &[&str] = &[
    "outbox_attempts_since",
    "shared_references",
    "unreferenced_dispatches",
];
const CLOCK: &[&str] = &["clock"];
const TENANT: &[&str] = &["current_tenant_id"];
const VIEWS: &[&str] = &[
    "payment_outbox_pending",
    "payment_outbox_attempts",
    "payment_outbox_leases",
    "supervisor_outbox_status",
    "payment_outbox_reused_references",
    "payment_outbox_reconcile",
];
const TENANT_VIEWS: &[&str] = &[
    "tenant_payment_outbox_pending",
    "tenant_payment_outbox_attempts",
];
const SEQUENCES: &[&str] = &["payment_place", "participant_outbox_sequences"];
const PAYMENT: &[&str] = &["payment"];

/// Which functions of payments a role may execute, besides the kernel's.
pub(crate) fn may_execute(role: &str) -> Vec<&'static str> {
    let parts: &[&[&str]] = match role {
        "consign_producer" | "symphony_ingest" => &[ENQUEUE],
        "consign_worker" | "symphony_executor" => &[WORK],
        "consign_operator" | "consign_auditor" => &[READ, FIGURES],
        "symphony_control" => &[ENQUEUE, WORK, READ, FIGURES, CLOCK],
        "symphony_readonly" | "symphony_auditor" => &[READ, FIGURES, CLOCK],
        "symphony_tenant" => &[READ, TENANT],
        other => panic!("no such role: {other}"),
    };
    parts.concat()
}

/// Which tables and views of payments a role may read.
pub(crate) fn may_read(role: &str) -> Vec<&'static str> {
    let parts: &[&[&str]] = match role {
        "consign_operator" | "consign_auditor" | "symphony_control" => &[VIEWS, PAYMENT, SEQUENCES],
        "symphony_readonly" | "symphony_auditor" => &[VIEWS],
        "symphony_tenant" => &[TENANT_VIEWS, PAYMENT],
        _ => &[],
    };
    parts.concat()
}

const PRODUCERS: &[&str] = &["symphony_control", "symphony_ingest", "consign_producer"];
const WORKERS: &[&str] = &["symphony_control", "symphony_executor", "consign_worker"];
const READERS: &[&str] = &[
    "symphony_control",
    "symphony_readonly",
    "symphony_auditor",
    "consign_operator",
    "consign_auditor",
];
const SUPERVISORS: &[&str] = &["symphony_control", "consign_operator", "consign_auditor"];
const NOBODY: &[&str] = &[];

/// What is tried by every role, and for whom it works.
#[rustfmt::skip]
const TRIES: &[(&str, &[&str])] = &[
    ("SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'R', '{}')", PRODUCERS),
    ("SELECT consign.claim_outbox_batch(1, 'w', 60)", WORKERS),
    ("SELECT consign.repair_expired_leases(1, 'w')", WORKERS),
    ("SELECT consign.bump_participant_outbox_seq('p')", NOBODY),
    ("SELECT consign.import_payment_outbox('public')", NOBODY),
    ("SELECT * FROM consign.payment_outbox_pending", READERS),
    ("SELECT * FROM consign.payment_outbox_attempts", READERS),
    ("SELECT * FROM consign.supervisor_outbox_status", READERS),
    ("SELECT * FROM consign.payment_outbox_reconcile", READERS),
    ("SELECT * FROM consign.payment_outbox_leases", READERS),
    ("SELECT * FROM consign.participant_outbox_sequences", SUPERVISORS),
    ("SELECT * FROM consign.payment", &["symphony_control", "symphony_tenant", "consign_operator", "consign_auditor"]),
    ("SELECT * FROM consign.tenant_payment_outbox_pending", &["symphony_tenant"]),
    ("SELECT * FROM consign.tenant_payment_outbox_attempts", &["symphony_tenant"]),
    ("SELECT * FROM consign.message", &["consign_operator", "consign_auditor"]),
    ("SELECT token FROM consign.lease", NOBODY),
    ("INSERT INTO consign.payment_outbox_attempts (outbox_id) VALUES (gen_random_uuid())", NOBODY),
    ("UPDATE consign.payment_outbox_attempts SET worker_id = ''", NOBODY),
    ("DELETE FROM consign.payment_outbox_attempts", NOBODY),
    ("DELETE FROM consign.payment_outbox_pending", NOBODY),
    ("TRUNCATE consign.payment", NOBODY),
    ("UPDATE consign.participant_outbox_sequences SET next_sequence_id = 1", NOBODY),
    ("CREATE TABLE consign.mine ()", NOBODY),
];

/// The grants as they act, not as they are written. The rest of the matrix, every role against every
/// name, is in `roles`.
#[tokio::test]
async fn every_role_acts_as_granted() {
    let mut desk = Desk::open().await;
    desk.enqueue("p", 2).await;
    let claimed = desk.claim(1, "w", 60).await;
    desk.complete(&claimed[0], "w", "DISPATCHED").await.unwrap();
    let consign = [
        "consign_producer",
        "consign_worker",
        "consign_operator",
        "consign_auditor",
    ];
    for (sql, allowed) in TRIES {
        for role in PROTOCOL_ROLES.iter().chain(&consign) {
            let attempt = format!("BEGIN; SET LOCAL ROLE {role}; {sql}");
            let result = sqlx::raw_sql(AssertSqlSafe(attempt))
                .execute(&mut desk.connection)
                .await;
            desk.run("ROLLBACK").await;
            match result {
                // 55000: nobody can delete from such a view, so that rights are not even looked at.
                Ok(_) => assert!(allowed.contains(role), "{role} must not: {sql}"),
                Err(error) => {
                    let code = error
                        .as_database_error()
                        .unwrap()
                        .code()
                        .unwrap()
                        .into_owned();
                    assert!(
                        !allowed.contains(role) && ["42501", "55000"].contains(&code.as_str()),
                        "{role}: {sql}: {error}"
                    );
                }
            }
        }
    }
}

/// A login without any of the roles gets nothing, not even the schema.
#[tokio::test]
async fn everybody_else_gets_nothing() {
    let mut desk = Desk::open().await;
    desk.enqueue("p", 1).await;
    desk.run("BEGIN; CREATE ROLE consign_test_nobody NOLOGIN; SET LOCAL ROLE consign_test_nobody")
        .await;
    for sql in [
        "SELECT consign.claim_outbox_batch(1, 'w', 60)",
        "SELECT * FROM consign.payment_outbox_pending",
    ] {
        let attempt = format!("SAVEPOINT s; {sql}");
        let result = sqlx::raw_sql(AssertSqlSafe(attempt))
            .execute(&mut desk.connection)
            .await;
        assert_eq!(super::sqlstate(result), "42501");
        desk.run("ROLLBACK TO SAVEPOINT s").await;
    }
    desk.run("ROLLBACK").await;
}
