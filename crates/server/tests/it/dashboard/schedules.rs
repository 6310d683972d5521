//! Schedules, the list of queues, and what the navigation leads to.

use axum::http::Method;
use serde_json::json;

use super::{AUDITOR, Browser, DashboardFixture, OPERATOR};
use crate::bench::{Bench, on_stores, request};

on_stores!(
    a_schedule_is_paused_resumed_and_run_with_a_reason,
    queues_are_listed_with_what_is_in_them,
    the_navigation_leads_to_every_page,
);

async fn a_schedule_is_paused_resumed_and_run_with_a_reason(bench: Bench) {
    let body = json!({
        "queue": "mail", "cron": "0 8 * * *", "time_zone": "Europe/Berlin",
        "payload": {"secret": "report"}, "group": "g", "reason": "a report"
    });
    let put = request(Method::PUT, "/v1/schedules/daily", Some(body));
    bench.call(put).await.is(200);
    let fixture = DashboardFixture::guarded(bench).await;
    let mut anton = fixture.login(AUDITOR).await;
    let list = fixture.get(&mut anton, "/ui/schedules").await;
    list.says(200, "href=\"/ui/schedules/daily\"")
        .says(200, "0 8 * * *")
        .says(200, "Europe/Berlin")
        .says(200, ">in ");
    let path = "/ui/schedules/daily";
    let page = fixture.get(&mut anton, path).await;
    page.says(200, "one message stands for all of them");
    assert!(!page.has_form("/ui/schedules/daily/pause") && !page.text.contains("secret"));
    let csrf = page.form("/ui/logout").get("csrf").to_owned();
    let fields = [("csrf", csrf.as_str()), ("reason", "x")];
    let pause = format!("{path}/pause");
    let refused = fixture.post(&mut anton, &pause, &fields).await;
    refused.says(403, "scope_missing");

    let mut olga = fixture.login(OPERATOR).await;
    for (action, shown) in [
        ("pause", "none while it is paused"),
        ("resume", "Resumed"),
        ("run", "Enqueued a message beside the ticks"),
    ] {
        let page = fixture.get(&mut olga, path).await;
        let to = format!("{path}/{action}");
        let reason = [("reason", "maintenance")];
        let done = fixture.send(&mut olga, &page, &to, &reason).await;
        done.leads_to(&format!("{path}?done={action}_schedule"));
        let page = fixture.get(&mut olga, done.header("location")).await;
        page.says(200, shown);
    }
    let page = fixture.get(&mut olga, path).await;
    page.says(200, "href=\"/ui/messages/1\"");
    let audit = fixture.get(&mut olga, "/ui/audit?queue=mail").await;
    audit
        .says(200, "pause_schedule")
        .says(200, "run_schedule")
        .says(200, "maintenance");
    fixture
        .get(&mut olga, "/ui/schedules/nothing")
        .await
        .says(404, "unknown_schedule");
}

async fn queues_are_listed_with_what_is_in_them(bench: Bench) {
    bench.bury("mail", "no_use").await;
    bench.enqueue("mail", json!(1)).await;
    let fixture = DashboardFixture::open(bench).await;
    let page = fixture.get(&mut Browser::default(), "/ui/queues").await;
    page.says(200, "href=\"/ui/queues/default\"")
        .says(200, "href=\"/ui/dead?queue=mail\"")
        .says(200, "<dt>Queues</dt><dd>2</dd>")
        .says(200, "<dt>Dead</dt><dd class=\"bad\">1</dd>");
    let rest = fixture
        .get(&mut Browser::default(), "/ui/queues?after=default")
        .await;
    assert!(!rest.text.contains("href=\"/ui/queues/default\""));
}

async fn the_navigation_leads_to_every_page(bench: Bench) {
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = fixture.get(&mut browser, "/").await;
    for (path, word) in [
        ("/", "Overview"),
        ("/ui/queues", "Queues"),
        ("/ui/messages", "Messages"),
        ("/ui/dead", "Dead letters"),
        ("/ui/schedules", "Schedules"),
        ("/ui/processes", "Processes"),
        ("/ui/audit", "Audit"),
        ("/ui/history", "History"),
    ] {
        let page = page.says(200, &format!("<a href=\"{path}\""));
        page.says(200, &format!("</svg>{word}</a>"));
        let there = fixture.get(&mut browser, path).await;
        there.says(200, &format!("<a href=\"{path}\" aria-current=\"page\">"));
    }
    // An app that is not there has no entry.
    assert!(!page.text.contains("</svg>Memory</a>"));
    let former = fixture.get(&mut browser, "/ui/leases").await;
    former.leads_to("/ui/processes");
}
