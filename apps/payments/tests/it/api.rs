//! Payments over HTTP: what the routes add to the payment service, and that every answer is
//! described.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::http::Method;
use consign_kernel::{Claim, QueueName};
use consign_payments::{
    Completion, OutboxId, PaymentService, Payments, PaymentsHttp, PaymentsOptions,
};
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_server::{
    Scope, ServerOptions, Token, TokenEntry,
    testing::{self, Answer, request, set},
};
use consign_testkit::TestDatabase;
use serde_json::{Value, json};
use uuid::Uuid;

mod dashboard;
mod work;

/// A server that accepts payments, without a worker.
type Bench = testing::Bench<Arc<dyn Payments>>;

/// Generous: a busy machine must not fail a test.
const SOON: Duration = Duration::from_secs(20);
const TENANT: &str = "0190f3a2-7b1c-7000-8000-00000000000a";
const OTHER: &str = "0190f3a2-7b1c-7000-8000-00000000000b";

fn payment(number: u32) -> Value {
    json!({
        "instruction_id": format!("0190f3a2-7b1c-7000-8000-{number:012}"),
        "idempotency_key": format!("key-{number}"),
        "tenant_id": TENANT,
        "participant_id": "bank-a",
        "rail_type": "PAYMENT",
        "amount_minor": 1250,
        "currency_code": "ZMW",
        "beneficiary_ref_hash": "9f2c",
        "submitted_at_utc": "2026-11-16T03:00:00Z",
    })
}

async fn pay(bench: &Bench, number: u32) -> String {
    let answer = bench.post("/v1/payments", payment(number)).await;
    answer.is(202);
    answer.json["outbox_id"].as_str().unwrap().to_owned()
}

async fn show(bench: &Bench, id: &str) -> Answer {
    bench.get(&format!("/v1/payments/{id}")).await
}

async fn sqlite() -> Bench {
    let component = consign_payments::store::sqlite_component();
    let (bench, store) = testing::Bench::sqlite_with(vec![component]).await;
    with_payments(bench, store, BTreeMap::new()).await
}

/// The same on PostgreSQL, with its database.
async fn postgres() -> (TestDatabase, Bench) {
    let database = TestDatabase::create(async |_| {}).await;
    let mut connect = PostgresOptions::new(database.url());
    let component = consign_payments::store::POSTGRES_COMPONENT;
    connect.components.push(component);
    consign_postgres::migrate(&connect).await.unwrap();
    let store = Arc::new(PostgresStore::connect(&connect).await.unwrap());
    let clock = consign_kernel::ManualClock::at(jiff::Timestamp::now());
    let bench = testing::Bench::on(store.clone(), clock, None).await;
    (database, with_payments(bench, store, BTreeMap::new()).await)
}

async fn with_payments<A>(
    bench: testing::Bench<A>,
    payments: Arc<dyn Payments>,
    tenants: BTreeMap<String, Uuid>,
) -> Bench {
    let options = PaymentsOptions::default();
    let policy = consign_payments::queue_policy(&options);
    let service = PaymentService::new(Arc::clone(&payments), options);
    let http = Arc::new(PaymentsHttp::new(service, Arc::clone(&payments)));
    let queue = consign_payments::queue();
    let bench = bench.with_extension(http, &queue, &policy).await;
    let bench = bench.with_state(|state| state.with_tenants(tenants));
    bench.with_app(payments)
}

/// Ends the one payment that is ready as a worker would.
async fn dispatch(bench: &Bench, id: &str) {
    let queue: QueueName = consign_payments::QUEUE.parse().unwrap();
    let claim = Claim::new(queue, "w1", 1);
    let lease = bench.store.claim(&claim).await.unwrap().unwrap();
    let id: OutboxId = id.parse().unwrap();
    let completion = Completion::dispatched(id, "RAIL-1");
    let payments = &bench.app;
    let done = payments.complete(lease.token, "w1", &[completion]).await;
    done.unwrap();
}

/// A repeat is answered with the first payment, whatever has become of it.
async fn a_repeat_finds_the_first_payment(bench: &Bench) {
    let first = bench.post("/v1/payments", payment(1)).await;
    first.is(202);
    assert_eq!(first.header("idempotency-replayed"), "");
    assert_eq!(first.json["outbox_state"], "PENDING");
    assert_eq!(first.json["sequence_id"], 1);
    let id = first.json["outbox_id"].as_str().unwrap();
    let again = bench.post("/v1/payments", payment(1)).await;
    again.is(202);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.json, first.json);

    let mut twin = payment(1);
    twin["amount_minor"] = json!(1251);
    let conflict = bench.post("/v1/payments", twin).await;
    conflict.is_flat(409, "IDEMPOTENCY_CONFLICT");
    assert_eq!(conflict.json["field"], "payload");
    assert_eq!(conflict.json["outbox_id"], id);

    dispatch(bench, id).await;
    let seen = show(bench, id).await;
    seen.is(200);
    assert_eq!(seen.json["state"], "DISPATCHED");
    let attempt = &seen.json["attempts"][0];
    assert_eq!(attempt["state"], "DISPATCHED");
    assert_eq!(attempt["rail_reference"], "RAIL-1");
    let after = bench.post("/v1/payments", payment(1)).await;
    assert_eq!(after.json["outbox_id"], id);
    assert_eq!(after.json["outbox_state"], "DISPATCHED");
}

#[tokio::test]
async fn a_repeated_post_returns_the_first_payment_on_sqlite() {
    a_repeat_finds_the_first_payment(&sqlite().await).await;
}

#[tokio::test]
async fn a_repeated_post_returns_the_first_payment_on_postgresql() {
    let (_database, bench) = postgres().await;
    a_repeat_finds_the_first_payment(&bench).await;
}

/// Every invalid field is listed, and unreadable requests have their own code.
#[tokio::test]
async fn every_bad_field_is_named() {
    let bench = sqlite().await;
    let mut bad = payment(1);
    bad["amount_minor"] = json!("1250");
    bad["currency_code"] = json!("zmw");
    bad["tenant_id"] = json!("tenant");
    let answer = bench.post("/v1/payments", bad).await;
    answer.is_flat(400, "SCHEMA_VALIDATION_FAILED");
    let errors = answer.json["errors"].as_array().unwrap();
    for name in ["amount_minor", "currency_code", "tenant_id"] {
        let is_named = errors.iter().any(|error| error["field"] == name);
        assert!(is_named, "{name}: {}", answer.text);
    }
    bench
        .post("/v1/payments", json!([]))
        .await
        .is_flat(400, "INVALID_REQUEST");
    let mut plain = request(Method::POST, "/v1/payments", Some(payment(1)));
    set(&mut plain, &[("content-type", "text/plain")]);
    bench
        .call(plain)
        .await
        .is_flat(415, "UNSUPPORTED_MEDIA_TYPE");
    let list = bench.get("/v1/payments").await;
    assert_eq!(list.json["payments"], json!([]), "nothing was taken");
}

/// The way of other queues does not dispatch a payment under no reference.
#[tokio::test]
async fn a_settle_without_the_rails_reference_is_refused() {
    let bench = sqlite().await;
    let id = pay(&bench, 1).await;
    let claim = Claim::new("payments".parse().unwrap(), "w", 1);
    let lease = bench.store.claim(&claim).await.unwrap().unwrap();
    let path = format!("/v1/leases/{}/settle", lease.token);
    let message = lease.messages[0].message.id.0;
    let settle = async |report| bench.post(&path, json!({ "reports": [report] })).await;
    let refused = settle(json!({"id": message, "outcome": "delivered"})).await;
    refused.is(400);
    assert_eq!(show(&bench, &id).await.json["state"], "PENDING");
    let result = json!({"rail_reference": "REF-1"});
    let settled = settle(json!({"id": message, "outcome": "delivered", "result": result})).await;
    settled.is(200);
    assert_eq!(show(&bench, &id).await.json["state"], "DISPATCHED");
}

#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let bench = sqlite().await;
    for number in 1..=3 {
        pay(&bench, number).await;
    }
    let mut other = payment(4);
    other["tenant_id"] = json!(OTHER);
    other["participant_id"] = json!("bank-b");
    bench.post("/v1/payments", other).await.is(202);
    let sequences = async |query: &str| {
        let answer = bench.get(&format!("/v1/payments?{query}")).await;
        answer.is(200);
        let payments = answer.json["payments"].as_array().unwrap();
        let numbers = payments.iter().map(|p| p["sequence_id"].as_i64().unwrap());
        (numbers.collect::<Vec<_>>(), answer)
    };
    assert_eq!(sequences(&format!("tenant_id={TENANT}")).await.0, [3, 2, 1]);
    assert_eq!(sequences(&format!("tenant_id={OTHER}")).await.0, [1]);
    assert_eq!(sequences("participant_id=bank-a").await.0, [3, 2, 1]);
    assert_eq!(sequences("state=DISPATCHED").await.0, [] as [i64; 0]);
    assert_eq!(sequences("state=PENDING").await.0.len(), 4);
    let (first, page) = sequences("participant_id=bank-a&limit=2").await;
    assert_eq!(first, [3, 2]);
    let next = page.json["next"].as_i64().unwrap();
    let link = format!("</v1/payments?participant_id=bank-a&limit=2&before={next}>; rel=\"next\"");
    assert_eq!(page.header("link"), link);
    let (rest, last) = sequences(&format!("participant_id=bank-a&before={next}")).await;
    assert_eq!(rest, [1]);
    assert!(last.json["next"].is_null());
    for bad in ["tenant_id=x", "state=paid", "colour=red"] {
        let answer = bench.get(&format!("/v1/payments?{bad}")).await;
        answer.is_flat(400, "BAD_QUERY");
    }
}

#[tokio::test]
async fn a_person_moves_payments_by_their_outbox_id() {
    let bench = sqlite().await;
    let id = pay(&bench, 1).await;
    let reason = json!({"reason": "compliance"});
    let act = async |what: &str, body: Value| {
        let path = format!("/v1/payments/{id}/{what}");
        bench.post(&path, body).await
    };
    act("hold", json!({})).await.is_flat(400, "REASON_REQUIRED");
    act("requeue", reason.clone())
        .await
        .is_flat(409, "NOT_DEAD");
    act("release", reason.clone())
        .await
        .is_flat(409, "NOT_HELD");
    let held = act("hold", reason.clone()).await;
    held.is(200);
    assert_eq!(held.json, json!({"outbox_id": id, "state": "HELD"}));
    act("hold", reason.clone())
        .await
        .is_flat(409, "NOT_HOLDABLE");
    act("release", reason.clone()).await.is(200);
    act("hold", reason.clone()).await.is(200);
    let failed = json!({"outcome": "failed", "reason": "the rail does not have it"});
    let resolved = act("resolve", failed).await;
    assert_eq!(resolved.json["state"], "FAILED");
    assert_eq!(show(&bench, &id).await.json["state"], "FAILED");
    let requeued = act("requeue", reason.clone()).await;
    assert_eq!(requeued.json["state"], "PENDING");
    act("hold", reason.clone()).await.is(200);
    let mut paid = json!({"outcome": "dispatched", "reason": "it is in the rail's books"});
    let nameless = act("resolve", paid.clone()).await;
    nameless.is_flat(400, "INVALID_INPUT");
    paid["rail_reference"] = json!("R-17");
    let resolved = act("resolve", paid).await;
    assert_eq!(resolved.json["state"], "DISPATCHED", "{}", resolved.json);
    let attempts = show(&bench, &id).await.json["attempts"].clone();
    let last = attempts.as_array().unwrap().last().unwrap();
    assert_eq!(last["rail_reference"], "R-17", "{attempts}");
    let nowhere = format!("/v1/payments/{TENANT}/hold");
    bench.post(&nowhere, reason).await.is_flat(404, "NOT_FOUND");
    show(&bench, TENANT).await.is_flat(404, "NOT_FOUND");
    show(&bench, "7").await.is_flat(404, "NOT_FOUND");
    let bad = bench
        .post("/v1/payments/7/hold", json!({"reason": "x"}))
        .await;
    bad.is_flat(400, "INVALID_INPUT");
}

fn entry(name: &str, scope: Scope) -> TokenEntry {
    TokenEntry {
        name: name.into(),
        hash: Token::new(name).hash(),
        scopes: vec![scope],
    }
}

/// A token that is bound to a tenant sees and moves nothing else, and a producer that is bound to none sees nothing.
#[tokio::test]
async fn a_token_sees_only_its_tenant() {
    let bench = sqlite().await;
    let payments = Arc::clone(&bench.app);
    let tenants = BTreeMap::from([
        ("shop".to_owned(), TENANT.parse().unwrap()),
        ("rival".to_owned(), OTHER.parse().unwrap()),
        ("clerk".to_owned(), OTHER.parse().unwrap()),
    ]);
    let options = ServerOptions {
        tokens: vec![
            entry("shop", Scope::Producer),
            entry("rival", Scope::Producer),
            entry("open", Scope::Producer),
            entry("clerk", Scope::Operator),
            entry("audit", Scope::Auditor),
        ],
        ..ServerOptions::default()
    };
    let bench = with_payments(bench, payments, tenants).await;
    let bench = bench.with_options(&options);
    let call = async |token: &str, method: Method, path: &str, body: Option<Value>| {
        let mut call = request(method, path, body);
        set(&mut call, &[("authorization", &format!("Bearer {token}"))]);
        bench.call(call).await
    };
    let taken = call("shop", Method::POST, "/v1/payments", Some(payment(1))).await;
    taken.is(202);
    let foreign = call("rival", Method::POST, "/v1/payments", Some(payment(1))).await;
    foreign.is_flat(403, "TENANT_MISMATCH");
    call("open", Method::POST, "/v1/payments", Some(payment(1)))
        .await
        .is(202);
    call("audit", Method::POST, "/v1/payments", Some(payment(1)))
        .await
        .is_flat(403, "SCOPE_MISSING");
    let one = format!("/v1/payments/{}", taken.json["outbox_id"].as_str().unwrap());
    for (token, status) in [("shop", 200), ("audit", 200), ("rival", 404), ("open", 403)] {
        let seen = call(token, Method::GET, &one, None).await;
        assert_eq!(seen.status.as_u16(), status, "{token}: {}", seen.text);
    }
    let count = async |token: &str| {
        let list = call(token, Method::GET, "/v1/payments", None).await;
        list.json["payments"].as_array().map(Vec::len)
    };
    assert_eq!(count("shop").await, Some(1));
    assert_eq!(count("rival").await, Some(0));
    assert_eq!(count("open").await, None);
    let wanted = format!("/v1/payments?tenant_id={TENANT}");
    call("rival", Method::GET, &wanted, None)
        .await
        .is_flat(403, "TENANT_MISMATCH");
    let hold = format!("{one}/hold");
    let reason = || Some(json!({"reason": "x"}));
    call("clerk", Method::POST, &hold, reason())
        .await
        .is_flat(404, "NOT_FOUND");
    call("shop", Method::POST, &hold, reason())
        .await
        .is_flat(403, "SCOPE_MISSING");
}

#[tokio::test]
async fn a_server_without_payments_answers_404() {
    let bench = testing::Bench::reference().await;
    let bench = bench.with_state(|state| state.with_extension(Arc::new(PaymentsHttp::off())));
    let answer = bench.post("/v1/payments", payment(1)).await;
    answer.is_flat(404, "NOT_FOUND");
    bench.get("/v1/payments").await.is_flat(404, "NOT_FOUND");
    bench
        .get("/v1/payments/1/2/3")
        .await
        .is_flat(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_large_request_is_refused_by_its_size() {
    let bench = sqlite().await;
    let options = PaymentsOptions::default();
    let mut large = payment(1);
    large["details"] = json!({"note": "x".repeat(options.request_bytes_max)});
    let answer = bench.post("/v1/payments", large).await;
    answer.is_flat(413, "PAYLOAD_TOO_LARGE");
}
