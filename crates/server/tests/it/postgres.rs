//! The same API on PostgreSQL, through a network that can be cut.

use std::{sync::Arc, time::Duration};

use consign_kernel::ManualClock;
use consign_postgres::{PostgresOptions, PostgresStore, migrate};
use consign_testkit::{TestDatabase, eventually, fingerprint};
use jiff::Timestamp;
use serde_json::json;

use crate::bench::Bench;

const SOON: Duration = Duration::from_secs(30);

fn options(url: &str) -> PostgresOptions {
    PostgresOptions::new(url)
}

pub(crate) async fn database() -> TestDatabase {
    let name = format!(
        "consign_{}",
        fingerprint(
            options("")
                .migrations()
                .into_iter()
                .map(|migration| migration.sql)
        )
    );
    TestDatabase::from_template(&name, async |url: &str| {
        migrate(&options(url)).await.unwrap();
    })
    .await
}

async fn bench(url: &str) -> Bench {
    let store = PostgresStore::connect(&options(url)).await;
    let clock = ManualClock::at(Timestamp::now());
    Bench::on(Arc::new(store.unwrap()), clock, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_messages_whole_life() {
    let database = database().await;
    let bench = bench(database.url()).await;
    let body = json!({"payload": {"n": 1}, "key": "k"});
    let path = "/v1/queues/mail/messages";
    let id = bench.post(path, body.clone()).await.json["id"].clone();
    let again = bench.post(path, body).await;
    again.is(200);
    assert_eq!(again.json["id"], id);
    let other = bench.post(path, json!({"payload": 2, "key": "k"})).await;
    other.is_problem(422, "key_conflict");
    let lease = bench.claim("mail", 5).await;
    let path = format!("/v1/leases/{}/settle", lease["token"].as_str().unwrap());
    let reports = json!({"reports": [{"id": id, "outcome": "dead", "code": "x"}]});
    bench.post(&path, reports.clone()).await.is(200);
    assert_eq!(bench.post(&path, reports).await.json["repeated"], true);
    let stepper = tokio::spawn(consign_server::redrive::run(
        bench.state.clone(),
        std::future::pending(),
    ));
    bench
        .post("/v1/redrives", json!({"reason": "fixed"}))
        .await
        .is(202);
    let id = id.as_i64().unwrap();
    eventually("the redrive requeues it", SOON, || async {
        bench.state_of(id).await == "ready"
    })
    .await;
    stepper.abort();
    bench.get("/v1/audit").await.is(200);
    bench.get("/v1/queues").await.is(200);
    bench.get("/readyz").await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_keep_every_digit() {
    let database = database().await;
    crate::enqueue::payloads_keep_every_digit(bench(database.url()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_wakes_a_waiting_claim() {
    let database = database().await;
    let bench = Arc::new(bench(database.url()).await);
    let claim = tokio::spawn({
        let bench = Arc::clone(&bench);
        let body = json!({"queue": "mail", "wait_ms": 30_000});
        async move { bench.post("/v1/claims", body).await }
    });
    let id = bench.enqueue("mail", json!(1)).await;
    let lease = tokio::time::timeout(SOON, claim).await.unwrap().unwrap();
    assert_eq!(lease.json["messages"][0]["id"], id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_away_and_comes_back() {
    let database = database().await;
    let proxy = consign_testkit::ChaosProxy::start(database.address().await).await;
    let bench = bench(&database.url_via(proxy.address())).await;
    bench.get("/readyz").await.is(200);
    proxy.cut().await;
    let body = json!({"payload": 1, "key": "k"});
    let path = "/v1/queues/mail/messages";
    let away = bench.post(path, body.clone()).await;
    away.is_problem(503, "database_unavailable");
    assert!(["unknown", "not_done"].contains(&away.json["outcome"].as_str().unwrap()));
    eventually("the server reports that it is not ready", SOON, || async {
        bench.get("/readyz").await.status == 503
    })
    .await;
    proxy.restore();
    eventually("the repeated enqueue succeeds", SOON, || async {
        bench.post(path, body.clone()).await.status.is_success()
    })
    .await;
    eventually("the server is ready again", SOON, || async {
        bench.get("/readyz").await.status == 200
    })
    .await;
    let listed = bench.get("/v1/messages?key=k").await;
    assert_eq!(listed.json["messages"].as_array().unwrap().len(), 1);
}
