//! What is answered before there is a database: each contract in its own shape.

use axum::{Router, extract::Request, http::Method};
use consign_server::testing::{Bench, request};
use serde_json::json;
use tower::ServiceExt as _;

use super::{extensions, off};

/// A server that has no database yet.
async fn waiting() -> Bench {
    let extensions = std::sync::Arc::new(extensions());
    let answer = async move |request: Request| consign_server::starting(request, &extensions).await;
    let router = Router::new().fallback(answer);
    let mut bench = off().await;
    bench.router = router;
    bench
}

#[tokio::test]
async fn probes_report_a_starting_process() {
    let bench = waiting().await;
    assert_eq!(
        bench.get("/healthz").await.json,
        json!({"status": "starting"})
    );
    let greeting = json!({"ok": true, "status": "starting", "service": "memory-gateway"});
    assert_eq!(bench.get("/health").await.json, greeting);
    let ready = bench.get("/readyz").await;
    ready.is(503);
    assert_eq!(ready.json["status"], "not_ready");
    let reason = ready.json["reasons"][0].as_str().unwrap();
    assert!(reason.contains("waits for its database"), "{reason}");
}

#[tokio::test]
async fn every_contract_is_answered_in_its_own_shape() {
    let bench = waiting().await;
    let problem = bench.get("/v1/queues").await;
    problem.is_problem(503, "database_unavailable");
    assert_eq!(problem.json["outcome"], "not_done");
    assert_eq!(problem.header("retry-after"), "1");
    for path in ["/do/order", "/v1/payments"] {
        let flat = bench.post(path, json!({})).await;
        flat.is_flat(503, "DATABASE_UNAVAILABLE");
        assert_eq!(flat.json["retry_after"], 1);
    }
    for path in ["/memory/store", "/memory/query"] {
        let agents = bench.post(path, json!({})).await;
        agents.is_agents(503, "DATABASE_UNAVAILABLE");
        assert_eq!(agents.json["retryable"], true);
    }
    // Pages are not described to programs.
    let page = request(Method::GET, "/ui/queues", None);
    let page = bench.router.clone().oneshot(page).await.unwrap();
    assert_eq!(page.status(), 503);
    let kind = &page.headers()["content-type"];
    assert!(kind.to_str().unwrap().starts_with("text/html"), "{kind:?}");
}

#[tokio::test]
async fn a_call_of_the_gateway_gets_an_error_of_json_rpc_under_its_id() {
    let bench = waiting().await;
    for id in [json!(7), json!("abc"), json!(null)] {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
        let answer = bench.post("/mcp", call).await;
        answer.is(503);
        assert_eq!(answer.json["jsonrpc"], "2.0");
        assert_eq!(answer.json["id"], id);
        assert_eq!(answer.json["error"]["code"], -32001);
        let data = &answer.json["error"]["data"];
        assert_eq!(data["reason"], "LOGBOOK_DB_UNAVAILABLE");
        assert_eq!(
            (&data["category"], &data["retryable"]),
            (&json!("dependency"), &json!(true))
        );
        assert_eq!(data["correlation_id"], answer.header("x-correlation-id"));
        assert_eq!(answer.header("retry-after"), "1");
    }
    let plain = bench
        .post("/mcp", json!({"tool": "memory_query", "arguments": {}}))
        .await;
    plain.is_agents(503, "DATABASE_UNAVAILABLE");
    // An unreadable request is a protocol error.
    let mut garbage = request(Method::POST, "/mcp", None);
    *garbage.body_mut() = "{".into();
    let answer = bench.call(garbage).await;
    assert_eq!(
        (&answer.json["id"], &answer.json["error"]["code"]),
        (&json!(null), &json!(-32001))
    );
}
