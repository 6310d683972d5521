//! Servers of the dialects that no registry has: their rules, kept in memory, over real HTTP.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use serde_json::{Value, json};

pub(super) type Rows = Arc<Mutex<BTreeMap<String, Value>>>;
type Reply = (StatusCode, Json<Value>);

fn ok(body: Value) -> Reply {
    (StatusCode::OK, Json(body))
}

pub(super) async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// The tokens of a text, which is all that its hash looks at: other texts of the same words are the
/// same to it.
fn words(text: &str) -> std::collections::BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn add(rows: &Rows, body: &Value) -> (String, bool) {
    let mut rows = rows.lock().unwrap();
    let same = |row: &&Value| {
        words(row["content"].as_str().unwrap()) == words(body["content"].as_str().unwrap())
    };
    if let Some(row) = rows.values().find(same) {
        return (row["id"].as_str().unwrap().to_owned(), true);
    }
    let id = format!("row-{}", rows.len() + 1);
    let mut row = body.clone();
    row["id"] = json!(id);
    rows.insert(id.clone(), row);
    (id, false)
}

/// The best first: those with the most words of the query among theirs.
fn matching(rows: &Rows, query: &str, most: &Value) -> Vec<Value> {
    let wanted = words(query);
    let fit = |row: &Value| {
        let words = words(row["content"].as_str().unwrap());
        words.intersection(&wanted).count() * 1_000 / words.len().max(1)
    };
    let mut fitting: Vec<Value> = rows.lock().unwrap().values().cloned().collect();
    fitting.retain(|row| fit(row) > 0);
    fitting.sort_by_key(|row| std::cmp::Reverse(fit(row)));
    fitting.truncate(usize::try_from(most.as_u64().unwrap_or(8)).unwrap());
    fitting
}

/// The newer JavaScript server: the key is the user, and bodies are checked.
pub(super) async fn js_head(key: &'static str) -> (String, Rows) {
    let rows = Rows::default();
    let router = js_head_router(key, Arc::clone(&rows));
    (serve(router).await, rows)
}

pub(super) fn js_head_router(key: &'static str, rows: Rows) -> Router {
    let refuse = move |headers: &HeaderMap| {
        let given = headers.get("authorization").and_then(|it| it.to_str().ok());
        (given != Some(&format!("Bearer {key}"))).then(|| {
            (
                StatusCode::UNAUTHORIZED,
                Json(json!({"error": "authentication_required"})),
            )
        })
    };
    let invalid = || {
        (
            StatusCode::BAD_REQUEST,
            Json(json!({"error": "invalid_input", "details": []})),
        )
    };
    Router::new()
        .route("/health", get(|| async { Json(json!({"ok": true})) }))
        .route("/memory/add", post(move |State(rows): State<Rows>, headers: HeaderMap, Json(body): Json<Value>| async move {
            if let Some(refused) = refuse(&headers) {
                return refused;
            }
            if !body["content"].is_string() {
                return invalid();
            }
            if body.get("user_id").is_some_and(|user| !user.is_null() && user != "") {
                return (StatusCode::FORBIDDEN, Json(json!({"error": "tenant_mismatch"})));
            }
            let (id, merged) = add(&rows, &body);
            ok(if merged { json!({"id": id, "deduplicated": true}) } else { json!({"id": id}) })
        }))
        .route("/memory/query", post(move |State(rows): State<Rows>, headers: HeaderMap, Json(body): Json<Value>| async move {
            if let Some(refused) = refuse(&headers) {
                return refused;
            }
            let Some(query) = body["query"].as_str() else {
                return invalid();
            };
            if body["k"].as_u64().is_some_and(|k| k > 200) {
                return invalid();
            }
            let names = matching(&rows, query, &body["k"]);
            let names = names.iter().map(|row| json!({"id": row["id"], "content": row["content"], "score": 0.0}));
            ok(json!({"query": query, "matches": names.collect::<Vec<_>>()}))
        }))
        .route("/memory/all", get(|State(rows): State<Rows>, Query(page): Query<BTreeMap<String, usize>>| async move {
            let rows = rows.lock().unwrap();
            let seen = page.get("u").copied().unwrap_or(0);
            let items = rows.values().skip(seen).take(page["l"]);
            Json(json!({"items": items.collect::<Vec<_>>()}))
        }))
        .route("/memory/{id}", get(|State(rows): State<Rows>, Path(id): Path<String>| async move {
            match rows.lock().unwrap().get(&id) {
                Some(row) => ok(row.clone()),
                None => (StatusCode::NOT_FOUND, Json(json!({"error": "not_found"}))),
            }
        }).patch(|State(rows): State<Rows>, Path(id): Path<String>, Json(body): Json<Value>| async move {
            let mut rows = rows.lock().unwrap();
            let row = rows.get_mut(&id).unwrap();
            for (name, value) in body.as_object().unwrap() {
                row[name] = value.clone();
            }
            Json(json!({"id": id, "updated": true}))
        }).delete(|State(rows): State<Rows>, Path(id): Path<String>| async move {
            rows.lock().unwrap().remove(&id);
            Json(json!({"ok": true}))
        }))
        .with_state(rows)
}

/// The Python server: no reading of single memories.
pub(super) async fn python() -> (String, Rows) {
    let rows = Rows::default();
    let router = Router::new()
        .route(
            "/health",
            get(|| async { Json(json!({"status": "ok", "service": "openmemory-py"})) }),
        )
        .route(
            "/memory/add",
            post(
                |State(rows): State<Rows>, Json(body): Json<Value>| async move {
                    let (id, merged) = add(&rows, &body);
                    Json(json!({"success": true, "data": {"id": id, "deduplicated": merged}}))
                },
            ),
        )
        .with_state(Arc::clone(&rows))
        .merge(python_search(Arc::clone(&rows)));
    (serve(router).await, rows)
}

pub(super) fn python_search(rows: Rows) -> Router {
    let search = |State(rows): State<Rows>, Json(body): Json<Value>| async move {
        let found = matching(&rows, body["query"].as_str().unwrap(), &body["limit"]);
        Json(json!({"results": found}))
    };
    Router::new()
        .route("/memory/search", post(search))
        .with_state(rows)
}
