//! The gateway's cursor: it moves in the transaction that says what became of a record (T55, E12, E13).

use std::sync::Arc;

use consign_memory::{AuditEnd, AuditStatus, NewAudit};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::shelf::{Shelf, audit, corr, memory, put_off, stored};
use crate::{Harness, stage::all};

const FIELD: &str = "last_processed_id";

/// Repositories that nobody has made known: the cursor is where it is, whatever their history.
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

async fn cursor(shelf: &Shelf<'_>, repo_id: i64) -> Option<Value> {
    let key = format!("scm_consume:{repo_id}");
    let value = shelf.book.get_kv("gateway.consume", &key).await;
    value.expect("get_kv answers")
}

async fn set_cursor(shelf: &Shelf<'_>, repo_id: i64, value: Value) {
    let key = format!("scm_consume:{repo_id}");
    let set = shelf.book.set_kv("gateway.consume", &key, &value).await;
    set.expect("set_kv answers");
}

/// Begins the `n`-th request, which consumes a record.
async fn begin(shelf: &Shelf<'_>, n: u64, consume: Value) {
    let pending = consuming(n, consume, AuditStatus::Pending);
    shelf.write(&pending).await;
}

pub(crate) async fn a_stored_record_moves_the_cursor(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let (namespace, key) = ("scm.sync", format!("git_cursor:{REPO}"));
    let watermark = json!({"version": 2});
    let set = shelf.book.set_kv(namespace, &key, &watermark).await;
    set.expect("set_kv answers");
    begin(&shelf, 1, step(REPO, 0, 12)).await;
    assert_eq!(cursor(&shelf, REPO).await, None, "not yet");
    assert!(shelf.finalize(1, &stored("mem-1")).await);
    assert_eq!(cursor(&shelf, REPO).await, Some(json!({FIELD: 12})));
    begin(&shelf, 2, step(REPO, 12, 13)).await;
    assert!(shelf.finalize(2, &stored("mem-2")).await);
    assert_eq!(cursor(&shelf, REPO).await, Some(json!({FIELD: 13})));
    // The end of an audit may bring it along.
    shelf.begin(3, "card").await;
    let end = AuditEnd {
        patch: json!({"consume": step(REPO, 13, 20), "memory_id": "mem-3"}),
        ..stored("mem-3")
    };
    assert!(shelf.finalize(3, &end).await);
    assert_eq!(cursor(&shelf, REPO).await, Some(json!({FIELD: 20})));
    let kept = shelf.book.get_kv(namespace, &key).await;
    assert_eq!(kept.expect("get_kv answers"), Some(watermark), "not moved");
}

/// E12: a record whose card is in the outbox has been dealt with.
pub(crate) async fn a_deferred_record_moves_the_cursor(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    begin(&shelf, 1, step(REPO, 0, 12)).await;
    let deferred = shelf
        .book
        .defer(&memory("card"), &corr(1), &put_off())
        .await;
    assert!(deferred.expect("defer answers").is_audited);
    assert_eq!(cursor(&shelf, REPO).await, Some(json!({FIELD: 12})));
    // The delivery has an audit of its own, which moves nothing.
    shelf.claim("w1", 1).await;
    set_cursor(&shelf, REPO, json!({FIELD: 0})).await;
    let id = shelf.book.outbox_rows(None, 1).await.expect("rows")[0].outbox_id;
    assert!(shelf.ack(id, "w1", Some("mem-1")).await);
    assert_eq!(cursor(&shelf, REPO).await, Some(json!({FIELD: 0})));
}

/// E13: after a rewind the same cards come again; what is stored already is audited without being tried.
pub(crate) async fn a_record_stored_before_moves_the_cursor(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let deferred = consuming(1, step(REPO, 0, 12), AuditStatus::Success);
    shelf.write(&deferred).await;
    assert_eq!(cursor(&shelf, REPO).await, Some(json!({FIELD: 12})));
    set_cursor(&shelf, REPO, json!({FIELD: 0})).await;
    let redirected = consuming(2, step(REPO, 0, 12), AuditStatus::Redirected);
    shelf.write(&redirected).await;
    assert_eq!(cursor(&shelf, REPO).await, Some(json!({FIELD: 12})));
}

pub(crate) async fn a_failed_record_moves_nothing(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    begin(&shelf, 1, step(REPO, 0, 12)).await;
    let failed = AuditEnd {
        status: AuditStatus::Failed,
        ..stored("none")
    };
    assert!(shelf.finalize(1, &failed).await);
    shelf
        .write(&consuming(2, step(REPO, 0, 12), AuditStatus::Failed))
        .await;
    begin(&shelf, 3, step(REPO, 0, 12)).await;
    assert_eq!(cursor(&shelf, REPO).await, None);
    assert!(shelf.finalize(3, &stored("mem-1")).await);
    assert_eq!(cursor(&shelf, REPO).await, Some(json!({FIELD: 12})));
}

/// Somebody rewound it, or was quicker: the record is stored all the same.
pub(crate) async fn a_cursor_that_stands_elsewhere_stays(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
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
            set_cursor(&shelf, REPO, value.clone()).await;
        }
        begin(&shelf, n, step(REPO, 12, 13)).await;
        assert!(shelf.finalize(n, &stored("mem-1")).await, "{stands:?}");
        assert_eq!(cursor(&shelf, REPO).await, stands);
        assert_eq!(shelf.audit_of(n).await.status, AuditStatus::Success);
    }
    // Where there is nothing to read it stands at the beginning.
    begin(&shelf, 8, step(REPO, 0, 1)).await;
    assert!(shelf.finalize(8, &stored("mem-1")).await);
    assert_eq!(cursor(&shelf, REPO).await, Some(json!({FIELD: 1})));
    // A gap, or a step back, is the gateway's to decide.
    begin(&shelf, 9, step(REPO, 1, 0)).await;
    assert!(shelf.finalize(9, &stored("mem-1")).await);
    assert_eq!(cursor(&shelf, REPO).await, Some(json!({FIELD: 0})));
}

pub(crate) async fn every_repository_has_its_cursor(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    begin(&shelf, 1, step(REPO, 0, 12)).await;
    let by_revision = json!({"repo_id": OTHER, "field": "last_processed_rev", "from": 0, "to": 5});
    begin(&shelf, 2, by_revision).await;
    assert!(shelf.finalize(1, &stored("mem-1")).await);
    assert_eq!(cursor(&shelf, OTHER).await, None);
    assert!(shelf.finalize(2, &stored("mem-2")).await);
    assert_eq!(cursor(&shelf, REPO).await, Some(json!({FIELD: 12})));
    assert_eq!(
        cursor(&shelf, OTHER).await,
        Some(json!({"last_processed_rev": 5}))
    );
}

pub(crate) async fn of_two_that_consume_at_once_one_moves_it(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let other = harness.another_logbook().await.expect("a logbook");
    for round in 0..10_i64 {
        let mut tasks = JoinSet::new();
        for n in 0..4_i64 {
            let id = (10 * round + n + 1) as u64;
            begin(&shelf, id, step(REPO, 100 * round, 100 * (round + 1))).await;
            let book = Arc::clone(if n % 2 == 0 { &shelf.book } else { &other });
            tasks.spawn(async move {
                let ended = book.finalize_audit(&corr(id), &stored("mem-1")).await;
                assert!(ended.expect("finalize_audit answers"));
            });
        }
        all(tasks).await;
        let stands = Some(json!({FIELD: 100 * (round + 1)}));
        assert_eq!(cursor(&shelf, REPO).await, stands);
    }
}

/// Nothing fails for it: the audit is more important.
pub(crate) async fn a_step_nobody_understands_is_none(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
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
        begin(&shelf, n, consume.clone()).await;
        assert!(shelf.finalize(n, &stored("mem-1")).await, "{consume}");
        assert_eq!(cursor(&shelf, REPO).await, None, "{consume}");
    }
}
