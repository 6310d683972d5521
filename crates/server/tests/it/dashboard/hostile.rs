//! The text of messages, workers and links is escaped.

use axum::http::Method;
use serde_json::json;

use super::{Browser, DashboardFixture};
use crate::bench::{Bench, on_stores, request};

const EVIL: &str = "\"><script>alert('x')</script><img src=x onerror=alert(1)>&amp;'{{7*7}}";

on_stores!(
    html_in_every_field_is_text,
    html_in_links_is_text,
    a_form_shows_the_requested_fields_only,
);

#[track_caller]
fn is_harmless(path: &str, text: &str) {
    for bad in [
        "<script>alert",
        "<img src=x",
        "onerror=alert(1)>",
        "\"><script",
    ] {
        assert!(!text.contains(bad), "{path} has {bad}: {text}");
    }
}

/// A message with hostile text wherever text can be.
async fn hostile(bench: &Bench) -> i64 {
    let body = json!({
        "payload": {EVIL: EVIL}, "key": EVIL, "group": EVIL, "headers": {EVIL: EVIL, "n": {EVIL: 1}},
    });
    let answer = bench.post("/v1/queues/mail/messages", body).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let id = answer.json["id"].as_i64().unwrap();
    let claim = json!({"queue": "mail", "owner": EVIL, "limit": 1});
    let lease = bench.post("/v1/claims", claim).await;
    assert_eq!(lease.status, 200, "{}", lease.text);
    let token = lease.json["token"].as_str().unwrap();
    let report = json!({
        "id": id, "outcome": "dead", "code": EVIL, "detail": EVIL, "result": {EVIL: [EVIL]},
    });
    let path = format!("/v1/leases/{token}/settle");
    let settled = bench.post(&path, json!({"reports": [report]})).await;
    assert_eq!(settled.status, 200, "{}", settled.text);
    id
}

async fn html_in_every_field_is_text(bench: Bench) {
    let id = hostile(&bench).await;
    let reason = json!({"reason": EVIL});
    let mut move_by = request(
        Method::POST,
        &format!("/v1/messages/{id}/requeue"),
        Some(reason.clone()),
    );
    move_by.headers_mut().insert(
        "x-consign-actor",
        "<script>alert(2)</script>".parse().unwrap(),
    );
    assert_eq!(bench.call(move_by).await.status, 200);
    let claim = json!({"queue": "mail", "owner": EVIL, "limit": 1});
    assert_eq!(
        bench.post("/v1/claims", claim).await.status,
        200,
        "a lease to look at"
    );
    let other = hostile_twin(&bench).await;
    bench.post("/v1/queues/mail/pause", reason.clone()).await;
    let redrive = json!({"code": EVIL, "reason": EVIL});
    assert_eq!(bench.post("/v1/redrives", redrive).await.status, 202);
    let held = bench.enqueue("mail", json!(1)).await;
    bench
        .post(&format!("/v1/messages/{held}/hold"), reason)
        .await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    for path in [
        "/".to_owned(),
        "/ui/queues/mail".to_owned(),
        "/ui/queues/mail?state=dead".to_owned(),
        "/ui/messages".to_owned(),
        format!("/ui/messages/{id}"),
        format!("/ui/messages/{other}"),
        format!("/ui/messages/{held}"),
        "/ui/processes".to_owned(),
        "/ui/history".to_owned(),
        "/ui/dead".to_owned(),
        "/ui/redrives/1".to_owned(),
        "/ui/audit".to_owned(),
    ] {
        let page = fixture.get(&mut browser, &path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        is_harmless(&path, &page.text);
    }
    let page = fixture
        .get(&mut browser, &format!("/ui/messages/{other}"))
        .await;
    let shown = page.text.matches("&#34;&#62;&#60;script&#62;alert").count();
    assert!(
        shown >= 8,
        "key, group, headers, owner, code, detail, result: {}",
        page.text
    );
    let export = fixture
        .get(&mut browser, "/ui/audit/export?format=jsonl")
        .await;
    assert_eq!(export.header("content-type"), "application/x-ndjson");
    assert!(
        export
            .header("content-disposition")
            .starts_with("attachment")
    );
}

/// Another one, dead.
async fn hostile_twin(bench: &Bench) -> i64 {
    let body =
        json!({"payload": EVIL, "key": format!("{EVIL}2"), "group": EVIL, "headers": {EVIL: EVIL}});
    let answer = bench.post("/v1/queues/mail/messages", body).await;
    let id = answer.json["id"].as_i64().unwrap();
    let claim = json!({"queue": "mail", "owner": EVIL, "limit": 1});
    let lease = bench.post("/v1/claims", claim).await;
    let token = lease.json["token"].as_str().unwrap();
    let report = json!({"id": id, "outcome": "dead", "code": EVIL, "detail": EVIL, "result": EVIL});
    let path = format!("/v1/leases/{token}/settle");
    let settled = bench.post(&path, json!({"reports": [report]})).await;
    assert_eq!(settled.status, 200, "{}", settled.text);
    id
}

async fn html_in_links_is_text(bench: Bench) {
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let evil = "%22%3E%3Cscript%3Ealert(1)%3C/script%3E%3Cimg%20src=x%20onerror=alert(1)%3E";
    for path in [
        format!("/ui/queues/{evil}"),
        format!("/ui/messages/{evil}"),
        format!("/ui/redrives/{evil}"),
        format!("/ui/{evil}"),
        format!("/ui/messages?q={evil}"),
        format!("/ui/messages?state={evil}"),
        format!("/ui/queues/mail?q={evil}&done={evil}"),
        format!("/ui/dead?code={evil}"),
        format!("/ui/dead?queue={evil}"),
        format!("/ui/dead/preview?code={evil}"),
        format!("/ui/audit?actor={evil}&queue={evil}&action={evil}"),
        format!("/ui/audit?message={evil}"),
        format!("/ui/audit?{evil}={evil}"),
        format!("/ui/login?next={evil}"),
        format!("/ui/static/{evil}"),
        format!("/ui/events?topic={evil}"),
        format!("/?{evil}"),
    ] {
        let page = fixture.get(&mut browser, &path).await;
        assert!(page.status < 500, "{path}: {}", page.text);
        is_harmless(&path, &page.text);
    }
}

async fn a_form_shows_the_requested_fields_only(bench: Bench) {
    hostile(&bench).await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    // The code comes back whole through the link, the page and its form.
    let encoded: String = EVIL.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let path = format!("/ui/dead/preview?code={encoded}");
    let preview = fixture.get(&mut browser, &path).await;
    preview.says(200, "1 dead message(s) would be requeued");
    is_harmless(&path, &preview.text);
    assert_eq!(preview.form("/ui/redrives").get("code"), EVIL);
    let started = fixture
        .send(&mut browser, &preview, "/ui/redrives", &[("reason", EVIL)])
        .await;
    let run = fixture.get(&mut browser, started.header("location")).await;
    run.says(200, "0 of 1 requeued");
    is_harmless("redrive", &run.text);
    let found = fixture
        .get(&mut browser, &format!("/ui/messages?q={encoded}"))
        .await;
    found.says(200, "<span class=\"mark dead\">dead</span>");
    is_harmless("search", &found.text);
}
