//! Payments and their messages belong together, numbers have no gaps, references name one payment.

use consign_kernel::MessageId;
use sqlx::SqliteConnection;

use super::{Report, SHOWN_MAX};
use crate::{
    error::Result,
    payments::{reused_with_messages, unreferenced},
    sql,
};

pub(super) async fn examine(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let torn: Vec<(i64, String)> = sqlx::query_as(sql!("doctor_payments"))
        .fetch_all(&mut *connection)
        .await?;
    for (id, has) in torn {
        let what = match has.as_str() {
            "message" => format!("message {id} of lane payments has no payment beside it"),
            _ => format!("the payment of message {id} has no message in lane payments"),
        };
        let remedy = "restore payment and message from the same backup";
        report.add("payment_torn", what, remedy, Some(MessageId(id)));
    }
    let gaps: Vec<(String, i64, i64, i64)> = sqlx::query_as(sql!("doctor_payment_sequences"))
        .fetch_all(&mut *connection)
        .await?;
    for (participant, count, last, next) in gaps {
        report.add(
            "payment_sequence",
            format!(
                "participant {participant} has {count} payments, the last is number {last}, the \
                 next would be {next}"
            ),
            "find out which payment is missing, and whether the participant has it; restore it \
             from a backup",
            None,
        );
    }
    let shown = u32::try_from(SHOWN_MAX).unwrap_or(u32::MAX);
    for (message_id, outbox_id) in unreferenced(connection, shown).await? {
        report.add(
            "payment_unreferenced",
            format!("payment {outbox_id} was dispatched, nobody knows under which reference"),
            "look it up in the rail's books by its outbox_id, and keep what is found",
            Some(message_id),
        );
    }
    for (reused, messages) in reused_with_messages(connection, shown).await? {
        let (reference, participant) = (reused.rail_reference, reused.participant_id);
        report.add(
            "payment_reference_reused",
            format!(
                "{} payments of {participant} have the reference {reference}",
                messages.len()
            ),
            "look the payments up in the rail's books by their outbox_id: one of them may not have \
             been made",
            messages,
        );
    }
    Ok(())
}
