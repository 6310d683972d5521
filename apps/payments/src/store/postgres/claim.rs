//! Claiming payments.

use std::time::Duration;

use consign_kernel::{Fence, Result, Token};
use consign_postgres::{
    PostgresStore,
    extension::{Use, rows},
};
use sqlx::{postgres::PgRow, types::Json};

use crate::{ClaimedPayment, ClaimedPayments, OutboxId, claim_of};

pub(super) async fn claim_payments(
    store: &PostgresStore,
    limit: u32,
    worker: &str,
    lease: Duration,
    begin: bool,
) -> Result<Option<ClaimedPayments>> {
    let claim = claim_of(limit, worker, lease)?;
    let seconds = claim.ttl.unwrap_or(lease).as_secs();
    let statement = sqlx::query(include_str!("sql/claim_payments.sql"))
        .bind(i32::try_from(limit).unwrap_or(i32::MAX))
        .bind(worker)
        .bind(i32::try_from(seconds).unwrap_or(i32::MAX))
        .bind(begin);
    let rows = store
        .fetch_as(Use::Claim, "claim payments", statement)
        .await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(ClaimedPayments {
        lease_token: Token(rows::column(first, "lease_token")?),
        fence: Fence(rows::column(first, "fence")?),
        lease_expires_at: rows::time(first, "lease_expires_at")?,
        payments: rows.iter().map(claimed).collect::<Result<_>>()?,
    }))
}

fn claimed(row: &PgRow) -> Result<ClaimedPayment> {
    let Json(payload) = rows::column(row, "payload")?;
    Ok(ClaimedPayment {
        outbox_id: OutboxId(rows::column(row, "outbox_id")?),
        instruction_id: rows::column(row, "instruction_id")?,
        participant_id: rows::column(row, "participant_id")?,
        sequence_id: rows::column(row, "sequence_id")?,
        idempotency_key: rows::column(row, "idempotency_key")?,
        rail_type: rows::column(row, "rail_type")?,
        tenant_id: rows::column(row, "tenant_id")?,
        payload,
        attempt_count: rows::number(row, "attempt_count")?,
        in_doubt: rows::column(row, "in_doubt")?,
    })
}
