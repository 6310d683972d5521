//! Enqueues payments, in the caller's transaction or in its own.

use consign_kernel::Result;
use consign_postgres::{
    PostgresStore,
    extension::{Statement, rows, store_error},
};
use sqlx::{PgConnection, postgres::PgRow, types::Json};

use crate::{EnqueueAnswer, NewPayment, OutboxId, PaymentReceipt};

/// Fields in which a repeated payment can differ.
const FIELDS: [&str; 4] = ["participant_id", "rail_type", "payload", "kyc_hold"];

/// Enqueues payments inside the caller's own transaction, like
/// [`enqueue_in`](consign_postgres::enqueue_in) for messages.
pub async fn enqueue_payments_in(
    connection: &mut PgConnection,
    payments: &[NewPayment],
) -> Result<Vec<EnqueueAnswer>> {
    let statement = statement(payments)?.persistent(false);
    let rows = statement.fetch_all(connection).await;
    answers(&rows.map_err(|error| store_error("enqueue payments", error))?)
}

pub(super) async fn enqueue_payments(
    store: &PostgresStore,
    payments: &[NewPayment],
) -> Result<Vec<EnqueueAnswer>> {
    answers(
        &store
            .fetch("enqueue payments", statement(payments)?)
            .await?,
    )
}

fn statement(payments: &[NewPayment]) -> Result<Statement<'_>> {
    for payment in payments {
        payment.validate()?;
    }
    let texts = |text: fn(&NewPayment) -> &str| payments.iter().map(text).collect::<Vec<_>>();
    Ok(sqlx::query(include_str!("sql/enqueue_payments.sql"))
        .bind(texts(|payment| &payment.instruction_id))
        .bind(texts(|payment| &payment.participant_id))
        .bind(texts(|payment| &payment.idempotency_key))
        .bind(texts(|payment| &payment.rail_type))
        .bind(
            payments
                .iter()
                .map(|p| Json(&p.payload))
                .collect::<Vec<_>>(),
        )
        .bind(payments.iter().map(|p| p.tenant_id).collect::<Vec<_>>())
        .bind(
            payments
                .iter()
                .map(|p| p.correlation_id)
                .collect::<Vec<_>>(),
        )
        .bind(payments.iter().map(|p| p.kyc_hold).collect::<Vec<_>>())
        .bind(
            payments
                .iter()
                .map(|p| Json(&p.headers))
                .collect::<Vec<_>>(),
        ))
}

fn answers(rows: &[PgRow]) -> Result<Vec<EnqueueAnswer>> {
    rows.iter().map(answer).collect()
}

fn answer(row: &PgRow) -> Result<EnqueueAnswer> {
    let conflict: Option<&str> = rows::column(row, "conflict")?;
    if let Some(word) = conflict {
        let field = FIELDS.into_iter().find(|field| *field == word);
        let field =
            field.ok_or_else(|| rows::corrupt(format!("unknown conflict field {word:?}")))?;
        let outbox_id = OutboxId(rows::column(row, "outbox_id")?);
        return Ok(EnqueueAnswer::Conflict { outbox_id, field });
    }
    Ok(EnqueueAnswer::Enqueued(PaymentReceipt {
        outbox_id: OutboxId(rows::column(row, "outbox_id")?),
        sequence_id: rows::column(row, "sequence_id")?,
        created_at: rows::time(row, "created_at")?,
        state: rows::column::<&str>(row, "state")?.parse()?,
        duplicate: rows::column(row, "duplicate")?,
    }))
}
