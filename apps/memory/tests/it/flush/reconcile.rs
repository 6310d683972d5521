//! Bringing audits and outbox together again.

use std::time::Duration;

use consign_memory::{AuditStatus, OutboxStatus, ReconcileOptions, reconcile};

use super::{deferred, flushed, has_status};
use crate::support::{Fixture, ServerMode, told};

/// A lost audit is written again, once.
#[tokio::test]
async fn a_missing_audit_is_written_again() {
    let (fixture, id) = deferred("team:p").await;
    fixture.server.behave(ServerMode::Well);
    fixture.break_writes("write_audit").await;
    let is_sent = || has_status(&fixture, &id, OutboxStatus::Sent);
    // An audit that cannot be written does not undo a delivery.
    fixture.work_until("it is sent", is_sent).await;
    fixture.mend("write_audit").await;
    assert_eq!(flushed(&fixture, &id).await.len(), 0);
    let only_look = ReconcileOptions {
        is_repairing: false,
        ..ReconcileOptions::default()
    };
    let report = reconcile(fixture.store.as_ref(), &only_look).await.unwrap();
    assert_eq!((report.sent_missing_audit, report.sent_audit_fixed), (1, 0));
    assert!(!report.is_repaired());
    let options = fixture.options.reconcile();
    let report = reconcile(fixture.store.as_ref(), &options).await.unwrap();
    assert_eq!((report.sent_missing_audit, report.sent_audit_fixed), (1, 1));
    assert!(report.is_repaired());
    let audit = fixture.audits().await.pop().unwrap();
    assert_eq!(told(&audit), "allow outbox_flush_success success");
    assert_eq!(audit.evidence_refs_json["source"], "reconcile_outbox");
    assert_eq!(audit.evidence_refs_json["memory_id"], "mem-1");
    let report = reconcile(fixture.store.as_ref(), &options).await.unwrap();
    assert_eq!(report.details, []);
    assert_eq!(fixture.audits().await.len(), 2);
}

/// What `memory_store` cannot finish itself.
#[tokio::test]
async fn an_audit_that_never_ended_is_ended() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.break_updates("write_audit").await;
    let answer = fixture.remember("x").await;
    assert_eq!(answer["ok"], true);
    fixture.mend("write_audit").await;
    let options = fixture.options.reconcile();
    let report = reconcile(fixture.store.as_ref(), &options).await.unwrap();
    assert_eq!(report.hanging_audits, 0, "it may still be on its way");
    let options = ReconcileOptions {
        audit_timeout: Duration::ZERO,
        ..options
    };
    let report = reconcile(fixture.store.as_ref(), &options).await.unwrap();
    assert_eq!((report.hanging_audits, report.hanging_audits_fixed), (1, 1));
    let audit = &fixture.audits().await[0];
    assert_eq!(audit.status, AuditStatus::Failed);
    let reason = audit.reason.as_deref().unwrap();
    assert!(reason.ends_with(":audit_timeout"), "{reason}");
    assert_eq!(fixture.rows().await, []);
}

/// A worker died after its claim.
#[tokio::test]
async fn a_stale_lease_is_ended_and_reported() {
    let (fixture, id) = deferred("team:p").await;
    let lease = Duration::from_secs(60);
    let claimed = fixture.store.claim_outbox("dead-worker", 1, lease).await;
    assert_eq!(claimed.unwrap().len(), 1);
    let options = fixture.options.reconcile();
    let report = reconcile(fixture.store.as_ref(), &options).await.unwrap();
    assert_eq!(report.stale_count, 0, "its lease is live");
    fixture
        .sql("UPDATE lease SET claimed_at = 1, expires_at = 2")
        .await;
    let report = reconcile(fixture.store.as_ref(), &options).await.unwrap();
    assert_eq!(
        (report.stale_audit_fixed, report.stale_rescheduled),
        (1, 1),
        "{report}"
    );
    let audit = fixture.audits().await.pop().unwrap();
    assert!(
        told(&audit).starts_with("redirect outbox_stale "),
        "{audit:?}"
    );
    let row = fixture.row(&id).await;
    assert_eq!((row.locked_by, row.status), (None, OutboxStatus::Pending));
    fixture.server.behave(ServerMode::Well);
    let is_sent = || has_status(&fixture, &id, OutboxStatus::Sent);
    fixture.work_until("it is sent", is_sent).await;
}

crate::support::also_on_postgres! {
    a_missing_audit_is_written_again
    an_audit_that_never_ended_is_ended
}
