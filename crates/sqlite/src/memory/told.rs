//! What an audit says about a row of the outbox.

use consign_kernel::MessageId;
use consign_memory::{Action, AuditStatus, NewAudit};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use crate::{error::Result, rows, sql};

/// Where an audit comes from.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) source: &'static str,
    pub(super) operation: &'static str,
}

pub(super) const WORKER: Source = Source {
    source: "outbox_worker",
    operation: "outbox_flush",
};
pub(super) const RECONCILE: Source = Source {
    source: "reconcile_outbox",
    operation: "outbox_reconcile",
};

/// An event of a memory's way through the outbox, to be audited.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) id: MessageId,
    pub(super) attempt_no: u32,
    pub(super) correlation_id: String,
    pub(super) action: Action,
    pub(super) reason: &'static str,
    pub(super) status: AuditStatus,
    pub(super) memory_id: Option<String>,
    /// The backend it was stored in; absent: the one it is meant for.
    pub(super) backend: Option<String>,
    pub(super) next_attempt_at: Option<Timestamp>,
    /// Goes into `extra`; nulls are left out.
    pub(super) extra: Value,
}

/// What is known of a memory at one of its attempts.
pub(super) struct Facts {
    target_space: String,
    payload_sha: String,
    payload_len: i64,
    actor_user_id: Option<String>,
    backend: Option<String>,
    failures: i64,
}

/// The facts of these events' memories, in order.
pub(super) async fn facts(connection: &mut SqliteConnection, told: &[Told]) -> Result<Vec<Facts>> {
    let keys: Vec<(MessageId, u32)> = told.iter().map(|t| (t.id, t.attempt_no)).collect();
    let found = sqlx::query(sql!("memory_told"))
        .bind(rows::json(&keys))
        .fetch_all(connection)
        .await?;
    let facts = |row: &SqliteRow| {
        Ok(Facts {
            target_space: row.try_get("target_space")?,
            payload_sha: row.try_get("payload_sha")?,
            payload_len: row.try_get("payload_len")?,
            actor_user_id: row.try_get("actor_user_id")?,
            backend: row.try_get("backend")?,
            failures: row.try_get("failures")?,
        })
    };
    found.iter().map(facts).collect()
}

impl Told {
    /// The audit of it.
    pub(super) fn audit(&self, facts: &Facts, source: Source, now: Timestamp) -> NewAudit {
        let space = &facts.target_space;
        let owner = space
            .strip_prefix("private:")
            .filter(|owner| !owner.is_empty());
        let actor = facts.actor_user_id.clone().or(owner.map(str::to_owned));
        // The attempts that failed, this one included; the view's count is of those repeated.
        let failures = facts.failures + i64::from(self.action == Action::Reject);
        let mut fields = Map::new();
        put(&mut fields, "memory_id", json!(self.memory_id));
        let backend = self.backend.as_ref().or(facts.backend.as_ref());
        put(&mut fields, "backend", json!(backend));
        put(
            &mut fields,
            "next_attempt_at",
            json!(self.next_attempt_at.map(iso)),
        );
        put(&mut fields, "retry_count", json!(failures));
        let mut extra = Map::new();
        if let Value::Object(said) = &self.extra {
            for (name, value) in said {
                put(&mut extra, name, value.clone());
            }
        }
        extra.insert("correlation_id".into(), json!(self.correlation_id));
        extra.insert("attempt_id".into(), json!(self.attempt_id()));
        let summary = json!({"count": 0, "has_strong": false, "uris": []});
        let mut event = fields.clone();
        event.extend(object(json!({
            "schema_version": "2.0",
            "source": source.source,
            "operation": source.operation,
            "correlation_id": self.correlation_id,
            "actor_user_id": actor,
            "requested_space": space,
            "final_space": space,
            "decision": {"action": self.action.as_str(), "reason": self.reason},
            "payload_sha": facts.payload_sha,
            "payload_len": facts.payload_len,
            "evidence_summary": summary,
            "trim": {"was_trimmed": false, "why": null, "original_len": null},
            "refs": [],
            "event_ts": iso(now),
            "outbox_id": self.id,
            "extra": extra,
        })));
        let mut evidence = fields;
        for lifted in [
            "worker_id",
            "attempt_id",
            "intended_action",
            "original_outbox_id",
        ] {
            put(
                &mut evidence,
                lifted,
                extra.get(lifted).cloned().unwrap_or_default(),
            );
        }
        evidence.extend(object(json!({
            "outbox_id": self.id,
            "source": source.source,
            "payload_sha": facts.payload_sha,
            "correlation_id": self.correlation_id,
            "evidence_summary": summary,
            "extra": extra,
            "gateway_event": event,
        })));
        NewAudit {
            actor_user_id: actor,
            target_space: space.clone(),
            action: self.action,
            reason: Some(self.reason.to_owned()),
            payload_sha: Some(facts.payload_sha.clone()),
            evidence_refs_json: Value::Object(evidence),
            correlation_id: Some(self.correlation_id.clone()),
            status: self.status,
        }
    }

    fn attempt_id(&self) -> String {
        attempt_id(self.id, self.attempt_no)
    }
}

/// The name of an attempt: of its message and its number.
pub(super) fn attempt_id(id: MessageId, attempt_no: u32) -> String {
    format!(
        "attempt-{:08x}{:04x}",
        id.0 & 0xffff_ffff,
        attempt_no & 0xffff
    )
}

/// A time in JSON.
pub(super) fn iso(at: Timestamp) -> String {
    format!("{at:.6}").replace('Z', "+00:00")
}

fn put(fields: &mut Map<String, Value>, name: &str, value: Value) {
    if !value.is_null() {
        fields.insert(name.to_owned(), value);
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
