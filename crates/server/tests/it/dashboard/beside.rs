//! Which other messages belong to one.

use consign_kernel::{By, RedrivePlan};
use serde_json::json;

use super::{Browser, DashboardFixture, PageAnswer, on_databases};
use crate::bench::Bench;

on_databases!(messages_that_belong_together_lead_to_each_other,);

async fn page(fixture: &DashboardFixture, id: i64) -> PageAnswer {
    let path = format!("/ui/messages/{id}");
    fixture.get(&mut Browser::default(), &path).await
}

async fn messages_that_belong_together_lead_to_each_other(bench: Bench) {
    let correlation = json!({"correlation_id": "corr/7 <x>"});
    let body = json!({"payload": 1, "key": "same", "headers": correlation});
    let path = "/v1/queues/mail/messages";
    let one = bench.post(path, body).await.json["id"].as_i64().unwrap();
    let body = json!({"payload": 2, "key": "same"});
    let path = "/v1/queues/default/messages";
    let two = bench.post(path, body).await.json["id"].as_i64().unwrap();
    let lease = bench.claim("mail", 1).await;
    let path = format!("/v1/leases/{}/settle", lease["token"].as_str().unwrap());
    let reports = json!({"reports": [{"id": one, "outcome": "dead", "code": "x"}]});
    bench.post(&path, reports).await.is(200);
    let by = By::new("ada", "sink back");
    let plan = RedrivePlan::default();
    let redrive = bench.store.start_redrive(&plan, &by).await.unwrap().id;
    bench.store.step_redrive(10).await.unwrap().unwrap();
    let fixture = DashboardFixture::open(bench).await;
    let shown = page(&fixture, one).await;
    shown
        .says(200, "The same key in other queues")
        .says(
            200,
            &format!("<a href=\"/ui/messages/{two}\">message {two}, ready</a>"),
        )
        .says(200, &format!("<a href=\"/ui/redrives/{redrive}\">"))
        .says(
            200,
            "href=\"/ui/messages?q=corr%2F7%20%3Cx%3E\">corr/7 &#60;x&#62;</a>",
        );
    let mut browser = Browser::default();
    let found = fixture
        .get(&mut browser, "/ui/messages?q=corr%2F7%20%3Cx%3E")
        .await;
    found.says(200, &format!("href=\"/ui/messages/{one}\""));
    assert_eq!(found.text.matches("<tr data-row>").count(), 1);
    page(&fixture, two).await.says(
        200,
        &format!("<a href=\"/ui/messages/{one}\">message {one}, ready</a>"),
    );
    let audit = fixture.get(&mut browser, "/ui/audit?action=requeue").await;
    audit.says(200, &format!("<a href=\"/ui/redrives/{redrive}\">"));
}
