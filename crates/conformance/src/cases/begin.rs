//! Beginning: the record that a message is about to be sent.

use consign_kernel::{BeginAnswer, Report, State};

use crate::{
    Harness,
    stage::{Stage, TTL, settled, stranger},
};

pub(crate) async fn begun_messages_are_marked(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    let answer = stage.store.begin(lease.token, &[sent[2], sent[1]]).await;
    assert_eq!(answer.expect("begin answers"), BeginAnswer::Begun);
    let views = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(views[0].begun, [sent[1], sent[2]], "sorted");
    for (id, expected) in sent.iter().zip([false, true, true]) {
        let State::Leased { begun, .. } = stage.state(*id).await else {
            panic!("{id} is leased")
        };
        assert_eq!(begun, expected, "begun: {id}");
    }
}

pub(crate) async fn beginning_twice_is_beginning_once(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let lease = stage.claim(2).await;
    for ids in [&[sent[0], sent[0]][..], &[sent[0]], &sent] {
        let answer = stage.store.begin(lease.token, ids).await;
        assert_eq!(answer.expect("begin answers"), BeginAnswer::Begun);
    }
    let views = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(views[0].begun, sent, "each once");
}

pub(crate) async fn an_empty_begin_checks_the_lease(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let answer = stage.store.begin(lease.token, &[]).await;
    assert_eq!(answer.expect("begin answers"), BeginAnswer::Begun);
    stage.advance(TTL).await;
    let answer = stage.store.begin(lease.token, &[]).await;
    assert_eq!(answer.expect("begin answers"), BeginAnswer::LeaseLost);
}

pub(crate) async fn a_lost_lease_cannot_begin(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(1).await;
    let answer = stage.store.begin(stranger(), &sent).await;
    assert_eq!(answer.expect("begin answers"), BeginAnswer::LeaseLost);
    let lease = stage.claim(1).await;
    stage.advance(TTL).await;
    let answer = stage.store.begin(lease.token, &sent).await;
    assert_eq!(
        answer.expect("begin answers"),
        BeginAnswer::LeaseLost,
        "not ended yet"
    );
    let next = stage.claim_soon(&stage.store).await;
    let answer = stage.store.begin(lease.token, &sent).await;
    assert_eq!(
        answer.expect("begin answers"),
        BeginAnswer::LeaseLost,
        "another holds it"
    );
    let views = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(views[0].begun, [], "the new holder has begun nothing");
    stage.deliver(&next).await;
}

pub(crate) async fn beginning_a_stranger_begins_nothing(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(4).await;
    let lease = stage.claim(2).await;
    let other = stage.claim(1).await;
    let asked = [sent[3], sent[0], sent[2], sent[3]];
    let answer = stage.store.begin(lease.token, &asked).await;
    let strangers = BeginAnswer::NotInLease(vec![sent[2], sent[3]]);
    assert_eq!(
        answer.expect("begin answers"),
        strangers,
        "sorted, each once"
    );
    for view in stage.store.leases(10).await.expect("leases answers") {
        assert_eq!(view.begun, [], "nothing was recorded");
    }
    stage.deliver(&other).await;
}

pub(crate) async fn a_settled_message_cannot_begin(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let lease = stage.claim(2).await;
    stage
        .store
        .begin(lease.token, &sent)
        .await
        .expect("begin answers");
    settled(stage.settle(&lease, &[Report::delivered(sent[0])]).await);
    let views = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(views[0].begun, [sent[1]], "it took its mark along");
    let answer = stage.store.begin(lease.token, &sent).await;
    let strangers = BeginAnswer::NotInLease(vec![sent[0]]);
    assert_eq!(answer.expect("begin answers"), strangers);
}
