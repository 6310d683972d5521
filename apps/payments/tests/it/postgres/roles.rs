//! Every role against every function, table and view of payments.

use std::time::Duration;

use consign_testkit::{Login, eventually};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::{Fixture, refusal};

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
    // Queues of apps are worked by the roles of the apps.
    ("SELECT consign.claim_packed('payments', 'w', 1, NULL, '-infinity')", NOBODY),
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
    ("UPDATE consign.queue SET workers = '{consign_worker}'", NOBODY),
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
    let mut fixture = Fixture::open().await;
    fixture.enqueue("p", 2).await;
    let claimed = fixture.claim(1, "w", 60).await;
    fixture
        .complete(&claimed[0], "w", "DISPATCHED")
        .await
        .unwrap();
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
                .execute(&mut fixture.connection)
                .await;
            fixture.run("ROLLBACK").await;
            match result {
                // 55000: such a view allows no delete, so privileges are not checked.
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
async fn other_roles_have_no_privileges() {
    let mut fixture = Fixture::open().await;
    fixture.enqueue("p", 1).await;
    fixture
        .run("BEGIN; CREATE ROLE consign_test_nobody NOLOGIN; SET LOCAL ROLE consign_test_nobody")
        .await;
    for sql in [
        "SELECT consign.claim_outbox_batch(1, 'w', 60)",
        "SELECT * FROM consign.payment_outbox_pending",
    ] {
        let attempt = format!("SAVEPOINT s; {sql}");
        let result = sqlx::raw_sql(AssertSqlSafe(attempt))
            .execute(&mut fixture.connection)
            .await;
        assert_eq!(super::sqlstate(result), "42501");
        fixture.run("ROLLBACK TO SAVEPOINT s").await;
    }
    fixture.run("ROLLBACK").await;
}

/// Whichever of its roles it acts in.
#[tokio::test]
async fn a_login_of_a_tenant_enqueues_for_no_other() {
    let mut fixture = Fixture::open().await;
    let login = Login::create(&fixture.database).await;
    login.grant("symphony_ingest").await;
    sqlx::query("INSERT INTO consign.tenant_login VALUES ($1::text::name, '11111111-1111-4111-8111-111111111111')")
        .bind(login.name())
        .execute(&mut fixture.connection)
        .await
        .unwrap();
    let mut tenant = PgConnection::connect(&login.url()).await.unwrap();
    let other = "SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'PAYMENT', '{}', '22222222-2222-4222-8222-222222222222')";
    assert_eq!(refusal(&mut tenant, other).await, "42501");
    let own = "SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'PAYMENT', '{}', '11111111-1111-4111-8111-111111111111')";
    for sql in ["SET ROLE symphony_ingest", own] {
        sqlx::raw_sql(sql).execute(&mut tenant).await.unwrap();
        assert_eq!(refusal(&mut tenant, other).await, "42501");
    }
    tenant.close().await.unwrap();
    fixture.run("DELETE FROM consign.tenant_login").await;
    login.remove().await;
}

/// A reader's snapshot may show a lease as over that was renewed since.
#[tokio::test]
async fn readers_see_no_token_of_a_lease_that_seems_over() {
    let mut fixture = Fixture::open().await;
    fixture.enqueue("p", 1).await;
    fixture.claim(1, "w", 1).await;
    fixture
        .run("BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL ROLE symphony_control")
        .await;
    let is_over = "SELECT count(*) FROM consign.payment_outbox_pending WHERE lease_expires_at <= clock_timestamp()";
    let over = tokio::sync::Mutex::new(&mut fixture);
    eventually("the lease is over", Duration::from_secs(15), || async {
        over.lock().await.count(is_over).await == 1
    })
    .await;
    let tokens = "SELECT count(lease_token) FROM consign.payment_outbox_pending";
    assert_eq!(fixture.count(tokens).await, 0);
    fixture.run("ROLLBACK").await;
    assert_eq!(fixture.count(tokens).await, 1, "the owner may");
}
