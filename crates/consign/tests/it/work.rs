//! `consign work`: the worker alone.

use consign_testkit::eventually;

use crate::{
    http,
    service::{SOON, Service, fill, unfinished},
    support::Consign,
};

const TWO: &str =
    "[queues.a.sink]\nkind = \"discard\"\n[queues.b.sink]\nkind = \"discard\"\n[queues.c]\n";

#[tokio::test]
async fn works_the_named_queues_and_serves_health_only() {
    let consign = Consign::new();
    consign.configure(TWO);
    consign.run(["queues", "set", "b"]).expect(0);
    fill(&consign, "b", 3);
    let service = Service::work(&consign, &["--queue", "a"]).await;
    fill(&consign, "a", 3);
    eventually("a is delivered", SOON, async || {
        unfinished(&consign, "a") == 0
    })
    .await;
    assert_eq!(unfinished(&consign, "b"), 3, "no worker has it");
    let at = service.address();
    assert_eq!(http::get(at, "/healthz").await.status, 200);
    let by_name = "GET /metrics HTTP/1.1\r\nhost: worker-7.internal\r\n";
    let scraped = http::send(at, by_name, "").await.unwrap();
    assert_eq!(scraped.status, 200, "scrapers use host names: {scraped:?}");
    let metrics = http::get(at, "/metrics").await;
    assert!(
        metrics.body.contains("outbox_sent_total{queue=\"a\""),
        "{}",
        metrics.body
    );
    let api = http::get(at, "/v1/queues").await;
    assert_eq!(api.status, 404, "{api:?}");
    let problem = api.json();
    assert_eq!(
        problem["code"], "not_found",
        "as the server answers: {problem}"
    );
    assert_eq!(problem["type"], "/problems/not_found", "{problem}");
    service.stop().await;
}

/// A worker that ends sends a last heartbeat with what it did since the one before.
#[tokio::test]
async fn logs_a_summary_when_it_stops() {
    let consign = Consign::new();
    consign.configure(TWO);
    let service = Service::work(&consign, &["--queue", "a"]).await;
    let store = consign.store().await;
    eventually("it has sent a heartbeat", SOON, async || {
        !store.processes().await.unwrap().is_empty()
    })
    .await;
    fill(&consign, "a", 3);
    eventually("a is delivered", SOON, async || {
        unfinished(&consign, "a") == 0
    })
    .await;
    service.stop().await;
    let told = store.queue_stats(None, 10, 10).await.unwrap();
    let delivered: u64 = told.iter().map(|minutes| minutes.done.delivered).sum();
    assert_eq!(delivered, 3, "{told:?}");
}

#[tokio::test]
async fn queues_with_equal_sinks_share_a_breaker() {
    let consign = Consign::new();
    let queue = |name: &str, path: &str| {
        // Nothing listens on port 1.
        format!(
            "[queues.{name}.sink]\nkind = \"http\"\nurl = \"http://127.0.0.1:1/{path}\"\nallow = \
             [\"127.0.0.1\"]\n"
        )
    };
    let queues = [queue("a", "x"), queue("b", "x"), queue("c", "y")].concat();
    consign.configure(&queues);
    let service = Service::serve(&consign).await;
    fill(&consign, "a", 50);
    let at = service.address();
    eventually("the breaker of a and b opens", SOON, async || {
        let worker = http::get(at, "/v1/worker").await.json();
        let closed = |n: usize| worker["queues"][n]["breaker"] == "closed";
        (closed(0), closed(1), closed(2)) == (false, false, true)
    })
    .await;
    service.stop().await;
}

#[test]
fn queues_that_cannot_be_worked_are_refused() {
    let consign = Consign::new();
    consign.configure(TWO);
    let refused = |queue: &str| {
        let ran = consign.run(["work", "--queue", queue]).expect(2);
        ran.stderr
    };
    assert!(refused("aa").contains("did you mean a?"));
    assert!(refused("c").contains("no such queue with a sink"));
    consign.configure(
        "[orders]\nenabled = false\n[payments]\nenabled = false\n[memory]\nenabled = false\n\
         [queues.c]\n",
    );
    let ran = consign.run(["work"]).expect(2);
    assert!(ran.stderr.contains("nothing to work on"), "{ran:#?}");
}
