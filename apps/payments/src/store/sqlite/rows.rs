//! Reading payments.

use std::{collections::BTreeMap, time::Duration};

use consign_kernel::{
    AttemptOutcome, Cursor, Fence, MessageId, PAGE_ENTRIES_MAX, Page, Payload, State, StateKind,
    codes,
};
use consign_sqlite::extension::{Failure, Result, explain, rows};
use jiff::Timestamp;
use sqlx::{FromRow, Row, SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use super::sql;
use crate::{
    AttemptState, InFlight, OutboxId, PaymentFilter, PaymentState, PaymentView, PaymentsStatus,
    RETRY_CEILING_EXCEEDED, StoredPayment,
};

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) fn outbox_id(text: &str) -> Result<OutboxId> {
    Ok(OutboxId(uuid(text)?))
}

fn uuid(text: &str) -> Result<Uuid> {
    let id = Uuid::parse_str(text);
    id.map_err(|_| Failure::corrupt(format!("{text:?} is not a UUID")))
}

/// A payment and its message's state, as in `payment_get.sql`.
pub(super) struct ViewRow(pub(super) PaymentView);

impl ViewRow {
    pub(super) fn new(row: &SqliteRow) -> Result<Self> {
        let text = |name: &str| row.try_get::<String, _>(name);
        let id = |name: &str| -> Result<Option<Uuid>> {
            let text: Option<String> = row.try_get(name)?;
            text.as_deref().map(uuid).transpose()
        };
        let time = |name: &str| -> Result<Option<Timestamp>> {
            let micros: Option<i64> = row.try_get(name)?;
            micros.map(rows::timestamp).transpose()
        };
        let message_state: StateKind = text("message_state")?
            .parse()
            .map_err(|error| Failure::corrupt(format!("{error}")))?;
        Ok(Self(PaymentView {
            outbox_id: outbox_id(&text("outbox_id")?)?,
            message_id: MessageId(row.try_get("message_id")?),
            instruction_id: text("instruction_id")?,
            idempotency_key: text("idempotency_key")?,
            participant_id: text("participant_id")?,
            sequence_id: row.try_get("sequence_id")?,
            rail_type: text("rail_type")?,
            tenant_id: id("tenant_id")?,
            correlation_id: id("correlation_id")?,
            created_at: rows::timestamp(row.try_get("created_at")?)?,
            state: message_state.into(),
            message_state,
            attempt_count: rows::count(row.try_get("attempts")?)?,
            // A waiting message becomes due when it is promoted.
            next_attempt_at: time("due_at")?.filter(|_| message_state == StateKind::Ready),
            claimed_by: row.try_get("owner")?,
            lease_expires_at: time("expires_at")?,
            reason: row.try_get("reason")?,
            erased_at: time("erased_at")?,
        }))
    }
}

/// One payment. The fast path is for finished ones, which are most reads.
pub(super) async fn one(
    connection: &mut SqliteConnection,
    now: Timestamp,
    id: OutboxId,
) -> Result<Option<(PaymentView, Payload)>> {
    let found = sqlx::query(sql!("payment_get"))
        .bind(id.to_string())
        .fetch_optional(&mut *connection)
        .await?;
    let Some(row) = found else {
        return Ok(None);
    };
    let ViewRow(mut view) = ViewRow::new(&row)?;
    // A payment whose message has left is kept for its key only.
    let Some(story) = explain(connection, now, view.message_id).await? else {
        return Ok(None);
    };
    view.message_state = story.state.kind();
    view.state = view.message_state.into();
    view.attempt_count = story.attempts;
    match story.state {
        State::Ready { due_at } => view.next_attempt_at = Some(due_at),
        State::Leased {
            owner, expires_at, ..
        } => {
            view.claimed_by = Some(owner);
            view.lease_expires_at = Some(expires_at);
        }
        State::Held { reason, .. } => view.reason = Some(reason),
        State::Dead { code, .. } => {
            let is_rejected = story
                .last_attempt
                .is_none_or(|last| last.outcome == AttemptOutcome::Dead);
            let is_decided = is_rejected || code == codes::RESOLVED;
            let ceiling = || RETRY_CEILING_EXCEEDED.to_owned();
            view.reason = Some(if is_decided { code } else { ceiling() });
        }
        State::Waiting { .. } | State::Delivered { .. } | State::Discarded { .. } => {}
    }
    if let Some(erased) = story.erased {
        view.erased_at = Some(erased.at);
        let left: String = sqlx::query_scalar(sql!("payment_erased"))
            .bind(view.message_id.0)
            .fetch_one(connection)
            .await?;
        return Ok(Some((view, rows::payload(&left)?)));
    }
    let stored = StoredPayment::read(&story.message.payload);
    let stored =
        stored.map_err(|error| Failure::corrupt(format!("payment {id} is unreadable: {error}")))?;
    Ok(Some((view, stored.payload)))
}

pub(super) async fn list(
    connection: &mut SqliteConnection,
    filter: &PaymentFilter,
    before: Option<Cursor>,
    limit: u32,
) -> Result<Page<PaymentView>> {
    let limit = limit.min(PAGE_ENTRIES_MAX);
    let places = filter.state.map(|state| rows::json(&places(state)));
    let statement = match filter.instruction_id {
        Some(_) => sql!("payment_list_instruction"),
        None => sql!("payment_list"),
    };
    let found = sqlx::query(statement)
        .bind(before.map_or(i64::MAX, |before| before.0))
        .bind(i64::from(limit) + 1)
        .bind(filter.tenant_id.map(|id| id.to_string()))
        .bind(&filter.participant_id)
        .bind(&filter.instruction_id)
        .bind(places)
        .fetch_all(connection)
        .await?;
    let has_more = found.len() > limit as usize;
    let mut items = Vec::with_capacity(found.len());
    for row in found.iter().take(limit as usize) {
        items.push(ViewRow::new(row)?.0);
    }
    let last = items.last().filter(|_| has_more);
    Ok(Page {
        next: last.map(|view| view.message_id),
        items,
    })
}

/// The message states of a payment state.
fn places(state: PaymentState) -> Vec<&'static str> {
    let fits = |kind: &StateKind| PaymentState::from(*kind) == state;
    let kinds = StateKind::ALL.into_iter().filter(fits);
    kinds.map(StateKind::as_str).collect()
}

pub(super) async fn messages(
    connection: &mut SqliteConnection,
    ids: &[OutboxId],
) -> Result<Vec<Option<MessageId>>> {
    let found: Vec<(i64, i64)> = sqlx::query_as(sql!("payment_messages"))
        .bind(rows::json(&ids))
        .fetch_all(connection)
        .await?;
    let mut messages = vec![None; ids.len()];
    for (index, id) in found {
        messages[index as usize] = Some(MessageId(id));
    }
    Ok(messages)
}

pub(super) async fn in_flight(
    connection: &mut SqliteConnection,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<InFlight>> {
    type Columns = (String, String, i64, i64, i64, bool);
    let found: Vec<Columns> = sqlx::query_as(sql!("payment_in_flight"))
        .bind(limit)
        .fetch_all(connection)
        .await?;
    let one = |(id, claimed_by, fence, claimed_at, expires_at, has_begun): Columns| {
        let lease_expires_at = rows::timestamp(expires_at)?;
        Ok(InFlight {
            outbox_id: outbox_id(&id)?,
            claimed_by,
            fence: Fence(fence),
            claimed_at: rows::timestamp(claimed_at)?,
            lease_expires_at,
            is_expired: lease_expires_at <= now,
            has_begun,
        })
    };
    found.into_iter().map(one).collect()
}

pub(super) async fn status(
    connection: &mut SqliteConnection,
    now: Timestamp,
    tenant_id: Option<Uuid>,
) -> Result<PaymentsStatus> {
    type Columns = (i64, i64, i64, i64, i64, i64, i64, i64, String, Option<i64>);
    let tenant = tenant_id.map(|id| id.to_string());
    let row = sqlx::query(sql!("payment_status"))
        .bind(rows::micros(now))
        .bind(&tenant)
        .fetch_one(&mut *connection)
        .await?;
    let (pending, due, scheduled, waiting, leased, expired, held, failed, histogram, oldest) =
        Columns::from_row(&row)?;
    let since = rows::micros(now).saturating_sub(HOUR.as_micros() as i64);
    let states: Vec<(String, i64)> = sqlx::query_as(sql!("payment_last_hour"))
        .bind(since)
        .bind(&tenant)
        .fetch_all(&mut *connection)
        .await?;
    let mut last_hour = BTreeMap::new();
    for (word, count) in states {
        let state = AttemptState::ALL.into_iter().find(|s| s.as_str() == word);
        let state =
            state.ok_or_else(|| Failure::corrupt(format!("unknown attempt state {word:?}")))?;
        last_hour.insert(state, count.unsigned_abs());
    }
    Ok(PaymentsStatus {
        pending: pending.unsigned_abs(),
        due: due.unsigned_abs(),
        scheduled: scheduled.unsigned_abs(),
        waiting: waiting.unsigned_abs(),
        leased: leased.unsigned_abs(),
        expired: expired.unsigned_abs(),
        held: held.unsigned_abs(),
        failed: failed.unsigned_abs(),
        attempts_histogram: rows::document(&histogram)?,
        oldest_pending_at: oldest.map(rows::timestamp).transpose()?,
        last_hour,
    })
}
