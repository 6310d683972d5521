//! Checks that payments agree with their messages, sequences have no gaps, references are unique,
//! and no payment waits for an operator.

use std::time::Duration;

use consign_kernel::MessageId;
use consign_sqlite::extension::{Findings, Result, SHOWN_MAX, rows};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::{reconcile::reused_with_messages, sql};

/// A lease that expired this long ago means that no worker runs: workers claim every second or so.
const GRACE: Duration = Duration::from_secs(60);

pub(super) async fn examine(
    connection: &mut SqliteConnection,
    now: Timestamp,
    report: &mut Findings,
) -> Result<()> {
    check_rows(connection, report).await?;
    check_references(connection, report).await?;
    check_alarms(connection, now, report).await
}

async fn check_rows(connection: &mut SqliteConnection, report: &mut Findings) -> Result<()> {
    let torn: Vec<(String, i64)> = sqlx::query_as(sql!("doctor_payments"))
        .fetch_all(&mut *connection)
        .await?;
    for (code, id) in torn {
        let message = Some(MessageId(id));
        match code.as_str() {
            "message_without_payment" => report.add(
                "message_without_payment",
                format!("message {id} of queue payments has no row in payment"),
                "restore payment from a backup; find out what writes to message without consign",
                message,
            ),
            "payment_without_message" => report.add(
                "payment_without_message",
                format!("the payment of message {id} has no message and is never dispatched"),
                "restore message from a backup",
                message,
            ),
            _ => report.add(
                "payment_dispatched_twice",
                format!("the payment of message {id} was dispatched more than once"),
                "check at the rail whether it was paid twice; nothing can be repaired here; report this as a defect",
                message,
            ),
        }
    }
    let gaps: Vec<(String, i64, i64, i64)> = sqlx::query_as(sql!("doctor_payment_sequences"))
        .fetch_all(&mut *connection)
        .await?;
    for (participant, count, last, next) in gaps {
        report.add(
            "payment_sequence_gap",
            format!(
                "participant {participant} has {count} payments, the last sequence number is {last}, the \
                 next is {next}"
            ),
            "restore payment from a backup, then set next_sequence_id one above the last number",
            None,
        );
    }
    Ok(())
}

async fn check_references(connection: &mut SqliteConnection, report: &mut Findings) -> Result<()> {
    let shown = u32::try_from(SHOWN_MAX).unwrap_or(u32::MAX);
    for (reused, messages) in reused_with_messages(connection, shown).await? {
        let (reference, participant) = (reused.rail_reference, reused.participant_id);
        report.add(
            "rail_reference_reused",
            format!(
                "{} payments of {participant} share the reference {reference}",
                messages.len()
            ),
            "compare these payments with the rail's records: one of them may not have been paid; \
             `consign payments reconcile`",
            messages,
        );
    }
    Ok(())
}

/// Findings without damage: money may have moved, or may not move.
async fn check_alarms(
    connection: &mut SqliteConnection,
    now: Timestamp,
    report: &mut Findings,
) -> Result<()> {
    let long_ago = rows::micros(now).saturating_sub(GRACE.as_micros() as i64);
    let alarms: Vec<(String, i64)> = sqlx::query_as(sql!("doctor_payment_alarms"))
        .bind(long_ago)
        .fetch_all(connection)
        .await?;
    for (code, id) in alarms {
        let message = Some(MessageId(id));
        match code.as_str() {
            "payment_lease_expired" => report.add(
                "payment_lease_expired",
                format!("the payment of message {id} is in a lease that expired over a minute ago"),
                "start a worker, or run `consign payments repair`: no claim has run since",
                message,
            ),
            "payment_late_unconfirmed" => report.add(
                "payment_late_unconfirmed",
                format!(
                    "the rail accepted the payment of message {id} in a lost lease, and \
                     no recorded attempt shows it"
                ),
                "compare with the rail's records: it may be paid, or paid twice; `consign \
                 payments reconcile`",
                message,
            ),
            _ => report.add(
                "payment_failed_in_doubt",
                format!("the payment of message {id} has failed, though the rail may have it"),
                "look it up at the rail by its outbox_id; `consign payments requeue` queries the rail before \
                 it sends",
                message,
            ),
        }
    }
    Ok(())
}
