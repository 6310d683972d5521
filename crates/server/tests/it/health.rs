//! Probes.

use std::time::Duration;

use consign_kernel::Error;
use serde_json::json;

use crate::{
    bench::{Bench, on_stores},
    faults::{Fault, FaultyStore},
    queues::status,
};

on_stores!(a_healthy_server_is_ready, a_draining_server_is_not_ready);

async fn a_healthy_server_is_ready(bench: Bench) {
    let answer = bench.get("/readyz").await;
    answer.is(200);
    assert_eq!(answer.json["status"], "ready");
    assert_eq!(answer.json["reasons"], json!([]));
    assert_eq!(bench.get("/healthz").await.json, json!({"status": "alive"}));
    let index = bench.get("/").await;
    assert!(index.text.contains("/openapi.json"), "{}", index.text);
    assert_eq!(index.header("x-content-type-options"), "nosniff");
    assert_eq!(index.header("cache-control"), "no-store");
}

async fn a_draining_server_is_not_ready(bench: Bench) {
    bench.state.drain();
    let answer = bench.get("/readyz").await;
    answer.is(503);
    assert_eq!(
        answer.json["reasons"],
        json!(["the process is shutting down"])
    );
    bench.get("/healthz").await.is(200);
}

#[tokio::test]
async fn a_server_without_its_database_is_alive_but_not_ready() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    store.inject("probe", Fault::Refused);
    let bench = bench.with_store(store.clone());
    let answer = bench.get("/readyz").await;
    answer.is(503);
    let reason = answer.json["reasons"][0].as_str().unwrap();
    assert!(reason.contains("the database is not available"), "{reason}");
    assert!(!answer.text.contains("secret-host"), "{}", answer.text);
    bench.get("/healthz").await.is(200);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_does_not_answer_is_not_waited_for() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    let never = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    store.inject("probe", Fault::Waits(never));
    let bench = bench.with_store(store.clone());
    let answer = bench.get("/readyz").await;
    answer.is(503);
    assert_eq!(
        answer.json["reasons"],
        json!(["the database does not answer"])
    );
}

#[tokio::test(start_paused = true)]
async fn probes_need_no_token_and_do_not_overload_the_database() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    let bench = bench.with_store(store.clone());
    for _ in 0..100 {
        bench.get("/readyz").await.is(200);
    }
    assert_eq!(store.calls("probe"), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    store.inject("probe", Fault::Refused);
    bench.get("/readyz").await.is(503);
}

#[tokio::test]
async fn a_schema_that_does_not_fit_is_a_reason() {
    let bench = Bench::reference().await.with_state(|state| {
        state.with_schema_check(|| async {
            Err(Error::Schema {
                component: "engine".to_owned(),
                found: 9,
                needed: 6,
                remedy: "use a newer program",
            })
        })
    });
    let answer = bench.get("/readyz").await;
    answer.is(503);
    let reason = answer.json["reasons"][0].as_str().unwrap();
    assert!(reason.contains("version 9"), "{reason}");
}

/// A full disk, say: reading still works.
#[tokio::test]
async fn a_write_that_failed_is_a_reason_until_one_succeeds() {
    let bench = Bench::reference().await;
    let why = "database or disk is full".to_owned();
    bench.state.note_write(Some(why));
    let answer = bench.get("/readyz").await;
    answer.is(503);
    let reason = answer.json["reasons"][0].as_str().unwrap();
    assert!(reason.contains("disk is full"), "{reason}");
    bench.state.note_write(None);
    bench.get("/readyz").await.is(200);
}

#[tokio::test]
async fn a_worker_whose_claim_loop_stands_still_is_a_reason() {
    let bench = Bench::reference().await;
    let ticking = bench.with_state(|state| state.with_worker(|| status("mail")));
    ticking.get("/readyz").await.is(200);
    let stuck = ticking.with_state(|state| {
        state.with_worker(|| {
            let mut status = status("mail");
            status.queues[0].last_tick_age = Duration::from_secs(31);
            status
        })
    });
    let answer = stuck.get("/readyz").await;
    answer.is(503);
    let reason = answer.json["reasons"][0].as_str().unwrap();
    assert!(reason.contains("queue mail last ran 31 s ago"), "{reason}");
    let draining = stuck.with_state(|state| {
        state.with_worker(|| {
            let mut status = status("mail");
            status.draining = true;
            status
        })
    });
    let answer = draining.get("/readyz").await;
    assert_eq!(answer.json["reasons"], json!(["the worker is draining"]));
}
