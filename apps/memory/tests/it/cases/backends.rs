//! A row belongs to a backend: a memory stored in one, or deferred for it, is unrelated to another.

use std::time::Duration;

use consign_kernel::{Outcome, Report, StateKind, codes};
use consign_memory::{
    AuditEnd, AuditStatus, DeferResult, KnownMemory, NewMemory, OpenResult, Opening, OutboxStatus,
    ReconcileOptions, Twin, nth_key, payload_sha,
};
use serde_json::{Value, json};

use super::Harness;
use super::{
    fixture::{MemoryFixture, at, corr, memory, put_off, stored},
    open::{fresh, keeping, open, opening},
};
use consign_conformance::stage::s;

const HERE: &str = "openmemory:http://here.example";
const THERE: &str = "openmemory:http://there.example";

fn meant_for(backend: &str, text: &str) -> NewMemory {
    NewMemory {
        backend: Some(backend.to_owned()),
        ..memory(text)
    }
}

/// A write whose audit names a backend.
fn to(backend: &str, mut opening: Opening) -> Opening {
    opening.audit.evidence_refs_json["backend"] = json!(backend);
    opening
}

async fn known(
    fixture: &MemoryFixture<'_>,
    text: &str,
    backend: Option<&str>,
) -> Option<KnownMemory> {
    let found = fixture
        .book
        .check_dedup("team:p", &payload_sha(text), backend)
        .await;
    found.expect("check_dedup answers")
}

async fn defer(fixture: &MemoryFixture<'_>, memory: &NewMemory, n: u64) -> DeferResult {
    let deferred = fixture.book.defer(memory, &corr(n), &put_off()).await;
    deferred.expect("defer answers")
}

fn doubt(in_doubt: bool) -> OpenResult {
    OpenResult::Pending { in_doubt }
}

pub(crate) async fn what_was_stored_elsewhere_is_not_known(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    // Directly.
    assert_eq!(
        open(&fixture, &to(HERE, opening(1, "direct"))).await,
        fresh()
    );
    assert!(fixture.finalize(1, &stored("mem-1")).await);
    let direct = KnownMemory {
        outbox_id: None,
        memory_id: Some("mem-1".to_owned()),
    };
    for backend in [None, Some(HERE)] {
        assert_eq!(
            known(&fixture, "direct", backend).await,
            Some(direct.clone()),
            "{backend:?}"
        );
    }
    assert_eq!(known(&fixture, "direct", Some(THERE)).await, None);
    let here = open(&fixture, &to(HERE, opening(2, "direct"))).await;
    assert_eq!(here, OpenResult::Known(direct));
    assert_eq!(
        open(&fixture, &to(THERE, opening(3, "direct"))).await,
        fresh()
    );

    // By the outbox, with a name and without.
    for (text, memory_id) in [("sent", Some("mem-2")), ("nameless", None)] {
        let id = fixture.put(&meant_for(HERE, text)).await;
        fixture.claim("w1", 1).await;
        assert!(fixture.ack(id, "w1", memory_id).await);
        let sent = KnownMemory {
            outbox_id: Some(id),
            memory_id: memory_id.map(str::to_owned),
        };
        assert_eq!(
            known(&fixture, text, Some(HERE)).await,
            Some(sent),
            "{text}"
        );
        assert_eq!(known(&fixture, text, Some(THERE)).await, None, "{text}");
    }

    // A row without a backend may be anywhere; the deliverer looks it up.
    let id = fixture.put_text("anywhere").await;
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(id, "w1", Some("mem-3")).await);
    assert!(known(&fixture, "anywhere", Some(THERE)).await.is_some());
}

pub(crate) async fn a_row_is_for_one_backend(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let here = fixture.put(&meant_for(HERE, "text")).await;
    let there = fixture.put(&meant_for(THERE, "text")).await;
    assert_ne!(here, there);
    assert_eq!(fixture.row(here).await.backend.as_deref(), Some(HERE));
    assert_eq!(fixture.row(there).await.backend.as_deref(), Some(THERE));
    for (backend, id) in [(HERE, here), (THERE, there)] {
        let again = fixture
            .book
            .enqueue_memory(&meant_for(backend, "text"))
            .await;
        let again = again.expect("enqueue_memory answers");
        assert_eq!((again.outbox_id, again.twin), (id, Some(Twin::Pending)));
    }
    // A memory without a backend takes any row.
    let any = fixture.book.enqueue_memory(&memory("text")).await;
    assert_eq!(any.expect("enqueue_memory answers").outbox_id, here);
    let counts = fixture.book.memory_counts().await;
    let waiting = counts.expect("memory_counts answers").pending_by_backend;
    let expected = [(HERE.to_owned(), 1), (THERE.to_owned(), 1)];
    assert_eq!(waiting, expected.into());
}

/// Delivered is final: what has to be sent once more is a row of its own, and only one of them waits.
pub(crate) async fn what_was_sent_and_is_gone_gets_a_row_of_its_own(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let text = meant_for(HERE, "text");
    let first = fixture.put(&text).await;
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(first, "w1", Some("mem-1")).await);
    fixture.begin(1, "text").await;
    let deferred = defer(&fixture, &text, 1).await;
    let second = deferred.enqueued.outbox_id;
    assert_ne!(second, first);
    assert_eq!(deferred.enqueued.twin, None);
    assert!(deferred.is_audited);
    fixture.begin(2, "text").await;
    let again = defer(&fixture, &text, 2).await;
    assert_eq!(again.enqueued.outbox_id, second);
    assert_eq!(again.enqueued.twin, Some(Twin::Pending));
    let lease = fixture.stage.claim(1).await;
    let key = nth_key("team:p", &payload_sha("text"), 2);
    assert_eq!(lease.messages[0].message.key, Some(key));
    // The seed's primitive answers with what was sent.
    let plain = fixture.book.enqueue_memory(&text).await;
    let plain = plain.expect("enqueue_memory answers");
    assert_eq!(plain.outbox_id, first);
    assert_eq!(plain.twin, Some(Twin::Sent(Some("mem-1".to_owned()))));
    let report = Report {
        result: Some(json!({"memory_id": "mem-2", "backend": HERE, "stored_again": true})),
        ..Report::delivered(second)
    };
    fixture.stage.settle(&lease, &[report]).await;
    let found = known(&fixture, "text", Some(HERE)).await;
    assert_eq!(found.and_then(|it| it.memory_id).as_deref(), Some("mem-2"));
    let audit = fixture.audits_of(second).await.pop().expect("an audit");
    let again = at(&audit.evidence_refs_json, "/extra/stored_again");
    assert_eq!(again, &json!(true));
}

/// The next store looks it up at the backend, until an audit records that it is stored.
pub(crate) async fn a_memory_that_may_be_stored_is_in_doubt(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let may_be = async |backend: &str, text: &str| {
        let sha = payload_sha(text);
        let answer = fixture.book.may_be_stored("team:p", &sha, backend).await;
        answer.expect("may_be_stored answers")
    };
    // A request that has not ended.
    assert_eq!(open(&fixture, &to(HERE, opening(1, "text"))).await, fresh());
    let again = |n| to(HERE, opening(n, "text"));
    assert_eq!(open(&fixture, &again(2)).await, doubt(true));
    let elsewhere = to(THERE, opening(3, "text"));
    assert_eq!(open(&fixture, &elsewhere).await, fresh());
    assert_eq!(
        open(&fixture, &to(HERE, opening(4, "other"))).await,
        fresh()
    );
    assert!(may_be(HERE, "text").await);
    // Ended as failed, with and without a doubt.
    let failed = |may_be_stored: bool| AuditEnd {
        status: AuditStatus::Failed,
        action: None,
        reason: None,
        patch: json!({"extra": {"may_be_stored": may_be_stored}}),
    };
    for n in [1, 2, 3, 4] {
        assert!(fixture.finalize(n, &failed(false)).await);
    }
    assert!(!may_be(HERE, "text").await);
    assert_eq!(open(&fixture, &again(5)).await, fresh());
    assert!(fixture.finalize(5, &failed(true)).await);
    assert!(may_be(HERE, "text").await && !may_be(THERE, "text").await);
    assert_eq!(open(&fixture, &again(6)).await, doubt(true));
    // Ended by reconciling: the outcome is unknown.
    assert_eq!(
        open(&fixture, &to(HERE, opening(7, "timed out"))).await,
        fresh()
    );
    fixture.stage.advance(s(3 * 3_600)).await;
    let options = ReconcileOptions::default();
    let reconciled = fixture.book.reconcile_memory(&options).await;
    reconciled.expect("reconcile_memory answers");
    assert_eq!(fixture.audit_of(7).await.status, AuditStatus::Failed);
    assert!(may_be(HERE, "timed out").await);
    // A pending row may be in delivery, and a dead one may have arrived.
    let id = fixture.put(&meant_for(HERE, "row")).await;
    assert_eq!(
        open(&fixture, &to(HERE, opening(8, "row"))).await,
        doubt(true)
    );
    assert_eq!(open(&fixture, &to(THERE, opening(9, "row"))).await, fresh());
    for n in [8, 9] {
        assert!(fixture.finalize(n, &failed(false)).await);
    }
    fixture.claim("w1", 1).await;
    assert!(fixture.bury(id, "w1", "api_error: 503").await);
    assert_eq!(
        open(&fixture, &to(HERE, opening(10, "row"))).await,
        doubt(true)
    );
}

/// The logbook has the memory as stored, but it is missing: it is stored again, with an audit.
pub(crate) async fn a_kept_memory_that_is_gone_is_kept_again(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let text = meant_for("embedded", "text");
    let sent = fixture.put(&text).await;
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(sent, "w1", Some("mem_gone")).await);
    let keep = |n| to("embedded", keeping(n, text.clone()));
    let OpenResult::Kept(kept) = open(&fixture, &keep(1)).await else {
        panic!("kept");
    };
    assert!(kept.is_new);
    let audit = fixture.audit_of(1).await;
    assert_eq!(audit.status, AuditStatus::Success);
    let again = at(&audit.evidence_refs_json, "/extra/stored_again");
    assert_eq!(again, &json!(true));
    let OpenResult::Known(found) = open(&fixture, &keep(2)).await else {
        panic!("a duplicate");
    };
    assert_eq!(found.memory_id, Some(kept.memory_id));
    let other = to("embedded", keeping(3, memory("other")));
    assert!(matches!(open(&fixture, &other).await, OpenResult::Kept(_)));
    let first = fixture.audit_of(3).await.evidence_refs_json;
    assert_eq!(first.pointer("/extra/stored_again"), None);
}

pub(crate) async fn an_audit_of_a_delivery_names_its_backend(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let cases = [
        (meant_for(HERE, "meant"), None, json!(HERE)),
        (memory("anywhere"), Some(THERE), json!(THERE)),
        (memory("unknown"), None, Value::Null),
    ];
    for (memory, delivered_to, expected) in cases {
        let id = fixture.put(&memory).await;
        let lease = fixture.stage.claim(1).await;
        fixture.stage.report(&lease, id, Outcome::Retry).await;
        fixture.stage.advance(s(3_600)).await;
        let lease = fixture.stage.claim(1).await;
        let report = Report {
            code: Some("stored".to_owned()),
            result: Some(match delivered_to {
                Some(backend) => json!({"memory_id": "m", "backend": backend}),
                None => json!({"memory_id": "m"}),
            }),
            ..Report::delivered(id)
        };
        fixture.stage.settle(&lease, &[report]).await;
        let audits = fixture.audits_of(id).await;
        let named = |index: usize, pointer: &str| {
            let json = &audits[index].evidence_refs_json;
            json.pointer(pointer).cloned().unwrap_or_default()
        };
        assert_eq!(named(0, "/backend"), json!(memory.backend), "{memory:?}");
        assert_eq!(named(1, "/backend"), expected, "{memory:?}");
        assert_eq!(named(1, "/gateway_event/backend"), expected, "{memory:?}");
        let row = fixture.row(id).await;
        assert_eq!(json!(row.backend), expected, "{memory:?}");
    }
}

/// A worker for another backend: the row waits with a reason and uses no attempt.
pub(crate) async fn a_memory_for_another_worker_keeps_its_tries(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put(&meant_for(HERE, "text")).await;
    for _ in 0..7 {
        let lease = fixture.stage.claim(1).await;
        assert_eq!(lease.messages[0].tries, 0);
        let report = Report {
            code: Some(codes::MISDIRECTED.to_owned()),
            detail: Some("misdirected: set this".to_owned()),
            retry_in: Some(Duration::from_secs(60)),
            ..Report::new(id, Outcome::Retry)
        };
        fixture.stage.settle(&lease, &[report]).await;
        fixture.stage.claim_nothing("it rests").await;
        fixture.stage.advance(s(60)).await;
    }
    assert_eq!(fixture.stage.kind(id).await, StateKind::Ready);
    let row = fixture.row(id).await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Pending, 0));
    assert_eq!(row.last_error.as_deref(), Some("misdirected: set this"));
    assert_eq!(fixture.story(id).await, ["outbox_flush_retry"; 7]);
    let other = fixture.put(&meant_for(HERE, "another text")).await;
    let lease = fixture.stage.claim(2).await;
    let misdirected = |id| Report {
        code: Some(codes::MISDIRECTED.to_owned()),
        retry_in: Some(Duration::from_secs(60)),
        ..Report::new(id, Outcome::Retry)
    };
    let reports = [misdirected(id), misdirected(other)];
    fixture.stage.settle(&lease, &reports).await;
    let findings = fixture.stage.store.doctor().await.expect("doctor answers");
    let finding = findings.iter().find(|it| it.code == "memory_misdirected");
    let finding = finding.unwrap_or_else(|| panic!("{findings:?}"));
    assert!(finding.what.contains(HERE), "{}", finding.what);
    assert!(finding.what.starts_with("2 "), "{}", finding.what);
    assert_eq!(finding.ids, [id, other], "every one of them is named");
    fixture.stage.advance(s(60)).await;
    let lease = fixture.stage.claim(2).await;
    for id in [id, other] {
        fixture.stage.report(&lease, id, Outcome::Delivered).await;
    }
    let findings = fixture.stage.store.doctor().await.expect("doctor answers");
    assert!(findings.is_empty(), "{findings:?}");
}
