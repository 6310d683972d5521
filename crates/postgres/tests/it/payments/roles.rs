//! P-13: every role against every function, table and view of payments.

use sqlx::AssertSqlSafe;

use super::Desk;

/// The protocol's own roles.
const PROTOCOL_ROLES: [&str; 6] = [
    "symphony_control",
    "symphony_executor",
    "symphony_ingest",
    "symphony_readonly",
    "symphony_auditor",
    "symphony_tenant",
];

const PRODUCERS: &[&str] = &["symphony_control", "symphony_ingest"];
const WORKERS: &[&str] = &["symphony_control", "symphony_executor"];
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
    ("SELECT token FROM consign.attempt", NOBODY),
    ("INSERT INTO consign.tenant_login VALUES ('symphony_tenant', gen_random_uuid())", NOBODY),
    ("INSERT INTO consign.queue_grant VALUES ('payments', 'consign_worker')", NOBODY),
    ("INSERT INTO consign.payment_outbox_attempts (outbox_id) VALUES (gen_random_uuid())", NOBODY),
    ("UPDATE consign.payment_outbox_attempts SET worker_id = ''", NOBODY),
    ("DELETE FROM consign.payment_outbox_attempts", NOBODY),
    ("DELETE FROM consign.payment_outbox_pending", NOBODY),
    ("TRUNCATE consign.payment", NOBODY),
    ("UPDATE consign.participant_outbox_sequences SET next_sequence_id = 1", NOBODY),
    ("CREATE TABLE consign.mine ()", NOBODY),
];

/// The grants as they act, not as they are written. The rest of the matrix, every role against every
/// name, is in `rights`.
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
