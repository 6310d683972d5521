//! Queues over HTTP.

use std::time::Duration;

use axum::http::Method;
use consign_worker::{BreakerState, QueueStatus, WorkerStatus};
use serde_json::{Value, json};

use crate::bench::{Answer, Bench, name, on_stores, request};

on_stores!(
    a_queue_is_created_and_read,
    a_patch_changes_only_what_it_names,
    policies_are_checked,
    an_unfinished_queue_stays_as_ordered_as_it_was,
    a_paused_queue_gives_nothing,
    reports_counts_and_ages,
    reports_the_view_of_the_worker,
    queues_come_in_pages,
);

async fn send(bench: &Bench, method: Method, path: &str, body: Value) -> Answer {
    bench.call(request(method, path, Some(body))).await
}

async fn a_queue_is_created_and_read(bench: Bench) {
    let body = json!({"policy": {"attempts_max": 3}, "reason": "new"});
    let put = send(&bench, Method::PUT, "/v1/queues/orders", body).await;
    put.is(200);
    assert_eq!(put.json["policy"]["attempts_max"], 3);
    assert_eq!(put.json["policy"]["concurrency"], 16);
    let shown = bench.get("/v1/queues/orders").await;
    assert_eq!(shown.json["policy"], put.json["policy"]);
    assert_eq!(shown.json["paused_at"], Value::Null);
    let listed = bench.get("/v1/queues").await;
    let names: Vec<&Value> = listed.json["queues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|queue| &queue["name"])
        // Made with the services of payments and memories, where there are any.
        .filter(|name| *name != "payments" && *name != "memory")
        .collect();
    assert_eq!(names, ["default", "mail", "orders"]);
    let unknown = bench.get("/v1/queues/odrers").await;
    unknown.is_problem(404, "unknown_queue");
    assert_eq!(unknown.json["suggestion"], "orders");
}

async fn queues_come_in_pages(bench: Bench) {
    for name in ["a", "b", "c"] {
        let body = json!({"reason": "new"});
        send(&bench, Method::PUT, &format!("/v1/queues/{name}"), body)
            .await
            .is(200);
    }
    let first = bench.get("/v1/queues?limit=2").await.json;
    assert_eq!(first["queues"][0]["name"], "a");
    assert_eq!(first["next"], "b");
    let second = bench.get("/v1/queues?limit=1&after=b").await.json;
    assert_eq!(second["queues"][0]["name"], "c");
    let all = bench.get("/v1/queues").await.json;
    assert_eq!(all["next"], Value::Null);
    bench
        .get("/v1/queues?after=A%20B")
        .await
        .is_problem(400, "bad_query");
}

async fn a_patch_changes_only_what_it_names(bench: Bench) {
    let body = json!({"policy": {"attempts_max": 3, "concurrency": 2}, "reason": "new"});
    send(&bench, Method::PUT, "/v1/queues/orders", body)
        .await
        .is(200);
    let body = json!({"policy": {"concurrency": 5}, "reason": "more"});
    let patched = send(&bench, Method::PATCH, "/v1/queues/orders", body).await;
    patched.is(200);
    assert_eq!(patched.json["policy"]["concurrency"], 5);
    assert_eq!(patched.json["policy"]["attempts_max"], 3);
    let body = json!({"policy": {"attempts_max": 4}, "reason": "reset"});
    let put = send(&bench, Method::PUT, "/v1/queues/orders", body).await;
    assert_eq!(
        put.json["policy"]["concurrency"], 16,
        "a PUT replaces the policy"
    );
    let body = json!({"policy": {}, "reason": "x"});
    let nowhere = send(&bench, Method::PATCH, "/v1/queues/nowhere", body).await;
    nowhere.is_problem(404, "unknown_queue");
}

async fn policies_are_checked(bench: Bench) {
    for method in [Method::PUT, Method::PATCH] {
        let path = "/v1/queues/mail";
        let body = json!({"policy": {"atempts_max": 3}, "reason": "x"});
        let typo = send(&bench, method.clone(), path, body).await;
        typo.is_problem(400, "unknown_field");
        assert_eq!(typo.json["suggestion"], "attempts_max");
        let body = json!({"policy": {"attempts_max": 0}, "reason": "x"});
        let zero = send(&bench, method.clone(), path, body).await;
        zero.is_problem(400, "invalid_input");
        let body = json!({"policy": {"attempts_max": "x"}, "reason": "x"});
        send(&bench, method.clone(), path, body)
            .await
            .is_problem(400, "bad_json");
        let body = json!({"policy": {"attempts_max": 3}});
        send(&bench, method, path, body)
            .await
            .is_problem(400, "reason_required");
    }
}

async fn an_unfinished_queue_stays_as_ordered_as_it_was(bench: Bench) {
    bench.enqueue("mail", json!(1)).await;
    let body = json!({"policy": {"ordered": true}, "reason": "x"});
    let answer = send(&bench, Method::PATCH, "/v1/queues/mail", body).await;
    answer.is_problem(409, "queue_not_empty");
}

async fn a_paused_queue_gives_nothing(bench: Bench) {
    let id = bench.enqueue("mail", json!(1)).await;
    let paused = bench
        .post("/v1/queues/mail/pause", json!({"reason": "x"}))
        .await;
    assert!(paused.json["paused_at"].is_string(), "{}", paused.text);
    let claim = json!({"queue": "mail", "wait_ms": 50});
    bench.post("/v1/claims", claim.clone()).await.is(204);
    let resumed = bench
        .post("/v1/queues/mail/resume", json!({"reason": "x"}))
        .await;
    assert_eq!(resumed.json["paused_at"], Value::Null);
    let lease = bench.post("/v1/claims", claim).await;
    assert_eq!(lease.json["messages"][0]["id"], id);
    let nowhere = bench
        .post("/v1/queues/nowhere/pause", json!({"reason": "x"}))
        .await;
    nowhere.is_problem(404, "unknown_queue");
}

async fn reports_counts_and_ages(bench: Bench) {
    bench.enqueue("mail", json!(1)).await;
    let late = json!({"payload": 2, "delay_ms": 60_000});
    bench.post("/v1/queues/mail/messages", late).await.is(202);
    bench.advance(12);
    let queue = bench.get("/v1/queues/mail").await.json;
    assert_eq!(queue["counts"]["ready"], 1);
    assert_eq!(queue["counts"]["scheduled"], 1);
    assert_eq!(queue["oldest_ready_age_seconds"], 12.0);
    let idle = bench.get("/v1/queues/default").await.json;
    assert_eq!(idle["oldest_ready_age_seconds"], 0.0);
    assert_eq!(idle["worker"], Value::Null);
}

async fn reports_the_view_of_the_worker(bench: Bench) {
    let none = bench.get("/v1/worker").await;
    assert_eq!(none.json["running"], false);
    let bench = bench.with_state(|state| state.with_worker(|| status("mail")));
    let queue = bench.get("/v1/queues/mail").await.json;
    assert_eq!(queue["worker"]["breaker"], "half_open");
    assert_eq!(queue["worker"]["last_tick_age_seconds"], 1.5);
    let worker = bench.get("/v1/worker").await.json;
    assert_eq!(worker["running"], true);
    assert_eq!(worker["owner"], "w1");
    assert_eq!(worker["queues"][0], queue["worker"]);
}

pub(crate) fn status(queue: &str) -> WorkerStatus {
    let queue = QueueStatus {
        queue: name(queue),
        sink: "log",
        destination: "stdout".into(),
        in_flight: 1,
        prefetched: 2,
        concurrency: 16,
        concurrency_now: 8,
        paused: false,
        claiming: false,
        breaker: BreakerState::HalfOpen,
        last_tick_age: Duration::from_millis(1_500),
        unrecorded: 0,
        database_error: None,
    };
    WorkerStatus {
        owner: "w1".into(),
        draining: false,
        queues: vec![queue],
    }
}
