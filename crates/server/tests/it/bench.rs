//! A server in the test's own process, on a store of the test's choosing.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, HeaderName, Method, Request, StatusCode},
};
use consign_kernel::{By, ManualClock, QueueName, QueuePolicy, ReferenceStore, Store};
use consign_memory::{Embedded, Logbook, MemoryOptions, MemoryService};
use consign_orders::{Ledger, OrderService, OrdersOptions};
use consign_payments::{PaymentService, Payments, PaymentsOptions};
use consign_server::{AppState, MemoryHere, PaymentsHere, Peer, ServerOptions, router};
use consign_sqlite::{Clock, SqliteOptions, SqliteStore};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;
use uuid::Uuid;

use crate::contract;

pub(crate) const LOCAL: &str = "127.0.0.1:50000";

/// A store with two queues, `default` and `mail`, and the server in front of it.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: ManualClock,
    pub(crate) state: AppState,
    pub(crate) router: Router,
    /// Where there are orders.
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    /// Where there are payments.
    pub(crate) payments: Option<Arc<dyn Payments>>,
    /// Where there are memories.
    pub(crate) logbook: Option<Arc<dyn Logbook>>,
    /// Goes last: the store may still be writing.
    _directory: Option<TempDir>,
}

/// An answer, checked against the OpenAPI document already.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null if the body is not JSON.
    pub(crate) json: Value,
}

impl Bench {
    pub(crate) async fn reference() -> Self {
        let clock = clock();
        let store = ReferenceStore::new(clock.clone(), 7);
        Self::on(Arc::new(store), clock, None).await
    }

    pub(crate) async fn sqlite() -> Self {
        let (clock, directory) = (clock(), tempfile::tempdir().unwrap());
        let file = directory.path().join("queue.db");
        let options = SqliteOptions::new(file.to_str().unwrap()).unwrap();
        let options = options
            .component(consign_orders::store::sqlite_component())
            .component(consign_payments::store::sqlite_component())
            .component(consign_scm_store::sqlite_component())
            .clock(Clock::Manual(clock.clone()))
            .migrate_on_open(true);
        let store = Arc::new(SqliteStore::open(&options).await.unwrap());
        let ledger: Arc<dyn Ledger> = Arc::clone(&store) as Arc<dyn Ledger>;
        let payments: Arc<dyn Payments> = Arc::clone(&store) as Arc<dyn Payments>;
        let logbook: Arc<dyn Logbook> = Arc::clone(&store) as Arc<dyn Logbook>;
        let bench = Self::on(store, clock, Some(directory)).await;
        let bench = bench.with_orders(ledger, &OrdersOptions::default()).await;
        let bench = bench.with_payments(payments, BTreeMap::new()).await;
        bench.with_memory(logbook, MemoryOptions::default()).await
    }

    /// The same with a gateway of memories, which are kept beside the queue.
    pub(crate) async fn with_memory(
        self,
        logbook: Arc<dyn Logbook>,
        options: MemoryOptions,
    ) -> Self {
        let by = By::new("test", "set up");
        let policy = consign_memory::queue_policy(&options);
        let queue = consign_memory::queue();
        self.store.put_queue(&queue, &policy, &by).await.unwrap();
        let backend = Arc::new(Embedded::new(Arc::clone(&logbook)));
        let service = MemoryService::new(Arc::clone(&logbook), backend, options.clone());
        let here = MemoryHere {
            service: Arc::new(service),
            options,
        };
        let bench = self.with_state(|state| state.with_memory(here));
        Self {
            logbook: Some(logbook),
            ..bench
        }
    }

    /// The same with payments, which nobody dispatches.
    pub(crate) async fn with_payments(
        self,
        payments: Arc<dyn Payments>,
        tenants: BTreeMap<String, Uuid>,
    ) -> Self {
        let by = By::new("test", "set up");
        let options = PaymentsOptions::default();
        let policy = consign_payments::queue_policy(&options);
        let queue = consign_payments::queue();
        self.store.put_queue(&queue, &policy, &by).await.unwrap();
        let here = PaymentsHere {
            service: PaymentService::new(Arc::clone(&payments), options),
            store: Arc::clone(&payments),
        };
        let bench = self.with_state(|state| state.with_payments(here).with_tenants(tenants));
        Self {
            payments: Some(payments),
            ..bench
        }
    }

    /// The same with orders, which nobody sends.
    pub(crate) async fn with_orders(
        self,
        ledger: Arc<dyn Ledger>,
        options: &OrdersOptions,
    ) -> Self {
        let by = By::new("test", "set up");
        let policy = consign_orders::queue_policy(options);
        let queue = name(consign_orders::QUEUE);
        self.store.put_queue(&queue, &policy, &by).await.unwrap();
        let broker = consign_orders::broker(options).await.unwrap();
        let service = OrderService::new(Arc::clone(&ledger), broker, options);
        let wait_max = options.wait_max();
        let bench = self.with_state(|state| state.with_orders(Arc::new(service), wait_max));
        Self {
            ledger: Some(ledger),
            ..bench
        }
    }

    /// On any store whose queues are there, or can be created.
    pub(crate) async fn on(
        store: Arc<dyn Store>,
        clock: ManualClock,
        directory: Option<TempDir>,
    ) -> Self {
        for queue in ["default", "mail"] {
            let by = By::new("test", "set up");
            let policy = QueuePolicy::default();
            store.put_queue(&name(queue), &policy, &by).await.unwrap();
        }
        let ages = clock.clone();
        let state = AppState::new(Arc::clone(&store)).with_clock(move || ages.now());
        let router = router(state.clone(), &ServerOptions::default());
        Self {
            store,
            clock,
            state,
            router,
            ledger: None,
            payments: None,
            logbook: None,
            _directory: directory,
        }
    }

    /// The same store behind a server with other options.
    pub(crate) fn with_options(self, options: &ServerOptions) -> Self {
        let router = router(self.state.clone(), options);
        Self { router, ..self }
    }

    /// The same store behind a server with another state.
    pub(crate) fn with_state(self, change: impl FnOnce(AppState) -> AppState) -> Self {
        let state = change(self.state);
        let router = router(state.clone(), &ServerOptions::default());
        Self {
            state,
            router,
            ..self
        }
    }

    /// The same database behind a store that fails when told to.
    pub(crate) fn with_store(self, store: Arc<dyn Store>) -> Self {
        let state = AppState::new(Arc::clone(&store));
        let router = router(state.clone(), &ServerOptions::default());
        Self {
            store,
            state,
            router,
            ..self
        }
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(request(Method::GET, path, None)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(request(Method::POST, path, Some(body))).await
    }

    pub(crate) async fn post_with(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> Answer {
        let mut request = request(Method::POST, path, Some(body));
        set(&mut request, headers);
        self.call(request).await
    }

    /// Sends a request as if from this machine, unless it says otherwise.
    pub(crate) async fn call(&self, mut request: Request<Body>) -> Answer {
        if request.extensions().get::<Peer>().is_none() {
            request.extensions_mut().insert(peer(LOCAL));
        }
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let answer = Answer {
            status: parts.status,
            headers: parts.headers,
            json: serde_json::from_str(&text).unwrap_or(Value::Null),
            text,
        };
        contract::check(&method, &path, &answer);
        answer
    }

    /// Enqueues one message and returns its id.
    pub(crate) async fn enqueue(&self, queue: &str, payload: Value) -> i64 {
        let path = format!("/v1/queues/{queue}/messages");
        let answer = self.post(&path, json!({ "payload": payload })).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        answer.json["id"].as_i64().unwrap()
    }

    /// Claims up to `limit` messages and returns the lease.
    pub(crate) async fn claim(&self, queue: &str, limit: u32) -> Value {
        let body = json!({"queue": queue, "owner": "w1", "limit": limit});
        let answer = self.post("/v1/claims", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json
    }

    /// Enqueues a message and makes it dead with this code.
    pub(crate) async fn bury(&self, queue: &str, code: &str) -> i64 {
        let id = self.enqueue(queue, json!("poison")).await;
        let lease = self.claim(queue, 1).await;
        let path = format!("/v1/leases/{}/settle", lease["token"].as_str().unwrap());
        let report = json!({"id": id, "outcome": "dead", "code": code, "detail": "no use"});
        let answer = self.post(&path, json!({"reports": [report]})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        id
    }

    pub(crate) async fn state_of(&self, id: i64) -> String {
        let answer = self.get(&format!("/v1/messages/{id}")).await;
        let state = answer.json["state"]["state"].as_str();
        state
            .unwrap_or_else(|| panic!("{}", answer.text))
            .to_owned()
    }
}

impl Answer {
    /// Asserts that this is a problem of this kind.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.json["code"], code, "{}", self.text);
        assert_eq!(self.json["status"], status);
        assert_eq!(self.json["type"], format!("/problems/{code}"));
        assert_eq!(self.header("content-type"), "application/problem+json");
        self
    }

    /// Asserts that this is an error in the words of orders.
    #[track_caller]
    pub(crate) fn is_flat(&self, status: u16, error: &str) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.json["error"], error, "{}", self.text);
        assert!(self.json["message"].is_string(), "{}", self.text);
        assert_eq!(self.header("content-type"), "application/json");
        self
    }

    /// Asserts that this is an error as agents are told.
    #[track_caller]
    pub(crate) fn is_agents(&self, status: u16, code: &str) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.json["error_code"], code, "{}", self.text);
        assert_eq!(self.json["ok"], false, "{}", self.text);
        assert!(self.json["error"].is_string(), "{}", self.text);
        assert_eq!(self.json["correlation_id"], self.header("x-correlation-id"));
        assert_eq!(self.header("content-type"), "application/json");
        self
    }

    #[track_caller]
    pub(crate) fn is(&self, status: u16) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self
    }

    /// A header's value; empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn detail(&self) -> &str {
        self.json["detail"].as_str().unwrap()
    }
}

pub(crate) fn request(method: Method, path: &str, body: Option<Value>) -> Request<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:8787");
    match body {
        None => request.body(Body::empty()).unwrap(),
        Some(body) => request
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap(),
    }
}

pub(crate) fn set(request: &mut Request<Body>, headers: &[(&str, &str)]) {
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
}

pub(crate) fn peer(address: &str) -> Peer {
    Peer(address.parse::<SocketAddr>().unwrap())
}

pub(crate) fn name(queue: &str) -> QueueName {
    queue.parse().unwrap()
}

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_second(1_800_000_000).unwrap())
}

/// Runs each test on the reference store and on SQLite.
macro_rules! on_stores {
    ($($test:ident),+ $(,)?) => {
        mod reference {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::bench::Bench::reference().await).await;
            })+
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::bench::Bench::sqlite().await).await;
            })+
        }
    };
}
pub(crate) use on_stores;
