//! What clients are answered: first time, again, and with something else.

use std::collections::BTreeMap;

use consign_testkit::{Step, eventually};
use serde_json::{Value, json, value::RawValue};

use super::bench::{
    Bench, broker_key, look, metric, on_both, on_one, order, place, post, post_with,
};
use crate::{
    http,
    service::{SOON, Service},
};

/// The body of the digest vector, under a key.
fn vector_order(key: &str) -> String {
    format!(
        r#"{{"order_id":"tc-1","instrument":"USDJPY","side":"BUY","qty":0.1,"price":null,
            "time_in_force":"IOC","tags":["qa"],"trace_id":"t-1","idempotency_key":"{key}"}}"#
    )
}

async fn rows(bench: &Bench) -> (i64, i64) {
    let mut sql = bench.sql().await;
    let ledger = sql.number("SELECT count(*) FROM idempo_ledger").await;
    let outbox = sql.number("SELECT count(*) FROM outbox_orders").await;
    (ledger, outbox)
}

#[test]
fn an_order_goes_from_pending_over_sending_to_succeeded() {
    on_both(async |bench| {
        let service = bench.serve().await;
        bench.consign.run(["pause", "orders"]).expect(0);
        let answer = post(&service, "key-0001", &vector_order("key-0001")).await;
        assert_eq!(answer.status, 201, "{answer:?}\n{}", service.log());
        let body = answer.json();
        assert_eq!(body["status"], "accepted", "{body}");
        assert_eq!(body["idempotency_key"], "key-0001", "{body}");
        assert_eq!(answer.header("idempotency-replayed"), None);
        let (ledger, outbox) = (
            bench.ledger("key-0001").await,
            bench.outbox("key-0001").await,
        );
        assert_eq!(ledger["status"], "accepted", "{ledger}");
        assert_eq!(ledger["outbox_id"], body["outbox_id"], "{ledger}");
        assert_eq!(
            ledger["request_digest"], outbox["request_digest"],
            "{outbox}"
        );
        assert_eq!(outbox["status"], "pending", "{outbox}");
        assert_eq!(
            (&outbox["attempts"], &outbox["locked_by"]),
            (&json!(0), &Value::Null)
        );
        assert_eq!(bench.broker.send_count(), 0);

        bench.broker.tell(|manner| manner.is_open = false).await;
        bench.consign.run(["resume", "orders"]).expect(0);
        bench.broker.was_sent(1).await;
        let sending = bench.outbox("key-0001").await;
        assert_eq!(sending["status"], "sending", "{sending}");
        assert!(sending["locked_by"].is_string(), "{sending}");
        assert!(!sending["locked_at"].is_null(), "{sending}");

        bench.broker.tell(|manner| manner.is_open = true).await;
        bench.becomes("key-0001", "succeeded", "succeeded").await;
        let ledger = bench.ledger("key-0001").await;
        assert_eq!(ledger["http_status"], 200, "{ledger}");
        let digest = ledger["result_digest"].as_str().unwrap();
        assert!(digest.starts_with("sha256:"), "{ledger}");
        assert_eq!(
            bench.broker.journal().tally(&broker_key("key-0001")).sends,
            1
        );
        let state = look(&service, "key-0001").await;
        assert_eq!(
            (state.status, &state.json()["status"]),
            (200, &json!("succeeded"))
        );
        assert_eq!(
            state.json()["exec_result"]["executed_qty"],
            0.1,
            "{state:?}"
        );
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn a_repeat_gets_the_stored_result_byte_for_byte() {
    on_one(async |bench| {
        let service = bench.serve().await;
        place(&service, "key-0002", &[]).await;
        bench.becomes("key-0002", "succeeded", "succeeded").await;
        let again = order("key-0002", &[]);
        let reordered = r#"{ "idempotency_key": "key-0002", "trace_id": "another", "tags": [],
                             "side": "BUY", "qty": 1.0e-1, "instrument": "USDJPY" }"#;
        let first = post(&service, "key-0002", &again).await;
        for body in [again.as_str(), reordered, &again.replace("0.1", "0.100")] {
            let replay = post(&service, "key-0002", body).await;
            assert_eq!(replay.status, 200, "{replay:?}");
            assert_eq!(replay.header("idempotency-replayed"), Some("true"));
            assert_eq!(replay.body, first.body);
        }
        let result = first.json();
        assert_eq!(
            (&result["status"], &result["side"]),
            (&json!("ok"), &json!("BUY"))
        );
        assert_eq!(bench.broker.send_count(), 1);
        assert_eq!(rows(&bench).await, (1, 1));
        service.stop().await;
    });
}

#[test]
fn a_repeat_in_progress_returns_accepted_and_sends_nothing() {
    on_one(async |mut bench| {
        bench.set(&[
            ("broker_timeout_ms", "20000"),
            ("broker_timeout_fok_gtc_ms", "20000"),
        ]);
        bench.broker.tell(|manner| manner.is_open = false).await;
        let service = bench.serve().await;
        let accepted = place(&service, "key-0003", &[]).await;
        bench.broker.was_sent(1).await;
        let again = post(&service, "key-0003", &order("key-0003", &[])).await;
        assert_eq!(again.status, 200, "{again:?}");
        assert_eq!(again.json()["status"], "accepted");
        assert_eq!(again.json()["outbox_id"], accepted.json()["outbox_id"]);
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!(bench.broker.send_count(), 1);

        // A waiting request is answered with the result as soon as there is one.
        let body = order("key-0003", &[]);
        let waiting = post_with(&service, "key-0003", "prefer: wait=15\r\n", &body);
        let opening = async { bench.broker.tell(|manner| manner.is_open = true).await };
        let (waited, ()) = tokio::join!(waiting, opening);
        assert_eq!(waited.status, 200, "{waited:?}");
        assert_eq!(waited.json()["executed_qty"], 0.1, "{waited:?}");
        bench.becomes("key-0003", "succeeded", "succeeded").await;
        service.stop().await;
    });
}

#[test]
fn fifty_at_once_are_one_order() {
    on_both(async |bench| {
        let servers = [bench.serve().await, bench.serve().await];
        let body = order("key-0050", &[]);
        let posts = (0..50).map(|number| post(&servers[number % 2], "key-0050", &body));
        let answers = join_all(posts).await;
        let fresh = answers.iter().filter(|answer| answer.status == 201).count();
        let repeats = answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!((fresh, repeats), (1, 49), "{answers:#?}");
        bench.becomes("key-0050", "succeeded", "succeeded").await;
        assert_eq!(rows(&bench).await, (1, 1));
        let tally = bench.broker.journal().tally(&broker_key("key-0050"));
        assert_eq!((tally.sends, tally.executions), (1, 1));
        for server in servers {
            server.stop().await;
        }
        bench.doctor();
    });
}

#[test]
fn another_body_under_the_same_key_is_a_conflict_in_every_state() {
    on_one(async |bench| {
        let service = bench.serve().await;
        place(&service, "key-done", &[]).await;
        place(&service, "key-gone", &[Step::Reject]).await;
        bench.becomes("key-done", "succeeded", "succeeded").await;
        bench.becomes("key-gone", "failed", "aborted").await;
        bench.broker.tell(|manner| manner.is_open = false).await;
        bench.consign.run(["pause", "orders"]).expect(0);
        place(&service, "key-open", &[]).await;
        let before = metric(&service, "idempotency_conflicts_total", "").await;
        for (number, key) in (1..).zip(["key-done", "key-gone", "key-open"]) {
            let row = bench.ledger(key).await;
            let body = order(key, &[]).replace("0.1", "0.2");
            let answer = post(&service, key, &body).await;
            assert_eq!(answer.status, 409, "{key}: {answer:?}");
            let said = answer.json();
            assert_eq!(said["error"], "IDEMPOTENCY_CONFLICT", "{said}");
            assert_eq!(said["idempotency_key"], key, "{said}");
            assert!(said["message"].is_string(), "{said}");
            assert_eq!(bench.ledger(key).await, row, "the row is as it was");
            let after = metric(&service, "idempotency_conflicts_total", "").await;
            assert_eq!(after - before, f64::from(number), "{key}");
            assert_eq!(look(&service, key).await.json()["conflicts"], 1, "{key}");
        }
        service.stop().await;
    });
}

/// Keys are compared byte by byte, whatever they would mean elsewhere, and are told apart at the broker.
#[test]
fn keys_are_compared_byte_by_byte() {
    const KEYS: &[&str] = &[
        "../../../etc/passwd",
        "a/b/c/d/e",
        "%2F%2F%2F%2F",
        "key with spaces",
        "key%20with%20spaces",
        "'; DROP TABLE idempo_ledger; --",
        "\\\\u0000\\\\",
        "?a=b&c=d#e",
        "Key-0001",
        "key-0001",
        "\u{43a}\u{43b}\u{44e}\u{447}-0001",
    ];
    on_one(async |bench| {
        let service = bench.serve().await;
        for key in KEYS {
            place(&service, key, &[]).await;
        }
        for key in KEYS {
            let encoded: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
            eventually(key, SOON, async || {
                look(&service, &encoded).await.json()["status"] == "succeeded"
            })
            .await;
            let state = look(&service, &encoded).await.json();
            assert_eq!(state["idempotency_key"], *key, "{state}");
            let replay = post(&service, key, &order(key, &[])).await;
            assert_eq!(replay.status, 200, "{key}: {replay:?}");
            assert_eq!(replay.json()["idempotency_key"], *key, "{replay:?}");
        }
        let tallies = bench.broker.journal().tallies();
        assert_eq!(tallies.len(), KEYS.len(), "{tallies:?}");
        assert!(
            tallies.values().all(|tally| tally.executions == 1),
            "{tallies:?}"
        );
        let unknown = look(&service, "key-0002").await;
        assert_eq!(
            (unknown.status, &unknown.json()["error"]),
            (404, &json!("ORDER_UNKNOWN"))
        );
        service.stop().await;
    });
}

/// Amounts reach the broker, and the client, digit by digit: no binary fraction is on their way.
#[test]
fn amounts_are_rounded_to_the_grid_and_stay_exact() {
    on_one(async |bench| {
        // Dollars in yen move by 0.001, in hundredths of a lot.
        let service = bench.serve().await;
        let cases = [
            ("exact-buy", "BUY", "0.30", "146.1239", "0.3", "146.123"),
            ("exact-sell", "SELL", "1.15", "146.1231", "1.15", "146.124"),
            (
                "exact-large",
                "BUY",
                "90071992547409.93",
                "0.001",
                "90071992547409.93",
                "0.001",
            ),
            ("exact-power", "BUY", "1e4", "null", "10000", "null"),
        ];
        for (key, side, qty, price, sent_qty, sent_price) in cases {
            let body = format!(
                r#"{{"instrument":"USDJPY","side":"{side}","qty":{qty},"price":{price},
                    "idempotency_key":"{key}"}}"#
            );
            let done = post_with(&service, key, "prefer: wait=15\r\n", &body).await;
            assert!(matches!(done.status, 200 | 201), "{key}: {done:?}");
            let executed = format!(r#""executed_qty":{sent_qty},"#);
            assert!(done.body.contains(&executed), "{key}: {done:?}");
            let journal = bench.broker.journal();
            let sent = journal.sends(&broker_key(key))[0].1.to_owned();
            let fields: BTreeMap<&str, &RawValue> = serde_json::from_str(&sent).unwrap();
            assert_eq!(fields["qty"].get(), sent_qty, "{key}: {sent}");
            let price = fields.get("price").map_or("null", |price| price.get());
            assert_eq!(price, sent_price, "{key}: {sent}");
            assert_eq!(
                fields["idempotency_key"].get(),
                format!("{key:?}"),
                "the client's own"
            );
        }
        service.stop().await;
    });
}

#[test]
fn after_a_restart_the_answer_is_the_same() {
    on_one(async |bench| {
        let service = bench.serve().await;
        let body = order("key-0024", &[]);
        place(&service, "key-0024", &[]).await;
        bench.becomes("key-0024", "succeeded", "succeeded").await;
        let before = post(&service, "key-0024", &body).await;
        service.stop().await;
        let service = bench.serve().await;
        let after = post(&service, "key-0024", &body).await;
        assert_eq!((after.status, &after.body), (200, &before.body));
        assert_eq!(bench.broker.send_count(), 1);
        service.stop().await;
    });
}

/// A token with its configuration.
pub(super) fn token(bench: &Bench, name: &str) -> (String, String) {
    let arguments = ["token", "new", "--name", name, "--scope", "producer"];
    let made = bench.consign.run(arguments).expect(0);
    let (_, lines) = made.stderr.split_once("\n\n[").unwrap();
    (made.stdout.trim().to_owned(), format!("[{lines}\n"))
}

#[test]
fn two_clients_with_the_same_key_have_separate_orders() {
    on_one(async |mut bench| {
        let (first, lines) = token(&bench, "first");
        bench.configure(&lines);
        let (second, lines) = token(&bench, "second");
        bench.configure(&lines);
        let service = bench.serve().await;
        let call = async |service: &Service, token: &str, body: &str| {
            let more = format!("authorization: Bearer {token}\r\n");
            post_with(service, "key-0026", &more, body).await
        };
        let wait = "prefer: wait=15\r\n";
        let body = order("key-0026", &[]);
        let more = format!("{wait}authorization: Bearer {first}\r\n");
        let done = post_with(&service, "key-0026", &more, &body).await;
        assert_eq!(done.json()["executed_qty"], 0.1, "{done:?}");
        let head = format!("GET /do/order/key-0026 HTTP/1.1\r\nauthorization: Bearer {second}\r\n");
        let unknown = http::send(service.address(), &head, "").await.unwrap();
        assert_eq!(unknown.status, 404, "{unknown:?}");
        let other = body.replace("0.1", "0.3");
        assert_eq!(
            call(&service, &second, &other).await.status,
            201,
            "no conflict either"
        );
        assert_eq!(call(&service, &first, &other).await.status, 409);
        bench.broker.has_executed("second/key-0026").await;
        assert_eq!(bench.broker.journal().tally("first/key-0026").executions, 1);
        assert_eq!(post(&service, "key-0026", &body).await.status, 401);
        service.stop().await;
    });
}

/// All of them at once.
pub(super) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = pending.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, slot) in pending.iter_mut().zip(&mut done) {
            if slot.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(context)
            {
                *slot = Some(output);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}
