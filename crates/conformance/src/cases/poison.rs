//! Poison: a message that kills its worker is found out, and its neighbours are spared (G9, G11).

use std::collections::BTreeSet;

use consign_kernel::{MessageId, Outcome, Report, StateKind};

use crate::{
    Harness,
    stage::{Stage, TTL, ids, s, settled},
};

pub(crate) async fn what_comes_back_from_an_expiry_comes_back_in_halves(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(5).await;
    stage.claim(5).await;
    stage.crash().await;
    assert_eq!(
        ids(&stage.claim(10).await),
        sent[..3],
        "the larger half, alone"
    );
    assert_eq!(
        ids(&stage.claim(10).await),
        sent[3..],
        "the smaller half, alone"
    );
}

pub(crate) async fn a_suspect_batch_is_not_leased_with_others(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let suspects = stage.enqueue(2).await;
    stage.claim(2).await;
    stage.crash().await;
    stage.advance(s(1)).await;
    let fresh = stage.enqueue(2).await;
    assert_eq!(
        ids(&stage.claim(10).await),
        [suspects[0]],
        "the oldest due, alone"
    );
    assert_eq!(
        ids(&stage.claim(10).await),
        [suspects[1]],
        "the other half, alone"
    );
    assert_eq!(ids(&stage.claim(10).await), fresh);
}

pub(crate) async fn older_messages_pass_over_a_suspect_batch(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let suspects = stage.enqueue(2).await;
    let old = stage.enqueue(1).await;
    stage.claim(2).await;
    stage.advance(TTL).await;
    let young = stage.enqueue(1).await;
    stage.store.expire(10).await.expect("expire answers");
    stage.advance(s(1)).await;
    let younger = stage.enqueue(1).await;
    let together = [old, young, younger].concat();
    assert_eq!(
        ids(&stage.claim(10).await),
        together,
        "the oldest is no suspect"
    );
    assert_eq!(ids(&stage.claim(10).await), suspects[..1]);
    assert_eq!(ids(&stage.claim(10).await), suspects[1..]);
}

pub(crate) async fn a_suspect_batch_split_by_a_limit_stays_suspect(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(8).await;
    stage.claim(8).await;
    stage.crash().await;
    let fresh = stage.enqueue(1).await;
    assert_eq!(ids(&stage.claim(3).await), sent[..3]);
    assert_eq!(
        ids(&stage.claim(10).await),
        sent[3..4],
        "the rest of the half, alone"
    );
    assert_eq!(ids(&stage.claim(10).await), sent[4..]);
    assert_eq!(ids(&stage.claim(10).await), fresh);
}

pub(crate) async fn a_message_that_was_reported_is_no_suspect(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    stage.claim(2).await;
    stage.crash().await;
    for id in &sent {
        let lease = stage.claim(10).await;
        stage.report(&lease, *id, Outcome::Retry).await;
    }
    stage.advance(s(1)).await;
    assert_eq!(ids(&stage.claim(10).await), sent, "leased together again");
}

pub(crate) async fn poison_is_isolated_and_its_neighbours_delivered(harness: &dyn Harness) {
    for (count, poisoned, crashes_max) in [(64, 17, 6), (100, 99, 7), (3, 0, 2), (1, 0, 0)] {
        let stage = Stage::new(harness).await;
        let sent = stage.enqueue(count).await;
        let poison = sent[poisoned];
        let mut crashes_in_company = 0;
        let mut crashes_alone = 0;
        let mut delivered = 0;
        while stage.kind(poison).await != StateKind::Dead || delivered < count - 1 {
            let Some(lease) = stage.try_claim(1_000).await else {
                panic!("{delivered} of {count} delivered and nothing left to claim")
            };
            if !ids(&lease).contains(&poison) {
                let counted = lease.messages.iter().filter(|m| m.tries > 0).count();
                assert_eq!(counted, 0, "no try is counted against a neighbour");
                delivered += lease.messages.len();
                stage.deliver(&lease).await;
                continue;
            }
            match lease.messages.len() {
                1 => crashes_alone += 1,
                _ => crashes_in_company += 1,
            }
            stage.crash().await;
        }
        assert!(
            crashes_in_company <= crashes_max,
            "alone within log2({count}) crashes, not {crashes_in_company}"
        );
        assert_eq!(crashes_alone, 3, "then as many as the queue allows");
        stage.claim_nothing("all is settled").await;
    }
}

pub(crate) async fn two_poisons_do_not_hide_each_other(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(32).await;
    let poisons = [sent[3], sent[4]];
    while let Some(lease) = stage.try_claim(1_000).await {
        if ids(&lease).iter().any(|id| poisons.contains(id)) {
            stage.crash().await;
        } else {
            stage.deliver(&lease).await;
        }
    }
    for id in sent {
        let expected = if poisons.contains(&id) {
            StateKind::Dead
        } else {
            StateKind::Delivered
        };
        assert_eq!(stage.kind(id).await, expected, "message {id}");
    }
}

pub(crate) async fn everything_drains_after_faults_end(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut left: BTreeSet<MessageId> = stage.enqueue(150).await.into_iter().collect();
    // Faults: every third lease is lost, every other one half settled and then lost.
    for round in 0..12 {
        let Some(lease) = stage.try_claim(20).await else {
            break;
        };
        let half = &ids(&lease)[..lease.messages.len() / 2];
        let reports: Vec<Report> = half.iter().copied().map(Report::delivered).collect();
        if round % 3 != 0 {
            settled(stage.settle(&lease, &reports).await);
            left.retain(|id| !half.contains(id));
        }
        stage.advance(s(4)).await;
    }
    // The faults end. One lease and one rest later, everything must be claimable.
    stage.advance(TTL + s(2)).await;
    let drained = stage.drain().await;
    assert_eq!(drained.len(), left.len(), "each of the rest exactly once");
    assert!(
        drained.iter().all(|id| left.contains(id)),
        "and nothing else"
    );
    assert_eq!(stage.counts().await.unfinished(), 0);
}
