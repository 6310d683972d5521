//! A memory belongs to a backend, and only the backend knows whether it has it.

use std::{sync::Arc, time::Duration};

use consign_memory::{
    Action, AuditStatus, Backend, Caller, MemoryService, NewAudit, NewMemory, OutboxStatus,
    payload_sha, tools,
};
use consign_testkit::eventually;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::{FakeServer, Fixture, SOON, ServerMode, told};

async fn fixture() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture
}

async fn is_sent(fixture: &Fixture, outbox_id: &Value) -> bool {
    fixture.row(outbox_id).await.status == OutboxStatus::Sent
}

#[tokio::test]
async fn what_the_server_has_lost_is_stored_again() {
    let fixture = fixture().await;
    let first = fixture.remember("x").await;
    assert_eq!(first["memory_id"], "mem-1");
    let known = fixture.remember("x").await;
    assert_eq!(known["memory_id"], "mem-1");
    assert_eq!(fixture.server.writes(), 1, "it was there");

    fixture.server.forget();
    let again = fixture.remember("x").await;
    assert_eq!(again["ok"], true, "{again}");
    assert_eq!(again["memory_id"], "mem-2");
    assert_eq!(fixture.server.kept().len(), 1);
    let audit = fixture.audits().await.pop().unwrap();
    assert_eq!(told(&audit), "allow policy:policy_passed success");
    assert_eq!(audit.evidence_refs_json["extra"]["stored_again"], true);
    assert_eq!(audit.evidence_refs_json["memory_id"], "mem-2");

    let known = fixture.remember("x").await;
    assert_eq!(known["memory_id"], "mem-2", "{known}");
    assert_eq!(fixture.server.writes(), 2);
}

#[tokio::test]
async fn another_server_has_none_of_it() {
    let fixture = fixture().await;
    assert_eq!(fixture.remember("x").await["ok"], true);
    let other = Arc::new(FakeServer::new());
    let service = MemoryService::new(
        fixture.store.clone(),
        other.clone(),
        fixture.options.clone(),
    );
    let arguments = json!({"payload_md": "x", "target_space": "team:p"});
    let caller = Caller::anonymous();
    let stored = tools::call(&service, "memory_store", arguments, &caller).await;
    assert!(stored.ok, "{}", stored.body);
    assert_eq!(other.kept().len(), 1, "{}", stored.body);
    let [here, there] = &fixture.audits().await[..] else {
        panic!("one for each request");
    };
    let backend = |audit: &consign_memory::Audit| audit.evidence_refs_json["backend"].clone();
    assert_eq!(backend(here), json!(fixture.server.identity()));
    assert_eq!(backend(there), json!(other.identity()));
    assert_eq!(
        there.evidence_refs_json["extra"]["stored_again"],
        Value::Null
    );
}

/// Nobody can say whether it is there: it is put off, and asked about when it is delivered.
#[tokio::test]
async fn what_cannot_be_confirmed_is_put_off() {
    let fixture = fixture().await;
    assert_eq!(fixture.remember("x").await["memory_id"], "mem-1");
    fixture.server.behave(ServerMode::Down);
    let deferred = fixture.remember("x").await;
    assert_eq!(deferred["action"], "deferred", "{deferred}");
    fixture.server.behave(ServerMode::Well);
    let id = deferred["outbox_id"].clone();
    fixture
        .work_until("it is sent", || is_sent(&fixture, &id))
        .await;
    assert_eq!(fixture.server.writes(), 1, "it was there");
    assert_eq!(fixture.row(&id).await.memory_id.as_deref(), Some("mem-1"));
    let last = fixture.told().await.pop();
    assert_eq!(
        last.as_deref(),
        Some("allow outbox_flush_dedup_hit success")
    );
}

/// The row waits, the same text is stored directly, and the server loses it: the row stores it.
#[tokio::test]
async fn a_row_is_not_acknowledged_by_what_is_gone() {
    let fixture = fixture().await;
    fixture.server.behave(ServerMode::Down);
    let deferred = fixture.remember("x").await;
    let id = deferred["outbox_id"].clone();
    fixture.server.behave(ServerMode::Well);
    assert_eq!(fixture.remember("x").await["memory_id"], "mem-1");
    fixture.server.forget();
    fixture
        .work_until("it is sent", || is_sent(&fixture, &id))
        .await;
    assert_eq!(fixture.server.kept().len(), 1);
    assert_eq!(fixture.row(&id).await.memory_id.as_deref(), Some("mem-2"));
    let audit = fixture.audits().await.pop().unwrap();
    assert_eq!(told(&audit), "allow outbox_flush_success success");
    assert_eq!(audit.evidence_refs_json["extra"]["stored_again"], true);
}

/// It was sent, lost, and wanted again while the server is away: it gets a row of its own.
#[tokio::test]
async fn what_was_sent_and_lost_can_be_put_off_again() {
    let fixture = fixture().await;
    fixture.server.behave(ServerMode::Down);
    let first = fixture.remember("x").await["outbox_id"].clone();
    fixture.server.behave(ServerMode::Well);
    fixture
        .work_until("it is sent", || is_sent(&fixture, &first))
        .await;
    fixture.server.forget();
    fixture.server.behave(ServerMode::Down);
    let deferred = fixture.remember("x").await;
    let second = deferred["outbox_id"].clone();
    assert_ne!(second, first, "{deferred}");
    assert_eq!(fixture.remember("x").await["outbox_id"], second);
    fixture.server.behave(ServerMode::Well);
    fixture
        .work_until("it is sent", || is_sent(&fixture, &second))
        .await;
    assert_eq!(fixture.server.kept().len(), 1);
}

/// A worker with another server leaves the row alone, says why, and uses up none of its tries.
#[tokio::test]
async fn a_worker_for_another_server_delivers_nothing() {
    let fixture = fixture().await;
    fixture.server.behave(ServerMode::Down);
    let id = fixture.remember("x").await["outbox_id"].clone();
    fixture.server.behave(ServerMode::Well);
    let other = Arc::new(FakeServer::new());
    let worker = fixture.worker_for("lost", other.clone());
    let is_told = || async {
        let last_error = fixture.row(&id).await.last_error;
        last_error.is_some_and(|error| error.starts_with("misdirected: "))
    };
    eventually("the row says so", SOON, is_told).await;
    worker.drain();
    worker.finished().await;
    assert_eq!((other.stores(), fixture.server.writes()), (0, 0));
    let row = fixture.row(&id).await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Pending, 0));
    let last_error = row.last_error.unwrap();
    for part in [&fixture.server.identity(), &other.identity()] {
        assert!(last_error.contains(part), "{last_error}");
    }
    let rest = row
        .next_attempt_at
        .unwrap()
        .duration_since(Timestamp::now());
    assert!(rest > SignedDuration::from_secs(30), "{rest:?}");
    let message = consign_kernel::MessageId(id.as_i64().unwrap());
    assert_eq!(fixture.store.history(message).await.unwrap().len(), 1);

    let report = fixture.service.report().await;
    let others = &report["outbox_stats"]["waiting_for_other_backends"];
    assert_eq!(*others, json!({}), "it is this gateway's");
    let service = MemoryService::new(
        fixture.store.clone(),
        other.clone(),
        fixture.options.clone(),
    );
    let report = service.report().await;
    let others = &report["outbox_stats"]["waiting_for_other_backends"];
    assert_eq!(*others, json!({fixture.server.identity(): 1}));
}

/// What a row says that was enqueued without a backend, by SQL for one: whoever delivers it names theirs.
#[tokio::test]
async fn a_row_without_a_backend_is_delivered_by_any_worker() {
    let fixture = fixture().await;
    let memory = NewMemory {
        target_space: "team:p".to_owned(),
        payload_md: "x".to_owned(),
        ..NewMemory::default()
    };
    let id = json!(
        fixture
            .store
            .enqueue_memory(&memory)
            .await
            .unwrap()
            .outbox_id
    );
    fixture
        .work_until("it is sent", || is_sent(&fixture, &id))
        .await;
    let backend = fixture.row(&id).await.backend;
    assert_eq!(backend, Some(fixture.server.identity()));
}

/// A gateway died between the server's answer and the end of its audit: the next one asks, at a server
/// that would store it twice.
#[tokio::test]
async fn what_a_dead_gateway_has_stored_is_not_stored_twice() {
    for is_deferred in [false, true] {
        let fixture = fixture().await;
        let memory = NewMemory {
            target_space: "team:p".to_owned(),
            payload_md: "x".to_owned(),
            ..NewMemory::default()
        };
        let stored = fixture.server.store(&memory, Duration::from_secs(1)).await;
        let audit = NewAudit {
            actor_user_id: None,
            target_space: "team:p".to_owned(),
            action: Action::Allow,
            reason: Some("policy:policy_passed".to_owned()),
            payload_sha: Some(payload_sha("x")),
            evidence_refs_json: json!({"backend": fixture.server.identity()}),
            correlation_id: Some("corr-00000000000000aa".to_owned()),
            status: AuditStatus::Pending,
        };
        fixture.store.insert_audit(&audit).await.unwrap();
        let memory_id = json!(stored.unwrap().memory_id);
        if is_deferred {
            // The next request comes while the server is away, and was not sent.
            fixture.server.behave(ServerMode::Down);
            let id = fixture.remember("x").await["outbox_id"].clone();
            fixture.server.behave(ServerMode::Well);
            fixture
                .work_until("it is sent", || is_sent(&fixture, &id))
                .await;
            assert_eq!(json!(fixture.row(&id).await.memory_id), memory_id);
        } else {
            let again = fixture.remember("x").await;
            assert_eq!(again["memory_id"], memory_id, "{again}");
            assert_eq!(again["action"], "allow");
        }
        assert_eq!(fixture.server.writes(), 1);
    }
}

/// A request whose answer was lost and which could not be put off either leaves a doubt.
#[tokio::test]
async fn a_doubt_outlives_a_request_that_failed() {
    let fixture = fixture().await;
    fixture.server.behave(ServerMode::LoseOneAnswer);
    fixture.break_writes("ready").await;
    let failed = fixture.remember("x").await;
    assert_eq!(failed["ok"], false, "{failed}");
    fixture.mend("ready").await;
    let again = fixture.remember("x").await;
    assert_eq!(again["ok"], true, "{again}");
    assert_eq!(fixture.server.writes(), 1);
}

crate::support::also_on_postgres! {
    what_the_server_has_lost_is_stored_again
    what_cannot_be_confirmed_is_put_off
    a_row_is_not_acknowledged_by_what_is_gone
    what_was_sent_and_lost_can_be_put_off_again
    a_worker_for_another_server_delivers_nothing
    what_a_dead_gateway_has_stored_is_not_stored_twice
}
