//! Payments for workers over HTTP: the words of SQL, on both stores.

use axum::http::Method;
use consign_server::{
    Scope, ServerOptions, Token, TokenEntry,
    testing::{Answer, request, set},
};
use consign_testkit::eventually_some;
use serde_json::{Value, json};

use super::{Bench, SOON, TENANT, pay, payment, postgres, show, sqlite};

/// Claims one payment for this long as this worker; none if nothing is due.
async fn claim(bench: &Bench, worker: &str, more: &[(&str, Value)]) -> Option<Value> {
    let mut body = json!({"worker_id": worker, "lease_seconds": 60});
    for (name, value) in more {
        body[*name] = value.clone();
    }
    let answer = bench.post("/v1/payments/claims", body).await;
    match answer.status.as_u16() {
        204 => None,
        _ => {
            answer.is(200);
            Some(answer.json)
        }
    }
}

/// Does something under a lease.
async fn under(bench: &Bench, lease: &Value, what: &str, body: Value) -> Answer {
    let token = lease["lease_token"].as_str().unwrap();
    let path = format!("/v1/payments/leases/{token}/{what}");
    bench.post(&path, body).await
}

fn completion(worker: &str, id: &str, state: &str, more: &[(&str, Value)]) -> Value {
    let mut completion = json!({"outbox_id": id, "state": state});
    for (name, value) in more {
        completion[*name] = value.clone();
    }
    json!({"worker_id": worker, "completions": [completion]})
}

fn dispatched(worker: &str, id: &str, reference: &str) -> Value {
    let reference = [("rail_reference", json!(reference))];
    completion(worker, id, "DISPATCHED", &reference)
}

/// What is recorded, what is refused with which code, and that a refusal writes nothing.
async fn completions_have_their_answers(bench: &Bench) {
    let id = pay(bench, 1).await;
    let lease = claim(bench, "w1", &[]).await.unwrap();
    assert_eq!(lease["payments"][0]["outbox_id"], id);
    assert_eq!(lease["payments"][0]["in_doubt"], false);
    assert_eq!(lease["payments"][0]["payload"]["amount_minor"], 1250);
    assert_eq!(claim(bench, "w2", &[]).await, None, "it is held");
    let plain = json!({"queue": "payments", "limit": 1});
    let refused = bench.post("/v1/claims", plain).await;
    refused.is(400);
    assert_eq!(refused.json["what"], "queue", "{}", refused.text);
    let complete = async |body: Value| under(bench, &lease, "complete", body).await;

    for state in ["DISPATCHING", "ZOMBIE_REQUEUE", "paid", ""] {
        let refused = complete(completion("w1", &id, state, &[])).await;
        refused.is_flat(422, "INVALID_COMPLETION_STATE");
    }
    for reference in [Value::Null, json!("  ")] {
        let more = [("rail_reference", reference)];
        let refused = complete(completion("w1", &id, "DISPATCHED", &more)).await;
        refused.is_flat(422, "MISSING_RAIL_REFERENCE");
    }
    let doubt = [("in_doubt", json!(true)), ("error_code", json!("X"))];
    let refused = complete(completion("w1", &id, "FAILED", &doubt)).await;
    refused.is_flat(400, "INVALID_INPUT");
    let twice = json!({"worker_id": "w1", "completions": [
        {"outbox_id": id, "state": "FAILED", "error_code": "A"},
        {"outbox_id": id, "state": "FAILED", "error_code": "A"},
    ]});
    complete(twice).await.is_flat(400, "INVALID_INPUT");
    let stranger = complete(dispatched("w2", &id, "R-1")).await;
    stranger.is_flat(409, "LEASE_LOST");
    assert_eq!(stranger.json["kept_as_evidence"], json!([]));
    let unknown = complete(dispatched("w1", TENANT, "R-1")).await;
    unknown.is_flat(409, "LEASE_LOST");
    let seen = show(bench, &id).await;
    assert_eq!(seen.json["attempts"], json!([]), "nothing was written");

    let done = complete(dispatched("w1", &id, "R-1")).await;
    done.is(200);
    let expected = json!([{"outbox_id": id, "attempt_no": 1, "effective_state": "DISPATCHED",
        "state": "DISPATCHED"}]);
    assert_eq!(done.json["completed"], expected);
    let again = complete(dispatched("w1", &id, "R-1")).await;
    assert_eq!(again.json, done.json, "a lost reply is not a lost lease");
    let otherwise = complete(dispatched("w1", &id, "R-2")).await;
    otherwise.is_flat(409, "LEASE_LOST");
    assert_eq!(otherwise.json["reason"], "recorded_otherwise");
    assert_eq!(otherwise.json["kept_as_evidence"], json!([id]));
    let found = bench.get("/v1/payments/reconcile").await;
    found.is(200);
    let late = &found.json["late_successes"][0];
    assert_eq!(late["outbox_id"], id, "{}", found.text);
    assert_eq!(late["late"]["result"]["rail_reference"], "R-2");
    assert!(!found.text.contains("token"), "{}", found.text);
}

#[tokio::test]
async fn completions_return_their_codes_on_sqlite() {
    completions_have_their_answers(&sqlite().await).await;
}

#[tokio::test]
async fn completions_return_their_codes_on_postgresql() {
    let (_database, bench) = postgres().await;
    completions_have_their_answers(&bench).await;
}

/// `in_doubt` is stored: `true` and an absent value leave a doubt, `false` ends it.
async fn doubts_are_kept_and_ended(bench: &Bench) {
    let id = pay(bench, 1).await;
    let unknown = [("error_code", json!("DISPATCH_TIMEOUT"))];
    let vouched = [
        ("error_code", json!("NOT_THERE")),
        ("in_doubt", json!(false)),
    ];
    let reported = [("error_code", json!("BUSY"))];
    // The reported value, and whether the next claim is in doubt.
    let table = [
        (&unknown[..], true),
        (&reported, true),
        (&vouched, false),
        (&reported, false),
    ];
    let mut was_in_doubt = false;
    for (number, (stated, is_in_doubt)) in table.into_iter().enumerate() {
        let lease = due(bench).await;
        let payment = &lease["payments"][0];
        assert_eq!(payment["in_doubt"], was_in_doubt, "before {number}");
        let body = completion("w1", &id, "RETRYABLE", stated);
        let done = under(bench, &lease, "complete", body).await;
        done.is(200);
        assert_eq!(done.json["completed"][0]["effective_state"], "RETRYABLE");
        let seen = show(bench, &id).await;
        let last = seen.json["attempts"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .clone();
        assert_eq!(last["in_doubt"], is_in_doubt, "{number}: {last}");
        was_in_doubt = is_in_doubt;
    }
}

/// Waits for the one payment to be due, and claims it.
async fn due(bench: &Bench) -> Value {
    bench.advance(120);
    let claim = async || claim(bench, "w1", &[]).await;
    eventually_some("it is due", SOON, claim).await
}

#[tokio::test]
async fn doubts_are_kept_and_ended_on_sqlite() {
    doubts_are_kept_and_ended(&sqlite().await).await;
}

#[tokio::test]
async fn doubts_are_kept_and_ended_on_postgresql() {
    let (_database, bench) = postgres().await;
    doubts_are_kept_and_ended(&bench).await;
}

/// A silent worker loses its payment to a repair, and the next claim is in doubt.
async fn a_silent_worker_loses_its_payment(bench: &Bench) {
    let id = pay(bench, 1).await;
    let short = [("lease_seconds", json!(1))];
    let first = claim(bench, "w1", &short).await.unwrap();
    let none = bench.post("/v1/payments/repair", json!({})).await;
    assert_eq!(
        none.json["repaired"],
        json!([]),
        "a live lease is left alone"
    );
    let status = bench.get("/v1/payments/status").await;
    assert_eq!(
        (&status.json["pending"], &status.json["leased"]),
        (&json!(1), &json!(1))
    );
    bench.advance(2);
    let repaired = eventually_some("it is repaired", SOON, async || {
        let body = json!({"batch_size": 10});
        let mut answer = bench.post("/v1/payments/repair", body).await;
        let repaired = answer.json["repaired"].take();
        (repaired != json!([])).then_some(repaired)
    })
    .await;
    let expected = json!([{"outbox_id": id, "attempt_no": 1, "effective_state": "ZOMBIE_REQUEUE"}]);
    assert_eq!(repaired, expected);
    let second = due(bench).await;
    assert_eq!(
        second["payments"][0]["in_doubt"], true,
        "query the rail first: {second}"
    );
    assert!(second["fence"].as_i64() > first["fence"].as_i64());

    let late = under(bench, &first, "complete", dispatched("w1", &id, "R-1")).await;
    late.is_flat(409, "LEASE_LOST");
    assert_eq!(late.json["reason"], "unknown_or_expired");
    assert_eq!(late.json["kept_as_evidence"], json!([id]));
    let again = under(bench, &first, "late", dispatched("w1", &id, "R-1")).await;
    assert_eq!(again.json["kept"], json!([id]), "once and for all");
    for (what, body) in [
        ("renew", json!({"lease_seconds": 60})),
        ("begin", json!({"outbox_ids": [id]})),
        ("release", json!({})),
    ] {
        let refused = under(bench, &first, what, body).await;
        refused.is_flat(409, "LEASE_LOST");
    }
    let done = under(bench, &second, "complete", dispatched("w1", &id, "R-1")).await;
    done.is(200);
}

#[tokio::test]
async fn a_silent_worker_loses_its_payment_on_sqlite() {
    a_silent_worker_loses_its_payment(&sqlite().await).await;
}

#[tokio::test]
async fn a_silent_worker_loses_its_payment_on_postgresql() {
    let (_database, bench) = postgres().await;
    a_silent_worker_loses_its_payment(&bench).await;
}

/// Renew, begin, release; a released payment is not in doubt.
async fn leases_are_renewed_begun_and_released(bench: &Bench) {
    let id = pay(bench, 1).await;
    let lease = claim(bench, "w1", &[]).await.unwrap();
    let renewed = under(bench, &lease, "renew", json!({"lease_seconds": 600})).await;
    renewed.is(200);
    assert!(renewed.json["lease_expires_at"].as_str() > lease["lease_expires_at"].as_str());
    let released = under(bench, &lease, "release", json!({})).await;
    assert_eq!(released.json, json!({"released": 1}));
    let seen = show(bench, &id).await;
    assert_eq!(seen.json["attempts"], json!([]), "uncounted");

    let lease = claim(bench, "w1", &[("begin", json!(false))])
        .await
        .unwrap();
    assert_eq!(lease["payments"][0]["in_doubt"], false, "{lease}");
    let not_here = under(bench, &lease, "begin", json!({"outbox_ids": [TENANT]})).await;
    not_here.is_flat(409, "LEASE_LOST");
    assert_eq!(not_here.json["reason"], "not_in_lease");
    let begun = under(bench, &lease, "begin", json!({"outbox_ids": [id]})).await;
    assert_eq!(begun.json, json!({"begun": true}));
    let kept = under(bench, &lease, "release", json!({})).await;
    assert_eq!(kept.json, json!({"released": 0}), "what has begun stays");

    let held = json!({"worker_id": "w1", "payments": [{"outbox_id": id, "rail_code": "OK"}]});
    let held = under(bench, &lease, "hold", held).await;
    held.is(200);
    assert_eq!(held.json["completed"][0]["state"], "HELD");
    let seen = show(bench, &id).await;
    assert_eq!(seen.json["reason"], "MISSING_RAIL_REFERENCE");

    for bad in [
        json!({"worker_id": "w1", "lease_seconds": 0}),
        json!({"worker_id": "w1", "lease_seconds": 3601}),
        json!({"worker_id": "w1", "lease_seconds": 60, "batch_size": 0}),
        json!({"worker_id": "w1", "lease_seconds": 60, "batch_size": 1001}),
        json!({"worker_id": "", "lease_seconds": 60}),
    ] {
        let refused = bench.post("/v1/payments/claims", bad).await;
        refused.is_flat(400, "INVALID_INPUT");
    }
    let refused = under(bench, &lease, "renew", json!({"lease_seconds": 0})).await;
    refused.is_flat(400, "INVALID_INPUT");
    for batch_size in [0, 1_001] {
        let body = json!({"batch_size": batch_size});
        let refused = bench.post("/v1/payments/repair", body).await;
        refused.is_flat(400, "INVALID_INPUT");
    }
    let many: Vec<Value> = (0..1_001)
        .map(|_| json!({"outbox_id": id, "state": "FAILED"}))
        .collect();
    let many = json!({"worker_id": "w1", "completions": many});
    let refused = under(bench, &lease, "complete", many).await;
    refused.is_flat(413, "BATCH_TOO_LARGE");
}

#[tokio::test]
async fn leases_are_renewed_begun_and_released_on_sqlite() {
    leases_are_renewed_begun_and_released(&sqlite().await).await;
}

#[tokio::test]
async fn leases_are_renewed_begun_and_released_on_postgresql() {
    let (_database, bench) = postgres().await;
    leases_are_renewed_begun_and_released(&bench).await;
}

/// A claim that waits is woken by a payment, and one in vain answers 204.
#[tokio::test]
async fn a_claim_waits_for_a_payment() {
    let bench = sqlite().await;
    let wait = [("wait_ms", json!(50))];
    assert_eq!(claim(&bench, "w1", &wait).await, None);
    let wait = [("wait_ms", json!(20_000))];
    let (lease, id) = tokio::join!(claim(&bench, "w1", &wait), pay(&bench, 1));
    assert_eq!(lease.unwrap()["payments"][0]["outbox_id"], id);
}

/// Counts of one's own tenant only, and no claims, which cover all tenants.
#[tokio::test]
async fn figures_count_only_the_own_tenant() {
    let bench = sqlite().await;
    pay(&bench, 1).await;
    let other = uuid::Uuid::from_u128(9);
    let mut foreign = payment(2);
    foreign["tenant_id"] = json!(other);
    bench.post("/v1/payments", foreign).await.is(202);
    let token = |name: &str| TokenEntry {
        name: name.into(),
        hash: Token::new(name).hash(),
        scopes: Scope::ALL.into(),
    };
    let tenants = [("shop".to_owned(), TENANT.parse().unwrap())].into();
    let bench = bench
        .with_state(|state| state.with_tenants(tenants))
        .with_options(&ServerOptions {
            tokens: vec![token("shop"), token("all")],
            ..ServerOptions::default()
        });
    for (name, pending) in [("shop", 1), ("all", 2)] {
        let mut ask = request(Method::GET, "/v1/payments/status", None);
        set(&mut ask, &[("authorization", &format!("Bearer {name}"))]);
        let status = bench.call(ask).await;
        assert_eq!(status.json["pending"], pending, "{name}: {}", status.text);
    }
}
