//! What is SQLite's own about payments; their rules are in `cases`.

use consign_kernel::{Claim, Lease, prelude::*};
use consign_payments::{
    AttemptState, Completion, EnqueueAnswer, NewPayment, OutboxId, Payments, queue,
    store::enqueue_in_sqlite,
};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Column, Connection, Row, SqliteConnection};

use super::{SqliteFixture, fixture};

fn payment(n: usize) -> NewPayment {
    NewPayment {
        instruction_id: format!("ins-{n}"),
        idempotency_key: format!("key-{n}"),
        participant_id: "bank-a".to_owned(),
        rail_type: "PAYMENT".to_owned(),
        tenant_id: None,
        correlation_id: None,
        payload: json!({"amount_minor": 1250, "currency_code": "ZMW", "destination": "acc-9"})
            .into(),
        headers: Default::default(),
        kyc_hold: false,
    }
}

async fn enqueue(bench: &SqliteFixture, n: usize) -> OutboxId {
    let answers = bench.store.enqueue_payments(&[payment(n)]).await.unwrap();
    match answers[0] {
        EnqueueAnswer::Enqueued(enqueued) => enqueued.outbox_id,
        EnqueueAnswer::Conflict { .. } => panic!("payment {n} is new"),
    }
}

async fn claim(bench: &SqliteFixture) -> Lease {
    let claim = Claim::new(queue(), "worker-1", 1);
    bench.store.claim(&claim).await.unwrap().unwrap()
}

async fn complete(bench: &SqliteFixture, completion: Completion) {
    let lease = claim(bench).await;
    let completions = [completion];
    let done = bench.store.complete(lease.token, "worker-1", &completions);
    done.await.unwrap();
}

/// One payment dispatched under `REF-1`, one that failed, one that waits.
async fn three() -> (SqliteFixture, [OutboxId; 3]) {
    let bench = fixture().await;
    let first = enqueue(&bench, 1).await;
    complete(&bench, Completion::dispatched(first, "REF-1")).await;
    let second = enqueue(&bench, 2).await;
    let refused = Completion::failed(second, AttemptState::Failed, "INVALID_ACCOUNT");
    complete(&bench, refused).await;
    let third = enqueue(&bench, 3).await;
    (bench, [first, second, third])
}

async fn execute(connection: &mut SqliteConnection, statements: &str) -> sqlx::Result<()> {
    let statements = AssertSqlSafe(statements.to_owned());
    sqlx::raw_sql(statements).execute(connection).await?;
    Ok(())
}

/// History is append-only and numbers grow for every writer of the file.
#[tokio::test]
async fn plain_sql_cannot_change_what_was_recorded() {
    let (bench, _) = three().await;
    let mut connection = bench.connect().await;
    let table = [
        ("UPDATE payment SET rail_type = 'REFUND'", "append-only"),
        ("DELETE FROM payment", "append-only"),
        (
            "INSERT OR REPLACE INTO payment SELECT message_id + 100, outbox_id, sequence_id + 100,
             created_at, tenant_id, correlation_id, instruction_id || 'x', idempotency_key,
             participant_id, rail_type FROM payment",
            "append-only",
        ),
        (
            "INSERT OR REPLACE INTO payment SELECT message_id + 100, hex(randomblob(18)),
             sequence_id + 100, created_at, tenant_id, correlation_id, instruction_id,
             idempotency_key, participant_id, rail_type FROM payment",
            "append-only",
        ),
        ("DELETE FROM participant_outbox_sequences", "only grows"),
        (
            "UPDATE participant_outbox_sequences SET next_sequence_id = 1",
            "only grows",
        ),
        (
            "INSERT OR REPLACE INTO participant_outbox_sequences VALUES ('bank-a', 1, 1)",
            "only grows",
        ),
        (
            "INSERT INTO attempt SELECT message_id, 2, outcome, owner, fence, token, claimed_at,
             finished_at, next_due_at, code, detail, result FROM attempt WHERE message_id = 1",
            "ux_outbox_attempts_one_terminal_per_outbox",
        ),
    ];
    for (statement, expected) in table {
        let error = execute(&mut connection, statement).await.unwrap_err();
        let error = error.to_string();
        // SQLite names the column of an index on an expression, not the index.
        let is_expected = error.contains(expected)
            || (expected.starts_with("ux_") && error.contains("UNIQUE constraint failed"));
        assert!(is_expected, "{statement}: {error}");
    }
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

/// The seed's views, and its query for lost leases as printed.
#[tokio::test]
async fn the_views_show_the_queue_and_its_history() {
    let (bench, [first, second, third]) = three().await;
    claim(&bench).await;
    let mut connection = bench.connect().await;
    let pending = "SELECT * FROM payment_outbox_pending WHERE claimed_by IS NOT NULL";
    let rows = sqlx::query(pending)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(rows.len(), 1);
    let text = |name: &str| rows[0].get::<String, _>(name);
    assert_eq!(text("outbox_id"), third.to_string());
    assert_eq!(text("claimed_by"), "worker-1");
    let token = rows[0].get::<Option<String>, _>("lease_token");
    assert_eq!(token, None, "the holder's alone");
    assert_eq!(rows[0].get::<i64, _>("sequence_id"), 3);
    assert_eq!(text("payload"), payment(3).payload.as_str());

    let attempts = "SELECT outbox_id, attempt_no, state, rail_reference, error_code \
                    FROM payment_outbox_attempts ORDER BY sequence_id";
    type Columns = (String, i64, String, Option<String>, Option<String>);
    let rows: Vec<Columns> = sqlx::query_as(attempts)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let expected = [
        (
            first.to_string(),
            1,
            "DISPATCHED".into(),
            Some("REF-1".into()),
            None,
        ),
        (
            second.to_string(),
            1,
            "FAILED".into(),
            None,
            Some("INVALID_ACCOUNT".into()),
        ),
    ];
    assert_eq!(rows, expected);
    let status = "SELECT pending, leased, held, failed FROM supervisor_outbox_status";
    let status: (i64, i64, i64, i64) = sqlx::query_as(status)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(status, (1, 1, 0, 1));
}

/// As in PostgreSQL, column by column, so that a supervisor's query runs on both.
#[tokio::test]
async fn the_supervisor_sees_the_same_columns_as_in_postgresql() {
    let (bench, [_, _, third]) = three().await;
    let mut connection = bench.connect().await;
    let status = "SELECT * FROM supervisor_outbox_status";
    let row = sqlx::query(status).fetch_one(&mut connection).await;
    let row = row.unwrap();
    let columns: Vec<&str> = row.columns().iter().map(|column| column.name()).collect();
    let expected = "pending due scheduled waiting leased expired stuck held failed dlq dispatched \
                    attempts_1 attempts_2 attempts_3 attempts_4 attempts_5_plus oldest_pending_at \
                    oldest_pending_seconds dispatched_last_hour retryable_last_hour \
                    failed_last_hour zombie_requeue_last_hour";
    let expected: Vec<&str> = expected.split_whitespace().collect();
    assert_eq!(columns, expected);
    let by_name = |name: &str| row.get::<i64, _>(name);
    assert_eq!((by_name("pending"), by_name("dispatched")), (1, 1));
    assert_eq!((by_name("failed"), by_name("dlq")), (1, 0));
    let oldest = bench.store.payment(third).await.unwrap().unwrap().0;
    let oldest = oldest.created_at.as_microsecond();
    assert_eq!(by_name("oldest_pending_at"), oldest);

    let empty = fixture().await;
    let mut connection = empty.connect().await;
    let row = sqlx::query(status).fetch_one(&mut connection).await;
    let row = row.unwrap();
    assert_eq!(row.get::<i64, _>("pending"), 0, "one row of zeros");
    assert_eq!(row.get::<i64, _>("dispatched"), 0);
    assert_eq!(row.get::<Option<f64>, _>("oldest_pending_seconds"), None);
}

/// The views' words are the port's, whatever happened.
#[tokio::test]
async fn the_view_of_attempts_agrees_with_the_port() {
    let bench = fixture().await;
    let id = enqueue(&bench, 1).await;
    let minute = std::time::Duration::from_secs(60);
    let presumed = bench.store.claim_payments(1, "worker-1", minute, true);
    presumed.await.unwrap().unwrap();
    bench.clock.advance(jiff::SignedDuration::from_mins(1));
    bench.store.repair(10).await.unwrap();
    let mut refused = Completion::failed(id, AttemptState::Retryable, "RAIL_DOWN");
    refused.error_message = Some("closed ".repeat(100));
    for n in 0..19 {
        refused.in_doubt = Some(n == 0);
        bench.clock.advance(jiff::SignedDuration::from_mins(2));
        complete(&bench, refused.clone()).await;
    }
    let mut connection = bench.connect().await;
    let attempts = "SELECT state, error_code, error_message, in_doubt \
                    FROM payment_outbox_attempts ORDER BY attempt_no";
    type Columns = (String, Option<String>, Option<String>, bool);
    let rows: Vec<Columns> = sqlx::query_as(attempts)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let views = bench.store.payment_attempts(id).await.unwrap().unwrap();
    let reported: Vec<Columns> = views
        .into_iter()
        .map(|view| {
            (
                view.state.as_str().to_owned(),
                view.error_code,
                view.error_message,
                view.in_doubt,
            )
        })
        .collect();
    assert_eq!(rows, reported);
    assert_eq!(rows.len(), 20);
    assert_eq!(rows[0].0, "ZOMBIE_REQUEUE");
    assert_eq!(rows[19].0, "FAILED");
    let doubts: Vec<bool> = rows.iter().map(|row| row.3).collect();
    assert_eq!(doubts[..3], [true, true, false]);
}

/// With the business's own rows, or not at all.
#[tokio::test]
async fn a_payment_commits_with_the_callers_rows() {
    let bench = fixture().await;
    let mut connection = bench.connect().await;
    execute(&mut connection, "CREATE TABLE ledger (entry TEXT)")
        .await
        .unwrap();
    for (n, commits) in [(1, false), (2, true)] {
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        execute(&mut transaction, "INSERT INTO ledger VALUES ('debit')")
            .await
            .unwrap();
        let new = [payment(n)];
        enqueue_in_sqlite(&bench.store, &mut transaction, &new)
            .await
            .unwrap();
        if commits {
            transaction.commit().await.unwrap()
        } else {
            transaction.rollback().await.unwrap()
        }
    }
    let entries: i64 = sqlx::query_scalar("SELECT count(*) FROM ledger")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(entries, 1);
    let lease = claim(&bench).await;
    let payload: Value = lease.messages[0].message.payload.read().unwrap();
    assert_eq!(payload["instruction_id"], "ins-2");
    assert_eq!(payload["sequence_id"], 1);
}

/// A refused enqueue leaves the caller's transaction as it was.
#[tokio::test]
async fn a_refusal_does_not_spoil_the_callers_transaction() {
    let bench = fixture().await;
    let mut connection = bench.connect().await;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let unfit = NewPayment {
        payload: json!(1).into(),
        ..payment(1)
    };
    let refused = enqueue_in_sqlite(&bench.store, &mut transaction, &[payment(2), unfit]).await;
    assert_eq!(refused.unwrap_err().code(), "invalid_input");
    enqueue_in_sqlite(&bench.store, &mut transaction, &[payment(3)])
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    let payload: Value = claim(&bench).await.messages[0]
        .message
        .payload
        .read()
        .unwrap();
    assert_eq!(payload["instruction_id"], "ins-3");
}

#[tokio::test]
async fn damage_is_found_and_named() {
    let drop = "DROP TRIGGER payment_delete; DROP TRIGGER payment_update; DROP TRIGGER \
                participant_delete; DROP TRIGGER participant_update; DROP TRIGGER attempt_update; \
                DROP TRIGGER message_delete; DROP TRIGGER payment_replace; \
                DROP INDEX ux_outbox_attempts_one_terminal_per_outbox;";
    let table = [
        (
            "DELETE FROM payment WHERE message_id = 3",
            "message_without_payment",
        ),
        (
            "INSERT INTO message (id, queue, key, created_at, headers, payload)
             VALUES (99, 'payments', 'x', 0, '{}', '{}')",
            "message_without_payment",
        ),
        (
            "UPDATE payment SET message_id = 77 WHERE message_id = 3",
            "payment_without_message",
        ),
        (
            "UPDATE payment SET sequence_id = 9 WHERE message_id = 3",
            "payment_sequence_gap",
        ),
        (
            "DELETE FROM participant_outbox_sequences",
            "payment_sequence_gap",
        ),
        (
            "UPDATE participant_outbox_sequences SET next_sequence_id = 7",
            "payment_sequence_gap",
        ),
        (
            "INSERT INTO attempt SELECT message_id, 2, outcome, owner, fence, token, claimed_at,
             finished_at, next_due_at, code, detail, result FROM attempt WHERE message_id = 1",
            "payment_dispatched_twice",
        ),
        (
            "UPDATE payment SET outbox_id = upper(outbox_id) WHERE message_id = 3",
            "message_without_payment",
        ),
    ];
    for (damage, code) in table {
        let (bench, _) = three().await;
        execute(&mut bench.connect().await, &format!("{drop} {damage}"))
            .await
            .unwrap();
        let findings = bench.store.doctor().await.unwrap();
        assert!(
            findings.iter().any(|finding| finding.code == code),
            "{damage}: {findings:#?}"
        );
        assert!(findings.iter().all(|finding| !finding.remedy.is_empty()));
    }
}
