//! Payments to compare with the rail's records.

use consign_kernel::{MessageId, Outcome};
use consign_sqlite::extension::{Failure, Result, late, rows};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::{
    rows::{ViewRow, one, outbox_id},
    sql,
};
use crate::{LateSuccess, Reconciliation, ReusedReference};

pub(super) async fn examine(
    connection: &mut SqliteConnection,
    now: Timestamp,
    limit: u32,
) -> Result<Reconciliation> {
    let mut found = Reconciliation {
        late_successes: late_successes(connection, now, limit).await?,
        reused_references: reused(connection, limit).await?,
        ..Reconciliation::default()
    };
    let uncertain = sqlx::query(sql!("payment_uncertain"))
        .bind(i64::from(limit) + 1)
        .fetch_all(&mut *connection)
        .await?;
    for row in &uncertain {
        found.uncertain.push(ViewRow::new(row)?.0);
    }
    let unreferenced: Vec<String> = sqlx::query_scalar(sql!("payment_unreferenced"))
        .bind(i64::from(limit) + 1)
        .fetch_all(&mut *connection)
        .await?;
    for id in unreferenced {
        found.missing_references.push(outbox_id(&id)?);
    }
    let limit = limit as usize;
    found.is_cut = cut(&mut found.late_successes, limit)
        | cut(&mut found.uncertain, limit)
        | cut(&mut found.missing_references, limit)
        | cut(&mut found.reused_references, limit);
    Ok(found)
}

/// Each query reads one more than is shown.
fn cut<T>(list: &mut Vec<T>, limit: usize) -> bool {
    let is_cut = list.len() > limit;
    list.truncate(limit);
    is_cut
}

async fn late_successes(
    connection: &mut SqliteConnection,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<LateSuccess>> {
    let found: Vec<(i64, String)> = sqlx::query_as(sql!("payment_late"))
        .bind(i64::from(limit) + 1)
        .fetch_all(&mut *connection)
        .await?;
    let mut late_successes = Vec::new();
    for (message_id, id) in found {
        let outbox_id = outbox_id(&id)?;
        let Some((view, _)) = one(connection, now, outbox_id).await? else {
            return Err(Failure::corrupt("a payment disappeared"));
        };
        for late in late(connection, MessageId(message_id)).await? {
            if late.outcome == Outcome::Delivered {
                late_successes.push(LateSuccess {
                    outbox_id,
                    state: view.state,
                    late,
                });
            }
        }
    }
    Ok(late_successes)
}

/// References that several payments share, one more than `limit`.
async fn reused(connection: &mut SqliteConnection, limit: u32) -> Result<Vec<ReusedReference>> {
    let found = reused_with_messages(connection, limit).await?;
    Ok(found.into_iter().map(|(reused, _)| reused).collect())
}

/// The same with the messages of those payments.
pub(super) async fn reused_with_messages(
    connection: &mut SqliteConnection,
    limit: u32,
) -> Result<Vec<(ReusedReference, Vec<MessageId>)>> {
    type Columns = (String, String, String, String, String);
    let found: Vec<Columns> = sqlx::query_as(sql!("payment_reused"))
        .bind(i64::from(limit) + 1)
        .fetch_all(connection)
        .await?;
    let one = |(participant_id, rail_type, rail_reference, ids, messages): Columns| {
        let reused = ReusedReference {
            participant_id,
            rail_type,
            rail_reference,
            outbox_ids: rows::document(&ids)?,
        };
        Ok((reused, rows::document(&messages)?))
    };
    found.into_iter().map(one).collect()
}
