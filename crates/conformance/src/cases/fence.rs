//! Fencing: only the live lease settles, and a lost reply is not a lost lease (G3, G4, G6).

use consign_kernel::{
    AttemptOutcome, MessageId, Outcome, RecordedOutcome, Report, SettleAnswer, StateKind,
};

use crate::{
    Harness,
    stage::{Stage, TTL, after, already_settled, ids, s, settled, stranger},
};

pub(crate) async fn a_stale_lease_cannot_settle(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let stale = stage.claim(1).await;
    stage.advance(TTL).await;
    let live = stage.claim(1).await;
    assert_eq!(ids(&live), [id], "leased anew");
    for outcome in [
        Outcome::Delivered,
        Outcome::Dead,
        Outcome::Retry,
        Outcome::Uncertain,
    ] {
        let answer = stage.settle(&stale, &[Report::new(id, outcome)]).await;
        assert_eq!(
            answer,
            SettleAnswer::LeaseLost,
            "{outcome:?} by a stale worker"
        );
    }
    assert_eq!(stage.history(id).await.len(), 1, "only the expired attempt");
    stage.deliver(&live).await;
    let answer = stage.settle(&stale, &[Report::delivered(id)]).await;
    assert_eq!(answer, SettleAnswer::LeaseLost, "nor after the delivery");
    let delivered = stage.history(id).await;
    assert_eq!(delivered.len(), 2);
    assert_eq!(
        delivered[1].token, live.token,
        "delivered by the live lease"
    );
}

pub(crate) async fn an_expired_lease_cannot_settle_even_before_it_is_ended(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.advance(TTL).await;
    let answer = stage.settle(&lease, &[Report::delivered(id)]).await;
    assert_eq!(answer, SettleAnswer::LeaseLost);
    assert_eq!(stage.history(id).await, [], "nothing was written");
    assert_eq!(stage.kind(id).await, StateKind::Leased, "nothing was moved");
}

pub(crate) async fn an_ended_lease_cannot_settle(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.crash().await;
    let answer = stage.settle(&lease, &[Report::delivered(id)]).await;
    let why = "the attempt under this token was recorded against its holder, not by it";
    assert_eq!(answer, SettleAnswer::LeaseLost, "{why}");
    assert_eq!(stage.kind(id).await, StateKind::Ready);
}

pub(crate) async fn an_unknown_token_cannot_settle(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    stage.claim(1).await;
    let answer = stage
        .store
        .settle(stranger(), &[Report::delivered(id)])
        .await;
    assert_eq!(answer.expect("settle answers"), SettleAnswer::LeaseLost);
    assert_eq!(stage.history(id).await, []);
}

pub(crate) async fn a_repeated_settle_returns_what_was_recorded(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    let reports = [
        Report::delivered(sent[0]),
        Report::retry(sent[1], "x"),
        Report::new(sent[2], Outcome::Dead),
    ];
    let first = settled(stage.settle(&lease, &reports).await);
    let second = already_settled(stage.settle(&lease, &reports).await);
    assert_eq!(second, first);
    let part = already_settled(stage.settle(&lease, &reports[1..2]).await);
    assert_eq!(part, first[1..2], "a part of it, too");
    stage.advance(s(60)).await;
    let late = already_settled(stage.settle(&lease, &reports).await);
    assert_eq!(late, first, "however late");
    for id in sent {
        assert_eq!(stage.history(id).await.len(), 1, "recorded once");
    }
}

pub(crate) async fn a_repeated_settle_cannot_change_its_mind(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.report(&lease, id, Outcome::Retry).await;
    let answer = stage.settle(&lease, &[Report::delivered(id)]).await;
    let records = already_settled(answer);
    assert_eq!(
        records[0].outcome,
        AttemptOutcome::Retry,
        "what was recorded"
    );
    assert_eq!(stage.kind(id).await, StateKind::Ready, "not delivered");
}

pub(crate) async fn a_repeated_settle_returns_the_current_state(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let first = stage.report(&lease, id, Outcome::Retry).await;
    stage.advance(s(1)).await;
    let next = stage.claim(1).await;
    let again = already_settled(stage.settle(&lease, &[Report::retry(id, "x")]).await);
    let leased = RecordedOutcome {
        state: StateKind::Leased,
        ..first.clone()
    };
    assert_eq!(again, [leased], "meanwhile in another lease");
    stage.deliver(&next).await;
    let again = already_settled(stage.settle(&lease, &[Report::retry(id, "x")]).await);
    let delivered = RecordedOutcome {
        state: StateKind::Delivered,
        ..first
    };
    assert_eq!(again, [delivered], "meanwhile delivered");
}

pub(crate) async fn a_settle_may_repeat_some_and_add_others(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    let first = stage.report(&lease, sent[1], Outcome::Retry).await;
    stage.advance(s(1)).await;
    let reports: Vec<Report> = sent.iter().copied().map(Report::delivered).collect();
    let records = settled(stage.settle(&lease, &reports).await);
    assert_eq!(records[1], first, "as recorded then");
    let due_at = after(lease.claimed_at, s(1));
    assert_eq!(records[1].next_due_at, Some(due_at));
    for n in [0, 2] {
        assert_eq!(records[n].id, sent[n], "in the order of the reports");
        assert_eq!(records[n].outcome, AttemptOutcome::Delivered);
    }
    assert_eq!(
        stage.kinds(&sent).await[1],
        StateKind::Ready,
        "not delivered after all"
    );
}

pub(crate) async fn a_settle_repeated_after_the_rest_expired(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    let first = stage.report(&lease, sent[0], Outcome::Delivered).await;
    stage.crash().await;
    let again = already_settled(stage.settle(&lease, &[Report::delivered(sent[0])]).await);
    assert_eq!(again, [first], "this one had been recorded");
    let both = [Report::delivered(sent[0]), Report::delivered(sent[1])];
    let answer = stage.settle(&lease, &both).await;
    assert_eq!(answer, SettleAnswer::LeaseLost, "one of them had not");
    assert_eq!(
        stage.history(sent[1]).await.len(),
        1,
        "only the expired attempt"
    );
}

pub(crate) async fn a_stranger_refuses_the_whole_settle(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(4).await;
    let mine = stage.claim(2).await;
    let yours = stage.claim(1).await;
    let nobody = MessageId(i64::MAX);
    let reports = [nobody, sent[3], sent[0], sent[2]].map(Report::delivered);
    let answer = stage.settle(&mine, &reports).await;
    let strangers = vec![sent[2], sent[3], nobody];
    assert_eq!(answer, SettleAnswer::NotInLease(strangers), "sorted");
    for id in &sent {
        assert_eq!(stage.history(*id).await, [], "nothing was written");
    }
    stage.deliver(&mine).await;
    stage.deliver(&yours).await;
}

pub(crate) async fn a_repeat_with_a_stranger_is_refused(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(2).await;
    stage.report(&lease, sent[0], Outcome::Delivered).await;
    let reports = [sent[0], sent[1], sent[2]].map(Report::delivered);
    let answer = stage.settle(&lease, &reports).await;
    assert_eq!(answer, SettleAnswer::NotInLease(vec![sent[2]]));
    assert_eq!(
        stage.kind(sent[1]).await,
        StateKind::Leased,
        "nothing was written"
    );
}

pub(crate) async fn the_kernels_own_code_cannot_be_borrowed(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let report = Report::retry(id, "lease_expired");
    let first = settled(stage.settle(&lease, std::slice::from_ref(&report)).await);
    let attempt = stage.history(id).await.remove(0);
    assert_eq!(attempt.code.as_deref(), Some("reported_lease_expired"));
    let again = already_settled(stage.settle(&lease, &[report]).await);
    assert_eq!(again, first, "a repeat is recognised all the same");
}

pub(crate) async fn a_token_settles_its_own_lease_only(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let mine = stage.claim(1).await;
    let yours = stage.claim(1).await;
    let answer = stage.settle(&mine, &[Report::delivered(sent[1])]).await;
    assert_eq!(answer, SettleAnswer::NotInLease(vec![sent[1]]));
    stage.deliver(&mine).await;
    let answer = stage.settle(&mine, &[Report::delivered(sent[1])]).await;
    assert_eq!(answer, SettleAnswer::LeaseLost, "with its lease over");
    stage.deliver(&yours).await;
}

/// After a failover to a standby that had not seen the lease, the token of the lost lease is
/// worth nothing, though the new timeline gives out leases on the same messages.
pub(crate) async fn a_token_from_a_lost_timeline_is_refused(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    if !harness.fork_standby().await {
        return;
    }
    let primary = harness.store();
    let lost = primary.claim(&stage.ask(1)).await.expect("claim answers");
    let lost = lost.expect("something is due");
    harness.fail_over().await;
    let store = harness.store();
    let live = store.claim(&stage.ask(1)).await.expect("claim answers");
    let live = live.expect("the standby never saw the first lease");
    assert_eq!(ids(&live), [id]);
    let answer = store.settle(lost.token, &[Report::delivered(id)]).await;
    assert_eq!(
        answer.expect("settle answers"),
        SettleAnswer::LeaseLost,
        "the zombie"
    );
    let answer = store.settle(live.token, &[Report::delivered(id)]).await;
    settled(answer.expect("settle answers"));
}
