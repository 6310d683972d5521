//! Apps: a queue with a hook is worked only by processes that have its app.

use std::sync::Arc;

use async_trait::async_trait;
use consign_conformance::stage::{Maintenance, done};
use consign_kernel::{
    By, Claim, ErasureAnswer, ErasureTarget, ManualClock, MessageId, Migration, NewMessage,
    QueueName, QueuePolicy, RedrivePlan, Report, prelude::*,
};
use consign_sqlite::{
    Clock, Component, Hook, SqliteOptions, SqliteStore,
    extension::{LeasePlan, Result, Work, rows::LeaseRow, write},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sqlx::{Connection as _, SqliteConnection};
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
        plan: &LeasePlan,
    ) -> Result<()> {
        for attempt in &plan.attempts {
            sqlx::query("INSERT INTO sent (id) VALUES (?1)")
                .bind(attempt.entry.id.0)
                .execute(&mut *work.connection)
                .await?;
        }
        Ok(())
    }

    /// The first message is needed for ever.
    async fn needed(
        &self,
        _connection: &mut SqliteConnection,
        (first, last): (MessageId, MessageId),
        _at: Timestamp,
    ) -> Result<Vec<MessageId>> {
        let is_within = |id: &MessageId| (first..=last).contains(id);
        Ok([MessageId(1)].into_iter().filter(is_within).collect())
    }

    fn can_erase(&self) -> bool {
        true
    }

    fn keeps(&self) -> &'static [&'static str] {
        &["ref"]
    }

    /// Fails for message 4; the content can be read.
    async fn erased(&self, work: &mut Work<'_>, ids: &[MessageId]) -> Result<()> {
        for id in ids {
            sqlx::query(
                "INSERT INTO sent (id) SELECT CASE id WHEN 4 THEN 'fails' ELSE 1000 * id + payload END
                     FROM message WHERE id = ?1",
            )
            .bind(id.0)
            .execute(&mut *work.connection)
            .await?;
        }
        Ok(())
    }

    async fn departed(&self, work: &mut Work<'_>, ids: &[MessageId]) -> Result<()> {
        for id in ids {
            sqlx::query("DELETE FROM sent WHERE id = ?1")
                .bind(id.0)
                .execute(&mut *work.connection)
                .await?;
        }
        Ok(())
    }

    async fn forgotten(&self, work: &mut Work<'_>, ids: &[MessageId]) -> Result<()> {
        for id in ids {
            sqlx::query("INSERT INTO sent (id) VALUES (-?1)")
                .bind(id.0)
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

/// Redrives and expiry go on in the other queues; a redrive that reaches the app's queue waits for a process that has it.
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

/// A discard over all queues passes over the messages of an app that the process does not have.
#[tokio::test]
async fn a_discard_of_all_queues_skips_the_queue_of_an_unknown_app() {
    let file = File::new();
    let (with, without) = (file.with_the_app().await, file.without().await);
    let policy = QueuePolicy::default();
    with.put_queue(&mail(), &policy, &by()).await.unwrap();
    let other: QueueName = "default".parse().unwrap();
    for queue in [mail(), other] {
        let dead = enqueue(&with, queue.clone()).await;
        let lease = with.claim(&Claim::new(queue, "w", 1)).await.unwrap();
        let report = Report::new(dead, consign_kernel::Outcome::Dead);
        with.settle(lease.unwrap().token, &[report]).await.unwrap();
    }
    let plan = RedrivePlan {
        action: consign_kernel::RedriveAction::Discard,
        ..RedrivePlan::default()
    };
    without.start_redrive(&plan, &by()).await.unwrap();
    let redrive = without.step_redrive(1).await.unwrap().unwrap();
    assert_eq!((redrive.moved, redrive.skipped), (0, 0), "{redrive:?}");
    let redrive = without.step_redrive(1).await.unwrap().unwrap();
    assert_eq!((redrive.moved, redrive.skipped), (1, 1), "{redrive:?}");
    assert_eq!(redrive.state, consign_kernel::RedriveState::Done);
    assert_eq!(with.queue_counts(&mail()).await.unwrap().unwrap().1.dead, 1);
}

async fn erase(
    store: &SqliteStore,
    ids: &[MessageId],
) -> consign_kernel::Result<Vec<ErasureAnswer>> {
    let target = ErasureTarget::Ids(ids.to_vec());
    let results = store.erase(&target, &by()).await?;
    Ok(results.into_iter().map(|result| result.answer).collect())
}

/// What the app needs for ever stays; its hook and the erasure are one transaction.
#[tokio::test]
async fn an_app_erases_its_rows_with_their_messages() {
    let file = File::new();
    let (with, without) = (file.with_the_app().await, file.without().await);
    let policy = QueuePolicy::default();
    with.put_queue(&mail(), &policy, &by()).await.unwrap();
    for _ in 0..4 {
        enqueue(&with, mail()).await;
    }
    let lease = with.claim(&Claim::new(mail(), "w", 4)).await.unwrap();
    let lease = lease.unwrap();
    let ids: Vec<_> = lease.messages.iter().map(|c| c.message.id).collect();
    let report = |id: &MessageId| Report {
        result: Some(json!({"ref": {"n": 1.50}, "name": "Jane Doe"})),
        ..Report::delivered(*id)
    };
    let reports: Vec<_> = ids.iter().map(report).collect();
    with.settle(lease.token, &reports).await.unwrap();
    let refused = erase(&without, &ids).await.unwrap();
    assert_eq!(refused, [ErasureAnswer::AppQueue; 4]);
    erase(&with, &ids).await.unwrap_err();
    let explained = with.explain(ids[1]).await.unwrap().unwrap();
    assert_eq!(explained.erased, None, "the hook failed");
    use ErasureAnswer::{AlreadyErased, Erased, Needed};
    assert_eq!(erase(&with, &ids[..2]).await.unwrap(), [Needed, Erased]);
    assert_eq!(
        erase(&with, &ids[1..3]).await.unwrap(),
        [AlreadyErased, Erased]
    );
    let seen = with.history(ids[1]).await.unwrap();
    assert_eq!(seen[0].result, Some(json!({"ref": {"n": 1.50}})));
    let database = file.directory.path().join("queue.db");
    let database = database.to_str().unwrap();
    let mut connection = SqliteConnection::connect(database).await.unwrap();
    let marked: Vec<i64> = sqlx::query_scalar("SELECT id FROM sent WHERE id > 1000")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(marked, [2_001, 3_001]);
    let forged = "UPDATE attempt SET result = '{\"ref\":{\"n\":2}}' WHERE message_id = 2";
    sqlx::query(forged)
        .execute(&mut connection)
        .await
        .unwrap_err();
    assert_eq!(with.doctor().await.unwrap(), []);
    assert_eq!(without.doctor().await.unwrap(), []);
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
    let history = store.queue_history().await.unwrap();
    let history = history.iter().find(|history| history.queue == mail());
    let history = history.unwrap();
    let totals = (history.enqueued, history.delivered, history.departed);
    assert_eq!((history.messages, totals), (1, (2, 1, 1)));
    let audit = store.audit(None, None, 10).await.unwrap();
    let purges = audit.iter().filter(|entry| entry.action == "purge");
    assert_eq!(purges.count(), 1);
    assert_eq!(enqueue(&store, mail()).await.0, alive.0 + 1);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// The app may purge what it needs no more while others leave.
#[tokio::test]
async fn an_app_purges_while_messages_leave() {
    let file = File::new();
    let store = file.with_the_app().await;
    let policy = QueuePolicy {
        keep_ms: Some(0),
        ..QueuePolicy::default()
    };
    let other: QueueName = "default".parse().unwrap();
    let mut sent = Vec::new();
    for queue in [mail(), other] {
        store.put_queue(&queue, &policy, &by()).await.unwrap();
        for _ in 0..2 {
            let id = enqueue(&store, queue.clone()).await;
            let lease = store.claim(&Claim::new(queue.clone(), "w", 1)).await;
            let token = lease.unwrap().unwrap().token;
            store.settle(token, &[Report::delivered(id)]).await.unwrap();
            sent.push(id);
        }
    }
    let shared: Arc<dyn consign_kernel::Store> = Arc::new(store.clone());
    let maintenance = consign_conformance::stage::Maintenance::lease(&shared).await;
    let departure = maintenance.begin_of(3).await;
    maintenance.archive(&departure).await;
    maintenance.step(&departure).await;
    purge(&store, &sent[..1]).await.unwrap();
    assert_eq!(maintenance.depart(&departure).await, 3);
    for id in sent {
        assert_eq!(store.explain(id).await.unwrap(), None);
    }
    assert_eq!(maintenance.leave().await, 0);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// Delivers messages of a queue that keeps nothing, each with a key.
async fn delivered(store: &SqliteStore, keys: &[&str]) {
    let policy = QueuePolicy {
        keep_ms: Some(0),
        keep_dead_ms: Some(0),
        keep_keys_ms: Some(0),
        archive: false,
        ..QueuePolicy::default()
    };
    store.put_queue(&mail(), &policy, &by()).await.unwrap();
    let message = |key: &&str| NewMessage::new(mail(), json!(1)).with_key(*key);
    let messages: Vec<_> = keys.iter().map(message).collect();
    store.enqueue(&messages).await.unwrap();
    let lease = store.claim(&Claim::new(mail(), "w", 10)).await.unwrap();
    let lease = lease.unwrap();
    let ids = lease.messages.iter().map(|c| c.message.id);
    let reports: Vec<_> = ids.map(Report::delivered).collect();
    store.settle(lease.token, &reports).await.unwrap();
}

async fn sent(file: &File) -> Vec<i64> {
    let path = file.directory.path().join("queue.db");
    let url = format!("sqlite://{}", path.display());
    let mut connection = <SqliteConnection as sqlx::Connection>::connect(&url)
        .await
        .unwrap();
    let ids = sqlx::query_scalar("SELECT id FROM sent ORDER BY id");
    ids.fetch_all(&mut connection).await.unwrap()
}

/// What the app needs stays; its rows leave with the others, and it hears of their keys.
#[tokio::test]
async fn an_app_decides_what_leaves_and_follows() {
    let file = File::new();
    let store = file.with_the_app().await;
    delivered(&store, &["a", "b", "c"]).await;
    assert_eq!(sent(&file).await, [1, 2, 3]);
    let history = store.queue_history().await.unwrap();
    let history = history.iter().find(|it| it.queue == mail()).unwrap();
    assert_eq!(history.may_leave, 2);
    let shared: Arc<dyn consign_kernel::Store> = Arc::new(store.clone());
    let maintenance = Maintenance::lease(&shared).await;
    let departure = maintenance.begin_of(2).await;
    assert_eq!(departure.stay, 1);
    assert_eq!(maintenance.depart(&departure).await, 2);
    assert_eq!(sent(&file).await, [1]);
    assert_eq!(done(store.forget_keys(maintenance.token, 10).await), 2);
    assert_eq!(sent(&file).await, [-3, -2, 1]);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A process without the app leaves its messages and keys alone, whatever another one has begun.
#[tokio::test]
async fn a_process_without_the_app_removes_nothing_of_its_queue() {
    let file = File::new();
    let (with, without) = (file.with_the_app().await, file.without().await);
    delivered(&with, &["a", "b", "c"]).await;
    let shared: Arc<dyn consign_kernel::Store> = Arc::new(without.clone());
    let maintenance = Maintenance::lease(&shared).await;
    assert_eq!(maintenance.leave().await, 0);
    let begun = with
        .begin_departure(maintenance.token, consign_kernel::DepartureCause::Age, true)
        .await
        .unwrap();
    let consign_kernel::Step::Done(Some(departure)) = begun else {
        panic!("two may leave: {begun:?}");
    };
    done(with.depart(maintenance.token, departure.id).await);
    assert_eq!(maintenance.depart(&departure).await, 0, "they stay");
    assert_eq!(sent(&file).await, [1, 2, 3]);
    assert_eq!(done(without.forget_keys(maintenance.token, 10).await), 0);
    let begun = with
        .begin_departure(maintenance.token, consign_kernel::DepartureCause::Age, true)
        .await
        .unwrap();
    let consign_kernel::Step::Done(Some(departure)) = begun else {
        panic!("two may leave: {begun:?}");
    };
    done(with.depart(maintenance.token, departure.id).await);
    done(with.depart(maintenance.token, departure.id).await);
    assert_eq!(sent(&file).await, [1]);
    assert_eq!(with.doctor().await.unwrap(), []);
}
