//! The seed's lease protocol (O1 to O19).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use consign_kernel::MessageId;
use consign_memory::OutboxStatus;
use tokio::task::JoinSet;

use super::shelf::{LEASE, Shelf};
use crate::{
    Harness,
    stage::{after, all, refused, s},
};

/// O1.
pub(crate) async fn due_memories_are_claimed_by_one_worker(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let ids = shelf.put_by_the_minute(2).await;
    let rows = shelf.claim("w1", 10).await;
    let claimed: Vec<MessageId> = rows.iter().map(|row| row.outbox_id).collect();
    assert_eq!(claimed, ids);
    let now = shelf.stage.now().await;
    for row in rows {
        assert_eq!(row.status, OutboxStatus::Pending);
        assert_eq!(row.locked_by.as_deref(), Some("w1"));
        assert_eq!(row.locked_at, Some(now));
        assert_eq!((row.retry_count, row.last_error.as_deref()), (0, None));
        assert_eq!(row.next_attempt_at, Some(row.created_at));
        assert_eq!(shelf.row(row.outbox_id).await, row, "as it is read later");
    }
}

/// O2.
pub(crate) async fn the_oldest_due_are_claimed_first(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let ids = shelf.put_by_the_minute(5).await;
    assert_eq!(shelf.claim_ids("w1", 3).await, ids[..3]);
}

/// O3.
pub(crate) async fn what_is_not_due_is_not_claimed(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let ids = shelf.put_by_the_minute(1).await;
    assert_eq!(shelf.claim_ids("w1", 1).await, ids);
    assert!(shelf.retry(ids[0], "w1", "boom", s(3_600)).await);
    let due = shelf.put_text("due").await;
    assert_eq!(shelf.claim_ids("w1", 10).await, [due]);
    shelf.stage.advance(s(3_600)).await;
    // The lease of `due` is over too, but what came back from it is taken by itself.
    let later = shelf.claim_ids("w1", 10).await;
    assert_eq!(BTreeSet::from_iter(later), BTreeSet::from([ids[0], due]));
}

/// O4, O7: a lease ends when its own time is over, whatever the next one asks for.
pub(crate) async fn what_somebody_holds_is_not_claimed(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let held = shelf.put_text("held").await;
    assert_eq!(shelf.claim_ids("other", 1).await, [held]);
    let free = shelf.put_text("free").await;
    assert_eq!(shelf.claim_ids("w1", 10).await, [free]);
    shelf.stage.advance(s(30)).await;
    let claimed = shelf.book.claim_outbox("w2", 10, s(1)).await;
    assert_eq!(claimed.expect("claim_outbox answers"), []);
}

/// O5.
pub(crate) async fn a_lease_that_ran_out_is_claimed_again(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let id = shelf.put_text("text").await;
    assert_eq!(shelf.claim_ids("dead-worker", 1).await, [id]);
    shelf.stage.advance(s(120)).await;
    let row = shelf.claim("w2", 10).await.remove(0);
    assert_eq!((row.outbox_id, row.locked_by.as_deref()), (id, Some("w2")));
    assert_eq!(row.retry_count, 0, "an expiry is no retry");
}

/// O8.
pub(crate) async fn two_workers_share_the_memories_by_age(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let ids = shelf.put_by_the_minute(6).await;
    assert_eq!(shelf.claim_ids("w1", 4).await, ids[..4]);
    assert_eq!(shelf.claim_ids("w2", 10).await, ids[4..]);
}

/// O9, O11.
pub(crate) async fn a_memory_is_acknowledged_once(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let id = shelf.put_text("text").await;
    shelf.claim("w1", 1).await;
    shelf.stage.advance(s(5)).await;
    assert!(shelf.ack(id, "w1", Some("mem-123")).await);
    let sent = shelf.row(id).await;
    assert_eq!(sent.status, OutboxStatus::Sent);
    assert_eq!((sent.locked_at, sent.locked_by.as_deref()), (None, None));
    assert_eq!(sent.last_error.as_deref(), Some("memory_id=mem-123"));
    assert_eq!(sent.memory_id.as_deref(), Some("mem-123"));
    assert_eq!(sent.updated_at, shelf.stage.now().await);
    assert!(!shelf.ack(id, "w1", Some("mem-456")).await);
    assert!(!shelf.retry(id, "w1", "boom", s(60)).await);
    assert!(!shelf.bury(id, "w1", "boom").await);
    assert!(!shelf.renew(id, "w1").await);
    assert_eq!(shelf.row(id).await, sent, "byte by byte");

    // Without a name of its own: no word about it.
    let nameless = shelf.put_text("nameless").await;
    shelf.claim("w1", 1).await;
    assert!(shelf.ack(nameless, "w1", None).await);
    let sent = shelf.row(nameless).await;
    assert_eq!((sent.last_error, sent.memory_id), (None, None));
}

/// O10, O13.
pub(crate) async fn a_worker_speaks_for_its_own_memories_only(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let id = shelf.put_text("text").await;
    shelf.claim("w1", 1).await;
    let held = shelf.row(id).await;
    assert!(!shelf.ack(id, "wrong-worker", Some("mem-1")).await);
    assert!(!shelf.retry(id, "wrong-worker", "boom", s(60)).await);
    assert!(!shelf.bury(id, "wrong-worker", "boom").await);
    assert!(!shelf.renew(id, "wrong-worker").await);
    assert_eq!(shelf.row(id).await, held, "untouched");
    assert!(!shelf.ack(MessageId(id.0 + 1_000), "w1", None).await);

    shelf.stage.advance(s(61)).await;
    assert_eq!(shelf.claim_ids("w2", 1).await, [id]);
    assert!(!shelf.ack(id, "w1", Some("mem-1")).await);
    assert!(shelf.ack(id, "w2", Some("mem-2")).await);
    assert_eq!(shelf.row(id).await.memory_id.as_deref(), Some("mem-2"));
}

/// O12 as seed 000 section 4.2 has it (T1): nobody has reclaimed it, and still it is over.
pub(crate) async fn a_worker_whose_lease_ran_out_is_not_heard(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let id = shelf.put_text("text").await;
    shelf.claim("w1", 1).await;
    shelf.stage.advance(s(24 * 3_600)).await;
    assert!(!shelf.ack(id, "w1", Some("mem-1")).await);
    assert!(!shelf.retry(id, "w1", "boom", s(60)).await);
    assert!(!shelf.bury(id, "w1", "boom").await);
    assert!(!shelf.renew(id, "w1").await);
    assert_eq!(shelf.row(id).await.status, OutboxStatus::Pending);
    assert_eq!(
        shelf.claim_ids("w1", 1).await,
        [id],
        "it may claim it again"
    );
    assert!(shelf.ack(id, "w1", Some("mem-1")).await);
}

/// O14; by the seed's primitive there is no ceiling.
pub(crate) async fn a_memory_that_failed_rests_until_its_time(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let id = shelf.put_text("text").await;
    for n in 1..=8 {
        assert_eq!(shelf.claim_ids("w1", 1).await, [id], "try {n}");
        assert!(shelf.retry(id, "w1", &format!("boom {n}"), s(90)).await);
        let row = shelf.row(id).await;
        assert_eq!((row.status, row.retry_count), (OutboxStatus::Pending, n));
        let due = after(shelf.stage.now().await, s(90));
        assert_eq!(row.next_attempt_at, Some(due));
        assert_eq!(row.last_error, Some(format!("boom {n}")));
        assert_eq!((row.locked_at, row.locked_by), (None, None));
        assert_eq!(shelf.claim_ids("w2", 1).await, [], "it rests");
        shelf.stage.advance(s(90)).await;
    }
}

/// O15.
pub(crate) async fn a_memory_may_be_given_up(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let id = shelf.put_text("text").await;
    shelf.claim("w1", 1).await;
    assert!(shelf.bury(id, "w1", "api_error: 400 - no").await);
    let row = shelf.row(id).await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Dead, 0));
    assert_eq!(row.last_error.as_deref(), Some("api_error: 400 - no"));
    assert_eq!((row.locked_at, row.locked_by), (None, None));
    shelf.stage.advance(s(24 * 3_600)).await;
    assert_eq!(shelf.claim_ids("w1", 1).await, []);
}

/// O17.
pub(crate) async fn a_renewed_lease_is_never_claimed(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let id = shelf.put_text("text").await;
    shelf.claim("w1", 1).await;
    for _ in 0..5 {
        shelf.stage.advance(LEASE / 2).await;
        assert!(shelf.renew(id, "w1").await);
        let now = shelf.stage.now().await;
        assert_eq!(shelf.row(id).await.locked_at, Some(now));
        assert_eq!(shelf.claim_ids("w2", 10).await, []);
    }
    shelf.stage.advance(LEASE).await;
    assert!(
        !shelf.renew(id, "w1").await,
        "as long as it was claimed for"
    );
    assert_eq!(shelf.claim_ids("w2", 10).await, [id]);
}

/// O18.
pub(crate) async fn a_claim_of_nothing_takes_nothing(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    shelf.put_text("text").await;
    assert_eq!(shelf.claim_ids("w1", 0).await, []);
    refused(shelf.book.claim_outbox("", 1, LEASE).await, "invalid_input");
    assert_eq!(shelf.claim("w1", 10).await.len(), 1);
}

/// A lease of no length is the shortest there is, and it is its holder's.
pub(crate) async fn a_lease_of_no_length_is_the_shortest(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let id = shelf.put_text("text").await;
    let claim = async |worker: &str| {
        let claimed = shelf.book.claim_outbox(worker, 1, s(0)).await;
        let claimed = claimed.expect("claim_outbox answers");
        claimed.iter().map(|row| row.outbox_id).collect::<Vec<_>>()
    };
    assert_eq!(claim("w1").await, [id]);
    shelf.stage.advance(Duration::from_millis(1)).await;
    assert_eq!(shelf.claim_ids("w2", 1).await, [id], "it has run out");
    // A shorter one does not shorten what somebody has.
    assert_eq!(claim("w3").await, []);
    assert!(shelf.ack(id, "w2", None).await);
}

/// O19.
pub(crate) async fn workers_at_once_never_claim_the_same(harness: &dyn Harness) {
    let shelf = Shelf::new(harness).await;
    let ids = shelf.put_by_the_minute(40).await;
    let other = harness.another_logbook().await.expect("a logbook");
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let book = Arc::clone(if n % 2 == 0 { &shelf.book } else { &other });
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
    assert_eq!(claimed.len(), distinct.len(), "nobody shares a memory");
    assert_eq!(distinct, BTreeSet::from_iter(ids));
}
