//! `consign work`: the worker alone.

use consign_testkit::eventually;

use crate::{
    http,
    service::{SOON, Service, fill, unfinished},
    support::Consign,
};

const TWO: &str =
    "[lanes.a.sink]\nkind = \"discard\"\n[lanes.b.sink]\nkind = \"discard\"\n[lanes.c]\n";

#[tokio::test]
async fn it_works_the_lanes_it_is_told_to_and_serves_its_health_only() {
    let consign = Consign::new();
    consign.configure(TWO);
    consign.run(["lanes", "set", "b"]).expect(0);
    fill(&consign, "b", 3);
    let service = Service::work(&consign, &["--lane", "a"]).await;
    fill(&consign, "a", 3);
    eventually("a is delivered", SOON, async || {
        unfinished(&consign, "a") == 0
    })
    .await;
    assert_eq!(unfinished(&consign, "b"), 3, "nobody was told to");
    let at = service.address();
    assert_eq!(http::get(at, "/healthz").await.status, 200);
    let metrics = http::get(at, "/metrics").await;
    assert!(
        metrics.body.contains("outbox_sent_total{lane=\"a\""),
        "{}",
        metrics.body
    );
    let api = http::get(at, "/v1/lanes").await;
    assert_eq!(api.status, 404, "{api:?}");
    service.stop().await;
}

#[test]
fn lanes_that_cannot_be_worked_are_refused() {
    let consign = Consign::new();
    consign.configure(TWO);
    let refused = |lane: &str| {
        let ran = consign.run(["work", "--lane", lane]).expect(2);
        ran.stderr
    };
    assert!(refused("aa").contains("did you mean a?"));
    assert!(refused("c").contains("no such lane with a sink"));
    consign.configure("[lanes.c]\n");
    let ran = consign.run(["work"]).expect(2);
    assert!(ran.stderr.contains("nothing to work on"), "{ran:#?}");
}
