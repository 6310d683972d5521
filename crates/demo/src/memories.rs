//! A memory server that is away at times. It implements what the gateway needs of OpenMemory in Python,
//! forgets with the process, and finds a memory by the words it has.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::demo_server::DemoServer;

/// It is away for so long,
const AWAY: Duration = Duration::from_secs(20);
/// and again so long after it began to be; at first at once, so that memories are put off.
const CYCLE: Duration = Duration::from_secs(60);
/// Memories it keeps: the oldest go.
const KEPT_MAX: usize = 2_000;

/// A text it will not have.
pub(crate) const UNREADABLE: &str = "unreadable";

/// The server.
#[derive(Debug)]
pub(crate) struct Memories {
    server: DemoServer,
}

impl Memories {
    pub(crate) async fn start() -> Result<Self> {
        let shelf = Arc::new(MemoryMap {
            since: Instant::now(),
            rows: Mutex::default(),
        });
        let router = Router::new()
            .route("/health", get(health))
            .route("/memory/add", post(add))
            .route("/memory/search", post(search))
            .layer(middleware::from_fn_with_state(
                Arc::clone(&shelf),
                unless_away,
            ))
            .with_state(shelf);
        let server = DemoServer::start(router).await?;
        Ok(Self { server })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

#[derive(Debug)]
struct MemoryMap {
    since: Instant,
    /// Newest first.
    rows: Mutex<VecDeque<Value>>,
}

impl MemoryMap {
    fn rows(&self) -> MutexGuard<'_, VecDeque<Value>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether it is away so long after it was started.
fn is_away(running_for: Duration) -> bool {
    let into_cycle = running_for.as_secs() % CYCLE.as_secs();
    into_cycle < AWAY.as_secs()
}

async fn unless_away(
    State(shelf): State<Arc<MemoryMap>>,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    if is_away(shelf.since.elapsed()) {
        let problem = json!({"detail": "away for a moment"});
        return (StatusCode::SERVICE_UNAVAILABLE, Json(problem)).into_response();
    }
    next.run(request).await
}

async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

async fn add(State(shelf): State<Arc<MemoryMap>>, Json(body): Json<Value>) -> Response {
    if content(&body).contains(UNREADABLE) {
        let problem = json!({"detail": "there are no words in it"});
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(problem)).into_response();
    }
    let id = uuid::Uuid::now_v7().to_string();
    let row = json!({"id": id, "content": body["content"], "metadata": body["metadata"]});
    let mut rows = shelf.rows();
    rows.push_front(row);
    rows.truncate(KEPT_MAX);
    Json(json!({"id": id})).into_response()
}

/// Rows with most of the words first.
async fn search(State(shelf): State<Arc<MemoryMap>>, Json(body): Json<Value>) -> Json<Value> {
    let query = body["query"].as_str().unwrap_or_default().to_lowercase();
    let most = body["limit"].as_u64().and_then(|most| most.try_into().ok());
    let words: Vec<&str> = query.split_whitespace().collect();
    let score = |row: &Value| {
        let text = content(row).to_lowercase();
        words.iter().filter(|word| text.contains(**word)).count()
    };
    let mut found: Vec<(usize, Value)> = shelf
        .rows()
        .iter()
        .map(|row| (score(row), row.clone()))
        .filter(|(score, _)| *score > 0)
        .collect();
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.truncate(most.unwrap_or(10));
    let results: Vec<Value> = found.into_iter().map(|(_, row)| row).collect();
    Json(json!({"results": results}))
}

fn content(row: &Value) -> &str {
    row["content"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_away_at_first_and_now_and_then() {
        let away = |seconds| is_away(Duration::from_secs(seconds));
        assert!(away(0) && away(19) && away(60) && away(79));
        assert!(!away(20) && !away(59) && !away(80));
    }
}
