//! The sink of the queue, over a real store and the real worker.

mod doubt;
mod lease;
mod reconcile;

use consign_kernel::{AttemptOutcome, MessageId};
use consign_memory::{Audit, AuditFilter, Correlation, NewMemory, OutboxStatus, flush::codes};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::{Fixture, ServerMode, told};

/// A fixture with one memory in its outbox, and the row's number.
async fn deferred(space: &str) -> (Fixture, Value) {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.server.behave(ServerMode::Down);
    let arguments = json!({"payload_md": "x", "target_space": space});
    let answer = fixture.call("memory_store", arguments).await;
    assert_eq!(answer["action"], "deferred", "{answer}");
    let outbox_id = answer["outbox_id"].clone();
    (fixture, outbox_id)
}

/// The audits about a row but the first, which is the request's.
async fn flushed(fixture: &Fixture, outbox_id: &Value) -> Vec<Audit> {
    let filter = AuditFilter {
        outbox_id: outbox_id.as_i64(),
        ..AuditFilter::default()
    };
    let mut audits = fixture.store.audits(&filter, 100).await.unwrap();
    audits.reverse();
    audits.retain(|audit| {
        let source = audit.evidence_refs_json["source"].as_str();
        source == Some("outbox_worker")
    });
    audits
}

async fn has_status(fixture: &Fixture, outbox_id: &Value, status: OutboxStatus) -> bool {
    fixture.row(outbox_id).await.status == status
}

/// It is delivered, and a second audit about the same row says so.
#[tokio::test]
async fn what_was_deferred_is_delivered() {
    let (fixture, id) = deferred("team:p").await;
    fixture.server.behave(ServerMode::Well);
    let is_sent = || has_status(&fixture, &id, OutboxStatus::Sent);
    fixture.work_until("it is sent", is_sent).await;
    let row = fixture.row(&id).await;
    assert_eq!(row.last_error.as_deref(), Some("memory_id=mem-1"));
    assert_eq!(row.memory_id.as_deref(), Some("mem-1"));
    assert_eq!(
        (row.locked_by, row.locked_at, row.retry_count),
        (None, None, 0)
    );
    let audits = flushed(&fixture, &id).await;
    assert_eq!(audits.len(), 1);
    assert_eq!(told(&audits[0]), "allow outbox_flush_success success");
    assert_eq!(audits[0].actor_user_id, None);
    assert_eq!(audits[0].target_space, "team:p");
    let about = &audits[0].evidence_refs_json;
    assert_eq!(about["memory_id"], "mem-1");
    assert_eq!(about["outbox_id"], id);
    assert_eq!(about["worker_id"], "worker-1");
    let request = &fixture.audits().await[0];
    assert_ne!(request.correlation_id, audits[0].correlation_id);
    assert!(
        audits[0]
            .correlation_id
            .as_ref()
            .unwrap()
            .starts_with("corr-")
    );
    // It is found like any other, and stored no second time.
    let again = fixture.remember("x").await;
    assert_eq!(again["memory_id"], "mem-1", "{again}");
    assert_eq!(fixture.server.writes(), 1);
}

/// Whose it is, and all that came with it.
#[tokio::test]
async fn a_delivered_memory_has_all_that_a_direct_one_has() {
    let fixture = Fixture::new().await;
    fixture.make_user("alice").await;
    fixture.server.behave(ServerMode::Down);
    let arguments = json!({
        "payload_md": "x", "target_space": "private:alice", "actor_user_id": "alice",
        "kind": "DECISION", "meta_json": {"a": {"b": [1]}}, "item_id": 3,
        "evidence": [{"uri": "git://r", "sha256": ""}],
    });
    let answer = fixture.call("memory_store", arguments).await;
    fixture.server.behave(ServerMode::Well);
    let id = answer["outbox_id"].clone();
    let is_sent = || has_status(&fixture, &id, OutboxStatus::Sent);
    fixture.work_until("it is sent", is_sent).await;
    let kept = fixture.server.kept().pop().unwrap().memory;
    assert_eq!(kept.target_space, "private:alice");
    assert_eq!(kept.actor_user_id.as_deref(), Some("alice"));
    assert_eq!(kept.kind.as_deref(), Some("DECISION"));
    assert_eq!(kept.item_id, Some(3));
    assert_eq!(kept.meta_json["a"], json!({"b": [1]}));
    assert_eq!(kept.evidence, [json!({"uri": "git://r", "sha256": ""})]);
    let audit = flushed(&fixture, &id).await.pop().unwrap();
    assert_eq!(audit.actor_user_id.as_deref(), Some("alice"));
}

/// It rests for two minutes, 30 % more or less.
#[tokio::test]
async fn what_fails_rests_and_is_tried_again() {
    let (fixture, id) = deferred("team:p").await;
    let has_failed = || async { fixture.row(&id).await.retry_count == 1 };
    fixture.work_until("it failed once", has_failed).await;
    let row = fixture.row(&id).await;
    assert_eq!(row.status, OutboxStatus::Pending);
    let last_error = row.last_error.unwrap();
    assert!(last_error.starts_with("connection_error: "), "{last_error}");
    let rest = row
        .next_attempt_at
        .unwrap()
        .duration_since(Timestamp::now());
    let (least, most) = (
        SignedDuration::from_secs(60),
        SignedDuration::from_secs(157),
    );
    assert!(least < rest && rest < most, "{rest:?}");
    let audits = flushed(&fixture, &id).await;
    assert_eq!(audits.len(), 1);
    assert_eq!(told(&audits[0]), "redirect outbox_flush_retry redirected");
    let about = &audits[0].evidence_refs_json;
    assert_eq!(about["retry_count"], 1);
    assert!(about["next_attempt_at"].is_string(), "{about}");
}

/// Four retries, then dead; the row keeps four, the audit says five.
#[tokio::test]
async fn after_five_tries_it_is_dead() {
    let (fixture, id) = deferred("team:p").await;
    fixture.hurry().await;
    fixture.server.behave(ServerMode::Status(503));
    let is_dead = || has_status(&fixture, &id, OutboxStatus::Dead);
    fixture.work_until("it is dead", is_dead).await;
    let row = fixture.row(&id).await;
    assert_eq!(row.retry_count, 4);
    assert!(row.last_error.unwrap().starts_with("api_error: 503"));
    let audits = flushed(&fixture, &id).await;
    let words: Vec<String> = audits.iter().map(told).collect();
    let retry = "redirect outbox_flush_retry redirected";
    let expected = [
        retry,
        retry,
        retry,
        retry,
        "reject outbox_flush_dead failed",
    ];
    assert_eq!(words, expected);
    let dead = &audits[4].evidence_refs_json;
    assert_eq!(dead["retry_count"], 5, "{dead}");
    assert!(
        dead["extra"]["last_error"]
            .as_str()
            .unwrap()
            .starts_with("api_error: 503")
    );
    assert_eq!(fixture.audits().await.len(), 6, "and the request's own");

    // Asked for again, it gets another chance.
    let again = fixture.remember("x").await;
    assert_eq!(again["action"], "deferred", "{again}");
    assert_eq!(again["outbox_id"], id);
    fixture.server.behave(ServerMode::Well);
    let is_sent = || has_status(&fixture, &id, OutboxStatus::Sent);
    fixture.work_until("it is sent after all", is_sent).await;
}

/// What will never be taken is not tried again; what waits for a key waits.
#[tokio::test]
async fn what_is_refused_is_dead_at_once() {
    let (fixture, id) = deferred("team:p").await;
    fixture.hurry().await;
    fixture.server.behave(ServerMode::Status(400));
    let is_dead = || has_status(&fixture, &id, OutboxStatus::Dead);
    fixture.work_until("it is dead", is_dead).await;
    assert_eq!(fixture.row(&id).await.retry_count, 0);
    let words: Vec<String> = flushed(&fixture, &id).await.iter().map(told).collect();
    assert_eq!(words, ["reject outbox_flush_dead failed"]);

    let (fixture, id) = deferred("team:p").await;
    fixture.server.behave(ServerMode::Status(401));
    let has_failed = || async { fixture.row(&id).await.retry_count == 1 };
    fixture.work_until("it failed once", has_failed).await;
    assert_eq!(fixture.row(&id).await.status, OutboxStatus::Pending);
}

/// The same text was stored directly meanwhile.
#[tokio::test]
async fn what_is_stored_already_is_not_stored_again() {
    let (fixture, id) = deferred("team:p").await;
    fixture.server.behave(ServerMode::Well);
    let direct = fixture.remember("x").await;
    assert_eq!(direct["memory_id"], "mem-1", "{direct}");
    let is_sent = || has_status(&fixture, &id, OutboxStatus::Sent);
    fixture.work_until("it is sent", is_sent).await;
    assert_eq!(
        fixture.server.stores(),
        2,
        "the request that failed and the one that did not"
    );
    assert_eq!(
        fixture.row(&id).await.last_error.as_deref(),
        Some("memory_id=mem-1")
    );
    let audits = flushed(&fixture, &id).await;
    let words: Vec<String> = audits.iter().map(told).collect();
    assert_eq!(words, ["allow outbox_flush_dedup_hit success"]);
    assert_eq!(audits[0].evidence_refs_json["memory_id"], "mem-1");
}

/// One fails, one does not; an audit each, named after its batch.
#[tokio::test]
async fn of_a_batch_each_has_its_own_end() {
    let fixture = Fixture::new().await;
    fixture.server.behave(ServerMode::FailFor("bad"));
    let mut ids = Vec::new();
    for text in ["bad", "good"] {
        let memory = NewMemory {
            target_space: "team:p".to_owned(),
            payload_md: text.to_owned(),
            ..NewMemory::default()
        };
        let enqueued = fixture.store.enqueue_memory(&memory).await.unwrap();
        ids.push(json!(enqueued.outbox_id));
    }
    let is_over = || async {
        fixture.row(&ids[0]).await.retry_count == 1
            && has_status(&fixture, &ids[1], OutboxStatus::Sent).await
    };
    fixture.work_until("both have ended", is_over).await;
    let (bad, good) = (
        flushed(&fixture, &ids[0]).await,
        flushed(&fixture, &ids[1]).await,
    );
    assert_eq!((bad.len(), good.len()), (1, 1));
    assert_eq!(told(&bad[0]), "redirect outbox_flush_retry redirected");
    assert_eq!(told(&good[0]), "allow outbox_flush_success success");
    for (id, audit) in ids.iter().zip([&bad[0], &good[0]]) {
        let message = MessageId(id.as_i64().unwrap());
        let attempt = &fixture.store.history(message).await.unwrap()[0];
        let of_batch = String::from(Correlation::of_fence(attempt.fence.0));
        assert_eq!(audit.correlation_id, Some(of_batch));
    }
    assert_eq!(
        bad[0].correlation_id, good[0].correlation_id,
        "of one batch"
    );
    let attempt = |audit: &Audit| audit.evidence_refs_json["attempt_id"].clone();
    assert_ne!(attempt(&bad[0]), attempt(&good[0]));
}

/// Each is stored once, and has one end.
#[tokio::test]
async fn two_workers_store_each_memory_once() {
    let fixture = Fixture::new().await;
    for number in 0..100 {
        let memory = NewMemory {
            target_space: "team:p".to_owned(),
            payload_md: format!("text {number}"),
            ..NewMemory::default()
        };
        fixture.store.enqueue_memory(&memory).await.unwrap();
    }
    let second = fixture.worker("worker-2");
    let is_over = || async {
        let rows = fixture.rows().await;
        rows.iter().all(|row| row.status == OutboxStatus::Sent)
    };
    fixture.work_until("all are sent", is_over).await;
    second.drain();
    second.finished().await;
    assert_eq!(fixture.server.writes(), 100);
    let told = fixture.told().await;
    assert_eq!(told, ["allow outbox_flush_success success"; 100]);
}

/// The logbook cannot be asked whether it is stored already.
#[tokio::test]
async fn a_failing_logbook_stores_nothing() {
    let (fixture, id) = deferred("team:p").await;
    fixture.server.behave(ServerMode::Well);
    fixture.break_dedup().await;
    let message = MessageId(id.as_i64().unwrap());
    let is_told = || async { !fixture.store.history(message).await.unwrap().is_empty() };
    fixture.work_until("it was told", is_told).await;
    assert_eq!(fixture.server.writes(), 0);
    let attempt = &fixture.store.history(message).await.unwrap()[0];
    assert_eq!(attempt.outcome, AttemptOutcome::Retry);
    assert_eq!(attempt.code.as_deref(), Some(codes::DB_ERROR));
}

crate::support::also_on_postgres! {
    what_was_deferred_is_delivered
    after_five_tries_it_is_dead
    of_a_batch_each_has_its_own_end
    two_workers_store_each_memory_once
}
