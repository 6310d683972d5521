//! The queue `memory` with its logbook: what every case needs.

use std::{sync::Arc, time::Duration};

use consign_kernel::{MessageId, QueuePolicy, RetrySchedule};
use consign_memory::{
    Action, Audit, AuditEnd, AuditFilter, AuditStatus, Logbook, NewAudit, NewMemory, OutboxRow,
    QUEUE,
};
use serde_json::{Value, json};

use super::Harness;
use consign_conformance::stage::{Stage, queue};

/// How long leases live on every fixture.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// A fresh store with the queue `memory`: leases of two minutes, five tries, rests of two minutes
/// that double.
pub(crate) struct MemoryFixture<'a> {
    pub(crate) stage: Stage<'a>,
    pub(crate) book: Arc<dyn Logbook>,
}

/// The rules of the queue on every fixture; as the worker's, without jitter.
pub(crate) fn rules() -> QueuePolicy {
    QueuePolicy {
        lease_ttl_ms: 120_000,
        attempts_max: 5,
        retry: RetrySchedule::Exponential {
            base_ms: 120_000,
            factor: 2.0,
            max_ms: 3_600_000,
            jitter: 0.0,
        },
        record_begin: true,
        ..QueuePolicy::default()
    }
}

/// A memory in the team's space.
pub(crate) fn memory(text: &str) -> NewMemory {
    NewMemory {
        target_space: "team:p".to_owned(),
        payload_md: text.to_owned(),
        ..NewMemory::default()
    }
}

/// The `n`-th request. Far from the fences, by which audits of leases are identified.
pub(crate) fn corr(n: u64) -> String {
    format!("corr-c{n:015x}")
}

/// An audit of `memory_store` about a text in the team's space.
pub(crate) fn audit(n: u64, text: &str, status: AuditStatus) -> NewAudit {
    NewAudit {
        actor_user_id: Some("alice".to_owned()),
        target_space: "team:p".to_owned(),
        action: Action::Allow,
        reason: Some("policy:policy_passed".to_owned()),
        payload_sha: Some(consign_memory::payload_sha(text)),
        evidence_refs_json: json!({
            "gateway_event": {
                "schema_version": "2.0", "source": "gateway", "operation": "memory_store",
                "correlation_id": corr(n),
                "decision": {"action": "allow", "reason": "policy:policy_passed"},
            },
            "source": "gateway",
            "correlation_id": corr(n),
            "extra": {"correlation_id": corr(n)},
        }),
        correlation_id: Some(corr(n)),
        status,
    }
}

/// The end of a request whose memory was stored.
pub(crate) fn stored(memory_id: &str) -> AuditEnd {
    AuditEnd {
        status: AuditStatus::Success,
        action: None,
        reason: None,
        patch: json!({"memory_id": memory_id}),
    }
}

/// The end of a request whose memory was put off.
pub(crate) fn put_off() -> AuditEnd {
    AuditEnd {
        status: AuditStatus::Redirected,
        action: Some(Action::Redirect),
        reason: Some("openmemory_write_failed:connection_error".to_owned()),
        patch: json!({"intended_action": "allow", "extra": {"last_error": "boom"}}),
    }
}

/// A value within a document.
#[track_caller]
pub(crate) fn at<'a>(document: &'a Value, pointer: &str) -> &'a Value {
    let found = document.pointer(pointer);
    found.unwrap_or_else(|| panic!("{pointer} in {document:#}"))
}

impl<'a> MemoryFixture<'a> {
    pub(crate) async fn new(harness: &'a dyn Harness) -> Self {
        Self::with(harness, rules()).await
    }

    pub(crate) async fn with(harness: &'a dyn Harness, rules: QueuePolicy) -> Self {
        let fixture = Self::bare(harness);
        fixture.stage.add_queue(QUEUE, &rules).await;
        fixture
    }

    /// Without the queue.
    pub(crate) fn bare(harness: &'a dyn Harness) -> Self {
        let stage = Stage {
            harness,
            store: harness.store(),
            queue: queue(QUEUE),
        };
        let book = harness.book();
        Self { stage, book }
    }

    /// Enqueues a memory that must be new.
    pub(crate) async fn put(&self, memory: &NewMemory) -> MessageId {
        let enqueued = self.book.enqueue_memory(memory).await;
        let enqueued = enqueued.expect("enqueue_memory answers");
        assert_eq!(enqueued.twin, None, "new: {enqueued:?}");
        enqueued.outbox_id
    }

    /// Enqueues one memory in the team's space.
    pub(crate) async fn put_text(&self, text: &str) -> MessageId {
        self.put(&memory(text)).await
    }

    /// Enqueues a memory for each moment, a minute apart, the first one longest ago.
    pub(crate) async fn put_by_the_minute(&self, count: usize) -> Vec<MessageId> {
        let mut ids = Vec::new();
        for n in 0..count {
            ids.push(self.put_text(&format!("memory {n}")).await);
            self.stage.advance(Duration::from_secs(60)).await;
        }
        ids
    }

    pub(crate) async fn claim(&self, worker: &str, limit: u32) -> Vec<OutboxRow> {
        let claimed = self.book.claim_outbox(worker, limit, LEASE).await;
        claimed.expect("claim_outbox answers")
    }

    /// The rows of a claim, in its order.
    pub(crate) async fn claim_ids(&self, worker: &str, limit: u32) -> Vec<MessageId> {
        let rows = self.claim(worker, limit).await;
        rows.iter().map(|row| row.outbox_id).collect()
    }

    pub(crate) async fn ack(&self, id: MessageId, worker: &str, memory_id: Option<&str>) -> bool {
        let answer = self.book.ack_sent(id, worker, memory_id).await;
        answer.expect("ack_sent answers")
    }

    pub(crate) async fn retry(
        &self,
        id: MessageId,
        worker: &str,
        error: &str,
        rest: Duration,
    ) -> bool {
        let at = consign_conformance::stage::after(self.stage.now().await, rest);
        let answer = self.book.fail_retry(id, worker, error, at).await;
        answer.expect("fail_retry answers")
    }

    pub(crate) async fn bury(&self, id: MessageId, worker: &str, error: &str) -> bool {
        let answer = self.book.mark_dead_by_worker(id, worker, error).await;
        answer.expect("mark_dead_by_worker answers")
    }

    pub(crate) async fn renew(&self, id: MessageId, worker: &str) -> bool {
        let answer = self.book.renew_lease(id, worker).await;
        answer.expect("renew_lease answers")
    }

    pub(crate) async fn row(&self, id: MessageId) -> OutboxRow {
        let row = self.book.outbox_row(id).await.expect("outbox_row answers");
        row.unwrap_or_else(|| panic!("row {id} exists"))
    }

    /// Writes an audit of `memory_store` and answers with its number.
    pub(crate) async fn write(&self, audit: &NewAudit) -> i64 {
        let written = self.book.insert_audit(audit).await;
        written.expect("insert_audit answers")
    }

    /// Writes the pending audit of the `n`-th request.
    pub(crate) async fn begin(&self, n: u64, text: &str) -> i64 {
        self.write(&audit(n, text, AuditStatus::Pending)).await
    }

    pub(crate) async fn finalize(&self, n: u64, end: &AuditEnd) -> bool {
        let ended = self.book.finalize_audit(&corr(n), end).await;
        ended.expect("finalize_audit answers")
    }

    pub(crate) async fn audits(&self, filter: &AuditFilter) -> Vec<Audit> {
        let found = self.book.audits(filter, 1_000).await;
        found.expect("audits answers")
    }

    /// All audits about a row, oldest first.
    pub(crate) async fn audits_of(&self, id: MessageId) -> Vec<Audit> {
        let filter = AuditFilter {
            outbox_id: Some(id.0),
            ..AuditFilter::default()
        };
        let mut found = self.audits(&filter).await;
        found.reverse();
        found
    }

    /// The reasons of the audits about a row, oldest first.
    pub(crate) async fn story(&self, id: MessageId) -> Vec<String> {
        let audits = self.audits_of(id).await;
        let reason = |audit: Audit| audit.reason.unwrap_or_default();
        audits.into_iter().map(reason).collect()
    }

    /// The audit of the `n`-th request.
    pub(crate) async fn audit_of(&self, n: u64) -> Audit {
        let filter = AuditFilter {
            correlation_id: Some(corr(n)),
            ..AuditFilter::default()
        };
        let mut found = self.audits(&filter).await;
        assert_eq!(found.len(), 1, "one audit of a request: {found:#?}");
        found.remove(0)
    }
}
