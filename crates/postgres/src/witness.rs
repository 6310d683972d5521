//! Results that came too late.

use consign_kernel::{AttemptOutcome, Fence, LateResult, MessageId, Report, Result, Token};
use sqlx::{postgres::PgRow, types::Json};

use crate::{PostgresStore, pools::Use, rows};

impl PostgresStore {
    pub(crate) async fn witness_impl(
        &self,
        token: Token,
        reports: &[Report],
    ) -> Result<Vec<MessageId>> {
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
        let statement = sqlx::query("SELECT consign.witness($1, $2, $3, $4, $5, $6) AS kept")
            .bind(token.0)
            .bind(ids)
            .bind(outcomes)
            .bind(codes)
            .bind(details)
            .bind(results);
        let rows = self.fetch_as(Use::Lease, "witness", statement).await?;
        let row = rows
            .first()
            .ok_or_else(|| rows::corrupt("witness answered nothing"))?;
        Ok(rows::message_ids(rows::column(row, "kept")?))
    }

    pub(crate) async fn late_impl(&self, id: MessageId) -> Result<Vec<LateResult>> {
        let statement = sqlx::query(include_str!("../sql/late.sql")).bind(id.0);
        self.read("read late results", statement)
            .await?
            .iter()
            .map(late)
            .collect()
    }
}

/// A late result from its row.
pub fn late(row: &PgRow) -> Result<LateResult> {
    let outcome = rows::outcome(row)?;
    Ok(LateResult {
        message_id: MessageId(rows::column(row, "message_id")?),
        token: rows::ended_token(row)?,
        fence: Fence(rows::column(row, "fence")?),
        owner: rows::column(row, "owner")?,
        outcome: outcome
            .reported()
            .ok_or_else(|| rows::corrupt(format!("nobody reports {}", outcome.as_str())))?,
        code: rows::column(row, "code")?,
        detail: rows::column(row, "detail")?,
        result: rows::result(row)?,
        at: rows::time(row, "at")?,
    })
}
