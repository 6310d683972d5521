//! A worker's whole life over HTTP.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign_kernel::Claim;
use consign_testkit::eventually;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    bench::{Answer, Bench, name, on_stores},
    faults::{Fault, FaultyStore},
};

on_stores!(
    a_worker_claims_and_settles,
    nothing_to_do_is_no_content,
    a_settle_repeated_returns_what_was_recorded,
    a_late_result_is_kept_as_evidence,
    messages_of_another_lease_are_refused,
    a_lease_is_renewed_begun_and_released,
    reports_are_checked,
    leases_are_listed_without_their_tokens,
    claims_are_checked,
    a_lease_of_another_server_is_settled_without_a_wait,
    an_operator_ends_a_lease,
    a_lease_cannot_outlast_its_queue,
    send_slots_are_reserved,
);

async fn under(bench: &Bench, lease: &Value, action: &str, body: Value) -> Answer {
    let token = lease["token"].as_str().unwrap();
    bench
        .post(&format!("/v1/leases/{token}/{action}"), body)
        .await
}

async fn an_operator_ends_a_lease(bench: Bench) {
    let id = bench.enqueue("mail", json!({"n": 1})).await;
    let claim = json!({"queue": "mail", "owner": "w1"});
    let lease = bench.post("/v1/claims", claim).await.json;
    let shown = bench.get("/v1/leases").await.json;
    let prefix = shown["leases"][0]["token_prefix"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(lease["token"].as_str().unwrap().starts_with(&prefix));
    let path = format!("/v1/leases/{prefix}/end");
    bench
        .post(&path, json!({}))
        .await
        .is_problem(400, "reason_required");
    let ended = bench
        .post(&path, json!({"reason": "its host is gone"}))
        .await;
    ended.is(200);
    assert_eq!(ended.json["owner"], "w1");
    assert_eq!(ended.json["messages"], 1);
    let again = bench.post(&path, json!({"reason": "again"})).await;
    again.is_problem(404, "unknown_lease");
    let wrong = bench
        .post("/v1/leases/zz/end", json!({"reason": "again"}))
        .await;
    wrong.is_problem(400, "invalid_input");
    let late = json!({"reports": [{"id": id, "outcome": "delivered"}]});
    let late = under(&bench, &lease, "settle", late).await;
    late.is_problem(409, "lease_lost");
    assert_eq!(late.json["kept_as_evidence"], json!([id]));
    let audit = bench.get("/v1/audit").await.json;
    assert_eq!(audit["audit"][0]["action"], "end_lease", "{audit}");
}

async fn a_lease_cannot_outlast_its_queue(bench: Bench) {
    bench.enqueue("mail", json!({"n": 1})).await;
    let long = json!({"queue": "mail", "ttl_ms": 24 * 3_600_000});
    bench
        .post("/v1/claims", long)
        .await
        .is_problem(400, "invalid_input");
    let lease = bench
        .post("/v1/claims", json!({"queue": "mail"}))
        .await
        .json;
    let long = json!({"ttl_ms": 24 * 3_600_000});
    under(&bench, &lease, "renew", long)
        .await
        .is_problem(400, "invalid_input");
}

async fn a_worker_claims_and_settles(bench: Bench) {
    let one = bench.enqueue("mail", json!({"n": 1})).await;
    let two = bench.enqueue("mail", json!({"n": 2})).await;
    let body = json!({"queue": "mail", "owner": "w1", "limit": 10, "ttl_ms": 60_000});
    let lease = bench.post("/v1/claims", body).await.json;
    assert_eq!(lease["expires_in_ms"], 60_000);
    assert!(lease["fence"].is_i64());
    let messages = lease["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["id"], one);
    assert_eq!(messages[0]["payload"], json!({"n": 1}));
    assert_eq!(messages[0]["attempt_no"], 1);
    let reports = json!({"reports": [
        {"id": one, "outcome": "delivered", "result": {"http": 200}},
        {"id": two, "outcome": "retry", "code": "http_503", "retry_in_ms": 30_000},
    ]});
    let settled = under(&bench, &lease, "settle", reports).await;
    settled.is(200);
    assert_eq!(settled.json["repeated"], false);
    assert_eq!(settled.json["recorded"][0]["state"], "delivered");
    assert_eq!(settled.json["recorded"][1]["state"], "ready");
    assert_eq!(bench.state_of(one).await, "delivered");
    let story = bench.get(&format!("/v1/messages/{two}")).await.json;
    assert!(
        story["explanation"]
            .as_str()
            .unwrap()
            .starts_with("Due later")
    );
}

async fn nothing_to_do_is_no_content(bench: Bench) {
    let answer = bench.post("/v1/claims", json!({"queue": "mail"})).await;
    answer.is(204);
    assert_eq!(answer.text, "");
}

async fn a_settle_repeated_returns_what_was_recorded(bench: Bench) {
    let id = bench.enqueue("mail", json!(1)).await;
    let lease = bench.claim("mail", 1).await;
    let reports = json!({"reports": [{"id": id, "outcome": "delivered"}]});
    let first = under(&bench, &lease, "settle", reports.clone()).await;
    let again = under(&bench, &lease, "settle", reports).await;
    again.is(200);
    assert_eq!(again.json["repeated"], true);
    assert_eq!(again.json["recorded"], first.json["recorded"]);
}

async fn a_late_result_is_kept_as_evidence(bench: Bench) {
    let id = bench.enqueue("mail", json!(1)).await;
    let lease = bench.claim("mail", 1).await;
    bench.advance(3_600);
    let other = bench.claim("mail", 1).await;
    assert_eq!(other["messages"][0]["id"], id, "another holds it now");
    let report = json!({"id": id, "outcome": "delivered", "detail": "it arrived"});
    let late = under(&bench, &lease, "settle", json!({"reports": [report]})).await;
    late.is_problem(409, "lease_lost");
    assert_eq!(late.json["kept_as_evidence"], json!([id]));
    let story = bench.get(&format!("/v1/messages/{id}")).await;
    assert_eq!(story.json["late_results"][0]["detail"], "it arrived");
    assert_eq!(story.json["late_results"][0]["outcome"], "delivered");
    assert_eq!(story.json["state"]["state"], "leased", "never an outcome");
    assert!(!story.text.contains(lease["token"].as_str().unwrap()));
    for action in ["renew", "begin", "release"] {
        let body = match action {
            "renew" => json!({"ttl_ms": 1_000}),
            "begin" => json!({"ids": [id]}),
            _ => json!({}),
        };
        let answer = under(&bench, &lease, action, body).await;
        answer.is_problem(409, "lease_lost");
    }
    let stranger = json!({"token": "00000000-0000-4000-8000-000000000000"});
    let report = json!({"reports": [{"id": id, "outcome": "dead"}]});
    let answer = under(&bench, &stranger, "settle", report).await;
    answer.is_problem(409, "lease_lost");
    assert_eq!(answer.json["kept_as_evidence"], json!([]));
}

async fn messages_of_another_lease_are_refused(bench: Bench) {
    let one = bench.enqueue("mail", json!(1)).await;
    let two = bench.enqueue("mail", json!(2)).await;
    let lease = bench.claim("mail", 1).await;
    let reports = json!({"reports": [
        {"id": one, "outcome": "delivered"}, {"id": two, "outcome": "delivered"},
    ]});
    let answer = under(&bench, &lease, "settle", reports).await;
    answer.is_problem(409, "not_in_lease");
    assert_eq!(answer.json["ids"], json!([two]));
    assert_eq!(bench.state_of(one).await, "leased", "nothing was written");
    let answer = under(&bench, &lease, "begin", json!({"ids": [two]})).await;
    answer.is_problem(409, "not_in_lease");
}

async fn a_lease_is_renewed_begun_and_released(bench: Bench) {
    let one = bench.enqueue("mail", json!(1)).await;
    let two = bench.enqueue("mail", json!(2)).await;
    let lease = bench.claim("mail", 2).await;
    let renewed = under(&bench, &lease, "renew", json!({"ttl_ms": 600_000})).await;
    renewed.is(200);
    assert_ne!(renewed.json["expires_at"], lease["expires_at"]);
    bench.advance(300);
    let begun = under(&bench, &lease, "begin", json!({"ids": [one]})).await;
    assert_eq!(begun.json, json!({"begun": true}));
    let path = format!("/v1/leases/{}/release", lease["token"].as_str().unwrap());
    let bare = crate::bench::request(axum::http::Method::POST, &path, None);
    let released = bench.call(bare).await;
    released.is(200);
    assert_eq!(released.json, json!({"ids": [two]}), "what has begun stays");
    assert_eq!(bench.state_of(one).await, "leased");
    assert_eq!(bench.state_of(two).await, "ready");
}

async fn reports_are_checked(bench: Bench) {
    let id = bench.enqueue("mail", json!(1)).await;
    let lease = bench.claim("mail", 1).await;
    let unknown = json!({"reports": [{"id": id, "outcome": "done"}]});
    let answer = under(&bench, &lease, "settle", unknown).await;
    answer.is_problem(400, "bad_json");
    assert_eq!(answer.json["path"], "reports[0].outcome");
    let twice = json!({"reports": [
        {"id": id, "outcome": "delivered"}, {"id": id, "outcome": "dead"},
    ]});
    let answer = under(&bench, &lease, "settle", twice).await;
    answer.is_problem(400, "invalid_input");
    let secret = "5ec2e700-0000-4000-8000-00000000000";
    let answer = bench
        .post(
            &format!("/v1/leases/{secret}/settle"),
            json!({"reports": []}),
        )
        .await;
    answer.is_problem(400, "invalid_input");
    assert!(!answer.text.contains(secret), "a token is never repeated");
}

async fn leases_are_listed_without_their_tokens(bench: Bench) {
    let id = bench.enqueue("mail", json!(1)).await;
    let lease = bench.claim("mail", 1).await;
    let listed = bench.get("/v1/leases?limit=5").await;
    assert_eq!(listed.json["leases"][0]["ids"], json!([id]));
    assert_eq!(listed.json["leases"][0]["owner"], "w1");
    assert!(!listed.text.contains(lease["token"].as_str().unwrap()));
}

async fn claims_are_checked(bench: Bench) {
    for body in [
        json!({"queue": "mail", "limit": 0}),
        json!({"queue": "mail", "limit": 100_000}),
        json!({"queue": "mail", "ttl_ms": 0}),
        json!({"queue": "mail", "owner": ""}),
    ] {
        let answer = bench.post("/v1/claims", body).await;
        answer.is_problem(400, "invalid_input");
    }
    let answer = bench.post("/v1/claims", json!({"queue": "nowhere"})).await;
    answer.is_problem(404, "unknown_queue");
    let anonymous = bench.enqueue("mail", json!(1)).await;
    bench
        .post("/v1/claims", json!({"queue": "mail"}))
        .await
        .is(200);
    let story = bench.get(&format!("/v1/messages/{anonymous}")).await.json;
    assert_eq!(story["state"]["owner"], "anonymous@127.0.0.1");
}

/// Only the rates need the queue, and they are not worth a wait.
async fn a_lease_of_another_server_is_settled_without_a_wait(bench: Bench) {
    let ids = [
        bench.enqueue("mail", json!(1)).await,
        bench.enqueue("mail", json!(2)).await,
    ];
    let claim = Claim::new(name("mail"), "w1", 2);
    let lease = bench.store.claim(&claim).await.unwrap().unwrap();
    let held = lease.messages.iter().map(|it| it.message.id.0);
    assert_eq!(held.collect::<Vec<_>>(), ids);
    let store = FaultyStore::new(Arc::clone(&bench.store));
    let gate = Arc::new(Semaphore::new(0));
    store.inject("explain", Fault::Waits(Arc::clone(&gate)));
    let bench = bench.with_store(store.clone());
    let path = format!("/v1/leases/{}/settle", lease.token);
    for id in ids {
        let report = json!({"reports": [{"id": id, "outcome": "delivered"}]});
        bench.post(&path, report).await.is(200);
    }
    gate.add_permits(2);
    let delivered = AtomicU64::new(0);
    eventually("both are counted", Duration::from_secs(20), async || {
        let done = bench.state.take_done();
        let new = done.iter().map(|it| it.done.delivered).sum::<u64>();
        delivered.fetch_add(new, Ordering::Relaxed) + new == 2
    })
    .await;
}

async fn send_slots_are_reserved(bench: Bench) {
    bench.enqueue("mail", json!({"n": 1})).await;
    let path = "/v1/queues/mail/slots";
    let none = bench.post(path, json!({"count": 3})).await;
    assert_eq!(none.status, 204, "no rate: {none:?}");
    let rate =
        json!({"policy": {"total_rate_per_second": 10}, "reason": "the receiver asks for it"});
    bench
        .call(crate::bench::request(
            axum::http::Method::PATCH,
            "/v1/queues/mail",
            Some(rate),
        ))
        .await;
    let slots = bench.post(path, json!({"count": 3})).await.json;
    assert_eq!(slots["count"], 3, "{slots}");
    assert!(slots["apart_us"].as_u64().unwrap() > 100_000, "{slots}");
    assert!(
        slots["first_at"].as_str() >= slots["now"].as_str(),
        "{slots}"
    );
    let next = bench.post(path, json!({})).await.json;
    assert_eq!(next["count"], 1, "{next}");
    let mut last = next;
    for _ in 0..60 {
        last = bench.post(path, json!({"count": 100})).await.json;
        if last["count"] == 0 {
            break;
        }
    }
    assert_eq!(last["count"], 0, "a few seconds are reserved: {last}");
    assert_ne!(last["first_at"], last["now"], "when to call again: {last}");
    let answer = bench.post(path, json!({"count": 0})).await;
    answer.is_problem(400, "invalid_input");
    let ghost = bench.post("/v1/queues/ghost/slots", json!({})).await;
    ghost.is_problem(404, "unknown_queue");
}
