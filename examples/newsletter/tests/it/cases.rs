//! What both stores must do.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{
    By, Claim, Lease, Move, Outcome, QueuePolicy, Report, SettleAnswer, StateKind, Store,
};
use newsletter::{Address, Status, Subscriber, Subscribers, queue};

/// A fresh database with the engine and the app.
#[async_trait]
pub(crate) trait Fixture: Send + Sync {
    fn store(&self) -> Arc<dyn Store>;

    fn subscribers(&self) -> Arc<dyn Subscribers>;

    /// Makes every update of a subscriber fail, or ends that.
    async fn break_subscribers(&self, is_broken: bool);
}

pub(crate) fn address(text: &str) -> Address {
    text.parse().unwrap()
}

/// Creates the queue, as `serve` does.
pub(crate) async fn put_queue(store: &dyn Store) {
    let by = By::new("test", "set up");
    let policy = QueuePolicy {
        attempts_max: 2,
        ..QueuePolicy::default()
    };
    store.put_queue(&queue(), &policy, &by).await.unwrap();
}

/// Subscribes and claims the welcome.
pub(crate) async fn claimed(
    store: &dyn Store,
    subscribers: &dyn Subscribers,
) -> (Subscriber, Lease) {
    let subscriber = subscribers.subscribe(&address("ada@example.org")).await;
    let lease = claim(store).await;
    (subscriber.unwrap(), lease)
}

async fn claim(store: &dyn Store) -> Lease {
    let claim = Claim::new(queue(), "worker", 10);
    store.claim(&claim).await.unwrap().unwrap()
}

async fn settle(fixture: &dyn Fixture, lease: &Lease, outcome: Outcome) -> SettleAnswer {
    let report = Report::new(lease.messages[0].message.id, outcome);
    let report = Report {
        retry_in: Some(Duration::ZERO),
        ..report
    };
    let settled = fixture.store().settle(lease.token, &[report]).await;
    settled.unwrap()
}

pub(crate) async fn status(subscribers: &dyn Subscribers) -> Status {
    let found = subscribers.subscriber(&address("ada@example.org")).await;
    found.unwrap().unwrap().status
}

pub(crate) async fn state(store: &dyn Store, subscriber: &Subscriber) -> StateKind {
    let explained = store.explain(subscriber.message_id).await.unwrap();
    explained.unwrap().state.kind()
}

pub(crate) async fn a_repeated_subscription_returns_the_first(fixture: &dyn Fixture) {
    let (subscribers, ada) = (fixture.subscribers(), address("ada@example.org"));
    let first = subscribers.subscribe(&ada).await.unwrap();
    let again = subscribers.subscribe(&ada).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(first.status, Status::Pending);
    let bob = subscribers.subscribe(&address("bob@example.org")).await;
    assert_eq!(
        subscribers.subscribers(10).await.unwrap(),
        [first, bob.unwrap()]
    );
    assert_eq!(subscribers.subscribers(1).await.unwrap().len(), 1);
}

pub(crate) async fn the_row_follows_every_outcome(fixture: &dyn Fixture) {
    let (store, subscribers) = (fixture.store(), fixture.subscribers());
    let (subscriber, lease) = claimed(&*store, &*subscribers).await;
    settle(fixture, &lease, Outcome::Retry).await;
    assert_eq!(status(&*subscribers).await, Status::Pending);
    // The second attempt is the last one.
    settle(fixture, &claim(&*store).await, Outcome::Retry).await;
    assert_eq!(status(&*subscribers).await, Status::Unreachable);
    assert_eq!(state(&*store, &subscriber).await, StateKind::Dead);
    let by = By::new("test", "the mail server is back");
    let moved = store.requeue(&[subscriber.message_id], &by).await.unwrap();
    assert!(matches!(moved[0].answer, Move::Moved { .. }), "{moved:?}");
    assert_eq!(status(&*subscribers).await, Status::Pending);
    settle(fixture, &claim(&*store).await, Outcome::Delivered).await;
    assert_eq!(status(&*subscribers).await, Status::Welcomed);
    assert_eq!(store.doctor().await.unwrap(), []);
}

pub(crate) async fn a_failing_hook_fails_the_settle(fixture: &dyn Fixture) {
    let (store, subscribers) = (fixture.store(), fixture.subscribers());
    let (subscriber, lease) = claimed(&*store, &*subscribers).await;
    fixture.break_subscribers(true).await;
    let report = Report::delivered(subscriber.message_id);
    store.settle(lease.token, &[report]).await.unwrap_err();
    assert_eq!(status(&*subscribers).await, Status::Pending);
    assert_eq!(state(&*store, &subscriber).await, StateKind::Leased);
    assert_eq!(store.history(subscriber.message_id).await.unwrap(), []);
    fixture.break_subscribers(false).await;
    settle(fixture, &lease, Outcome::Delivered).await;
    assert_eq!(status(&*subscribers).await, Status::Welcomed);
    assert_eq!(state(&*store, &subscriber).await, StateKind::Delivered);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A test per case.
macro_rules! cases {
    ($fixture:expr) => {
        $crate::cases::cases! { $fixture;
            a_repeated_subscription_returns_the_first,
            the_row_follows_every_outcome,
            a_failing_hook_fails_the_settle,
        }
    };
    ($fixture:expr; $($case:ident,)+) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::cases::$case(&$fixture.await).await;
            }
        )+
    };
}
pub(crate) use cases;
