//! Putting memories off, twins, and what is stored already.

use std::{collections::BTreeSet, sync::Arc};

use consign_kernel::{MessageId, NewMessage, Payload, QueuePolicy, StateKind};
use consign_memory::{
    Action, AuditEnd, AuditStatus, DeferResult, EnqueuedMemory, KnownMemory, NewMemory,
    OutboxStatus, Twin, message_key, payload_sha,
};
use serde_json::json;
use tokio::task::JoinSet;

use super::Harness;
use super::fixture::{MemoryFixture, at, audit, corr, memory, put_off, rules, stored};
use consign_conformance::stage::{all, by, refused, s};

/// A memory with everything a request may bring.
fn rich(n: u64) -> NewMemory {
    NewMemory {
        target_space: "private:alice".to_owned(),
        payload_md: "# Test\n".to_owned(),
        backend: Some("openmemory:http://m.example".to_owned()),
        item_id: Some(7),
        last_error: Some("connection_error: boom".to_owned()),
        may_be_stored: true,
        correlation_id: Some(corr(n)),
        actor_user_id: Some("alice".to_owned()),
        kind: Some("DECISION".to_owned()),
        meta_json: json!({"a": [1, {"b": "ж"}]})
            .as_object()
            .expect("an object")
            .clone(),
        evidence: vec![json!({"uri": "git://r/c/1", "sha256": ""})],
        supersedes: Some("mem-1".to_owned()),
    }
}

async fn defer(fixture: &MemoryFixture<'_>, memory: &NewMemory, n: u64) -> DeferResult {
    let deferred = fixture.book.defer(memory, &corr(n), &put_off()).await;
    deferred.expect("defer answers")
}

pub(crate) async fn a_deferred_memory_is_a_row_and_the_end_of_its_audit(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let now = fixture.stage.now().await;
    fixture.begin(1, "# Test\n").await;
    let memory = rich(1);
    let deferred = defer(&fixture, &memory, 1).await;
    assert_eq!(
        (deferred.is_audited, &deferred.enqueued.twin),
        (true, &None)
    );
    let id = deferred.enqueued.outbox_id;

    let row = fixture.row(id).await;
    assert_eq!(row.target_space, memory.target_space);
    assert_eq!(row.payload_md, memory.payload_md);
    assert_eq!(row.payload_sha, memory.payload_sha());
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Pending, 0));
    assert_eq!(
        (row.item_id, row.last_error),
        (Some(7), memory.last_error.clone())
    );
    assert_eq!(row.correlation_id, Some(corr(1)));
    assert_eq!(row.backend, memory.backend);
    assert_eq!((row.created_at, row.next_attempt_at), (now, Some(now)));
    assert_eq!((row.locked_at, row.locked_by), (None, None));

    let audit = fixture.audit_of(1).await;
    assert_eq!(audit.status, AuditStatus::Redirected);
    assert_eq!(audit.action, Action::Redirect);
    let reason = format!("openmemory_write_failed:connection_error:outbox:{id}");
    assert_eq!(audit.reason.as_deref(), Some(&*reason));
    let json = &audit.evidence_refs_json;
    for (pointer, expected) in [
        ("/outbox_id", json!(id.0)),
        ("/intended_action", json!("allow")),
        ("/extra/last_error", json!("boom")),
        ("/extra/correlation_id", json!(corr(1))),
        ("/gateway_event/outbox_id", json!(id.0)),
        ("/gateway_event/decision/action", json!("redirect")),
        ("/gateway_event/decision/reason", json!(reason)),
        ("/gateway_event/operation", json!("memory_store")),
    ] {
        assert_eq!(at(json, pointer), &expected, "{pointer}");
    }

    // The message is as the port specifies, for every consumer.
    let lease = fixture.stage.claim(1).await;
    let claimed = &lease.messages[0].message;
    let expected: NewMessage = memory.message();
    assert_eq!((claimed.id, &claimed.key), (id, &expected.key));
    assert_eq!(
        (&claimed.payload, &claimed.headers),
        (&expected.payload, &expected.headers)
    );
}

/// Never a row without its audit's end, never an end without its row.
pub(crate) async fn a_deferral_is_done_whole_or_not_at_all(harness: &dyn Harness) {
    let small = QueuePolicy {
        payload_max_bytes: 300,
        ..rules()
    };
    let fixture = MemoryFixture::with(harness, small).await;
    let text = "x".repeat(1_000);
    fixture.begin(1, &text).await;
    let large = fixture
        .book
        .defer(&memory(&text), &corr(1), &put_off())
        .await;
    refused(large, "payload_too_large");
    assert_eq!(fixture.audit_of(1).await.status, AuditStatus::Pending);

    for end in [
        AuditEnd {
            status: AuditStatus::Pending,
            ..put_off()
        },
        AuditEnd {
            patch: json!(7),
            ..put_off()
        },
    ] {
        let wrong = fixture.book.defer(&memory("text"), &corr(1), &end).await;
        refused(wrong, "invalid_input");
        assert_eq!(fixture.audit_of(1).await.status, AuditStatus::Pending);
        let rows = fixture.book.outbox_rows(None, 10).await;
        assert_eq!(rows.expect("outbox_rows answers"), []);
    }
    let nowhere = NewMemory {
        target_space: String::new(),
        ..memory("text")
    };
    let nowhere = fixture.book.defer(&nowhere, &corr(1), &put_off()).await;
    refused(nowhere, "invalid_input");
    assert!(fixture.finalize(1, &stored("mem-1")).await, "still pending");
}

/// A request whose audit has ended meanwhile loses no memory.
pub(crate) async fn a_memory_is_kept_although_its_audit_has_ended(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.begin(1, "text").await;
    assert!(fixture.finalize(1, &stored("mem-1")).await);
    let ended = fixture.audit_of(1).await;
    assert_eq!(ended.audit_id, id);
    let deferred = defer(&fixture, &memory("text"), 1).await;
    assert!(!deferred.is_audited);
    assert_eq!(fixture.audit_of(1).await, ended, "final is final");
    fixture.row(deferred.enqueued.outbox_id).await;
}

/// The same text in the same space has one row.
pub(crate) async fn a_twin_is_answered_instead_of_enqueued(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    let again = async || {
        let again = fixture.book.enqueue_memory(&memory("text")).await;
        again.expect("enqueue_memory answers")
    };
    let twin = |twin| EnqueuedMemory {
        outbox_id: id,
        twin: Some(twin),
    };
    assert_eq!(again().await, twin(Twin::Pending));
    fixture.claim("w1", 1).await;
    assert_eq!(again().await, twin(Twin::Pending), "under way");
    assert!(fixture.bury(id, "w1", "api_error: 400 - no").await);
    assert_eq!(again().await, twin(Twin::Requeued));
    assert_eq!(again().await, twin(Twin::Pending), "once");
    let row = fixture.row(id).await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Pending, 0));
    assert_eq!(fixture.claim_ids("w1", 1).await, [id]);
    assert!(fixture.ack(id, "w1", Some("mem-1")).await);
    assert_eq!(again().await, twin(Twin::Sent(Some("mem-1".to_owned()))));

    // A deferral names its twin in the audit.
    let waiting = fixture.put_text("waiting").await;
    fixture.begin(1, "waiting").await;
    let deferred = defer(&fixture, &memory("waiting"), 1).await;
    assert_eq!(deferred.enqueued.outbox_id, waiting);
    assert_eq!(
        *at(&fixture.audit_of(1).await.evidence_refs_json, "/outbox_id"),
        waiting.0
    );

    // Another space or text is another memory.
    for other in [
        memory("Text"),
        NewMemory {
            target_space: "team:q".to_owned(),
            ..memory("text")
        },
    ] {
        assert_ne!(fixture.put(&other).await, id);
    }
}

pub(crate) async fn a_memory_enqueued_by_ten_at_once_is_one(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let other = harness.another_book().await;
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let book = Arc::clone(if n % 2 == 0 { &fixture.book } else { &other });
        tasks.spawn(async move {
            let enqueued = book.enqueue_memory(&memory("text")).await;
            enqueued.expect("enqueue_memory answers")
        });
    }
    let answers = all(tasks).await;
    let ids: BTreeSet<MessageId> = answers.iter().map(|a| a.outbox_id).collect();
    assert_eq!(ids.len(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|a| a.twin.is_none()).count(), 1);
    assert_eq!(fixture.claim("w1", 10).await.len(), 1);
}

/// By the outbox or directly, in this space only, and only what is stored.
pub(crate) async fn what_is_stored_is_known(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let find = async |space: &str, text: &str| {
        let found = fixture
            .book
            .check_dedup(space, &payload_sha(text), None)
            .await;
        found.expect("check_dedup answers")
    };
    let sent = fixture.put_text("sent").await;
    assert_eq!(find("team:p", "sent").await, None, "pending");
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(sent, "w1", Some("mem-1")).await);
    let expected = KnownMemory {
        outbox_id: Some(sent),
        memory_id: Some("mem-1".to_owned()),
    };
    assert_eq!(find("team:p", "sent").await, Some(expected));
    assert_eq!(find("team:q", "sent").await, None, "elsewhere");
    assert_eq!(find("team:p", "Sent").await, None, "another text");

    let dead = fixture.put_text("dead").await;
    fixture.claim("w1", 1).await;
    assert!(fixture.bury(dead, "w1", "no").await);
    assert_eq!(find("team:p", "dead").await, None, "dead");

    fixture.begin(1, "direct").await;
    assert_eq!(find("team:p", "direct").await, None, "under way");
    assert!(fixture.finalize(1, &stored("mem-2")).await);
    let expected = KnownMemory {
        outbox_id: None,
        memory_id: Some("mem-2".to_owned()),
    };
    assert_eq!(find("team:p", "direct").await, Some(expected));
    assert_eq!(find("team:q", "direct").await, None);

    // Failed, deferred, or without an id: nothing counts as stored.
    for (n, status) in [(2, AuditStatus::Failed), (3, AuditStatus::Redirected)] {
        fixture.begin(n, "no").await;
        let end = AuditEnd {
            status,
            ..stored("mem-3")
        };
        assert!(fixture.finalize(n, &end).await);
    }
    fixture.write(&audit(4, "no", AuditStatus::Success)).await;
    assert_eq!(find("team:p", "no").await, None);
}

/// What is not a memory under its own key and hash would stop the worker or be taken for stored.
pub(crate) async fn the_queue_of_memories_takes_memories_only(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let good = memory("text").message();
    let sha = payload_sha("text");
    let queue = || fixture.stage.queue.clone();
    let keyed = |payload: Payload, key: &str| NewMessage::new(queue(), payload).with_key(key);
    let key = message_key("team:p", &sha);
    for wrong in [
        NewMessage::new(queue(), good.payload.clone()),
        keyed(good.payload.clone(), "another key"),
        keyed(good.payload.clone(), &message_key("team:q", &sha)),
        keyed(good.payload.clone(), &format!("{key}#1")),
        keyed(good.payload.clone(), &format!("{key}#02")),
        keyed(good.payload.clone(), &format!("{key}#2x")),
        keyed(good.payload.clone(), &format!("{key}#-2")),
        keyed(good.payload.clone(), &format!("{key}#")),
        keyed(json!("text").into(), &key),
        keyed(
            json!({"target_space": "team:p", "payload_sha": sha}).into(),
            &key,
        ),
        keyed(
            json!({"target_space": "team:p", "payload_sha": sha, "payload_md": "other"}).into(),
            &key,
        ),
        keyed(
            json!({"target_space": "team:p", "payload_sha": sha, "payload_md": "text", "more": 1})
                .into(),
            &key,
        ),
        good.clone().with_group("g"),
    ] {
        let error = refused(
            fixture
                .stage
                .try_enqueue(std::slice::from_ref(&wrong))
                .await,
            "invalid_input",
        );
        assert!(error.to_string().contains("memor"), "{wrong:?}: {error}");
    }
    // One that fits is welcome, whichever way it comes.
    let second = keyed(good.payload.clone(), &format!("{key}#2"));
    for id in fixture.stage.enqueue_all(&[good, second]).await {
        assert_eq!(fixture.row(id).await.payload_md, "text");
    }
}

pub(crate) async fn the_first_memory_makes_the_queue(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    assert_eq!(fixture.claim_ids("w1", 1).await, [], "nothing yet");
    let id = fixture.put_text("text").await;
    let queues = fixture
        .stage
        .store
        .queues(None, 1_000)
        .await
        .expect("queues answers");
    let (queue, _) = queues
        .into_iter()
        .find(|(queue, _)| queue.name == fixture.stage.queue)
        .expect("the queue is made");
    let expected = consign_memory::queue_policy(&consign_memory::MemoryOptions::default());
    assert_eq!(queue.policy, expected, "by the protocol's own rules");
    assert_eq!(fixture.claim_ids("w1", 1).await, [id]);
}

/// A person's requeue counts retries afresh.
pub(crate) async fn a_requeued_memory_starts_afresh(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    fixture.claim("w1", 1).await;
    assert!(fixture.retry(id, "w1", "boom", s(0)).await);
    fixture.claim("w1", 1).await;
    assert!(fixture.bury(id, "w1", "api_error: 400 - no").await);
    assert_eq!(fixture.row(id).await.retry_count, 1);
    let moved = fixture.stage.store.requeue(&[id], &by()).await;
    moved.expect("requeue answers");
    assert_eq!(fixture.stage.kind(id).await, StateKind::Ready);
    let row = fixture.row(id).await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Pending, 0));
    fixture.claim("w2", 1).await;
    assert!(fixture.retry(id, "w2", "boom", s(60)).await);
    assert_eq!(fixture.row(id).await.retry_count, 1);
    assert_eq!(
        fixture.story(id).await,
        [
            "outbox_flush_retry",
            "outbox_flush_dead",
            "outbox_flush_retry"
        ]
    );
}

pub(crate) async fn rows_are_listed_newest_first(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let ids = fixture.put_by_the_minute(3).await;
    fixture.claim("w1", 2).await;
    assert!(fixture.ack(ids[0], "w1", None).await);
    assert!(fixture.bury(ids[1], "w1", "no").await);
    let list = async |status, limit| {
        let rows = fixture.book.outbox_rows(status, limit).await;
        let rows = rows.expect("outbox_rows answers");
        rows.iter().map(|row| row.outbox_id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 10).await, [ids[2], ids[1], ids[0]]);
    assert_eq!(list(None, 1).await, [ids[2]]);
    assert_eq!(list(Some(OutboxStatus::Sent), 10).await, [ids[0]]);
    assert_eq!(list(Some(OutboxStatus::Dead), 10).await, [ids[1]]);
    assert_eq!(list(Some(OutboxStatus::Pending), 10).await, [ids[2]]);
    let nobody = fixture.book.outbox_row(MessageId(ids[2].0 + 1_000)).await;
    assert_eq!(nobody.expect("outbox_row answers"), None);
}
