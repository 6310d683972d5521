//! Apps: a queue with a hook is worked only by processes that have its app.

use std::sync::Arc;

use async_trait::async_trait;
use consign_kernel::{
    By, Claim, ManualClock, MessageId, Migration, NewMessage, QueueName, QueuePolicy, RedrivePlan,
    Report, Store,
};
use consign_sqlite::{
    Clock, Component, Hook, SqliteOptions, SqliteStore,
    extension::{NewAttempt, Result, Work, rows::LeaseRow, write},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tempfile::TempDir;

/// Writes down what was settled.
#[derive(Debug)]
struct Shop;

impl Component for Shop {
    fn migrations(&self) -> &'static [Migration] {
        &[Migration {
            component: "shop",
            version: 1,
            name: "sent",
            sql: "CREATE TABLE sent (id INTEGER PRIMARY KEY) STRICT",
            requires: &[],
        }]
    }

    fn hook(&self) -> Option<&dyn Hook> {
        Some(self)
    }
}

#[async_trait]
impl Hook for Shop {
    fn queue(&self) -> &'static str {
        "mail"
    }

    async fn settled(
        &self,
        work: &mut Work<'_>,
        _lease: &LeaseRow,
        attempts: &[NewAttempt],
    ) -> Result<()> {
        for attempt in attempts {
            sqlx::query("INSERT INTO sent (id) VALUES (?1)")
                .bind(attempt.entry.id.0)
                .execute(&mut *work.connection)
                .await?;
        }
        Ok(())
    }
}

struct File {
    directory: TempDir,
    clock: ManualClock,
}

impl File {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            clock: ManualClock::at(Timestamp::from_second(1_800_000_000).unwrap()),
        }
    }

    fn options(&self) -> SqliteOptions {
        let file = self.directory.path().join("queue.db");
        let options = SqliteOptions::new(file.to_str().unwrap()).unwrap();
        options
            .clock(Clock::Manual(self.clock.clone()))
            .migrate_on_open(true)
    }

    async fn with_the_app(&self) -> SqliteStore {
        let options = self.options().component(Arc::new(Shop));
        SqliteStore::open(&options).await.unwrap()
    }

    async fn without(&self) -> SqliteStore {
        SqliteStore::open(&self.options()).await.unwrap()
    }
}

fn mail() -> QueueName {
    "mail".parse().unwrap()
}

fn by() -> By {
    By::new("ada", "a test")
}

async fn enqueue(store: &SqliteStore, queue: QueueName) -> MessageId {
    let answer = store.enqueue(&[NewMessage::new(queue, json!(1))]).await;
    answer.unwrap()[0].id
}

/// A queue that was there before the app, too: migrating names its app.
#[tokio::test]
async fn an_app_is_installed_into_a_process_at_work() {
    let file = File::new();
    let old = file.without().await;
    let policy = QueuePolicy::default();
    old.put_queue(&mail(), &policy, &by()).await.unwrap();
    enqueue(&old, mail()).await;
    let claim = Claim::new(mail(), "w", 1);
    let lease = old.claim(&claim).await.unwrap().unwrap();

    let new = file.with_the_app().await;
    let reports = [Report::delivered(lease.messages[0].message.id)];
    let refused = old.settle(lease.token, &reports).await.unwrap_err();
    assert_eq!(refused.code(), "app_not_enabled", "{refused}");
    assert!(refused.to_string().contains("\"shop\""), "{refused}");
    new.settle(lease.token, &reports).await.unwrap();
    let refused = old.claim(&claim).await.unwrap_err();
    assert_eq!(refused.code(), "app_not_enabled");
}

/// Redrives and expiry go on in the other queues; a redrive that comes to the app's queue waits for a process that has it.
#[tokio::test]
async fn a_process_without_the_app_goes_on_with_other_queues() {
    let file = File::new();
    let (with, without) = (file.with_the_app().await, file.without().await);
    let policy = QueuePolicy::default();
    with.put_queue(&mail(), &policy, &by()).await.unwrap();
    let other: QueueName = "default".parse().unwrap();
    for queue in [mail(), other.clone()] {
        let dead = enqueue(&with, queue.clone()).await;
        let lease = with
            .claim(&Claim::new(queue.clone(), "w", 1))
            .await
            .unwrap();
        let report = Report::new(dead, consign_kernel::Outcome::Dead);
        with.settle(lease.unwrap().token, &[report]).await.unwrap();
        enqueue(&with, queue.clone()).await;
        with.claim(&Claim::new(queue, "w", 1)).await.unwrap();
    }
    file.clock.advance(SignedDuration::from_hours(1));
    assert_eq!(without.expire(10).await.unwrap().leases, 1);
    without
        .start_redrive(&RedrivePlan::default(), &by())
        .await
        .unwrap();
    assert_eq!(without.step_redrive(10).await.unwrap(), None);
    let only = RedrivePlan {
        queue: Some(other),
        ..RedrivePlan::default()
    };
    without.start_redrive(&only, &by()).await.unwrap();
    let redrive = without.step_redrive(10).await.unwrap().unwrap();
    assert_eq!(redrive.moved, 1);
    let plan = RedrivePlan {
        queue: Some(mail()),
        ..RedrivePlan::default()
    };
    let refused = without.start_redrive(&plan, &by()).await.unwrap_err();
    assert_eq!(refused.code(), "app_not_enabled");
    assert_eq!(with.queue_counts(&mail()).await.unwrap().unwrap().1.dead, 1);
    let redrive = with.step_redrive(10).await.unwrap().unwrap();
    assert_eq!(redrive.moved, 1, "left for who has the app");
}

async fn purge(store: &SqliteStore, ids: &[MessageId]) -> consign_kernel::Result<()> {
    write!(store, "purge", (ids), |work| work.purge(
        &mail(),
        &ids,
        &by()
    ))
}

/// A finished message goes as a whole; one that is not finished stays.
#[tokio::test]
async fn an_app_purges_finished_messages_under_an_audit_entry() {
    let file = File::new();
    let store = file.with_the_app().await;
    store
        .put_queue(&mail(), &QueuePolicy::default(), &by())
        .await
        .unwrap();
    let done = enqueue(&store, mail()).await;
    let lease = store.claim(&Claim::new(mail(), "w", 1)).await.unwrap();
    let reports = [Report::delivered(done)];
    store.settle(lease.unwrap().token, &reports).await.unwrap();
    let alive = enqueue(&store, mail()).await;
    purge(&store, &[done, alive]).await.unwrap_err();
    assert!(store.explain(done).await.unwrap().is_some());
    purge(&store, &[done]).await.unwrap();
    assert_eq!(store.explain(done).await.unwrap(), None);
    let audit = store.audit(None, None, 10).await.unwrap();
    let purges = audit.iter().filter(|entry| entry.action == "purge");
    assert_eq!(purges.count(), 1);
    assert_eq!(enqueue(&store, mail()).await.0, alive.0 + 1);
    assert_eq!(store.doctor().await.unwrap(), []);
}
