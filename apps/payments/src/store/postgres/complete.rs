//! Completions under a live lease, and repair of expired leases.

use consign_kernel::{Error, Result, StateKind, Token};
use consign_postgres::{
    PostgresStore,
    extension::{Statement, Use, is_recorded_otherwise, rows, state_of, store_error},
};
use sqlx::postgres::PgRow;

use crate::{AttemptState, CompleteAnswer, Completion, CompletionResult, OutboxId, RepairResult};

/// SQLSTATE: the worker lost the lease of a payment.
const LEASE_LOST: &str = "P7002";
/// SQLSTATE: a state that workers cannot report.
const COMPLETION_STATE: &str = "P7003";

/// Owner name of repairs, for information only.
const REPAIRER: &str = "consign";

pub(super) async fn complete(
    store: &PostgresStore,
    token: Token,
    worker: &str,
    completions: &[Completion],
) -> Result<CompleteAnswer> {
    let sql = include_str!("sql/complete_payments.sql");
    let statement = bound(sql, token, worker, completions)
        .bind(
            completions
                .iter()
                .map(|c| c.retry_in.map(rows::interval))
                .collect::<Vec<_>>(),
        )
        .bind(completions.iter().map(|c| c.in_doubt).collect::<Vec<_>>());
    match store.rows(Use::Lease, statement).await {
        Ok(rows) => {
            let completed = rows.iter().map(completed).collect::<Result<_>>()?;
            Ok(CompleteAnswer::Completed(completed))
        }
        Err(error) if is_recorded_otherwise(&error) => Ok(CompleteAnswer::RecordedOtherwise),
        Err(error) if state_of(&error) == Some(LEASE_LOST) => Ok(CompleteAnswer::LeaseLost),
        Err(error) => Err(completion_error("complete payments", error)),
    }
}

pub(super) async fn record_late_payments(
    store: &PostgresStore,
    token: Token,
    worker: &str,
    completions: &[Completion],
) -> Result<Vec<OutboxId>> {
    // `in_doubt` is not part of the evidence, but must be valid.
    for completion in completions {
        completion.validate()?;
    }
    let sql = include_str!("sql/record_late_payments.sql");
    let rows = store
        .rows(Use::Lease, bound(sql, token, worker, completions))
        .await;
    let rows = rows.map_err(|error| completion_error("store late results of payments", error))?;
    let id = |row| Ok(OutboxId(rows::column(row, "outbox_id")?));
    rows.iter().map(id).collect()
}

pub(super) async fn repair(store: &PostgresStore, limit: u32) -> Result<Vec<RepairResult>> {
    let sql = "SELECT outbox_id, attempt_no, effective_state::text AS state
               FROM consign.repair_expired_leases($1, $2)";
    let limit = i32::try_from(limit.clamp(1, 1_000)).unwrap_or(1_000);
    let statement = sqlx::query(sql).bind(limit).bind(REPAIRER);
    let rows = store
        .fetch_as(Use::Claim, "repair leases of payments", statement)
        .await?;
    let repaired = |row| {
        Ok(RepairResult {
            outbox_id: OutboxId(rows::column(row, "outbox_id")?),
            attempt_no: rows::number(row, "attempt_no")?,
            state: attempt_state(row)?,
        })
    };
    rows.iter().map(repaired).collect()
}

fn completion_error(attempted: &'static str, error: sqlx::Error) -> Error {
    match state_of(&error) {
        Some(COMPLETION_STATE) => {
            let why = "must be DISPATCHED, RETRYABLE or FAILED";
            Error::invalid("state", why)
        }
        _ => store_error(attempted, error),
    }
}

/// A statement with the rail's answers as its first nine parameters.
fn bound<'c>(
    sql: &'static str,
    token: Token,
    worker: &'c str,
    completions: &'c [Completion],
) -> Statement<'c> {
    let texts = |text: fn(&Completion) -> Option<&str>| -> Vec<Option<&str>> {
        completions.iter().map(text).collect()
    };
    let latency = |c: &Completion| {
        let latency_ms = c.result.latency_ms;
        latency_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX))
    };
    sqlx::query(sql)
        .bind(token.0)
        .bind(worker)
        .bind(
            completions
                .iter()
                .map(|c| c.outbox_id.0)
                .collect::<Vec<_>>(),
        )
        .bind(texts(|c| Some(c.state.as_str())))
        .bind(texts(|c| c.result.rail_reference.as_deref()))
        .bind(texts(|c| c.result.rail_code.as_deref()))
        .bind(texts(|c| c.error_code.as_deref()))
        .bind(texts(|c| c.error_message.as_deref()))
        .bind(completions.iter().map(latency).collect::<Vec<_>>())
}

fn completed(row: &PgRow) -> Result<CompletionResult> {
    let message_state: StateKind = rows::column::<&str>(row, "message_state")?.parse()?;
    Ok(CompletionResult {
        outbox_id: OutboxId(rows::column(row, "outbox_id")?),
        attempt_no: rows::number(row, "attempt_no")?,
        state: attempt_state(row)?,
        message_state,
    })
}

/// The state of an attempt, from the column `state`.
pub(super) fn attempt_state(row: &PgRow) -> Result<AttemptState> {
    let word: &str = rows::column(row, "state")?;
    let state = AttemptState::ALL.into_iter().find(|s| s.as_str() == word);
    state.ok_or_else(|| rows::corrupt(format!("unknown attempt state {word:?}")))
}
