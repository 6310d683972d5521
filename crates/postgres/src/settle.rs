//! Settling.

use consign_kernel::{MessageId, Outcome, Recorded, Report, Result, SettleAnswer, Token};
use sqlx::{postgres::PgRow, types::Json};

use crate::{
    PostgresStore,
    error::{Refusal, refusal, store_error},
    rows,
    store::Statement,
};

impl PostgresStore {
    pub(crate) async fn settle_impl(
        &self,
        token: Token,
        reports: &[Report],
    ) -> Result<SettleAnswer> {
        let reports: Vec<Report> = reports.iter().cloned().map(Report::bounded).collect();
        match self.rows(statement(token, &reports)).await {
            Ok(rows) => answer(&rows),
            Err(error) => match refusal(&error) {
                Some(Refusal::LeaseLost) => Ok(SettleAnswer::LeaseLost),
                Some(Refusal::NotInLease(ids)) => Ok(SettleAnswer::NotInLease(ids)),
                None => Err(store_error("settle", error)),
            },
        }
    }
}

/// Columns nobody uses go as NULL: the usual settle, everything delivered, is just the ids.
fn statement(token: Token, reports: &[Report]) -> Statement<'_> {
    fn unless_empty<T>(values: Vec<Option<T>>) -> Option<Vec<Option<T>>> {
        values.iter().any(Option::is_some).then_some(values)
    }
    let all_delivered = reports
        .iter()
        .all(|report| report.outcome == Outcome::Delivered);
    let outcomes = || {
        reports
            .iter()
            .map(|report| word(report.outcome))
            .collect::<Vec<_>>()
    };
    sqlx::query("SELECT * FROM consign.settle($1, $2, $3, $4, $5, $6, $7)")
        .bind(token.0)
        .bind(reports.iter().map(|report| report.id.0).collect::<Vec<_>>())
        .bind((!all_delivered).then(outcomes))
        .bind(unless_empty(
            reports.iter().map(|r| r.code.as_deref()).collect(),
        ))
        .bind(unless_empty(
            reports.iter().map(|r| r.detail.as_deref()).collect(),
        ))
        .bind(unless_empty(
            reports
                .iter()
                .map(|r| r.result.as_ref().map(Json))
                .collect(),
        ))
        .bind(unless_empty(
            reports
                .iter()
                .map(|r| r.retry_in.map(rows::interval))
                .collect(),
        ))
}

fn word(outcome: Outcome) -> &'static str {
    consign_kernel::AttemptOutcome::from(outcome).as_str()
}

fn answer(rows: &[PgRow]) -> Result<SettleAnswer> {
    let recorded = |row| {
        Ok(Recorded {
            id: MessageId(rows::column(row, "id")?),
            attempt_no: rows::number(row, "attempt_no")?,
            outcome: rows::outcome(row)?,
            next_due_at: rows::optional_time(row, "next_due_at")?,
            state: rows::state(row)?,
        })
    };
    let repeated = rows
        .first()
        .map(|row| rows::column(row, "repeated"))
        .transpose()?;
    let recorded = rows.iter().map(recorded).collect::<Result<_>>()?;
    Ok(match repeated {
        Some(true) => SettleAnswer::AlreadySettled(recorded),
        _ => SettleAnswer::Settled(recorded),
    })
}
