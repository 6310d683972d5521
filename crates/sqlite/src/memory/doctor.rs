//! The outbox of memories and its audits tell the same story.

use consign_kernel::{MessageId, NewMessage, Payload, QueueName};
use consign_memory::setting_for;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sqlx::SqliteConnection;

use crate::doctor::{Report, SHOWN_MAX};
use crate::{
    error::Result,
    memory::{check_memory, unreadable},
    rows, sql,
};

/// Memories looked at in one go.
const PAGE: i64 = 500;

/// How long an audit may be pending; `consign reconcile` ends it then.
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
                "{} audits have evidence whose URI cannot be read; the first is audit {}: {:?}",
                unreadable.len(),
                first.audit_id,
                first.uri
            ),
            "find out who wrote it: the gateway refuses such references",
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

/// A memory's key and hash are its own: so no text is in a space twice.
async fn examine_texts(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let queue: QueueName = consign_memory::queue();
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
                    format!("message {id} is no memory: {error}"),
                    format!(
                        "find out who wrote it past the triggers; `consign hold {id}` keeps it from \
                         the memory server"
                    ),
                    Some(MessageId(id)),
                );
            }
        }
    }
}

/// Somebody delivers to every backend that memories wait for.
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
                "{count} memories wait for {backend}, and the worker that had them stores elsewhere"
            ),
            format!("{} where a worker delivers memories", setting_for(&backend)),
            ids,
        );
    }
    Ok(())
}

/// What was deferred, sent or dead has its audit, and what audits name is there.
async fn examine_audits(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let rowless: Vec<(i64, i64)> = sqlx::query_as(sql!("doctor_memory_rows"))
        .fetch_all(&mut *connection)
        .await?;
    for (audit_id, id) in rowless {
        report.add(
            "memory_row_missing",
            format!("audit {audit_id} is about row {id} of the outbox, which does not exist"),
            "restore message from a backup; what the audit tells of is lost otherwise",
            Some(MessageId(id)),
        );
    }
    let unnamed: Vec<(i64, String)> = sqlx::query_as(sql!("doctor_memory_deferrals"))
        .fetch_all(&mut *connection)
        .await?;
    for (id, correlation_id) in unnamed {
        report.add(
            "memory_deferral_unaudited",
            format!("message {id} came with request {correlation_id}, and no audit says so"),
            "nothing is lost: the memory is in the outbox; find out what became of the request's audit",
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
                format!("message {id} of queue memory is {word}, and no audit says so"),
                "run `consign reconcile`, which writes it",
                Some(MessageId(id)),
            );
        }
    }
    Ok(())
}
