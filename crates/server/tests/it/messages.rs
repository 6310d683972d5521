//! Reading messages, and moving them by hand.

use consign_kernel::{By, QueuePolicy};
use serde_json::json;

use crate::bench::{Bench, on_stores};

on_stores!(
    a_message_page_shows_its_history,
    unknown_messages_are_not_found,
    a_list_of_an_unknown_queue_is_refused,
    pages_follow_each_other_to_the_end,
    lists_can_be_narrowed,
    messages_are_found_by_time_group_key_and_header,
    the_dead_are_grouped_by_cause,
    the_dead_can_be_listed_and_requeued,
    what_is_not_dead_is_not_requeued,
    messages_are_held_and_unheld,
    an_operator_records_the_outcome_of_a_held_message,
    many_are_moved_at_once,
    messages_are_discarded_and_cancelled,
    the_head_of_a_group_is_skipped,
    nothing_is_done_without_a_reason,
    the_audit_names_who_and_why,
    the_audit_has_pages,
);

async fn a_message_page_shows_its_history(bench: Bench) {
    let id = bench.bury("default", "http_410").await;
    let story = bench.get(&format!("/v1/messages/{id}")).await;
    story.is(200);
    assert_eq!(story.json["state"]["state"], "dead");
    assert_eq!(story.json["attempts"][0]["code"], "http_410");
    assert_eq!(story.json["attempts"][0]["owner"], "w1");
    let explanation = story.json["explanation"].as_str().unwrap();
    assert!(explanation.contains("http_410 (no use)"), "{explanation}");
    assert!(!story.text.contains("token"), "a token is a permission");
    let attempts = bench.get(&format!("/v1/messages/{id}/attempts")).await;
    assert_eq!(attempts.json["attempts"], story.json["attempts"]);
}

async fn a_list_of_an_unknown_queue_is_refused(bench: Bench) {
    for path in ["/v1/messages?queue=defualt", "/v1/dead?queue=defualt"] {
        let answer = bench.get(path).await;
        answer.is_problem(404, "unknown_queue");
        assert_eq!(answer.json["suggestion"], "default");
        for words in [
            "PUT /v1/queues/defualt",
            "GET /v1/queues",
            "`consign serve`",
        ] {
            assert!(answer.detail().contains(words), "{}", answer.text);
        }
    }
    bench.get("/v1/dead?queue=default").await.is(200);
}

async fn unknown_messages_are_not_found(bench: Bench) {
    for path in ["/v1/messages/99", "/v1/messages/99/attempts"] {
        bench.get(path).await.is_problem(404, "no_such_message");
    }
    let reason = json!({"reason": "x"});
    let requeue = bench.post("/v1/messages/99/requeue", reason).await;
    requeue.is_problem(404, "no_such_message");
    let word = bench.get("/v1/messages/seven").await;
    word.is_problem(400, "invalid_input");
}

async fn pages_follow_each_other_to_the_end(bench: Bench) {
    let mut expected = Vec::new();
    for n in 0..7 {
        expected.push(bench.enqueue("default", json!(n)).await);
    }
    expected.reverse();
    let mut seen = Vec::new();
    let mut path = "/v1/messages?queue=default&limit=3&state=ready".to_owned();
    for _ in 0..10 {
        let page = bench.get(&path).await;
        let ids = page.json["messages"].as_array().unwrap().iter();
        seen.extend(ids.map(|message| message["id"].as_i64().unwrap()));
        let link = page.header("link");
        if page.json["next"].is_null() {
            assert_eq!(link, "");
            break;
        }
        let (target, relation) = link.split_once('>').unwrap();
        assert_eq!(relation, "; rel=\"next\"");
        path = target.trim_start_matches('<').to_owned();
        assert!(
            path.contains("queue=default&limit=3&state=ready&before="),
            "{path}"
        );
    }
    assert_eq!(seen, expected);
}

async fn lists_can_be_narrowed(bench: Bench) {
    bench.enqueue("default", json!(1)).await;
    let body = json!({"payload": 1, "key": "k"});
    let keyed = bench.post("/v1/queues/mail/messages", body).await;
    let found = bench.get("/v1/messages?queue=mail&key=k").await;
    assert_eq!(found.json["messages"][0]["id"], keyed.json["id"]);
    assert_eq!(found.json["messages"].as_array().unwrap().len(), 1);
    for (query, suggestion) in [
        ("stat=ready", json!("state")),
        ("state=redy", json!(null)),
        ("limit=many", json!(null)),
        ("queue=No", json!(null)),
    ] {
        let answer = bench.get(&format!("/v1/messages?{query}")).await;
        answer.is_problem(400, "bad_query");
        assert_eq!(answer.json["suggestion"], suggestion, "{query}");
    }
}

async fn messages_are_found_by_time_group_key_and_header(bench: Bench) {
    let body =
        json!({"payload": 1, "key": "invoice-1", "group": "north", "headers": {"tenant": "a=b"}});
    let sent = bench.post("/v1/queues/mail/messages", body).await;
    sent.is(202);
    bench.enqueue("default", json!(2)).await;
    let found = async |query: &str| {
        let answer = bench.get(&format!("/v1/messages?{query}")).await;
        answer.is(200);
        let messages = answer.json["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|it| it["id"].clone())
            .collect::<Vec<_>>()
    };
    let id = || vec![sent.json["id"].clone()];
    assert_eq!(found("key_prefix=invoice-").await, id());
    assert_eq!(found("key_prefix=voice-").await.len(), 0);
    assert_eq!(found("group=north&queue=mail").await, id());
    assert_eq!(found("header=tenant=a%3Db").await, id());
    assert_eq!(found("header=tenant=a").await.len(), 0);
    assert_eq!(found("since=2020-01-01T00:00:00Z").await.len(), 2);
    assert_eq!(found("until=2020-01-01T00:00:00Z").await.len(), 0);
    for query in ["since=2h", "header=tenant", "until=tomorrow"] {
        let answer = bench.get(&format!("/v1/messages?{query}")).await;
        answer.is_problem(400, "bad_query");
    }
}

async fn the_dead_are_grouped_by_cause(bench: Bench) {
    let none = bench.get("/v1/dead/causes").await;
    assert_eq!(none.json, json!({"causes": [], "is_whole": true}));
    bench.bury("default", "http_410").await;
    bench.bury("mail", "http_500").await;
    let newest = bench.bury("mail", "http_500").await;
    let all = bench.get("/v1/dead/causes").await;
    all.is(200);
    let first = &all.json["causes"][0];
    for (name, value) in [
        ("queue", json!("mail")),
        ("code", json!("http_500")),
        ("messages", json!(2)),
        ("attempts_min", json!(1)),
        ("attempts_max", json!(1)),
        ("example", json!(newest)),
        ("detail", json!("no use")),
        ("destination", json!(null)),
    ] {
        assert_eq!(first[name], value, "{name}: {first}");
    }
    assert!(first["first_at"].is_string() && first["last_at"].is_string());
    let one = bench.get("/v1/dead/causes?queue=default").await;
    assert_eq!(one.json["causes"].as_array().unwrap().len(), 1);
    let answer = bench.get("/v1/dead/causes?queue=defualt").await;
    answer.is_problem(404, "unknown_queue");
}

async fn the_dead_can_be_listed_and_requeued(bench: Bench) {
    let id = bench.bury("default", "http_410").await;
    bench.bury("mail", "http_500").await;
    let all = bench.get("/v1/dead").await;
    assert_eq!(all.json["dead"].as_array().unwrap().len(), 2);
    let one = bench.get("/v1/dead?queue=default&code=http_410").await;
    assert_eq!(one.json["dead"][0]["message_id"], id);
    assert_eq!(one.json["dead"].as_array().unwrap().len(), 1);
    let path = format!("/v1/messages/{id}/requeue");
    let moved = bench.post(&path, json!({"reason": "fixed"})).await;
    moved.is(200);
    assert_eq!(
        moved.json,
        json!({"id": id, "answer": "moved", "state": "ready"})
    );
    let story = bench.get(&format!("/v1/messages/{id}")).await;
    assert_eq!(story.json["state"]["state"], "ready");
    let explanation = story.json["explanation"].as_str().unwrap();
    let last = "attempt 1 by w1 ended in dead (http_410: no use) at ";
    assert!(explanation.contains(last), "{explanation}");
}

async fn what_is_not_dead_is_not_requeued(bench: Bench) {
    let id = bench.enqueue("default", json!(1)).await;
    for (action, code) in [("requeue", "not_dead"), ("unhold", "not_held")] {
        let path = format!("/v1/messages/{id}/{action}");
        let answer = bench.post(&path, json!({"reason": "x"})).await;
        answer.is_problem(409, code);
        assert_eq!(answer.json["state"], "ready");
    }
    let dead = bench.bury("mail", "x").await;
    let path = format!("/v1/messages/{dead}/hold");
    let answer = bench.post(&path, json!({"reason": "x"})).await;
    answer.is_problem(409, "not_holdable");
}

async fn messages_are_held_and_unheld(bench: Bench) {
    let id = bench.enqueue("default", json!(1)).await;
    let hold = format!("/v1/messages/{id}/hold");
    bench.post(&hold, json!({"reason": "lawyer"})).await.is(200);
    assert_eq!(bench.state_of(id).await, "held");
    let unhold = format!("/v1/messages/{id}/unhold");
    bench.post(&unhold, json!({"reason": "done"})).await.is(200);
    assert_eq!(bench.state_of(id).await, "ready");
}

async fn an_operator_records_the_outcome_of_a_held_message(bench: Bench) {
    let one = bench.enqueue("default", json!(1)).await;
    let two = bench.enqueue("default", json!(2)).await;
    let path = format!("/v1/messages/{one}/resolve");
    let body = json!({"outcome": "delivered", "reason": "the receiver has it"});
    let ready = bench.post(&path, body.clone()).await;
    ready.is_problem(409, "not_held");
    let ids = json!({"ids": [one, two], "reason": "in doubt"});
    bench.post("/v1/messages/hold", ids).await.is(200);
    let why = bench.post(&path, json!({"outcome": "delivered"})).await;
    why.is_problem(400, "reason_required");
    let word = bench
        .post(&path, json!({"outcome": "lost", "reason": "x"}))
        .await;
    word.is_problem(400, "bad_json");
    let result = json!({"outcome": "delivered", "reason": "x", "result": {"a": 1}});
    bench
        .post(&path, result)
        .await
        .is_problem(400, "invalid_input");
    bench.post(&path, body).await.is(200);
    assert_eq!(bench.state_of(one).await, "delivered");
    let body = json!({"ids": [one, two], "outcome": "dead", "reason": "too late"});
    let answer = bench.post("/v1/messages/resolve", body).await;
    assert_eq!(
        answer.json["messages"],
        json!([
            {"id": one, "answer": "not_held", "state": "delivered"},
            {"id": two, "answer": "moved", "state": "dead"},
        ])
    );
}

async fn messages_are_discarded_and_cancelled(bench: Bench) {
    let dead = bench.bury("default", "x").await;
    let ready = bench.enqueue("default", json!(1)).await;
    let path = |id: i64, action: &str| format!("/v1/messages/{id}/{action}");
    let reason = || json!({"reason": "not wanted"});
    let refused = bench.post(&path(ready, "discard"), reason()).await;
    refused.is_problem(409, "not_discardable");
    assert_eq!(refused.json["state"], "ready");
    let refused = bench.post(&path(dead, "cancel"), reason()).await;
    refused.is_problem(409, "not_cancellable");
    let nameless = bench.post(&path(dead, "discard"), json!({})).await;
    nameless.is_problem(400, "reason_required");
    let moved = bench.post(&path(dead, "discard"), reason()).await;
    moved.is(200);
    assert_eq!(
        moved.json,
        json!({"id": dead, "answer": "moved", "state": "discarded"})
    );
    let body = json!({"ids": [dead, ready, 99], "reason": "not wanted"});
    let answer = bench.post("/v1/messages/cancel", body).await;
    assert_eq!(
        answer.json["messages"],
        json!([
            {"id": dead, "answer": "not_cancellable", "state": "discarded"},
            {"id": ready, "answer": "moved", "state": "discarded"},
            {"id": 99, "answer": "no_such_message"},
        ])
    );
    let story = bench.get(&format!("/v1/messages/{ready}")).await.json;
    assert_eq!(story["state"]["state"], "discarded");
    assert_eq!(story["state"]["reason"], "not wanted");
    assert_eq!(story["audit"][0]["action"], "cancel");
    let listed = bench.get("/v1/messages?state=discarded").await.json;
    assert_eq!(listed["messages"].as_array().unwrap().len(), 2);
}

async fn the_head_of_a_group_is_skipped(bench: Bench) {
    let policy = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    let by = By::new("ada", "in order");
    let queue = "ordered".parse().unwrap();
    bench
        .state
        .store()
        .put_queue(&queue, &policy, &by)
        .await
        .unwrap();
    let mut ids = Vec::new();
    for n in 0..2 {
        let path = "/v1/queues/ordered/messages";
        let sent = bench.post(path, json!({"payload": n, "group": "a"})).await;
        ids.push(sent.json["id"].as_i64().unwrap());
    }
    let path = "/v1/queues/ordered/skip";
    let body = |group: &str| json!({"group": group, "reason": "it never works"});
    let skipped = bench.post(path, body("a")).await;
    assert_eq!(
        skipped.json,
        json!({"id": ids[0], "answer": "moved", "state": "discarded"})
    );
    assert_eq!(bench.state_of(ids[1]).await, "ready");
    let none = bench.post(path, body("b")).await;
    none.is_problem(404, "empty_group");
    let unordered = bench.post("/v1/queues/default/skip", body("a")).await;
    unordered.is_problem(400, "invalid_input");
    let unknown = bench.post("/v1/queues/nowhere/skip", body("a")).await;
    unknown.is_problem(404, "unknown_queue");
}

async fn many_are_moved_at_once(bench: Bench) {
    let dead = bench.bury("default", "x").await;
    let ready = bench.enqueue("mail", json!(1)).await;
    let body = json!({"ids": [dead, ready, 99], "reason": "fixed"});
    let answer = bench.post("/v1/messages/requeue", body).await;
    answer.is(200);
    assert_eq!(
        answer.json["messages"],
        json!([
            {"id": dead, "answer": "moved", "state": "ready"},
            {"id": ready, "answer": "not_dead", "state": "ready"},
            {"id": 99, "answer": "no_such_message"},
        ])
    );
    for (action, state) in [("hold", "held"), ("unhold", "ready")] {
        let body = json!({"ids": [dead, ready], "reason": "look"});
        let path = format!("/v1/messages/{action}");
        bench.post(&path, body).await.is(200);
        assert_eq!(bench.state_of(dead).await, state);
        assert_eq!(bench.state_of(ready).await, state);
    }
    let many: Vec<i64> = (0..1_001).collect();
    let body = json!({"ids": many, "reason": "x"});
    let answer = bench.post("/v1/messages/requeue", body).await;
    answer.is_problem(413, "batch_too_large");
}

async fn nothing_is_done_without_a_reason(bench: Bench) {
    let id = bench.bury("default", "x").await;
    let paths = [
        format!("/v1/messages/{id}/requeue"),
        format!("/v1/messages/{id}/hold"),
        format!("/v1/messages/{id}/unhold"),
        "/v1/queues/default/pause".to_owned(),
        "/v1/queues/default/resume".to_owned(),
        "/v1/redrives".to_owned(),
        "/v1/redrives/1/stop".to_owned(),
        "/v1/redrives/1/resume".to_owned(),
    ];
    for path in paths {
        for body in [json!({}), json!({"reason": null}), json!({"reason": " "})] {
            let answer = bench.post(&path, body).await;
            answer.is_problem(400, "reason_required");
        }
    }
    let body = json!({"ids": [id]});
    let answer = bench.post("/v1/messages/requeue", body).await;
    answer.is_problem(400, "reason_required");
    assert_eq!(bench.state_of(id).await, "dead");
}

async fn the_audit_names_who_and_why(bench: Bench) {
    let id = bench.bury("default", "x").await;
    let path = format!("/v1/messages/{id}/requeue");
    let headers = [("x-consign-actor", "Ada")];
    let reason = json!({"reason": "the endpoint is back"});
    bench.post_with(&path, &headers, reason).await.is(200);
    let audit = bench.get(&format!("/v1/audit?message_id={id}")).await;
    let entry = &audit.json["audit"][0];
    assert_eq!(entry["actor"], "anonymous@127.0.0.1, Ada (unverified)");
    assert_eq!(entry["action"], "requeue");
    assert_eq!(entry["reason"], "the endpoint is back");
    let story = bench.get(&format!("/v1/messages/{id}")).await;
    assert_eq!(story.json["audit"][0], *entry);
    let long = "x".repeat(200);
    let headers = [("x-consign-actor", long.as_str())];
    let answer = bench
        .post_with(&path, &headers, json!({"reason": "x"}))
        .await;
    answer.is_problem(400, "invalid_input");
}

async fn the_audit_has_pages(bench: Bench) {
    for n in 0..5 {
        let reason = json!({"reason": format!("pause {n}")});
        bench.post("/v1/queues/mail/pause", reason).await.is(200);
    }
    let mut seen = Vec::new();
    let mut path = "/v1/audit?limit=2".to_owned();
    loop {
        let page = bench.get(&path).await;
        for entry in page.json["audit"].as_array().unwrap() {
            seen.push(entry["id"].as_i64().unwrap());
        }
        let Some(next) = page.json["next"].as_i64() else {
            break;
        };
        path = format!("/v1/audit?limit=2&before={next}");
        assert_eq!(page.header("link"), format!("<{path}>; rel=\"next\""));
    }
    assert!(seen.len() >= 5);
    assert!(seen.is_sorted_by(|newer, older| newer > older), "{seen:?}");
}
