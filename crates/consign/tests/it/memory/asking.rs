//! A memory server that keeps whatever it is given, as often as it is given it: nothing but asking
//! first keeps a memory from being there twice.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::gateway::{TEXT, audits, is_sent, row, store};
use crate::{orders::bench::on_both, service::Service};

/// The newer JavaScript server, but for its looking at what it has.
#[derive(Clone, Default)]
struct Keeper {
    rows: Arc<Mutex<Vec<Value>>>,
    asked: Arc<Mutex<Vec<&'static str>>>,
}

impl Keeper {
    async fn start(&self, at: SocketAddr) {
        let router = Router::new()
            .route("/health", get(|| async { Json(json!({"ok": true})) }))
            .route("/memory/query", post(|| async { StatusCode::BAD_REQUEST }))
            .route("/memory/add", post(add))
            .route("/memory/all", get(all))
            .route("/memory/{id}", get(one).delete(remove))
            .with_state(self.clone());
        let listener = TcpListener::bind(at).await.unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
    }

    /// The memory, as often as it has it.
    fn copies(&self) -> Vec<Value> {
        let rows = self.rows.lock().unwrap();
        let rows = rows.iter().filter(|row| row["content"] == TEXT);
        rows.map(|row| row["id"].clone()).collect()
    }

    fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

async fn add(State(keeper): State<Keeper>, Json(mut body): Json<Value>) -> Json<Value> {
    // Samples, by which it is tried out, do not count.
    if body["content"] == TEXT {
        keeper.asked.lock().unwrap().push("add");
    }
    let mut rows = keeper.rows.lock().unwrap();
    let id = format!("row-{}", rows.len() + 1);
    body["id"] = json!(id);
    rows.push(body);
    Json(json!({"id": id}))
}

async fn all(
    State(keeper): State<Keeper>,
    Query(page): Query<BTreeMap<String, usize>>,
) -> Json<Value> {
    keeper.asked.lock().unwrap().push("all");
    let rows = keeper.rows.lock().unwrap();
    let seen = page.get("u").copied().unwrap_or(0);
    let items: Vec<_> = rows.iter().rev().skip(seen).take(page["l"]).collect();
    Json(json!({"items": items}))
}

async fn one(
    State(keeper): State<Keeper>,
    Path(id): Path<String>,
) -> Result<Json<Value>, StatusCode> {
    let rows = keeper.rows.lock().unwrap();
    let row = rows.iter().find(|row| row["id"] == id.as_str());
    row.cloned().map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn remove(State(keeper): State<Keeper>, Path(id): Path<String>) -> Json<Value> {
    let mut rows = keeper.rows.lock().unwrap();
    // Its place stays, and with it the number of the next one.
    if let Some(row) = rows.iter_mut().find(|row| row["id"] == id.as_str()) {
        *row = json!({});
    }
    Json(json!({"ok": true}))
}

/// The server has it, the worker was killed before it could say so.
#[test]
fn the_next_worker_queries_the_server_before_it_sends_again() {
    on_both(async |mut bench| {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = free.local_addr().unwrap();
        drop(free);
        bench.configure(&format!(
            "[memory]\nopenmemory_base_url = \"http://{at}\"\nopenmemory_timeout_seconds = 2\n\
             lease_seconds = 12\nbase_backoff_seconds = 1\nmax_backoff_seconds = 2\n\
             reconcile_interval_seconds = 0\n"
        ));
        let gateway = bench.serve().await;
        bench.consign.run(["pause", "memory"]).expect(0);
        let deferred = store(&gateway).await;
        assert_eq!(deferred["action"], "deferred", "{deferred}");
        gateway.stop().await;

        let server = Keeper::default();
        server.start(at).await;
        let work = [
            "work",
            "--queue",
            "memory",
            "--health-listen",
            "127.0.0.1:0",
        ];
        let (mut victim, failpoint) = bench.stopped_at(&work, "memory.flush_after_store").await;
        bench.consign.run(["resume", "memory"]).expect(0);
        failpoint.reached().await;
        victim.child.kill9();
        let stored = server.copies();
        assert_eq!(stored.len(), 1);
        assert_eq!(server.asked(), ["add"], "nothing was in doubt");
        assert_eq!(row(&bench)["status"], "pending");

        let heir = Service::work(&bench.consign, &["--queue", "memory"]).await;
        let sent = is_sent(&bench).await;
        heir.stop().await;
        assert_eq!(server.asked(), ["all"], "asked, and not sent");
        assert_eq!(server.copies(), stored);
        assert_eq!(sent["memory_id"], stored[0], "{sent}");
        let (reason, status) = audits(&bench).await.pop().unwrap();
        assert_eq!(
            (reason.as_str(), status.as_str()),
            ("outbox_flush_success", "success")
        );
    });
}
