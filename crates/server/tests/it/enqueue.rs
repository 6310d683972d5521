//! Enqueueing, in every notation and with every mistake.

use axum::{
    body::Body,
    http::{Method, Request},
};
use serde_json::{Value, json};

use crate::bench::{Bench, on_stores, request, set};

on_stores!(
    a_message_is_accepted_and_can_be_read,
    a_message_is_due_at_a_time,
    a_message_expires_at_a_time,
    a_repeated_key_answers_with_the_first_message,
    a_key_for_another_payload_is_a_conflict,
    keys_in_header_and_body_must_agree,
    a_batch_is_all_or_none,
    a_batchs_key_makes_its_repetition_harmless,
    a_batch_may_come_line_by_line,
    trace_context_travels_with_the_message,
    sizes_are_limited_with_a_message,
    mistakes_are_pointed_at,
    only_what_is_declared_as_json_is_read,
    strange_bodies_are_refused,
    payloads_keep_every_digit,
    what_no_payload_can_be_is_refused_with_its_place,
    headers_are_kept_exactly_or_refused,
    numbers_of_few_bytes_cannot_fill_the_memory,
);

const PATH: &str = "/v1/queues/default/messages";

async fn a_message_is_accepted_and_can_be_read(bench: Bench) {
    let body = json!({
        "payload": {"to": "ada"}, "key": "k1", "group": "g", "headers": {"x": 1}, "delay_ms": 5_000,
    });
    let answer = bench.post(PATH, body).await;
    answer.is(202);
    assert_eq!(answer.json["state"], "ready");
    assert_eq!(answer.json["duplicate"], false);
    let id = &answer.json["id"];
    assert_eq!(answer.header("location"), format!("/v1/messages/{id}"));
    let message = bench.get(answer.header("location")).await.json;
    assert_eq!(message["message"]["payload"], json!({"to": "ada"}));
    assert_eq!(message["message"]["key"], "k1");
    assert_eq!(message["message"]["group"], "g");
    assert_eq!(message["message"]["headers"], json!({"x": 1}));
    let explanation = message["explanation"].as_str().unwrap();
    assert!(
        explanation.contains("enqueued with a delay"),
        "{explanation}"
    );
}

async fn a_repeated_key_answers_with_the_first_message(bench: Bench) {
    let body = json!({"payload": {"a": 1}});
    let first = bench
        .post_with(PATH, &[("idempotency-key", "\"order-1\"")], body.clone())
        .await;
    first.is(202);
    for key in ["\"order-1\"", "order-1"] {
        let again = bench
            .post_with(PATH, &[("idempotency-key", key)], body.clone())
            .await;
        again.is(200);
        assert_eq!(again.json["id"], first.json["id"]);
        assert_eq!(again.json["duplicate"], true);
    }
}

async fn a_key_for_another_payload_is_a_conflict(bench: Bench) {
    let first = bench.post(PATH, json!({"payload": 1, "key": "k"})).await;
    let other = bench.post(PATH, json!({"payload": 2, "key": "k"})).await;
    other.is_problem(422, "key_conflict");
    assert_eq!(other.json["id"], first.json["id"]);
    assert_eq!(other.json["key"], "k");
    assert_eq!(other.json["queue"], "default");
}

async fn keys_in_header_and_body_must_agree(bench: Bench) {
    let headers = [("idempotency-key", "a")];
    let body = json!({"payload": 1, "key": "b"});
    let answer = bench.post_with(PATH, &headers, body).await;
    answer.is_problem(400, "key_mismatch");
    let body = json!({"payload": 1, "key": "a"});
    bench.post_with(PATH, &headers, body).await.is(202);
}

async fn a_batch_is_all_or_none(bench: Bench) {
    let bad = json!({"messages": [
        {"queue": "default", "payload": 1}, {"queue": "mial", "payload": 2},
    ]});
    let answer = bench.post("/v1/messages", bad).await;
    answer.is_problem(404, "unknown_queue");
    assert_eq!(answer.json["suggestion"], "mail");
    let listed = bench.get("/v1/messages").await;
    assert_eq!(listed.json["messages"], json!([]));
    let good = json!({"messages": [
        {"queue": "default", "payload": 1}, {"queue": "mail", "payload": 2},
    ]});
    let answer = bench.post("/v1/messages", good).await;
    answer.is(202);
    assert_eq!(answer.json["messages"].as_array().unwrap().len(), 2);
    let empty = bench.post("/v1/messages", json!({"messages": []})).await;
    empty.is_problem(400, "invalid_input");
    let many = vec![json!({"queue": "default", "payload": 1}); 1_001];
    let many = bench.post("/v1/messages", json!({"messages": many})).await;
    many.is_problem(413, "batch_too_large");
}

async fn a_batchs_key_makes_its_repetition_harmless(bench: Bench) {
    let body = json!({"messages": [
        {"queue": "default", "payload": 1},
        {"queue": "default", "payload": 2, "key": "own"},
    ]});
    let headers = [("idempotency-key", "\"batch 1\"")];
    let first = bench
        .post_with("/v1/messages", &headers, body.clone())
        .await;
    first.is(202);
    let again = bench.post_with("/v1/messages", &headers, body).await;
    again.is(200);
    for (one, two) in std::iter::zip(messages(&first.json), messages(&again.json)) {
        assert_eq!(one["id"], two["id"]);
        assert_eq!(two["duplicate"], true);
    }
    let by_key = bench.get("/v1/messages?key=batch%201/0").await;
    assert_eq!(
        messages(&by_key.json)[0]["id"],
        messages(&first.json)[0]["id"]
    );
}

async fn a_batch_may_come_line_by_line(bench: Bench) {
    let lines = "{\"queue\":\"default\",\"payload\":1}\n\n{\"queue\":\"mail\",\"payload\":2}\r\n";
    let answer = bench.call(ndjson(lines)).await;
    answer.is(202);
    assert_eq!(messages(&answer.json).len(), 2);
    let wrong = "{\"queue\":\"default\",\"payload\":1}\n{\"queue\":\"default\"}\n";
    let answer = bench.call(ndjson(wrong)).await;
    answer.is_problem(400, "bad_json");
    assert_eq!(answer.json["line"], 2);
}

async fn trace_context_travels_with_the_message(bench: Bench) {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [("traceparent", parent), ("tracestate", "vendor=1")];
    let answer = bench.post_with(PATH, &headers, json!({"payload": 1})).await;
    let message = bench.get(answer.header("location")).await.json;
    assert_eq!(message["message"]["headers"]["traceparent"], parent);
    assert_eq!(message["message"]["headers"]["tracestate"], "vendor=1");
    let own = json!({"payload": 1, "headers": {"traceparent": "mine"}});
    let answer = bench.post_with(PATH, &headers, own).await;
    let message = bench.get(answer.header("location")).await.json;
    assert_eq!(
        message["message"]["headers"],
        json!({"traceparent": "mine"})
    );
}

async fn sizes_are_limited_with_a_message(bench: Bench) {
    let payload = "x".repeat(1024 * 1024);
    let answer = bench.post(PATH, json!({ "payload": payload })).await;
    answer.is_problem(413, "payload_too_large");
    assert_eq!(answer.json["bytes_max"], 1024 * 1024);
    let key = "k".repeat(600);
    let answer = bench.post(PATH, json!({"payload": 1, "key": key})).await;
    answer.is_problem(400, "invalid_input");
}

async fn a_message_expires_at_a_time(bench: Bench) {
    let expires_at = "2031-12-24T18:00:00+01:00";
    let body = json!({"payload": 1, "expires_at": expires_at});
    let answer = bench.post(PATH, body.clone()).await;
    answer.is(202);
    let utc = "2031-12-24T17:00:00Z";
    let message = bench.get(answer.header("location")).await.json;
    assert_eq!(message["message"]["expires_at"], utc);
    let listed = bench.get("/v1/messages").await.json;
    assert_eq!(listed["messages"][0]["expires_at"], utc);
    let claim = json!({"queue": "default", "owner": "w1"});
    let lease = bench.post("/v1/claims", claim).await.json;
    assert_eq!(lease["messages"][0]["expires_at"], utc);
    for wrong in [
        json!({"payload": 1, "expires_at": "2020-01-01T00:00:00Z"}),
        json!({"payload": 1, "expires_at": expires_at, "at": utc}),
    ] {
        let answer = bench.post(PATH, wrong.clone()).await;
        answer.is_problem(400, "invalid_input");
        let mut wrong = wrong;
        wrong["queue"] = "default".into();
        let batch = json!({"messages": [{"queue": "default", "payload": 0}, wrong]});
        let answer = bench.post("/v1/messages", batch).await;
        answer.is_problem(400, "invalid_input");
        let detail = answer.json["detail"].as_str().unwrap();
        assert!(detail.contains("message 1: expires_at"), "{detail}");
    }
}

async fn a_message_is_due_at_a_time(bench: Bench) {
    let at = "2031-12-24T18:00:00+01:00";
    let answer = bench.post(PATH, json!({"payload": 1, "at": at})).await;
    answer.is(202);
    let message = bench.get(answer.header("location")).await.json;
    assert_eq!(message["state"]["due_at"], "2031-12-24T17:00:00Z");
    let past =
        json!({"messages": [{"queue": "default", "payload": 1, "at": "2020-01-01T00:00:00Z"}]});
    let answer = bench.post("/v1/messages", past).await;
    let now = bench
        .get(&format!(
            "/v1/messages/{}",
            answer.json["messages"][0]["id"]
        ))
        .await
        .json;
    assert_eq!(now["state"]["due_at"], now["message"]["created_at"]);
    let both = json!({"payload": 1, "at": at, "delay_ms": 1});
    bench
        .post(PATH, both)
        .await
        .is_problem(400, "invalid_input");
    let far = json!({"payload": 1, "at": "2999-01-01T00:00:00Z"});
    bench.post(PATH, far).await.is_problem(400, "invalid_input");
    let bare = json!({"payload": 1, "at": "2031-12-24T18:00:00"});
    let bare = bench.post(PATH, bare).await;
    bare.is_problem(400, "bad_json");
    assert_eq!(bare.json["path"], "at");
}

async fn mistakes_are_pointed_at(bench: Bench) {
    let answer = bench.post(PATH, json!({"payload": 1, "dealy_ms": 5})).await;
    answer.is_problem(400, "unknown_field");
    assert_eq!(answer.json["suggestion"], "delay_ms");
    let body = json!({"messages": [{"queue": "default", "payload": 1, "delay_ms": "soon"}]});
    let answer = bench.post("/v1/messages", body).await;
    answer.is_problem(400, "bad_json");
    assert_eq!(answer.json["path"], "messages[0].delay_ms");
    let missing = bench.post(PATH, json!({"key": "k"})).await;
    missing.is_problem(400, "bad_json");
    assert!(missing.detail().contains("payload"), "{}", missing.text);
    let answer = bench
        .post("/v1/queues/No%20Queue/messages", json!({"payload": 1}))
        .await;
    answer.is_problem(400, "invalid_input");
    let answer = bench
        .post("/v1/queues/mial/messages", json!({"payload": 1}))
        .await;
    answer.is_problem(404, "unknown_queue");
    let nothing = bench.get("/v1/nothing").await;
    nothing.is_problem(404, "not_found");
    let wrong = bench
        .call(request(Method::DELETE, "/v1/messages", None))
        .await;
    wrong.is_problem(405, "method_not_allowed");
    assert!(
        wrong.header("allow").contains("POST"),
        "{:?}",
        wrong.headers
    );
}

/// A web page can send forms and plain text anywhere without asking; JSON it cannot.
async fn only_what_is_declared_as_json_is_read(bench: Bench) {
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ] {
        for path in [PATH, "/v1/messages", "/v1/claims", "/v1/queues/mail/pause"] {
            let mut request = request(
                Method::POST,
                path,
                Some(json!({"payload": 1, "reason": "x"})),
            );
            set(&mut request, &[("content-type", kind)]);
            let answer = bench.call(request).await;
            answer.is_problem(415, "unsupported_media_type");
        }
    }
    let mut request = request(Method::POST, PATH, Some(json!({"payload": 1})));
    set(
        &mut request,
        &[("content-type", "Application/JSON; charset=utf-8")],
    );
    bench.call(request).await.is(202);
}

async fn strange_bodies_are_refused(bench: Bench) {
    let deep = format!(
        "{{\"payload\": {}{}}}",
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    let bodies = [
        (Body::from(deep), "invalid_input"),
        (
            Body::from(b"{\"payload\": \"\xff\xfe\"}".to_vec()),
            "bad_json",
        ),
        (Body::from("{\"payload\": 1} {\"payload\": 2}"), "bad_json"),
        (Body::from(""), "bad_json"),
        (Body::from("{\"payload\": \"\\u0000\"}"), "invalid_input"),
        (
            Body::from(format!(
                "{{\"payload\": {}1{}}}",
                "[".repeat(110),
                "]".repeat(110)
            )),
            "invalid_input",
        ),
    ];
    for (body, code) in bodies {
        let request = Request::builder()
            .method(Method::POST)
            .uri(PATH)
            .header("host", "127.0.0.1")
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        bench.call(request).await.is_problem(400, code);
    }
}

const EXACT: &str = r#"{"d":0.12345678901234567890,"n":12345678901234567890123}"#;

/// A request with this text as its body.
fn raw(path: &str, body: &str) -> Request<Body> {
    let mut request = request(Method::POST, path, None);
    *request.body_mut() = Body::from(body.to_owned());
    set(&mut request, &[("content-type", "application/json")]);
    request
}

pub(crate) async fn payloads_keep_every_digit(bench: Bench) {
    let one = format!(r#"{{"payload": {EXACT}, "key": "k"}}"#);
    bench.call(raw(PATH, &one)).await.is(202);
    bench
        .call(raw(PATH, &one.replace("123}", "123.0}")))
        .await
        .is(200);
    let other = bench.call(raw(PATH, &one.replace("123}", "124}"))).await;
    other.is_problem(422, "key_conflict");
    let line = format!(r#"{{"queue": "default", "payload": {EXACT}}}"#);
    let batch = format!(r#"{{"messages": [{line}]}}"#);
    bench.call(raw("/v1/messages", &batch)).await.is(202);
    bench.call(ndjson(&line)).await.is(202);
    let payload = format!(r#""payload":{EXACT}"#);
    let claimed = bench
        .post("/v1/claims", json!({"queue": "default", "limit": 9}))
        .await;
    assert_eq!(
        claimed.text.matches(&payload).count(),
        3,
        "{}",
        claimed.text
    );
    for message in messages(&claimed.json) {
        let shown = bench.get(&format!("/v1/messages/{}", message["id"])).await;
        assert!(shown.text.contains(&payload), "{}", shown.text);
    }
}

async fn what_no_payload_can_be_is_refused_with_its_place(bench: Bench) {
    for (payload, place) in [
        (
            r#"{"a":{"b":1,"b":1}}"#,
            "message 0: payload.a.b: is a duplicate name",
        ),
        (
            r#"{"a":["\ud800"]}"#,
            "message 0: payload.a[0]: contains half of a surrogate pair",
        ),
        (
            r#"[1,1e131072]"#,
            "message 0: payload[1]: is a number beyond",
        ),
        (r#"{"a":"\u0000"}"#, "message 0: payload.a: contains U+0000"),
    ] {
        let one = bench
            .call(raw(PATH, &format!(r#"{{"payload": {payload}}}"#)))
            .await;
        one.is_problem(400, "invalid_input");
        assert!(one.detail().starts_with(place), "{}", one.detail());
        let line = format!(r#"{{"queue": "default", "payload": {payload}}}"#);
        bench
            .call(ndjson(&line))
            .await
            .is_problem(400, "invalid_input");
        let batch = format!(r#"{{"messages": [{line}]}}"#);
        let batch = bench.call(raw("/v1/messages", &batch)).await;
        batch.is_problem(400, "invalid_input");
    }
}

async fn headers_are_kept_exactly_or_refused(bench: Bench) {
    for headers in [r#"{"n":12345678901234567890123}"#, r#"{"n":1,"n":2}"#, "[]"] {
        let body = format!(r#"{{"payload": 1, "headers": {headers}}}"#);
        let answer = bench.call(raw(PATH, &body)).await;
        answer.is_problem(400, "bad_json");
        assert!(
            answer.detail().starts_with("headers: "),
            "{}",
            answer.detail()
        );
    }
    let body = r#"{"payload": 1, "headers": {"n":9007199254740993,"d":0.10}}"#;
    bench.call(raw(PATH, body)).await.is(202);
    let shown = bench.get("/v1/messages/1").await;
    assert!(
        shown.text.contains(r#"{"d":0.1,"n":9007199254740993}"#),
        "{}",
        shown.text
    );
}

/// 8 MiB of `1e131071` would be 128 GiB written out.
async fn numbers_of_few_bytes_cannot_fill_the_memory(bench: Bench) {
    let bomb = format!("[{}1]", "1e131071,".repeat(400));
    let one = bench
        .call(raw(PATH, &format!(r#"{{"payload": {bomb}}}"#)))
        .await;
    one.is_problem(400, "invalid_input");
    assert!(
        one.detail().contains("is longer than 8388608 bytes"),
        "{}",
        one.detail()
    );
    let half = format!("[{}1]", "1e131071,".repeat(40));
    let line = format!("{{\"queue\": \"default\", \"payload\": {half}}}\n");
    let batch = bench.call(ndjson(&line.repeat(3))).await;
    batch.is_problem(400, "invalid_input");
    assert!(
        batch.detail().starts_with("message 1: payload"),
        "{}",
        batch.detail()
    );
}

fn messages(json: &Value) -> &Vec<Value> {
    json["messages"].as_array().unwrap()
}

fn ndjson(lines: &str) -> Request<Body> {
    let mut request = request(Method::POST, "/v1/messages", None);
    *request.body_mut() = Body::from(lines.to_owned());
    set(&mut request, &[("content-type", "application/x-ndjson")]);
    request
}
