//! Orders over HTTP: what the routes add to the order service, and that every answer is described.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{Method, Request},
};
use consign_kernel::{Claim, Outcome, QueueName, Report};
use consign_orders::{Ledger, OrderService, OrdersHttp, OrdersOptions};
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_server::{
    RateLimit, Scope, ServerOptions, Token, TokenEntry,
    testing::{self, Answer, request, set},
};
use consign_testkit::TestDatabase;
use serde_json::{Value, json};

mod dashboard;

/// A server that accepts orders, without a worker.
type Bench = testing::Bench<Arc<dyn Ledger>>;

const KEY: &str = "order-0001";

fn order(key: &str) -> Value {
    json!({"instrument": "USDJPY", "side": "BUY", "qty": 0.1, "idempotency_key": key})
}

/// A request for an order, with the header that belongs to it and more.
fn placing(key: &str, body: &Value, more: &[(&str, &str)]) -> Request<Body> {
    let mut request = request(Method::POST, "/do/order", Some(body.clone()));
    set(&mut request, &[("idempotency-key", key)]);
    set(&mut request, more);
    request
}

async fn place(bench: &Bench, key: &str) -> Answer {
    bench.call(placing(key, &order(key), &[])).await
}

async fn look(bench: &Bench, key: &str) -> Answer {
    bench.get(&format!("/do/order/{key}")).await
}

async fn sqlite() -> Bench {
    let component = consign_orders::store::sqlite_component();
    let (bench, store) = testing::Bench::sqlite_with(vec![component]).await;
    with_orders(bench, store, &OrdersOptions::default()).await
}

/// The same on PostgreSQL, with its database.
async fn postgres(options: &OrdersOptions) -> (TestDatabase, Bench) {
    let database = TestDatabase::create(async |_| {}).await;
    let mut connect = PostgresOptions::new(database.url());
    let component = consign_orders::store::POSTGRES_COMPONENT;
    connect.components.push(component);
    consign_postgres::migrate(&connect).await.unwrap();
    let store = Arc::new(PostgresStore::connect(&connect).await.unwrap());
    let clock = consign_kernel::ManualClock::at(jiff::Timestamp::now());
    let bench = testing::Bench::on(store.clone(), clock, None).await;
    (database, with_orders(bench, store, options).await)
}

async fn with_orders<A>(
    bench: testing::Bench<A>,
    ledger: Arc<dyn Ledger>,
    options: &OrdersOptions,
) -> Bench {
    let broker = consign_orders::broker(options).await.unwrap();
    let service = OrderService::new(Arc::clone(&ledger), broker, options);
    let http = OrdersHttp::new(Arc::new(service), options.wait_max());
    let queue = consign_orders::QUEUE.parse().unwrap();
    let policy = consign_orders::queue_policy(options);
    let bench = bench.with_extension(Arc::new(http), &queue, &policy).await;
    bench.with_app(ledger)
}

/// Another service in front of the same ledger.
async fn with_options(bench: Bench, change: impl FnOnce(&mut OrdersOptions)) -> Bench {
    let mut options = OrdersOptions::default();
    change(&mut options);
    let ledger = Arc::clone(&bench.app);
    with_orders(bench, ledger, &options).await
}

/// Ends the one order that is ready as a worker would.
async fn end(bench: &Bench, outcome: Outcome, code: &str, http_status: u16) -> String {
    let queue: QueueName = consign_orders::QUEUE.parse().unwrap();
    let claim = Claim::new(queue, "w1", 1);
    let lease = bench.store.claim(&claim).await.unwrap().unwrap();
    let failure = match outcome {
        Outcome::Delivered => json!(null),
        _ => json!(code),
    };
    let result = json!({
        "status": if failure.is_null() { "ok" } else { "error" },
        "order_id": "o-1", "instrument": "USDJPY", "side": "BUY",
        "requested_at": "2026-11-16T03:00:00Z", "completed_at": "2026-11-16T03:00:00Z",
        "trace_id": "t-1", "idempotency_key": KEY, "fills": [], "avg_price": null,
        "executed_qty": 0, "cost": null, "slippage": null, "reason_code": failure,
        "broker": {"name": "paper", "order_ref": null}, "warnings": [],
        "latency_ms": {"queue": 0, "broker_rtt": 0, "total": 0},
    })
    .to_string();
    let report = Report {
        code: Some(code.into()),
        result: Some(json!({
            "http_status": http_status, "result_digest": "sha256:00", "exec_result": result,
        })),
        ..Report::new(lease.messages[0].message.id, outcome)
    };
    bench.store.settle(lease.token, &[report]).await.unwrap();
    result
}

/// The matrix of the contract: what a key is answered in every state.
async fn a_key_is_answered_by_its_state(bench: &Bench) {
    let first = place(bench, KEY).await;
    first.is(201);
    assert_eq!(first.json["status"], "accepted");
    assert_eq!(first.header("idempotency-replayed"), "");
    let again = place(bench, KEY).await;
    again.is(200);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.json["outbox_id"], first.json["outbox_id"]);
    let state = look(bench, KEY).await;
    state.is(200);
    assert_eq!(
        (&state.json["status"], &state.json["http_status"]),
        (&json!("accepted"), &json!(201))
    );

    let result = end(bench, Outcome::Delivered, "EXECUTED", 200).await;
    let done = place(bench, KEY).await;
    done.is(200);
    assert_eq!(done.text, result, "byte for byte");
    let mut other = order(KEY);
    other["qty"] = json!(0.2);
    let conflict = bench.call(placing(KEY, &other, &[])).await;
    conflict.is_flat(409, "IDEMPOTENCY_CONFLICT");
    assert_eq!(conflict.json["idempotency_key"], KEY);
    let state = look(bench, KEY).await;
    assert_eq!(state.json["conflicts"], 1);
    assert_eq!(state.json["exec_result"]["status"], "ok");

    for (key, code, status) in [
        ("order-0002", "BROKER_REJECTED", 400),
        ("order-0003", "BROKER_DOWN", 503),
        ("order-0004", "BROKER_TIMEOUT", 504),
        ("order-0005", "ORDER_EXPIRED", 410),
        ("order-0006", "VALIDATION_ERROR", 422),
    ] {
        place(bench, key).await.is(201);
        let result = end(bench, Outcome::Dead, code, status).await;
        let failed = place(bench, key).await;
        failed.is(status);
        assert_eq!(failed.text, result, "{code}");
        assert_eq!(failed.header("idempotency-replayed"), "true", "{code}");
    }
}

#[tokio::test]
async fn a_repeated_key_returns_its_state_on_sqlite() {
    a_key_is_answered_by_its_state(&sqlite().await).await;
}

#[tokio::test]
async fn a_repeated_key_returns_its_state_on_postgresql() {
    let (_database, bench) = postgres(&OrdersOptions::default()).await;
    a_key_is_answered_by_its_state(&bench).await;
}

#[tokio::test]
async fn the_key_header_is_required_and_equals_the_key_in_the_body() {
    let bench = sqlite().await;
    let without = bench.post("/do/order", order(KEY)).await;
    without.is_flat(400, "IDEMPOTENCY_KEY_MISSING");
    let empty = bench.call(placing("", &order(KEY), &[])).await;
    empty.is_flat(400, "IDEMPOTENCY_KEY_MISSING");
    let other = bench.call(placing("order-0002", &order(KEY), &[])).await;
    other.is_flat(422, "IDEMPOTENCY_MISMATCH");
    let mut twice = placing(KEY, &order(KEY), &[]);
    twice
        .headers_mut()
        .append("idempotency-key", KEY.parse().unwrap());
    bench.call(twice).await.is_flat(400, "INVALID_INPUT");
    look(&bench, KEY).await.is_flat(404, "ORDER_UNKNOWN");
    let quoted = format!("\"{KEY}\"");
    bench.call(placing(&quoted, &order(KEY), &[])).await.is(201);
}

#[tokio::test]
async fn every_invalid_field_is_listed() {
    let bench = sqlite().await;
    let mut bad = order(KEY);
    bad["side"] = json!("HOLD");
    bad["qty"] = json!(0);
    bad["colour"] = json!("red");
    let answer = bench.call(placing(KEY, &bad, &[])).await;
    answer.is_flat(422, "VALIDATION_ERROR");
    let fields = answer.json["fields"].as_array().unwrap();
    for name in ["side", "qty", "colour"] {
        assert!(
            fields.iter().any(|field| field["field"] == name),
            "{name}: {}",
            answer.text
        );
    }
    let mut broken = placing(KEY, &order(KEY), &[]);
    *broken.body_mut() = Body::from("{");
    bench.call(broken).await.is_flat(422, "VALIDATION_ERROR");
    look(&bench, KEY).await.is_flat(404, "ORDER_UNKNOWN");
}

/// Before it is parsed, whatever the server takes elsewhere.
#[tokio::test]
async fn an_order_that_is_too_large_is_refused() {
    let bench = sqlite().await;
    for (bytes, status) in [
        (64 * 1024, 201),
        (64 * 1024 + 1, 413),
        (2 * 1024 * 1024, 413),
    ] {
        let mut sized = placing(KEY, &order(KEY), &[]);
        let text = order(KEY).to_string();
        let padding = " ".repeat(bytes - text.len());
        *sized.body_mut() = Body::from(text + &padding);
        let answer = bench.call(sized).await;
        match status {
            413 => answer.is_flat(413, "BODY_TOO_LARGE"),
            _ => answer.is(status),
        };
    }
}

#[tokio::test]
async fn a_preferred_wait_is_honoured_and_reported() {
    let bench = with_options(sqlite().await, |options| options.wait_max_sec = 1.0).await;
    let prefer = [("prefer", "respond-async, wait=3600")];
    let (waited, result) = tokio::join!(bench.call(placing(KEY, &order(KEY), &prefer)), async {
        consign_testkit::eventually("the order is there", Duration::from_secs(10), async || {
            look(&bench, KEY).await.status == 200
        })
        .await;
        end(&bench, Outcome::Delivered, "EXECUTED", 200).await
    });
    waited.is(201);
    assert_eq!(waited.text, result);
    assert_eq!(
        waited.header("preference-applied"),
        "wait=1",
        "not longer than it may"
    );
    // This order never ends.
    let prefer = [("prefer", "wait=1")];
    let waited = bench
        .call(placing("order-0002", &order("order-0002"), &prefer))
        .await;
    waited.is(201);
    assert_eq!(waited.json["status"], "accepted");
    let plain = place(&bench, "order-0003").await;
    assert_eq!(plain.header("preference-applied"), "");
}

#[tokio::test]
async fn draining_answers_waiting_requests() {
    let bench = sqlite().await;
    let prefer = [("prefer", "wait=30")];
    let ending = async {
        consign_testkit::eventually("the order is there", Duration::from_secs(10), async || {
            look(&bench, KEY).await.status == 200
        })
        .await;
        bench.state.drain();
    };
    let both = async { tokio::join!(bench.call(placing(KEY, &order(KEY), &prefer)), ending) };
    let both = tokio::time::timeout(Duration::from_secs(10), both).await;
    let (answer, ()) = both.expect("answered long before its wait is over");
    answer.is(201);
    assert_eq!(answer.json["status"], "accepted");
}

#[tokio::test]
async fn who_waits_takes_no_place_of_those_who_work() {
    let options = ServerOptions {
        concurrency_max: 1,
        waits_max: 1,
        ..ServerOptions::default()
    };
    let bench = sqlite().await.with_options(&options);
    let prefer = [("prefer", "wait=30")];
    let others = async {
        consign_testkit::eventually("the order is there", Duration::from_secs(10), async || {
            look(&bench, KEY).await.status == 200
        })
        .await;
        // There is one place to wait, and it is taken: this one is answered at once.
        let other = placing("order-0002", &order("order-0002"), &prefer);
        let answer = bench.call(other).await;
        answer.is(201);
        assert_eq!(answer.header("preference-applied"), "");
        end(&bench, Outcome::Delivered, "EXECUTED", 200).await;
    };
    let waiting = bench.call(placing(KEY, &order(KEY), &prefer));
    let (waited, ()) = tokio::join!(waiting, others);
    assert_eq!(waited.header("preference-applied"), "wait=30");
    assert_eq!(waited.json["status"], "ok", "{}", waited.text);
}

#[tokio::test]
async fn a_client_over_its_limit_gets_retry_after() {
    let bench = with_options(sqlite().await, |options| {
        options.rl_burst = 2;
        options.rl_rate_per_min = 1;
    })
    .await;
    let first = place(&bench, KEY).await;
    assert_eq!(first.header("x-ratelimit-limit"), "1");
    assert_eq!(first.header("x-ratelimit-remaining"), "1");
    place(&bench, KEY).await.is(200);
    let refused = place(&bench, KEY).await;
    refused.is_flat(429, "RATE_LIMITED");
    assert_eq!(refused.header("x-ratelimit-remaining"), "0");
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(refused.json["retry_after"], seconds);

    let bench = with_options(sqlite().await, |options| options.daily_quota = 1).await;
    place(&bench, KEY).await.is(201);
    let over = place(&bench, KEY).await;
    over.is_flat(429, "RATE_LIMITED");
    let seconds: u64 = over.header("retry-after").parse().unwrap();
    assert!(
        (1..=86_400).contains(&seconds),
        "until the next day: {seconds}"
    );
}

#[tokio::test]
async fn clients_have_separate_keys() {
    let entry = |name: &str| TokenEntry {
        name: name.into(),
        hash: Token::new(name).hash(),
        scopes: vec![Scope::Producer],
    };
    let options = ServerOptions {
        tokens: vec![entry("first"), entry("second")],
        ..ServerOptions::default()
    };
    let bench = sqlite().await.with_options(&options);
    let call = async |token: &str, body: Value| {
        let bearer = format!("Bearer {token}");
        bench
            .call(placing(KEY, &body, &[("authorization", &bearer)]))
            .await
    };
    call("first", order(KEY)).await.is(201);
    let mut seen = request(Method::GET, &format!("/do/order/{KEY}"), None);
    set(&mut seen, &[("authorization", "Bearer second")]);
    bench.call(seen).await.is_flat(404, "ORDER_UNKNOWN");
    let mut other = order(KEY);
    other["qty"] = json!(0.2);
    call("second", other.clone()).await.is(201);
    call("first", other)
        .await
        .is_flat(409, "IDEMPOTENCY_CONFLICT");
    let ledger = &bench.app;
    for client in ["first", "second"] {
        let row = ledger
            .entry(&client.parse().unwrap(), &KEY.parse().unwrap())
            .await;
        assert!(row.unwrap().is_some(), "{client}");
    }
}

#[tokio::test]
async fn guards_raise_errors_about_orders() {
    let bench = sqlite().await;
    let mut plain = placing(KEY, &order(KEY), &[]);
    set(&mut plain, &[("content-type", "text/plain")]);
    bench
        .call(plain)
        .await
        .is_flat(415, "UNSUPPORTED_MEDIA_TYPE");
    let mut named = placing(KEY, &order(KEY), &[]);
    set(&mut named, &[("host", "evil.example")]);
    bench.call(named).await.is_flat(403, "HOST_NOT_ALLOWED");
    let get = bench.get("/do/order").await;
    get.is_flat(405, "METHOD_NOT_ALLOWED");
    assert_eq!(get.header("allow"), "POST");
    bench.get("/do/orders").await.is_flat(404, "NOT_FOUND");
    bench
        .get("/do/order/%FF")
        .await
        .is_flat(400, "INVALID_INPUT");

    let tight = ServerOptions {
        body_max_bytes: 10,
        ..ServerOptions::default()
    };
    let bench = bench.with_options(&tight);
    place(&bench, KEY).await.is_flat(413, "BODY_TOO_LARGE");
    let rare = ServerOptions {
        rate_limit: RateLimit {
            per_second: 1,
            burst: 1,
        },
        ..ServerOptions::default()
    };
    let bench = bench.with_options(&rare);
    place(&bench, KEY).await.is(201);
    let limited = place(&bench, KEY).await;
    limited.is_flat(429, "RATE_LIMITED");
    assert_eq!(limited.json["retry_after"], 1);
    assert_eq!(limited.header("retry-after"), "1");
}

#[tokio::test]
async fn a_server_without_orders_answers_404() {
    let bench = testing::Bench::reference().await;
    let bench = bench.with_state(|state| state.with_extension(Arc::new(OrdersHttp::off())));
    let bench = bench.with_app(sqlite().await.app);
    place(&bench, KEY).await.is_flat(404, "NOT_FOUND");
    look(&bench, KEY).await.is_flat(404, "NOT_FOUND");
}

#[tokio::test]
async fn without_the_outbox_the_response_is_the_result() {
    let bench = with_options(sqlite().await, |options| options.outbox_enabled = false).await;
    let done = place(&bench, KEY).await;
    done.is(201);
    assert_eq!(
        (&done.json["status"], &done.json["executed_qty"]),
        (&json!("ok"), &json!(0.1))
    );
    let again = place(&bench, KEY).await;
    again.is(200);
    assert_eq!(again.text, done.text);
    let mut rejected = order("order-0002");
    rejected["tags"] = json!(["paper:rejected=1"]);
    let rejected = bench.call(placing("order-0002", &rejected, &[])).await;
    rejected.is(400);
    assert_eq!(rejected.json["reason_code"], "BROKER_REJECTED");
    assert_eq!(look(&bench, KEY).await.json["outbox_id"], json!(null));
}

#[tokio::test]
async fn a_trace_goes_with_the_order() {
    let bench = sqlite().await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let more = [
        ("traceparent", parent),
        ("tracestate", "v=1"),
        ("x-other", "not kept"),
    ];
    let answer = bench.call(placing(KEY, &order(KEY), &more)).await;
    let id = answer.json["outbox_id"].as_i64().unwrap();
    let message = bench.get(&format!("/v1/messages/{id}")).await;
    let headers = &message.json["message"]["headers"];
    assert_eq!(
        *headers,
        json!({"traceparent": parent, "tracestate": "v=1"})
    );
}

/// What the document allows to be null is taken as null: each such field of an order in turn.
#[tokio::test]
async fn a_field_that_may_be_null_is_accepted_as_null() {
    let bench = sqlite().await;
    let document = bench.get("/openapi.json").await.json;
    let schemas = &document["components"]["schemas"];
    let is_nullable = |schema: &Value| {
        let kinds = schema["type"]
            .as_array()
            .is_some_and(|kinds| kinds.contains(&json!("null")));
        let mut choices = schema["oneOf"].as_array().into_iter().flatten();
        kinds || choices.any(|choice| choice["type"] == "null")
    };
    let nullable = |name: &str| {
        let properties = schemas[name]["properties"].as_object().unwrap();
        let nullable = properties.iter().filter(|(_, schema)| is_nullable(schema));
        nullable.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let mut bodies: Vec<Value> = Vec::new();
    for field in nullable("OrderRequest") {
        bodies.push(json!({field: null}));
    }
    for field in nullable("RiskConstraints") {
        bodies.push(json!({"risk_constraints": {field: null}}));
    }
    assert_eq!(bodies.len(), 10, "price and nine more: {bodies:?}");
    for (n, more) in bodies.iter().enumerate() {
        let key = format!("null-{n:04}");
        let mut body = order(&key);
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = bench.call(placing(&key, &body, &[])).await;
        assert_eq!(answer.status, 201, "{body}: {}", answer.text);
    }
}

/// Rounding is reported at acceptance, in a repeat and in a read.
#[tokio::test]
async fn a_rounded_order_reports_the_sent_amounts() {
    let bench = sqlite().await;
    let mut body = order(KEY);
    body["qty"] = json!(0.019);
    let first = bench.call(placing(KEY, &body, &[])).await;
    first.is(201);
    let again = bench.call(placing(KEY, &body, &[])).await;
    for answer in [first, again, look(&bench, KEY).await] {
        assert_eq!(answer.json["qty_sent"], json!(0.01), "{}", answer.text);
        assert_eq!(answer.json["price_sent"], json!(null));
        let warning = answer.json["warnings"][0].as_str().unwrap();
        assert!(
            warning.starts_with("qty 0.019 is sent as 0.01"),
            "{warning}"
        );
    }
    let exact = place(&bench, "order-0002").await;
    assert_eq!(exact.json["warnings"], json!([]));
}

/// An operator resolves an order with its fills; the client's repeat returns them.
#[tokio::test]
async fn a_held_order_is_resolved_with_its_result() {
    let bench = sqlite().await;
    let placed = place(&bench, KEY).await;
    let id = &placed.json["outbox_id"];
    let reason = json!({"reason": "in doubt"});
    bench
        .post(&format!("/v1/messages/{id}/hold"), reason)
        .await
        .is(200);
    let path = format!("/v1/messages/{id}/resolve");
    let mut found = json!({"outcome": "delivered", "reason": "their blotter has it"});
    bench
        .post(&path, found.clone())
        .await
        .is_problem(400, "invalid_input");
    let fill = json!({"px": 146.125, "qty": 0.1, "ts": "2030-01-01T00:00:00Z"});
    found["result"] = json!({"order_ref": "B-17", "fills": [fill]});
    bench.post(&path, found).await.is(200);
    let replay = place(&bench, KEY).await;
    replay.is(200);
    assert_eq!(replay.json["executed_qty"], json!(0.1), "{}", replay.text);
    assert_eq!(replay.json["fills"], json!([fill]));
    assert_eq!(replay.json["broker"]["order_ref"], "B-17");
    assert_eq!(place(&bench, KEY).await.text, replay.text, "byte for byte");
}
