//! What can be done from pages, by whom; and that the audit knows.

use serde_json::json;

use super::{AUDITOR, Browser, DashboardFixture, OPERATOR};
use crate::bench::{Bench, on_stores};

on_stores!(
    who_may_only_look_sees_no_buttons_and_is_refused,
    a_dead_message_is_explained_and_requeued_with_a_reason,
    what_the_api_refuses_a_page_cannot_do,
    a_message_is_held_put_back_and_resolved,
    a_queue_is_paused_and_resumed,
    dead_messages_are_previewed_and_redriven,
    a_payload_is_hidden_until_a_reason_is_given,
);

async fn who_may_only_look_sees_no_buttons_and_is_refused(bench: Bench) {
    let dead = bench.bury("mail", "no_use").await;
    let ready = bench.enqueue("mail", json!(1)).await;
    let fixture = DashboardFixture::guarded(bench).await;
    let mut anton = fixture.login(AUDITOR).await;
    let (dead, ready) = (
        format!("/ui/messages/{dead}"),
        format!("/ui/messages/{ready}"),
    );
    for path in [
        &dead,
        &ready,
        "/ui/queues/mail",
        "/ui/dead",
        "/ui/audit",
        "/",
        "/ui/processes",
        "/ui/history",
    ] {
        let page = fixture.get(&mut anton, path).await;
        page.says(200, "anton");
        let forms = page.text.matches("method=\"post\"").count();
        // To look at a payload is to look.
        let looks = page.text.matches("/reveal\"").count();
        assert_eq!(
            forms - looks,
            1,
            "only the way out is a button of {path}: {}",
            page.text
        );
        assert!(page.has_form("/ui/logout") && !page.text.contains("Preview"));
    }
    let csrf = fixture
        .get(&mut anton, "/")
        .await
        .form("/ui/logout")
        .get("csrf")
        .to_owned();
    let fields = [
        ("csrf", csrf.as_str()),
        ("reason", "because"),
        ("outcome", "dead"),
    ];
    for path in [
        format!("{dead}/requeue"),
        format!("{dead}/erase"),
        format!("{ready}/hold"),
        format!("{ready}/unhold"),
        format!("{ready}/resolve"),
        "/ui/queues/mail/pause".to_owned(),
        "/ui/queues/mail/resume".to_owned(),
        "/ui/redrives".to_owned(),
        "/ui/redrives/1/stop".to_owned(),
        "/ui/redrives/1/resume".to_owned(),
    ] {
        let refused = fixture.post(&mut anton, &path, &fields).await;
        refused.says(403, "scope_missing");
    }
    fixture
        .get(&mut anton, "/ui/dead/preview")
        .await
        .says(403, "scope_missing");
    // Links change nothing.
    let mut olga = fixture.login(OPERATOR).await;
    let followed = fixture.get(&mut olga, &format!("{dead}/requeue")).await;
    followed.says(405, "method_not_allowed");
}

async fn a_dead_message_is_explained_and_requeued_with_a_reason(bench: Bench) {
    let id = bench.bury("mail", "no_use").await;
    let fixture = DashboardFixture::guarded(bench).await;
    let mut olga = fixture.login(OPERATOR).await;
    let path = format!("/ui/messages/{id}");
    let page = fixture.get(&mut olga, &path).await;
    page.says(200, "not tried again until it is requeued")
        .says(200, "no_use");
    page.says(200, "(fence ");
    assert!(!page.text.contains("poison"), "the payload is hidden");
    let action = format!("{path}/requeue");
    let without = fixture
        .send(&mut olga, &page, &action, &[("reason", "  ")])
        .await;
    without.says(400, "reason_required");
    let done = fixture
        .send(&mut olga, &page, &action, &[("reason", "sink fixed")])
        .await;
    done.leads_to(&format!("{path}?done=requeue"));
    let page = fixture.get(&mut olga, done.header("location")).await;
    page.says(200, "attempt 1 by w1 ended in dead (no_use: no use)");
    page.says(200, "Requeued")
        .says(200, "sink fixed")
        .says(200, "by olga");
    assert!(!page.has_form(&action) && page.has_form(&format!("{path}/hold")));
    let audit = fixture.get(&mut olga, "/ui/audit?action=requeue").await;
    audit.says(200, "sink fixed");
    let other = fixture.get(&mut olga, "/ui/audit?action=hold").await;
    assert!(!other.text.contains("sink fixed"));
}

async fn what_the_api_refuses_a_page_cannot_do(bench: Bench) {
    let id = bench.enqueue("mail", json!(1)).await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = fixture
        .get(&mut browser, &format!("/ui/messages/{id}"))
        .await;
    let csrf = page
        .form(&format!("/ui/messages/{id}/hold"))
        .get("csrf")
        .to_owned();
    let fields = [
        ("csrf", csrf.as_str()),
        ("reason", "why not"),
        ("outcome", "delivered"),
    ];
    for (action, code) in [
        ("requeue", "not_dead"),
        ("unhold", "not_held"),
        ("resolve", "not_held"),
    ] {
        let refused = fixture
            .post(
                &mut browser,
                &format!("/ui/messages/{id}/{action}"),
                &fields,
            )
            .await;
        refused.says(409, code).says(409, "What to do");
    }
    let gone = fixture
        .post(&mut browser, "/ui/messages/99999/requeue", &fields)
        .await;
    gone.says(404, "no_such_message");
    let queue = fixture
        .post(&mut browser, "/ui/queues/nothing/pause", &fields)
        .await;
    queue.says(404, "unknown_queue");
    let long = "x".repeat(5_000);
    let fields = [("csrf", csrf.as_str()), ("reason", long.as_str())];
    let refused = fixture
        .post(&mut browser, &format!("/ui/messages/{id}/hold"), &fields)
        .await;
    refused.says(400, "invalid_input");
    assert_eq!(fixture.bench.state_of(id).await, "ready");
}

async fn a_message_is_held_put_back_and_resolved(bench: Bench) {
    let id = bench.enqueue("mail", json!(1)).await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let path = format!("/ui/messages/{id}");
    type Step = (
        &'static str,
        &'static [(&'static str, &'static str)],
        &'static str,
    );
    let steps: [Step; 4] = [
        ("hold", &[("reason", "wait")], "held"),
        ("unhold", &[("reason", "go on")], "ready"),
        ("hold", &[("reason", "wait again")], "held"),
        (
            "resolve",
            &[("reason", "seen there"), ("outcome", "delivered")],
            "delivered",
        ),
    ];
    for (action, fields, state) in steps {
        let page = fixture.get(&mut browser, &path).await;
        let to = format!("{path}/{action}");
        let done = fixture.send(&mut browser, &page, &to, fields).await;
        done.leads_to(&format!("{path}?done={action}"));
        assert_eq!(fixture.bench.state_of(id).await, state);
    }
    let page = fixture.get(&mut browser, &path).await;
    page.says(200, "Delivered at")
        .says(200, "seen there")
        .says(200, "resolved");
    let actions = page.text.matches("method=\"post\"").count();
    assert_eq!(
        actions, 2,
        "it is final, and can only be looked at or erased: {}",
        page.text
    );
}

async fn a_queue_is_paused_and_resumed(bench: Bench) {
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = fixture.get(&mut browser, "/ui/queues/mail").await;
    let paused = fixture
        .send(
            &mut browser,
            &page,
            "/ui/queues/mail/pause",
            &[("reason", "sink down")],
        )
        .await;
    let page = fixture.get(&mut browser, paused.header("location")).await;
    page.says(200, "the queue is paused, ")
        .says(200, "Paused: nothing is claimed");
    fixture
        .get(&mut browser, "/")
        .await
        .says(200, "the queue is paused, ");
    let resumed = fixture
        .send(
            &mut browser,
            &page,
            "/ui/queues/mail/resume",
            &[("reason", "back")],
        )
        .await;
    resumed.leads_to("/ui/queues/mail?done=resume");
    let page = fixture.get(&mut browser, "/ui/queues/mail").await;
    assert!(page.has_form("/ui/queues/mail/pause") && !page.text.contains("the queue is paused"));
}

async fn dead_messages_are_previewed_and_redriven(bench: Bench) {
    for code in ["timeout", "timeout", "timeout", "refused"] {
        bench.bury("mail", code).await;
    }
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = fixture
        .get(&mut browser, "/ui/dead?queue=mail&code=timeout")
        .await;
    page.says(200, "timeout");
    assert!(!page.text.contains("<code>refused</code>"), "{}", page.text);
    let path = "/ui/dead/preview?queue=mail&code=timeout&limit=2&rate_per_second=100";
    let preview = fixture.get(&mut browser, path).await;
    preview.says(200, "2 dead message(s) would be requeued");
    for (path, code) in [
        ("/ui/dead/preview?limit=x", "invalid_input"),
        ("/ui/dead/preview?limit=0", "invalid_input"),
        ("/ui/dead/preview?queue=A%20B", "invalid_input"),
    ] {
        fixture.get(&mut browser, path).await.says(400, code);
    }
    let started = fixture
        .send(
            &mut browser,
            &preview,
            "/ui/redrives",
            &[("reason", "sink back")],
        )
        .await;
    assert_eq!(started.status, 303, "{}", started.text);
    let run = started
        .header("location")
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    let page = fixture.get(&mut browser, &run).await;
    page.says(200, "0 of 2 requeued").says(200, "sink back");
    let stopped = fixture
        .send(
            &mut browser,
            &page,
            &format!("{run}/stop"),
            &[("reason", "wait")],
        )
        .await;
    let page = fixture.get(&mut browser, stopped.header("location")).await;
    page.says(200, "data-state=\"stopped\"");
    let resumed = fixture
        .send(
            &mut browser,
            &page,
            &format!("{run}/resume"),
            &[("reason", "go")],
        )
        .await;
    resumed.leads_to(&format!("{run}?done=resume"));
    fixture.bench.advance(10);
    while fixture
        .bench
        .store
        .step_redrive(100)
        .await
        .unwrap()
        .is_some()
    {}
    fixture
        .get(&mut browser, &run)
        .await
        .says(200, "2 of 2 requeued")
        .says(200, "data-state=\"done\"");
    fixture
        .get(&mut browser, "/ui/dead")
        .await
        .says(200, "refused")
        .says(200, "2 of 2");
}

async fn a_payload_is_hidden_until_a_reason_is_given(bench: Bench) {
    let secret = json!({"iban": "DE02 1203", "note": "<script>alert(1)</script>"});
    let id = bench.enqueue("mail", secret).await;
    // Sinks repeat what they were sent at times.
    let claim = json!({"queue": "mail", "owner": "w", "limit": 1});
    let lease = bench.post("/v1/claims", claim).await;
    let token = lease.json["token"].as_str().unwrap();
    let report = json!({"id": id, "outcome": "delivered", "result": {"iban_echoed": "DE02"}});
    let path = format!("/v1/leases/{token}/settle");
    let settled = bench.post(&path, json!({"reports": [report]})).await;
    assert_eq!(settled.status, 200, "{}", settled.text);
    let fixture = DashboardFixture::guarded(bench).await;
    let mut anton = fixture.login(AUDITOR).await;
    let (path, action) = (
        format!("/ui/messages/{id}"),
        format!("/ui/messages/{id}/reveal"),
    );
    let page = fixture.get(&mut anton, &path).await;
    assert!(!page.text.contains("iban"), "{}", page.text);
    let without = fixture.send(&mut anton, &page, &action, &[]).await;
    without.says(400, "reason_required");
    let csrf = [("csrf", "x"), ("reason", "curious")];
    fixture
        .post(&mut anton, &action, &csrf)
        .await
        .says(403, "csrf_mismatch");
    let audit = fixture.get(&mut anton, "/ui/audit?action=reveal").await;
    audit.says(200, "Nothing");
    let shown = fixture
        .send(&mut anton, &page, &action, &[("reason", "ticket 12")])
        .await;
    shown
        .says(200, "DE02 1203")
        .says(200, "iban_echoed")
        .says(200, "&#60;script&#62;alert(1)");
    assert!(!shown.text.contains("<script>alert"));
    let audit = fixture.get(&mut anton, "/ui/audit?action=reveal").await;
    audit.says(200, "ticket 12").says(200, "anton");
    assert!(
        !fixture.get(&mut anton, &path).await.text.contains("iban"),
        "hidden again"
    );
}
