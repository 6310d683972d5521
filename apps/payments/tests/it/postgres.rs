//! Payments over SQL, as a worker in any language sees them.

mod claim;
mod complete;
mod doctor;
mod doubt;
mod enqueue;
mod harness;
mod import;
mod order;
mod plans;
mod pools;
mod pruning;
mod race;
mod repair;
mod roles;
mod rules;
mod schema;
mod tenancy;
mod views;
mod workers;

use std::time::Duration;

use consign_testkit::TestDatabase;
use sqlx::{Connection, PgConnection, Row, postgres::PgRow};
use uuid::Uuid;

use self::harness::{database, frozen_database};

const SOON: Duration = Duration::from_secs(20);

/// A database with the payment protocol, and one connection to it.
struct Fixture {
    database: TestDatabase,
    connection: PgConnection,
}

/// A payment in a lease.
#[derive(Clone, Debug)]
struct ClaimedRow {
    outbox_id: Uuid,
    sequence_id: i64,
    attempt_count: i32,
    lease_token: Uuid,
    in_doubt: bool,
}

/// An attempt: its number, its state, its `error_code`.
type AttemptRow = (i32, String, Option<String>);

impl Fixture {
    /// The clock runs.
    async fn open() -> Self {
        Self::at(database().await).await
    }

    /// The clock is fixed until [`pass`](Self::pass).
    async fn frozen() -> Self {
        Self::at(frozen_database().await).await
    }

    async fn at(database: TestDatabase) -> Self {
        let connection = PgConnection::connect(database.url()).await.unwrap();
        Self {
            database,
            connection,
        }
    }

    async fn another(&self) -> PgConnection {
        PgConnection::connect(self.database.url()).await.unwrap()
    }

    /// Lets time pass on a frozen clock.
    async fn pass(&mut self, seconds: f64) {
        sqlx::query("UPDATE frozen.clock SET now = now + make_interval(secs => $1)")
            .bind(seconds)
            .execute(&mut self.connection)
            .await
            .unwrap();
    }

    async fn run(&mut self, sql: &'static str) {
        sqlx::raw_sql(sql)
            .execute(&mut self.connection)
            .await
            .unwrap();
    }

    async fn count(&mut self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql)
            .fetch_one(&mut self.connection)
            .await
            .unwrap()
    }

    /// Changes fields of the queue's policy.
    async fn policy(&mut self, fields: &'static str) {
        sqlx::query("SELECT consign.put_queue('payments', consign.payments_policy() || $1::jsonb, 'test', 'test')")
            .bind(fields)
            .execute(&mut self.connection)
            .await
            .unwrap();
    }

    /// Payments 1 to `count` of a participant.
    async fn enqueue(&mut self, participant: &str, count: i32) -> Vec<Uuid> {
        sqlx::query_scalar(
            "SELECT outbox_id FROM generate_series(1, $2) n,
             LATERAL consign.enqueue_payment_outbox('i-' || $1 || n, $1, 'k', 'PAYMENT', jsonb_build_object('amount_minor', n))",
        )
        .bind(participant)
        .bind(count)
        .fetch_all(&mut self.connection)
        .await
        .unwrap()
    }

    async fn claim(&mut self, batch: i32, worker: &str, seconds: i32) -> Vec<ClaimedRow> {
        claim(&mut self.connection, batch, worker, seconds)
            .await
            .unwrap()
    }

    /// Claims the one payment that is due.
    async fn claim_one(&mut self, worker: &str, seconds: i32) -> ClaimedRow {
        let mut claimed = self.claim(10, worker, seconds).await;
        assert_eq!(claimed.len(), 1);
        claimed.remove(0)
    }

    async fn complete(
        &mut self,
        claimed: &ClaimedRow,
        worker: &str,
        state: &str,
    ) -> Result<(i32, String), sqlx::Error> {
        complete(&mut self.connection, claimed, worker, state).await
    }

    async fn attempts(&mut self, id: Uuid) -> Vec<AttemptRow> {
        let rows = sqlx::query(
            "SELECT attempt_no, state::text, error_code FROM consign.payment_outbox_attempts
             WHERE outbox_id = $1 ORDER BY attempt_no",
        )
        .bind(id)
        .fetch_all(&mut self.connection)
        .await
        .unwrap();
        let attempt = |row: &PgRow| (row.get(0), row.get(1), row.get(2));
        rows.iter().map(attempt).collect()
    }

    async fn states(&mut self, id: Uuid) -> Vec<String> {
        let attempts = self.attempts(id).await;
        attempts.into_iter().map(|(_, state, _)| state).collect()
    }

    /// What `doctor` finds, by code.
    async fn findings(&self) -> Vec<String> {
        use consign_kernel::prelude::*;
        let store = harness::connect(&self.database).await;
        let findings = store.doctor().await.unwrap();
        findings.into_iter().map(|finding| finding.code).collect()
    }
}

async fn claim(
    connection: &mut PgConnection,
    batch: i32,
    worker: &str,
    seconds: i32,
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    let rows = sqlx::query("SELECT * FROM consign.claim_outbox_batch($1, $2, $3)")
        .bind(batch)
        .bind(worker)
        .bind(seconds)
        .fetch_all(connection)
        .await?;
    let claimed = |row: &PgRow| ClaimedRow {
        outbox_id: row.get("outbox_id"),
        sequence_id: row.get("sequence_id"),
        attempt_count: row.get("attempt_count"),
        lease_token: row.get("lease_token"),
        in_doubt: row.get("in_doubt"),
    };
    Ok(rows.iter().map(claimed).collect())
}

/// Completes under the reference `rail-<outbox_id>`; failures have the code `RAIL_DOWN`.
async fn complete(
    connection: &mut PgConnection,
    claimed: &ClaimedRow,
    worker: &str,
    state: &str,
) -> Result<(i32, String), sqlx::Error> {
    let reference = format!("rail-{}", claimed.outbox_id);
    let is_dispatched = state == "DISPATCHED";
    let row = sqlx::query(
        "SELECT attempt_no, effective_state::text FROM consign.complete_outbox_attempt(
             $1, $2, $3, $4::text::consign.outbox_attempt_state, $5, p_error_code => $6, p_error_message => $7)",
    )
    .bind(claimed.outbox_id)
    .bind(claimed.lease_token)
    .bind(worker)
    .bind(state)
    .bind(is_dispatched.then_some(reference))
    .bind((!is_dispatched).then_some("RAIL_DOWN"))
    .bind((!is_dispatched).then_some("no route to the rail"))
    .fetch_one(connection)
    .await?;
    Ok((row.get(0), row.get(1)))
}

/// The SQLSTATE of a refusal.
fn sqlstate<T: std::fmt::Debug>(result: Result<T, sqlx::Error>) -> String {
    let error = result.unwrap_err();
    let database = error.as_database_error();
    database
        .unwrap_or_else(|| panic!("{error}"))
        .code()
        .unwrap()
        .into_owned()
}

/// Runs one statement and answers with its SQLSTATE.
async fn refusal(connection: &mut PgConnection, sql: &'static str) -> String {
    sqlstate(sqlx::raw_sql(sql).execute(connection).await)
}
