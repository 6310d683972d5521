//! A memory server that keeps whatever it is given, as often as it is given it: what is stored twice is
//! there twice.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

type Reply = (StatusCode, Json<Value>);

#[derive(Default)]
struct Entries {
    rows: BTreeMap<u64, Value>,
    count: u64,
    /// What holds this word is not taken.
    refused: Option<&'static str>,
}

type SharedEntries = Arc<Mutex<Entries>>;

pub(crate) struct Keeper {
    address: SocketAddr,
    entries: SharedEntries,
    /// Dropped, it closes.
    open: Option<oneshot::Sender<()>>,
}

impl Keeper {
    /// One that has an address and is not there yet.
    pub(crate) fn closed() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            address: listener.local_addr().unwrap(),
            entries: SharedEntries::default(),
            open: None,
        }
    }

    pub(crate) fn opened() -> Self {
        let mut keeper = Self::closed();
        keeper.open();
        keeper
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The setting that leads to it.
    pub(crate) fn setting(&self) -> String {
        format!("openmemory_base_url = {:?}\n", self.url())
    }

    pub(crate) fn open(&mut self) {
        let (open, closed) = oneshot::channel();
        let listener = TcpListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let router = router(Arc::clone(&self.entries));
        // Of its own: tests wait for programs without letting anything else run.
        thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let closed = async { drop(closed.await) };
                let served = axum::serve(listener, router).with_graceful_shutdown(closed);
                served.await.unwrap();
            });
        });
        self.open = Some(open);
    }

    /// Takes nothing that holds this word.
    pub(crate) fn refuse(&self, word: &'static str) {
        self.entries.lock().unwrap().refused = Some(word);
    }

    /// Loses everything.
    pub(crate) fn forget(&self) {
        self.entries.lock().unwrap().rows.clear();
    }

    /// The texts of all memories. The sample that a start-up check stores and removes is not one: a
    /// process that is killed meanwhile leaves it behind.
    pub(crate) fn texts(&self) -> Vec<String> {
        let entries = self.entries.lock().unwrap();
        let is_sample = |row: &&Value| row["metadata"]["space"] == "consign-placeholder";
        let memories = entries.rows.values().filter(|row| !is_sample(row));
        let text = |row: &Value| row["content"].as_str().unwrap().to_owned();
        memories.map(text).collect()
    }
}

fn router(entries: SharedEntries) -> Router {
    let row = get(read).delete(remove);
    Router::new()
        .route("/health", get(|| async { Json(json!({"ok": true})) }))
        .route("/memory/add", post(add))
        .route("/memory/query", post(query))
        .route("/memory/all", get(all))
        .route("/memory/{id}", row)
        .with_state(entries)
}

async fn add(State(entries): State<SharedEntries>, Json(mut body): Json<Value>) -> Reply {
    let mut entries = entries.lock().unwrap();
    let text = body["content"].as_str().unwrap();
    if entries.refused.is_some_and(|word| text.contains(word)) {
        let why = json!({"error": "not this one"});
        return (StatusCode::SERVICE_UNAVAILABLE, Json(why));
    }
    entries.count += 1;
    let number = entries.count;
    body["id"] = json!(number.to_string());
    entries.rows.insert(number, body);
    (StatusCode::OK, Json(json!({"id": number.to_string()})))
}

async fn query(State(entries): State<SharedEntries>, Json(body): Json<Value>) -> Json<Value> {
    let entries = entries.lock().unwrap();
    let words = body["query"].as_str().unwrap_or_default();
    let fits = |row: &&Value| {
        let text = row["content"].as_str().unwrap();
        words.split(' ').any(|word| text.contains(word))
    };
    let matches: Vec<&Value> = entries.rows.values().filter(fits).collect();
    Json(json!({"query": words, "matches": matches}))
}

async fn all(
    State(entries): State<SharedEntries>,
    Query(page): Query<BTreeMap<String, String>>,
) -> Json<Value> {
    let number = |name: &str| page.get(name).and_then(|text| text.parse().ok());
    let entries = entries.lock().unwrap();
    let newest = entries.rows.values().rev();
    let items = newest
        .skip(number("u").unwrap_or(0))
        .take(number("l").unwrap_or(100));
    Json(json!({"items": items.collect::<Vec<_>>()}))
}

async fn read(State(entries): State<SharedEntries>, Path(id): Path<u64>) -> Reply {
    match entries.lock().unwrap().rows.get(&id) {
        Some(row) => (StatusCode::OK, Json(row.clone())),
        None => (StatusCode::NOT_FOUND, Json(json!({"error": "not_found"}))),
    }
}

async fn remove(State(entries): State<SharedEntries>, Path(id): Path<u64>) -> Json<Value> {
    entries.lock().unwrap().rows.remove(&id);
    Json(json!({"ok": true}))
}
