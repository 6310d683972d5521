//! Events of a hook: the same names as in PostgreSQL, once per operation, with what changed in the queue.

use std::sync::Arc;

use async_trait::async_trait;
use consign_kernel::{
    By, Claim, ManualClock, Message, MessageId, Migration, Move, NewMessage, Outcome, QueueName,
    QueuePolicy, RedriveAction, RedrivePlan, Report, Resolution, StateKind, Token, prelude::*,
};
use consign_sqlite::{
    Clock, Component, Hook, SqliteOptions, SqliteStore,
    extension::{Failure, LeasePlan, OperatorMove, Result, Work, rows::LeaseRow},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Records every event of queue `mail` as `event what: ids`.
#[derive(Clone, Copy, Debug, Default)]
struct Recorder {
    can_discard: bool,
}

impl Component for Recorder {
    fn migrations(&self) -> &'static [Migration] {
        &[Migration {
            component: "recorder",
            version: 1,
            name: "seen",
            sql: "CREATE TABLE seen (n INTEGER PRIMARY KEY, event TEXT NOT NULL) STRICT",
            requires: &[],
        }]
    }

    fn hook(&self) -> Option<&dyn Hook> {
        Some(self)
    }
}

#[async_trait]
impl Hook for Recorder {
    fn queue(&self) -> &'static str {
        "mail"
    }

    fn resolve(
        &self,
        _message: &Message,
        _by: &Resolution,
    ) -> consign_kernel::Result<Option<Value>> {
        Ok(None)
    }

    async fn enqueued(&self, work: &mut Work<'_>, ids: &[MessageId]) -> Result<()> {
        seen(work, "enqueued", ids).await
    }

    async fn settled(
        &self,
        work: &mut Work<'_>,
        _lease: &LeaseRow,
        plan: &LeasePlan,
    ) -> Result<()> {
        if plan
            .attempts
            .iter()
            .any(|attempt| attempt.code.as_deref() == Some("unfit"))
        {
            return Err(Failure::corrupt("the shop takes no unfit mail"));
        }
        follow(work, "settled", plan).await
    }

    async fn expired(
        &self,
        work: &mut Work<'_>,
        _lease: &LeaseRow,
        plan: &LeasePlan,
    ) -> Result<()> {
        follow(work, "expired", plan).await
    }

    async fn moved(
        &self,
        work: &mut Work<'_>,
        ids: &[MessageId],
        action: OperatorMove,
    ) -> Result<()> {
        seen(work, &format!("moved {}", action.as_str()), ids).await
    }

    fn can_discard(&self) -> bool {
        self.can_discard
    }

    async fn discarded(
        &self,
        work: &mut Work<'_>,
        ids: &[MessageId],
        action: OperatorMove,
    ) -> Result<()> {
        seen(work, &format!("discarded {}", action.as_str()), ids).await
    }

    async fn late(&self, work: &mut Work<'_>, ids: &[MessageId], _token: Token) -> Result<()> {
        seen(work, "late", ids).await
    }
}

/// The states that attempts led to, which are those the tables have by then.
async fn follow(work: &mut Work<'_>, event: &str, plan: &LeasePlan) -> Result<()> {
    let ids: Vec<MessageId> = plan
        .attempts
        .iter()
        .map(|attempt| attempt.entry.id)
        .collect();
    let states = work.states(&ids.iter().copied().collect()).await?;
    for attempt in &plan.attempts {
        assert_eq!(states[&attempt.entry.id].state, attempt.state);
    }
    let states: Vec<&str> = plan
        .attempts
        .iter()
        .map(|attempt| attempt.state.as_str())
        .collect();
    seen(work, &format!("{event} {}", states.join(" ")), &ids).await
}

async fn seen(work: &mut Work<'_>, what: &str, ids: &[MessageId]) -> Result<()> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    sqlx::query("INSERT INTO seen (event) VALUES (?1)")
        .bind(format!("{what}: {ids:?}"))
        .execute(&mut *work.connection)
        .await?;
    Ok(())
}

struct Shop {
    _directory: TempDir,
    clock: ManualClock,
    store: SqliteStore,
}

impl Shop {
    /// A store with the hook, and the queues `mail` and `other`.
    async fn open() -> Self {
        Self::with(Recorder::default()).await
    }

    async fn with(recorder: Recorder) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_second(1_800_000_000).unwrap());
        let file = directory.path().join("queue.db");
        let options = SqliteOptions::new(file.to_str().unwrap()).unwrap();
        let options = options
            .clock(Clock::Manual(clock.clone()))
            .migrate_on_open(true)
            .component(Arc::new(recorder));
        let store = SqliteStore::open(&options).await.unwrap();
        for queue in [mail(), other()] {
            let policy = QueuePolicy {
                attempts_max: 1,
                ..QueuePolicy::default()
            };
            store.put_queue(&queue, &policy, &by()).await.unwrap();
        }
        Self {
            _directory: directory,
            clock,
            store,
        }
    }

    async fn enqueue(&self, messages: &[NewMessage]) -> Vec<MessageId> {
        let receipts = self.store.enqueue(messages).await.unwrap();
        receipts.iter().map(|receipt| receipt.id).collect()
    }

    async fn claim(&self) -> Token {
        let claim = Claim::new(mail(), "w", 10);
        self.store.claim(&claim).await.unwrap().unwrap().token
    }

    async fn seen(&self) -> Vec<String> {
        let mut tx = self
            .store
            .read("read what the hook has seen")
            .await
            .unwrap();
        let events = sqlx::query_scalar("SELECT event FROM seen ORDER BY n");
        events.fetch_all(&mut *tx).await.unwrap()
    }
}

fn mail() -> QueueName {
    "mail".parse().unwrap()
}

fn other() -> QueueName {
    "other".parse().unwrap()
}

fn by() -> By {
    By::new("ada", "a test")
}

fn keyed(queue: QueueName, key: &str) -> NewMessage {
    NewMessage::new(queue, json!(key)).with_key(key)
}

#[tokio::test]
async fn messages_of_an_app_without_such_an_end_are_not_closed() {
    let shop = Shop::open().await;
    let store = &shop.store;
    let enqueued = shop
        .enqueue(&[keyed(mail(), "a"), keyed(other(), "o")])
        .await;
    let cancelled = store.cancel(&enqueued, &by()).await.unwrap();
    assert_eq!(cancelled[0].answer, Move::AppQueue);
    let state = StateKind::Discarded;
    assert_eq!(cancelled[1].answer, Move::Moved { state });
    let token = shop.claim().await;
    let dead = [Report::new(enqueued[0], Outcome::Dead)];
    store.settle(token, &dead).await.unwrap();
    let discarded = store.discard(&enqueued[..1], &by()).await.unwrap();
    assert_eq!(discarded[0].answer, Move::AppQueue);
    let plan = |queue| RedrivePlan {
        action: RedriveAction::Discard,
        queue,
        ..RedrivePlan::default()
    };
    let refused = store.start_redrive(&plan(Some(mail())), &by()).await;
    assert_eq!(refused.unwrap_err().code(), "invalid_input");
    // One of every queue passes over it.
    store.start_redrive(&plan(None), &by()).await.unwrap();
    let done = store.step_redrive(10).await.unwrap().unwrap();
    assert_eq!((done.moved, done.skipped), (0, 1));
    assert_eq!(store.doctor().await.unwrap(), []);
    let seen = shop.seen().await;
    assert!(!seen.iter().any(|event| event.starts_with("discarded")));
}

#[tokio::test]
async fn an_app_follows_a_discard_of_its_messages() {
    let shop = Shop::with(Recorder { can_discard: true }).await;
    let store = &shop.store;
    let ids = shop
        .enqueue(&[keyed(mail(), "a"), keyed(mail(), "b"), keyed(other(), "o")])
        .await;
    store.cancel(&ids[1..], &by()).await.unwrap();
    let token = shop.claim().await;
    let dead = [Report::new(ids[0], Outcome::Dead)];
    store.settle(token, &dead).await.unwrap();
    store.discard(&ids, &by()).await.unwrap();
    let expected = [
        format!("discarded cancel: [{}]", ids[1]),
        format!("settled dead: [{}]", ids[0]),
        format!("discarded discard: [{}]", ids[0]),
    ];
    assert_eq!(shop.seen().await[1..], expected);
}

#[tokio::test]
async fn a_hook_runs_once_per_operation_with_what_changed() {
    let shop = Shop::open().await;
    let store = &shop.store;
    let first = [keyed(mail(), "a"), keyed(other(), "o"), keyed(mail(), "b")];
    let [a, o, b] = shop.enqueue(&first).await[..] else {
        panic!("three messages");
    };
    let again = [keyed(mail(), "b"), keyed(mail(), "c")];
    let c = shop.enqueue(&again).await[1];
    shop.enqueue(&again).await;
    let token = shop.claim().await;
    let reports = [
        Report::new(a, Outcome::Delivered),
        Report::new(b, Outcome::Dead),
    ];
    store.settle(token, &reports).await.unwrap();
    store.settle(token, &reports).await.unwrap();
    shop.clock.advance(SignedDuration::from_hours(1));
    store.expire(10).await.unwrap();
    let late = [Report::delivered(c)];
    assert_eq!(store.record_late(token, &late).await.unwrap(), [c]);
    store.requeue(&[a, b, c], &by()).await.unwrap();
    store.hold(&[b, c, o], &by()).await.unwrap();
    store.unhold(&[c, o], &by()).await.unwrap();
    let resolution = Resolution::Delivered { result: None };
    store.resolve(&[b], &resolution, &by()).await.unwrap();
    let (a, b, c) = (a.0, b.0, c.0);
    let expected = [
        format!("enqueued: [{a}, {b}]"),
        format!("enqueued: [{c}]"),
        format!("settled delivered dead: [{a}, {b}]"),
        format!("expired dead: [{c}]"),
        format!("late: [{c}]"),
        format!("moved requeue: [{b}, {c}]"),
        format!("moved hold: [{b}, {c}]"),
        format!("moved unhold: [{c}]"),
        format!("settled delivered: [{b}]"),
    ];
    assert_eq!(shop.seen().await, expected);
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_late_result_of_another_queue_is_none_of_the_hooks_business() {
    let shop = Shop::open().await;
    let o = shop.enqueue(&[keyed(other(), "o")]).await[0];
    let claim = Claim::new(other(), "w", 10);
    let lease = shop.store.claim(&claim).await.unwrap().unwrap();
    shop.clock.advance(SignedDuration::from_hours(1));
    shop.store.expire(10).await.unwrap();
    let late = [Report::delivered(o)];
    let kept = shop.store.record_late(lease.token, &late).await.unwrap();
    assert_eq!(kept, [o]);
    assert_eq!(shop.seen().await, [""; 0]);
}

#[tokio::test]
async fn a_hook_that_fails_fails_the_operation() {
    let shop = Shop::open().await;
    let a = shop.enqueue(&[keyed(mail(), "a")]).await[0];
    let token = shop.claim().await;
    let mut report = Report::delivered(a);
    report.code = Some("unfit".to_owned());
    let error = shop.store.settle(token, &[report]).await.unwrap_err();
    let error = consign_kernel::with_causes(&error);
    assert!(error.contains("the shop takes no unfit mail"), "{error}");
    assert_eq!(shop.store.history(a).await.unwrap(), []);
    let report = [Report::delivered(a)];
    shop.store.settle(token, &report).await.unwrap();
    let explained = shop.store.explain(a).await.unwrap().unwrap();
    assert_eq!(explained.state.kind(), StateKind::Delivered);
}
