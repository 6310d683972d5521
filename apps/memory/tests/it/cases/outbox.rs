//! The seed's lease protocol.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use consign_kernel::MessageId;
use consign_memory::OutboxStatus;
use tokio::task::JoinSet;

use super::Harness;
use super::fixture::{LEASE, MemoryFixture};
use consign_conformance::stage::{after, all, refused, s};

pub(crate) async fn due_memories_are_claimed_by_one_worker(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let ids = fixture.put_by_the_minute(2).await;
    let rows = fixture.claim("w1", 10).await;
    let claimed: Vec<MessageId> = rows.iter().map(|row| row.outbox_id).collect();
    assert_eq!(claimed, ids);
    let now = fixture.stage.now().await;
    for row in rows {
        assert_eq!(row.status, OutboxStatus::Pending);
        assert_eq!(row.locked_by.as_deref(), Some("w1"));
        assert_eq!(row.locked_at, Some(now));
        assert_eq!((row.retry_count, row.last_error.as_deref()), (0, None));
        assert_eq!(row.next_attempt_at, Some(row.created_at));
        assert_eq!(fixture.row(row.outbox_id).await, row, "as it is read later");
    }
}

pub(crate) async fn the_oldest_due_are_claimed_first(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let ids = fixture.put_by_the_minute(5).await;
    assert_eq!(fixture.claim_ids("w1", 3).await, ids[..3]);
}

pub(crate) async fn what_is_not_due_is_not_claimed(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let ids = fixture.put_by_the_minute(1).await;
    assert_eq!(fixture.claim_ids("w1", 1).await, ids);
    assert!(fixture.retry(ids[0], "w1", "boom", s(3_600)).await);
    let due = fixture.put_text("due").await;
    assert_eq!(fixture.claim_ids("w1", 10).await, [due]);
    fixture.stage.advance(s(3_600)).await;
    // The lease of `due` is over too, but what came back from it is taken by itself.
    let later = fixture.claim_ids("w1", 10).await;
    assert_eq!(BTreeSet::from_iter(later), BTreeSet::from([ids[0], due]));
}

/// A lease expires at its own time, whatever the next one requests.
pub(crate) async fn a_leased_message_is_not_claimed(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let held = fixture.put_text("held").await;
    assert_eq!(fixture.claim_ids("other", 1).await, [held]);
    let free = fixture.put_text("free").await;
    assert_eq!(fixture.claim_ids("w1", 10).await, [free]);
    fixture.stage.advance(s(30)).await;
    let claimed = fixture.book.claim_outbox("w2", 10, s(1)).await;
    assert_eq!(claimed.expect("claim_outbox answers"), []);
}

pub(crate) async fn a_lease_that_ran_out_is_claimed_again(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    assert_eq!(fixture.claim_ids("dead-worker", 1).await, [id]);
    fixture.stage.advance(s(120)).await;
    let row = fixture.claim("w2", 10).await.remove(0);
    assert_eq!((row.outbox_id, row.locked_by.as_deref()), (id, Some("w2")));
    assert_eq!(row.retry_count, 0, "an expiry is no retry");
}

pub(crate) async fn two_workers_share_the_memories_by_age(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let ids = fixture.put_by_the_minute(6).await;
    assert_eq!(fixture.claim_ids("w1", 4).await, ids[..4]);
    assert_eq!(fixture.claim_ids("w2", 10).await, ids[4..]);
}

pub(crate) async fn a_memory_is_acknowledged_once(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    fixture.claim("w1", 1).await;
    fixture.stage.advance(s(5)).await;
    assert!(fixture.ack(id, "w1", Some("mem-123")).await);
    let sent = fixture.row(id).await;
    assert_eq!(sent.status, OutboxStatus::Sent);
    assert_eq!((sent.locked_at, sent.locked_by.as_deref()), (None, None));
    assert_eq!(sent.last_error.as_deref(), Some("memory_id=mem-123"));
    assert_eq!(sent.memory_id.as_deref(), Some("mem-123"));
    assert_eq!(sent.updated_at, fixture.stage.now().await);
    assert!(!fixture.ack(id, "w1", Some("mem-456")).await);
    assert!(!fixture.retry(id, "w1", "boom", s(60)).await);
    assert!(!fixture.bury(id, "w1", "boom").await);
    assert!(!fixture.renew(id, "w1").await);
    assert_eq!(fixture.row(id).await, sent, "byte by byte");

    // Without a name of its own: no word about it.
    let nameless = fixture.put_text("nameless").await;
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(nameless, "w1", None).await);
    let sent = fixture.row(nameless).await;
    assert_eq!((sent.last_error, sent.memory_id), (None, None));
}

pub(crate) async fn a_worker_settles_its_own_memories_only(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    fixture.claim("w1", 1).await;
    let held = fixture.row(id).await;
    assert!(!fixture.ack(id, "wrong-worker", Some("mem-1")).await);
    assert!(!fixture.retry(id, "wrong-worker", "boom", s(60)).await);
    assert!(!fixture.bury(id, "wrong-worker", "boom").await);
    assert!(!fixture.renew(id, "wrong-worker").await);
    assert_eq!(fixture.row(id).await, held, "untouched");
    assert!(!fixture.ack(MessageId(id.0 + 1_000), "w1", None).await);

    fixture.stage.advance(s(61)).await;
    assert_eq!(fixture.claim_ids("w2", 1).await, [id]);
    assert!(!fixture.ack(id, "w1", Some("mem-1")).await);
    assert!(fixture.ack(id, "w2", Some("mem-2")).await);
    assert_eq!(fixture.row(id).await.memory_id.as_deref(), Some("mem-2"));
}

/// An expired lease is over even while no other worker has claimed the row.
pub(crate) async fn rejects_results_of_a_worker_whose_lease_expired(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    fixture.claim("w1", 1).await;
    fixture.stage.advance(s(24 * 3_600)).await;
    assert!(!fixture.ack(id, "w1", Some("mem-1")).await);
    assert!(!fixture.retry(id, "w1", "boom", s(60)).await);
    assert!(!fixture.bury(id, "w1", "boom").await);
    assert!(!fixture.renew(id, "w1").await);
    assert_eq!(fixture.row(id).await.status, OutboxStatus::Pending);
    assert_eq!(
        fixture.claim_ids("w1", 1).await,
        [id],
        "it may claim it again"
    );
    assert!(fixture.ack(id, "w1", Some("mem-1")).await);
}

/// `fail_retry` has no ceiling of its own.
pub(crate) async fn a_memory_that_failed_rests_until_its_time(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    for n in 1..=8 {
        assert_eq!(fixture.claim_ids("w1", 1).await, [id], "try {n}");
        assert!(fixture.retry(id, "w1", &format!("boom {n}"), s(90)).await);
        let row = fixture.row(id).await;
        assert_eq!((row.status, row.retry_count), (OutboxStatus::Pending, n));
        let due = after(fixture.stage.now().await, s(90));
        assert_eq!(row.next_attempt_at, Some(due));
        assert_eq!(row.last_error, Some(format!("boom {n}")));
        assert_eq!((row.locked_at, row.locked_by), (None, None));
        assert_eq!(fixture.claim_ids("w2", 1).await, [], "it rests");
        fixture.stage.advance(s(90)).await;
    }
}

pub(crate) async fn a_memory_may_be_given_up(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    fixture.claim("w1", 1).await;
    assert!(fixture.bury(id, "w1", "api_error: 400 - no").await);
    let row = fixture.row(id).await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Dead, 0));
    assert_eq!(row.last_error.as_deref(), Some("api_error: 400 - no"));
    assert_eq!((row.locked_at, row.locked_by), (None, None));
    fixture.stage.advance(s(24 * 3_600)).await;
    assert_eq!(fixture.claim_ids("w1", 1).await, []);
}

pub(crate) async fn a_renewed_lease_is_never_claimed(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    fixture.claim("w1", 1).await;
    for _ in 0..5 {
        fixture.stage.advance(LEASE / 2).await;
        assert!(fixture.renew(id, "w1").await);
        let now = fixture.stage.now().await;
        assert_eq!(fixture.row(id).await.locked_at, Some(now));
        assert_eq!(fixture.claim_ids("w2", 10).await, []);
    }
    fixture.stage.advance(LEASE).await;
    assert!(
        !fixture.renew(id, "w1").await,
        "as long as it was claimed for"
    );
    assert_eq!(fixture.claim_ids("w2", 10).await, [id]);
}

pub(crate) async fn a_claim_of_nothing_takes_nothing(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    fixture.put_text("text").await;
    assert_eq!(fixture.claim_ids("w1", 0).await, []);
    refused(
        fixture.book.claim_outbox("", 1, LEASE).await,
        "invalid_input",
    );
    assert_eq!(fixture.claim("w1", 10).await.len(), 1);
}

/// A lease of no length is the shortest there is, and it is its holder's.
pub(crate) async fn a_lease_of_no_length_is_the_shortest(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    let claim = async |worker: &str| {
        let claimed = fixture.book.claim_outbox(worker, 1, s(0)).await;
        let claimed = claimed.expect("claim_outbox answers");
        claimed.iter().map(|row| row.outbox_id).collect::<Vec<_>>()
    };
    assert_eq!(claim("w1").await, [id]);
    fixture.stage.advance(Duration::from_millis(1)).await;
    assert_eq!(fixture.claim_ids("w2", 1).await, [id], "it has run out");
    // A shorter request does not shorten a lease.
    assert_eq!(claim("w3").await, []);
    assert!(fixture.ack(id, "w2", None).await);
}

pub(crate) async fn workers_at_once_never_claim_the_same(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let ids = fixture.put_by_the_minute(40).await;
    let other = harness.another_book().await;
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let book = Arc::clone(if n % 2 == 0 { &fixture.book } else { &other });
        tasks.spawn(async move {
            let worker = format!("w{n}");
            let mut mine = Vec::new();
            loop {
                let claimed = book.claim_outbox(&worker, 5, LEASE).await;
                let claimed = claimed.expect("claim_outbox answers");
                if claimed.is_empty() {
                    break mine;
                }
                mine.extend(claimed.into_iter().map(|row| row.outbox_id));
            }
        });
    }
    let claimed: Vec<MessageId> = all(tasks).await.into_iter().flatten().collect();
    let distinct: BTreeSet<MessageId> = claimed.iter().copied().collect();
    assert_eq!(claimed.len(), distinct.len(), "each memory has one owner");
    assert_eq!(distinct, BTreeSet::from_iter(ids));
}
