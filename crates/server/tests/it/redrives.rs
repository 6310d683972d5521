//! Requeueing by filter.

use std::time::Duration;

use consign_server::redrive;
use consign_testkit::eventually;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{
    bench::{Bench, on_stores},
    faults::{Fault, FaultyStore},
};

const SOON: Duration = Duration::from_secs(20);

on_stores!(
    a_preview_moves_nothing,
    a_redrive_moves_what_it_covers,
    a_redrive_is_stopped_and_resumed,
    a_redrive_discards_and_cancels,
    plans_are_checked,
);

async fn a_preview_moves_nothing(bench: Bench) {
    let dead = bench.bury("mail", "http_500").await;
    bench.bury("mail", "http_410").await;
    let body = json!({"queue": "mail", "code": "http_500", "dry_run": true});
    let preview = bench.post("/v1/redrives", body).await;
    preview.is(200);
    assert_eq!(preview.json["count"], 1);
    assert_eq!(preview.json["or_more"], false);
    assert_eq!(preview.json["samples"][0]["message_id"], dead);
    assert_eq!(bench.state_of(dead).await, "dead");
    assert_eq!(bench.get("/v1/redrives").await.json["redrives"], json!([]));
    let capped = json!({"limit": 1, "dry_run": true});
    let capped = bench.post("/v1/redrives", capped).await;
    assert_eq!(capped.json["count"], 1, "no more than it would take");
}

async fn a_redrive_discards_and_cancels(bench: Bench) {
    let dead = bench.bury("mail", "http_500").await;
    let ready = bench.enqueue("mail", json!(1)).await;
    let nowhere = bench
        .post("/v1/redrives", json!({"action": "cancel", "reason": "x"}))
        .await;
    nowhere.is_problem(400, "invalid_input");
    for (action, id) in [("discard", dead), ("cancel", ready)] {
        let preview = json!({"action": action, "queue": "mail", "dry_run": true});
        let preview = bench.post("/v1/redrives", preview).await;
        assert_eq!(preview.json["count"], 1, "{action}");
        let (letters, open) = (&preview.json["samples"], &preview.json["open_samples"]);
        match action {
            "discard" => {
                assert_eq!((&letters[0]["message_id"], open), (&json!(id), &json!([])));
            }
            _ => assert_eq!((letters, &open[0]["id"]), (&json!([]), &json!(id))),
        }
        let body = json!({"action": action, "queue": "mail", "reason": "not wanted"});
        let started = bench.post("/v1/redrives", body).await;
        started.is(202);
        assert_eq!(started.json["plan"]["action"], action);
        bench.state.store().step_redrive(10).await.unwrap();
        assert_eq!(bench.state_of(id).await, "discarded");
    }
}

async fn a_redrive_moves_what_it_covers(bench: Bench) {
    let wanted = bench.bury("mail", "http_500").await;
    let other = bench.bury("mail", "http_410").await;
    let (stop, stopped) = oneshot::channel::<()>();
    let stepper = tokio::spawn(redrive::run(bench.state.clone(), async {
        stopped.await.unwrap_or_default();
    }));
    let body = json!({"queue": "mail", "code": "http_500", "reason": "the endpoint is back"});
    let started = bench.post("/v1/redrives", body).await;
    started.is(202);
    let path = format!("/v1/redrives/{}", started.json["id"]);
    eventually("the redrive is done", SOON, || async {
        bench.get(&path).await.json["state"] == "done"
    })
    .await;
    let done = bench.get(&path).await.json;
    assert_eq!(done["moved"], 1);
    assert_eq!(bench.state_of(wanted).await, "ready");
    assert_eq!(bench.state_of(other).await, "dead");
    let story = bench.get(&format!("/v1/messages/{wanted}")).await.json;
    let reason = story["audit"][0]["reason"].as_str().unwrap();
    assert_eq!(
        reason,
        format!("redrive {}: the endpoint is back", done["id"])
    );
    drop(stop);
    stepper.await.unwrap();
}

async fn a_redrive_is_stopped_and_resumed(bench: Bench) {
    bench.bury("mail", "x").await;
    let body = json!({"queue": "mail", "rate_per_second": 1, "reason": "slowly"});
    let started = bench.post("/v1/redrives", body).await.json;
    assert_eq!(started["state"], "running");
    let path = format!("/v1/redrives/{}", started["id"]);
    let body = json!({"reason": "wait"});
    let stopped = bench.post(&format!("{path}/stop"), body.clone()).await;
    assert_eq!(stopped.json["state"], "stopped");
    let resumed = bench.post(&format!("{path}/resume"), body.clone()).await;
    assert_eq!(resumed.json["state"], "running");
    let listed = bench.get("/v1/redrives?limit=1").await.json;
    assert_eq!(listed["redrives"][0]["id"], started["id"]);
    for path in ["/v1/redrives/99/stop", "/v1/redrives/99/resume"] {
        let answer = bench.post(path, body.clone()).await;
        answer.is_problem(404, "unknown_redrive");
    }
    let unknown = bench.get("/v1/redrives/99").await;
    unknown.is_problem(404, "unknown_redrive");
}

async fn plans_are_checked(bench: Bench) {
    for body in [
        json!({"rate_per_second": 0, "reason": "x"}),
        json!({"limit": 0, "reason": "x"}),
        json!({"limit": 0, "dry_run": true}),
    ] {
        let answer = bench.post("/v1/redrives", body).await;
        answer.is_problem(400, "invalid_input");
    }
    let body = json!({"queue": "nowhere", "reason": "x"});
    let answer = bench.post("/v1/redrives", body).await;
    answer.is_problem(404, "unknown_queue");
}

#[tokio::test(start_paused = true)]
async fn an_idle_stepper_polls_every_two_seconds_and_is_woken_by_a_start() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    let bench = bench.with_store(store.clone());
    let stepper = tokio::spawn(redrive::run(bench.state.clone(), std::future::pending()));
    tokio::time::advance(Duration::from_secs(20)).await;
    let idle = Duration::from_secs(60);
    let before = store.calls("step_redrive");
    pass(idle).await;
    let asked = store.calls("step_redrive") - before;
    assert!((25..=31).contains(&asked), "{asked} in a minute");
    bench.bury("mail", "x").await;
    let before = store.calls("step_redrive");
    let answer: Value = bench
        .post("/v1/redrives", json!({"reason": "x"}))
        .await
        .json;
    assert_eq!(answer["state"], "running");
    pass(Duration::from_millis(10)).await;
    assert!(store.calls("step_redrive") > before, "woken at once");
    stepper.abort();
}

#[tokio::test(start_paused = true)]
async fn a_stepper_outlives_a_database_that_is_away() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    store.inject("step_redrive", Fault::Refused);
    let bench = bench.with_store(store.clone());
    let stepper = tokio::spawn(redrive::run(bench.state.clone(), std::future::pending()));
    pass(Duration::from_secs(60)).await;
    assert!(store.calls("step_redrive") <= 32, "no spinning");
    store.mend();
    let id = bench.bury("mail", "x").await;
    bench
        .post("/v1/redrives", json!({"reason": "x"}))
        .await
        .is(202);
    pass(Duration::from_secs(3)).await;
    assert_eq!(bench.state_of(id).await, "ready");
    stepper.abort();
}

/// Advances paused time while the tasks run.
async fn pass(time: Duration) {
    let never = std::future::pending::<()>();
    tokio::time::timeout(time, never).await.unwrap_err();
}
