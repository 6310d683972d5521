//! The ledger says of every order what became of its message.

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
    for (id, says, is_so) in found {
        let message = Some(MessageId(id));
        match says {
            Some(says) => report.add(
                "order_disagrees",
                format!("the ledger says {says} of the order of message {id}, which should be {is_so}"),
                format!(
                    "look at `consign show {id}` and ask the broker what became of it, then set \
                     status, http_status and response_payload_json in idempo_ledger for outbox_id \
                     {id}"
                ),
                message,
            ),
            None => report.add(
                "order_not_in_ledger",
                format!("message {id} of queue orders has no row in the ledger"),
                "restore idempo_ledger from a backup; if nobody ordered it, leave it to the worker, \
                 which does not send it",
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
            format!("the ledger's row of {client}/{key} is for message {id}, which does not exist"),
            "restore message from a backup, or delete the row: its key is free then",
            Some(MessageId(id)),
        );
    }
    Ok(())
}
