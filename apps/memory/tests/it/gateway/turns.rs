//! Several gateways on one database write to their memory server in turns.

use std::time::Duration;

use consign_memory::{Backend, Caller, MemoryService, leave_turns, tools};
use consign_testkit::eventually;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::{Desk, Locked, Manner, SOON, on_postgres};

const TTL: Duration = Duration::from_secs(2);

/// A gateway as another process would have it: it shares the database and the server, and nothing
/// else that has to do with turns.
async fn another(desk: &Desk) -> MemoryService {
    let store = desk.another_store().await;
    MemoryService::new(store, desk.server.clone(), desk.options.clone())
}

async fn remember(service: &MemoryService, text: &str) -> Value {
    let arguments = json!({"payload_md": text, "target_space": "team:p"});
    let answer = tools::call(service, "memory_store", arguments, &Caller::anonymous()).await;
    answer.body
}

#[tokio::test]
async fn one_gateway_at_a_time_writes_to_a_server() {
    let desk = Desk::new().await;
    desk.open_team().await;
    let other = another(&desk).await;
    desk.server.behave(Manner::Wait);
    let service = desk.service.clone();
    let first = tokio::spawn(async move { remember(&service, "x").await });
    eventually("it is being stored", SOON, async || {
        desk.server.stores() == 1
    })
    .await;
    // What the other one has cannot be stored meanwhile, nor is it sent.
    let second = remember(&other, "y").await;
    assert_eq!(second["action"], "deferred", "{second}");
    let message = second["message"].as_str().unwrap();
    assert!(message.contains("others are still writing"), "{message}");
    assert_eq!(desk.server.stores(), 1);
    desk.server.behave(Manner::Well);
    desk.server.release();
    first.await.unwrap();
    let third = remember(&other, "z").await;
    assert_eq!(third["action"], "allow", "{third}");
}

/// Both have much to write: neither waits until the other one has nothing more.
#[tokio::test]
async fn gateways_that_are_busy_let_each_other_in() {
    let desk = Desk::with(|options| options.gateway_budget_ms = 20_000).await;
    desk.open_team().await;
    let other = another(&desk).await;
    let mut writers = tokio::task::JoinSet::new();
    for (name, service) in [("a", &desk.service), ("b", &other)] {
        for n in 0..40 {
            let service = service.clone();
            writers.spawn(async move { remember(&service, &format!("{name} {n}")).await });
        }
    }
    while let Some(answer) = writers.join_next().await {
        let answer = answer.unwrap();
        assert_eq!(answer["action"], "allow", "{answer}");
    }
    assert_eq!(desk.server.writes(), 80);
}

/// Nobody waits longer than a turn lasts for a gateway that is dead.
#[tokio::test]
async fn a_gateway_that_died_in_its_turn_keeps_the_others_for_two_seconds() {
    let desk = Desk::with(|options| options.gateway_budget_ms = 20_000).await;
    desk.open_team().await;
    let server = desk.server.destination();
    assert!(desk.store.take_turn(server, "dead", TTL).await.unwrap());
    let since = Instant::now();
    let stored = remember(&desk.service, "x").await;
    assert_eq!(stored["action"], "allow", "{stored}");
    assert!(since.elapsed() >= TTL - Duration::from_millis(100));
    assert!(since.elapsed() < SOON);
}

/// A process that ends keeps nobody waiting at all.
#[tokio::test]
async fn turns_are_given_back_in_the_end() {
    let desk = Desk::new().await;
    desk.open_team().await;
    let stored = remember(&desk.service, "x").await;
    assert_eq!(stored["action"], "allow", "{stored}");
    leave_turns().await;
    let server = desk.server.destination();
    assert!(desk.store.take_turn(server, "next", TTL).await.unwrap());
}

/// Without a turn nothing is written, and nobody says that it was.
#[tokio::test]
async fn a_logbook_without_turns_is_an_error() {
    let desk = Desk::new().await;
    desk.open_team().await;
    desk.break_writes("memory_turn").await;
    let refused = remember(&desk.service, "x").await;
    assert_eq!(refused["error_code"], "LOGBOOK_UNAVAILABLE", "{refused}");
    assert_eq!(desk.server.stores(), 0);
    desk.mend("memory_turn").await;
    let stored = remember(&desk.service, "x").await;
    assert_eq!(stored["action"], "allow", "{stored}");
}

/// A memory is stored, and its audit cannot be ended meanwhile; its caller has been answered.
async fn stored_but_open(desk: &Desk) -> Locked {
    desk.open_team().await;
    desk.server.behave(Manner::Wait);
    let service = desk.service.clone();
    let first = tokio::spawn(async move { remember(&service, "x").await });
    eventually("it is being stored", SOON, async || {
        desk.server.stores() == 1
    })
    .await;
    let locked = desk.lock().await;
    desk.server.behave(Manner::Well);
    desk.server.release();
    let first = first.await.unwrap();
    let message = first["message"].as_str().unwrap();
    assert!(message.contains("has not been ended"), "{first}");
    locked
}

/// Whoever is next waits until what was stored is written down. (On SQLite nobody writes anything
/// while the lock lasts.)
#[test]
fn a_turn_lasts_until_what_was_stored_is_written_down() {
    on_postgres(nobody_writes_until_the_audit_has_ended);
}

#[tokio::main(flavor = "current_thread")]
async fn nobody_writes_until_the_audit_has_ended() {
    let desk = Desk::new().await;
    let other = another(&desk).await;
    let locked = stored_but_open(&desk).await;
    let next = tokio::spawn(async move { remember(&other, "y").await });
    let stored = eventually("it is stored too soon", SOON, async || {
        desk.server.stores() == 2
    });
    let stored = timeout(Duration::from_millis(300), stored);
    assert!(stored.await.is_err(), "the turn was given back");
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
    let mut desk = Desk::new().await;
    let locked = stored_but_open(&desk).await;
    let since = Instant::now();
    desk.options.gateway_budget_ms = 10_000;
    let stored = remember(&another(&desk).await, "y").await;
    assert_eq!(stored["action"], "allow", "{stored}");
    assert!(since.elapsed() >= TTL / 2, "{:?}", since.elapsed());
    locked.end().await;
}
