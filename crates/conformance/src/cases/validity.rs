//! Messages that expire: not sent from a time on, and dead when they would be claimed.

use std::time::Duration;

use consign_kernel::{
    AttemptOutcome, Filter, Lease, MessageId, NewMessage, OnDead, OnUncertain, Outcome,
    QueuePolicy, RedrivePlan, RedriveState, Report, SettleAnswer, State, StateKind,
    codes::EXPIRED_BEFORE_DELIVERY,
};

use super::alerts::watched;
use crate::{
    Harness,
    stage::{Stage, after, already_settled, by, ids, ordered, policy, refused, s},
};

use StateKind::{Dead, Leased, Ready, Waiting};

impl Stage<'_> {
    /// The `n`-th message of the queue, to be sent within so many seconds.
    async fn within(&self, n: usize, seconds: u64) -> NewMessage {
        let expires_at = after(self.now().await, s(seconds));
        self.message(n).with_expiry(expires_at)
    }

    /// Enqueues messages of one call, to be sent within so many seconds; 0: at any time.
    async fn enqueue_within(&self, seconds: &[u64]) -> Vec<MessageId> {
        let mut messages = Vec::new();
        for (n, seconds) in seconds.iter().enumerate() {
            messages.push(match seconds {
                0 => self.message(n),
                seconds => self.within(n, *seconds).await,
            });
        }
        self.enqueue_all(&messages).await
    }

    /// A message that died now because its time had passed, in an attempt under this lease.
    async fn expired(&self, id: MessageId, attempts: u32, lease: Option<&Lease>) {
        let now = self.now().await;
        let dead = State::Dead {
            at: now,
            code: EXPIRED_BEFORE_DELIVERY.to_owned(),
            detail: None,
        };
        assert_eq!(self.state(id).await, dead);
        let history = self.history(id).await;
        let last = history.last().expect("the death is an attempt");
        assert_eq!(last.attempt_no, attempts);
        assert_eq!(last.outcome, AttemptOutcome::Dead);
        assert_eq!(last.code.as_deref(), Some(EXPIRED_BEFORE_DELIVERY));
        assert_eq!((last.claimed_at, last.finished_at), (now, now));
        if let Some(lease) = lease {
            assert_eq!((last.token, last.fence), (lease.token, lease.fence));
        }
    }
}

pub(crate) async fn a_message_is_kept_with_its_expiry(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let expires_at = after(stage.now().await, Duration::from_nanos(90_000_001_999));
    let message = stage.message(1).with_expiry(expires_at);
    let id = stage.enqueue_all(&[message]).await[0];
    let kept = Some(after(stage.now().await, Duration::from_micros(90_000_001)));
    let explained = stage.explain(id).await;
    assert_eq!(explained.message.expires_at, kept, "to the microsecond");
    let sentence = explained.sentence();
    assert!(sentence.contains("It expires in 1m 30s"), "{sentence}");
    let listed = stage.store.list(&Filter::default(), None, 10).await;
    let listed = listed.expect("list answers").items;
    assert_eq!(listed[0].expires_at, kept);
    let lease = stage.claim(1).await;
    assert_eq!(lease.messages[0].message.expires_at, kept);
    stage.advance(s(91)).await;
    let sentence = stage.explain(id).await.sentence();
    assert!(sentence.contains("It expired at"), "{sentence}");
}

pub(crate) async fn an_expired_message_is_not_claimed(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_within(&[60]).await[0];
    stage.advance(s(61)).await;
    assert_eq!(stage.kind(id).await, Ready, "until it would be claimed");
    stage.claim_nothing("its time has passed").await;
    stage.expired(id, 1, None).await;
    let sentence = stage.explain(id).await.sentence();
    assert!(sentence.contains("Its time had passed"), "{sentence}");
    let leases = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(leases, [], "its lease has ended");
    stage.is_sound().await;
}

pub(crate) async fn expired_messages_leave_their_lease(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue_within(&[60, 0, 60, 120, 0]).await;
    stage.advance(s(61)).await;
    let lease = stage.claim(10).await;
    assert_eq!(ids(&lease), [sent[1], sent[3], sent[4]]);
    stage.expired(sent[0], 1, Some(&lease)).await;
    stage.expired(sent[2], 1, Some(&lease)).await;
    let leases = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(leases[0].ids, ids(&lease));
    assert_eq!(
        stage.kinds(&sent).await,
        [Dead, Leased, Dead, Leased, Leased]
    );
    stage.deliver(&lease).await;
    stage.is_sound().await;
}

pub(crate) async fn a_claim_goes_on_behind_expired_messages(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let first = stage.enqueue_within(&[60; 5]).await;
    let second = stage.enqueue_within(&[60]).await;
    let alive = stage.enqueue(2).await;
    stage.advance(s(61)).await;
    let lease = stage.claim(2).await;
    assert_eq!(ids(&lease), alive);
    for id in first.into_iter().chain(second) {
        stage.expired(id, 1, None).await;
    }
    stage.deliver(&lease).await;
    stage.claim_nothing("everything is final").await;
    stage.is_sound().await;
}

/// More than a store settles in one transaction.
pub(crate) async fn a_claim_goes_on_behind_many_expired_messages(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let expired = stage.enqueue_within(&[60; 25]).await;
    let alive = stage.enqueue(1).await;
    stage.advance(s(61)).await;
    assert_eq!(ids(&stage.claim(1).await), alive);
    for id in expired {
        stage.expired(id, 1, None).await;
    }
    stage.is_sound().await;
}

pub(crate) async fn a_message_expires_in_the_moment_of_its_expiry(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue_within(&[60, 60]).await;
    stage.advance(s(60) - Duration::from_micros(1)).await;
    let lease = stage.claim(1).await;
    assert_eq!(ids(&lease), sent[..1], "just in time");
    stage.advance(Duration::from_micros(1)).await;
    stage.claim_nothing("the other is too late").await;
    stage.expired(sent[1], 1, None).await;
    // The database records what the worker reports: it may have sent it in time.
    stage.deliver(&lease).await;
    assert_eq!(stage.kind(sent[0]).await, StateKind::Delivered);
}

pub(crate) async fn a_retry_after_the_expiry_dies(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_within(&[60]).await[0];
    let lease = stage.claim(1).await;
    let late = Report {
        retry_in: Some(s(100)),
        ..Report::retry(id, "busy")
    };
    stage.settle(&lease, &[late]).await;
    stage.advance(s(61)).await;
    stage.claim_nothing("it is not due").await;
    assert_eq!(stage.kind(id).await, Ready, "until it would be claimed");
    stage.advance(s(40)).await;
    stage.claim_nothing("its time has passed").await;
    stage.expired(id, 2, None).await;
    stage.is_sound().await;
}

pub(crate) async fn a_lost_lease_may_outlast_the_expiry(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue_within(&[5, 0]).await;
    stage.claim(2).await;
    stage.crash().await;
    let lease = stage.claim(2).await;
    assert_eq!(ids(&lease), sent[1..], "the halves are leased alone");
    stage.expired(sent[0], 2, None).await;
    stage.is_sound().await;
}

pub(crate) async fn an_expired_head_is_a_death_to_its_group(harness: &dyn Harness) {
    for on_dead in [OnDead::Continue, OnDead::Block] {
        let stage = Stage::with(harness, ordered(on_dead)).await;
        let mut messages = Vec::new();
        for n in 0..3 {
            messages.push(stage.within(n, 60).await.with_group("a"));
        }
        messages.push(stage.message(3).with_group("a"));
        let sent = stage.enqueue_all(&messages).await;
        stage.advance(s(61)).await;
        assert_eq!(stage.kinds(&sent).await, [Ready, Waiting, Waiting, Waiting]);
        if on_dead == OnDead::Block {
            stage.claim_nothing("the head is dead and blocks").await;
            assert_eq!(stage.kinds(&sent).await, [Dead, Waiting, Waiting, Waiting]);
            let discarded = stage.store.discard(&sent[..1], &by()).await;
            discarded.expect("discard answers");
            stage.claim_nothing("nor is the next one sent").await;
            assert_eq!(stage.kind(sent[1]).await, Dead);
        } else {
            let lease = stage.claim(1).await;
            assert_eq!(ids(&lease), sent[3..]);
            assert_eq!(stage.kinds(&sent).await, [Dead, Dead, Dead, Leased]);
            stage.deliver(&lease).await;
        }
        stage.is_sound().await;
    }
}

pub(crate) async fn an_expiry_leaves_time_to_send(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let now = stage.now().await;
    let at = |seconds| after(now, s(seconds));
    let plain = || stage.message(1);
    let wrong = [
        plain().with_expiry(now),
        plain().with_expiry(now - jiff::SignedDuration::from_hours(24 * 3_650_000)),
        plain().with_delay(s(60)).with_expiry(at(60)),
        plain().with_at(at(60)).with_expiry(at(59)),
        plain().with_expiry(after(now, s(3_660 * 86_400 + 1))),
    ];
    for message in wrong {
        let call = [stage.message(0), message];
        let error = refused(stage.try_enqueue(&call).await, "invalid_input");
        let text = error.to_string();
        assert!(text.contains("message 1: expires_at: is"), "{text}");
        stage.claim_nothing("all or none").await;
    }
    let right = plain().with_delay(s(60)).with_expiry(at(61));
    let id = stage.enqueue_all(&[right]).await[0];
    stage.advance(s(60)).await;
    assert_eq!(ids(&stage.claim(1).await), [id]);
}

pub(crate) async fn an_expiry_is_not_part_of_a_keys_identity(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let first = stage.within(1, 60).await.with_key("k");
    let id = stage.enqueue_all(std::slice::from_ref(&first)).await[0];
    stage.advance(s(61)).await;
    // As after a lost reply: the time of the repeated message has passed, and nothing of it is stored.
    for again in [
        first,
        stage.message(1).with_key("k"),
        stage.within(1, 60).await.with_key("k"),
    ] {
        let answers = stage.try_enqueue(&[again]).await.expect("enqueue answers");
        assert_eq!((answers[0].id, answers[0].duplicate), (id, true));
    }
    stage.claim_nothing("the first expiry counts").await;
    assert_eq!(stage.kind(id).await, Dead);
}

pub(crate) async fn the_rest_of_a_lease_settles_as_ever(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue_within(&[60, 0, 0]).await;
    stage.advance(s(61)).await;
    let lease = stage.claim(3).await;
    let delivered: Vec<Report> = ids(&lease).into_iter().map(Report::delivered).collect();
    let all: Vec<Report> = sent.iter().map(|id| Report::delivered(*id)).collect();
    // What the claim settled is on record under the token; it stays as it is.
    let SettleAnswer::Settled(records) = stage.settle(&lease, &all).await else {
        panic!("the lease is live");
    };
    assert_eq!(records[0].outcome, AttemptOutcome::Dead);
    assert_eq!(records[1].outcome, AttemptOutcome::Delivered);
    let again = already_settled(stage.settle(&lease, &all).await);
    assert_eq!(again, records);
    let again = already_settled(stage.settle(&lease, &delivered).await);
    assert_eq!(again, records[1..]);
    assert_eq!(stage.history(sent[0]).await.len(), 1);
    stage.is_sound().await;
}

pub(crate) async fn an_expired_message_dies_again_after_a_requeue(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_within(&[60]).await[0];
    stage.advance(s(61)).await;
    stage.claim_nothing("its time has passed").await;
    let moved = stage.store.requeue(&[id], &by()).await;
    moved.expect("requeue answers");
    assert_eq!(stage.kind(id).await, Ready);
    stage.claim_nothing("it has still passed").await;
    stage.expired(id, 2, None).await;
    // A redrive takes it once, and ends.
    stage.advance(s(1)).await;
    let plan = RedrivePlan::default();
    let started = stage.store.start_redrive(&plan, &by()).await;
    started.expect("start_redrive answers");
    stage.store.step_redrive(100).await.expect("step answers");
    stage.claim_nothing("it dies again").await;
    stage.expired(id, 3, None).await;
    stage.store.step_redrive(100).await.expect("step answers");
    let redrives = stage.store.redrives(10).await;
    let redrive = &redrives.expect("redrives answers")[0];
    assert_eq!((redrive.state, redrive.moved), (RedriveState::Done, 1));
    stage.is_sound().await;
}

pub(crate) async fn a_message_in_doubt_is_no_death_to_a_careful_queue(harness: &dyn Harness) {
    for on_uncertain in [OnUncertain::Resend, OnUncertain::Probe, OnUncertain::Hold] {
        let rules = QueuePolicy {
            on_uncertain: OnUncertain::Probe,
            ..policy()
        };
        let stage = Stage::with(harness, rules.clone()).await;
        let sent = stage.enqueue_within(&[60, 60]).await;
        let lease = stage.claim(2).await;
        stage.report(&lease, sent[0], Outcome::Uncertain).await;
        stage.report(&lease, sent[1], Outcome::Retry).await;
        let rules = QueuePolicy {
            on_uncertain,
            ..rules
        };
        stage.add_queue("mail", &rules).await;
        stage.advance(s(61)).await;
        stage.claim_nothing("their time has passed").await;
        match (stage.state(sent[0]).await, on_uncertain) {
            (State::Dead { code, .. }, OnUncertain::Resend) => {
                assert_eq!(code, EXPIRED_BEFORE_DELIVERY);
            }
            (State::Held { reason, .. }, OnUncertain::Probe | OnUncertain::Hold) => {
                assert_eq!(reason, EXPIRED_BEFORE_DELIVERY);
                let sentence = stage.explain(sent[0]).await.sentence();
                assert!(sentence.contains("may have arrived"), "{sentence}");
            }
            (state, _) => panic!("{on_uncertain:?}: {state:?}"),
        }
        let last = stage.history(sent[0]).await.pop().expect("an attempt");
        assert_eq!(last.outcome, AttemptOutcome::Uncertain, "as it was");
        stage.expired(sent[1], 2, None).await;
        stage.is_sound().await;
    }
}

pub(crate) async fn deaths_by_expiry_are_alerted(harness: &dyn Harness) {
    let stage = watched(harness).await;
    stage.enqueue_within(&[60, 60, 0, 60]).await;
    stage.advance(s(61)).await;
    let lease = stage.claim(10).await;
    assert_eq!(lease.messages.len(), 1);
    let alerts = stage.alerts().await;
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    let found = (alerts[0].code.as_deref(), alerts[0].count);
    assert_eq!(found, (Some(EXPIRED_BEFORE_DELIVERY), 3));
}

pub(crate) async fn a_paused_queue_keeps_its_expired_messages(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_within(&[60]).await[0];
    let paused = stage.store.pause(&stage.queue, &by()).await;
    paused.expect("pause answers");
    stage.advance(s(61)).await;
    stage.claim_nothing("it is paused").await;
    assert_eq!(stage.kind(id).await, Ready);
    let resumed = stage.store.resume(&stage.queue, &by()).await;
    resumed.expect("resume answers");
    stage.claim_nothing("its time has passed").await;
    stage.expired(id, 1, None).await;
}
