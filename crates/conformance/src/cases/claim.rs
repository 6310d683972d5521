//! Claiming: the oldest due first, no message twice.

use std::{collections::BTreeSet, time::Duration};

use consign_kernel::{
    BATCH_MESSAGES_MAX, Claim, LEASE_MESSAGES_MAX, LEASE_TTL_MAX, OWNER_BYTES_MAX, QueuePolicy,
    State,
};

use crate::{
    Harness,
    stage::{Stage, TTL, after, ids, policy, queue, refused, s},
};

pub(crate) async fn a_claim_runs_from_now_for_the_queues_lease_time(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    stage.advance(s(2)).await;
    let now = stage.now().await;
    let lease = stage.claim(1).await;
    assert_eq!(lease.claimed_at, now);
    assert_eq!(lease.expires_at, after(now, TTL));
    let state = State::Leased {
        owner: "worker-1".into(),
        fence: lease.fence,
        expires_at: lease.expires_at,
        begun: false,
    };
    assert_eq!(stage.state(id).await, state);
    assert_eq!(stage.counts().await.leased, 1);
}

pub(crate) async fn a_claim_may_name_its_own_lease_time(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue_one().await;
    let claim = stage.ask(1).with_ttl(Duration::from_millis(1_500));
    let lease = stage.store.claim(&claim).await.expect("claim answers");
    let lease = lease.expect("something is due");
    let expected = after(stage.now().await, Duration::from_millis(1_500));
    assert_eq!(lease.expires_at, expected);
}

pub(crate) async fn an_empty_queue_has_nothing_to_claim(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.claim_nothing("the queue is empty").await;
    let leases = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(leases, [], "no lease of nothing");
}

pub(crate) async fn the_oldest_due_come_first(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let late = stage
        .enqueue_all(&[stage.message(0).with_delay(s(4))])
        .await[0];
    stage.advance(s(1)).await;
    let early = stage.enqueue_one().await;
    stage.advance(s(1)).await;
    let middle = stage.enqueue_one().await;
    stage.advance(s(2)).await;
    assert_eq!(ids(&stage.claim(10).await), [early, middle, late]);
}

pub(crate) async fn a_limit_splits_a_batch_and_the_rest_keeps_its_place(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut sent = stage.enqueue(7).await;
    stage.advance(s(1)).await;
    sent.extend(stage.enqueue(2).await);
    for part in sent.chunks(3) {
        assert_eq!(
            ids(&stage.claim(3).await),
            part,
            "three at a time, in order"
        );
    }
    stage.claim_nothing("all is leased").await;
}

pub(crate) async fn a_claim_gathers_several_batches(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut sent = Vec::new();
    for count in [1, 4, 2, 1] {
        sent.extend(stage.enqueue(count).await);
    }
    assert_eq!(ids(&stage.claim(6).await), sent[..6]);
    assert_eq!(ids(&stage.claim(6).await), sent[6..]);
}

pub(crate) async fn a_batch_longer_than_the_cap_is_claimed_in_order(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let count = 2 * BATCH_MESSAGES_MAX + 1;
    let sent = stage.enqueue(count).await;
    let first = stage.claim(BATCH_MESSAGES_MAX as u32 - 1).await;
    let second = stage.claim(2).await;
    let third = stage.claim(1_000).await;
    assert_eq!([ids(&first), ids(&second), ids(&third)].concat(), sent);
    assert_eq!(first.messages.len(), BATCH_MESSAGES_MAX - 1);
    assert_eq!(second.messages.len(), 2, "across the seam of two batches");
}

pub(crate) async fn fences_grow_and_tokens_differ(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue(20).await;
    let mut tokens = BTreeSet::new();
    let mut fence_last = None;
    for _ in 0..20 {
        let lease = stage.claim(1).await;
        assert!(
            Some(lease.fence) > fence_last,
            "a later lease, a larger fence"
        );
        assert!(tokens.insert(lease.token), "a token is given once");
        fence_last = Some(lease.fence);
    }
}

pub(crate) async fn a_leased_message_is_not_claimed_again(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue(3).await;
    stage.claim(3).await;
    stage.claim_nothing("all is leased").await;
    let another = harness.another().await;
    let lease = another.claim(&stage.ask(3)).await.expect("claim answers");
    assert_eq!(lease, None, "another process sees the same leases");
}

pub(crate) async fn queues_do_not_share_their_messages(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    let id = stage.enqueue_one().await;
    let claim = Claim::new(other, "worker-1", 10);
    assert_eq!(
        stage.store.claim(&claim).await.expect("claim answers"),
        None
    );
    assert_eq!(ids(&stage.claim(10).await), [id]);
}

pub(crate) async fn a_claim_takes_back_what_expired_in_its_queue(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lost = stage.claim(1).await;
    stage.advance(TTL).await;
    let lease = stage.claim(1).await;
    assert_eq!(ids(&lease), [id], "no other process is needed");
    assert!(lease.fence > lost.fence, "a new lease");
    assert_eq!(lease.messages[0].attempt_no, 2, "the loss is an attempt");
}

pub(crate) async fn a_claim_leaves_other_queues_leases_alone(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    let id = stage.enqueue_one().await;
    stage.claim(1).await;
    stage.advance(TTL).await;
    let claim = Claim::new(other, "worker-1", 10);
    assert_eq!(
        stage.store.claim(&claim).await.expect("claim answers"),
        None
    );
    assert_eq!(stage.history(id).await, [], "not yet ended");
}

pub(crate) async fn an_unknown_queue_cannot_be_claimed(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let answer = stage.store.claim(&Claim::new(queue("mails"), "w", 1)).await;
    let error = refused(answer, "unknown_queue");
    assert!(
        error.to_string().contains("\"mail\""),
        "suggests mail: {error}"
    );
}

pub(crate) async fn a_claim_outside_the_limits_is_refused(harness: &dyn Harness) {
    let rules = QueuePolicy {
        lease_ttl_max_ms: LEASE_TTL_MAX.as_millis() as u64,
        ..policy()
    };
    let stage = Stage::with(harness, rules).await;
    let id = stage.enqueue_one().await;
    let named = |owner: &str| Claim::new(stage.queue.clone(), owner, 1);
    let bad = [
        stage.ask(0),
        stage.ask(LEASE_MESSAGES_MAX + 1),
        stage.ask(u32::MAX),
        named(""),
        named("a\0b"),
        named(" "),
        named("a\u{1b}[2J"),
        named(&"x".repeat(OWNER_BYTES_MAX + 1)),
        stage.ask(1).with_ttl(Duration::ZERO),
        stage.ask(1).with_ttl(Duration::from_micros(999)),
        stage
            .ask(1)
            .with_ttl(LEASE_TTL_MAX + Duration::from_millis(1)),
    ];
    for claim in bad {
        refused(stage.store.claim(&claim).await, "invalid_input");
    }
    let good = named(&"x".repeat(OWNER_BYTES_MAX)).with_ttl(LEASE_TTL_MAX);
    let lease = stage.store.claim(&good).await.expect("at the limits");
    assert_eq!(lease.as_ref().map(ids), Some(vec![id]));
}
