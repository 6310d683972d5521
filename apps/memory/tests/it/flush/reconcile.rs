//! Bringing audits and outbox together again.

use std::time::Duration;

use consign_memory::{AuditStatus, OutboxStatus, ReconcileOptions, reconcile};

use super::{deferred, flushed, has_status};
use crate::support::{Desk, Manner, told};

/// E5: a lost audit is written again, once.
#[tokio::test]
async fn a_missing_audit_is_written_again() {
    let (desk, id) = deferred("team:p").await;
    desk.server.behave(Manner::Well);
    desk.break_writes("write_audit").await;
    let is_sent = || has_status(&desk, &id, OutboxStatus::Sent);
    // T11: an audit that cannot be written does not undo a delivery.
    desk.work_until("it is sent", is_sent).await;
    desk.mend("write_audit").await;
    assert_eq!(flushed(&desk, &id).await.len(), 0);
    let only_look = ReconcileOptions {
        is_repairing: false,
        ..ReconcileOptions::default()
    };
    let report = reconcile(desk.store.as_ref(), &only_look).await.unwrap();
    assert_eq!((report.sent_missing_audit, report.sent_audit_fixed), (1, 0));
    assert!(!report.is_repaired());
    let options = desk.options.reconcile();
    let report = reconcile(desk.store.as_ref(), &options).await.unwrap();
    assert_eq!((report.sent_missing_audit, report.sent_audit_fixed), (1, 1));
    assert!(report.is_repaired());
    let audit = desk.audits().await.pop().unwrap();
    assert_eq!(told(&audit), "allow outbox_flush_success success");
    assert_eq!(audit.evidence_refs_json["source"], "reconcile_outbox");
    assert_eq!(audit.evidence_refs_json["memory_id"], "mem-1");
    let report = reconcile(desk.store.as_ref(), &options).await.unwrap();
    assert_eq!(report.details, []);
    assert_eq!(desk.audits().await.len(), 2);
}

/// E7 and what `memory_store` cannot finish itself.
#[tokio::test]
async fn an_audit_that_never_ended_is_ended() {
    let desk = Desk::new().await;
    desk.open_team().await;
    desk.break_updates("write_audit").await;
    let answer = desk.remember("x").await;
    assert_eq!(answer["ok"], true);
    desk.mend("write_audit").await;
    let options = desk.options.reconcile();
    let report = reconcile(desk.store.as_ref(), &options).await.unwrap();
    assert_eq!(report.hanging_audits, 0, "it may still be on its way");
    let options = ReconcileOptions {
        audit_timeout: Duration::ZERO,
        ..options
    };
    let report = reconcile(desk.store.as_ref(), &options).await.unwrap();
    assert_eq!((report.hanging_audits, report.hanging_audits_fixed), (1, 1));
    let audit = &desk.audits().await[0];
    assert_eq!(audit.status, AuditStatus::Failed);
    let reason = audit.reason.as_deref().unwrap();
    assert!(reason.ends_with(":audit_timeout"), "{reason}");
    assert_eq!(desk.rows().await, []);
}

/// E6: a worker died after its claim.
#[tokio::test]
async fn a_stale_lease_is_ended_and_told() {
    let (desk, id) = deferred("team:p").await;
    let lease = Duration::from_secs(60);
    let claimed = desk.store.claim_outbox("dead-worker", 1, lease).await;
    assert_eq!(claimed.unwrap().len(), 1);
    let options = desk.options.reconcile();
    let report = reconcile(desk.store.as_ref(), &options).await.unwrap();
    assert_eq!(report.stale_count, 0, "its lease is live");
    desk.sql("UPDATE lease SET claimed_at = 1, expires_at = 2")
        .await;
    let report = reconcile(desk.store.as_ref(), &options).await.unwrap();
    assert_eq!(
        (report.stale_audit_fixed, report.stale_rescheduled),
        (1, 1),
        "{report}"
    );
    let audit = desk.audits().await.pop().unwrap();
    assert!(
        told(&audit).starts_with("redirect outbox_stale "),
        "{audit:?}"
    );
    let row = desk.row(&id).await;
    assert_eq!((row.locked_by, row.status), (None, OutboxStatus::Pending));
    desk.server.behave(Manner::Well);
    let is_sent = || has_status(&desk, &id, OutboxStatus::Sent);
    desk.work_until("it is sent", is_sent).await;
}

crate::support::also_on_postgres! {
    a_missing_audit_is_written_again
    an_audit_that_never_ended_is_ended
}
