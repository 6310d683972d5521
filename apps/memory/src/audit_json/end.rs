//! How a pending audit ends, and the merge of that into its document.

use consign_kernel::{MessageId, Result};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{AuditFacts, decision, micros_text, shown_error};
use crate::{Action, AuditEnd, AuditStatus, BackendError, ReconcileReport};

/// In `extra`: the memory server may have a memory that the audit does not record as stored. The next
/// writer asks the server before it stores.
pub(crate) const MAY_BE_STORED: &str = "may_be_stored";
/// In `extra`: a removal was sent, and its result is unknown.
pub(crate) const MAY_BE_REMOVED: &str = "may_be_removed";

/// Ends of the audit of a store request.
impl AuditFacts {
    /// The memory is deferred; `Logbook::defer` adds the outbox id.
    pub fn end_deferred(&self, error: &BackendError, may_be_stored: bool) -> AuditEnd {
        let word = error.word();
        let mut end = self.end(
            (AuditStatus::Redirected, Action::Redirect),
            format!("openmemory_write_failed:{word}"),
            json!({
                "last_error": shown_error(&error.to_string()),
                "error_code": word,
                "intended_action": self.action,
                // The row may be an earlier request's, whose headers do not state this one's doubt.
                MAY_BE_STORED: may_be_stored,
            }),
        );
        end.patch["intended_action"] = json!(self.action);
        end
    }

    /// The memory server rejects the memory for good (4xx).
    pub fn end_refused(&self, error: &BackendError) -> AuditEnd {
        let word = error.word();
        let code = word.strip_prefix("api_error_").unwrap_or(&word);
        let shown = shown_error(&error.to_string());
        self.end(
            (AuditStatus::Failed, Action::Reject),
            format!("openmemory_write_failed:{word}:client_error:{code}"),
            json!({
                "last_error": shown, "error_code": word, "error_type": "client_error",
                "error_message": shown, "status_code": code.parse::<u16>().ok(),
            }),
        )
    }

    /// The memory is neither stored nor deferred; `code` is that of the answer.
    pub fn end_failed(&self, code: &str, error: &str, may_be_stored: bool) -> AuditEnd {
        self.end(
            (AuditStatus::Failed, Action::Reject),
            code.to_owned(),
            json!({
                "last_error": shown_error(error), "error_code": code,
                MAY_BE_STORED: may_be_stored,
            }),
        )
    }

    fn end(
        &self,
        (status, action): (AuditStatus, Action),
        reason: String,
        added: Value,
    ) -> AuditEnd {
        let mut extra = json!(self.extra);
        merge_object(&mut extra, &added);
        let patch = json!({
            // The merge keeps `extra` of the document and replaces the one inside `gateway_event`.
            "extra": extra,
            "gateway_event": {"decision": decision(action, &reason), "extra": extra},
        });
        AuditEnd {
            status,
            action: Some(action),
            reason: Some(reason),
            patch,
        }
    }
}

impl AuditEnd {
    /// The backend has the memory. `is_again`: it was stored before and had been lost.
    pub(crate) fn stored(memory_id: &str, is_again: bool) -> Self {
        let mut patch = json!({"memory_id": memory_id, "gateway_event": {"memory_id": memory_id}});
        if is_again {
            patch["extra"] = json!({"stored_again": true});
        }
        Self::succeeded(patch)
    }

    /// The memory is removed.
    pub(crate) fn deleted() -> Self {
        Self::succeeded(json!({}))
    }

    fn succeeded(patch: Value) -> Self {
        Self {
            status: AuditStatus::Success,
            action: None,
            reason: None,
            patch,
        }
    }

    /// The removal failed. `may_be_removed`: it was sent, and its result is unknown.
    pub(crate) fn delete_failed(error: &BackendError, may_be_removed: bool) -> Self {
        let mut extra = json!({"last_error": shown_error(&error.to_string())});
        if may_be_removed {
            extra[MAY_BE_REMOVED] = json!(true);
        }
        Self {
            status: AuditStatus::Failed,
            action: Some(Action::Reject),
            reason: Some(format!("memory_delete:{}", error.word())),
            patch: json!({"extra": extra}),
        }
    }

    /// An operator's reconciliation is over.
    pub(crate) fn reconciled(outcome: &Result<ReconcileReport>) -> Self {
        match outcome {
            Ok(report) => {
                let fixed = report.details.iter().filter(|detail| detail.fixed);
                Self::succeeded(json!({"reconciled": {
                    "scanned": report.total_scanned, "found": report.details.len(),
                    "fixed": fixed.count(),
                }}))
            }
            Err(error) => Self {
                status: AuditStatus::Failed,
                action: None,
                reason: None,
                patch: json!({"reconciled": {"error": shown_error(&error.to_string())}}),
            },
        }
    }

    /// The task that stored the memory panicked.
    pub(crate) fn internal_error() -> Self {
        Self {
            status: AuditStatus::Failed,
            action: Some(Action::Reject),
            reason: Some("internal_error".to_owned()),
            patch: json!({"extra": {MAY_BE_STORED: true}}),
        }
    }

    /// Reconciliation ends an audit that has been pending since `pending_since`.
    pub(crate) fn timed_out(
        reason: Option<&str>,
        pending_since: Timestamp,
        now: Timestamp,
    ) -> Self {
        Self {
            status: AuditStatus::Failed,
            action: None,
            reason: Some(format!("{}:audit_timeout", reason.unwrap_or_default())),
            patch: json!({
                "reconcile_action": "audit_timeout",
                "extra": {MAY_BE_STORED: true},
                "timeout_detected_at": micros_text(now),
                "stale_duration_seconds": now.duration_since(pending_since).as_secs(),
            }),
        }
    }
}

/// The part of a pending audit that its end changes.
#[derive(Clone, Debug)]
pub(crate) struct PendingAudit {
    pub(crate) action: Action,
    pub(crate) reason: Option<String>,
    pub(crate) document: Map<String, Value>,
}

impl PendingAudit {
    /// Ends it, as `governance.update_write_audit` does in PostgreSQL. A deferred memory's outbox id is
    /// appended to the reason and written into the document.
    pub(crate) fn end(&mut self, end: &AuditEnd, outbox_id: Option<MessageId>) {
        self.action = end.action.unwrap_or(self.action);
        self.reason = end.reason.clone().or(self.reason.take());
        merge(&mut self.document, &end.patch);
        let Some(id) = outbox_id else { return };
        let reason = format!("{}:outbox:{id}", self.reason.as_deref().unwrap_or_default());
        self.document.insert("outbox_id".to_owned(), json!(id));
        if let Some(event @ Value::Object(_)) = self.document.get_mut("gateway_event") {
            event["outbox_id"] = json!(id);
            if let Some(stated @ Value::Object(_)) = event.get_mut("decision") {
                stated["action"] = json!(self.action);
                stated["reason"] = json!(reason);
            }
        }
        self.reason = Some(reason);
    }
}

/// Merges a patch into a document key by key; `extra` and `gateway_event` one level deeper.
pub(crate) fn merge(document: &mut Map<String, Value>, patch: &Value) {
    let Value::Object(patch) = patch else { return };
    for (key, value) in patch {
        match document.get_mut(key) {
            Some(below @ Value::Object(_))
                if ["extra", "gateway_event"].contains(&key.as_str()) =>
            {
                merge_object(below, value);
            }
            _ => {
                document.insert(key.clone(), value.clone());
            }
        }
    }
}

fn merge_object(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => below.extend(above.clone()),
        (below, above) => *below = above.clone(),
    }
}
