//! Settling, and late results.

use async_trait::async_trait;
use consign_kernel::{
    AttemptOutcome, MessageId, Outcome, RecordedOutcome, Report, Result, Settle, SettleAnswer,
    StateKind, Token,
};
use jiff::Timestamp;
use sqlx::{postgres::PgRow, types::Json};

use crate::{
    PostgresStore,
    error::{Refusal, refusal, store_error},
    pools::Use,
    rows,
    store::Statement,
};

#[async_trait]
impl Settle for PostgresStore {
    async fn settle(&self, token: Token, reports: &[Report]) -> Result<SettleAnswer> {
        let reports: Vec<Report> = reports.iter().cloned().map(Report::bounded).collect();
        match self.rows(Use::Lease, statement(token, &reports)).await {
            Ok(rows) => answer(&rows),
            Err(error) => match refusal(&error) {
                Some(Refusal::LeaseLost) => Ok(SettleAnswer::LeaseLost),
                Some(Refusal::NotInLease(ids)) => Ok(SettleAnswer::NotInLease(ids)),
                None => Err(store_error("settle", error)),
            },
        }
    }

    async fn record_late(&self, token: Token, reports: &[Report]) -> Result<Vec<MessageId>> {
        let reports: Vec<Report> = reports.iter().cloned().map(Report::bounded).collect();
        let ids: Vec<i64> = reports.iter().map(|report| report.id.0).collect();
        let outcomes: Vec<&str> = reports
            .iter()
            .map(|report| AttemptOutcome::from(report.outcome).as_str())
            .collect();
        let codes: Vec<Option<&str>> = reports.iter().map(|r| r.code.as_deref()).collect();
        let details: Vec<Option<&str>> = reports.iter().map(|r| r.detail.as_deref()).collect();
        let results: Vec<_> = reports
            .iter()
            .map(|r| r.result.as_ref().map(Json))
            .collect();
        let statement = sqlx::query("SELECT consign.record_late($1, $2, $3, $4, $5, $6) AS kept")
            .bind(token.0)
            .bind(ids)
            .bind(outcomes)
            .bind(codes)
            .bind(details)
            .bind(results);
        let rows = self.fetch_as(Use::Lease, "record_late", statement).await?;
        let row = rows
            .first()
            .ok_or_else(|| rows::corrupt("record_late answered nothing"))?;
        Ok(rows::message_ids(rows::column(row, "kept")?))
    }
}

/// Unused columns are NULL: the usual settle, everything delivered, is just the ids.
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
    sqlx::query(include_str!("../sql/settle.sql"))
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
    let row = rows
        .first()
        .ok_or_else(|| rows::corrupt("settle answered nothing"))?;
    let repeated: Option<bool> = rows::column(row, "repeated")?;
    let ids: Option<Vec<i64>> = rows::column(row, "ids")?;
    let attempt_nos: Option<Vec<i32>> = rows::column(row, "attempt_nos")?;
    let others = MixedResults {
        outcomes: rows::column(row, "outcomes")?,
        next_due_at: rows::column(row, "next_due_at")?,
        states: rows::column(row, "states")?,
    };
    let pairs = ids
        .unwrap_or_default()
        .into_iter()
        .zip(attempt_nos.unwrap_or_default());
    let recorded = |(index, (id, attempt_no)): (usize, (i64, i32))| {
        let (outcome, next_due_at, state) = others.at(index)?;
        let attempt_no = u32::try_from(attempt_no)
            .map_err(|_| rows::corrupt(format!("attempt_no is {attempt_no}")))?;
        Ok(RecordedOutcome {
            id: MessageId(id),
            attempt_no,
            outcome,
            next_due_at,
            state,
        })
    };
    let recorded = pairs.enumerate().map(recorded).collect::<Result<_>>()?;
    Ok(match repeated {
        Some(true) => SettleAnswer::AlreadySettled(recorded),
        _ => SettleAnswer::Settled(recorded),
    })
}

/// What was recorded where not everything was delivered.
struct MixedResults {
    outcomes: Option<Vec<String>>,
    next_due_at: Option<Vec<Option<jiff_sqlx::Timestamp>>>,
    states: Option<Vec<String>>,
}

impl MixedResults {
    fn at(&self, index: usize) -> Result<(AttemptOutcome, Option<Timestamp>, StateKind)> {
        let (Some(outcomes), Some(due), Some(states)) =
            (&self.outcomes, &self.next_due_at, &self.states)
        else {
            return Ok((AttemptOutcome::Delivered, None, StateKind::Delivered));
        };
        let short = || rows::corrupt("a settle's columns differ in length");
        let word = outcomes.get(index).ok_or_else(short)?;
        let outcome = AttemptOutcome::from_word(word)
            .ok_or_else(|| rows::corrupt(format!("outcome {word:?}")))?;
        let due = due
            .get(index)
            .ok_or_else(short)?
            .map(jiff_sqlx::Timestamp::to_jiff);
        Ok((outcome, due, states.get(index).ok_or_else(short)?.parse()?))
    }
}
