//! Claims that wait for messages.

use std::{sync::Arc, time::Duration};

use consign_server::ServerOptions;
use consign_testkit::eventually;
use serde_json::json;
use tokio::{
    io::AsyncWriteExt,
    sync::Semaphore,
    time::{Instant, timeout},
};

use crate::{
    bench::Bench,
    faults::{Fault, FaultyStore},
    http::{TestServer, post},
};

const SOON: Duration = Duration::from_secs(20);

fn patient() -> serde_json::Value {
    json!({"queue": "mail", "owner": "w1", "wait_ms": 30_000})
}

/// A bench whose store counts its calls.
async fn watched() -> (Arc<FaultyStore>, Bench) {
    let bench = Bench::sqlite().await;
    let store = FaultyStore::new(bench.store.clone());
    (store.clone(), bench.with_store(store))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_wakes_a_waiting_claim() {
    let (store, bench) = watched().await;
    let bench = Arc::new(bench);
    let claim = tokio::spawn({
        let bench = Arc::clone(&bench);
        async move { bench.post("/v1/claims", patient()).await }
    });
    eventually("the claim waits", SOON, || async {
        store.calls("wait") > 0
    })
    .await;
    let started = Instant::now();
    let id = bench.enqueue("mail", json!(1)).await;
    let lease = timeout(SOON, claim).await.unwrap().unwrap();
    lease.is(200);
    assert_eq!(lease.json["messages"][0]["id"], id);
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "woken, not polled"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_as_long_as_requested_and_capped() {
    let (_, bench) = watched().await;
    let started = Instant::now();
    let body = json!({"queue": "mail", "wait_ms": 100});
    bench.post("/v1/claims", body).await.is(204);
    assert!(started.elapsed() >= Duration::from_millis(100));
    let bench = bench.with_options(&ServerOptions {
        wait_max_ms: 50,
        ..ServerOptions::default()
    });
    timeout(
        SOON,
        bench.post("/v1/claims", json!({"queue": "mail", "wait_ms": u64::MAX})),
    )
    .await
    .unwrap()
    .is(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_while_waiting_gets_no_lease() {
    let (store, bench) = watched().await;
    let bench = bench.with_options(&ServerOptions {
        waits_max: 1,
        ..ServerOptions::default()
    });
    let server = TestServer::start(bench.router.clone(), &ServerOptions::default()).await;
    let mut stream = server.connect().await;
    let text = post("/v1/claims", &patient().to_string());
    stream.write_all(text.as_bytes()).await.unwrap();
    eventually("the claim waits", SOON, || async {
        store.calls("wait") > 0
    })
    .await;
    let waits = store.calls("wait");
    drop(stream);
    eventually("its place to wait is free", SOON, || async {
        let body = json!({"queue": "mail", "wait_ms": 1});
        bench.post("/v1/claims", body).await.is(204);
        store.calls("wait") > waits
    })
    .await;
    let id = bench.enqueue("mail", json!(1)).await;
    let lease = eventually_claimable(&bench).await;
    assert_eq!(lease["messages"][0]["id"], id);
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_a_disconnected_client_is_released() {
    let (store, bench) = watched().await;
    let gate = Arc::new(Semaphore::new(0));
    store.inject("claim", Fault::Waits(gate.clone()));
    let id = bench.enqueue("mail", json!(1)).await;
    let server = TestServer::start(bench.router.clone(), &ServerOptions::default()).await;
    let mut stream = server.connect().await;
    let text = post("/v1/claims", &patient().to_string());
    stream.write_all(text.as_bytes()).await.unwrap();
    eventually("the claim is under way", SOON, || async {
        store.calls("claim") == 1
    })
    .await;
    drop(stream);
    // A server that has ended its connections has noticed that the client is gone.
    server.stopped().await;
    store.mend();
    gate.add_permits(1);
    eventually("the lease is released", SOON, || async {
        store.calls("release") == 1
    })
    .await;
    let lease = eventually_claimable(&bench).await;
    assert_eq!(lease["messages"][0]["id"], id);
    assert_eq!(lease["messages"][0]["attempt_no"], 1, "nothing was counted");
}

/// Claims at once; a lease without a client would keep the message for its whole time.
async fn eventually_claimable(bench: &Bench) -> serde_json::Value {
    consign_testkit::eventually_some("the message can be claimed", SOON, || async {
        let answer = bench.post("/v1/claims", json!({"queue": "mail"})).await;
        (answer.status == 200).then_some(answer.json)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_claims_return_when_the_process_is_about_to_end() {
    let (store, bench) = watched().await;
    let bench = Arc::new(bench);
    let claim = tokio::spawn({
        let bench = Arc::clone(&bench);
        async move { bench.post("/v1/claims", patient()).await }
    });
    eventually("the claim waits", SOON, || async {
        store.calls("wait") > 0
    })
    .await;
    bench.state.drain();
    timeout(SOON, claim).await.unwrap().unwrap().is(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_claims_take_no_place_from_work_and_are_limited_themselves() {
    let (store, bench) = watched().await;
    let bench = Arc::new(bench.with_options(&ServerOptions {
        concurrency_max: 1,
        waits_max: 1,
        ..ServerOptions::default()
    }));
    let claim = tokio::spawn({
        let bench = Arc::clone(&bench);
        async move { bench.post("/v1/claims", patient()).await }
    });
    eventually("the claim waits", SOON, || async {
        store.calls("wait") > 0
    })
    .await;
    bench.get("/v1/queues").await.is(200);
    let other = bench.post("/v1/claims", patient()).await;
    other.is(204);
    bench.state.drain();
    claim.await.unwrap().is(204);
}
