use super::*;
use crate::{
    AuditEnd, AuditStatus, BackendError, NewAudit,
    evidence::{ValidateRefs, check_strict, normalize},
    payload_sha,
    policy::EvidenceMode,
};

const S: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const CORRELATION: &str = "corr-0123456789abcdef";
const BACKEND: &str = "openmemory:http://m.example";
const EVENT_TS: &str = "2026-01-30T10:00:00Z";

/// The audit after its end, as the stores write it.
fn ended(audit: NewAudit, end: &AuditEnd, outbox_id: Option<i64>) -> NewAudit {
    let mut pending = PendingAudit {
        action: audit.action,
        reason: audit.reason.clone(),
        document: audit.evidence_refs_json.as_object().unwrap().clone(),
    };
    pending.end(end, outbox_id.map(MessageId));
    NewAudit {
        status: end.status,
        action: pending.action,
        reason: pending.reason,
        evidence_refs_json: Value::Object(pending.document),
        ..audit
    }
}

fn evidence() -> Evidence {
    let uri = format!("memory://patch_blobs/git/1:abc123/{S}");
    normalize(
        &[
            json!({"uri": uri, "sha256": S}),
            json!({"uri": "https://x"}),
        ],
        &[],
    )
}

fn correlation() -> Correlation {
    Correlation::parse(CORRELATION).unwrap()
}

fn store_facts(evidence: &Evidence) -> AuditFacts {
    AuditFacts {
        actor_user_id: Some("alice".to_owned()),
        final_space: Some("team:p".to_owned()),
        action: Action::Allow,
        reason: "policy:policy_passed".to_owned(),
        payload_sha: Some(payload_sha("test")),
        payload_len: Some(4),
        evidence: evidence.clone(),
        event_ts: EVENT_TS.to_owned(),
        checks: Some(EvidenceChecks {
            mode: EvidenceMode::Compat,
            validate_refs: ValidateRefs {
                is_on: false,
                reason: "compat_default",
            },
            strict: None,
        }),
        backend: Some(BACKEND.to_owned()),
        extra: Map::from_iter([(
            "evidence_source".to_owned(),
            json!(evidence.source.as_str()),
        )]),
        ..AuditFacts::new(Operation::MemoryStore, &correlation(), "team:p")
    }
}

/// The event of a request with the evidence above, allowed and pending.
fn golden_event() -> Value {
    let uris = [
        format!("memory://patch_blobs/git/1:abc123/{S}"),
        "https://x".to_owned(),
    ];
    json!({
        "schema_version": "2.0", "source": "gateway", "operation": "memory_store",
        "correlation_id": CORRELATION, "actor_user_id": "alice", "requested_space": "team:p",
        "final_space": "team:p", "decision": {"action": "allow", "reason": "policy:policy_passed"},
        "payload_sha": payload_sha("test"), "payload_len": 4,
        "evidence_summary": {"count": 2, "has_strong": true, "uris": uris},
        "trim": {"was_trimmed": false, "why": null, "original_len": null}, "refs": uris,
        "event_ts": EVENT_TS, "policy_mode": "compat", "backend": BACKEND,
        "policy": {"mode": "compat", "mode_reason": "from_settings", "policy_version": "v1",
            "is_pointerized": false, "policy_source": "settings"},
        "validation": {"validate_refs_effective": false, "validate_refs_reason": "compat_default",
            "evidence_validation": null},
        "extra": {"evidence_source": "v2"},
    })
}

/// Its document. The source of the patch is read from its URI; the reference
/// implementation leaves it out.
fn golden() -> Value {
    let uris = [
        format!("memory://patch_blobs/git/1:abc123/{S}"),
        "https://x".to_owned(),
    ];
    json!({
        "gateway_event": golden_event(),
        "patches": [{"artifact_uri": uris[0], "sha256": S, "source_id": "1:abc123", "source_type": "git"}],
        "external": [{"uri": "https://x"}],
        "evidence_summary": {"count": 2, "has_strong": true, "uris": uris}, "refs": uris,
        "source": "gateway", "payload_sha": payload_sha("test"), "correlation_id": CORRELATION,
        "backend": BACKEND, "extra": {"evidence_source": "v2", "correlation_id": CORRELATION},
    })
}

/// One audit before and after the memory is stored.
#[test]
fn a_stored_memory_has_one_audit() {
    let pending = store_facts(&evidence()).audit(AuditStatus::Pending);
    let end = AuditEnd::stored("mem_1", false);
    assert_eq!(pending.evidence_refs_json, golden());
    assert_eq!(pending.status, AuditStatus::Pending);
    assert_eq!(pending.target_space, "team:p");
    assert_eq!(
        pending.payload_sha.as_deref(),
        Some(payload_sha("test").as_str())
    );
    assert_eq!(pending.correlation_id.as_deref(), Some(CORRELATION));

    let stored = ended(pending, &end, None);
    let mut expected = golden();
    expected["memory_id"] = json!("mem_1");
    expected["gateway_event"]["memory_id"] = json!("mem_1");
    assert_eq!(stored.evidence_refs_json, expected);
    assert_eq!(
        (stored.action, stored.status),
        (Action::Allow, AuditStatus::Success)
    );
    assert_eq!(stored.reason.as_deref(), Some("policy:policy_passed"));
}

/// The intended action is the policy's.
#[test]
fn a_deferred_memory_has_one_audit() {
    let error = BackendError::Unreachable("boom, password=x".to_owned());
    let facts = store_facts(&evidence());
    let end = facts.end_deferred(&error, true);
    let deferred = ended(facts.audit(AuditStatus::Pending), &end, Some(7));
    let reason = "openmemory_write_failed:connection_error:outbox:7";
    let extra = json!({
        "last_error": "connection_error: boom, password=[REDACTED]", "error_code": "connection_error",
        "evidence_source": "v2", "intended_action": "allow", "may_be_stored": true,
    });
    let mut expected = golden();
    expected["outbox_id"] = json!(7);
    expected["intended_action"] = json!("allow");
    expected["extra"] = extra.clone();
    expected["extra"]["correlation_id"] = json!(CORRELATION);
    let event = &mut expected["gateway_event"];
    event["decision"] = json!({"action": "redirect", "reason": reason});
    event["outbox_id"] = json!(7);
    event["extra"] = extra;
    assert_eq!(deferred.evidence_refs_json, expected);
    assert_eq!(
        (deferred.action, deferred.status),
        (Action::Redirect, AuditStatus::Redirected)
    );
    assert_eq!(deferred.reason.as_deref(), Some(reason));
}

#[test]
fn a_refused_memory_has_one_audit() {
    let error = BackendError::Api {
        status: 400,
        message: "too long".to_owned(),
        retry_in: None,
    };
    let facts = store_facts(&evidence());
    let pending = || facts.audit(AuditStatus::Pending);
    let refused = ended(pending(), &facts.end_refused(&error), None);
    let reason = "openmemory_write_failed:api_error_400:client_error:400";
    assert_eq!(
        (refused.action, refused.status),
        (Action::Reject, AuditStatus::Failed)
    );
    assert_eq!(refused.reason.as_deref(), Some(reason));
    let document = &refused.evidence_refs_json;
    let shown = "api_error: 400 - too long";
    let extra = json!({
        "last_error": shown, "error_code": "api_error_400", "error_type": "client_error",
        "error_message": shown, "status_code": 400, "evidence_source": "v2",
    });
    assert_eq!(document["gateway_event"]["extra"], extra);
    assert_eq!(document["extra"]["correlation_id"], CORRELATION);
    let decision = json!({"action": "reject", "reason": reason});
    assert_eq!(document["gateway_event"]["decision"], decision);

    let end = facts.end_failed("OUTBOX_ENQUEUE_FAILED", &"x".repeat(600), true);
    let failed = ended(pending(), &end, None);
    assert_eq!(failed.evidence_refs_json["extra"]["may_be_stored"], true);
    assert_eq!(failed.status, AuditStatus::Failed);
    let last_error = failed.evidence_refs_json["extra"]["last_error"]
        .as_str()
        .unwrap();
    assert_eq!(last_error.len(), 500);
}

/// A rejected memory keeps the requested space.
#[test]
fn a_rejected_memory_has_one_audit() {
    let evidence = normalize(&[json!({"uri": "u1"})], &[]);
    let report = check_strict(&evidence);
    let reason = report.reason().unwrap();
    let facts = AuditFacts {
        final_space: None,
        action: Action::Reject,
        reason,
        checks: Some(EvidenceChecks {
            mode: EvidenceMode::Strict,
            validate_refs: ValidateRefs {
                is_on: true,
                reason: "strict_enforced",
            },
            strict: Some(report),
        }),
        ..store_facts(&evidence)
    };
    let rejected = facts.audit(AuditStatus::Failed);
    let found = json!({"is_valid": false, "error_codes": ["EVIDENCE_MISSING_SHA256:evidence[0]:u1"],
        "compat_warnings": []});
    let mut event = golden_event();
    event["final_space"] = json!(null);
    let reason = "EVIDENCE_VALIDATION_FAILED:EVIDENCE_MISSING_SHA256";
    event["decision"] = json!({"action": "reject", "reason": reason});
    let summary = json!({"count": 1, "has_strong": false, "uris": ["u1"]});
    event["evidence_summary"] = summary.clone();
    event["refs"] = json!(["u1"]);
    event["policy_mode"] = json!("strict");
    event["policy"]["mode"] = json!("strict");
    event["validation"] = json!({"validate_refs_effective": true,
        "validate_refs_reason": "strict_enforced", "evidence_validation": found});
    event["evidence_validation"] = found;
    let expected = json!({
        "gateway_event": event, "external": [{"uri": "u1"}], "evidence_summary": summary, "refs": ["u1"],
        "source": "gateway", "payload_sha": payload_sha("test"), "correlation_id": CORRELATION,
        "backend": BACKEND, "extra": {"evidence_source": "v2", "correlation_id": CORRELATION},
    });
    assert_eq!(rejected.evidence_refs_json, expected);
    assert_eq!(
        (rejected.target_space.as_str(), rejected.status),
        ("team:p", AuditStatus::Failed)
    );
}

#[test]
fn a_dedup_hit_names_the_outbox_row() {
    let mut facts = AuditFacts {
        reason: "dedup_hit".to_owned(),
        memory_id: Some("mem_1".to_owned()),
        checks: None,
        ..store_facts(&Evidence::default())
    };
    facts.note("original_outbox_id", 3);
    let document = facts.document();
    assert_eq!(document["original_outbox_id"], 3);
    assert_eq!(document["memory_id"], "mem_1");
    assert_eq!(document["gateway_event"]["memory_id"], "mem_1");
    let extra =
        json!({"original_outbox_id": 3, "evidence_source": "none", "correlation_id": CORRELATION});
    assert_eq!(document["extra"], extra);
    for absent in ["refs", "patches", "attachments", "external"] {
        assert_eq!(document.get(absent), None, "{absent}");
    }
    assert_eq!(document["gateway_event"].get("policy"), None);
}
