//! Every outcome of a memory is audited in the transaction that records it.

use consign_kernel::{
    Lease, MessageId, OnUncertain, Outcome, QueuePolicy, Report, Resolution, SettleAnswer,
};
use consign_memory::{Action, Audit, AuditStatus, NewMemory};
use serde_json::{Value, json};

use super::Harness;
use super::fixture::{MemoryFixture, at, memory, rules};
use consign_conformance::stage::{by, s, settled};

fn report(id: MessageId, outcome: Outcome, code: &str, detail: Option<&str>) -> Report {
    Report {
        code: Some(code.to_owned()),
        detail: detail.map(str::to_owned),
        ..Report::new(id, outcome)
    }
}

fn sent(id: MessageId, code: &str, result: Value) -> Report {
    Report {
        result: Some(result),
        ..report(id, Outcome::Delivered, code, None)
    }
}

impl MemoryFixture<'_> {
    /// Claims the only memory that is due and reports about it.
    async fn work_off(&self, report: impl Fn(MessageId) -> Report) -> (Lease, MessageId) {
        let lease = self.stage.claim(1).await;
        let id = lease.messages[0].message.id;
        settled(self.stage.settle(&lease, &[report(id)]).await);
        (lease, id)
    }

    /// The only audit about a row.
    async fn only_audit(&self, id: MessageId) -> Audit {
        let mut audits = self.audits_of(id).await;
        assert_eq!(audits.len(), 1, "{audits:#?}");
        audits.remove(0)
    }
}

/// Common fields of flush audits.
#[track_caller]
fn check(audit: &Audit, id: MessageId, lease: &Lease, expected: (Action, &str, AuditStatus)) {
    let (action, reason, status) = expected;
    assert_eq!(audit.reason.as_deref(), Some(reason));
    assert_eq!((audit.action, audit.status), (action, status), "{reason}");
    let correlation = format!("corr-{:016x}", lease.fence.0);
    assert_eq!(audit.correlation_id.as_deref(), Some(&*correlation));
    assert_eq!(audit.updated_at, None, "final from the start");
    let json = &audit.evidence_refs_json;
    let worker = json!("worker-1");
    for (pointer, expected) in [
        ("/outbox_id", json!(id.0)),
        ("/source", json!("outbox_worker")),
        ("/payload_sha", json!(audit.payload_sha)),
        ("/correlation_id", json!(correlation)),
        ("/worker_id", worker.clone()),
        ("/extra/correlation_id", json!(correlation)),
        ("/extra/worker_id", worker),
        ("/extra/attempt_id", at(json, "/attempt_id").clone()),
        ("/gateway_event/schema_version", json!("2.0")),
        ("/gateway_event/source", json!("outbox_worker")),
        ("/gateway_event/operation", json!("outbox_flush")),
        ("/gateway_event/correlation_id", json!(correlation)),
        ("/gateway_event/decision/action", json!(action.as_str())),
        ("/gateway_event/decision/reason", json!(reason)),
        ("/gateway_event/outbox_id", json!(id.0)),
        ("/gateway_event/final_space", json!(audit.target_space)),
        ("/gateway_event/payload_sha", json!(audit.payload_sha)),
    ] {
        assert_eq!(at(json, pointer), &expected, "{reason}: {pointer}");
    }
    let attempt = at(json, "/attempt_id").as_str().expect("a name");
    let digits = attempt.strip_prefix("attempt-").expect("its beginning");
    assert!(
        digits.len() == 12 && digits.bytes().all(|b| b.is_ascii_hexdigit()),
        "{attempt}"
    );
    assert!(digits.starts_with(&format!("{:08x}", id.0)), "{attempt}");
}

pub(crate) async fn a_delivery_is_audited(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("текст").await;
    let result = json!({"memory_id": "mem-1"});
    let (lease, _) = fixture
        .work_off(|id| sent(id, "stored", result.clone()))
        .await;
    let audit = fixture.only_audit(id).await;
    let expected = (Action::Allow, "outbox_flush_success", AuditStatus::Success);
    check(&audit, id, &lease, expected);
    assert_eq!(audit.target_space, "team:p");
    assert_eq!(audit.actor_user_id, None, "a team's space has no actor");
    let json = &audit.evidence_refs_json;
    assert_eq!(at(json, "/memory_id"), "mem-1");
    assert_eq!(at(json, "/retry_count"), 0);
    assert_eq!(at(json, "/gateway_event/payload_len"), 5, "characters");
    assert_eq!(json.get("next_attempt_at"), None);
    let row = fixture.row(id).await;
    assert_eq!(row.last_error.as_deref(), Some("memory_id=mem-1"));
}

pub(crate) async fn a_dedup_hit_is_audited_as_one(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    let result = json!({"memory_id": "m0", "original_outbox_id": 7});
    let (lease, _) = fixture
        .work_off(|id| sent(id, "dedup_hit", result.clone()))
        .await;
    let audit = fixture.only_audit(id).await;
    let expected = (
        Action::Allow,
        "outbox_flush_dedup_hit",
        AuditStatus::Success,
    );
    check(&audit, id, &lease, expected);
    let json = &audit.evidence_refs_json;
    assert_eq!(at(json, "/memory_id"), "m0");
    assert_eq!(at(json, "/original_outbox_id"), 7);
    assert_eq!(at(json, "/extra/original_outbox_id"), 7);

    let nameless = fixture.put_text("nameless").await;
    fixture
        .work_off(|id| sent(id, "dedup_hit", json!({})))
        .await;
    let audit = fixture.only_audit(nameless).await;
    assert_eq!(audit.evidence_refs_json.get("memory_id"), None);
    assert_eq!(fixture.row(nameless).await.last_error, None);
}

/// A retry of the server, and the two codes of a database that fails.
pub(crate) async fn every_repeat_is_audited_by_its_code(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    let detail = Some("connection_error: refused");
    let table = [
        (Outcome::Retry, "connection_error", "outbox_flush_retry"),
        (Outcome::Retry, "db_timeout", "outbox_flush_db_timeout"),
        (Outcome::Retry, "db_error", "outbox_flush_db_error"),
        (Outcome::Uncertain, "connection_error", "outbox_flush_retry"),
    ];
    for (n, (outcome, code, reason)) in table.into_iter().enumerate() {
        let (lease, _) = fixture
            .work_off(|id| report(id, outcome, code, detail))
            .await;
        let audits = fixture.audits_of(id).await;
        assert_eq!(audits.len(), n + 1);
        let audit = &audits[n];
        let expected = (Action::Redirect, reason, AuditStatus::Redirected);
        check(audit, id, &lease, expected);
        let json = &audit.evidence_refs_json;
        assert_eq!(at(json, "/retry_count"), n + 1);
        assert_eq!(at(json, "/extra/last_error"), "connection_error: refused");
        let row = fixture.row(id).await;
        let due = row.next_attempt_at.expect("a time");
        let said = at(json, "/next_attempt_at").as_str().expect("a time");
        assert_eq!(said.parse().ok(), Some(due), "{said}");
        assert_eq!(row.last_error.as_deref(), detail);
        assert_eq!(row.retry_count, n as i64 + 1);
        fixture.stage.advance(s(3_600)).await;
    }
}

/// Four retries and a dead attempt; the row counts four, the audit five.
pub(crate) async fn a_memory_that_used_up_its_tries_is_dead(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    let mut last = None;
    for _ in 0..5 {
        let detail = Some("api_error: 503 - down");
        let failed = |id| report(id, Outcome::Retry, "api_error", detail);
        last = Some(fixture.work_off(failed).await.0);
        fixture.stage.advance(s(3_600)).await;
    }
    let retry = "outbox_flush_retry".to_owned();
    let mut story = vec![retry; 4];
    story.push("outbox_flush_dead".to_owned());
    assert_eq!(fixture.story(id).await, story);
    let audit = fixture.audits_of(id).await.pop().expect("an audit");
    let expected = (Action::Reject, "outbox_flush_dead", AuditStatus::Failed);
    check(&audit, id, &last.expect("a lease"), expected);
    assert_eq!(at(&audit.evidence_refs_json, "/retry_count"), 5);
    let error = at(&audit.evidence_refs_json, "/extra/last_error");
    assert_eq!(error, "api_error: 503 - down");
    let row = fixture.row(id).await;
    assert_eq!(row.retry_count, 4);
    assert!(
        row.last_error
            .expect("an error")
            .starts_with("api_error: 503")
    );
}

/// Refused at once.
pub(crate) async fn a_refused_memory_is_dead_at_once(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    let detail = Some("api_error: 422 - no");
    let (lease, _) = fixture
        .work_off(|id| report(id, Outcome::Dead, "api_error", detail))
        .await;
    let audit = fixture.only_audit(id).await;
    let expected = (Action::Reject, "outbox_flush_dead", AuditStatus::Failed);
    check(&audit, id, &lease, expected);
    assert_eq!(at(&audit.evidence_refs_json, "/retry_count"), 1);
}

/// The actor; otherwise the user of the space.
pub(crate) async fn the_actor_of_a_flush_is_who_wanted_it(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let actor = |name: &str| Some(name.to_owned());
    let table = [
        ("private:alice", None, actor("alice")),
        ("private:alice", actor("bob"), actor("bob")),
        ("team:p", actor("bob"), actor("bob")),
        ("team:p", None, None),
    ];
    for (n, (space, actor_user_id, expected)) in table.into_iter().enumerate() {
        let id = fixture
            .put(&NewMemory {
                target_space: space.to_owned(),
                actor_user_id,
                ..memory(&format!("text {n}"))
            })
            .await;
        fixture.work_off(|id| sent(id, "stored", json!({}))).await;
        assert_eq!(
            fixture.only_audit(id).await.actor_user_id,
            expected,
            "{space}"
        );
    }
}

/// One request to the queue, one correlation id; an attempt each.
pub(crate) async fn a_batch_shares_its_correlation_id(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let ids = [fixture.put_text("one").await, fixture.put_text("two").await];
    let lease = fixture.stage.claim(10).await;
    let reports = [
        report(
            ids[0],
            Outcome::Retry,
            "connection_error",
            Some("connection_error: x"),
        ),
        sent(ids[1], "stored", json!({"memory_id": "mem-1"})),
    ];
    settled(fixture.stage.settle(&lease, &reports).await);
    let (one, two) = (
        fixture.only_audit(ids[0]).await,
        fixture.only_audit(ids[1]).await,
    );
    assert_eq!(one.correlation_id, two.correlation_id);
    let attempt = |audit: &Audit| at(&audit.evidence_refs_json, "/attempt_id").clone();
    assert_ne!(attempt(&one), attempt(&two));
}

/// A worker in another language reports fewer fields.
pub(crate) async fn a_delivery_without_a_word_is_audited_too(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let ids = [
        fixture.put_text("one").await,
        fixture.put_text("two").await,
        fixture.put_text("three").await,
    ];
    let lease = fixture.stage.claim(10).await;
    settled(
        fixture
            .stage
            .settle(&lease, &[Report::delivered(ids[1])])
            .await,
    );
    let rest = [Report::delivered(ids[0]), Report::delivered(ids[2])];
    settled(fixture.stage.settle(&lease, &rest).await);
    for &id in &ids {
        let audit = fixture.only_audit(id).await;
        let expected = (Action::Allow, "outbox_flush_success", AuditStatus::Success);
        check(&audit, id, &lease, expected);
    }
}

/// An expiry has no audit; a death by expiries has one.
pub(crate) async fn an_expiry_is_not_audited_but_a_death_is(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    for n in 1..=5 {
        fixture.stage.claim(1).await;
        fixture.stage.advance(s(120)).await;
        fixture
            .stage
            .store
            .expire(10)
            .await
            .expect("expire answers");
        let expected = usize::from(n == 5);
        assert_eq!(fixture.audits_of(id).await.len(), expected, "crash {n}");
    }
    assert_eq!(fixture.story(id).await, ["outbox_flush_dead"]);
    assert_eq!(fixture.row(id).await.retry_count, 0);
}

/// A person who finds out about a held memory.
pub(crate) async fn a_resolved_memory_is_audited(harness: &dyn Harness) {
    let held = QueuePolicy {
        on_uncertain: OnUncertain::Hold,
        ..rules()
    };
    let fixture = MemoryFixture::with(harness, held).await;
    for (resolution, reason) in [
        (Resolution::DELIVERED, "outbox_flush_success"),
        (Resolution::Dead, "outbox_flush_dead"),
        (Resolution::Unknown, "outbox_flush_dead"),
    ] {
        let id = fixture.put_text(resolution.as_str()).await;
        fixture
            .work_off(|id| report(id, Outcome::Uncertain, "connection_error", None))
            .await;
        assert_eq!(fixture.audits_of(id).await, [], "nothing is decided");
        let moved = fixture.stage.store.resolve(&[id], &resolution, &by()).await;
        moved.expect("resolve answers");
        assert_eq!(fixture.story(id).await, [reason]);
    }
}

/// By the worker of the kernel, and by the seed's primitives.
pub(crate) async fn a_late_result_is_a_conflict(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let table = [
        (
            sent(MessageId(0), "stored", json!({"memory_id": "mem-1"})),
            "success",
        ),
        (sent(MessageId(0), "dedup_hit", json!({})), "dedup_hit"),
        (
            report(MessageId(0), Outcome::Retry, "x", Some("x")),
            "retry",
        ),
        (
            report(MessageId(0), Outcome::Uncertain, "x", Some("x")),
            "retry",
        ),
        (report(MessageId(0), Outcome::Dead, "x", Some("x")), "dead"),
    ];
    for (n, (late, intended)) in table.into_iter().enumerate() {
        let id = fixture.put_text(&format!("text {n}")).await;
        let lease = fixture.stage.claim(1).await;
        fixture.stage.advance(s(121)).await;
        assert_eq!(fixture.claim_ids("other", 1).await, [id]);
        let late = Report { id, ..late };
        let answer = fixture
            .stage
            .settle(&lease, std::slice::from_ref(&late))
            .await;
        assert_eq!(answer, SettleAnswer::LeaseLost);
        let kept = fixture.stage.store.record_late(lease.token, &[late]).await;
        assert_eq!(kept.expect("record_late answers"), [id]);
        let audit = fixture.only_audit(id).await;
        let expected = (
            Action::Redirect,
            "outbox_flush_conflict",
            AuditStatus::Redirected,
        );
        check(&audit, id, &lease, expected);
        let json = &audit.evidence_refs_json;
        assert_eq!(at(json, "/intended_action"), intended);
        assert_eq!(at(json, "/extra/intended_action"), intended);
        assert_eq!(at(json, "/extra/observed_status"), "pending");
        assert_eq!(at(json, "/extra/observed_locked_by"), "other");
        assert!(fixture.ack(id, "other", Some("mem-2")).await);
    }
}

/// A rejected report of a worker without a lease is recorded, once.
pub(crate) async fn a_worker_that_comes_too_late_leaves_a_conflict(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    fixture.claim("w1", 1).await;
    assert!(!fixture.ack(id, "w2", Some("mem-2")).await, "never had it");
    assert_eq!(fixture.audits_of(id).await, []);
    fixture.stage.advance(s(61)).await;
    for _ in 0..2 {
        assert!(!fixture.ack(id, "w1", Some("mem-1")).await);
    }
    assert_eq!(fixture.claim_ids("w2", 1).await, [id]);
    assert!(fixture.ack(id, "w2", Some("mem-2")).await);
    let story = ["outbox_flush_conflict", "outbox_flush_success"];
    assert_eq!(fixture.story(id).await, story);
    assert!(
        !fixture.ack(id, "w2", Some("mem-2")).await,
        "reported before"
    );
    assert_eq!(fixture.story(id).await, story, "which is no conflict");
}

/// By the seed's primitives: the same audits.
pub(crate) async fn the_seeds_primitives_are_audited(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    fixture.claim("w1", 1).await;
    assert!(fixture.retry(id, "w1", "connection_error: x", s(0)).await);
    fixture.claim("w1", 1).await;
    assert!(fixture.bury(id, "w1", "api_error: 400 - x").await);
    let again = fixture.book.enqueue_memory(&memory("text")).await;
    again.expect("enqueue_memory answers");
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(id, "w1", Some("mem-1")).await);
    let audits = fixture.audits_of(id).await;
    let table = [
        ("outbox_flush_retry", "connection_error: x", 1),
        ("outbox_flush_dead", "api_error: 400 - x", 2),
        ("outbox_flush_success", "", 0),
    ];
    assert_eq!(audits.len(), table.len());
    for (audit, (reason, error, retry_count)) in audits.iter().zip(table) {
        assert_eq!(audit.reason.as_deref(), Some(reason));
        let json = &audit.evidence_refs_json;
        assert_eq!(at(json, "/worker_id"), "w1");
        assert_eq!(at(json, "/retry_count"), retry_count, "{reason}");
        let said = json.pointer("/extra/last_error").and_then(Value::as_str);
        assert_eq!(said.unwrap_or_default(), error);
    }
}

/// An audit that cannot be written never turns a good outcome into another one.
pub(crate) async fn an_outcome_stands_although_its_audit_fails(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let ids = fixture.put_by_the_minute(3).await;
    fixture.claim("w1", 3).await;
    harness.break_audits(true).await;
    assert!(fixture.ack(ids[0], "w1", Some("mem-1")).await);
    assert!(fixture.retry(ids[1], "w1", "boom", s(60)).await);
    assert!(fixture.bury(ids[2], "w1", "boom").await);
    let failed = fixture
        .book
        .insert_audit(&super::fixture::audit(1, "x", AuditStatus::Pending))
        .await;
    assert!(failed.is_err(), "{failed:?}");
    harness.break_audits(false).await;
    for &id in &ids {
        assert_eq!(fixture.audits_of(id).await, []);
    }
    let reconciled = fixture.book.reconcile_memory(&Default::default()).await;
    let reconciled = reconciled.expect("reconcile_memory answers");
    assert_eq!(reconciled.findings.len(), 2, "{reconciled:#?}");
    assert_eq!(fixture.story(ids[0]).await, ["outbox_flush_success"]);
    assert_eq!(fixture.story(ids[2]).await, ["outbox_flush_dead"]);
}
