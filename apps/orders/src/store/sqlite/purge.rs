//! Purges expired rows with their finished messages, under an audit entry.

use consign_kernel::{By, Error, MessageId, QueueName};
use consign_sqlite::extension::{Result, rows};
use sqlx::Row as _;

use super::{LedgerWork, rows::parsed, sql};
use crate::{ConflictingKey, PurgeReport, QUEUE};

/// Maximum rows of one purge: other writers wait while it runs.
const LIMIT_MAX: u32 = 10_000;
/// The kernel's limit, less the space for the numbers.
const REASON_BYTES_MAX: usize = 4_000;

/// A row that can be purged.
struct PurgeCandidate {
    ledger_row: i64,
    client: String,
    key: String,
    outbox_id: Option<i64>,
    has_succeeded: bool,
    conflicts: u64,
}

/// The numbers are appended to the reason, which must stay within its limit.
fn validate(limit: u32, by: &By) -> consign_kernel::Result<()> {
    by.validate()?;
    if !(1..=LIMIT_MAX).contains(&limit) {
        let why = format!("must be 1 to {LIMIT_MAX}");
        return Err(Error::invalid("limit", why));
    }
    if by.reason.len() > REASON_BYTES_MAX {
        let why = format!("must be at most {REASON_BYTES_MAX} bytes for a purge");
        return Err(Error::invalid("reason", why));
    }
    Ok(())
}

impl LedgerWork<'_, '_> {
    pub(super) async fn purge(
        &mut self,
        limit: u32,
        conflicts_min: u64,
        is_dry_run: bool,
        by: &By,
    ) -> Result<PurgeReport> {
        validate(limit, by)?;
        let overdue: Vec<i64> = sqlx::query_scalar(sql!("ledger_overdue"))
            .bind(rows::micros(self.now))
            .bind(limit)
            .fetch_all(&mut *self.connection)
            .await?;
        if !is_dry_run {
            self.give_up(&overdue).await?;
        }
        let mut past = self.past(i64::from(limit) + 1).await?;
        let has_more = past.len() > limit as usize;
        past.truncate(limit as usize);
        let restless = past.iter().filter(|row| {
            !row.has_succeeded && row.conflicts > 0 && row.conflicts >= conflicts_min
        });
        let restless = restless.map(|row| {
            Ok(ConflictingKey {
                client: parsed(&row.client)?,
                key: parsed(&row.key)?,
                conflicts: row.conflicts,
            })
        });
        let succeeded = past.iter().filter(|row| row.has_succeeded).count() as u64;
        let report = PurgeReport {
            succeeded,
            failed: past.len() as u64 - succeeded,
            kept_alive: self.past_alive().await?,
            given_up: overdue.len() as u64,
            restless: restless.collect::<Result<_>>()?,
            has_more,
        };
        if !is_dry_run && !past.is_empty() {
            self.remove(&past, &report, by).await?;
        }
        if !is_dry_run {
            sqlx::query(sql!("quota_forget"))
                .bind(self.now.strftime("%Y-%m-%d").to_string())
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(report)
    }

    async fn past(&mut self, limit: i64) -> Result<Vec<PurgeCandidate>> {
        let found = sqlx::query(sql!("ledger_past"))
            .bind(rows::micros(self.now))
            .bind(limit)
            .fetch_all(&mut *self.connection)
            .await?;
        let past = |row: &sqlx::sqlite::SqliteRow| {
            Ok(PurgeCandidate {
                ledger_row: row.try_get("ledger_row")?,
                client: row.try_get("client")?,
                key: row.try_get("idempotency_key")?,
                outbox_id: row.try_get("outbox_id")?,
                has_succeeded: row.try_get("has_succeeded")?,
                conflicts: row.try_get::<i64, _>("conflicts")?.unsigned_abs(),
            })
        };
        found.iter().map(past).collect()
    }

    async fn past_alive(&mut self) -> Result<u64> {
        let alive: i64 = sqlx::query_scalar(sql!("ledger_past_alive"))
            .bind(rows::micros(self.now))
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(alive.unsigned_abs())
    }

    /// Removes rows of the ledger and their messages, under an audit entry with the numbers.
    async fn remove(
        &mut self,
        past: &[PurgeCandidate],
        report: &PurgeReport,
        by: &By,
    ) -> Result<()> {
        let ledger_rows = past.iter().map(|row| row.ledger_row);
        sqlx::query(sql!("purge_ledger"))
            .bind(rows::array(ledger_rows))
            .execute(&mut *self.connection)
            .await?;
        let keys: Vec<_> = past.iter().map(|row| (&row.client, &row.key)).collect();
        sqlx::query(sql!("purge_conflicts"))
            .bind(rows::json(&keys))
            .execute(&mut *self.connection)
            .await?;
        let ids: Vec<MessageId> = past
            .iter()
            .filter_map(|row| row.outbox_id.map(MessageId))
            .collect();
        let queue: QueueName = QUEUE.parse().expect("invariant: a plain name");
        let PurgeReport {
            succeeded, failed, ..
        } = report;
        let numbers = format!("{succeeded} succeeded and {failed} failed orders");
        let by = By::new(&by.actor, format!("{} ({numbers})", by.reason));
        self.0.purge(&queue, &ids, &by).await
    }
}
