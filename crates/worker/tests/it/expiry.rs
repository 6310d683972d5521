//! No send starts once its message has expired.
//!
//! The store's clock stands still, so that its claims find nothing expired: only the worker, whose
//! own clock goes on, can.

use std::{sync::Arc, time::Duration};

use consign_kernel::{
    Claim, MessageId, NewMessage, OnUncertain, Outcome, QueuePolicy, Report, StateKind, Store,
    codes::EXPIRED_BEFORE_DELIVERY,
};
use consign_worker::Probe;
use jiff::SignedDuration;
use serde_json::json;

use crate::support::{
    ScriptedSink, all_are, attempts, end, frozen_reference, make_queue, queue, work,
};

/// So short that it has passed before the answer to a claim arrives.
const NO_TIME: SignedDuration = SignedDuration::from_micros(1);

struct Scene {
    store: Arc<dyn Store>,
    now: jiff::Timestamp,
}

impl Scene {
    async fn new(on_uncertain: OnUncertain) -> Self {
        let (store, clock) = frozen_reference();
        let store: Arc<dyn Store> = Arc::new(store);
        let policy = QueuePolicy {
            on_uncertain,
            ..QueuePolicy::default()
        };
        make_queue(&*store, "mail", &policy).await;
        let now = clock.now();
        Self { store, now }
    }

    /// Enqueues messages that expire after these times.
    async fn enqueue(&self, times: &[Option<SignedDuration>]) -> Vec<MessageId> {
        let message = |time: &Option<SignedDuration>| NewMessage {
            expires_at: time.map(|time| self.now + time),
            ..NewMessage::new(queue("mail"), json!({}))
        };
        let messages: Vec<NewMessage> = times.iter().map(message).collect();
        let receipts = self.store.enqueue(&messages).await.unwrap();
        receipts.iter().map(|receipt| receipt.id).collect()
    }

    /// A message without time whose earlier delivery is in doubt.
    async fn in_doubt(&self) -> MessageId {
        let id = self.enqueue(&[Some(NO_TIME)]).await[0];
        let claim = Claim::new(queue("mail"), "earlier", 1);
        let lease = self.store.claim(&claim).await.unwrap().unwrap();
        let report = Report {
            retry_in: Some(Duration::ZERO),
            ..Report::new(id, Outcome::Uncertain)
        };
        self.store.settle(lease.token, &[report]).await.unwrap();
        id
    }

    /// What becomes of the message in doubt: the outcomes of its attempts.
    async fn run(&self, sink: &Arc<ScriptedSink>, id: MessageId, kind: StateKind) -> Vec<String> {
        let worker = work(&self.store, "mail", sink);
        all_are(&*self.store, &[id], kind).await;
        end(&worker, &*self.store).await;
        assert_eq!(sink.seen_ids(), [], "nothing was sent");
        let attempts = attempts(&*self.store, id).await.into_iter();
        let text = |(outcome, code): (consign_kernel::AttemptOutcome, Option<String>)| {
            format!("{} {}", outcome.as_str(), code.unwrap_or_default())
        };
        attempts.map(text).collect()
    }
}

#[tokio::test]
async fn an_expired_message_is_not_sent_and_its_neighbours_are() {
    let scene = Scene::new(OnUncertain::Resend).await;
    let hour = Some(SignedDuration::from_hours(1));
    let sent = scene
        .enqueue(&[Some(NO_TIME), None, hour, Some(NO_TIME)])
        .await;
    let sink = ScriptedSink::willing();
    let worker = work(&scene.store, "mail", &sink);
    all_are(&*scene.store, &sent[1..3], StateKind::Delivered).await;
    let expired = [sent[0], sent[3]];
    all_are(&*scene.store, &expired, StateKind::Dead).await;
    let summary = end(&worker, &*scene.store).await;
    assert_eq!((summary.delivered, summary.dead), (2, 2));
    assert_eq!(sink.seen_ids(), sent[1..3]);
    for id in expired {
        let history = scene.store.history(id).await.unwrap();
        assert_eq!(history[0].code.as_deref(), Some(EXPIRED_BEFORE_DELIVERY));
    }
}

#[tokio::test]
async fn what_may_have_arrived_stays_in_doubt() {
    let in_doubt = ["uncertain ", "uncertain expired_before_delivery"];
    for (on_uncertain, kind) in [
        (OnUncertain::Resend, StateKind::Dead),
        (OnUncertain::Hold, StateKind::Held),
    ] {
        let scene = Scene::new(OnUncertain::Resend).await;
        let id = scene.in_doubt().await;
        let policy = QueuePolicy {
            on_uncertain,
            ..QueuePolicy::default()
        };
        make_queue(&*scene.store, "mail", &policy).await;
        let found = scene.run(&ScriptedSink::willing(), id, kind).await;
        assert_eq!(found, in_doubt, "{on_uncertain:?}");
    }
}

#[tokio::test]
async fn a_probe_settles_the_doubt_about_an_expired_message() {
    let answers = [
        (
            Probe::NotDelivered,
            StateKind::Dead,
            "dead expired_before_delivery",
        ),
        (
            Probe::Delivered(None),
            StateKind::Delivered,
            "delivered probed",
        ),
    ];
    for (answer, kind, last) in answers {
        let scene = Scene::new(OnUncertain::Probe).await;
        let id = scene.in_doubt().await;
        let sink = ScriptedSink::with_probe(
            |_| async { panic!("it has expired") },
            move |_| {
                let answer = answer.clone();
                async move { answer }
            },
        );
        let found = scene.run(&sink, id, kind).await;
        assert_eq!(found, ["uncertain ", last]);
    }
}
