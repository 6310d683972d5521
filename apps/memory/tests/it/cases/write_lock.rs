//! Who may write to a memory server.

use std::{sync::Arc, time::Duration};

use consign_memory::{LockRenewal, NEXT_HOLDER_TTL};
use tokio::task::JoinSet;

use super::Harness;
use super::fixture::MemoryFixture;
use consign_conformance::stage::{all, s};

const TTL: Duration = Duration::from_secs(2);
const SERVER: &str = "http://127.0.0.1:8080";

async fn take(fixture: &MemoryFixture<'_>, holder: &str) -> bool {
    let taken = fixture.book.take_write_lock(SERVER, holder, TTL).await;
    taken.expect("take_write_lock answers")
}

async fn keep(fixture: &MemoryFixture<'_>, holder: &str) -> LockRenewal {
    let kept = fixture.book.renew_write_lock(SERVER, holder, TTL).await;
    kept.expect("renew_write_lock answers")
}

async fn leave(fixture: &MemoryFixture<'_>, holder: &str) {
    let left = fixture.book.release_write_lock(SERVER, holder).await;
    left.expect("release_write_lock answers");
}

pub(crate) async fn a_write_lock_has_one_holder_until_it_is_released(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    assert_eq!(keep(&fixture, "a").await, LockRenewal::Lost, "it is free");
    assert!(take(&fixture, "a").await);
    assert!(take(&fixture, "a").await, "it is theirs already");
    assert!(!take(&fixture, "b").await);
    let elsewhere = fixture.book.take_write_lock("http://other", "b", TTL).await;
    assert!(
        elsewhere.expect("take_write_lock answers"),
        "another server"
    );
    leave(&fixture, "b").await;
    assert!(!take(&fixture, "b").await, "only the holder releases it");
    leave(&fixture, "a").await;
    assert_eq!(keep(&fixture, "a").await, LockRenewal::Lost);
    assert!(take(&fixture, "b").await);
    assert!(!take(&fixture, "a").await);
}

pub(crate) async fn a_write_lock_that_is_not_renewed_is_free_again(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    assert!(take(&fixture, "a").await);
    fixture.stage.advance(s(1)).await;
    assert_eq!(keep(&fixture, "a").await, LockRenewal::Held);
    fixture.stage.advance(s(1)).await;
    assert!(!take(&fixture, "b").await, "it was kept");
    fixture.stage.advance(s(2)).await;
    assert!(take(&fixture, "b").await, "it was not renewed");
    assert_eq!(keep(&fixture, "a").await, LockRenewal::Lost);
    assert_eq!(keep(&fixture, "b").await, LockRenewal::Held);
}

/// The last writer is always the first to try again; it must not starve others.
pub(crate) async fn the_first_waiting_process_is_next(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    assert!(take(&fixture, "a").await);
    assert_eq!(keep(&fixture, "a").await, LockRenewal::Held);
    assert!(!take(&fixture, "b").await);
    assert!(!take(&fixture, "c").await, "the next one is there already");
    assert_eq!(
        keep(&fixture, "a").await,
        LockRenewal::Wanted,
        "and still theirs"
    );
    assert!(!take(&fixture, "a").await, "another writer is next");
    leave(&fixture, "a").await;
    assert!(!take(&fixture, "a").await);
    assert!(!take(&fixture, "c").await);
    assert!(take(&fixture, "b").await);
    assert_eq!(
        keep(&fixture, "b").await,
        LockRenewal::Held,
        "no writer is next now"
    );
    assert!(!take(&fixture, "c").await);
    assert_eq!(keep(&fixture, "b").await, LockRenewal::Wanted);
}

pub(crate) async fn the_next_holder_has_to_ask_again(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    assert!(take(&fixture, "a").await);
    let part = NEXT_HOLDER_TTL / 5 * 3;
    assert!(!take(&fixture, "b").await);
    fixture.stage.advance(part).await;
    assert!(!take(&fixture, "b").await, "tries again");
    fixture.stage.advance(part).await;
    leave(&fixture, "a").await;
    assert!(!take(&fixture, "a").await, "b tried a moment ago");
    fixture.stage.advance(NEXT_HOLDER_TTL).await;
    assert!(take(&fixture, "a").await, "b is gone");
}

pub(crate) async fn a_write_lock_requested_by_ten_at_once_has_one_holder(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let book = Arc::clone(&fixture.book);
        tasks.spawn(async move { book.take_write_lock(SERVER, &format!("h{n}"), TTL).await });
    }
    let taken = all(tasks).await;
    let taken = taken
        .into_iter()
        .filter(|taken| *taken.as_ref().expect("take_write_lock answers"));
    assert_eq!(taken.count(), 1);
}
