//! A row belongs to a backend: what was stored in one, or put off for it, says nothing about another.

use std::time::Duration;

use consign_kernel::{Outcome, Report, StateKind, codes};
use consign_memory::{
    AuditEnd, AuditStatus, Deferred, Found, NewMemory, Opened, Opening, OutboxStatus,
    ReconcileOptions, Twin, nth_key, payload_sha,
};
use serde_json::{Value, json};

use super::{
    open::{fresh, keeping, open, opening},
    shelf::{Shelf, at, corr, memory, put_off, stored},
};
use crate::{Harness, stage::s};

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

async fn known(shelf: &Shelf<'_>, text: &str, backend: Option<&str>) -> Option<Found> {
    let found = shelf
        .book
        .check_dedup("team:p", &payload_sha(text), backend)
        .await;
    found.expect("check_dedup answers")
}

async fn defer(shelf: &Shelf<'_>, memory: &NewMemory, n: u64) -> Deferred {
    let deferred = shelf.book.defer(memory, &corr(n), &put_off()).await;
    deferred.expect("defer answers")
}

fn doubt(in_doubt: bool) -> Opened {
    Opened::Pending { in_doubt }
}

pub(crate) async fn what_was_stored_elsewhere_is_not_known(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    // Directly.
    assert_eq!(open(&shelf, &to(HERE, opening(1, "direct"))).await, fresh());
    assert!(shelf.finalize(1, &stored("mem-1")).await);
    let direct = Found {
        outbox_id: None,
        memory_id: Some("mem-1".to_owned()),
    };
    for backend in [None, Some(HERE)] {
        assert_eq!(
            known(&shelf, "direct", backend).await,
            Some(direct.clone()),
            "{backend:?}"
        );
    }
    assert_eq!(known(&shelf, "direct", Some(THERE)).await, None);
    let here = open(&shelf, &to(HERE, opening(2, "direct"))).await;
    assert_eq!(here, Opened::Known(direct));
    assert_eq!(
        open(&shelf, &to(THERE, opening(3, "direct"))).await,
        fresh()
    );

    // By the outbox, with a name and without.
    for (text, memory_id) in [("sent", Some("mem-2")), ("nameless", None)] {
        let id = shelf.put(&meant_for(HERE, text)).await;
        shelf.claim("w1", 1).await;
        assert!(shelf.ack(id, "w1", memory_id).await);
        let sent = Found {
            outbox_id: Some(id),
            memory_id: memory_id.map(str::to_owned),
        };
        assert_eq!(known(&shelf, text, Some(HERE)).await, Some(sent), "{text}");
        assert_eq!(known(&shelf, text, Some(THERE)).await, None, "{text}");
    }

    // What names no backend may be anywhere; whoever finds it asks.
    let id = shelf.put_text("anywhere").await;
    shelf.claim("w1", 1).await;
    assert!(shelf.ack(id, "w1", Some("mem-3")).await);
    assert!(known(&shelf, "anywhere", Some(THERE)).await.is_some());
}

pub(crate) async fn a_row_is_for_one_backend(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let here = shelf.put(&meant_for(HERE, "text")).await;
    let there = shelf.put(&meant_for(THERE, "text")).await;
    assert_ne!(here, there);
    assert_eq!(shelf.row(here).await.backend.as_deref(), Some(HERE));
    assert_eq!(shelf.row(there).await.backend.as_deref(), Some(THERE));
    for (backend, id) in [(HERE, here), (THERE, there)] {
        let again = shelf.book.enqueue_memory(&meant_for(backend, "text")).await;
        let again = again.expect("enqueue_memory answers");
        assert_eq!((again.outbox_id, again.twin), (id, Some(Twin::Pending)));
    }
    // Whoever names none takes what is there.
    let any = shelf.book.enqueue_memory(&memory("text")).await;
    assert_eq!(any.expect("enqueue_memory answers").outbox_id, here);
    let counts = shelf.book.memory_counts().await;
    let waiting = counts.expect("memory_counts answers").pending_by_backend;
    let expected = [(HERE.to_owned(), 1), (THERE.to_owned(), 1)];
    assert_eq!(waiting, expected.into());
}

/// Delivered is final: what has to be sent once more is a row of its own, and only one of them waits.
pub(crate) async fn what_was_sent_and_is_gone_gets_a_row_of_its_own(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let text = meant_for(HERE, "text");
    let first = shelf.put(&text).await;
    shelf.claim("w1", 1).await;
    assert!(shelf.ack(first, "w1", Some("mem-1")).await);
    shelf.begin(1, "text").await;
    let deferred = defer(&shelf, &text, 1).await;
    let second = deferred.enqueued.outbox_id;
    assert_ne!(second, first);
    assert_eq!(deferred.enqueued.twin, None);
    assert!(deferred.is_audited);
    shelf.begin(2, "text").await;
    let again = defer(&shelf, &text, 2).await;
    assert_eq!(again.enqueued.outbox_id, second);
    assert_eq!(again.enqueued.twin, Some(Twin::Pending));
    let lease = shelf.stage.claim(1).await;
    let key = nth_key("team:p", &payload_sha("text"), 2);
    assert_eq!(lease.messages[0].message.key, Some(key));
    // The seed's primitive answers with what was sent.
    let plain = shelf.book.enqueue_memory(&text).await;
    let plain = plain.expect("enqueue_memory answers");
    assert_eq!(plain.outbox_id, first);
    assert_eq!(plain.twin, Some(Twin::Sent(Some("mem-1".to_owned()))));
    let report = Report {
        result: Some(json!({"memory_id": "mem-2", "backend": HERE, "stored_again": true})),
        ..Report::delivered(second)
    };
    shelf.stage.settle(&lease, &[report]).await;
    let found = known(&shelf, "text", Some(HERE)).await;
    assert_eq!(found.and_then(|it| it.memory_id).as_deref(), Some("mem-2"));
    let audit = shelf.audits_of(second).await.pop().expect("an audit");
    let again = at(&audit.evidence_refs_json, "/extra/stored_again");
    assert_eq!(again, &json!(true));
}

/// Whoever stores it next asks the backend before, as long as nobody has written down that it is there.
pub(crate) async fn a_memory_that_may_be_stored_is_in_doubt(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let may_be = async |backend: &str, text: &str| {
        let sha = payload_sha(text);
        let answer = shelf.book.may_be_stored("team:p", &sha, backend).await;
        answer.expect("may_be_stored answers")
    };
    // A request that has not ended.
    assert_eq!(open(&shelf, &to(HERE, opening(1, "text"))).await, fresh());
    let again = |n| to(HERE, opening(n, "text"));
    assert_eq!(open(&shelf, &again(2)).await, doubt(true));
    let elsewhere = to(THERE, opening(3, "text"));
    assert_eq!(open(&shelf, &elsewhere).await, fresh());
    assert_eq!(open(&shelf, &to(HERE, opening(4, "other"))).await, fresh());
    assert!(may_be(HERE, "text").await);
    // Ended as failed, with and without a doubt.
    let failed = |may_be_stored: bool| AuditEnd {
        status: AuditStatus::Failed,
        action: None,
        reason: None,
        patch: json!({"extra": {"may_be_stored": may_be_stored}}),
    };
    for n in [1, 2, 3, 4] {
        assert!(shelf.finalize(n, &failed(false)).await);
    }
    assert!(!may_be(HERE, "text").await);
    assert_eq!(open(&shelf, &again(5)).await, fresh());
    assert!(shelf.finalize(5, &failed(true)).await);
    assert!(may_be(HERE, "text").await && !may_be(THERE, "text").await);
    assert_eq!(open(&shelf, &again(6)).await, doubt(true));
    // Ended by reconciling: nobody knows how it went.
    assert_eq!(
        open(&shelf, &to(HERE, opening(7, "timed out"))).await,
        fresh()
    );
    shelf.stage.advance(s(3 * 3_600)).await;
    let options = ReconcileOptions::default();
    let reconciled = shelf.book.reconcile_memory(&options).await;
    reconciled.expect("reconcile_memory answers");
    assert_eq!(shelf.audit_of(7).await.status, AuditStatus::Failed);
    assert!(may_be(HERE, "timed out").await);
    // A row that waits may be on its way, and one that was given up may have arrived.
    let id = shelf.put(&meant_for(HERE, "row")).await;
    assert_eq!(
        open(&shelf, &to(HERE, opening(8, "row"))).await,
        doubt(true)
    );
    assert_eq!(open(&shelf, &to(THERE, opening(9, "row"))).await, fresh());
    for n in [8, 9] {
        assert!(shelf.finalize(n, &failed(false)).await);
    }
    shelf.claim("w1", 1).await;
    assert!(shelf.bury(id, "w1", "api_error: 503").await);
    assert_eq!(
        open(&shelf, &to(HERE, opening(10, "row"))).await,
        doubt(true)
    );
}

/// The logbook says that it was kept, and it is not there: it is kept again, and its audit says so.
pub(crate) async fn a_kept_memory_that_is_gone_is_kept_again(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let text = meant_for("embedded", "text");
    let sent = shelf.put(&text).await;
    shelf.claim("w1", 1).await;
    assert!(shelf.ack(sent, "w1", Some("mem_gone")).await);
    let keep = |n| to("embedded", keeping(n, text.clone()));
    let Opened::Kept(kept) = open(&shelf, &keep(1)).await else {
        panic!("kept");
    };
    assert!(kept.is_new);
    let audit = shelf.audit_of(1).await;
    assert_eq!(audit.status, AuditStatus::Success);
    let again = at(&audit.evidence_refs_json, "/extra/stored_again");
    assert_eq!(again, &json!(true));
    let Opened::Known(found) = open(&shelf, &keep(2)).await else {
        panic!("known");
    };
    assert_eq!(found.memory_id, Some(kept.memory_id));
    let other = to("embedded", keeping(3, memory("other")));
    assert!(matches!(open(&shelf, &other).await, Opened::Kept(_)));
    let first = shelf.audit_of(3).await.evidence_refs_json;
    assert_eq!(first.pointer("/extra/stored_again"), None);
}

pub(crate) async fn an_audit_of_a_delivery_names_its_backend(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let cases = [
        (meant_for(HERE, "meant"), None, json!(HERE)),
        (memory("anywhere"), Some(THERE), json!(THERE)),
        (memory("unknown"), None, Value::Null),
    ];
    for (memory, delivered_to, expected) in cases {
        let id = shelf.put(&memory).await;
        let lease = shelf.stage.claim(1).await;
        shelf.stage.report(&lease, id, Outcome::Retry).await;
        shelf.stage.advance(s(3_600)).await;
        let lease = shelf.stage.claim(1).await;
        let report = Report {
            code: Some("stored".to_owned()),
            result: Some(match delivered_to {
                Some(backend) => json!({"memory_id": "m", "backend": backend}),
                None => json!({"memory_id": "m"}),
            }),
            ..Report::delivered(id)
        };
        shelf.stage.settle(&lease, &[report]).await;
        let audits = shelf.audits_of(id).await;
        let named = |index: usize, pointer: &str| {
            let json = &audits[index].evidence_refs_json;
            json.pointer(pointer).cloned().unwrap_or_default()
        };
        assert_eq!(named(0, "/backend"), json!(memory.backend), "{memory:?}");
        assert_eq!(named(1, "/backend"), expected, "{memory:?}");
        assert_eq!(named(1, "/gateway_event/backend"), expected, "{memory:?}");
        let row = shelf.row(id).await;
        assert_eq!(json!(row.backend), expected, "{memory:?}");
    }
}

/// A worker for another backend: the row waits, says why, and loses none of its tries.
pub(crate) async fn a_memory_for_another_worker_keeps_its_tries(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let id = shelf.put(&meant_for(HERE, "text")).await;
    for _ in 0..7 {
        let lease = shelf.stage.claim(1).await;
        assert_eq!(lease.messages[0].tries, 0);
        let report = Report {
            code: Some(codes::MISDIRECTED.to_owned()),
            detail: Some("misdirected: set this".to_owned()),
            retry_in: Some(Duration::from_secs(60)),
            ..Report::new(id, Outcome::Retry)
        };
        shelf.stage.settle(&lease, &[report]).await;
        shelf.stage.claim_nothing("it rests").await;
        shelf.stage.advance(s(60)).await;
    }
    assert_eq!(shelf.stage.kind(id).await, StateKind::Ready);
    let row = shelf.row(id).await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Pending, 0));
    assert_eq!(row.last_error.as_deref(), Some("misdirected: set this"));
    assert_eq!(shelf.story(id).await, ["outbox_flush_retry"; 7]);
    let other = shelf.put(&meant_for(HERE, "another text")).await;
    let lease = shelf.stage.claim(2).await;
    let misdirected = |id| Report {
        code: Some(codes::MISDIRECTED.to_owned()),
        retry_in: Some(Duration::from_secs(60)),
        ..Report::new(id, Outcome::Retry)
    };
    let reports = [misdirected(id), misdirected(other)];
    shelf.stage.settle(&lease, &reports).await;
    let findings = shelf.stage.store.doctor().await.expect("doctor answers");
    let finding = findings.iter().find(|it| it.code == "memory_misdirected");
    let finding = finding.unwrap_or_else(|| panic!("{findings:?}"));
    assert!(finding.what.contains(HERE), "{}", finding.what);
    assert!(finding.what.starts_with("2 "), "{}", finding.what);
    assert_eq!(finding.ids, [id, other], "every one of them is named");
    shelf.stage.advance(s(60)).await;
    let lease = shelf.stage.claim(2).await;
    for id in [id, other] {
        shelf.stage.report(&lease, id, Outcome::Delivered).await;
    }
    let findings = shelf.stage.store.doctor().await.expect("doctor answers");
    assert!(findings.is_empty(), "{findings:?}");
}
