//! Reading payments.

use std::collections::BTreeMap;

use consign_kernel::{
    Cursor, Fence, MessageId, PAGE_ENTRIES_MAX, Page, Payload, Result, StateKind,
};
use consign_postgres::{
    PostgresStore,
    extension::{Use, holds_nul, rows},
};
use sqlx::{postgres::PgRow, types::Json};
use uuid::Uuid;

use super::complete::attempt_state;
use crate::{InFlight, OutboxId, PaymentFilter, PaymentState, PaymentView, PaymentsStatus};

pub(super) async fn payment(
    store: &PostgresStore,
    id: OutboxId,
) -> Result<Option<(PaymentView, Payload)>> {
    let statement = sqlx::query(include_str!("sql/payment_get.sql")).bind(id.0);
    let rows = store.read("read a payment", statement).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let Json(payload) = rows::column(row, "payload")?;
    Ok(Some((view(row)?, payload)))
}

pub(super) async fn payments(
    store: &PostgresStore,
    filter: &PaymentFilter,
    before: Option<Cursor>,
    limit: u32,
) -> Result<Page<PaymentView>> {
    let limit = limit.min(PAGE_ENTRIES_MAX);
    let texts = [&filter.participant_id, &filter.instruction_id];
    if texts.into_iter().any(holds_nul) {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    }
    let statement = match filter.instruction_id {
        Some(_) => include_str!("sql/payment_list_instruction.sql"),
        None => include_str!("sql/payment_list.sql"),
    };
    let statement = sqlx::query(statement)
        .bind(before.map_or(i64::MAX, |before| before.0))
        .bind(i64::from(limit) + 1)
        .bind(filter.tenant_id)
        .bind(filter.participant_id.as_deref())
        .bind(filter.instruction_id.as_deref())
        .bind(filter.state.map(places));
    let rows = store.read("list payments", statement).await?;
    let shown = rows.iter().take(limit as usize);
    let items = shown.map(view).collect::<Result<Vec<_>>>()?;
    let has_more = rows.len() > items.len();
    let last = items.last().filter(|_| has_more);
    Ok(Page {
        next: last.map(|view| view.message_id),
        items,
    })
}

pub(super) async fn payment_messages(
    store: &PostgresStore,
    ids: &[OutboxId],
) -> Result<Vec<Option<MessageId>>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let statement = sqlx::query(include_str!("sql/payment_messages.sql")).bind(ids);
    let rows = store.read("find payments", statement).await?;
    let message = |row| {
        let id: Option<i64> = rows::column(row, "message_id")?;
        Ok(id.map(MessageId))
    };
    rows.iter().map(message).collect()
}

pub(super) async fn in_flight(store: &PostgresStore, limit: u32) -> Result<Vec<InFlight>> {
    let statement = sqlx::query(include_str!("sql/payment_in_flight.sql"))
        .bind(i64::from(limit.min(PAGE_ENTRIES_MAX)));
    let rows = store.read("list payments in leases", statement).await?;
    let in_flight = |row| {
        Ok(InFlight {
            outbox_id: OutboxId(rows::column(row, "outbox_id")?),
            claimed_by: rows::column(row, "owner")?,
            fence: Fence(rows::column(row, "fence")?),
            claimed_at: rows::time(row, "claimed_at")?,
            lease_expires_at: rows::time(row, "expires_at")?,
            is_expired: rows::column(row, "is_expired")?,
            has_begun: rows::column(row, "has_begun")?,
        })
    };
    rows.iter().map(in_flight).collect()
}

pub(super) async fn payments_status(
    store: &PostgresStore,
    tenant_id: Option<Uuid>,
) -> Result<PaymentsStatus> {
    let statement = sqlx::query(include_str!("sql/payment_status.sql")).bind(tenant_id);
    let rows = store
        .read_as(Use::Report, "count payments", statement)
        .await?;
    let row = rows
        .first()
        .ok_or_else(|| rows::corrupt("the status of payments has no row"))?;
    let histogram: Vec<i64> = rows::column(row, "histogram")?;
    let histogram: Vec<u64> = histogram.into_iter().map(i64::unsigned_abs).collect();
    let histogram = histogram.try_into();
    let statement = sqlx::query(include_str!("sql/payment_last_hour.sql")).bind(tenant_id);
    let hour = store
        .read_as(Use::Report, "count attempts of payments", statement)
        .await?;
    let mut last_hour = BTreeMap::new();
    for row in &hour {
        last_hour.insert(attempt_state(row)?, rows::count(row, "count")?);
    }
    Ok(PaymentsStatus {
        pending: rows::count(row, "pending")?,
        due: rows::count(row, "due")?,
        scheduled: rows::count(row, "scheduled")?,
        waiting: rows::count(row, "waiting")?,
        leased: rows::count(row, "leased")?,
        expired: rows::count(row, "expired")?,
        held: rows::count(row, "held")?,
        failed: rows::count(row, "failed")?,
        attempts_histogram: histogram
            .map_err(|_| rows::corrupt("the histogram of payments has another length"))?,
        oldest_pending_at: rows::optional_time(row, "oldest_pending_at")?,
        last_hour,
    })
}

/// The message states of a payment state.
fn places(state: PaymentState) -> Vec<&'static str> {
    let fits = |kind: &StateKind| PaymentState::from(*kind) == state;
    let kinds = StateKind::ALL.into_iter().filter(fits);
    kinds.map(StateKind::as_str).collect()
}

/// A payment and its message's state, as in `payment_get.sql`.
pub(super) fn view(row: &PgRow) -> Result<PaymentView> {
    let message_state: StateKind = rows::column::<&str>(row, "message_state")?.parse()?;
    let due_at = rows::optional_time(row, "due_at")?;
    Ok(PaymentView {
        outbox_id: OutboxId(rows::column(row, "outbox_id")?),
        message_id: MessageId(rows::column(row, "message_id")?),
        instruction_id: rows::column(row, "instruction_id")?,
        idempotency_key: rows::column(row, "idempotency_key")?,
        participant_id: rows::column(row, "participant_id")?,
        sequence_id: rows::column(row, "sequence_id")?,
        rail_type: rows::column(row, "rail_type")?,
        tenant_id: rows::column(row, "tenant_id")?,
        correlation_id: rows::column(row, "correlation_id")?,
        created_at: rows::time(row, "created_at")?,
        state: message_state.into(),
        message_state,
        attempt_count: rows::number(row, "attempts")?,
        // A waiting message becomes due when it is promoted.
        next_attempt_at: due_at.filter(|_| message_state == StateKind::Ready),
        claimed_by: rows::column(row, "owner")?,
        lease_expires_at: rows::optional_time(row, "expires_at")?,
        reason: rows::column(row, "reason")?,
        erased_at: rows::optional_time(row, "erased_at")?,
    })
}
