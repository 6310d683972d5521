//! The outbox of memories.

use std::time::Duration;

use crate::{
    Action, AuditEnd, DeferResult, EnqueuedMemory, KnownMemory, NewMemory, OutboxRow, OutboxStatus,
    Twin,
};
use consign_kernel::{MessageId, Result};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use sqlx::{postgres::PgRow, types::Json};

use super::at_most;
use consign_postgres::{
    PostgresStore,
    extension::{Statement, Use, rows},
};

pub(super) async fn defer(
    store: &PostgresStore,
    memory: &NewMemory,
    correlation_id: &str,
    end: &AuditEnd,
) -> Result<DeferResult> {
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
    let rows = store.fetch("defer a memory", statement).await?;
    let row = rows::only(&rows)?;
    Ok(DeferResult {
        enqueued: enqueued_of(row)?,
        is_audited: rows::column(row, "audited")?,
    })
}

pub(super) async fn enqueue_memory(
    store: &PostgresStore,
    memory: &NewMemory,
) -> Result<EnqueuedMemory> {
    let statement = sqlx::query("SELECT * FROM logbook.put_memory($1, $2, $3)")
        .bind(&memory.target_space)
        .bind(&memory.payload_md)
        .bind(Json(memory.message().headers));
    enqueued_of(rows::only(
        &store.fetch("enqueue a memory", statement).await?,
    )?)
}

pub(super) async fn check_dedup(
    store: &PostgresStore,
    target_space: &str,
    payload_sha: &str,
    backend: Option<&str>,
) -> Result<Option<KnownMemory>> {
    let statement = sqlx::query("SELECT * FROM logbook.check_dedup($1, $2, $3)")
        .bind(target_space)
        .bind(payload_sha)
        .bind(backend);
    let rows = store.read("look for a stored memory", statement).await?;
    let found = |row| {
        Ok(KnownMemory {
            outbox_id: rows::column::<Option<i64>>(row, "outbox_id")?.map(MessageId),
            memory_id: rows::column(row, "memory_id")?,
        })
    };
    rows.first().map(found).transpose()
}

pub(super) async fn may_be_stored(
    store: &PostgresStore,
    target_space: &str,
    payload_sha: &str,
    backend: &str,
) -> Result<bool> {
    let statement = sqlx::query("SELECT logbook.may_be_stored($1, $2, $3) AS is_so")
        .bind(target_space)
        .bind(payload_sha)
        .bind(backend);
    let rows = store.read("look for a memory in doubt", statement).await?;
    rows::column(rows::only(&rows)?, "is_so")
}

pub(super) async fn outbox_row(
    store: &PostgresStore,
    outbox_id: MessageId,
) -> Result<Option<OutboxRow>> {
    let sql = "SELECT * FROM logbook.outbox_memory WHERE outbox_id = $1";
    let rows = store.read("read the outbox", sqlx::query(sql).bind(outbox_id.0));
    rows.await?.first().map(row_of).transpose()
}

pub(super) async fn outbox_rows(
    store: &PostgresStore,
    status: Option<OutboxStatus>,
    limit: u32,
) -> Result<Vec<OutboxRow>> {
    let sql = "SELECT * FROM logbook.outbox_memory WHERE $1::text IS NULL OR status = $1
                   ORDER BY outbox_id DESC LIMIT $2";
    let statement = sqlx::query(sql)
        .bind(status.map(OutboxStatus::as_str))
        .bind(at_most(limit));
    let rows = store.read("read the outbox", statement).await?;
    rows.iter().map(row_of).collect()
}

pub(super) async fn claim_outbox(
    store: &PostgresStore,
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
    let rows = store
        .fetch_as(Use::Claim, "claim memories", statement)
        .await?;
    rows.iter().map(row_of).collect()
}

pub(super) async fn ack_sent(
    store: &PostgresStore,
    outbox_id: MessageId,
    worker_id: &str,
    memory_id: Option<&str>,
) -> Result<bool> {
    let statement = sqlx::query("SELECT logbook.ack_sent($1, $2, $3) AS is_accepted")
        .bind(outbox_id.0)
        .bind(worker_id)
        .bind(memory_id);
    is_accepted(store, "acknowledge a memory", statement).await
}

pub(super) async fn fail_retry(
    store: &PostgresStore,
    outbox_id: MessageId,
    worker_id: &str,
    error: &str,
    next_attempt_at: Timestamp,
) -> Result<bool> {
    let statement = sqlx::query("SELECT logbook.fail_retry($1, $2, $3, $4) AS is_accepted")
        .bind(outbox_id.0)
        .bind(worker_id)
        .bind(error)
        .bind(next_attempt_at.to_sqlx());
    is_accepted(store, "defer a retry", statement).await
}

pub(super) async fn mark_dead(
    store: &PostgresStore,
    outbox_id: MessageId,
    worker_id: &str,
    error: &str,
) -> Result<bool> {
    let statement = sqlx::query("SELECT logbook.mark_dead_by_worker($1, $2, $3) AS is_accepted")
        .bind(outbox_id.0)
        .bind(worker_id)
        .bind(error);
    is_accepted(store, "mark a memory dead", statement).await
}

pub(super) async fn renew_lease(
    store: &PostgresStore,
    outbox_id: MessageId,
    worker_id: &str,
) -> Result<bool> {
    let statement = sqlx::query("SELECT logbook.renew_lease($1, $2) AS is_accepted")
        .bind(outbox_id.0)
        .bind(worker_id);
    is_accepted(store, "renew the lease of a memory", statement).await
}

async fn is_accepted(
    store: &PostgresStore,
    attempted: &'static str,
    statement: Statement<'_>,
) -> Result<bool> {
    let rows = store.fetch_as(Use::Lease, attempted, statement).await?;
    rows::column(rows::only(&rows)?, "is_accepted")
}

fn enqueued_of(row: &PgRow) -> Result<EnqueuedMemory> {
    let twin = match rows::column(row, "twin")? {
        None => None,
        Some("pending") => Some(Twin::Pending),
        Some("sent") => Some(Twin::Sent(rows::column(row, "memory_id")?)),
        Some("requeued") => Some(Twin::Requeued),
        Some(other) => return Err(rows::corrupt(format!("unknown twin {other:?}"))),
    };
    Ok(EnqueuedMemory {
        outbox_id: MessageId(rows::column(row, "outbox_id")?),
        twin,
    })
}

fn row_of(row: &PgRow) -> Result<OutboxRow> {
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
        erased_at: rows::optional_time(row, "erased_at")?,
    })
}
