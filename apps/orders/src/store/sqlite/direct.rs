//! Orders sent within the request, and daily quotas.

use consign_kernel::Error;
use consign_sqlite::extension::{Result, rows};
use serde_json::value::RawValue;

use super::{LedgerWork, rows as ledger, sql};
use crate::{Client, FinalResult, LedgerEntry, LedgerStatus, NewOrder, OrderKey, VerifiedOrder};

/// Rejects results that are not valid answers.
pub(super) fn validate(status: LedgerStatus, ended: &FinalResult) -> consign_kernel::Result<()> {
    if status == LedgerStatus::Accepted {
        return Err(Error::invalid(
            "status",
            "an order ends succeeded or failed",
        ));
    }
    if !(100..=599).contains(&ended.http_status) {
        return Err(Error::out_of_bounds(
            "http_status",
            ended.http_status,
            "must be 100 to 599",
        ));
    }
    let parsed: Result<&RawValue, _> = serde_json::from_str(&ended.exec_result);
    parsed.map_err(|error| Error::invalid("exec_result", format!("must be JSON: {error}")))?;
    Ok(())
}

impl LedgerWork<'_, '_> {
    pub(super) async fn close_direct(
        &mut self,
        order: &NewOrder,
        status: LedgerStatus,
        ended: &FinalResult,
    ) -> Result<Option<LedgerEntry>> {
        self.verify_given_up(&order.client, &order.key).await?;
        sqlx::query(sql!("ledger_close"))
            .bind(order.client.as_str())
            .bind(order.key.as_str())
            .bind(&order.request_digest)
            .bind(status.as_str())
            .bind(ended.http_status)
            .bind(&ended.result_digest)
            .bind(&ended.exec_result)
            .execute(&mut *self.connection)
            .await?;
        let row = ledger::one(&mut *self.connection, &order.client, &order.key).await?;
        Ok(row.map(|row| row.entry))
    }

    /// Fails those of these rows without a result in time; returns how many.
    pub(super) async fn give_up(&mut self, ledger_rows: &[i64]) -> Result<u64> {
        if ledger_rows.is_empty() {
            return Ok(0);
        }
        let done = sqlx::query(sql!("ledger_give_up"))
            .bind(rows::micros(self.now))
            .bind(rows::array(ledger_rows.iter().copied()))
            .execute(&mut *self.connection)
            .await?;
        Ok(done.rows_affected())
    }

    /// A row; failed if its order's time within a request is over.
    pub(super) async fn verify_given_up(
        &mut self,
        client: &Client,
        key: &OrderKey,
    ) -> Result<Option<VerifiedOrder>> {
        let mut found = ledger::one(&mut *self.connection, client, key).await?;
        if let Some(row) = found.as_ref().filter(|row| row.is_given_up(self.now)) {
            self.give_up(&[row.ledger_row]).await?;
            found = ledger::one(&mut *self.connection, client, key).await?;
        }
        Ok(found.map(|row| row.verified(self.now)))
    }

    /// Takes up to `want` calls of a daily quota.
    pub(super) async fn take_quota(
        &mut self,
        client: &Client,
        want: u32,
        per_day: u32,
    ) -> Result<u32> {
        let today = self.now.strftime("%Y-%m-%d").to_string();
        let used: Option<i64> = sqlx::query_scalar(sql!("quota_used"))
            .bind(client.as_str())
            .bind(&today)
            .fetch_optional(&mut *self.connection)
            .await?;
        let left = i64::from(per_day) - used.unwrap_or(0);
        let taken = want.min(u32::try_from(left).unwrap_or(0));
        if taken > 0 {
            sqlx::query(sql!("quota_use"))
                .bind(client.as_str())
                .bind(&today)
                .bind(taken)
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(taken)
    }
}
