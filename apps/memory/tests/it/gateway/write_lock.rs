//! Several gateways on one database write to their memory server under one lock.

use std::time::Duration;

use consign_memory::{Backend, Caller, MemoryService, release_write_locks, tools};
use consign_testkit::eventually;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::{Fixture, SOON, ServerMode, WriteBlock, on_postgres};

const TTL: Duration = Duration::from_secs(2);

/// A gateway as another process would have it: it shares the database and the server, and nothing
/// else that has to do with the lock.
async fn another(fixture: &Fixture) -> MemoryService {
    let store = fixture.another_store().await;
    MemoryService::new(store, fixture.server.clone(), fixture.options.clone())
}

async fn remember(service: &MemoryService, text: &str) -> Value {
    let arguments = json!({"payload_md": text, "target_space": "team:p"});
    let answer = tools::call(service, "memory_store", arguments, &Caller::anonymous()).await;
    answer.body
}

#[tokio::test]
async fn one_gateway_at_a_time_writes_to_a_server() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    let other = another(&fixture).await;
    fixture.server.behave(ServerMode::Wait);
    let service = fixture.service.clone();
    let first = tokio::spawn(async move { remember(&service, "x").await });
    eventually("it is being stored", SOON, async || {
        fixture.server.stores() == 1
    })
    .await;
    // What the other one has cannot be stored meanwhile, nor is it sent.
    let second = remember(&other, "y").await;
    assert_eq!(second["action"], "deferred", "{second}");
    let message = second["message"].as_str().unwrap();
    assert!(message.contains("holds the write lock"), "{message}");
    assert_eq!(fixture.server.stores(), 1);
    fixture.server.behave(ServerMode::Well);
    fixture.server.release();
    first.await.unwrap();
    let third = remember(&other, "z").await;
    assert_eq!(third["action"], "allow", "{third}");
}

/// Both have much to write: neither waits until the other one has nothing more.
#[tokio::test]
async fn gateways_that_are_busy_let_each_other_in() {
    let fixture = Fixture::with(|options| options.gateway_budget_ms = 20_000).await;
    fixture.open_team().await;
    let other = another(&fixture).await;
    let mut writers = tokio::task::JoinSet::new();
    for (name, service) in [("a", &fixture.service), ("b", &other)] {
        for n in 0..40 {
            let service = service.clone();
            writers.spawn(async move { remember(&service, &format!("{name} {n}")).await });
        }
    }
    while let Some(answer) = writers.join_next().await {
        let answer = answer.unwrap();
        assert_eq!(answer["action"], "allow", "{answer}");
    }
    assert_eq!(fixture.server.writes(), 80);
}

/// Nobody waits longer than a write lock lasts for a gateway that is dead.
#[tokio::test]
async fn a_gateway_that_died_under_the_write_lock_keeps_the_others_for_two_seconds() {
    let fixture = Fixture::with(|options| options.gateway_budget_ms = 20_000).await;
    fixture.open_team().await;
    let server = fixture.server.destination();
    assert!(
        fixture
            .store
            .take_write_lock(server, "dead", TTL)
            .await
            .unwrap()
    );
    let since = Instant::now();
    let stored = remember(&fixture.service, "x").await;
    assert_eq!(stored["action"], "allow", "{stored}");
    assert!(since.elapsed() >= TTL - Duration::from_millis(100));
    assert!(since.elapsed() < SOON);
}

/// A process that ends keeps nobody waiting at all.
#[tokio::test]
async fn write_locks_are_released_at_the_end() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    let stored = remember(&fixture.service, "x").await;
    assert_eq!(stored["action"], "allow", "{stored}");
    release_write_locks().await;
    let server = fixture.server.destination();
    assert!(
        fixture
            .store
            .take_write_lock(server, "next", TTL)
            .await
            .unwrap()
    );
}

/// Without a write lock nothing is written, and nobody says that it was.
#[tokio::test]
async fn a_logbook_without_write_locks_is_an_error() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.break_writes("memory_write_lock").await;
    let refused = remember(&fixture.service, "x").await;
    assert_eq!(refused["error_code"], "LOGBOOK_UNAVAILABLE", "{refused}");
    assert_eq!(fixture.server.stores(), 0);
    fixture.mend("memory_write_lock").await;
    let stored = remember(&fixture.service, "x").await;
    assert_eq!(stored["action"], "allow", "{stored}");
}

/// A memory is stored, and its audit cannot be ended meanwhile; its caller has been answered.
async fn stored_but_open(fixture: &Fixture) -> WriteBlock {
    fixture.open_team().await;
    fixture.server.behave(ServerMode::Wait);
    let service = fixture.service.clone();
    let first = tokio::spawn(async move { remember(&service, "x").await });
    eventually("it is being stored", SOON, async || {
        fixture.server.stores() == 1
    })
    .await;
    let locked = fixture.lock().await;
    fixture.server.behave(ServerMode::Well);
    fixture.server.release();
    let first = first.await.unwrap();
    let message = first["message"].as_str().unwrap();
    assert!(message.contains("has not been ended"), "{first}");
    locked
}

/// Whoever is next waits until what was stored is written down. (On SQLite nobody writes anything
/// while the lock lasts.)
#[test]
fn the_write_lock_lasts_until_what_was_stored_is_written_down() {
    on_postgres(writes_wait_until_the_audit_has_ended);
}

#[tokio::main(flavor = "current_thread")]
async fn writes_wait_until_the_audit_has_ended() {
    let fixture = Fixture::new().await;
    let other = another(&fixture).await;
    let locked = stored_but_open(&fixture).await;
    let next = tokio::spawn(async move { remember(&other, "y").await });
    let stored = eventually("it is stored too soon", SOON, async || {
        fixture.server.stores() == 2
    });
    let stored = timeout(Duration::from_millis(300), stored);
    assert!(stored.await.is_err(), "the write lock was given back");
    locked.end().await;
    let next = next.await.unwrap();
    assert_eq!(next["action"], "allow", "{next}");
}

/// One audit that cannot be ended does not keep everybody from writing.
#[test]
fn an_audit_that_cannot_be_ended_keeps_the_others_for_two_seconds() {
    on_postgres(others_write_while_an_audit_is_open);
}

#[tokio::main(flavor = "current_thread")]
async fn others_write_while_an_audit_is_open() {
    let mut fixture = Fixture::new().await;
    let locked = stored_but_open(&fixture).await;
    let since = Instant::now();
    fixture.options.gateway_budget_ms = 10_000;
    let stored = remember(&another(&fixture).await, "y").await;
    assert_eq!(stored["action"], "allow", "{stored}");
    assert!(since.elapsed() >= TTL / 2, "{:?}", since.elapsed());
    locked.end().await;
}
