//! A worker, a store and a rail: every scenario to its end, and never paid twice.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Store, prelude::*};
use consign_payments::{
    AttemptState::{self, Dispatched, Failed, Retryable},
    OutboxId, PaymentState, Payments, Rail, RailSink, Rails, SimulatedRail, queue,
};
use consign_testkit::eventually;
use consign_worker::{QueueWork, Sink, Worker, WorkerHandle, WorkerOptions};
use serde_json::json;

use crate::support::{Act, FakeRail, Fixture, SOON, answer, payload};

fn work(shop: &Fixture, rail: Arc<dyn Rail>) -> WorkerHandle {
    let sink: Arc<dyn Sink> = Arc::new(RailSink::new(Rails::new(rail, ["PAYMENT"])));
    let options = WorkerOptions {
        poll_min: Duration::from_millis(2),
        poll_max: Duration::from_millis(10),
        ..WorkerOptions::new("relayer-1")
    };
    let store = Arc::clone(&shop.store) as Arc<dyn Store>;
    Worker::start(store, vec![QueueWork::new(queue(), sink)], options)
}

async fn ends_in(shop: &Fixture, id: OutboxId, state: PaymentState) {
    let what = format!("payment {id} is {state}");
    eventually(&what, SOON, async || {
        let found = shop.store.payment(id).await.unwrap().unwrap();
        found.0.state == state
    })
    .await;
}

async fn story(shop: &Fixture, id: OutboxId) -> Vec<AttemptState> {
    let attempts = shop.store.payment_attempts(id).await.unwrap().unwrap();
    attempts.iter().map(|attempt| attempt.state).collect()
}

/// A scenario, where it ends, its attempts, how often it was submitted and paid.
type Line = (
    &'static str,
    PaymentState,
    &'static [AttemptState],
    u32,
    u32,
);

const SCENARIOS: [Line; 9] = [
    (
        "SIMULATE_SUCCESS",
        PaymentState::Dispatched,
        &[Dispatched],
        1,
        1,
    ),
    (
        "SIMULATE_TRANSIENT_FAILURE",
        PaymentState::Dispatched,
        &[Retryable, Dispatched],
        2,
        1,
    ),
    (
        "SIMULATE_PERMANENT_FAILURE",
        PaymentState::Failed,
        &[Failed],
        1,
        0,
    ),
    (
        "SIMULATE_UNREACHABLE",
        PaymentState::Dispatched,
        &[Retryable, Dispatched],
        2,
        1,
    ),
    (
        "SIMULATE_LOST_REQUEST",
        PaymentState::Dispatched,
        &[Retryable, Dispatched],
        2,
        1,
    ),
    // Queried, not sent again.
    (
        "SIMULATE_LOST_REPLY",
        PaymentState::Dispatched,
        &[Retryable, Dispatched],
        1,
        1,
    ),
    (
        "SIMULATE_TIMEOUT",
        PaymentState::Dispatched,
        &[Retryable, Dispatched],
        1,
        1,
    ),
    (
        "SIMULATE_MISSING_REFERENCE",
        PaymentState::Held,
        &[Retryable],
        1,
        1,
    ),
    (
        "SIMULATE_CANNOT_TELL",
        PaymentState::Held,
        &[Retryable, Retryable, Retryable, Retryable],
        1,
        1,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_ends_and_is_paid_at_most_once() {
    let shop = Fixture::new().await;
    let rail = Arc::new(SimulatedRail::new());
    let worker = work(&shop, Arc::clone(&rail) as Arc<dyn Rail>);
    for (n, (scenario, state, attempts, submissions, executions)) in
        SCENARIOS.into_iter().enumerate()
    {
        let id = shop.enqueue(n, payload(scenario)).await;
        ends_in(&shop, id, state).await;
        assert_eq!(story(&shop, id).await, attempts, "{scenario}");
        assert_eq!(rail.submissions(id), submissions, "{scenario}");
        assert_eq!(rail.executions(id), executions, "{scenario}");
        if state == PaymentState::Dispatched {
            let last = shop
                .store
                .payment_attempts(id)
                .await
                .unwrap()
                .unwrap()
                .pop()
                .unwrap();
            assert_eq!(last.rail_reference, Some(format!("SIM-{id}")), "{scenario}");
        }
    }
    worker.drain();
    worker.finished().await;
    // What may have been paid is there to be looked at, and nothing else is.
    let found = shop.store.reconcile_payments(10).await.unwrap();
    assert_eq!(found.uncertain.len(), 2);
    assert_eq!(
        (
            found.missing_references.len(),
            found.reused_references.len()
        ),
        (0, 0)
    );
    assert_eq!(shop.store.doctor().await.unwrap(), []);
}
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_cannot_be_made_fails_without_a_call() {
    let shop = Fixture::new().await;
    let rail = Arc::new(SimulatedRail::new());
    let worker = work(&shop, Arc::clone(&rail) as Arc<dyn Rail>);
    let id = shop
        .enqueue(1, json!({"amount_minor": 1.5, "currency_code": "ZMW"}))
        .await;
    ends_in(&shop, id, PaymentState::Failed).await;
    let attempts = shop.store.payment_attempts(id).await.unwrap().unwrap();
    assert_eq!(attempts[0].error_code.as_deref(), Some("INVALID_AMOUNT"));
    assert_eq!(rail.submissions(id), 0);
    worker.drain();
    worker.finished().await;
}

/// The reply is lost, the rail is queried by reference, nothing is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_over_http_is_queried() {
    let fake = FakeRail::start([
        Act::HangUp,
        answer(200, json!({"found": true, "pending": true})),
        answer(200, json!({"success": true, "rail_reference": "R-9"})),
    ])
    .await;
    let shop = Fixture::new().await;
    let rails = fake.options().rails().unwrap();
    let worker = work(&shop, Arc::clone(rails.get("PAYMENT").unwrap()));
    let id = shop.enqueue(1, payload("SIMULATE_SUCCESS")).await;
    ends_in(&shop, id, PaymentState::Dispatched).await;
    worker.drain();
    worker.finished().await;
    let requests = fake.requests().await;
    let methods: Vec<&str> = requests.iter().map(|request| &request[..4]).collect();
    assert_eq!(methods, ["POST", "GET ", "GET "]);
    let attempts = shop.store.payment_attempts(id).await.unwrap().unwrap();
    assert_eq!(attempts[0].error_code.as_deref(), Some("DISPATCH_ERROR"));
    assert_eq!(attempts[2].rail_reference.as_deref(), Some("R-9"));
    assert_eq!(story(&shop, id).await, [Retryable, Retryable, Dispatched]);
}
