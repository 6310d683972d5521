//! Memories leave with their rows of the outbox; their audits stay and answer for them.

use consign_conformance::stage::{Maintenance, done, s};
use consign_kernel::{MessageId, QueuePolicy};
use consign_memory::{
    AuditEnd, AuditStatus, EnqueuedMemory, KnownMemory, NewMemory, OpenResult, OutboxStatus,
    ReconcileOptions, ReconcileOutcome, Twin, payload_sha,
};
use serde_json::json;

use super::Harness;
use super::{
    fixture::{MemoryFixture, audit, corr, memory, put_off, rules},
    open::{fresh, open, opening},
};

/// Keeps finished memories for a minute, and keys for an hour.
pub(crate) fn keeping() -> QueuePolicy {
    QueuePolicy {
        keep_ms: Some(60_000),
        keep_dead_ms: Some(60_000),
        keep_keys_ms: Some(3_600_000),
        ..rules()
    }
}

/// A fixture whose queue lets memories leave, and the maintenance.
pub(super) async fn maintained(harness: &dyn Harness) -> (MemoryFixture<'_>, Maintenance) {
    let fixture = MemoryFixture::with(harness, keeping()).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    (fixture, maintenance)
}

impl MemoryFixture<'_> {
    /// Sends a memory that must be new.
    pub(super) async fn deliver(&self, memory: &NewMemory, memory_id: Option<&str>) -> MessageId {
        let id = self.put(memory).await;
        self.claim("w1", 1).await;
        assert!(self.ack(id, "w1", memory_id).await);
        id
    }

    /// Gives a memory up that must be new.
    async fn give_up(&self, text: &str) -> MessageId {
        let id = self.put_text(text).await;
        self.claim("w1", 1).await;
        assert!(self.bury(id, "w1", "api_error: 503").await);
        id
    }

    async fn enqueue(&self, memory: &NewMemory) -> EnqueuedMemory {
        let enqueued = self.book.enqueue_memory(memory).await;
        enqueued.expect("enqueue_memory answers")
    }

    async fn known_as(&self, text: &str) -> Option<KnownMemory> {
        let sha = payload_sha(text);
        let found = self.book.check_dedup("team:p", &sha, None).await;
        found.expect("check_dedup answers")
    }

    async fn is_in_outbox(&self, id: MessageId) -> bool {
        let row = self.book.outbox_row(id).await;
        row.expect("outbox_row answers").is_some()
    }

    /// Neither doctor nor a reconciliation finds anything.
    async fn examine(&self) {
        let findings = self.stage.store.doctor().await;
        assert_eq!(findings.expect("doctor answers"), []);
        assert_eq!(self.pass().await.findings, []);
    }

    /// A reconciliation.
    async fn pass(&self) -> ReconcileOutcome {
        let options = ReconcileOptions::default();
        let pass = self.book.reconcile_memory(&options).await;
        pass.expect("reconcile_memory answers")
    }

    /// Begins the `n`-th request, about a text, and defers it.
    async fn put_off(&self, n: u64, memory: &NewMemory) -> EnqueuedMemory {
        self.begin(n, &memory.payload_md).await;
        let deferred = self.book.defer(memory, &corr(n), &put_off()).await;
        let deferred = deferred.expect("defer answers");
        assert!(deferred.is_audited);
        deferred.enqueued
    }
}

async fn forget(fixture: &MemoryFixture<'_>, maintenance: &Maintenance) -> u64 {
    maintenance.renew().await;
    let forgotten = fixture.stage.store.forget_keys(maintenance.token, 100);
    done(forgotten.await)
}

fn failed() -> AuditEnd {
    AuditEnd {
        status: AuditStatus::Failed,
        action: None,
        reason: None,
        patch: json!({}),
    }
}

fn sent(id: MessageId, memory_id: Option<&str>) -> KnownMemory {
    KnownMemory {
        outbox_id: Some(id),
        memory_id: memory_id.map(str::to_owned),
    }
}

pub(crate) async fn a_memory_leaves_and_its_audits_stay(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    let delivered = fixture.deliver(&memory("sent"), Some("mem-1")).await;
    let dead = fixture.give_up("dead").await;
    let pending = fixture.put_text("pending").await;
    let before = [
        fixture.audits_of(delivered).await,
        fixture.audits_of(dead).await,
    ];
    assert!(before.iter().all(|audits| audits.len() == 1), "{before:#?}");
    fixture.stage.advance(s(59)).await;
    assert_eq!(maintenance.leave().await, 0, "not before their time");
    fixture.stage.advance(s(1)).await;
    assert_eq!(maintenance.leave().await, 2);
    for id in [delivered, dead] {
        assert!(!fixture.is_in_outbox(id).await, "{id}");
    }
    let after = [
        fixture.audits_of(delivered).await,
        fixture.audits_of(dead).await,
    ];
    assert_eq!(after, before);
    let row = fixture.row(pending).await;
    assert_eq!(row.status, OutboxStatus::Pending);
    fixture.examine().await;
    // A worker that comes back finds nothing to report about.
    assert!(!fixture.ack(delivered, "w1", Some("mem-2")).await);
    assert!(!fixture.bury(dead, "w1", "again").await);
    assert_eq!(fixture.audits_of(dead).await, before[1]);
}

/// Direct successes and rows that were sent, with an id and without.
pub(crate) async fn a_memory_that_left_is_still_known(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    let here = |text| NewMemory {
        backend: Some("openmemory:http://here".to_owned()),
        ..memory(text)
    };
    let there = |text| NewMemory {
        backend: Some("openmemory:http://there".to_owned()),
        ..memory(text)
    };
    let texts = [("named", Some("mem-1")), ("nameless", None)];
    let mut ids = Vec::new();
    for (text, memory_id) in texts {
        ids.push(fixture.deliver(&here(text), memory_id).await);
    }
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 2);
    for ((text, memory_id), id) in texts.into_iter().zip(&ids) {
        let known = Some(sent(*id, memory_id));
        assert_eq!(fixture.known_as(text).await, known, "{text}");
        let twin = Some(Twin::Sent(memory_id.map(str::to_owned)));
        for memory in [here(text), memory(text)] {
            let again = fixture.enqueue(&memory).await;
            assert_eq!((again.outbox_id, &again.twin), (*id, &twin), "{text}");
        }
        let elsewhere = fixture.enqueue(&there(text)).await;
        assert_eq!(elsewhere.twin, None, "its backend does not have {text}");
        assert!(fixture.is_in_outbox(elsewhere.outbox_id).await);
    }
    assert_eq!(forget(&fixture, &maintenance).await, 0, "keys are kept");
    // The key is free; the audits know the text all the same.
    fixture.stage.advance(s(3_600 - 60)).await;
    assert_eq!(forget(&fixture, &maintenance).await, 2);
    for ((text, memory_id), id) in texts.into_iter().zip(&ids) {
        let known = Some(sent(*id, memory_id));
        assert_eq!(fixture.known_as(text).await, known, "{text}");
        let fresh = fixture.enqueue(&here(text)).await;
        assert_eq!(fresh.twin, None, "{text}");
        assert_ne!(fresh.outbox_id, *id);
    }
    fixture.examine().await;
}

/// Delivered is final: what the backend has lost is deferred once more.
pub(crate) async fn what_left_and_is_gone_gets_a_row_of_its_own(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    let first = fixture.deliver(&memory("text"), Some("mem-1")).await;
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1);
    let second = fixture.put_off(1, &memory("text")).await;
    assert_eq!(second.twin, None);
    assert_ne!(second.outbox_id, first);
    let again = fixture.put_off(2, &memory("text")).await;
    assert_eq!(again.outbox_id, second.outbox_id, "one of them waits");
    assert_eq!(again.twin, Some(Twin::Pending));
    fixture.examine().await;
}

/// The backend may have it, and the row cannot be requeued.
pub(crate) async fn a_dead_memory_that_left_is_in_doubt(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    let dead = fixture.give_up("text").await;
    let requeued = fixture.give_up("requeued").await;
    let again = fixture.enqueue(&memory("requeued")).await;
    assert_eq!(
        (again.outbox_id, again.twin),
        (requeued, Some(Twin::Requeued))
    );
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(requeued, "w1", None).await);
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 2);
    let doubt = OpenResult::Pending { in_doubt: true };
    assert_eq!(open(&fixture, &opening(1, "text")).await, doubt);
    assert!(fixture.finalize(1, &failed()).await);
    // Sent after its requeue: known, and where the backend lost it there is no doubt.
    assert!(fixture.known_as("requeued").await.is_some());
    let mut lost = opening(2, "requeued");
    lost.is_deduplicated = false;
    assert_eq!(open(&fixture, &lost).await, fresh());
    assert!(fixture.finalize(2, &failed()).await);
    // Without its key too.
    fixture.stage.advance(s(3_600 - 60)).await;
    assert_eq!(forget(&fixture, &maintenance).await, 2);
    assert_eq!(open(&fixture, &opening(3, "text")).await, doubt);
    assert!(fixture.finalize(3, &failed()).await);
    let fresh = fixture.enqueue(&memory("text")).await;
    assert_eq!(fresh.twin, None, "a row that left cannot be requeued");
    assert_ne!(fresh.outbox_id, dead);
}

/// The dead row's key is kept: the memory gets the next one.
pub(crate) async fn a_dead_memory_that_left_is_enqueued_anew(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    let dead = fixture.give_up("text").await;
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1);
    let anew = fixture.enqueue(&memory("text")).await;
    assert_eq!(anew.twin, None);
    assert_ne!(anew.outbox_id, dead);
    let again = fixture.enqueue(&memory("text")).await;
    assert_eq!(
        (again.outbox_id, again.twin),
        (anew.outbox_id, Some(Twin::Pending))
    );
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(anew.outbox_id, "w1", Some("mem-1")).await);
    let known = Some(sent(anew.outbox_id, Some("mem-1")));
    assert_eq!(fixture.known_as("text").await, known);
    fixture.examine().await;
}

/// The first key of a memory is forgotten while its second row waits.
pub(crate) async fn a_forgotten_key_hides_no_row(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    fixture.deliver(&memory("text"), Some("mem-1")).await;
    // Its space ends like a key, and so does its own key: no row of the other memory.
    let alike = NewMemory {
        target_space: format!("team:p#{}#2", payload_sha("text")),
        ..memory("alike")
    };
    fixture.put(&alike).await;
    let second = fixture.put_off(1, &memory("text")).await.outbox_id;
    fixture.stage.advance(s(3_600)).await;
    assert_eq!(maintenance.leave().await, 1);
    assert_eq!(forget(&fixture, &maintenance).await, 1);
    let again = fixture.enqueue(&memory("text")).await;
    assert_eq!((again.outbox_id, again.twin), (second, Some(Twin::Pending)));
    let mut lost = opening(2, "text");
    lost.is_deduplicated = false;
    let doubt = OpenResult::Pending { in_doubt: true };
    assert_eq!(open(&fixture, &lost).await, doubt, "it may be in delivery");
}

/// What a reconciliation still has to compare.
pub(crate) async fn a_memory_stays_until_its_outcome_is_audited(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    let delivered = fixture.deliver(&memory("sent"), Some("mem-1")).await;
    let dead = fixture.give_up("dead").await;
    // Its second death has no audit; the first one has.
    let twice = fixture.give_up("twice").await;
    fixture.enqueue(&memory("twice")).await;
    fixture.claim("w1", 1).await;
    harness.break_audits(true).await;
    assert!(fixture.bury(twice, "w1", "again").await);
    harness.break_audits(false).await;
    for id in [delivered, dead] {
        harness.lose_audits(id).await;
    }
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 0);
    assert_eq!(fixture.pass().await.findings.len(), 3);
    assert_eq!(maintenance.leave().await, 3);
    fixture.examine().await;
}

/// About the row, about its request, and about its text.
pub(crate) async fn a_pending_audit_keeps_its_memory(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    let row = fixture.deliver(&memory("row"), Some("mem-1")).await;
    let mut about = audit(1, "unrelated", AuditStatus::Pending);
    about.evidence_refs_json["outbox_id"] = json!(row);
    fixture.write(&about).await;

    let deferred = NewMemory {
        correlation_id: Some(corr(2)),
        ..memory("request")
    };
    let request = fixture.put_off(2, &deferred).await.outbox_id;
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(request, "w1", Some("mem-2")).await);
    fixture.begin(2, "unrelated").await;

    fixture.deliver(&memory("text"), Some("mem-3")).await;
    fixture.begin(3, "text").await;
    fixture.deliver(&memory("plain"), Some("mem-4")).await;
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1, "the plain one");
    for n in [1, 2, 3] {
        assert!(fixture.finalize(n, &failed()).await);
        assert_eq!(maintenance.leave().await, 1, "that of audit {n}");
    }
    fixture.examine().await;
}

/// A deferred row that no audit names is a finding of doctor, until it is explained.
pub(crate) async fn a_deferral_without_its_audit_keeps_its_memory(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    let deferred = NewMemory {
        correlation_id: Some(corr(1)),
        ..memory("text")
    };
    let id = fixture.deliver(&deferred, Some("mem-1")).await;
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 0);
    let mut explained = audit(1, "text", AuditStatus::Redirected);
    explained.reason = Some(format!(
        "openmemory_write_failed:connection_error:outbox:{id}"
    ));
    explained.evidence_refs_json["outbox_id"] = json!(id);
    fixture.write(&explained).await;
    assert_eq!(maintenance.leave().await, 1);
    fixture.examine().await;
}

/// The report's figures over audits are the same as before, and rows that left are counted apart.
pub(crate) async fn a_departure_loses_no_figure(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    for (n, text) in [(1, "sent"), (2, "dead"), (3, "pending")] {
        let deferred = NewMemory {
            correlation_id: Some(corr(n)),
            ..memory(text)
        };
        let id = fixture.put_off(n, &deferred).await.outbox_id;
        match n {
            1 => {
                fixture.claim("w1", 1).await;
                assert!(fixture.ack(id, "w1", Some("mem-1")).await);
            }
            2 => {
                fixture.claim("w1", 1).await;
                assert!(fixture.bury(id, "w1", "no").await);
            }
            _ => {}
        }
    }
    fixture.stage.advance(s(60)).await;
    let before = fixture.book.memory_counts().await.expect("an answer");
    assert_eq!(before.deferred, (3, 3));
    assert_eq!(maintenance.leave().await, 2);
    let after = fixture.book.memory_counts().await.expect("an answer");
    assert_eq!(after.outbox["sent"] + after.departed["sent"], 1);
    assert_eq!(after.outbox["dead"] + after.departed["dead"], 1);
    assert_eq!(after.departed["sent"], 1, "{after:?}");
    let expected = consign_memory::MemoryCounts {
        outbox: after.outbox.clone(),
        departed: after.departed.clone(),
        ..before
    };
    assert_eq!(after, expected);
    let short = fixture.book.outbox_counts().await.expect("an answer");
    assert_eq!((short.pending, short.sent, short.dead), (1, 0, 0));
    fixture.examine().await;
}

/// A process may end after each step; memories are enqueued meanwhile.
pub(crate) async fn a_departure_of_memories_is_finished_step_by_step(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    let id = fixture.deliver(&memory("sent"), Some("mem-1")).await;
    let dead = fixture.give_up("dead").await;
    fixture.stage.advance(s(60)).await;
    let departure = maintenance.begin_of(2).await;
    maintenance.archive(&departure).await;
    for n in 0.. {
        let progress = done(Ok(maintenance.step(&departure).await));
        fixture.examine().await;
        let again = fixture.enqueue(&memory("sent")).await;
        let twin = Some(Twin::Sent(Some("mem-1".to_owned())));
        assert_eq!((again.outbox_id, again.twin), (id, twin), "step {n}");
        let doubt = OpenResult::Pending { in_doubt: true };
        let begun = open(&fixture, &opening(100 + n, "dead")).await;
        assert_eq!(begun, doubt, "step {n}");
        assert!(fixture.finalize(100 + n, &failed()).await);
        if progress.is_over {
            break;
        }
    }
    assert!(!fixture.is_in_outbox(dead).await);
    fixture.put_text("next").await;
}
