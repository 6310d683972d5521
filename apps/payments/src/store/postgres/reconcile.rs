//! Payments to compare with the rail's records.

use consign_kernel::{Result, StateKind};
use consign_postgres::{
    PostgresStore,
    extension::{self, Use, rows},
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::read::view;
use crate::{LateSuccess, OutboxId, Reconciliation, ReusedReference};

pub(super) async fn reconcile(store: &PostgresStore, limit: u32) -> Result<Reconciliation> {
    let mut found = Reconciliation {
        late_successes: each(store, include_str!("sql/payment_late.sql"), limit, late).await?,
        uncertain: each(
            store,
            include_str!("sql/payment_uncertain.sql"),
            limit,
            view,
        )
        .await?,
        missing_references: each(
            store,
            include_str!("sql/payment_unreferenced.sql"),
            limit,
            |row| Ok(OutboxId(rows::column(row, "outbox_id")?)),
        )
        .await?,
        reused_references: each(store, include_str!("sql/payment_reused.sql"), limit, reused)
            .await?,
        is_cut: false,
    };
    let limit = limit as usize;
    found.is_cut = cut(&mut found.late_successes, limit)
        | cut(&mut found.uncertain, limit)
        | cut(&mut found.missing_references, limit)
        | cut(&mut found.reused_references, limit);
    Ok(found)
}

/// One more than is shown, to detect a cut.
async fn each<T>(
    store: &PostgresStore,
    sql: &'static str,
    limit: u32,
    read: fn(&PgRow) -> Result<T>,
) -> Result<Vec<T>> {
    let statement = sqlx::query(sql).bind(i64::from(limit) + 1);
    let rows = store
        .fetch_as(Use::Report, "reconcile payments", statement)
        .await?;
    rows.iter().map(read).collect()
}

fn cut<T>(list: &mut Vec<T>, limit: usize) -> bool {
    let is_cut = list.len() > limit;
    list.truncate(limit);
    is_cut
}

fn late(row: &PgRow) -> Result<LateSuccess> {
    let message_state: StateKind = rows::column::<&str>(row, "message_state")?.parse()?;
    Ok(LateSuccess {
        outbox_id: OutboxId(rows::column(row, "outbox_id")?),
        state: message_state.into(),
        late: extension::late(row)?,
    })
}

fn reused(row: &PgRow) -> Result<ReusedReference> {
    let ids: Vec<Uuid> = rows::column(row, "outbox_ids")?;
    Ok(ReusedReference {
        participant_id: rows::column(row, "participant_id")?,
        rail_type: rows::column(row, "rail_type")?,
        rail_reference: rows::column(row, "rail_reference")?,
        outbox_ids: ids.into_iter().map(OutboxId).collect(),
    })
}
