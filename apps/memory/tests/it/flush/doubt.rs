//! Answers that are lost: asked before anything is sent again.

use consign_memory::OutboxStatus;

use super::{deferred, flushed, has_status};
use crate::support::{Fixture, ServerMode, told};

/// The memory server had stored it when the gateway gave up waiting.
#[tokio::test]
async fn a_memory_whose_answer_was_lost_is_not_stored_twice() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.server.behave(ServerMode::LoseAnswers);
    let answer = fixture.remember("x").await;
    assert_eq!(answer["action"], "deferred", "{answer}");
    fixture.server.behave(ServerMode::Well);
    let id = answer["outbox_id"].clone();
    let is_sent = || has_status(&fixture, &id, OutboxStatus::Sent);
    fixture.work_until("it is sent", is_sent).await;
    assert_eq!(fixture.server.finds(), 1);
    assert_eq!(fixture.server.writes(), 1);
    assert_eq!(fixture.row(&id).await.memory_id.as_deref(), Some("mem-1"));
    let words: Vec<String> = flushed(&fixture, &id).await.iter().map(told).collect();
    assert_eq!(words, ["allow outbox_flush_success success"]);
}

/// A second request for what waits already asked, got through, and its answer was lost: only its audit
/// knows.
#[tokio::test]
async fn a_doubt_of_a_later_request_counts_too() {
    let (fixture, id) = deferred("team:p").await;
    fixture.server.behave(ServerMode::LoseAnswers);
    let again = fixture.remember("x").await;
    assert_eq!(again["outbox_id"], id, "{again}");
    fixture.server.behave(ServerMode::Well);
    let is_sent = || has_status(&fixture, &id, OutboxStatus::Sent);
    fixture.work_until("it is sent", is_sent).await;
    assert_eq!((fixture.server.writes(), fixture.server.finds()), (1, 2));
}

/// A delivery's answer is lost: the next attempt asks.
#[tokio::test]
async fn a_delivery_whose_answer_was_lost_is_not_repeated() {
    let (fixture, id) = deferred("team:p").await;
    fixture.hurry().await;
    fixture.server.behave(ServerMode::LoseOneAnswer);
    let is_sent = || has_status(&fixture, &id, OutboxStatus::Sent);
    fixture.work_until("it is sent", is_sent).await;
    assert_eq!(fixture.server.writes(), 1);
    assert_eq!(fixture.server.finds(), 1);
    let words: Vec<String> = flushed(&fixture, &id).await.iter().map(told).collect();
    let expected = [
        "redirect outbox_flush_retry redirected",
        "allow outbox_flush_success success",
    ];
    assert_eq!(words, expected);
}

/// While it cannot be asked, nothing is sent.
#[tokio::test]
async fn what_is_in_doubt_waits_until_it_can_be_queried() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.hurry().await;
    fixture.server.behave(ServerMode::LoseAnswers);
    let answer = fixture.remember("x").await;
    let id = answer["outbox_id"].clone();
    fixture.server.behave(ServerMode::Down);
    let stores = fixture.server.stores();
    let has_failed = || async { fixture.row(&id).await.retry_count >= 2 };
    fixture.work_until("it failed twice", has_failed).await;
    assert_eq!(
        fixture.server.stores(),
        stores,
        "it was asked about, not sent"
    );
    assert!(fixture.server.finds() >= 2);
}

/// `openmemory_max_client_retries`: tried again within the delivery, and asked first.
#[tokio::test]
async fn a_delivery_may_try_again_by_itself() {
    let fixture = Fixture::with(|options| options.openmemory_max_client_retries = 1).await;
    fixture.open_team().await;
    fixture.server.behave(ServerMode::Down);
    let answer = fixture.remember("x").await;
    let id = answer["outbox_id"].clone();
    fixture.server.behave(ServerMode::LoseOneAnswer);
    let is_sent = || has_status(&fixture, &id, OutboxStatus::Sent);
    fixture.work_until("it is sent", is_sent).await;
    assert_eq!((fixture.server.writes(), fixture.server.finds()), (1, 1));
    let words: Vec<String> = flushed(&fixture, &id).await.iter().map(told).collect();
    assert_eq!(words, ["allow outbox_flush_success success"]);
}

crate::support::also_on_postgres! {
    a_memory_whose_answer_was_lost_is_not_stored_twice
    a_delivery_whose_answer_was_lost_is_not_repeated
}
