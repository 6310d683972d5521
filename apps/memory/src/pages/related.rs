//! The audits beside a memory's message.

use consign_kernel::{Message, MessageId};
use consign_server::apps::{Fact, Problem, RelatedRecord, count};
use jiff::Timestamp;
use serde_json::Value;

use crate::{Audit, AuditFilter, http::MemoryHttp};

/// Maximum audits beside one message.
const AUDITS: u32 = 20;

/// The audits of a message.
pub(crate) async fn related(
    http: &MemoryHttp,
    message: &Message,
    now: Timestamp,
) -> Result<Vec<RelatedRecord>, Problem> {
    let Some(gateway) = &http.gateway else {
        return Ok(Vec::new());
    };
    let filter = AuditFilter {
        outbox_id: Some(message.id.0),
        ..AuditFilter::default()
    };
    let logbook = gateway.service.logbook();
    let audits = logbook.audits(&filter, AUDITS).await?;
    let deferred = audits.iter().filter(|audit| is_deferral(audit)).count();
    let mut records: Vec<RelatedRecord> = Vec::new();
    if deferred > 1 {
        // The same text in the same space is stored once; repeats are listed here.
        let text = format!(
            "{} requests; their audits are below",
            count(deferred as u64)
        );
        records.push(RelatedRecord {
            title: "Deferred more than once".to_owned(),
            facts: vec![Fact::new("By", text)],
        });
    }
    records.extend(
        audits
            .into_iter()
            .map(|audit| audit_record(audit, message.id, now)),
    );
    Ok(records)
}

/// Whether a request's memory was deferred.
fn is_deferral(audit: &Audit) -> bool {
    let reason = audit.reason.as_deref().unwrap_or_default();
    reason.starts_with("openmemory_write_failed")
}

fn audit_record(audit: Audit, id: MessageId, now: Timestamp) -> RelatedRecord {
    let original = original(&audit.evidence_refs_json).filter(|original| *original != id);
    let mut facts = vec![
        Fact::new("Status", audit.status.as_str()),
        Fact::new("Action", audit.action.as_str()),
        Fact::new("Space", audit.target_space),
        Fact::at("Written", audit.created_at, now),
    ];
    facts.extend(audit.actor_user_id.map(|who| Fact::new("Who", who)));
    facts.extend(audit.reason.map(|why| Fact::new("Why", why)));
    facts.extend(
        audit
            .correlation_id
            .map(|id| Fact::sought("Correlation", id)),
    );
    facts.extend(original.map(|original| Fact::message("Same text as", original)));
    facts.extend(stored_as(&audit.evidence_refs_json).map(|text| Fact::new("Stored as", text)));
    RelatedRecord {
        title: format!("Write audit {}", audit.audit_id),
        facts,
    }
}

/// The id of the memory at its backend. An erasure of the message does not reach it.
fn stored_as(evidence: &Value) -> Option<String> {
    let memory_id = evidence["memory_id"].as_str()?;
    Some(format!("{memory_id}; memory_delete removes it there"))
}

/// The message with the same text.
fn original(evidence: &Value) -> Option<MessageId> {
    let id = &evidence["original_outbox_id"];
    let id = id.as_i64().or_else(|| id.as_str()?.parse().ok());
    id.map(MessageId)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_of_a_text_is_found_in_either_form() {
        assert_eq!(
            original(&json!({"original_outbox_id": 7})),
            Some(MessageId(7))
        );
        assert_eq!(
            original(&json!({"original_outbox_id": "8"})),
            Some(MessageId(8))
        );
        assert_eq!(original(&json!({"original_outbox_id": null})), None);
        assert_eq!(original(&json!({})), None);
    }
}
