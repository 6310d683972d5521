//! A database, a broker, and consign between them.

use std::{collections::BTreeMap, path::PathBuf, thread, time::Duration};

use consign_testkit::{ChaosProxy, HonestBroker, Step, TestDatabase, eventually};
use serde_json::{Value, json};

use super::sql::Sql;
use crate::{
    http::{self, Answer},
    service::{SOON, Service},
    support::{Consign, migrated_database},
};

/// How long a lease lives in these tests, by default.
pub(crate) const LEASE: Duration = Duration::from_millis(800);

/// How much of each log is shown where a scenario fails.
const LAST_LINES: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// Plays a scenario that depends on the store, on both at once, each on a thread of its own.
#[track_caller]
pub(crate) fn on_both<F>(scenario: impl Fn(Bench) -> F + Sync)
where
    F: Future<Output = ()>,
{
    thread::scope(|scope| {
        let kinds = [Kind::Sqlite, Kind::Postgres];
        let scenario = &scenario;
        let threads = kinds.map(|kind| (kind, scope.spawn(move || play(kind, scenario))));
        let failed = threads.map(|(kind, thread)| thread.join().is_err().then_some(kind));
        let failed: Vec<Kind> = failed.into_iter().flatten().collect();
        assert!(failed.is_empty(), "failed on {failed:?}, see above");
    });
}

/// Plays a scenario to which the store does not matter: what it needs of one are cases of the app.
pub(crate) fn on_one<F>(scenario: impl Fn(Bench) -> F)
where
    F: Future<Output = ()>,
{
    play(Kind::Sqlite, &scenario);
}

pub(crate) fn play<F>(kind: Kind, scenario: &impl Fn(Bench) -> F)
where
    F: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { scenario(Bench::start(kind).await).await });
}

/// One order API on one store, with one broker.
pub(crate) struct Bench {
    pub(crate) kind: Kind,
    pub(crate) consign: Consign,
    pub(crate) broker: HonestBroker,
    settings: BTreeMap<&'static str, String>,
    /// Lines of the configuration besides `[orders]`.
    more: String,
    /// Between consign and PostgreSQL.
    proxy: Option<ChaosProxy>,
    /// Where the database is without the proxy.
    direct: String,
    /// For looking again and again: a connection of its own each time would keep the machine busy.
    eye: tokio::sync::Mutex<Sql>,
    _database: Option<TestDatabase>,
}

impl Bench {
    pub(crate) async fn start(kind: Kind) -> Self {
        let broker = HonestBroker::start(super::broker_command).await;
        let (consign, proxy, direct, database) = match kind {
            Kind::Sqlite => {
                let consign = Consign::new();
                let direct = consign.database().to_owned();
                (consign, None, direct, None)
            }
            Kind::Postgres => {
                let database = migrated_database().await;
                let proxy = ChaosProxy::start(database.address().await).await;
                let consign = Consign::at(&database.url_via(proxy.address()));
                let direct = database.url().to_owned();
                (consign, Some(proxy), direct, Some(database))
            }
        };
        let eye = Sql::connect(&direct).await.into();
        let mut bench = Self {
            kind,
            consign,
            settings: settings(&broker),
            broker,
            more: String::new(),
            proxy,
            direct,
            eye,
            _database: database,
        };
        bench.set(&[]);
        bench
    }

    /// Changes settings of `[orders]`, as TOML.
    pub(crate) fn set(&mut self, changes: &[(&'static str, &str)]) {
        for (key, value) in changes {
            self.settings.insert(key, (*value).to_owned());
        }
        let lines = self
            .settings
            .iter()
            .map(|(key, value)| format!("{key} = {value}\n"));
        let orders: String = lines.collect();
        self.consign
            .configure(&format!("{}\n[orders]\n{orders}", self.more));
    }

    /// Takes a setting back.
    pub(crate) fn unset(&mut self, key: &str) {
        self.settings.remove(key);
        self.set(&[]);
    }

    /// Adds other parts to the configuration.
    pub(crate) fn configure(&mut self, more: &str) {
        self.more.push_str(more);
        self.set(&[]);
    }

    pub(crate) async fn serve(&self) -> Service {
        Service::serve(&self.consign).await
    }

    /// `serve` that only takes orders: another process sends them.
    pub(crate) async fn work(&self) -> Service {
        Service::work(&self.consign, &["--queue", "orders"]).await
    }

    /// A process that stops for ever when it first comes to this point.
    pub(crate) async fn stopped_at(&self, arguments: &[&str], point: &str) -> (Service, Failpoint) {
        let failpoint = Failpoint::new(self);
        let service = Service::start(&self.consign, arguments, |command| {
            command
                .env("CONSIGN_FAILPOINT", point)
                .env("CONSIGN_FAILPOINT_FILE", &failpoint.0);
        })
        .await;
        (service, failpoint)
    }

    /// Where the database is without whatever is in between.
    pub(crate) fn direct(&self) -> &str {
        &self.direct
    }

    /// The database, past whatever is between it and consign.
    pub(crate) async fn sql(&self) -> Sql {
        Sql::connect(&self.direct).await
    }

    /// Takes the database away from consign, until the answer is dropped or given back.
    pub(crate) async fn take_database(&self) -> Outage<'_> {
        match &self.proxy {
            Some(proxy) => {
                proxy.cut().await;
                Outage::Cut(proxy)
            }
            None => {
                let mut sql = self.sql().await;
                sql.run("BEGIN EXCLUSIVE").await;
                Outage::Locked(sql)
            }
        }
    }

    /// A connection to look with.
    pub(crate) async fn eye(&self) -> tokio::sync::MutexGuard<'_, Sql> {
        self.eye.lock().await
    }

    /// The ledger's row of a key of the client `local`.
    pub(crate) async fn ledger(&self, key: &str) -> Value {
        let sql = format!(
            "SELECT * FROM idempo_ledger WHERE client = 'local' AND idempotency_key = '{key}'"
        );
        self.eye().await.row(&sql).await
    }

    /// The row of the view `outbox_orders`.
    pub(crate) async fn outbox(&self, key: &str) -> Value {
        let sql = format!(
            "SELECT * FROM outbox_orders WHERE client = 'local' AND idempotency_key = '{key}'"
        );
        self.eye().await.row(&sql).await
    }

    /// Status in the ledger and in the outbox.
    pub(crate) async fn states(&self, key: &str) -> (String, String) {
        let sql = format!(
            "SELECT l.status AS ledger, o.status AS outbox FROM idempo_ledger l JOIN outbox_orders o \
             ON o.client = l.client AND o.idempotency_key = l.idempotency_key \
             WHERE l.client = 'local' AND l.idempotency_key = '{key}'"
        );
        let row = self.eye().await.row(&sql).await;
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        (text("ledger"), text("outbox"))
    }

    /// Waits until ledger and outbox say this about a key.
    pub(crate) async fn becomes(&self, key: &str, ledger: &str, outbox: &str) {
        let wanted = (ledger.to_owned(), outbox.to_owned());
        let what = format!("{key} is {wanted:?} on {:?}", self.kind);
        eventually(&what, SOON, async || self.states(key).await == wanted).await;
    }

    /// How often the ledger and the outbox disagree; in one statement, so that it
    /// must be never, whatever is under way.
    pub(crate) async fn disagreements(&self) -> Vec<Value> {
        let sql = "SELECT l.idempotency_key, l.status AS ledger, o.status AS outbox \
                   FROM idempo_ledger l JOIN outbox_orders o \
                   ON o.client = l.client AND o.idempotency_key = l.idempotency_key \
                   WHERE (l.status = 'succeeded') <> (o.status = 'succeeded') \
                   OR (l.status = 'failed') <> (o.status = 'aborted')";
        self.eye().await.rows(sql).await
    }

    /// Whether everything fits together, as the operator would ask.
    pub(crate) fn doctor(&self) {
        let findings = self.consign.json(["doctor"]);
        assert_eq!(findings, json!({"findings": []}), "{:?}", self.kind);
    }
}

impl Drop for Bench {
    /// The last output of the processes, where the scenario failed.
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        for entry in std::fs::read_dir(self.consign.folder())
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            let log = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            if name.starts_with("log-") {
                let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
                eprintln!("{name} on {:?}:\n{last}\n", self.kind);
            }
        }
    }
}

/// The point at which a process has stopped; the file exists once it is reached.
pub(crate) struct Failpoint(PathBuf);

impl Failpoint {
    fn new(bench: &Bench) -> Self {
        let count = std::fs::read_dir(bench.consign.folder()).unwrap().count();
        Self(bench.consign.folder().join(format!("failpoint-{count}")))
    }

    /// Returns once the process has come to the point.
    pub(crate) async fn reached(&self) {
        eventually("the process comes to the point", SOON, async || {
            self.0.exists()
        })
        .await;
    }
}

/// As long as this lives, consign cannot use the database.
pub(crate) enum Outage<'b> {
    Cut(&'b ChaosProxy),
    Locked(Sql),
}

impl Outage<'_> {
    pub(crate) async fn end(mut self) {
        match &mut self {
            Self::Cut(proxy) => proxy.restore(),
            Self::Locked(sql) => drop(sql.run("ROLLBACK").await),
        }
    }
}

/// Everything short, nothing limited.
fn settings(broker: &HonestBroker) -> BTreeMap<&'static str, String> {
    let url = broker.url();
    let text = |text: &str| format!("{text:?}");
    BTreeMap::from([
        ("broker_adapter", text("http")),
        ("broker_url", text(&url)),
        ("broker_status_url", text(&format!("{url}/{{key}}"))),
        ("broker_timeout_ms", "400".into()),
        ("broker_timeout_fok_gtc_ms", "400".into()),
        ("breaker_calls", "0".into()),
        ("outbox_backoff_sec", "[0.2]".into()),
        ("outbox_lock_lease_sec", format!("{}", LEASE.as_secs_f64())),
        ("outbox_poll_interval_sec", "0.05".into()),
        ("rl_rate_per_min", "0".into()),
        ("daily_quota", "0".into()),
    ])
}

/// An order as a client writes it.
pub(crate) fn order(key: &str, steps: &[Step]) -> String {
    let tags: Vec<String> = steps.iter().map(Step::tag).collect();
    json!({
        "instrument": "USDJPY",
        "side": "BUY",
        "qty": 0.1,
        "tags": tags,
        "idempotency_key": key,
    })
    .to_string()
}

/// Posts a body under a key, with more header lines, each ended.
pub(crate) async fn post_with(service: &Service, key: &str, more: &str, body: &str) -> Answer {
    let head = format!(
        "POST /do/order HTTP/1.1\r\ncontent-type: application/json\r\nidempotency-key: {key}\r\n\
         {more}content-length: {}\r\n",
        body.len()
    );
    http::send(service.address(), &head, body).await.unwrap()
}

pub(crate) async fn post(service: &Service, key: &str, body: &str) -> Answer {
    post_with(service, key, "", body).await
}

/// Posts an order that must be new.
pub(crate) async fn place(service: &Service, key: &str, steps: &[Step]) -> Answer {
    let answer = post(service, key, &order(key, steps)).await;
    assert_eq!(answer.status, 201, "{answer:?}\n{}", service.log());
    answer
}

/// The ledger over HTTP.
pub(crate) async fn look(service: &Service, key: &str) -> Answer {
    http::get(service.address(), &format!("/do/order/{key}")).await
}

/// The value of a metric, all of its labels added up; 0 if it was never counted.
pub(crate) async fn metric(service: &Service, name: &str, labels: &str) -> f64 {
    let text = http::get(service.address(), "/metrics").await.body;
    let lines = text.lines().filter(|line| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels))
    });
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// The broker's form of a key of the client `local`.
pub(crate) fn broker_key(key: &str) -> String {
    format!("local/{key}")
}
