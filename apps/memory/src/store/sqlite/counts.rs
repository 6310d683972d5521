//! Counts for the reliability report, and unreadable evidence.

use crate::{
    MemoryCounts, OutboxCounts,
    uri::{parse_attachment_evidence_uri, parse_evidence_uri},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sqlx::{Row, SqliteConnection};

use crate::store::sqlite::sql;
use consign_sqlite::extension::{Result, rows};

pub(super) async fn counts(
    connection: &mut SqliteConnection,
    now: Timestamp,
) -> Result<MemoryCounts> {
    let ago = |hours: i64| rows::micros(now) - SignedDuration::from_hours(hours).as_micros() as i64;
    let document: String = sqlx::query_scalar(sql!("memory_counts"))
        .bind(rows::micros(now))
        .bind(ago(24))
        .bind(ago(7 * 24))
        .fetch_one(&mut *connection)
        .await?;
    let mut counts: MemoryCounts = rows::document(&document)?;
    let has_patches: bool = sqlx::query_scalar(sql!("patch_table"))
        .fetch_one(&mut *connection)
        .await?;
    if has_patches {
        let (all, sound): (i64, i64) = sqlx::query_as(sql!("patch_counts"))
            .fetch_one(&mut *connection)
            .await?;
        counts.patch_blobs = (all.unsigned_abs(), sound.unsigned_abs());
    }
    counts.evidence.1 = unreadable(connection).await?.len() as u64;
    Ok(counts)
}

pub(super) async fn outbox_counts(connection: &mut SqliteConnection) -> Result<OutboxCounts> {
    let counts: (i64, i64, i64, i64) = sqlx::query_as(sql!("outbox_memory_counts"))
        .fetch_one(connection)
        .await?;
    Ok(OutboxCounts {
        pending: counts.0.unsigned_abs(),
        sent: counts.1.unsigned_abs(),
        dead: counts.2.unsigned_abs(),
        pending_audits: counts.3.unsigned_abs(),
    })
}

/// An audit with an unreadable reference.
pub(in crate::store::sqlite) struct UnreadableAudit {
    pub(in crate::store::sqlite) audit_id: i64,
    pub(in crate::store::sqlite) uri: String,
}

/// Audits with evidence in the logbook whose URI cannot be parsed; the first of each.
pub(in crate::store::sqlite) async fn unreadable(
    connection: &mut SqliteConnection,
) -> Result<Vec<UnreadableAudit>> {
    let found = sqlx::query(sql!("memory_evidence"))
        .fetch_all(connection)
        .await?;
    let mut unreadable = Vec::new();
    for row in found {
        let patches: Value = rows::document(row.try_get("patches")?)?;
        let attachments: Value = rows::document(row.try_get("attachments")?)?;
        let is_patch = |uri: &str| parse_evidence_uri(uri).is_some_and(|patch| patch.is_strong());
        let is_attachment = |uri: &str| parse_attachment_evidence_uri(uri).is_some();
        let wrong = first_wrong(&patches, is_patch).or(first_wrong(&attachments, is_attachment));
        if let Some(uri) = wrong {
            unreadable.push(UnreadableAudit {
                audit_id: row.try_get("audit_id")?,
                uri,
            });
        }
    }
    Ok(unreadable)
}

fn first_wrong(references: &Value, is_right: impl Fn(&str) -> bool) -> Option<String> {
    let uri = |reference: &Value| {
        let uri = reference.get("artifact_uri").and_then(Value::as_str);
        uri.unwrap_or_default().to_owned()
    };
    let mut uris = references.as_array().into_iter().flatten().map(uri);
    uris.find(|uri| !is_right(uri))
}
