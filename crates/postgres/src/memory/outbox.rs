//! The outbox of memories.

use std::time::Duration;

use consign_kernel::{MessageId, Result};
use consign_memory::{
    Action, AuditEnd, Deferred, EnqueuedMemory, Found, NewMemory, OutboxRow, OutboxStatus, Twin,
};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use sqlx::{postgres::PgRow, types::Json};

use super::at_most;
use crate::{PostgresStore, pools::Use, rows, store::Statement};

impl PostgresStore {
    pub(super) async fn defer_impl(
        &self,
        memory: &NewMemory,
        correlation_id: &str,
        end: &AuditEnd,
    ) -> Result<Deferred> {
        let sql = "SELECT * FROM logbook.defer_memory($1, $2, $3, $4, $5, $6, $7, $8)";
        let statement = sqlx::query(sql)
            .bind(&memory.target_space)
            .bind(&memory.payload_md)
            .bind(Json(memory.message().headers))
            .bind(correlation_id)
            .bind(end.status.as_str())
            .bind(end.action.map(Action::as_str))
            .bind(&end.reason)
            .bind(Json(&end.patch));
        let rows = self.fetch("defer a memory", statement).await?;
        let row = rows::only(&rows)?;
        Ok(Deferred {
            enqueued: enqueued(row)?,
            is_audited: rows::column(row, "audited")?,
        })
    }

    pub(super) async fn enqueue_memory_impl(&self, memory: &NewMemory) -> Result<EnqueuedMemory> {
        let statement = sqlx::query("SELECT * FROM logbook.put_memory($1, $2, $3)")
            .bind(&memory.target_space)
            .bind(&memory.payload_md)
            .bind(Json(memory.message().headers));
        enqueued(rows::only(
            &self.fetch("enqueue a memory", statement).await?,
        )?)
    }

    pub(super) async fn check_dedup_impl(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: Option<&str>,
    ) -> Result<Option<Found>> {
        let statement = sqlx::query("SELECT * FROM logbook.check_dedup($1, $2, $3)")
            .bind(target_space)
            .bind(payload_sha)
            .bind(backend);
        let rows = self.read("look for a stored memory", statement).await?;
        let found = |row| {
            Ok(Found {
                outbox_id: rows::column::<Option<i64>>(row, "outbox_id")?.map(MessageId),
                memory_id: rows::column(row, "memory_id")?,
            })
        };
        rows.first().map(found).transpose()
    }

    pub(super) async fn may_be_stored_impl(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: &str,
    ) -> Result<bool> {
        let statement = sqlx::query("SELECT logbook.may_be_stored($1, $2, $3) AS is_so")
            .bind(target_space)
            .bind(payload_sha)
            .bind(backend);
        let rows = self.read("look for a memory in doubt", statement).await?;
        rows::column(rows::only(&rows)?, "is_so")
    }

    pub(super) async fn outbox_row_impl(&self, outbox_id: MessageId) -> Result<Option<OutboxRow>> {
        let sql = "SELECT * FROM logbook.outbox_memory WHERE outbox_id = $1";
        let rows = self.read("read the outbox", sqlx::query(sql).bind(outbox_id.0));
        rows.await?.first().map(outbox_row).transpose()
    }

    pub(super) async fn outbox_rows_impl(
        &self,
        status: Option<OutboxStatus>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>> {
        let sql = "SELECT * FROM logbook.outbox_memory WHERE $1::text IS NULL OR status = $1
                   ORDER BY outbox_id DESC LIMIT $2";
        let statement = sqlx::query(sql)
            .bind(status.map(OutboxStatus::as_str))
            .bind(at_most(limit));
        let rows = self.read("read the outbox", statement).await?;
        rows.iter().map(outbox_row).collect()
    }

    pub(super) async fn claim_outbox_impl(
        &self,
        worker_id: &str,
        limit: u32,
        lease: Duration,
    ) -> Result<Vec<OutboxRow>> {
        let seconds = rows::interval(lease);
        let sql = "SELECT * FROM logbook.claim_outbox($1, $2, extract(epoch FROM $3::interval))";
        let statement = sqlx::query(sql)
            .bind(worker_id)
            .bind(at_most(limit))
            .bind(seconds);
        let rows = self
            .fetch_as(Use::Claim, "claim memories", statement)
            .await?;
        rows.iter().map(outbox_row).collect()
    }

    pub(super) async fn ack_sent_impl(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        memory_id: Option<&str>,
    ) -> Result<bool> {
        let statement = sqlx::query("SELECT logbook.ack_sent($1, $2, $3) AS is_heard")
            .bind(outbox_id.0)
            .bind(worker_id)
            .bind(memory_id);
        self.is_heard("acknowledge a memory", statement).await
    }

    pub(super) async fn fail_retry_impl(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
        next_attempt_at: Timestamp,
    ) -> Result<bool> {
        let statement = sqlx::query("SELECT logbook.fail_retry($1, $2, $3, $4) AS is_heard")
            .bind(outbox_id.0)
            .bind(worker_id)
            .bind(error)
            .bind(next_attempt_at.to_sqlx());
        self.is_heard("put off a memory", statement).await
    }

    pub(super) async fn mark_dead_impl(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
    ) -> Result<bool> {
        let statement = sqlx::query("SELECT logbook.mark_dead_by_worker($1, $2, $3) AS is_heard")
            .bind(outbox_id.0)
            .bind(worker_id)
            .bind(error);
        self.is_heard("give up a memory", statement).await
    }

    pub(super) async fn renew_lease_impl(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
    ) -> Result<bool> {
        let statement = sqlx::query("SELECT logbook.renew_lease($1, $2) AS is_heard")
            .bind(outbox_id.0)
            .bind(worker_id);
        self.is_heard("renew the lease of a memory", statement)
            .await
    }

    async fn is_heard(&self, attempted: &'static str, statement: Statement<'_>) -> Result<bool> {
        let rows = self.fetch_as(Use::Lease, attempted, statement).await?;
        rows::column(rows::only(&rows)?, "is_heard")
    }
}

fn enqueued(row: &PgRow) -> Result<EnqueuedMemory> {
    let twin = match rows::column(row, "twin")? {
        None => None,
        Some("pending") => Some(Twin::Pending),
        Some("sent") => Some(Twin::Sent(rows::column(row, "memory_id")?)),
        Some("requeued") => Some(Twin::Requeued),
        Some(other) => return Err(rows::corrupt(format!("twin {other:?}"))),
    };
    Ok(EnqueuedMemory {
        outbox_id: MessageId(rows::column(row, "outbox_id")?),
        twin,
    })
}

fn outbox_row(row: &PgRow) -> Result<OutboxRow> {
    let retry_count: i32 = rows::column(row, "retry_count")?;
    Ok(OutboxRow {
        outbox_id: MessageId(rows::column(row, "outbox_id")?),
        item_id: rows::column(row, "item_id")?,
        target_space: rows::column(row, "target_space")?,
        payload_md: rows::column(row, "payload_md")?,
        payload_sha: rows::column(row, "payload_sha")?,
        status: rows::word(row, "status")?,
        retry_count: retry_count.into(),
        next_attempt_at: rows::optional_time(row, "next_attempt_at")?,
        locked_at: rows::optional_time(row, "locked_at")?,
        locked_by: rows::column(row, "locked_by")?,
        last_error: rows::column(row, "last_error")?,
        memory_id: rows::column(row, "memory_id")?,
        backend: rows::column(row, "backend")?,
        correlation_id: rows::column(row, "correlation_id")?,
        created_at: rows::time(row, "created_at")?,
        updated_at: rows::time(row, "updated_at")?,
    })
}
