//! Erasing messages over the API and on the dashboard.

use serde_json::{Value, json};

use crate::bench::{AUDITOR, Bench, DashboardFixture, OPERATOR, on_stores};

on_stores!(
    a_finished_message_is_erased,
    what_is_not_final_is_not_erased,
    messages_are_erased_by_key_and_correlation_id,
    an_erasure_names_one_target,
    an_erased_message_shows_as_erased_on_its_page,
);

async fn a_finished_message_is_erased(bench: Bench) {
    let id = bench.bury("mail", "http_410").await;
    let path = format!("/v1/messages/{id}/erase");
    bench
        .post(&path, json!({}))
        .await
        .is_problem(400, "reason_required");
    let body = json!({"reason": "request 12"});
    let erased = bench.post(&path, body.clone()).await;
    erased.is(200);
    assert_eq!(erased.json, json!({"id": id, "answer": "erased"}));
    let again = bench.post(&path, body.clone()).await;
    again.is(200);
    assert_eq!(again.json["answer"], "already_erased");

    let shown = bench.get(&format!("/v1/messages/{id}")).await.json;
    assert_eq!(shown["message"]["payload"], Value::Null);
    assert_eq!(shown["erased"]["reason"], "request 12");
    assert_eq!(shown["attempts"][0]["detail"], Value::Null);
    assert_eq!(shown["attempts"][0]["code"], "http_410");
    assert_eq!(shown["audit"][0]["action"], "erase");
    let explanation = shown["explanation"].as_str().unwrap();
    assert!(
        explanation.contains("Its content was erased"),
        "{explanation}"
    );
    let listed = bench.get("/v1/messages?queue=mail").await.json;
    assert_eq!(listed["messages"][0]["erased"], true);

    let requeue = format!("/v1/messages/{id}/requeue");
    bench
        .post(&requeue, body.clone())
        .await
        .is_problem(409, "erased");
    let many = json!({"ids": [id], "reason": "x"});
    let many = bench.post("/v1/messages/requeue", many).await.json;
    assert_eq!(many["messages"][0]["answer"], "erased");
    let missing = bench.post("/v1/messages/99999/erase", body).await;
    missing.is_problem(404, "no_such_message");
}

async fn what_is_not_final_is_not_erased(bench: Bench) {
    let id = bench.enqueue("mail", json!("Jane")).await;
    let path = format!("/v1/messages/{id}/erase");
    let refused = bench.post(&path, json!({"reason": "x"})).await;
    refused.is_problem(409, "not_final");
    assert_eq!(refused.json["state"], "ready");
    let shown = bench.get(&format!("/v1/messages/{id}")).await.json;
    assert_eq!(shown["message"]["payload"], "Jane");
    assert_eq!(shown["erased"], Value::Null);
}

async fn messages_are_erased_by_key_and_correlation_id(bench: Bench) {
    let body =
        |key: &str| json!({"payload": 1, "key": key, "headers": {"correlation_id": "case-7"}});
    let mut ids = Vec::new();
    for key in ["a", "b"] {
        let sent = bench.post("/v1/queues/mail/messages", body(key)).await;
        ids.push(sent.json["id"].clone());
    }
    let claim = json!({"queue": "mail", "owner": "w", "limit": 1});
    let lease = bench.post("/v1/claims", claim).await.json;
    let token = lease["token"].as_str().unwrap();
    let reports = json!({"reports": [{"id": ids[0], "outcome": "delivered"}]});
    let settle = format!("/v1/leases/{token}/settle");
    bench.post(&settle, reports).await.is(200);

    let target = json!({"queue": "mail", "key": "a", "reason": "request 12"});
    let by_key = bench.post("/v1/messages/erase", target).await;
    by_key.is(200);
    let erased = json!([{"id": ids[0], "answer": "erased"}]);
    assert_eq!(by_key.json, json!({"messages": erased, "next": null}));
    let target = json!({"correlation_id": "case-7", "reason": "request 12"});
    let by_case = bench.post("/v1/messages/erase", target).await;
    let not_final = json!([{"id": ids[1], "answer": "not_final", "state": "ready"}]);
    assert_eq!(by_case.json["messages"], not_final);
    let target = json!({"ids": [ids[0], 99_999], "reason": "request 12"});
    let by_id = bench.post("/v1/messages/erase", target).await.json;
    assert_eq!(by_id["messages"][0]["answer"], "already_erased");
    assert_eq!(by_id["messages"][1]["answer"], "no_such_message");
}

async fn an_erasure_names_one_target(bench: Bench) {
    for body in [
        json!({"reason": "x"}),
        json!({"key": "k", "reason": "x"}),
        json!({"queue": "mail", "reason": "x"}),
        json!({"ids": [1], "correlation_id": "c", "reason": "x"}),
        json!({"ids": [1], "after": 1, "reason": "x"}),
    ] {
        let refused = bench.post("/v1/messages/erase", body).await;
        refused.is_problem(400, "invalid_input");
    }
    let many = json!({"ids": vec![1; 1_001], "reason": "x"});
    let refused = bench.post("/v1/messages/erase", many).await;
    refused.is_problem(413, "batch_too_large");
    let without = bench.post("/v1/messages/erase", json!({"ids": [1]})).await;
    without.is_problem(400, "reason_required");
}

async fn an_erased_message_shows_as_erased_on_its_page(bench: Bench) {
    let id = bench.bury("mail", "http_410").await;
    let ready = bench.enqueue("mail", json!(1)).await;
    let fixture = DashboardFixture::guarded(bench).await;
    let mut browser = fixture.login(OPERATOR).await;
    let (path, action) = (
        format!("/ui/messages/{id}"),
        format!("/ui/messages/{id}/erase"),
    );
    let unfinished = fixture
        .get(&mut browser, &format!("/ui/messages/{ready}"))
        .await;
    assert!(!unfinished.text.contains("/erase\""), "not final");
    let page = fixture.get(&mut browser, &path).await;
    let done = fixture
        .send(&mut browser, &page, &action, &[("reason", "request 12")])
        .await;
    assert_eq!(done.status, 303, "{}", done.text);
    let page = fixture.get(&mut browser, &path).await;
    page.says(200, "data-erased").says(200, "request 12");
    for gone in ["/erase\"", "/requeue\"", "/reveal\""] {
        assert!(!page.text.contains(gone), "{gone}: {}", page.text);
    }
    fixture
        .get(&mut browser, "/ui/messages?queue=mail")
        .await
        .says(200, "</span> erased");
    let mut anton = fixture.login(AUDITOR).await;
    fixture
        .get(&mut anton, &path)
        .await
        .says(200, "data-erased");
}
