//! What does not fit together and cannot be repaired: reported, and found by doctor.

use consign_memory::{AuditStatus, Issue};
use serde_json::json;

use super::Harness;
use super::{
    fixture::{MemoryFixture, audit, corr, memory},
    retention::maintained,
};
use consign_conformance::stage::s;

impl MemoryFixture<'_> {
    async fn codes(&self) -> Vec<String> {
        let found = self.stage.store.doctor().await.expect("doctor answers");
        found.into_iter().map(|finding| finding.code).collect()
    }
}

/// Alarmed about, never invented.
pub(crate) async fn an_audit_without_its_row_is_reported(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let mut lost = audit(1, "text", AuditStatus::Redirected);
    lost.reason = Some("openmemory_write_failed:connection_error:outbox:4711".to_owned());
    lost.evidence_refs_json["outbox_id"] = json!(4711);
    let audit_id = fixture.write(&lost).await;
    for _ in 0..2 {
        let pass = fixture.book.reconcile_memory(&Default::default()).await;
        let pass = pass.expect("reconcile_memory answers");
        assert_eq!(pass.findings.len(), 1);
        let finding = &pass.findings[0];
        assert_eq!(finding.issue, Issue::MissingOutboxRow);
        assert_eq!(finding.audit_id, Some(audit_id));
        assert_eq!(finding.outbox_id.map(|id| id.0), Some(4711));
        assert!(!finding.fixed && !pass.has_more);
    }
    let counts = fixture.book.memory_counts().await.expect("an answer");
    assert_eq!(counts.deferred, (1, 0), "a deferral without its row");
    assert_eq!(fixture.codes().await, ["memory_row_missing"]);
}

pub(crate) async fn a_deferred_row_without_its_audit_is_found(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let mut deferred = memory("text");
    deferred.correlation_id = Some(corr(1));
    fixture.put(&deferred).await;
    let counts = fixture.book.memory_counts().await.expect("an answer");
    assert_eq!(counts.deferred, (0, 1));
    assert_eq!(fixture.codes().await, ["memory_deferral_unaudited"]);
}

pub(crate) async fn doctor_finds_evidence_with_an_unreadable_uri(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let sha = "a".repeat(64);
    for (n, (list, uri)) in [
        ("patches", format!("memory://patch_blobs/git/1:abc/{sha}")),
        ("patches", format!("memory://patch_blobs/git/{sha}")),
        ("patches", "https://example.com".to_owned()),
        ("attachments", format!("memory://attachments/7/{sha}")),
        ("attachments", format!("memory://attachments/07/{sha}")),
        ("external", "anything".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let mut audit = audit(n as u64, "text", AuditStatus::Success);
        audit.evidence_refs_json[list] = json!([{"artifact_uri": uri, "sha256": sha}]);
        fixture.write(&audit).await;
    }
    let counts = fixture.book.memory_counts().await.expect("an answer");
    assert_eq!(counts.evidence, (6, 3));
    assert_eq!(fixture.codes().await, ["memory_evidence_unreadable"]);
}

/// A report over audits that never end is not whole.
pub(crate) async fn a_hanging_audit_is_found(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    fixture.begin(1, "text").await;
    fixture.stage.advance(s(2 * 3_600)).await;
    assert_eq!(fixture.codes().await, [""; 0]);
    fixture.stage.advance(s(1)).await;
    assert_eq!(fixture.codes().await, ["memory_audit_hanging"]);
}

/// What reconcile would repair.
pub(crate) async fn an_outcome_without_its_audit_is_found(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(id, "w1", Some("mem-1")).await);
    harness.lose_audits(id).await;
    assert_eq!(fixture.codes().await, ["memory_outcome_unaudited"]);
}

/// A departure explains as many missing rows as have left, and no row that was neither sent nor dead.
pub(crate) async fn a_lost_row_is_not_taken_for_one_that_left(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    fixture.deliver(&memory("sent"), Some("mem-1")).await;
    let last = fixture.deliver(&memory("last"), Some("mem-2")).await;
    fixture.put_text("pending").await;
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 2);
    assert_eq!(fixture.codes().await, [""; 0]);
    // A deferral of a row far below, which is not there.
    let mut lost = audit(1, "text", AuditStatus::Redirected);
    lost.reason = Some("openmemory_write_failed:connection_error:outbox:0".to_owned());
    lost.evidence_refs_json["outbox_id"] = json!(0);
    let audit_id = fixture.write(&lost).await;
    let pass = fixture.book.reconcile_memory(&Default::default()).await;
    let pass = pass.expect("reconcile_memory answers");
    assert_eq!(pass.findings.len(), 1, "{:?}", pass.findings);
    assert_eq!(pass.findings[0].audit_id, Some(audit_id));
    assert_eq!(fixture.codes().await, ["memory_row_missing"]);
    let counts = fixture.book.memory_counts().await.expect("an answer");
    assert_eq!(counts.deferred, (1, 0));
    // Sent, by its audit: one more than have left.
    lost.reason = Some("outbox_flush_success".to_owned());
    lost.status = AuditStatus::Success;
    fixture.write(&lost).await;
    assert_eq!(fixture.codes().await, ["memory_row_missing"], "{last} left");
}
