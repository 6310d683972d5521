//! Who may write to a memory server.

use std::{sync::Arc, time::Duration};

use consign_memory::{TURN_PLACE, TurnKept};
use tokio::task::JoinSet;

use super::shelf::Shelf;
use crate::{
    Harness,
    stage::{all, s},
};

const TTL: Duration = Duration::from_secs(2);
const SERVER: &str = "http://127.0.0.1:8080";

async fn take(shelf: &Shelf<'_>, holder: &str) -> bool {
    let taken = shelf.book.take_turn(SERVER, holder, TTL).await;
    taken.expect("take_turn answers")
}

async fn keep(shelf: &Shelf<'_>, holder: &str) -> TurnKept {
    let kept = shelf.book.keep_turn(SERVER, holder, TTL).await;
    kept.expect("keep_turn answers")
}

async fn leave(shelf: &Shelf<'_>, holder: &str) {
    let left = shelf.book.leave_turn(SERVER, holder).await;
    left.expect("leave_turn answers");
}

pub(crate) async fn a_turn_is_one_holders_until_it_is_left(harness: &dyn Harness) {
    let shelf = Shelf::bare(harness);
    assert_eq!(keep(&shelf, "a").await, TurnKept::Lost, "nobody has it");
    assert!(take(&shelf, "a").await);
    assert!(take(&shelf, "a").await, "it is theirs already");
    assert!(!take(&shelf, "b").await);
    let elsewhere = shelf.book.take_turn("http://other", "b", TTL).await;
    assert!(elsewhere.expect("take_turn answers"), "another server");
    leave(&shelf, "b").await;
    assert!(!take(&shelf, "b").await, "nobody leaves for somebody else");
    leave(&shelf, "a").await;
    assert_eq!(keep(&shelf, "a").await, TurnKept::Lost);
    assert!(take(&shelf, "b").await);
    assert!(!take(&shelf, "a").await);
}

pub(crate) async fn a_turn_that_is_not_kept_is_free_again(harness: &dyn Harness) {
    let shelf = Shelf::bare(harness);
    assert!(take(&shelf, "a").await);
    shelf.stage.advance(s(1)).await;
    assert_eq!(keep(&shelf, "a").await, TurnKept::Held);
    shelf.stage.advance(s(1)).await;
    assert!(!take(&shelf, "b").await, "it was kept");
    shelf.stage.advance(s(2)).await;
    assert!(take(&shelf, "b").await, "nobody kept it");
    assert_eq!(keep(&shelf, "a").await, TurnKept::Lost);
    assert_eq!(keep(&shelf, "b").await, TurnKept::Held);
}

/// Whoever just wrote is always the first to ask again; that must not keep others out.
pub(crate) async fn whoever_found_it_held_is_next(harness: &dyn Harness) {
    let shelf = Shelf::bare(harness);
    assert!(take(&shelf, "a").await);
    assert_eq!(keep(&shelf, "a").await, TurnKept::Held);
    assert!(!take(&shelf, "b").await);
    assert!(!take(&shelf, "c").await, "the next one is there already");
    assert_eq!(
        keep(&shelf, "a").await,
        TurnKept::Wanted,
        "and still theirs"
    );
    assert!(!take(&shelf, "a").await, "somebody is next");
    leave(&shelf, "a").await;
    assert!(!take(&shelf, "a").await);
    assert!(!take(&shelf, "c").await);
    assert!(take(&shelf, "b").await);
    assert_eq!(
        keep(&shelf, "b").await,
        TurnKept::Held,
        "nobody is next now"
    );
    assert!(!take(&shelf, "c").await);
    assert_eq!(keep(&shelf, "b").await, TurnKept::Wanted);
}

pub(crate) async fn a_place_is_void_unless_one_asks_again(harness: &dyn Harness) {
    let shelf = Shelf::bare(harness);
    assert!(take(&shelf, "a").await);
    let part = TURN_PLACE / 5 * 3;
    assert!(!take(&shelf, "b").await);
    shelf.stage.advance(part).await;
    assert!(!take(&shelf, "b").await, "asks again");
    shelf.stage.advance(part).await;
    leave(&shelf, "a").await;
    assert!(!take(&shelf, "a").await, "b asked a moment ago");
    shelf.stage.advance(TURN_PLACE).await;
    assert!(take(&shelf, "a").await, "b is gone");
}

pub(crate) async fn a_turn_asked_for_by_ten_at_once_is_one_holders(harness: &dyn Harness) {
    let shelf = Shelf::bare(harness);
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let book = Arc::clone(&shelf.book);
        tasks.spawn(async move { book.take_turn(SERVER, &format!("h{n}"), TTL).await });
    }
    let taken = all(tasks).await;
    let taken = taken
        .into_iter()
        .filter(|taken| *taken.as_ref().expect("take_turn answers"));
    assert_eq!(taken.count(), 1);
}
