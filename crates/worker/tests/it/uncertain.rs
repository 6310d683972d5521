//! Deliveries that may or may not have happened.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use consign_kernel::{
    AttemptOutcome::{self, Delivered, Uncertain},
    MessageId, OnUncertain, Outcome, QueuePolicy, RetrySchedule, StateKind, Store,
};
use consign_testkit::eventually;
use consign_worker::{About, Delivery, Probe, Verdict};
use serde_json::json;

use crate::support::{
    FaultyStore, Gate, SOON, ScriptedSink, all_are, attempts, end, enqueue, frozen_reference,
    make_queue, running_reference, work,
};

fn policy(on_uncertain: OnUncertain) -> QueuePolicy {
    QueuePolicy {
        on_uncertain,
        timeout_ms: 50,
        attempts_max: 3,
        retry: RetrySchedule::Fixed { delay_ms: 1 },
        ..QueuePolicy::default()
    }
}

/// A sink that does not answer the first time.
async fn silent_at_first(delivery: Delivery) -> Verdict {
    if delivery.attempt_no == 1 {
        Gate::default().passed().await;
    }
    Verdict::delivered()
}

/// Works off one message in a queue of this kind; answers with its attempts.
async fn run(
    on_uncertain: OnUncertain,
    sink: &Arc<ScriptedSink>,
    ends: StateKind,
) -> Vec<(AttemptOutcome, String)> {
    let store: Arc<dyn Store> = Arc::new(running_reference());
    make_queue(&*store, "mail", &policy(on_uncertain)).await;
    let ids: Vec<MessageId> = enqueue(&*store, "mail", 1).await;
    let worker = work(&store, "mail", sink);
    all_are(&*store, &ids, ends).await;
    let attempts = attempts(&*store, ids[0]).await;
    end(&worker, &*store).await;
    let word = |code: Option<String>| code.unwrap_or_else(|| "none".to_owned());
    attempts
        .into_iter()
        .map(|(outcome, code)| (outcome, word(code)))
        .collect()
}

fn story(attempts: &[(AttemptOutcome, &str)]) -> Vec<(AttemptOutcome, String)> {
    let owned = |(outcome, code): &(AttemptOutcome, &str)| (*outcome, (*code).to_owned());
    attempts.iter().map(owned).collect()
}

#[tokio::test]
async fn a_timeout_is_uncertain_and_resent_where_the_policy_sets_it() {
    let sink = ScriptedSink::new(silent_at_first);
    let attempts = run(OnUncertain::Resend, &sink, StateKind::Delivered).await;
    assert_eq!(
        attempts,
        story(&[(Uncertain, "timeout"), (Delivered, "none")])
    );
    assert_eq!((sink.seen().len(), sink.probed()), (2, 0));
}

#[tokio::test]
async fn a_timeout_is_held_where_the_policy_sets_it() {
    let sink = ScriptedSink::new(silent_at_first);
    let attempts = run(OnUncertain::Hold, &sink, StateKind::Held).await;
    assert_eq!(attempts, story(&[(Uncertain, "timeout")]));
}

#[tokio::test]
async fn a_message_in_doubt_is_not_sent_again_when_the_probe_finds_it() {
    let sink = ScriptedSink::with_probe(silent_at_first, |_| async {
        Probe::Delivered(Some(json!({"id": 7})))
    });
    let attempts = run(OnUncertain::Probe, &sink, StateKind::Delivered).await;
    assert_eq!(
        attempts,
        story(&[(Uncertain, "timeout"), (Delivered, "probed")])
    );
    assert_eq!((sink.seen().len(), sink.probed()), (1, 1));
}

#[tokio::test]
async fn a_message_in_doubt_is_sent_when_the_sink_does_not_have_it() {
    let sends = |delivery: Delivery| async move {
        match (delivery.attempt_no, delivery.in_doubt) {
            (2, true) => panic!("the probe has cleared it"),
            _ => silent_at_first(delivery).await,
        }
    };
    let sink = ScriptedSink::with_probe(sends, |_| async { Probe::NotDelivered });
    let attempts = run(OnUncertain::Probe, &sink, StateKind::Delivered).await;
    assert_eq!(
        attempts,
        story(&[(Uncertain, "timeout"), (Delivered, "none")])
    );
    assert_eq!((sink.seen().len(), sink.probed()), (2, 1));
}

#[tokio::test]
async fn a_sink_may_decide_the_outcome_of_an_attempt() {
    let sink = ScriptedSink::with_probe(silent_at_first, |_| async {
        let refused = Verdict::failed(Outcome::Dead, About::Message, "refused_before", "no");
        Probe::Decided(Box::new(refused))
    });
    let attempts = run(OnUncertain::Probe, &sink, StateKind::Dead).await;
    assert_eq!(
        attempts,
        story(&[
            (Uncertain, "timeout"),
            (AttemptOutcome::Dead, "refused_before")
        ])
    );
    assert_eq!((sink.seen().len(), sink.probed()), (1, 1));
}

#[tokio::test]
async fn a_message_in_doubt_is_never_resent_blindly_nor_called_dead() {
    let probes = [
        ScriptedSink::new(silent_at_first),
        ScriptedSink::with_probe(silent_at_first, |_| async {
            Gate::default().passed().await;
            Probe::NotDelivered
        }),
        ScriptedSink::with_probe(silent_at_first, |_| async { panic!("cannot look") }),
    ];
    for sink in probes {
        let attempts = run(OnUncertain::Probe, &sink, StateKind::Held).await;
        let failed = (Uncertain, "probe_failed");
        assert_eq!(attempts, story(&[(Uncertain, "timeout"), failed, failed]));
        assert_eq!((sink.seen().len(), sink.probed()), (1, 2));
    }
}

#[tokio::test]
async fn a_panic_in_mid_delivery_is_uncertain_where_that_matters() {
    let sink = ScriptedSink::with_probe(
        |delivery| async move {
            assert!(delivery.attempt_no > 1, "sent, then fell over");
            Verdict::delivered()
        },
        |_| async { Probe::Delivered(None) },
    );
    let attempts = run(OnUncertain::Probe, &sink, StateKind::Delivered).await;
    assert_eq!(
        attempts,
        story(&[(Uncertain, "panic"), (Delivered, "probed")])
    );
}

#[tokio::test]
async fn a_delivery_is_recorded_as_begun_before_it_starts() {
    let (reference, _clock) = frozen_reference();
    let faulty = FaultyStore::new(Arc::new(reference));
    let store: Arc<dyn Store> = faulty.clone();
    let queue = QueuePolicy {
        timeout_ms: 60_000,
        ..policy(OnUncertain::Hold)
    };
    make_queue(&*store, "mail", &queue).await;
    let unbegun = Arc::new(AtomicUsize::new(0));
    let gate = Gate::default();
    let sink = ScriptedSink::new({
        let (store, unbegun, gate) = (store.clone(), Arc::clone(&unbegun), gate.clone());
        move |delivery| {
            let (store, unbegun, gate) = (store.clone(), Arc::clone(&unbegun), gate.clone());
            async move {
                let leases = store.leases(100).await.unwrap();
                if !leases
                    .iter()
                    .any(|lease| lease.begun.contains(&delivery.message.id))
                {
                    unbegun.fetch_add(1, SeqCst);
                }
                gate.passed().await;
                Verdict::delivered()
            }
        }
    });
    faulty.refuse("begin");
    let ids = enqueue(&*store, "mail", 30).await;
    let worker = work(&store, "mail", &sink);
    eventually("begin was tried", SOON, || async {
        faulty.calls("begin") > 2
    })
    .await;
    assert_eq!(
        sink.seen().len(),
        0,
        "nothing is sent that is not on record"
    );
    faulty.allow("begin");
    eventually("sixteen are under way", SOON, || async { sink.now() == 16 }).await;
    gate.open();
    all_are(&*store, &ids, StateKind::Delivered).await;
    assert_eq!((unbegun.load(SeqCst), sink.seen_ids()), (0, ids));
    end(&worker, &*store).await;
}
