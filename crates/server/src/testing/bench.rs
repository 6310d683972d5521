//! A server in the test's own process, on a store of the test's choosing.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, HeaderName, Method, Request, StatusCode},
};
use consign_kernel::{By, ManualClock, QueueName, QueuePolicy, ReferenceStore, Store};
use consign_sqlite::{Clock, Component, SqliteOptions, SqliteStore};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

use super::contract;
use crate::{AppState, Extension, Peer, ServerOptions, router};

pub const LOCAL: &str = "127.0.0.1:50000";

/// A store with two queues, `default` and `mail`, and the server in front of it.
pub struct Bench<A = ()> {
    pub store: Arc<dyn Store>,
    pub clock: ManualClock,
    pub state: AppState,
    pub router: Router,
    /// What the tests of an app need of its store.
    pub app: A,
    /// Goes last: the store may still be writing.
    _directory: Option<TempDir>,
}

/// An answer, checked against the OpenAPI document already.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    /// Null if the body is not JSON.
    pub json: Value,
}

impl Bench {
    pub async fn reference() -> Self {
        let clock = clock();
        let store = ReferenceStore::new(clock.clone(), 7);
        Self::on(Arc::new(store), clock, None).await
    }

    /// On SQLite, without an app.
    pub async fn sqlite() -> Self {
        Self::sqlite_with(Vec::new()).await.0
    }

    /// On SQLite with the components of apps, and the store itself.
    pub async fn sqlite_with(components: Vec<Arc<dyn Component>>) -> (Self, Arc<SqliteStore>) {
        let (clock, directory) = (clock(), tempfile::tempdir().unwrap());
        let file = directory.path().join("queue.db");
        let options = SqliteOptions::new(file.to_str().unwrap()).unwrap();
        let options = options
            .clock(Clock::Manual(clock.clone()))
            .migrate_on_open(true);
        let options = components
            .into_iter()
            .fold(options, SqliteOptions::component);
        let store = Arc::new(SqliteStore::open(&options).await.unwrap());
        let bench = Self::on(store.clone(), clock, Some(directory)).await;
        (bench, store)
    }

    /// On any store whose queues are there, or can be created.
    pub async fn on(store: Arc<dyn Store>, clock: ManualClock, directory: Option<TempDir>) -> Self {
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
            app: (),
            _directory: directory,
        }
    }
}

impl<A> Bench<A> {
    /// The same with what the tests of an app need.
    pub fn with_app<B>(self, app: B) -> Bench<B> {
        Bench {
            store: self.store,
            clock: self.clock,
            state: self.state,
            router: self.router,
            app,
            _directory: self._directory,
        }
    }

    /// The same with a queue of an app and its extension.
    pub async fn with_extension(
        self,
        extension: Arc<dyn Extension>,
        queue: &QueueName,
        policy: &QueuePolicy,
    ) -> Self {
        let by = By::new("test", "set up");
        self.store.put_queue(queue, policy, &by).await.unwrap();
        self.with_state(|state| state.with_extension(extension))
    }

    /// The same store behind a server with other options.
    pub fn with_options(self, options: &ServerOptions) -> Self {
        let router = router(self.state.clone(), options);
        Self { router, ..self }
    }

    /// The same store behind a server with another state.
    pub fn with_state(self, change: impl FnOnce(AppState) -> AppState) -> Self {
        let state = change(self.state);
        let router = router(state.clone(), &ServerOptions::default());
        Self {
            state,
            router,
            ..self
        }
    }

    /// The same database behind a store that fails on demand.
    pub fn with_store(self, store: Arc<dyn Store>) -> Self {
        let state = AppState::new(Arc::clone(&store));
        let router = router(state.clone(), &ServerOptions::default());
        Self {
            store,
            state,
            router,
            ..self
        }
    }

    pub fn advance(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call(request(Method::GET, path, None)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(request(Method::POST, path, Some(body))).await
    }

    pub async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Answer {
        let mut request = request(Method::POST, path, Some(body));
        set(&mut request, headers);
        self.call(request).await
    }

    /// Sends a request as if from this machine, unless the caller sets another address.
    pub async fn call(&self, mut request: Request<Body>) -> Answer {
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
        contract::check(&self.state, &method, &path, &answer);
        answer
    }

    /// Enqueues one message and returns its id.
    pub async fn enqueue(&self, queue: &str, payload: Value) -> i64 {
        let path = format!("/v1/queues/{queue}/messages");
        let answer = self.post(&path, json!({ "payload": payload })).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        answer.json["id"].as_i64().unwrap()
    }

    /// Claims up to `limit` messages and returns the lease.
    pub async fn claim(&self, queue: &str, limit: u32) -> Value {
        let body = json!({"queue": queue, "owner": "w1", "limit": limit});
        let answer = self.post("/v1/claims", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json
    }

    /// Enqueues a message and makes it dead with this code.
    pub async fn bury(&self, queue: &str, code: &str) -> i64 {
        let id = self.enqueue(queue, json!("poison")).await;
        let lease = self.claim(queue, 1).await;
        let path = format!("/v1/leases/{}/settle", lease["token"].as_str().unwrap());
        let report = json!({"id": id, "outcome": "dead", "code": code, "detail": "no use"});
        let answer = self.post(&path, json!({"reports": [report]})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        id
    }

    pub async fn state_of(&self, id: i64) -> String {
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
    pub fn is_problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.json["code"], code, "{}", self.text);
        assert_eq!(self.json["status"], status);
        assert_eq!(self.json["type"], format!("/problems/{code}"));
        assert_eq!(self.header("content-type"), "application/problem+json");
        self
    }

    /// Asserts that this is an error in the flat form, without a problem document.
    #[track_caller]
    pub fn is_flat(&self, status: u16, error: &str) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.json["error"], error, "{}", self.text);
        assert!(self.json["message"].is_string(), "{}", self.text);
        assert_eq!(self.header("content-type"), "application/json");
        self
    }

    /// Asserts that this is an error in the agents' format.
    #[track_caller]
    pub fn is_agents(&self, status: u16, code: &str) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.json["error_code"], code, "{}", self.text);
        assert_eq!(self.json["ok"], false, "{}", self.text);
        assert!(self.json["error"].is_string(), "{}", self.text);
        assert_eq!(self.json["correlation_id"], self.header("x-correlation-id"));
        assert_eq!(self.header("content-type"), "application/json");
        self
    }

    #[track_caller]
    pub fn is(&self, status: u16) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self
    }

    /// A header's value; empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    pub fn detail(&self) -> &str {
        self.json["detail"].as_str().unwrap()
    }
}

pub fn request(method: Method, path: &str, body: Option<Value>) -> Request<Body> {
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

pub fn set(request: &mut Request<Body>, headers: &[(&str, &str)]) {
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
}

pub fn peer(address: &str) -> Peer {
    Peer(address.parse::<SocketAddr>().unwrap())
}

pub fn name(queue: &str) -> QueueName {
    queue.parse().unwrap()
}

pub fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_second(1_800_000_000).unwrap())
}
