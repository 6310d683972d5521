//! Begin of a write: all reads before it and its audit at once.

use std::sync::Arc;

use consign_memory::{
    AuditEnd, AuditFilter, AuditStatus, KnownMemory, NewMemory, NewUser, OpenResult, Opening,
    SettingsChange, payload_sha,
};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::Harness;
use super::fixture::{MemoryFixture, at, audit, corr, memory, stored};
use consign_conformance::stage::{all, refused};

/// A write that takes nothing for granted.
pub(crate) fn opening(n: u64, text: &str) -> Opening {
    Opening {
        audit: audit(n, text, AuditStatus::Pending),
        settings: None,
        user_id: None,
        is_deduplicated: true,
        kept: None,
    }
}

/// It begins, and was not tried before.
pub(crate) fn fresh() -> OpenResult {
    OpenResult::Pending { in_doubt: false }
}

pub(crate) fn keeping(n: u64, memory: NewMemory) -> Opening {
    Opening {
        kept: Some(memory.clone()),
        ..opening(n, &memory.payload_md)
    }
}

pub(crate) async fn open(fixture: &MemoryFixture<'_>, opening: &Opening) -> OpenResult {
    let opened = fixture.book.open_write(opening).await;
    opened.expect("open_write answers")
}

async fn is_kept(fixture: &MemoryFixture<'_>, text: &str) -> bool {
    let kept = fixture.book.kept("team:p", &payload_sha(text)).await;
    kept.expect("kept answers").is_some()
}

async fn set_policy(fixture: &MemoryFixture<'_>, n: u64, policy: Value) {
    let Value::Object(policy_json) = policy else {
        panic!("an object: {policy}");
    };
    let change = SettingsChange {
        project_key: "p".to_owned(),
        team_write_enabled: Some(true),
        policy_json,
        replace: true,
        updated_by: None,
    };
    let mut told = audit(n, "", AuditStatus::Success);
    told.target_space = "governance:p".to_owned();
    let changed = fixture.book.change_settings(&change, &told).await;
    changed.expect("change_settings answers");
}

/// The audit is written before the backend is called, once per request.
pub(crate) async fn a_write_begins_with_its_audit(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    assert_eq!(open(&fixture, &opening(1, "text")).await, fresh());
    let begun = fixture.audit_of(1).await;
    let expected = audit(1, "text", AuditStatus::Pending);
    assert_eq!(begun.status, AuditStatus::Pending);
    assert_eq!(begun.evidence_refs_json, expected.evidence_refs_json);
    assert_eq!(begun.payload_sha, expected.payload_sha);
    assert_eq!(begun.actor_user_id, expected.actor_user_id);
    let again = fixture.book.open_write(&opening(1, "other")).await;
    refused(again, "invalid_input");
    let mut nameless = opening(2, "text");
    nameless.audit.correlation_id = None;
    refused(fixture.book.open_write(&nameless).await, "invalid_input");
    assert!(fixture.finalize(1, &stored("mem-1")).await);
    assert_eq!(fixture.audits(&AuditFilter::default()).await.len(), 1);
}

/// What is stored is answered instead, and nothing is written.
pub(crate) async fn a_write_of_what_is_stored_does_not_begin(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    assert_eq!(open(&fixture, &opening(1, "direct")).await, fresh());
    assert!(fixture.finalize(1, &stored("mem-1")).await);
    let direct = KnownMemory {
        outbox_id: None,
        memory_id: Some("mem-1".to_owned()),
    };
    assert_eq!(
        open(&fixture, &opening(2, "direct")).await,
        OpenResult::Known(direct)
    );
    let id = fixture.put_text("sent").await;
    let waits = OpenResult::Pending { in_doubt: true };
    assert_eq!(open(&fixture, &opening(3, "sent")).await, waits);
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(id, "w1", Some("mem-2")).await);
    let sent = KnownMemory {
        outbox_id: Some(id),
        memory_id: Some("mem-2".to_owned()),
    };
    assert_eq!(
        open(&fixture, &opening(4, "sent")).await,
        OpenResult::Known(sent)
    );
    // A caller with newer knowledge writes it anyway.
    let mut anyway = opening(5, "direct");
    anyway.is_deduplicated = false;
    assert_eq!(open(&fixture, &anyway).await, fresh());
    for n in [2, 4] {
        let filter = AuditFilter {
            correlation_id: Some(corr(n)),
            ..AuditFilter::default()
        };
        assert_eq!(fixture.audits(&filter).await, [], "request {n}");
    }
}

/// A change of the policy applies to every later call.
pub(crate) async fn a_write_by_settings_of_yesterday_does_not_begin(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let unseen = fixture.book.settings("p").await.expect("settings answers");
    set_policy(
        &fixture,
        90,
        json!({"max_chars": 10, "b": [1, {"c": null}]}),
    )
    .await;
    let seen = Arc::new(fixture.book.settings("p").await.expect("settings answers"));
    let by = |n, settings: &Arc<_>| Opening {
        settings: Some(Arc::clone(settings)),
        ..opening(n, &format!("text {n}"))
    };
    assert_eq!(
        open(&fixture, &by(1, &Arc::new(unseen))).await,
        OpenResult::Stale
    );
    assert_eq!(open(&fixture, &by(2, &seen)).await, fresh());
    set_policy(
        &fixture,
        91,
        json!({"max_chars": 11, "b": [1, {"c": null}]}),
    )
    .await;
    assert_eq!(open(&fixture, &by(3, &seen)).await, OpenResult::Stale);
    set_policy(
        &fixture,
        92,
        json!({"max_chars": 10, "b": [1, {"c": null}]}),
    )
    .await;
    assert_eq!(open(&fixture, &by(4, &seen)).await, fresh());
    let mut other = (*seen).clone();
    other.team_write_enabled = false;
    assert_eq!(
        open(&fixture, &by(5, &Arc::new(other))).await,
        OpenResult::Stale
    );
    let mut other = (*seen).clone();
    other.project_key = "nobody's".to_owned();
    let kept = Opening {
        kept: Some(memory("text 6")),
        ..by(6, &Arc::new(other))
    };
    assert_eq!(open(&fixture, &kept).await, OpenResult::Stale);
    assert!(!is_kept(&fixture, "text 6").await);
}

/// An assumed user is not created.
pub(crate) async fn a_write_without_an_active_user_does_not_begin(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let by = Opening {
        user_id: Some("bob".to_owned()),
        ..opening(1, "text")
    };
    assert_eq!(open(&fixture, &by).await, OpenResult::Stale);
    assert_eq!(fixture.audits(&AuditFilter::default()).await, []);
    let user = NewUser {
        user_id: "bob".to_owned(),
        display_name: "Bob".to_owned(),
    };
    let made = fixture.book.create_user(&user).await;
    made.expect("create_user answers");
    assert_eq!(open(&fixture, &by).await, fresh());
}

/// Where the memory is kept in the same database, it and its audit are there at once.
pub(crate) async fn a_kept_memory_is_there_with_its_audit(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let new = NewMemory {
        kind: Some("FACT".to_owned()),
        actor_user_id: Some("alice".to_owned()),
        meta_json: Map::from_iter([("pr".to_owned(), json!(7))]),
        ..memory("Leases run out.")
    };
    let OpenResult::Kept(kept) = open(&fixture, &keeping(1, new.clone())).await else {
        panic!("kept");
    };
    assert!(kept.is_new);
    let ended = fixture.audit_of(1).await;
    assert_eq!(ended.status, AuditStatus::Success);
    assert_eq!(at(&ended.evidence_refs_json, "/memory_id"), &kept.memory_id);
    let event = at(&ended.evidence_refs_json, "/gateway_event");
    assert_eq!(event["memory_id"], json!(kept.memory_id));
    assert_eq!(event["operation"], "memory_store");
    let read = fixture.book.read_kept(&kept.memory_id).await;
    let read = read.expect("read_kept answers");
    assert_eq!(read.map(|item| item.meta), Some(new.meta_json.clone()));
    // It counts as stored from then on, and cannot be ended again.
    let known = KnownMemory {
        outbox_id: None,
        memory_id: Some(kept.memory_id.clone()),
    };
    let again = keeping(2, new.clone());
    assert_eq!(open(&fixture, &again).await, OpenResult::Known(known));
    let late = AuditEnd {
        status: AuditStatus::Failed,
        ..stored("mem-1")
    };
    assert!(!fixture.finalize(1, &late).await);
    let mut anyway = keeping(3, new);
    anyway.is_deduplicated = false;
    let OpenResult::Kept(twice) = open(&fixture, &anyway).await else {
        panic!("kept");
    };
    assert_eq!((twice.memory_id, twice.is_new), (kept.memory_id, false));
}

/// One of them keeps it; the others find that out, whenever they come.
pub(crate) async fn a_memory_begun_by_ten_at_once_is_kept_once(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let other = harness.another_book().await;
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let book = Arc::clone(if n % 2 == 0 { &fixture.book } else { &other });
        tasks.spawn(async move {
            let opened = book.open_write(&keeping(n, memory("text"))).await;
            opened.expect("open_write answers")
        });
    }
    let opened = all(tasks).await;
    let is_new = |opened: &&OpenResult| matches!(opened, OpenResult::Kept(kept) if kept.is_new);
    assert_eq!(opened.iter().filter(is_new).count(), 1, "{opened:?}");
    let is_known = |opened: &&OpenResult| matches!(opened, OpenResult::Known(_));
    assert_eq!(opened.iter().filter(is_known).count(), 9, "{opened:?}");
    assert_eq!(fixture.audits(&AuditFilter::default()).await.len(), 1);
}
