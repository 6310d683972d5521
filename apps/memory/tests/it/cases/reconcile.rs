//! Reconciling the outbox with its audits.

use std::{collections::BTreeMap, sync::Arc};

use consign_kernel::MessageId;
use consign_memory::{
    Action, AuditFilter, AuditStatus, Finding, Issue, MemoryCounts, OutboxCounts, OutboxStatus,
    ReconcileOptions, ReconcileOutcome,
};
use serde_json::json;
use tokio::task::JoinSet;

use super::Harness;
use super::fixture::{MemoryFixture, at, audit, corr, memory, put_off};
use consign_conformance::stage::{after, all, s};

impl MemoryFixture<'_> {
    async fn reconcile(&self, options: &ReconcileOptions) -> ReconcileOutcome {
        let reconciled = self.book.reconcile_memory(options).await;
        reconciled.expect("reconcile_memory answers")
    }

    async fn reconcile_as_usual(&self) -> ReconcileOutcome {
        self.reconcile(&ReconcileOptions::default()).await
    }

    async fn sent(&self, text: &str, memory_id: &str) -> MessageId {
        let id = self.put_text(text).await;
        self.claim("w1", 1).await;
        assert!(self.ack(id, "w1", Some(memory_id)).await);
        id
    }

    async fn dead(&self, text: &str) -> MessageId {
        let id = self.put_text(text).await;
        self.claim("w1", 1).await;
        assert!(self.bury(id, "w1", "api_error: 400 - no").await);
        id
    }
}

fn report_only() -> ReconcileOptions {
    ReconcileOptions {
        is_repairing: false,
        ..ReconcileOptions::default()
    }
}

fn issues(reconciled: &ReconcileOutcome) -> Vec<(Issue, Option<MessageId>, bool)> {
    let glance = |f: &Finding| (f.issue, f.outbox_id, f.fixed);
    reconciled.findings.iter().map(glance).collect()
}

pub(crate) async fn nothing_is_found_where_everything_fits(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    assert_eq!(
        fixture.reconcile_as_usual().await,
        ReconcileOutcome::default()
    );
    fixture.sent("sent", "mem-1").await;
    fixture.dead("dead").await;
    fixture.put_text("unlocked").await;
    let expected = ReconcileOutcome {
        sent_count: 1,
        dead_count: 1,
        ..ReconcileOutcome::default()
    };
    assert_eq!(fixture.reconcile_as_usual().await, expected);
    fixture.stage.advance(s(25 * 3_600)).await;
    assert_eq!(
        fixture.reconcile_as_usual().await,
        ReconcileOutcome::default(),
        "counts the last day"
    );
}

/// Exactly one, and the second pass changes nothing. Report-only writes nothing.
pub(crate) async fn a_missing_audit_is_written_once(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let sent = fixture.sent("sent", "mem-1").await;
    fixture.stage.advance(s(60)).await;
    let dead = fixture.dead("dead").await;
    let whole = fixture.sent("whole", "mem-2").await;
    harness.lose_audits(sent).await;
    harness.lose_audits(dead).await;

    let reported = fixture.reconcile(&report_only()).await;
    let expected = [
        (Issue::SentMissingAudit, Some(sent), false),
        (Issue::DeadMissingAudit, Some(dead), false),
    ];
    assert_eq!(issues(&reported), expected, "oldest first");
    assert!(!reported.has_more);
    assert_eq!(fixture.audits_of(sent).await, [], "nothing is written");

    let repaired = fixture.reconcile_as_usual().await;
    let expected = expected.map(|(issue, id, _)| (issue, id, true));
    assert_eq!(issues(&repaired), expected);
    for (id, reason, action) in [
        (sent, "outbox_flush_success", "allow"),
        (dead, "outbox_flush_dead", "reject"),
    ] {
        let audits = fixture.audits_of(id).await;
        assert_eq!(audits.len(), 1, "{audits:#?}");
        assert_eq!(audits[0].reason.as_deref(), Some(reason));
        assert_eq!(audits[0].action.as_str(), action);
        let json = &audits[0].evidence_refs_json;
        assert_eq!(at(json, "/source"), "reconcile_outbox");
        assert_eq!(at(json, "/gateway_event/operation"), "outbox_reconcile");
        assert_eq!(at(json, "/extra/reconciled"), true);
        let found = repaired.findings.iter().find(|f| f.outbox_id == Some(id));
        assert_eq!(found.and_then(|f| f.audit_id), Some(audits[0].audit_id));
    }
    let json = &fixture.audits_of(sent).await[0].evidence_refs_json;
    assert_eq!(at(json, "/memory_id"), "mem-1");
    let json = &fixture.audits_of(dead).await[0].evidence_refs_json;
    assert_eq!(at(json, "/extra/last_error"), "api_error: 400 - no");

    assert_eq!(fixture.reconcile_as_usual().await.findings, []);
    for id in [sent, dead, whole] {
        assert_eq!(fixture.audits_of(id).await.len(), 1);
    }
}

/// A dedup hit counts as present, and so does each death of a requeued memory.
pub(crate) async fn every_death_needs_its_audit(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.dead("text").await;
    let again = fixture.book.enqueue_memory(&memory("text")).await;
    again.expect("enqueue_memory answers");
    fixture.claim("w1", 1).await;
    harness.break_audits(true).await;
    assert!(fixture.bury(id, "w1", "again").await);
    harness.break_audits(false).await;
    assert_eq!(fixture.story(id).await, ["outbox_flush_dead"]);
    let repaired = fixture.reconcile_as_usual().await;
    assert_eq!(
        issues(&repaired),
        [(Issue::DeadMissingAudit, Some(id), true)]
    );
    assert_eq!(fixture.story(id).await, ["outbox_flush_dead"; 2]);
    assert_eq!(fixture.reconcile_as_usual().await.findings, []);
}

/// However old, and in as many passes as it takes.
pub(crate) async fn nothing_starves_behind_a_window(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(fixture.sent(&format!("text {n}"), "mem").await);
        fixture.stage.advance(s(60)).await;
    }
    fixture.stage.advance(s(48 * 3_600)).await;
    let young = fixture.sent("young", "mem").await;
    for id in ids.iter().chain([&young]) {
        harness.lose_audits(*id).await;
    }
    let few = ReconcileOptions {
        batch: 2,
        ..ReconcileOptions::default()
    };
    let mut seen = Vec::new();
    loop {
        let pass = fixture.reconcile(&few).await;
        assert!(pass.findings.len() <= 2);
        seen.extend(pass.findings.iter().filter_map(|f| f.outbox_id));
        if !pass.has_more {
            break;
        }
    }
    ids.push(young);
    assert_eq!(seen, ids, "oldest first, all of them");
}

/// A lock 11 minutes old is freed, one of 9 minutes is not, nor is one that is live.
pub(crate) async fn a_stale_lease_is_freed(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("stale").await;
    fixture.claim("w1", 1).await;
    let locked_at = fixture.stage.now().await;
    let live = fixture.put_text("live").await;
    let claimed = fixture.book.claim_outbox("w2", 1, s(3_600)).await;
    claimed.expect("claim_outbox answers");
    fixture.stage.advance(s(9 * 60)).await;
    assert_eq!(
        fixture.reconcile_as_usual().await,
        ReconcileOutcome::default()
    );
    fixture.stage.advance(s(2 * 60)).await;

    let expected = Finding {
        issue: Issue::StaleLock,
        outbox_id: Some(id),
        audit_id: None,
        locked_by: Some("w1".to_owned()),
        locked_at: Some(locked_at),
        fixed: false,
        rescheduled: false,
    };
    let reported = fixture.reconcile(&report_only()).await;
    assert_eq!(
        (reported.stale_count, &reported.findings[..]),
        (1, &[expected][..])
    );
    assert_eq!(fixture.row(id).await.locked_by.as_deref(), Some("w1"));
    assert_eq!(fixture.audits_of(id).await, []);

    let delayed = ReconcileOptions {
        reschedule_delay: s(30),
        ..ReconcileOptions::default()
    };
    let repaired = fixture.reconcile(&delayed).await;
    assert_eq!(issues(&repaired), [(Issue::StaleLock, Some(id), true)]);
    assert!(repaired.findings[0].rescheduled);
    let row = fixture.row(id).await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Pending, 0));
    assert_eq!((row.locked_by, row.locked_at), (None, None));
    let due = after(fixture.stage.now().await, s(30));
    assert_eq!(row.next_attempt_at, Some(due));
    let audits = fixture.audits_of(id).await;
    assert_eq!(audits.len(), 1);
    assert_eq!(audits[0].reason.as_deref(), Some("outbox_stale"));
    assert_eq!(audits[0].action.as_str(), "redirect");
    let json = &audits[0].evidence_refs_json;
    assert_eq!(at(json, "/source"), "reconcile_outbox");
    assert_eq!(at(json, "/extra/original_locked_by"), "w1");
    assert_eq!(at(json, "/extra/stale_threshold_seconds"), 600);
    assert_eq!(at(json, "/extra/will_reschedule"), true);
    assert!(
        !fixture.ack(id, "w1", Some("mem-1")).await,
        "it is over for w1"
    );
    fixture.stage.advance(s(30)).await;
    assert_eq!(fixture.claim_ids("w3", 10).await, [id]);
    assert!(fixture.ack(live, "w2", None).await, "w2 was left alone");
}

/// Every stale lease anew, but a renewed one never.
pub(crate) async fn a_lease_may_be_stale_again(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    for n in 1..=3 {
        fixture.claim("w1", 1).await;
        fixture.stage.advance(s(50)).await;
        assert!(fixture.renew(id, "w1").await);
        fixture.stage.advance(s(11 * 60)).await;
        let repaired = fixture.reconcile_as_usual().await;
        assert_eq!(
            issues(&repaired),
            [(Issue::StaleLock, Some(id), true)],
            "{n}"
        );
        assert_eq!(fixture.reconcile_as_usual().await.findings, []);
        assert_eq!(fixture.story(id).await.len(), n);
    }
    // Without rescheduling it reports the lease once and leaves it.
    fixture.claim("w1", 1).await;
    fixture.stage.advance(s(11 * 60)).await;
    let leave = ReconcileOptions {
        is_rescheduling: false,
        ..ReconcileOptions::default()
    };
    for _ in 0..2 {
        let pass = fixture.reconcile(&leave).await;
        assert_eq!(issues(&pass), [(Issue::StaleLock, Some(id), true)]);
        assert!(!pass.findings[0].rescheduled);
        assert_eq!(fixture.story(id).await.len(), 4, "one audit for a lease");
        assert_eq!(fixture.row(id).await.locked_by.as_deref(), Some("w1"));
    }
}

/// A reconciler never makes a row dead.
pub(crate) async fn a_reconciler_marks_no_message_dead(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    for _ in 0..5 {
        assert_eq!(fixture.claim_ids("w1", 1).await, [id]);
        fixture.stage.advance(s(11 * 60)).await;
    }
    let pass = fixture.reconcile_as_usual().await;
    assert_eq!(issues(&pass), [(Issue::StaleLock, Some(id), false)]);
    assert_eq!(fixture.row(id).await.status, OutboxStatus::Pending);
    assert_eq!(fixture.story(id).await, ["outbox_stale"]);
    assert_eq!(fixture.claim_ids("w2", 1).await, [], "a claim decides");
    assert_eq!(fixture.row(id).await.status, OutboxStatus::Dead);
}

pub(crate) async fn a_hanging_audit_ends_as_failed(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let old = fixture.begin(1, "old").await;
    fixture.stage.advance(s(3_600)).await;
    fixture.begin(2, "young").await;
    fixture.stage.advance(s(3_601)).await;
    let reported = fixture.reconcile(&report_only()).await;
    assert_eq!(issues(&reported), [(Issue::HangingAudit, None, false)]);
    assert_eq!(reported.findings[0].audit_id, Some(old));
    assert_eq!(fixture.audit_of(1).await.status, AuditStatus::Pending);
    let repaired = fixture.reconcile_as_usual().await;
    assert_eq!(issues(&repaired), [(Issue::HangingAudit, None, true)]);
    let ended = fixture.audit_of(1).await;
    assert_eq!(ended.status, AuditStatus::Failed);
    let reason = ended.reason.expect("a reason");
    assert_eq!(reason, "policy:policy_passed:audit_timeout");
    let json = &ended.evidence_refs_json;
    assert_eq!(at(json, "/reconcile_action"), "audit_timeout");
    assert_eq!(at(json, "/stale_duration_seconds"), 7_201);
    assert_eq!(at(json, "/gateway_event/operation"), "memory_store");
    assert_eq!(fixture.audit_of(2).await.status, AuditStatus::Pending);
    assert_eq!(fixture.reconcile_as_usual().await.findings, []);
}

/// Two at once write nothing twice.
pub(crate) async fn reconcilers_at_once_repair_once(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.sent("text", "mem-1").await;
    harness.lose_audits(id).await;
    let other = harness.another_book().await;
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let book = Arc::clone(if n % 2 == 0 { &fixture.book } else { &other });
        tasks.spawn(async move {
            let reconciled = book.reconcile_memory(&ReconcileOptions::default()).await;
            reconciled.expect("reconcile_memory answers").findings.len()
        });
    }
    assert_eq!(all(tasks).await.iter().sum::<usize>(), 1);
    assert_eq!(fixture.audits_of(id).await.len(), 1);
}

fn figures(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let owned = |&(word, count): &(&str, u64)| (word.to_owned(), count);
    pairs.iter().map(owned).collect()
}

pub(crate) async fn every_figure_of_nothing_is_there(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let counts = fixture.book.memory_counts().await.expect("an answer");
    let expected = MemoryCounts {
        outbox: figures(&[("pending", 0), ("sent", 0), ("dead", 0)]),
        departed: figures(&[("sent", 0), ("dead", 0)]),
        audits: figures(&[("allow", 0), ("redirect", 0), ("reject", 0)]),
        writes: figures(&[("allow", 0), ("redirect", 0), ("reject", 0)]),
        reasons: figures(&[
            ("policy", 0),
            ("openmemory_write_failed", 0),
            ("outbox_flush_success", 0),
            ("dedup_hit", 0),
            ("other", 0),
        ]),
        ..MemoryCounts::default()
    };
    assert_eq!(counts, expected);
}

/// Two writes of yesterday; today one put off and tried once, one row sent, one dedup hit with evidence,
/// one under way.
async fn two_days(fixture: &MemoryFixture<'_>) {
    fixture.write(&audit(1, "one", AuditStatus::Success)).await;
    let mut rejected = audit(2, "two", AuditStatus::Failed);
    rejected.action = Action::Reject;
    rejected.reason = Some("policy:unknown_space_type".to_owned());
    rejected.evidence_refs_json["gateway_event"]["policy_mode"] = json!("strict");
    fixture.write(&rejected).await;
    fixture.stage.advance(s(25 * 3_600)).await;
    fixture.begin(3, "three").await;
    let mut deferred = memory("three");
    deferred.correlation_id = Some(corr(3));
    let answer = fixture.book.defer(&deferred, &corr(3), &put_off()).await;
    let id = answer.expect("defer answers").enqueued.outbox_id;
    fixture.claim("w1", 1).await;
    assert!(fixture.retry(id, "w1", "boom", s(3_600)).await);
    fixture.sent("four", "mem-4").await;
    fixture.stage.advance(s(10)).await;
    let mut hit = audit(5, "five", AuditStatus::Success);
    let sha = "a".repeat(64);
    hit.reason = Some("dedup_hit".to_owned());
    hit.evidence_refs_json["patches"] =
        json!([{"artifact_uri": format!("memory://patch_blobs/git/1:abc/{sha}"), "sha256": sha}]);
    fixture.write(&hit).await;
    fixture.begin(6, "six").await;
}

/// Both equations of the report, and every figure.
pub(crate) async fn the_figures_add_up(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    two_days(&fixture).await;
    let counts = fixture.book.memory_counts().await.expect("an answer");
    let outbox = figures(&[("pending", 1), ("sent", 1), ("dead", 0)]);
    assert_eq!(counts.outbox, outbox);
    let short = fixture.book.outbox_counts().await.expect("an answer");
    let expected = OutboxCounts {
        pending: 1,
        sent: 1,
        dead: 0,
        pending_audits: 1,
    };
    assert_eq!(short, expected);
    assert_eq!(counts.average_retry_count, 0.5);
    assert_eq!(counts.oldest_pending_age_seconds, Some(10.0));
    let writes = figures(&[("allow", 3), ("redirect", 1), ("reject", 1)]);
    assert_eq!(counts.writes, writes, "one for each request");
    let audits = figures(&[("allow", 4), ("redirect", 2), ("reject", 1)]);
    assert_eq!(counts.audits, audits);
    let total = fixture.audits(&AuditFilter::default()).await.len() as u64;
    assert_eq!(counts.audits.values().sum::<u64>(), total);
    let reasons = figures(&[
        ("policy", 3),
        ("openmemory_write_failed", 1),
        ("outbox_flush_success", 1),
        ("dedup_hit", 1),
        ("other", 1),
    ]);
    assert_eq!(counts.reasons, reasons);
    assert_eq!(counts.audits_24h, total - 2);
    assert_eq!(counts.evidence, (1, 0));
    assert_eq!(counts.modes_7d, (total, 1, 0, 1));
    assert_eq!((counts.pending_audits, counts.deferred), (1, (1, 1)));
}
