//! Rows of the ledger and of its functions.

use consign_kernel::{MessageId, Result};
use consign_postgres::extension::rows;
use sqlx::postgres::PgRow;

use crate::{
    AcceptResult, ConflictingKey, LedgerEntry, LedgerStatus, NewOrder, PurgeReport, SentAmounts,
};

pub(super) const STATUSES: [LedgerStatus; 3] = [
    LedgerStatus::Accepted,
    LedgerStatus::Succeeded,
    LedgerStatus::Failed,
];

/// One row of the ledger, from any of the functions.
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
            .map_err(|_| rows::corrupt(format!("ledger row has http_status {http_status}")))?,
        outbox_id: outbox_id.map(MessageId),
        conflicts: rows::count(row, "conflicts")?,
        sent: rows::column::<Option<&str>>(row, "sent")?.and_then(SentAmounts::of_order),
    })
}

/// The result of accepting an order.
pub(super) fn accepted(row: &PgRow, order: &NewOrder) -> Result<AcceptResult> {
    let entry = entry(row)?;
    match rows::column::<&str>(row, "answer")? {
        // The database does not return what the caller passed in.
        "new" => Ok(AcceptResult::New(LedgerEntry {
            sent: SentAmounts::of_payload(&order.payload),
            ..entry
        })),
        "same" => Ok(AcceptResult::Same(entry)),
        "conflict" => Ok(AcceptResult::Conflict(entry)),
        other => Err(rows::corrupt(format!(
            "unknown answer {other:?} of accept_orders"
        ))),
    }
}

pub(super) fn status(row: &PgRow) -> Result<LedgerStatus> {
    let word: &str = rows::column(row, "status")?;
    let mut statuses = STATUSES.into_iter();
    statuses
        .find(|status| status.as_str() == word)
        .ok_or_else(|| rows::corrupt(format!("unknown ledger status {word:?}")))
}

pub(super) fn report(row: &PgRow) -> Result<PurgeReport> {
    let clients: Vec<String> = rows::column(row, "restless_clients")?;
    let keys: Vec<String> = rows::column(row, "restless_keys")?;
    let conflicts: Vec<i64> = rows::column(row, "restless_conflicts")?;
    let restless = clients.iter().zip(&keys).zip(conflicts);
    let restless = restless.map(|((client, key), conflicts)| {
        Ok(ConflictingKey {
            client: client.parse()?,
            key: key.parse()?,
            conflicts: conflicts.unsigned_abs(),
        })
    });
    Ok(PurgeReport {
        succeeded: rows::count(row, "succeeded")?,
        failed: rows::count(row, "failed")?,
        kept_alive: rows::count(row, "kept_alive")?,
        given_up: rows::count(row, "given_up")?,
        restless: restless.collect::<Result<_>>()?,
        has_more: rows::column(row, "has_more")?,
    })
}
