//! Another server takes the place of the one that was known, without ever being away.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use consign_memory::Backend;
use consign_testkit::OpenMemory as Server;
use serde_json::json;

use super::{BUDGET, client, fake, memory, search};

const JS_HEAD: u8 = 0;
const PYTHON: u8 = 1;

/// Which generation answers.
type Generation = Arc<AtomicU8>;

/// Hides the paths that the current generation does not have.
async fn only_its_own(State(now): State<Generation>, request: Request, next: Next) -> Response {
    let is_python = now.load(Ordering::SeqCst) == PYTHON;
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/health" if is_python => Json(json!({"status": "ok"})).into_response(),
        "/health" | "/memory/add" => next.run(request).await,
        "/memory/search" if is_python => next.run(request).await,
        path if path != "/memory/search" && !is_python => next.run(request).await,
        _ => (StatusCode::NOT_FOUND, "404: Not Found").into_response(),
    }
}

async fn server() -> (String, Generation) {
    let now = Generation::default();
    let rows = fake::Rows::default();
    let router: Router = fake::js_head_router(Server::KEY, Arc::clone(&rows))
        .merge(fake::python_search(rows))
        .layer(from_fn_with_state(Arc::clone(&now), only_its_own));
    (fake::serve(router).await, now)
}

#[tokio::test]
async fn detects_the_dialect_again_after_a_server_was_replaced() {
    let (url, now) = server().await;
    let backend = client(&url);
    let first = memory("team:p", "the valve opens clockwise");
    let stored = backend.store(&first, BUDGET).await.unwrap();
    for generation in [PYTHON, JS_HEAD, PYTHON] {
        now.store(generation, Ordering::SeqCst);
        let question = search("valve", &["team:p"]);
        let hits = backend.search(&question, BUDGET).await.unwrap();
        assert_eq!(hits.len(), 1, "generation {generation}");
        let found = backend.find(&first, BUDGET).await.unwrap();
        assert_eq!(found.as_ref(), Some(&stored));
    }
}

/// What was handed in before the difference was noticed is not handed in twice.
#[tokio::test]
async fn a_memory_stored_across_the_change_is_stored_once() {
    let (url, now) = server().await;
    let backend = client(&url);
    let first = memory("team:p", "the valve opens clockwise");
    backend.store(&first, BUDGET).await.unwrap();
    now.store(PYTHON, Ordering::SeqCst);
    // Long enough to be read back, which this server cannot do.
    let long = memory(
        "team:p",
        &"the crane of the harbour turns slowly ".repeat(10),
    );
    let stored = backend.store(&long, BUDGET).await.unwrap();
    assert_eq!(backend.find(&long, BUDGET).await.unwrap(), Some(stored));
    assert!(backend.find(&first, BUDGET).await.unwrap().is_some());
    now.store(JS_HEAD, Ordering::SeqCst);
    let hits = backend.search(&search("crane", &["team:p"]), BUDGET).await;
    assert_eq!(hits.unwrap().len(), 1);
}
