//! The gateway's cursor moves in the transaction that records the outcome.

use std::sync::Arc;

use consign_memory::{AuditEnd, AuditStatus, NewAudit};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Harness;
use super::fixture::{MemoryFixture, audit, corr, memory, put_off, stored};
use consign_conformance::stage::all;

const FIELD: &str = "last_processed_id";

/// Unknown repositories: the cursor is independent of their history.
const REPO: i64 = 71;
const OTHER: i64 = 72;

/// The audit of the `n`-th request, which consumes a record.
fn consuming(n: u64, consume: Value, status: AuditStatus) -> NewAudit {
    let mut audit = audit(n, "card", status);
    audit.evidence_refs_json["consume"] = consume;
    audit
}

fn step(repo_id: i64, from: i64, to: i64) -> Value {
    json!({"repo_id": repo_id, "field": FIELD, "from": from, "to": to})
}

async fn cursor(fixture: &MemoryFixture<'_>, repo_id: i64) -> Option<Value> {
    let key = format!("scm_consume:{repo_id}");
    let value = fixture.book.get_kv("gateway.consume", &key).await;
    value.expect("get_kv answers")
}

async fn set_cursor(fixture: &MemoryFixture<'_>, repo_id: i64, value: Value) {
    let key = format!("scm_consume:{repo_id}");
    let set = fixture.book.set_kv("gateway.consume", &key, &value).await;
    set.expect("set_kv answers");
}

/// Begins the `n`-th request, which consumes a record.
async fn begin(fixture: &MemoryFixture<'_>, n: u64, consume: Value) {
    let pending = consuming(n, consume, AuditStatus::Pending);
    fixture.write(&pending).await;
}

pub(crate) async fn a_stored_record_moves_the_cursor(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let (namespace, key) = ("scm.sync", format!("git_cursor:{REPO}"));
    let watermark = json!({"version": 2});
    let set = fixture.book.set_kv(namespace, &key, &watermark).await;
    set.expect("set_kv answers");
    begin(&fixture, 1, step(REPO, 0, 12)).await;
    assert_eq!(cursor(&fixture, REPO).await, None, "not yet");
    assert!(fixture.finalize(1, &stored("mem-1")).await);
    assert_eq!(cursor(&fixture, REPO).await, Some(json!({FIELD: 12})));
    begin(&fixture, 2, step(REPO, 12, 13)).await;
    assert!(fixture.finalize(2, &stored("mem-2")).await);
    assert_eq!(cursor(&fixture, REPO).await, Some(json!({FIELD: 13})));
    // The end of an audit may bring it along.
    fixture.begin(3, "card").await;
    let end = AuditEnd {
        patch: json!({"consume": step(REPO, 13, 20), "memory_id": "mem-3"}),
        ..stored("mem-3")
    };
    assert!(fixture.finalize(3, &end).await);
    assert_eq!(cursor(&fixture, REPO).await, Some(json!({FIELD: 20})));
    let kept = fixture.book.get_kv(namespace, &key).await;
    assert_eq!(kept.expect("get_kv answers"), Some(watermark), "not moved");
}

/// A record whose card is in the outbox has been dealt with.
pub(crate) async fn a_deferred_record_moves_the_cursor(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    begin(&fixture, 1, step(REPO, 0, 12)).await;
    let deferred = fixture
        .book
        .defer(&memory("card"), &corr(1), &put_off())
        .await;
    assert!(deferred.expect("defer answers").is_audited);
    assert_eq!(cursor(&fixture, REPO).await, Some(json!({FIELD: 12})));
    // The delivery has an audit of its own, which moves nothing.
    fixture.claim("w1", 1).await;
    set_cursor(&fixture, REPO, json!({FIELD: 0})).await;
    let id = fixture.book.outbox_rows(None, 1).await.expect("rows")[0].outbox_id;
    assert!(fixture.ack(id, "w1", Some("mem-1")).await);
    assert_eq!(cursor(&fixture, REPO).await, Some(json!({FIELD: 0})));
}

/// After a rewind the same cards come again; what is stored already is audited without being tried.
pub(crate) async fn a_record_stored_before_moves_the_cursor(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let deferred = consuming(1, step(REPO, 0, 12), AuditStatus::Success);
    fixture.write(&deferred).await;
    assert_eq!(cursor(&fixture, REPO).await, Some(json!({FIELD: 12})));
    set_cursor(&fixture, REPO, json!({FIELD: 0})).await;
    let redirected = consuming(2, step(REPO, 0, 12), AuditStatus::Redirected);
    fixture.write(&redirected).await;
    assert_eq!(cursor(&fixture, REPO).await, Some(json!({FIELD: 12})));
}

pub(crate) async fn a_failed_record_moves_nothing(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    begin(&fixture, 1, step(REPO, 0, 12)).await;
    let failed = AuditEnd {
        status: AuditStatus::Failed,
        ..stored("none")
    };
    assert!(fixture.finalize(1, &failed).await);
    fixture
        .write(&consuming(2, step(REPO, 0, 12), AuditStatus::Failed))
        .await;
    begin(&fixture, 3, step(REPO, 0, 12)).await;
    assert_eq!(cursor(&fixture, REPO).await, None);
    assert!(fixture.finalize(3, &stored("mem-1")).await);
    assert_eq!(cursor(&fixture, REPO).await, Some(json!({FIELD: 12})));
}

/// The cursor was rewound or moved: the record is stored anyway.
pub(crate) async fn a_cursor_that_stands_elsewhere_stays(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    for (n, stands) in [
        (1, None),
        (2, Some(json!({FIELD: 0}))),
        (3, Some(json!({FIELD: 11}))),
        (4, Some(json!({FIELD: 13}))),
        (5, Some(json!({}))),
        (6, Some(json!({"last_processed_rev": 12}))),
        (7, Some(json!("12"))),
    ] {
        if let Some(value) = &stands {
            set_cursor(&fixture, REPO, value.clone()).await;
        }
        begin(&fixture, n, step(REPO, 12, 13)).await;
        assert!(fixture.finalize(n, &stored("mem-1")).await, "{stands:?}");
        assert_eq!(cursor(&fixture, REPO).await, stands);
        assert_eq!(fixture.audit_of(n).await.status, AuditStatus::Success);
    }
    // An unreadable cursor is at the beginning.
    begin(&fixture, 8, step(REPO, 0, 1)).await;
    assert!(fixture.finalize(8, &stored("mem-1")).await);
    assert_eq!(cursor(&fixture, REPO).await, Some(json!({FIELD: 1})));
    // A gap, or a step back, is the gateway's to decide.
    begin(&fixture, 9, step(REPO, 1, 0)).await;
    assert!(fixture.finalize(9, &stored("mem-1")).await);
    assert_eq!(cursor(&fixture, REPO).await, Some(json!({FIELD: 0})));
}

pub(crate) async fn every_repository_has_its_cursor(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    begin(&fixture, 1, step(REPO, 0, 12)).await;
    let by_revision = json!({"repo_id": OTHER, "field": "last_processed_rev", "from": 0, "to": 5});
    begin(&fixture, 2, by_revision).await;
    assert!(fixture.finalize(1, &stored("mem-1")).await);
    assert_eq!(cursor(&fixture, OTHER).await, None);
    assert!(fixture.finalize(2, &stored("mem-2")).await);
    assert_eq!(cursor(&fixture, REPO).await, Some(json!({FIELD: 12})));
    assert_eq!(
        cursor(&fixture, OTHER).await,
        Some(json!({"last_processed_rev": 5}))
    );
}

pub(crate) async fn of_two_that_consume_at_once_one_moves_it(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let other = harness.another_book().await;
    for round in 0..10_i64 {
        let mut tasks = JoinSet::new();
        for n in 0..4_i64 {
            let id = (10 * round + n + 1) as u64;
            begin(&fixture, id, step(REPO, 100 * round, 100 * (round + 1))).await;
            let book = Arc::clone(if n % 2 == 0 { &fixture.book } else { &other });
            tasks.spawn(async move {
                let ended = book.finalize_audit(&corr(id), &stored("mem-1")).await;
                assert!(ended.expect("finalize_audit answers"));
            });
        }
        all(tasks).await;
        let stands = Some(json!({FIELD: 100 * (round + 1)}));
        assert_eq!(cursor(&fixture, REPO).await, stands);
    }
}

/// Nothing fails for it: the audit is more important.
pub(crate) async fn an_invalid_step_moves_no_cursor(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let wrong = [
        json!(null),
        json!("x"),
        json!([1]),
        json!({}),
        json!({"repo_id": REPO, "field": FIELD, "from": 0}),
        json!({"repo_id": "71", "field": FIELD, "from": 0, "to": 1}),
        json!({"repo_id": REPO, "field": "other", "from": 0, "to": 1}),
        json!({"repo_id": REPO, "field": FIELD, "from": 0, "to": 1.5}),
        json!({"repo_id": REPO, "field": FIELD, "from": 0, "to": -1}),
        json!({"repo_id": REPO, "field": FIELD, "from": null, "to": 1}),
    ];
    for (n, consume) in wrong.into_iter().enumerate() {
        let n = n as u64 + 1;
        begin(&fixture, n, consume.clone()).await;
        assert!(fixture.finalize(n, &stored("mem-1")).await, "{consume}");
        assert_eq!(cursor(&fixture, REPO).await, None, "{consume}");
    }
}
