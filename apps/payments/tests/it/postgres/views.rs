//! What the views show, and that nothing can be written through them.

use consign_kernel::AttemptOutcome;
use sqlx::Row;

use super::{Fixture, refusal};

/// Second terminal, UPDATE, DELETE, TRUNCATE, for the owner too.
#[tokio::test]
async fn attempts_cannot_be_rewritten() {
    let mut fixture = Fixture::open().await;
    fixture.enqueue("p", 1).await;
    let claimed = fixture.claim_one("w", 60).await;
    fixture.complete(&claimed, "w", "DISPATCHED").await.unwrap();
    let twice = sqlx::raw_sql(
        "INSERT INTO consign.attempt SELECT message_id, fence, claimed_at, finished_at, next_due_at, 2, outcome, token, owner,
             code, detail, result FROM consign.attempt",
    );
    let error = twice.execute(&mut fixture.connection).await.unwrap_err();
    let error = error.as_database_error().unwrap();
    // PostgreSQL names the part of the index that belongs to the range.
    assert_eq!(error.code().unwrap(), "23505");
    let part = error.constraint().unwrap().to_owned();
    let of_index = "SELECT inhrelid::regclass::text FROM pg_inherits
                        WHERE inhparent = 'consign.ux_outbox_attempts_one_terminal_per_outbox'::regclass";
    let parts: Vec<String> = sqlx::query_scalar(of_index)
        .fetch_all(&mut fixture.connection)
        .await
        .unwrap();
    assert!(
        parts.contains(&format!("consign.{part}")),
        "{part}: {parts:?}"
    );
    for (sql, code) in [
        ("UPDATE consign.attempt SET detail = ''", "CN009"),
        ("DELETE FROM consign.attempt", "CN009"),
        ("TRUNCATE consign.attempt", "CN009"),
        ("UPDATE consign.payment SET rail_type = ''", "CN009"),
        ("DELETE FROM consign.payment", "CN009"),
        ("TRUNCATE consign.payment", "CN009"),
        ("DELETE FROM consign.payment_participant", "CN009"),
        ("TRUNCATE consign.payment_participant", "CN009"),
        (
            "UPDATE consign.payment_outbox_attempts SET state = 'FAILED'",
            "CN009",
        ),
        ("DELETE FROM consign.payment_outbox_attempts", "CN009"),
        ("TRUNCATE consign.payment_outbox_attempts", "42809"),
        (
            "INSERT INTO consign.payment_outbox_attempts (outbox_id, attempt_no, state) VALUES (gen_random_uuid(), 1, 'DISPATCHED')",
            "CN009",
        ),
        ("DELETE FROM consign.payment_outbox_pending", "55000"),
    ] {
        assert_eq!(refusal(&mut fixture.connection, sql).await, code, "{sql}");
    }
}

/// The queries of the design's own text, as printed.
#[tokio::test]
async fn the_monitoring_queries_work_as_printed() {
    let mut fixture = Fixture::frozen().await;
    fixture.run("SET search_path = consign, public").await;
    fixture.enqueue("p", 3).await;
    fixture.claim(2, "worker-1", 5).await;
    let in_flight = "SELECT * FROM payment_outbox_pending WHERE claimed_by IS NOT NULL";
    let rows = sqlx::query(in_flight)
        .fetch_all(&mut fixture.connection)
        .await
        .unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].get::<&str, _>("claimed_by"), "worker-1");
    let expired = "SELECT count(*) FROM payment_outbox_pending WHERE lease_expires_at <= consign.clock() AND claimed_by IS NOT NULL";
    assert_eq!(fixture.count(expired).await, 0);
    fixture.pass(5.0).await;
    assert_eq!(fixture.count(expired).await, 2);
    assert_eq!(
        fixture.count("SELECT payments::bigint FROM payment_outbox_leases WHERE is_expired AND worker_id = 'worker-1'")
            .await,
        2
    );
}

#[tokio::test]
async fn the_supervisor_counts_what_there_is() {
    let mut fixture = Fixture::frozen().await;
    fixture.policy(r#"{"attempts_max": 1}"#).await;
    fixture.enqueue("p", 6).await;
    fixture.run(
        "SELECT consign.enqueue_payment_outbox('h', 'p', 'k', 'PAYMENT', '{}', p_kyc_hold => true)",
    )
    .await;
    let claimed = fixture.claim(2, "w", 60).await;
    fixture
        .complete(&claimed[0], "w", "DISPATCHED")
        .await
        .unwrap();
    fixture
        .complete(&claimed[1], "w", "RETRYABLE")
        .await
        .unwrap();
    fixture.claim(1, "gone", 5).await;
    fixture.pass(10.0).await;
    fixture.claim(1, "w", 60).await;
    let row = sqlx::query("SELECT * FROM consign.supervisor_outbox_status")
        .fetch_one(&mut fixture.connection)
        .await
        .unwrap();
    let figures = [
        ("pending", 3),
        ("due", 2),
        ("scheduled", 0),
        ("leased", 1),
        ("expired", 0),
        ("held", 1),
        ("failed", 2),
        ("dispatched", 1),
        ("attempts_1", 0),
        ("dispatched_last_hour", 1),
        ("failed_last_hour", 2),
    ];
    for (name, figure) in figures {
        assert_eq!(row.get::<i64, _>(name), figure, "{name}");
    }
    fixture.pass(7200.0).await;
    let later = "SELECT dispatched_last_hour * 1000 + stuck * 100 + expired FROM consign.supervisor_outbox_status";
    assert_eq!(
        fixture.count(later).await,
        101,
        "an hour later only the stuck one"
    );
}

/// Bounded and masked; the payload is not copied.
#[tokio::test]
async fn error_messages_are_bounded_and_masked() {
    let mut fixture = Fixture::frozen().await;
    // The same vectors as in Rust, for messages and for codes.
    let torn = format!("a{}4111 1111 1111 1234", " ".repeat(1_987));
    let long = "ä".repeat(10_000);
    let more = [torn, long].map(|text| (text.clone(), consign_payments::shown(&text)));
    let reported = consign_payments::MASK_VECTORS
        .iter()
        .map(|(text, masked)| ((*text).to_owned(), (*masked).to_owned()));
    for (text, masked) in reported.chain(more) {
        let row = sqlx::query("SELECT consign.payment_masked($1), consign.payment_masked_code($1)")
            .bind(&text)
            .fetch_one(&mut fixture.connection)
            .await
            .unwrap();
        assert_eq!(row.get::<&str, _>(0), masked, "{text}");
        let code = consign_payments::shown_code(&text);
        assert_eq!(row.get::<&str, _>(1), code, "{text}");
    }
    fixture.enqueue("p", 1).await;
    let claimed = fixture.claim_one("w", 60).await;
    sqlx::query("SELECT consign.complete_outbox_attempt($1, $2, 'w', 'FAILED', p_rail_code => 'Authorization: Token x',
                     p_error_code => repeat('E', 500), p_error_message => repeat('x', 100000))")
        .bind(claimed.outbox_id)
        .bind(claimed.lease_token)
        .execute(&mut fixture.connection)
        .await
        .unwrap();
    assert_eq!(
        fixture.count("SELECT length(error_message)::bigint * 1000 + length(error_code) FROM consign.payment_outbox_attempts")
            .await,
        500_128
    );
    let rail = "SELECT count(*) FROM consign.payment_outbox_attempts WHERE rail_code = 'Authorization: ***'";
    assert_eq!(fixture.count(rail).await, 1);
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'payment_outbox_attempts' AND column_name = 'payload'";
    assert_eq!(fixture.count(columns).await, 0);
}

/// A reference that is too long is rejected while the worker can still report what the
/// rail has it under.
#[tokio::test]
async fn a_reference_that_is_too_long_is_refused() {
    let mut fixture = Fixture::open().await;
    fixture.enqueue("p", 2).await;
    let claimed = fixture.claim(2, "w", 60).await;
    let complete = "SELECT consign.complete_outbox_attempts($1, 'w', $2, array_fill('DISPATCHED'::consign.outbox_attempt_state,
                        ARRAY[2]), ARRAY['rail-1', repeat('ä', $3)])";
    let ids: Vec<uuid::Uuid> = claimed.iter().map(|payment| payment.outbox_id).collect();
    let complete = async |fixture: &mut Fixture, length: i32| {
        sqlx::query(complete)
            .bind(claimed[0].lease_token)
            .bind(&ids)
            .bind(length)
            .execute(&mut fixture.connection)
            .await
    };
    let error = complete(&mut fixture, 129).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("rail_reference: must be at most 256 bytes"),
        "{error}"
    );
    assert_eq!(super::sqlstate(Err::<(), _>(error)), "CN006");
    let none = "SELECT count(*) FROM consign.attempt";
    assert_eq!(fixture.count(none).await, 0, "nothing was written");
    complete(&mut fixture, 128).await.unwrap();
    assert_eq!(fixture.count(none).await, 2);
}

/// Queries that run every few seconds or once a day, among many payments:
/// the attempts of the last hour are found by their index.
#[tokio::test]
async fn the_last_hour_is_found_among_many() {
    let mut fixture = Fixture::open().await;
    fixture.enqueue("p", 1).await;
    fixture.run(
        "SET session_replication_role = replica;
         INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at)
             SELECT 1000000 + n, 1, 'delivered', 'w', 1, gen_random_uuid(), 'epoch', 'epoch' FROM generate_series(1, 30000) n;
         RESET session_replication_role",
    )
    .await;
    fixture.run("VACUUM ANALYZE consign.attempt").await;
    let plan: Vec<String> = sqlx::query_scalar(
        "EXPLAIN SELECT count(*) FROM consign.attempt WHERE finished_at > '2020-01-01'",
    )
    .fetch_all(&mut fixture.connection)
    .await
    .unwrap();
    let plan = plan.join("\n");
    assert!(plan.contains("attempt_2_finished_at_idx"), "{plan}");
    let claimed = fixture.claim_one("w", 60).await;
    fixture.complete(&claimed, "w", "DISPATCHED").await.unwrap();
    let hour = "SELECT dispatched_last_hour FROM consign.supervisor_outbox_status";
    assert_eq!(fixture.count(hour).await, 1);
}

/// The token is a permission: no reader sees it in a view.
#[tokio::test]
async fn a_reader_sees_the_lease_but_not_its_token() {
    let mut fixture = Fixture::open().await;
    fixture.enqueue("p", 2).await;
    let claimed = fixture.claim(2, "w", 60).await;
    fixture
        .complete(&claimed[0], "w", "DISPATCHED")
        .await
        .unwrap();
    let pending =
        "SELECT count(claimed_by) * 10 + count(lease_token) FROM consign.payment_outbox_pending";
    let attempts =
        "SELECT count(worker_id) * 10 + count(lease_token) FROM consign.payment_outbox_attempts";
    let readers = [
        "SET ROLE symphony_readonly",
        "SET ROLE symphony_auditor",
        "SET ROLE symphony_control",
        "SET ROLE consign_auditor",
        "SET ROLE consign_operator",
    ];
    for role in readers {
        fixture.run(role).await;
        assert_eq!(fixture.count(pending).await, 10, "{role}");
        assert_eq!(fixture.count(attempts).await, 10, "{role}");
        fixture.run("RESET ROLE").await;
    }
    fixture
        .complete(&claimed[1], "w", "DISPATCHED")
        .await
        .unwrap();
    for role in readers {
        fixture.run(role).await;
        assert_eq!(fixture.count(attempts).await, 20, "{role}: nor afterwards");
        fixture.run("RESET ROLE").await;
    }
}

/// The words of an attempt are the same in SQL and in Rust.
#[tokio::test]
async fn states_mean_the_same_in_sql_and_in_rust() {
    let mut fixture = Fixture::open().await;
    let codes = [
        None,
        Some("RAIL_DOWN"),
        Some("lease_expired"),
        Some("MISSING_RAIL_REFERENCE"),
    ];
    for outcome in [
        AttemptOutcome::Delivered,
        AttemptOutcome::Retry,
        AttemptOutcome::Dead,
        AttemptOutcome::Uncertain,
        AttemptOutcome::Expired,
    ] {
        for code in codes {
            for due in [None, Some(jiff::Timestamp::UNIX_EPOCH)] {
                let in_sql: String = sqlx::query_scalar(
                    "SELECT consign.outbox_attempt_state($1::text::consign.outcome, $2, CASE WHEN $3 THEN 'epoch'::timestamptz END)::text",
                )
                .bind(outcome.as_str())
                .bind(code)
                .bind(due.is_some())
                .fetch_one(&mut fixture.connection)
                .await
                .unwrap();
                let in_rust = consign_payments::AttemptState::of(outcome, code, due);
                assert_eq!(in_sql, in_rust.as_str(), "{outcome:?} {code:?} {due:?}");
            }
        }
    }
}
