//! Reading the ledger.

use std::collections::BTreeMap;

use consign_kernel::{MessageId, PAGE_ENTRIES_MAX, Result};
use consign_orders::{Client, LedgerEntry, LedgerFilter, LedgerStatus, OrderKey, Sent, Verified};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use sqlx::postgres::PgRow;

use super::accept::answer_from;
use crate::{PostgresStore, pools::Use, rows};

const STATUSES: [LedgerStatus; 3] = [
    LedgerStatus::Accepted,
    LedgerStatus::Succeeded,
    LedgerStatus::Failed,
];

impl PostgresStore {
    pub(crate) async fn entry_impl(
        &self,
        client: &Client,
        key: &OrderKey,
    ) -> Result<Option<LedgerEntry>> {
        let statement = sqlx::query(answer_from!("consign.order_entry($1, $2)"))
            .bind(client.as_str())
            .bind(key.as_str());
        let rows = self.read("read an order", statement).await?;
        rows.first().map(entry).transpose()
    }

    pub(crate) async fn verify_impl(
        &self,
        client: &Client,
        key: &OrderKey,
    ) -> Result<Option<Verified>> {
        let statement = sqlx::query(answer_from!("consign.verify_order($1, $2)"))
            .bind(client.as_str())
            .bind(key.as_str());
        let rows = self
            .read_as(Use::Lease, "verify an order", statement)
            .await?;
        let verified = |row| {
            Ok(Verified {
                entry: entry(row)?,
                is_expired: rows::column::<&str>(row, "answer")? == "expired",
            })
        };
        rows.first().map(verified).transpose()
    }

    pub(crate) async fn entries_impl(
        &self,
        filter: &LedgerFilter,
        before: Option<&(Timestamp, Client, OrderKey)>,
        limit: u32,
    ) -> Result<Vec<LedgerEntry>> {
        let statement = sqlx::query(include_str!("../../sql/orders_list.sql"))
            .bind(filter.client.as_ref().map(Client::as_str))
            .bind(filter.status.map(LedgerStatus::as_str))
            .bind(before.map(|(at, _, _)| at.to_sqlx()))
            .bind(before.map(|(_, client, _)| client.as_str()))
            .bind(before.map(|(_, _, key)| key.as_str()))
            .bind(i64::from(limit.min(PAGE_ENTRIES_MAX)));
        let rows = self.read("list orders", statement).await?;
        rows.iter().map(entry).collect()
    }

    pub(crate) async fn count_orders_impl(&self) -> Result<BTreeMap<&'static str, u64>> {
        let sql = "SELECT status, count FROM consign.count_orders()";
        let rows = self
            .read_as(Use::Report, "count orders", sqlx::query(sql))
            .await?;
        let mut counts = BTreeMap::from(STATUSES.map(|status| (status.as_str(), 0)));
        for row in &rows {
            let status = status(row)?;
            counts.insert(status.as_str(), rows::count(row, "count")?);
        }
        Ok(counts)
    }
}

/// One row of the ledger, however it was asked for.
pub(super) fn entry(row: &PgRow) -> Result<LedgerEntry> {
    let http_status: i32 = rows::column(row, "http_status")?;
    let outbox_id: Option<i64> = rows::column(row, "outbox_id")?;
    Ok(LedgerEntry {
        client: rows::column::<&str>(row, "client")?.parse()?,
        key: rows::column::<&str>(row, "idempotency_key")?.parse()?,
        request_digest: rows::column(row, "request_digest")?,
        result_digest: rows::column(row, "result_digest")?,
        status: status(row)?,
        first_seen_at: rows::time(row, "first_seen_at")?,
        last_seen_at: rows::time(row, "last_seen_at")?,
        expires_at: rows::time(row, "expires_at")?,
        order_expires_at: rows::optional_time(row, "order_expires_at")?,
        response: rows::column(row, "response")?,
        http_status: u16::try_from(http_status)
            .map_err(|_| rows::corrupt(format!("http_status is {http_status}")))?,
        outbox_id: outbox_id.map(MessageId),
        conflicts: rows::count(row, "conflicts")?,
        sent: rows::column::<Option<&str>>(row, "sent")?.and_then(Sent::of_order),
    })
}

fn status(row: &PgRow) -> Result<LedgerStatus> {
    let word: &str = rows::column(row, "status")?;
    let mut statuses = STATUSES.into_iter();
    statuses
        .find(|status| status.as_str() == word)
        .ok_or_else(|| rows::corrupt(format!("status {word:?}")))
}
