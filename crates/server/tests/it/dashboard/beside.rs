//! What is kept beside a message, and which others belong to it.

use consign_kernel::{By, Claim, MessageId, Outcome, RedrivePlan, Report};
use consign_memory::{Action, AuditEnd, AuditStatus, NewAudit, NewMemory};
use serde_json::json;

use super::{Browser, Desk, Seen, on_databases};
use crate::{
    bench::{Bench, name, request, set},
    payments::{pay, payment},
};

on_databases!(
    an_order_is_shown_from_the_ledger,
    a_payment_is_shown_with_its_reference_and_its_successors,
    messages_that_belong_together_lead_to_each_other,
    a_memory_that_was_put_off_twice_says_so,
);

async fn page(desk: &Desk, id: i64) -> Seen {
    let path = format!("/ui/messages/{id}");
    desk.get(&mut Browser::default(), &path).await
}

#[track_caller]
fn hides(page: &Seen, words: &[&str]) {
    for word in words {
        assert!(!page.text.contains(word), "{word} shows in {}", page.text);
    }
}

async fn an_order_is_shown_from_the_ledger(bench: Bench) {
    let body = json!({
        "instrument": "USDJPY", "side": "BUY", "qty": 0.731, "idempotency_key": "order-0001",
        "order_id": "my-order-7",
    });
    let mut placing = request(axum::http::Method::POST, "/do/order", Some(body));
    set(&mut placing, &[("idempotency-key", "order-0001")]);
    let placed = bench.call(placing).await;
    placed.is(201);
    let id = placed.json["outbox_id"].as_i64().unwrap();
    let desk = Desk::open(bench).await;
    let shown = page(&desk, id).await;
    shown
        .says(200, "Order in the ledger")
        .says(200, "<dd class=\"long\">accepted</dd>")
        .says(200, "<dd class=\"long\">order-0001</dd>")
        .says(200, "my-order-7")
        .says(200, "Key remembered until");
    hides(&shown, &["USDJPY", "0.731", "Broker&#39;s reference"]);
    let result = json!({
        "status": "ok", "order_id": "my-order-7", "instrument": "USDJPY", "side": "BUY",
        "requested_at": "2026-11-16T03:00:00Z", "completed_at": "2026-11-16T03:00:00Z",
        "trace_id": "t-1", "idempotency_key": "order-0001", "avg_price": 146.5,
        "fills": [{"px": 146.5, "qty": 0.731, "ts": "2026-11-16T03:00:00Z"}],
        "executed_qty": 0.731, "cost": null, "slippage": null, "reason_code": null,
        "broker": {"name": "paper", "order_ref": "B<17>"}, "warnings": ["slow"],
        "message": "Not at 146.5",
        "latency_ms": {"queue": 0, "broker_rtt": 0, "total": 0},
    });
    let store = &desk.bench.store;
    let claim = Claim::new(name(consign_orders::QUEUE), "w1", 1);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let ended = json!({
        "http_status": 200, "result_digest": "sha256:00", "exec_result": result.to_string(),
    });
    let report = Report {
        code: Some("EXECUTED".into()),
        result: Some(ended),
        ..Report::new(MessageId(id), Outcome::Delivered)
    };
    store.settle(lease.token, &[report]).await.unwrap();
    let shown = page(&desk, id).await;
    shown
        .says(200, "<dd class=\"long\">succeeded</dd>")
        .says(200, "<dd class=\"long\">B&#60;17&#62;</dd>")
        .says(200, "ok, 1 fill")
        .says(200, &format!("data-topic=\"message:{id}\""));
    // What may repeat the order shows with it; then nothing comes that would mask it again.
    let masked = ["slow", "Not at 146.5", "Digest of", "http_status"];
    hides(&shown, &masked);
    hides(&shown, &["146.5", "0.731"]);
    let mut browser = Browser::default();
    let form = desk.get(&mut browser, &format!("/ui/messages/{id}")).await;
    let action = format!("/ui/messages/{id}/reveal");
    let fields = [("reason", "a complaint")];
    let revealed = desk.send(&mut browser, &form, &action, &fields).await;
    for word in masked {
        revealed.says(200, word);
    }
    hides(&revealed, &["data-topic"]);
}

async fn a_payment_is_shown_with_its_reference_and_its_successors(bench: Bench) {
    let first = pay(&bench, 1).await;
    let mut again = payment(1);
    again["idempotency_key"] = json!("key-again");
    let second = bench.post("/v1/payments", again).await;
    second.is(202);
    let claim = json!({"worker_id": "w1", "lease_seconds": 60});
    let lease = bench.post("/v1/payments/claims", claim).await;
    lease.is(200);
    let token = lease.json["lease_token"].as_str().unwrap();
    let done = json!({"worker_id": "w1", "completions": [
        {"outbox_id": first, "state": "DISPATCHED", "rail_reference": "RAIL-99"},
    ]});
    let path = format!("/v1/payments/leases/{token}/complete");
    bench.post(&path, done.clone()).await.is(200);
    bench.post(&path, done).await.is(200);
    // A completion that is told twice is one delivery.
    let counted = bench.state.take_done();
    let of_payments: Vec<_> = counted
        .iter()
        .filter(|it| it.queue.as_str() == "payments")
        .map(|it| it.done.results())
        .collect();
    assert_eq!(of_payments, [1], "{counted:?}");
    let id = async |outbox_id: &str| {
        let listed = bench.get(&format!("/v1/messages?key={outbox_id}")).await;
        listed.json["messages"][0]["id"].as_i64().unwrap()
    };
    let second = second.json["outbox_id"].as_str().unwrap().to_owned();
    let (one, two) = (id(&first).await, id(&second).await);
    let desk = Desk::open(bench).await;
    let shown = page(&desk, one).await;
    shown
        .says(200, "<dd class=\"long\">RAIL-99</dd>")
        .says(200, "<dd class=\"long\">DISPATCHED</dd>")
        .says(200, "Other payments of this instruction")
        .says(
            200,
            &format!("<a href=\"/ui/messages/{two}\">message {two}, "),
        );
    let shown = page(&desk, two).await;
    shown.says(200, "none yet").says(
        200,
        &format!("<a href=\"/ui/messages/{one}\">message {one}, DISPATCHED"),
    );
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
    let desk = Desk::open(bench).await;
    let shown = page(&desk, one).await;
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
    let found = desk
        .get(&mut browser, "/ui/messages?q=corr%2F7%20%3Cx%3E")
        .await;
    found.says(200, &format!("href=\"/ui/messages/{one}\""));
    assert_eq!(found.text.matches("<tr data-row>").count(), 1);
    page(&desk, two).await.says(
        200,
        &format!("<a href=\"/ui/messages/{one}\">message {one}, ready</a>"),
    );
    let audit = desk.get(&mut browser, "/ui/audit?action=requeue").await;
    audit.says(200, &format!("<a href=\"/ui/redrives/{redrive}\">"));
}

async fn a_memory_that_was_put_off_twice_says_so(bench: Bench) {
    let book = bench.logbook.clone().unwrap();
    let mut row = None;
    for number in 1..=2 {
        let correlation = format!("corr-{number:016x}");
        let audit = NewAudit {
            actor_user_id: Some("ada".into()),
            target_space: "private:ada".into(),
            action: Action::Allow,
            reason: Some("policy:private".into()),
            payload_sha: None,
            evidence_refs_json: json!({}),
            correlation_id: Some(correlation.clone()),
            status: AuditStatus::Pending,
        };
        book.insert_audit(&audit).await.unwrap();
        let end = AuditEnd {
            status: AuditStatus::Redirected,
            action: Some(Action::Redirect),
            reason: Some("openmemory_write_failed:connection_error".into()),
            patch: json!({}),
        };
        let memory = NewMemory {
            target_space: "private:ada".into(),
            payload_md: "the lamps are green".into(),
            ..NewMemory::default()
        };
        let deferred = book.defer(&memory, &correlation, &end).await.unwrap();
        assert!(deferred.is_audited);
        let id = deferred.enqueued.outbox_id.0;
        assert_eq!(*row.get_or_insert(id), id, "the same text is one row");
    }
    let id = row.unwrap();
    let desk = Desk::open(bench).await;
    let shown = page(&desk, id).await;
    shown
        .says(200, "Put off more than once")
        .says(200, "2 requests")
        .says(200, "href=\"/ui/messages?q=corr-0000000000000002\"");
    hides(&shown, &["lamps"]);
}
