//! Rows of the ledger.

use std::collections::BTreeMap;

use consign_kernel::{MessageId, PAGE_ENTRIES_MAX};
use consign_sqlite::extension::{Failure, Result, rows};
use jiff::Timestamp;
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};

use super::sql;
use crate::{
    Client, LedgerEntry, LedgerFilter, LedgerStatus, OrderKey, SentAmounts, VerifiedOrder,
};

/// A row, and until when its order may be sent within a request.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// SQLite's rowid, valid within one transaction.
    pub(super) ledger_row: i64,
    pub(super) entry: LedgerEntry,
    give_up_at: Option<Timestamp>,
}

impl Row {
    /// Whether the order was sent within a request that ended without a result.
    pub(super) fn is_given_up(&self, now: Timestamp) -> bool {
        self.entry.status == LedgerStatus::Accepted
            && self.give_up_at.is_some_and(|give_up_at| give_up_at <= now)
    }

    pub(super) fn verified(self, now: Timestamp) -> VerifiedOrder {
        let order_expires_at = self.entry.order_expires_at;
        VerifiedOrder {
            entry: self.entry,
            is_expired: order_expires_at.is_some_and(|at| at <= now),
        }
    }

    pub(super) fn from_row(row: &SqliteRow) -> Result<Self> {
        let time = |name: &str| rows::timestamp(row.try_get(name)?);
        let time_if_any = |name: &str| {
            let micros: Option<i64> = row.try_get(name)?;
            micros.map(rows::timestamp).transpose()
        };
        let text = |name: &str| -> Result<&str> { Ok(row.try_get(name)?) };
        let http_status: i64 = row.try_get("http_status")?;
        let entry = LedgerEntry {
            client: parsed(text("client")?)?,
            key: parsed(text("idempotency_key")?)?,
            request_digest: row.try_get("request_digest")?,
            result_digest: row.try_get("result_digest")?,
            status: status(text("status")?)?,
            first_seen_at: time("first_seen_at")?,
            last_seen_at: time("last_seen_at")?,
            expires_at: time("expires_at")?,
            order_expires_at: time_if_any("order_expires_at")?,
            response: row.try_get("response_payload_json")?,
            http_status: u16::try_from(http_status)
                .map_err(|_| Failure::corrupt(format!("{http_status} is not an HTTP status")))?,
            outbox_id: row.try_get::<Option<i64>, _>("outbox_id")?.map(MessageId),
            conflicts: row.try_get::<i64, _>("conflicts")?.unsigned_abs(),
            sent: row
                .try_get::<Option<&str>, _>("sent")?
                .and_then(SentAmounts::of_order),
        };
        Ok(Self {
            ledger_row: row.try_get("ledger_row")?,
            entry,
            give_up_at: time_if_any("give_up_at")?,
        })
    }
}

/// Parses a stored client name or key.
pub(super) fn parsed<T: std::str::FromStr<Err = consign_kernel::Error>>(text: &str) -> Result<T> {
    text.parse()
        .map_err(|error| Failure::corrupt(format!("invalid text {text:?} in the ledger: {error}")))
}

fn status(word: &str) -> Result<LedgerStatus> {
    STATUSES
        .into_iter()
        .find(|status| status.as_str() == word)
        .ok_or_else(|| Failure::corrupt(format!("unknown ledger status {word:?}")))
}

const STATUSES: [LedgerStatus; 3] = [
    LedgerStatus::Accepted,
    LedgerStatus::Succeeded,
    LedgerStatus::Failed,
];

/// A key as statement parameters.
pub(super) type Key<'k> = (&'k str, &'k str);

/// The row of a key.
pub(super) async fn one(
    connection: &mut SqliteConnection,
    client: &Client,
    key: &OrderKey,
) -> Result<Option<Row>> {
    let found = some(connection, &[(client.as_str(), key.as_str())]).await?;
    Ok(found.into_iter().next())
}

/// The rows of these keys, where they exist.
pub(super) async fn some(connection: &mut SqliteConnection, keys: &[Key<'_>]) -> Result<Vec<Row>> {
    let found = sqlx::query(sql!("ledger_keys"))
        .bind(rows::json(&keys))
        .fetch_all(connection)
        .await?;
    found.iter().map(Row::from_row).collect()
}

pub(super) async fn list(
    connection: &mut SqliteConnection,
    filter: &LedgerFilter,
    before: Option<&(Timestamp, Client, OrderKey)>,
    limit: u32,
) -> Result<Vec<LedgerEntry>> {
    let statement = match filter.status {
        Some(_) => sql!("ledger_list_status"),
        None => sql!("ledger_list"),
    };
    let (at, client, key) = match before {
        Some((at, client, key)) => (rows::micros(*at), client.as_str(), key.as_str()),
        None => (i64::MAX, "", ""),
    };
    let found = sqlx::query(statement)
        .bind(filter.client.as_ref().map(Client::as_str))
        .bind(filter.status.map(LedgerStatus::as_str))
        .bind(at)
        .bind(client)
        .bind(key)
        .bind(limit.min(PAGE_ENTRIES_MAX))
        .fetch_all(connection)
        .await?;
    let entry = |row: &SqliteRow| Ok(Row::from_row(row)?.entry);
    found.iter().map(entry).collect()
}

pub(super) async fn count(
    connection: &mut SqliteConnection,
) -> Result<BTreeMap<&'static str, u64>> {
    let found: Vec<(String, i64)> = sqlx::query_as(sql!("ledger_counted"))
        .fetch_all(connection)
        .await?;
    let mut counts: BTreeMap<&'static str, u64> =
        STATUSES.into_iter().map(|s| (s.as_str(), 0)).collect();
    for (word, count) in found {
        counts.insert(status(&word)?.as_str(), count.unsigned_abs());
    }
    Ok(counts)
}
