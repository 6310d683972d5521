//! What is wrong now, on pages and over HTTP; and acknowledging it.

use std::time::Duration;

use consign_kernel::{BreakerReport, BreakerState, Heartbeat, OutcomeCounts, QueueStats};
use serde_json::{Value, json};

use super::{AUDITOR, Browser, DashboardFixture, OPERATOR};
use crate::bench::{Bench, name, on_stores};

on_stores!(
    problems_are_listed_and_lead_to_where_they_are_fixed,
    a_half_open_breaker_of_another_process_is_a_problem,
    a_problem_is_acknowledged_for_a_time_and_reopened,
    an_acknowledgement_from_a_page_needs_a_reason_and_the_right,
    charts_have_axes_numbers_and_a_table,
);

async fn problems(bench: &Bench) -> Vec<Value> {
    let answer = bench.get("/v1/problems").await;
    answer.is(200);
    answer.json["problems"].as_array().unwrap().clone()
}

async fn beat(bench: &Bench, breakers: Vec<BreakerReport>, done: OutcomeCounts) {
    let heartbeat = Heartbeat {
        process: "w1".into(),
        version: "1".into(),
        running_for: Duration::from_secs(60),
        queues: vec![QueueStats {
            queue: name("mail"),
            done,
        }],
        breakers,
        is_last: false,
    };
    bench.store.heartbeat(&heartbeat).await.unwrap();
}

async fn problems_are_listed_and_lead_to_where_they_are_fixed(bench: Bench) {
    assert_eq!(problems(&bench).await, Vec::<Value>::new());
    let first = bench.bury("mail", "http 500/x").await;
    bench.bury("mail", "http 500/x").await;
    let listed = problems(&bench).await;
    let [deaths] = &listed[..] else {
        panic!("one problem: {listed:?}");
    };
    assert_eq!(deaths["key"], "deaths:mail:http 500/x");
    assert_eq!(
        (&deaths["kind"], &deaths["severity"]),
        (&json!("deaths"), &json!("low"))
    );
    assert_eq!(
        (&deaths["count"], &deaths["trend"]),
        (&json!(2), &json!("worse"))
    );
    assert_eq!(deaths["path"], "/ui/dead?queue=mail&code=http%20500/x");
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = fixture.get(&mut browser, "/").await;
    page.says(
        200,
        "2 messages dead with http 500/x, 2 of them in the last 15 min",
    )
    .says(200, "getting worse");
    let page = fixture
        .get(&mut browser, deaths["path"].as_str().unwrap())
        .await;
    page.says(200, &format!("href=\"/ui/messages/{first}\""));
    let page = fixture.get(&mut browser, "/ui/queues/mail").await;
    page.says(200, "2 messages dead with");
    let page = fixture.get(&mut browser, "/ui/queues/default").await;
    assert!(
        !page.text.contains("messages dead with"),
        "of its own queue only"
    );
}

async fn a_half_open_breaker_of_another_process_is_a_problem(bench: Bench) {
    bench.enqueue("mail", json!(1)).await;
    let breaker = BreakerReport {
        queue: name("mail"),
        destination: "https://partner.example".into(),
        state: BreakerState::HalfOpen,
        lasts: Duration::from_secs(90),
    };
    beat(&bench, vec![breaker], OutcomeCounts::default()).await;
    let listed = problems(&bench).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["kind"], "breaker");
    assert_eq!(listed[0]["severity"], "critical");
    assert_eq!(listed[0]["key"], "delivery:mail");
    let fixture = DashboardFixture::open(bench).await;
    let page = fixture.get(&mut Browser::default(), "/").await;
    page.says(200, "the breaker of https://partner.example is half-open");
    beat(&fixture.bench, Vec::new(), OutcomeCounts::default()).await;
    assert_eq!(problems(&fixture.bench).await, Vec::<Value>::new());
}

async fn a_problem_is_acknowledged_for_a_time_and_reopened(bench: Bench) {
    bench.bury("mail", "http_500").await;
    let key = "deaths:mail:http_500";
    let body = json!({"problem": key, "for_ms": 600_000, "reason": "known"});
    let nothing = json!({"problem": "deaths:mail:other", "for_ms": 600_000, "reason": "known"});
    let path = "/v1/problems/acknowledge";
    bench
        .post(path, nothing)
        .await
        .is_problem(400, "invalid_input");
    let silent = json!({"problem": key, "for_ms": 600_000});
    bench
        .post(path, silent)
        .await
        .is_problem(400, "reason_required");
    let known = bench.post(path, body.clone()).await;
    known.is(200);
    assert_eq!(known.json["reason"], "known");
    let listed = problems(&bench).await;
    assert_eq!(listed[0]["acknowledged"]["until"], known.json["until"]);
    bench.advance(601);
    assert_eq!(problems(&bench).await[0]["acknowledged"], Value::Null);
    bench.post(path, body).await.is(200);
    let reopen = json!({"problem": key, "reason": "it did not help"});
    let reopened = bench.post("/v1/problems/reopen", reopen.clone()).await;
    assert_eq!(reopened.json, json!({"reopened": true}));
    let again = bench.post("/v1/problems/reopen", reopen).await;
    assert_eq!(again.json, json!({"reopened": false}));
    assert_eq!(problems(&bench).await[0]["acknowledged"], Value::Null);
}

async fn an_acknowledgement_from_a_page_needs_a_reason_and_the_right(bench: Bench) {
    bench.bury("mail", "http_500").await;
    let fixture = DashboardFixture::guarded(bench).await;
    let mut olga = fixture.login(OPERATOR).await;
    let path = "/ui/problems?problem=deaths%3Amail%3Ahttp_500";
    let page = fixture.get(&mut olga, "/").await;
    page.says(200, path);
    let page = fixture.get(&mut olga, path).await;
    let fields = [("hours", "4"), ("reason", "the partner knows")];
    let done = fixture
        .send(&mut olga, &page, "/ui/problems/acknowledge", &fields)
        .await;
    done.leads_to("/?done=acknowledge");
    let page = fixture.get(&mut olga, "/?done=acknowledge").await;
    page.says(200, "the partner knows")
        .says(200, "Acknowledged: it is listed last");
    let page = fixture.get(&mut olga, path).await;
    let fields = [("reason", "it did not help")];
    let done = fixture
        .send(&mut olga, &page, "/ui/problems/reopen", &fields)
        .await;
    done.leads_to("/?done=reopen");
    let page = fixture.get(&mut olga, "/").await;
    assert!(!page.text.contains("the partner knows"), "{}", page.text);
    let mut anton = fixture.login(AUDITOR).await;
    let page = fixture.get(&mut anton, path).await;
    page.says(200, "1 message dead with http_500");
    assert!(!page.has_form("/ui/problems/acknowledge"));
}

async fn charts_have_axes_numbers_and_a_table(bench: Bench) {
    let mut done = OutcomeCounts {
        delivered: 90,
        retried: 10,
        ..OutcomeCounts::default()
    };
    done.count_latency(Duration::from_millis(70), 100);
    beat(&bench, Vec::new(), done).await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    for (path, per_minute) in [
        ("/", "delivered 90 per minute"),
        ("/ui/queues/mail", "delivered 90 per minute"),
        ("/?window=day", "delivered 3 per minute"),
        ("/ui/queues/mail?window=week", "delivered 0.8 per minute"),
    ] {
        let page = fixture.get(&mut browser, path).await;
        page.says(200, per_minute)
            .says(200, "<title>")
            .says(200, ">100 ms<")
            .says(200, "aria-label=\"Delivery time, p50 and p99, in ms\"");
    }
    let page = fixture.get(&mut browser, "/").await;
    page.says(200, "<dt>Delivered a minute</dt><dd>18</dd>")
        .says(200, "10.0 %");
}
