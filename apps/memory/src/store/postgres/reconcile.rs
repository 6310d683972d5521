//! Reconciliation and counts of the outbox and its audits.

use crate::{Finding, MemoryCounts, OutboxCounts, ReconcileOptions, ReconcileOutcome};
use consign_kernel::Result;
use sqlx::types::Json;

use consign_postgres::{
    PostgresStore,
    extension::{Use, rows},
};

pub(super) async fn reconcile_memory(
    store: &PostgresStore,
    options: &ReconcileOptions,
) -> Result<ReconcileOutcome> {
    let sql = "SELECT * FROM logbook.reconcile_outbox($1, $2, $3, $4, $5, $6, $7)";
    let statement = sqlx::query(sql)
        .bind(rows::interval(options.scan_window))
        .bind(i32::try_from(options.batch).unwrap_or(i32::MAX))
        .bind(rows::interval(options.stale_after))
        .bind(rows::interval(options.audit_timeout))
        .bind(options.is_repairing)
        .bind(options.is_rescheduling)
        .bind(rows::interval(options.reschedule_delay));
    let rows = store
        .fetch_as(Use::Report, "reconcile the outbox", statement)
        .await?;
    let row = rows::only(&rows)?;
    let Json(findings): Json<Vec<Finding>> = rows::column(row, "findings")?;
    Ok(ReconcileOutcome {
        sent_count: rows::count(row, "sent_count")?,
        dead_count: rows::count(row, "dead_count")?,
        stale_count: rows::count(row, "stale_count")?,
        findings,
        has_more: rows::column(row, "has_more")?,
    })
}

pub(super) async fn outbox_counts(store: &PostgresStore) -> Result<OutboxCounts> {
    let statement = sqlx::query("SELECT * FROM logbook.outbox_counts()");
    let rows = store
        .read_as(Use::Report, "count the outbox", statement)
        .await?;
    let row = rows::only(&rows)?;
    Ok(OutboxCounts {
        pending: rows::count(row, "pending")?,
        sent: rows::count(row, "sent")?,
        dead: rows::count(row, "dead")?,
        pending_audits: rows::count(row, "pending_audits")?,
    })
}

pub(super) async fn memory_counts(store: &PostgresStore) -> Result<MemoryCounts> {
    let statement = sqlx::query("SELECT logbook.memory_counts() AS counts");
    let rows = store
        .read_as(Use::Report, "count memories", statement)
        .await?;
    let Json(counts) = rows::column(rows::only(&rows)?, "counts")?;
    Ok(counts)
}
