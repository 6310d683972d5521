//! What changes without a restart.

use std::time::Duration;

use consign_testkit::eventually;

use crate::{
    http,
    receiver::{Receiver, ReplyMode},
    service::{SOON, Service, fill, unfinished},
    support::Consign,
};

#[tokio::test]
async fn a_paused_queue_rests_and_goes_on() {
    let consign = Consign::new();
    consign.configure("[queues.hello.sink]\nkind = \"discard\"\n");
    let service = Service::serve(&consign).await;
    consign.run(["pause", "hello"]).expect(0);
    fill(&consign, "hello", 3);
    let at = service.address();
    eventually("the worker knows", SOON, async || {
        http::get(at, "/v1/worker").await.json()["queues"][0]["paused"] == true
    })
    .await;
    assert_eq!(unfinished(&consign, "hello"), 3);
    let resumed = http::post(at, "/v1/queues/hello/resume", r#"{"reason": "rested"}"#).await;
    assert_eq!(resumed.status, 200, "{resumed:?}");
    eventually("all are delivered", SOON, async || {
        unfinished(&consign, "hello") == 0
    })
    .await;
    service.stop().await;
}

#[tokio::test]
async fn concurrency_changes_by_command_and_by_file() {
    let receiver = Receiver::start(ReplyMode::Hangs).await;
    let consign = Consign::new();
    let file = |concurrency: u32, filter: &str| {
        consign.configure(&format!(
            "[log]\nfilter = \"{filter}\"\n[queues.events]\nconcurrency = {concurrency}\n\
             timeout_ms = 60000\n[queues.events.sink]\n{}",
            receiver.sink()
        ));
    };
    file(1, "info");
    let service = Service::serve(&consign).await;
    fill(&consign, "events", 9);
    receiver.began(1).await;
    consign
        .run(["queues", "set", "events", "--concurrency", "3"])
        .expect(0);
    receiver.began(3).await;

    file(5, "debug");
    service.signal("HUP");
    service.logs("policy set for events").await;
    service.logs("need a restart: log.filter").await;
    receiver.began(5).await;
    assert_eq!(receiver.seen().len(), 5, "and no more than that");

    consign.configure("[queues.events]\nconcurency = 9\n");
    service.signal("HUP");
    service
        .logs("the new configuration was not applied: consign.toml:2: queues.events.concurency")
        .await;
    file(5, "info");
    receiver.set(ReplyMode::Takes(Duration::ZERO));
    eventually("all are delivered", SOON, async || {
        unfinished(&consign, "events") == 0
    })
    .await;
    service.stop().await;
}

#[tokio::test]
async fn the_file_changes_a_queue_only_where_it_differs() {
    let consign = Consign::new();
    consign
        .run([
            "queues",
            "set",
            "events",
            "--attempts",
            "3",
            "--concurrency",
            "2",
        ])
        .expect(0);
    consign
        .configure("[queues.events]\nconcurrency = 7\n[queues.events.sink]\nkind = \"discard\"\n");
    for _ in 0..2 {
        Service::serve(&consign).await.stop().await;
    }
    let shown = consign.json(["queues", "show", "events"]);
    assert_eq!(shown["policy"]["concurrency"], 7);
    assert_eq!(shown["policy"]["attempts_max"], 3, "not set");
    let service = Service::serve(&consign).await;
    let audit = http::get(service.address(), "/v1/audit").await;
    let by_file = audit.body.matches("config file").count();
    let why = "events, orders, payments and memory, each set once and not at every start";
    assert_eq!(by_file, 4, "{why}: {}", audit.body);
    service.stop().await;
}
