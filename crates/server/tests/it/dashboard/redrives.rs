//! What is shown before a redrive is what it does; progress, stopping and resuming of a long one.

use std::time::Duration;

use consign_kernel::{MessageId, NewMessage, Outcome, Report};
use consign_testkit::eventually_some;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Browser, DashboardFixture, on_databases};
use crate::bench::{Bench, name};

on_databases!(
    what_was_previewed_is_what_is_redriven,
    ten_thousand_are_redriven_stopped_and_resumed,
    what_workers_do_by_http_counts,
);

async fn what_was_previewed_is_what_is_redriven(bench: Bench) {
    bench.bury("default", "timeout").await;
    let mut dead = Vec::new();
    for code in [
        "timeout", "refused", "timeout", "timeout", "timeout", "timeout",
    ] {
        dead.push(bench.bury("mail", code).await);
    }
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let path = "/ui/dead/preview?queue=mail&code=timeout&limit=3";
    let preview = fixture.get(&mut browser, path).await;
    preview
        .says(200, "3 dead message(s) would be requeued")
        .says(200, "All of them, in the order of the redrive");
    let links = preview
        .text
        .split("<th scope=\"row\"><a href=\"/ui/messages/");
    let shown: Vec<i64> = links
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(shown, [dead[0], dead[2], dead[3]]);
    let dry = json!({"queue": "mail", "code": "timeout", "limit": 3, "dry_run": true});
    let dry = fixture.bench.post("/v1/redrives", dry).await;
    let samples = dry.json["samples"].as_array().unwrap().iter();
    let samples: Vec<i64> = samples
        .map(|it| it["message_id"].as_i64().unwrap())
        .collect();
    assert_eq!(samples, shown, "the API shows the same");
    let reason = [("reason", "back")];
    let started = fixture
        .send(&mut browser, &preview, "/ui/redrives", &reason)
        .await;
    assert_eq!(started.status, 303, "{}", started.text);
    while fixture.bench.store.step_redrive(2).await.unwrap().is_some() {}
    let mut redriven = Vec::new();
    for id in dead {
        if fixture.bench.state_of(id).await == "ready" {
            redriven.push(id);
        }
    }
    assert_eq!(redriven, shown);
}

const SOON: Duration = Duration::from_secs(20);
const MANY: usize = 10_000;

async fn ten_thousand_are_redriven_stopped_and_resumed(bench: Bench) {
    let (store, queue) = (bench.store.clone(), name("mail"));
    let message = || NewMessage::new(queue.clone(), json!(1));
    for _ in 0..MANY / 1_000 {
        let batch: Vec<NewMessage> = (0..1_000).map(|_| message()).collect();
        store.enqueue(&batch).await.unwrap();
        let claim = consign_kernel::Claim::new(queue.clone(), "w1", 1_000);
        let lease = store.claim(&claim).await.unwrap().unwrap();
        let dead = |id: MessageId| Report {
            code: Some("gone".into()),
            ..Report::new(id, Outcome::Dead)
        };
        let reports: Vec<Report> = lease
            .messages
            .iter()
            .map(|it| dead(it.message.id))
            .collect();
        assert_eq!(reports.len(), 1_000);
        store.settle(lease.token, &reports).await.unwrap();
    }
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let preview = fixture
        .get(&mut browser, "/ui/dead/preview?queue=mail")
        .await;
    preview
        .says(200, "10,000 dead message(s) would be requeued")
        .says(200, "And 9,950 after these.");
    let fields = [("reason", "back")];
    let started = fixture
        .send(&mut browser, &preview, "/ui/redrives", &fields)
        .await;
    let run = started.header("location").split('?').next().unwrap();
    let id = run.rsplit('/').next().unwrap();
    let mut stream = fixture.server.connect().await;
    let ask = format!(
        "GET /ui/events?topic=redrive:{id} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut seen = String::new();
    for _ in 0..10 {
        store.step_redrive(200).await.unwrap().unwrap();
    }
    let page = fixture.get(&mut browser, run).await;
    page.says(200, "2,000 of 10,000 requeued");
    until(&mut stream, &mut seen, "2,000 of 10,000 requeued").await;
    let stop = format!("{run}/stop");
    fixture.send(&mut browser, &page, &stop, &fields).await;
    assert_eq!(
        store.step_redrive(200).await.unwrap(),
        None,
        "it is stopped"
    );
    let page = fixture.get(&mut browser, run).await;
    page.says(200, "data-state=\"stopped\"");
    let resume = format!("{run}/resume");
    fixture.send(&mut browser, &page, &resume, &fields).await;
    while store.step_redrive(200).await.unwrap().is_some() {}
    until(&mut stream, &mut seen, "10,000 of 10,000 requeued").await;
    let page = fixture.get(&mut browser, run).await;
    page.says(200, "10,000 of 10,000 requeued")
        .says(200, "data-state=\"done\"");
}

/// Reads on until it has come.
async fn until(stream: &mut tokio::net::TcpStream, seen: &mut String, words: &str) {
    let mut buffer = [0; 4_096];
    while !seen.contains(words) {
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut buffer));
        let read = read.await.expect("it comes in time").unwrap();
        assert_ne!(read, 0, "the stream ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
}

async fn what_workers_do_by_http_counts(bench: Bench) {
    for number in 0..3 {
        bench.enqueue("mail", json!(number)).await;
    }
    let lease = bench.claim("mail", 3).await;
    let path = format!("/v1/leases/{}/settle", lease["token"].as_str().unwrap());
    let ids: Vec<_> = lease["messages"].as_array().unwrap().iter().collect();
    let report = |at: usize, outcome: &str| json!({"id": ids[at]["id"], "outcome": outcome});
    let first = json!({"reports": [report(0, "delivered")]});
    bench.post(&path, first.clone()).await.is(200);
    bench.post(&path, first).await.is(200);
    let rest = json!({"reports": [report(1, "delivered"), report(2, "dead")]});
    // Another server of the same database counts the results reported to it.
    let other = Bench::on(bench.store.clone(), bench.clock.clone(), None).await;
    other.post(&path, rest).await.is(200);
    for (bench, delivered, dead) in [(&bench, 1, 0), (&other, 1, 1)] {
        // The other server looks up the queue, and the request does not wait for that.
        let queues = eventually_some("it is counted", SOON, || async {
            Some(bench.state.take_done()).filter(|queues| !queues.is_empty())
        })
        .await;
        assert_eq!(queues.len(), 1, "{queues:?}");
        assert_eq!(
            (queues[0].done.delivered, queues[0].done.dead),
            (delivered, dead)
        );
        let heartbeat = consign_kernel::Heartbeat {
            process: "w".into(),
            version: "1".into(),
            running_for: Duration::ZERO,
            queues,
            ..consign_kernel::Heartbeat::default()
        };
        bench.store.heartbeat(&heartbeat).await.unwrap();
    }
    let fixture = DashboardFixture::open(bench).await;
    let page = fixture
        .get(&mut Browser::default(), "/ui/queues/mail")
        .await;
    page.says(200, "delivered 2 per minute")
        .says(200, "failed 0, dead 1 per minute")
        .says(200, "consign.heartbeat");
}
