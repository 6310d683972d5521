//! A store, a broker, and the app between them.

pub(crate) mod fixture;
pub(crate) mod watched;

use std::{sync::Arc, time::Duration};

use consign_kernel::{Attempt, By, ManualClock, QueueName, prelude::*};
use consign_orders::{
    Answer, Client, Ledger, LedgerEntry, LedgerStatus, OrderKey, OrderService, OrderSink,
    OrdersOptions, PlaceCall, queue_policy, queue_work,
};
use consign_sqlite::{Clock, SqliteOptions, SqliteStore};
use consign_testkit::eventually_some;
use consign_worker::{Worker, WorkerHandle, WorkerOptions};
use serde_json::{Map, Value};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use self::{fixture::Fixture, watched::WatchedLedger};

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Settings under which nothing takes long.
pub(crate) fn quick() -> OrdersOptions {
    OrdersOptions {
        outbox_backoff_sec: vec![0.02],
        outbox_poll_interval_sec: 0.02,
        broker_timeout_ms: 300,
        broker_timeout_fok_gtc_ms: 600,
        rl_rate_per_min: 0,
        daily_quota: 0,
        breaker_calls: 0,
        ..OrdersOptions::default()
    }
}

/// Everything there is, over one file.
pub(crate) struct Bench {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) ledger: Arc<WatchedLedger>,
    pub(crate) fixture: Arc<Fixture>,
    pub(crate) options: OrdersOptions,
    pub(crate) service: Arc<OrderService>,
    /// Set where the store's time does not go by itself.
    pub(crate) clock: Option<ManualClock>,
    folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) async fn new(options: OrdersOptions) -> Self {
        Self::with(options, Fixture::default(), None).await
    }

    pub(crate) async fn with(
        options: OrdersOptions,
        fixture: Fixture,
        clock: Option<ManualClock>,
    ) -> Self {
        options.validate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("orders.db");
        let sqlite = SqliteOptions::new(path.to_str().unwrap()).unwrap();
        let sqlite = sqlite.component(consign_orders::store::sqlite_component());
        let sqlite = sqlite.poll_interval(Duration::from_millis(5));
        let sqlite = match &clock {
            Some(clock) => sqlite.clock(Clock::Manual(clock.clone())),
            None => sqlite,
        };
        let store = SqliteStore::open(&sqlite.migrate_on_open(true))
            .await
            .unwrap();
        let store = Arc::new(store);
        let by = By::new("test", "a queue for orders");
        let policy = queue_policy(&options);
        store.put_queue(&queue(), &policy, &by).await.unwrap();
        let ledger = Arc::new(WatchedLedger::new(Arc::clone(&store)));
        let fixture = Arc::new(fixture);
        let service = OrderService::new(ledger.clone(), fixture.clone(), &options);
        Self {
            store,
            ledger,
            fixture,
            options,
            service: Arc::new(service),
            clock,
            folder,
        }
    }

    /// The same store and broker with a server process of its own.
    pub(crate) fn another_service(&self) -> OrderService {
        OrderService::new(self.ledger.clone(), self.fixture.clone(), &self.options)
    }

    pub(crate) fn sink(&self) -> OrderSink {
        OrderSink::new(self.ledger.clone(), self.fixture.clone(), &self.options)
    }

    pub(crate) fn work(&self) -> WorkerHandle {
        let work = queue_work(Arc::new(self.sink()), &self.options);
        Worker::start(self.store.clone(), vec![work], WorkerOptions::new("worker"))
    }

    /// Works until nothing is left to do for now.
    pub(crate) async fn work_off(&self, key: &str) -> LedgerEntry {
        let worker = self.work();
        let entry = self.finished(key).await;
        worker.drain();
        worker.finished().await;
        entry
    }

    pub(crate) async fn place(&self, key: &str, tags: &[&str]) -> Answer {
        self.post(key, &order(key, tags)).await
    }

    pub(crate) async fn post(&self, key: &str, body: &str) -> Answer {
        place(&self.service, key, body, None).await
    }

    pub(crate) async fn entry(&self, key: &str) -> Option<LedgerEntry> {
        let key: OrderKey = key.parse().unwrap();
        self.store.entry(&client(), &key).await.unwrap()
    }

    /// The row once it is final.
    pub(crate) async fn finished(&self, key: &str) -> LedgerEntry {
        eventually_some(&format!("{key} ends"), SOON, async || {
            let entry = self.entry(key).await?;
            (entry.status != LedgerStatus::Accepted).then_some(entry)
        })
        .await
    }

    pub(crate) async fn attempts(&self, key: &str) -> Vec<Attempt> {
        let entry = self.entry(key).await.unwrap();
        let id = entry.outbox_id.unwrap();
        self.store.history(id).await.unwrap()
    }

    /// Code of each attempt.
    pub(crate) async fn codes(&self, key: &str) -> Vec<String> {
        let attempts = self.attempts(key).await;
        let codes = attempts.into_iter().map(|attempt| attempt.code);
        codes.map(Option::unwrap_or_default).collect()
    }

    /// Writes to the file outside the app.
    pub(crate) async fn sql(&self, statement: &str) -> u64 {
        let url = format!("sqlite:{}", self.folder.path().join("orders.db").display());
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        let done = sqlx::query(AssertSqlSafe(statement.to_owned()));
        done.execute(&mut connection).await.unwrap().rows_affected()
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        let url = format!("sqlite:{}", self.folder.path().join("orders.db").display());
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        sqlx::query_scalar(sql)
            .fetch_one(&mut connection)
            .await
            .unwrap()
    }

    pub(crate) async fn is_sound(&self) {
        assert_eq!(self.store.doctor().await.unwrap(), []);
    }
}

pub(crate) fn queue() -> QueueName {
    consign_orders::QUEUE.parse().unwrap()
}

pub(crate) fn client() -> Client {
    "desk-7".parse().unwrap()
}

pub(crate) fn order(key: &str, tags: &[&str]) -> String {
    format!(
        r#"{{"instrument":"USDJPY","side":"BUY","qty":0.10,"tags":{tags:?},"idempotency_key":"{key}"}}"#
    )
}

pub(crate) async fn place(
    service: &OrderService,
    key: &str,
    body: &str,
    wait: Option<Duration>,
) -> Answer {
    let call = PlaceCall {
        client: &client(),
        header_key: Some(key),
        body: body.as_bytes(),
        wait,
        headers: Map::new(),
    };
    service.place(call).await
}

pub(crate) fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap()
}

pub(crate) fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let found = answer.headers.iter().find(|(is, _)| *is == name);
    found.map(|(_, value)| value.as_str())
}
