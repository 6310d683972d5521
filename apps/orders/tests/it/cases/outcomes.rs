//! The outcome of a message ends its row in the ledger in the same transaction.

use consign_conformance::stage::{self, after, by, ids, policy, refused, s, settled};
use consign_kernel::{Outcome, RedrivePlan, Report, Resolution, SettleAnswer, StateKind};
use consign_orders::{ExecResult, ExecStatus, LedgerEntry, LedgerStatus, NewOrder};
use serde_json::{Value, json};

use super::LedgerHarness;
use super::fixture::{OrdersFixture, TTL, ended, holding, order, real_order, report};

use LedgerStatus::{Accepted, Failed, Succeeded};

/// Whatever the last word is, the row has it in the same moment.
pub(crate) async fn every_end_of_a_message_is_the_end_of_its_order(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    for (n, (outcome, code, http_status, word, status)) in [
        (Outcome::Delivered, "EXECUTED", 200, "ok", Succeeded),
        (Outcome::Dead, "BROKER_REJECTED", 400, "error", Failed),
        (Outcome::Dead, "VALIDATION_ERROR", 422, "error", Failed),
        (Outcome::Dead, "ORDER_EXPIRED", 504, "error", Failed),
    ]
    .into_iter()
    .enumerate()
    {
        let order = order(&format!("key-{n:04}"));
        let id = fixture.enter(&order).await;
        let before = fixture.entry(&order).await;
        fixture.stage.advance(s(1)).await;
        let ended = ended(http_status, word);
        fixture.settle(id, outcome, code, &ended).await;
        let expected = LedgerEntry {
            result_digest: Some(ended.result_digest),
            status,
            response: Some(ended.exec_result),
            http_status,
            ..before
        };
        assert_eq!(fixture.entry(&order).await, expected, "{code}");
    }
}

/// The cap is the queue's.
pub(crate) async fn a_failure_that_will_be_retried_leaves_the_order_accepted(
    harness: &dyn LedgerHarness,
) {
    let fixture = OrdersFixture::new(harness).await;
    let order = order("key-0001");
    let id = fixture.enter(&order).await;
    let before = fixture.entry(&order).await;
    let timeout = ended(504, "error");
    for rest in [1, 2] {
        fixture
            .settle(id, Outcome::Retry, "BROKER_TIMEOUT", &timeout)
            .await;
        assert_eq!(fixture.entry(&order).await, before, "to be tried again");
        fixture.stage.advance(s(rest)).await;
    }
    fixture
        .settle(id, Outcome::Retry, "BROKER_TIMEOUT", &timeout)
        .await;
    assert_eq!(fixture.stage.kind(id).await, StateKind::Dead);
    let body = timeout.exec_result;
    assert_eq!(fixture.glance(&order).await, (Failed, 504, Some(body)));
}

/// No result was reported.
pub(crate) async fn an_order_whose_lease_ends_for_the_last_time_fails(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let order = order("key-0001");
    let id = fixture.enter(&order).await;
    for lost in 1..=3 {
        assert_eq!(fixture.entry(&order).await.status, Accepted, "loss {lost}");
        fixture.claim(id).await;
        fixture.stage.crash().await;
    }
    assert_eq!(fixture.stage.kind(id).await, StateKind::Dead);
    let entry = fixture.entry(&order).await;
    assert_eq!((entry.status, entry.http_status), (Failed, 500));
    assert_eq!(entry.result_digest, None, "no adapter reported a result");
    let body: Value = serde_json::from_str(&entry.response.expect("an answer")).expect("JSON");
    for (field, value) in [
        ("status", json!("error")),
        ("reason_code", json!("INTERNAL_ERROR")),
        ("order_id", json!("ord-1")),
        ("instrument", json!("USDJPY")),
        ("side", json!("BUY")),
        ("trace_id", json!("trace-1")),
        ("idempotency_key", json!("key-0001")),
        ("executed_qty", json!(0)),
        ("fills", json!([])),
    ] {
        assert_eq!(body[field], value, "{field}");
    }
}

/// Begun and lost, then sent again under the same key.
pub(crate) async fn an_uncertain_order_is_sent_again_and_counts_once(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let order = order("key-0001");
    let id = fixture.enter(&order).await;
    let before = fixture.entry(&order).await;
    let lost = fixture.claim(id).await;
    let begun = fixture.stage.store.begin(lost.token, &[id]).await;
    begun.expect("begin answers");
    fixture.stage.crash().await;
    assert_eq!(
        fixture.entry(&order).await,
        before,
        "the outcome is not known yet"
    );
    let lease = fixture.claim(id).await;
    assert!(lease.messages[0].in_doubt);
    let unsure = report(
        id,
        Outcome::Uncertain,
        "BROKER_TIMEOUT",
        &ended(504, "error"),
    );
    settled(fixture.stage.settle(&lease, &[unsure]).await);
    assert_eq!(fixture.entry(&order).await, before);
    fixture.stage.advance(s(2)).await;
    let ok = ended(200, "ok");
    fixture
        .settle(id, Outcome::Delivered, "EXECUTED", &ok)
        .await;
    let body = ok.exec_result;
    assert_eq!(fixture.glance(&order).await, (Succeeded, 200, Some(body)));
}

/// On every requeue.
pub(crate) async fn a_requeued_order_is_accepted_again_with_the_same_times_to_live(
    harness: &dyn LedgerHarness,
) {
    let fixture = OrdersFixture::new(harness).await;
    let order = NewOrder {
        max_age: Some(s(600)),
        ..order("key-0001")
    };
    let id = fixture.enter(&order).await;
    let first = fixture.entry(&order).await;
    for _ in 0..3 {
        fixture.stage.advance(s(300)).await;
        let down = ended(503, "error");
        fixture
            .settle(id, Outcome::Dead, "BROKER_DOWN", &down)
            .await;
        assert_eq!(fixture.entry(&order).await.status, Failed);
        fixture.stage.advance(s(3_600)).await;
        let moved = fixture.stage.store.requeue(&[id], &by()).await;
        moved.expect("requeue answers");
        let now = fixture.stage.now().await;
        let expected = LedgerEntry {
            expires_at: after(now, TTL),
            order_expires_at: Some(after(now, s(600))),
            ..first.clone()
        };
        assert_eq!(fixture.entry(&order).await, expected);
        let verified = fixture.ledger.verify(&order.client, &order.key).await;
        let verified = verified.expect("verify answers").expect("a row");
        assert!(!verified.is_expired, "a fresh start");
    }
    fixture
        .settle(id, Outcome::Delivered, "EXECUTED", &ended(200, "ok"))
        .await;
    assert_eq!(fixture.entry(&order).await.status, Succeeded);
    // A requeue of what is not dead moves nothing and changes nothing.
    let before = fixture.entry(&order).await;
    let moved = fixture.stage.store.requeue(&[id], &by()).await;
    moved.expect("requeue answers");
    assert_eq!(fixture.entry(&order).await, before);
}

pub(crate) async fn a_redrive_brings_orders_back_too(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let orders = [
        fixture.failed("key-0001").await,
        fixture.failed("key-0002").await,
    ];
    let plan = RedrivePlan {
        queue: Some(stage::queue("orders")),
        ..RedrivePlan::default()
    };
    let started = fixture.stage.store.start_redrive(&plan, &by()).await;
    started.expect("start_redrive answers");
    assert_eq!(fixture.entry(&orders[0]).await.status, Failed);
    let stepped = fixture.stage.store.step_redrive(100).await;
    stepped.expect("step_redrive answers");
    for order in &orders {
        assert_eq!(fixture.glance(order).await, (Accepted, 201, None));
    }
}

/// Resolutions of an order with an unknown outcome.
pub(crate) async fn a_held_order_is_resolved_either_way(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::with(harness, holding()).await;
    for (n, (resolution, http_status, reason)) in [
        (Resolution::Dead, 400, "BROKER_REJECTED"),
        (Resolution::Unknown, 504, "BROKER_TIMEOUT"),
    ]
    .into_iter()
    .enumerate()
    {
        let order = order(&format!("key-{n:04}"));
        let id = fixture.in_doubt(&order).await;
        let moved = fixture.stage.store.resolve(&[id], &resolution, &by()).await;
        moved.expect("resolve answers");
        let entry = fixture.entry(&order).await;
        assert_eq!((entry.status, entry.http_status), (Failed, http_status));
        assert_eq!(entry.result_digest, None, "a person is no adapter");
        let body: Value = serde_json::from_str(&entry.response.expect("an answer")).expect("JSON");
        assert_eq!(body["status"], "error");
        assert_eq!(body["order_id"], "ord-1");
        assert_eq!(body["reason_code"], reason);
    }
}

/// A settle as delivered without a result, by hand or by another worker.
pub(crate) async fn a_delivery_without_a_result_is_the_end_of_its_order(
    harness: &dyn LedgerHarness,
) {
    let fixture = OrdersFixture::new(harness).await;
    let order = real_order("key-0001", "");
    let id = fixture.enter(&order).await;
    let lease = fixture.stage.claim(1).await;
    let report = Report {
        code: Some("BY_HAND".to_owned()),
        ..Report::new(id, Outcome::Delivered)
    };
    let settled = fixture.stage.store.settle(lease.token, &[report]).await;
    settled.expect("settle answers");
    let entry = fixture.entry(&order).await;
    assert_eq!((entry.status, entry.http_status), (Succeeded, 200));
    assert_eq!((entry.result_digest, entry.sent), (None, None));
    let result = ExecResult::parse(&entry.response.expect("an answer")).expect("a result");
    assert_eq!((result.status, result.fills.len()), (ExecStatus::Ok, 0));
    assert_eq!(result.qty_sent.expect("a quantity").to_string(), "0.1");
    assert_eq!(
        result.warnings.len(),
        2,
        "rounded, and without a result: {result:?}"
    );
}

fn fill(px: &str, qty: &str) -> String {
    format!(r#"{{"px":{px},"qty":{qty},"ts":"2027-01-15T08:00:00.5Z"}}"#)
}

/// An operator's statement about an executed order.
fn found(fills: &[&str], more: &str) -> Resolution {
    let fills = fills.join(",");
    Resolution::Delivered {
        result: Some(format!(r#"{{"order_ref":"B-17","fills":[{fills}]{more}}}"#)),
    }
}

/// Statements about an order of 0.1, all or nothing, and what is wrong with them.
fn wrong_statements() -> Vec<(Resolution, &'static str)> {
    let (first, second) = (fill("146.123", "0.06"), fill("146.129", "0.04"));
    let both = [first.as_str(), second.as_str()];
    let early = first.replace("08:00:00.5", "07:58:00");
    let early_rest = early.replace("0.06", "0.04");
    let statement = |text: &str| Resolution::Delivered {
        result: Some(text.to_owned()),
    };
    let of = |fills: &[String]| {
        let fills: Vec<&str> = fills.iter().map(String::as_str).collect();
        found(&fills, "")
    };
    let more = |more: &str| found(&both, more);
    let nameless = format!(r#"{{"order_ref":" ","fills":[{first},{second}]}}"#);
    vec![
        (Resolution::DELIVERED, "only with its result"),
        (statement("[]"), "object"),
        (statement("{"), "JSON"),
        (statement(&nameless), "order_ref"),
        (more(r#","a":1,"a":2"#), "duplicate name"),
        (more(r#","colour":"red""#), "known fields: order_ref, fills"),
        (
            more(r#","avg_price":146.2"#),
            "the average of the fills is 146.1254",
        ),
        (of(&[]), "fills must be a list of 1 to 1000"),
        (
            of(std::slice::from_ref(&first)),
            "0.06 of 0.1 was executed of a fill-or-kill order",
        ),
        (
            of(&[first.clone(), fill("146.1", "0.05")]),
            "0.11 was executed, 0.1 was ordered",
        ),
        (of(&[fill("146.1", "0")]), "fills.0"),
        (of(&[first.clone(), fill("-1", "0.04")]), "fills.1"),
        (of(&[fill("146.1", "0.1000000000001")]), "fills.0"),
        (of(&[first.replace("2027", "27")]), "fills.0"),
        (of(&[early, early_rest]), "long before requested_at"),
    ]
}

/// Resolving an order as executed requires its fills.
pub(crate) async fn an_order_is_resolved_as_executed_only_with_its_result(
    harness: &dyn LedgerHarness,
) {
    let fixture = OrdersFixture::with(harness, holding()).await;
    let order = real_order("key-0001", r#","time_in_force":"FOK""#);
    let id = fixture.in_doubt(&order).await;
    for (resolution, why) in wrong_statements() {
        let answer = fixture.stage.store.resolve(&[id], &resolution, &by()).await;
        let error = refused(answer, "invalid_input").to_string();
        assert!(error.contains(why), "{resolution:?}: {error}");
    }
    let glance = fixture.glance(&order).await;
    assert_eq!(glance, (Accepted, 201, None), "nothing was written");

    let (first, second) = (fill("146.123", "0.06"), fill("146.129", r#""0.04""#));
    let resolution = found(&[&first, &second], r#","avg_price":"146.1254""#);
    let moved = fixture.stage.store.resolve(&[id], &resolution, &by()).await;
    moved.expect("resolve answers");
    let entry = fixture.entry(&order).await;
    assert_eq!((entry.status, entry.http_status), (Succeeded, 200));
    let text = entry.response.expect("an answer");
    let result = ExecResult::parse(&text).expect("a result");
    assert_eq!((result.status, result.fills.len()), (ExecStatus::Ok, 2));
    assert_eq!(result.executed_qty.to_string(), "0.1");
    let average = result.avg_price.expect("an average");
    assert_eq!(average.to_string(), "146.1254");
    assert_eq!(result.broker.order_ref.as_deref(), Some("B-17"));
    assert_eq!(result.completed_at.to_string(), "2027-01-15T08:00:00.5Z");
    assert_eq!(result.qty_sent.expect("a quantity").to_string(), "0.1");
    assert_eq!(result.idempotency_key.as_deref(), Some("key-0001"));
    let digest = Some(result.digest());
    assert_eq!(entry.result_digest, digest, "the same in both stores");
    let last = fixture.stage.history(id).await.pop().expect("an attempt");
    assert_eq!(last.code.as_deref(), Some("resolved"));
    assert!(last.result.is_some(), "the attempt stores the statement");
}

/// The server stamps an order to the nanosecond; PostgreSQL keeps microseconds.
pub(crate) async fn an_order_requested_to_the_nanosecond_is_resolved(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::with(harness, holding()).await;
    let mut order = real_order("key-0001", "");
    order.payload["order"]["requested_at"] = "2027-01-15T08:00:00.123456789Z".into();
    let id = fixture.in_doubt(&order).await;
    let resolution = found(&[&fill("146.123", "0.1")], "");
    let moved = fixture.stage.store.resolve(&[id], &resolution, &by()).await;
    moved.expect("the time of the stored order is read");
    let entry = fixture.entry(&order).await;
    assert_eq!((entry.status, entry.http_status), (Succeeded, 200));
    let result = ExecResult::parse(&entry.response.expect("an answer")).expect("a result");
    assert_eq!(result.completed_at.to_string(), "2027-01-15T08:00:00.5Z");
}

/// The row is not this message's to end.
pub(crate) async fn a_conflict_code_leaves_the_order_alone(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let order = order("key-0001");
    let id = fixture.enter(&order).await;
    let before = fixture.entry(&order).await;
    let conflict = ended(409, "error");
    fixture
        .settle(id, Outcome::Dead, "IDEMPOTENCY_CONFLICT", &conflict)
        .await;
    assert_eq!(fixture.entry(&order).await, before, "byte by byte");
    // Later than it was accepted: a fresh time to live would show.
    fixture.stage.advance(s(60)).await;
    let moved = fixture.stage.store.requeue(&[id], &by()).await;
    moved.expect("requeue answers");
    assert_eq!(
        fixture.entry(&order).await,
        before,
        "nor is it brought back"
    );
}

pub(crate) async fn an_order_that_succeeded_never_changes(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let order = fixture.succeeded("key-0001").await;
    let before = fixture.entry(&order).await;
    let id = before.outbox_id.expect("a message");
    let moved = fixture.stage.store.requeue(&[id], &by()).await;
    moved.expect("requeue answers");
    let failed = ended(500, "error");
    let closed = fixture.ledger.close_direct(&order, Failed, &failed).await;
    assert_eq!(closed.expect("close answers"), Some(before.clone()));
    assert_eq!(fixture.entry(&order).await, before);
}

/// Numbers, spaces and signs as the worker wrote them, from every instance.
pub(crate) async fn an_answer_is_read_back_byte_by_byte(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let another = harness.another_ledger().await;
    let bodies = [
        r#"{"b":1,"a":[1.0,1.00,1e400,0.1000000000000000000000000001],"b2":"A"}"#,
        " {\n\t\"latency_ms\" : {\"total\":12} , \"status\":\"ok\"}\n",
        r#"{"note":"caf\u00e9 \u20ac","emoji":"日本 😀","slash":"\/"}"#,
    ];
    for (n, body) in bodies.into_iter().enumerate() {
        let order = order(&format!("key-{n:04}"));
        let id = fixture.enter(&order).await;
        let ended = consign_orders::FinalResult {
            exec_result: body.to_owned(),
            ..ended(200, "ok")
        };
        fixture
            .settle(id, Outcome::Delivered, "EXECUTED", &ended)
            .await;
        for ledger in [&fixture.ledger, &another] {
            let entry = ledger.entry(&order.client, &order.key).await;
            let entry = entry.expect("entry answers").expect("a row");
            assert_eq!(entry.response.as_deref(), Some(body));
        }
        let replay = fixture.accept_one(&order).await;
        assert_eq!(replay.entry().response.as_deref(), Some(body));
    }
}

/// By SQL or by a sink of another kind: the order ends all the same.
pub(crate) async fn a_result_that_cannot_be_read_does_not_stop_a_settle(
    harness: &dyn LedgerHarness,
) {
    let fixture = OrdersFixture::new(harness).await;
    let results = [
        None,
        Some(json!(null)),
        Some(json!("EXECUTED")),
        Some(json!({"http_status": 200})),
        Some(json!({"http_status": "200", "result_digest": "x", "exec_result": "{}"})),
        Some(json!({"http_status": 200, "result_digest": "x", "exec_result": "{no"})),
        Some(json!({"http_status": 7, "result_digest": "x", "exec_result": "{}"})),
        Some(json!({"http_status": 1e300, "result_digest": "x", "exec_result": "{}"})),
        Some(json!({"http_status": 200, "result_digest": 1, "exec_result": "{}"})),
        Some(json!({"http_status": 200, "result_digest": "x", "exec_result": {"status": "ok"}})),
    ];
    for (n, result) in results.into_iter().enumerate() {
        for (outcome, status, http_status) in [
            (Outcome::Delivered, Succeeded, 200),
            (Outcome::Dead, Failed, 500),
        ] {
            let order = order(&format!("key-{n:04}-{status:?}"));
            let id = fixture.enter(&order).await;
            let lease = fixture.claim(id).await;
            let report = Report {
                code: Some("ODD".to_owned()),
                result: result.clone(),
                ..Report::new(id, outcome)
            };
            settled(fixture.stage.settle(&lease, &[report]).await);
            let entry = fixture.entry(&order).await;
            let glance = (entry.status, entry.http_status);
            assert_eq!(glance, (status, http_status), "{result:?}");
            let body = entry.response.expect("an answer to replay");
            let body: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!(body["order_id"], "ord-1", "{result:?}");
        }
    }
}

/// Only the owner of the lease may settle, for the ledger too.
pub(crate) async fn a_stale_worker_changes_no_order(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let order = order("key-0001");
    let id = fixture.enter(&order).await;
    let stale = fixture.claim(id).await;
    fixture.stage.advance(stage::TTL).await;
    let live = fixture.claim(id).await;
    let before = fixture.entry(&order).await;
    for (outcome, code, ended) in [
        (Outcome::Delivered, "EXECUTED", ended(200, "stale")),
        (Outcome::Dead, "BROKER_REJECTED", ended(400, "stale")),
    ] {
        let report = report(id, outcome, code, &ended);
        let answer = fixture
            .stage
            .settle(&stale, std::slice::from_ref(&report))
            .await;
        assert_eq!(answer, SettleAnswer::LeaseLost);
        let kept = fixture
            .stage
            .store
            .record_late(stale.token, &[report])
            .await;
        kept.expect("record_late answers");
        assert_eq!(fixture.entry(&order).await, before);
    }
    let ok = ended(200, "ok");
    let last = report(id, Outcome::Delivered, "EXECUTED", &ok);
    settled(fixture.stage.settle(&live, &[last]).await);
    let body = ok.exec_result;
    assert_eq!(fixture.glance(&order).await, (Succeeded, 200, Some(body)));
}

/// A message of another queue with the same key and payload is no order.
pub(crate) async fn other_queues_have_no_orders(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let order = order("key-0001");
    fixture.enter(&order).await;
    let _lease = fixture.stage.claim(1).await;
    let before = fixture.entry(&order).await;
    let mail = fixture.stage.add_queue("mail", &policy()).await;
    let store = &fixture.stage.store;
    let message = consign_kernel::NewMessage::new(mail.clone(), order.payload.clone());
    for (outcome, code) in [
        (Outcome::Delivered, "EXECUTED"),
        (Outcome::Dead, "BROKER_REJECTED"),
    ] {
        let sent = store.enqueue(std::slice::from_ref(&message)).await;
        let id = sent.expect("enqueue answers")[0].id;
        let claim = consign_kernel::Claim::new(mail.clone(), "worker-1", 1);
        let lease = store.claim(&claim).await.expect("claim answers");
        let lease = lease.expect("something is due");
        assert_eq!(ids(&lease), [id]);
        let report = report(id, outcome, code, &ended(200, "ok"));
        let answer = store.settle(lease.token, &[report]).await;
        settled(answer.expect("settle answers"));
        if outcome == Outcome::Dead {
            let moved = store.requeue(&[id], &by()).await;
            moved.expect("requeue answers");
        }
    }
    assert_eq!(fixture.entry(&order).await, before);
}
