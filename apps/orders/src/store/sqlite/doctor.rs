//! Checks that the ledger agrees with the messages.

use consign_kernel::MessageId;
use consign_sqlite::extension::{Findings, Result};
use sqlx::SqliteConnection;

use super::sql;

pub(super) async fn examine(
    connection: &mut SqliteConnection,
    report: &mut Findings,
) -> Result<()> {
    let found: Vec<(i64, Option<String>, String)> = sqlx::query_as(sql!("doctor_orders"))
        .fetch_all(&mut *connection)
        .await?;
    for (id, status, expected) in found {
        let message = Some(MessageId(id));
        match status {
            Some(status) => report.add(
                "order_disagrees",
                format!("the ledger has the order of message {id} as {status}; expected {expected}"),
                format!(
                    "run `consign show {id}`, check the order's state at the broker, then set \
                     status, http_status and response_payload_json in idempo_ledger for outbox_id \
                     {id}"
                ),
                message,
            ),
            None => report.add(
                "order_not_in_ledger",
                format!("message {id} of queue orders has no row in the ledger"),
                "restore idempo_ledger from a backup; if the order is not genuine, do nothing: the worker \
                 does not send it",
                message,
            ),
        }
    }
    let orphans: Vec<(String, String, i64)> = sqlx::query_as(sql!("doctor_ledger"))
        .fetch_all(&mut *connection)
        .await?;
    for (client, key, id) in orphans {
        report.add(
            "order_message_missing",
            format!(
                "the ledger row of {client}/{key} refers to message {id}, which does not exist"
            ),
            "restore message from a backup, or delete the row, which frees its key",
            Some(MessageId(id)),
        );
    }
    Ok(())
}
