//! Checks that the outbox of memories agrees with its audits.

use crate::setting_for;
use consign_kernel::{MessageId, NewMessage, Payload, QueueName};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sqlx::SqliteConnection;

use crate::store::sqlite::{counts::unreadable, outbox::check_memory, sql};
use consign_sqlite::extension::{Findings as Report, SHOWN_MAX};
use consign_sqlite::extension::{Result, rows};

/// Memories per page.
const PAGE: i64 = 500;

/// How long an audit may be pending before `consign reconcile` ends it.
const AUDIT_TIMEOUT: SignedDuration = SignedDuration::from_hours(2);

pub(super) async fn examine(
    connection: &mut SqliteConnection,
    now: Timestamp,
    report: &mut Report,
) -> Result<()> {
    examine_texts(connection, report).await?;
    examine_audits(connection, report).await?;
    let unreadable = unreadable(connection).await?;
    if let Some(first) = unreadable.first() {
        report.add(
            "memory_evidence_unreadable",
            format!(
                "{} audits have evidence with an unreadable URI; the first is audit {}: {:?}",
                unreadable.len(),
                first.audit_id,
                first.uri
            ),
            "find out what wrote it: the gateway rejects such references",
            None,
        );
    }
    examine_backends(connection, report).await?;
    let before = rows::micros(now) - AUDIT_TIMEOUT.as_micros() as i64;
    let (count, first): (i64, Option<i64>) = sqlx::query_as(sql!("doctor_memory_hanging"))
        .bind(before)
        .fetch_one(&mut *connection)
        .await?;
    if let Some(first) = first {
        report.add(
            "memory_audit_hanging",
            format!("{count} audits have been pending for over two hours, since audit {first}"),
            "run `consign reconcile`, which ends them as failed",
            None,
        );
    }
    Ok(())
}

/// Key and hash of a memory match its text: so no text is in a space twice.
async fn examine_texts(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let queue: QueueName = crate::queue();
    let mut last = 0;
    loop {
        type Columns = (i64, Option<String>, Option<String>, String);
        let page: Vec<Columns> = sqlx::query_as(sql!("doctor_memories"))
            .bind(last)
            .bind(PAGE)
            .fetch_all(&mut *connection)
            .await?;
        let Some((id, ..)) = page.last() else {
            return Ok(());
        };
        last = *id;
        for (id, key, group, payload) in page {
            let payload = Payload::parse(&payload).unwrap_or(Value::Null.into());
            let message = NewMessage {
                key,
                group,
                ..NewMessage::new(queue.clone(), payload)
            };
            if let Err(error) = check_memory(&message) {
                report.add(
                    "memory_unfit",
                    format!("message {id} is not a memory: {error}"),
                    format!(
                        "find out what bypassed the triggers; `consign hold {id}` keeps it from \
                         the memory server"
                    ),
                    Some(MessageId(id)),
                );
            }
        }
    }
}

/// Every backend with waiting memories has a worker.
async fn examine_backends(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let misdirected: Vec<(String, i64, String)> = sqlx::query_as(sql!("doctor_memory_misdirected"))
        .fetch_all(&mut *connection)
        .await?;
    for (backend, count, ids) in misdirected {
        let mut ids: Vec<MessageId> = rows::document(&ids)?;
        ids.sort_unstable();
        ids.truncate(SHOWN_MAX);
        report.add(
            "memory_misdirected",
            format!(
                "{count} memories wait for {backend}, but the worker that claimed them uses another backend"
            ),
            format!("{} on a worker", setting_for(&backend)),
            ids,
        );
    }
    Ok(())
}

/// Every deferred, sent or dead memory has its audit, and every row in audits exists.
async fn examine_audits(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let rowless: Vec<(i64, i64)> = sqlx::query_as(sql!("doctor_memory_rows"))
        .fetch_all(&mut *connection)
        .await?;
    for (audit_id, id) in rowless {
        report.add(
            "memory_row_missing",
            format!("audit {audit_id} refers to outbox row {id}, which does not exist"),
            "restore message from a backup; otherwise the memory is lost",
            Some(MessageId(id)),
        );
    }
    let (gone, left): (i64, i64) = sqlx::query_as(sql!("doctor_memory_left"))
        .fetch_one(&mut *connection)
        .await?;
    if gone > left {
        report.add(
            "memory_row_missing",
            format!(
                "{gone} sent or dead outbox rows in audits are gone, but only {left} have left"
            ),
            "restore message from a backup; compare the audits with the archive",
            None,
        );
    }
    let unnamed: Vec<(i64, String)> = sqlx::query_as(sql!("doctor_memory_deferrals"))
        .fetch_all(&mut *connection)
        .await?;
    for (id, correlation_id) in unnamed {
        report.add(
            "memory_deferral_unaudited",
            format!("message {id} of request {correlation_id} has no audit"),
            "nothing is lost: the memory is in the outbox; find out why the request's audit is missing",
            Some(MessageId(id)),
        );
    }
    for (is_dead, word) in [(false, "sent"), (true, "dead")] {
        let missing: Vec<i64> = sqlx::query_scalar(sql!("reconcile_missing"))
            .bind(is_dead)
            .bind(i64::MAX)
            .fetch_all(&mut *connection)
            .await?;
        for id in missing {
            report.add(
                "memory_outcome_unaudited",
                format!("message {id} of queue memory is {word}, but has no audit of it"),
                "run `consign reconcile`, which writes it",
                Some(MessageId(id)),
            );
        }
    }
    Ok(())
}
