//! What has left, and what is leaving.

use consign_kernel::MessageId;
use sqlx::SqliteConnection;

use super::Report;
use crate::{error::Result, sql};

pub(super) async fn examine(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    check_former_keys(connection, report).await?;
    check_departures(connection, report).await?;
    check_erasures(connection, report).await
}

/// An erased message is final, and its content is gone.
async fn check_erasures(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let found: Vec<i64> = sqlx::query_scalar(sql!("doctor_erasures"))
        .fetch_all(connection)
        .await?;
    for id in found {
        report.add(
            "erasure",
            format!("message {id} was erased, but has content or is not final"),
            format!(
                "find out what wrote it; then UPDATE message SET payload = 'null', headers = '{{}}' WHERE \
                 id = {id}, and SET detail = NULL, result = NULL in attempt and late"
            ),
            Some(MessageId(id)),
        );
    }
    Ok(())
}

/// A key of a message that has left must not be in the store as well.
async fn check_former_keys(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let found: Vec<(i64, String, String)> = sqlx::query_as(sql!("doctor_former_keys"))
        .fetch_all(connection)
        .await?;
    for (id, queue, key) in found {
        report.add(
            "former_key",
            format!(
                "key {key:?} of queue {queue} is kept as the key of a message that has left, but \
                 message {id} is in the store"
            ),
            "delete the row of `former_key` with this queue and key",
            Some(MessageId(id)),
        );
    }
    Ok(())
}

/// One departure at a time removes the messages of a window.
async fn check_departures(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let found: Vec<(i64, i64, i64, i64)> = sqlx::query_as(sql!("doctor_departures"))
        .fetch_all(connection)
        .await?;
    for (id, earlier, first, last) in found {
        report.add(
            "departure",
            format!(
                "departure {id} is about messages {first} to {last}, of which departure {earlier} \
                 is under way"
            ),
            format!(
                "stop the maintenance; if departure {id} is not `leaving`: DELETE FROM departure \
                 WHERE id = {id}"
            ),
            None,
        );
    }
    Ok(())
}
