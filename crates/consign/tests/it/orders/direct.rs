//! Without the outbox: each order is sent once, within its request.

use consign_testkit::Step;
use serde_json::json;

use super::bench::{broker_key, look, on_both, on_one, order, post};
use crate::http;

#[test]
fn without_the_outbox_an_order_is_sent_within_its_request() {
    on_one(async |mut bench| {
        bench.set(&[("outbox_enabled", "false")]);
        let service = bench.serve().await;
        let body = order("key-0023", &[]);
        let done = post(&service, "key-0023", &body).await;
        assert!(matches!(done.status, 200 | 201), "{done:?}");
        assert_eq!(done.json()["status"], "ok", "{done:?}");
        let replay = post(&service, "key-0023", &body).await;
        assert_eq!((replay.status, &replay.body), (200, &done.body));
        let ledger = bench.ledger("key-0023").await;
        assert_eq!(
            (&ledger["status"], &ledger["http_status"]),
            (&json!("succeeded"), &json!(200))
        );
        assert_eq!(ledger["outbox_id"], json!(null));
        let messages = bench
            .sql()
            .await
            .number("SELECT count(*) FROM message")
            .await;
        assert_eq!(messages, 0, "no outbox row");
        let conflict = post(&service, "key-0023", &body.replace("0.1", "0.2")).await;
        assert_eq!(conflict.status, 409, "{conflict:?}");

        for (key, step, status) in [
            ("direct-reject", Step::Reject, 400),
            ("direct-down", Step::Refuse(503), 503),
            ("direct-hang", Step::Hang, 504),
            ("direct-lost", Step::ExecuteHang, 504),
        ] {
            let body = order(key, &[step]);
            let failed = post(&service, key, &body).await;
            assert_eq!(failed.status, status, "{key}: {failed:?}");
            let replay = post(&service, key, &body).await;
            assert_eq!(
                (replay.status, &replay.body),
                (status, &failed.body),
                "{key}"
            );
            let tally = bench.broker.journal().tally(&broker_key(key));
            assert_eq!(tally.sends, 1, "{key}: one send, no retry");
        }
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn two_direct_orders_at_once_are_one_send() {
    on_both(async |mut bench| {
        bench.set(&[("outbox_enabled", "false"), ("broker_timeout_ms", "20000")]);
        bench.broker.tell(|manner| manner.is_open = false).await;
        let service = bench.serve().await;
        let body = order("key-both", &[]);
        let first = post(&service, "key-both", &body);
        let second = async {
            bench.broker.was_sent(1).await;
            let second = post(&service, "key-both", &body).await;
            assert_eq!(second.json()["status"], "accepted", "{second:?}");
            bench.broker.tell(|manner| manner.is_open = true).await;
        };
        let (first, ()) = tokio::join!(first, second);
        assert_eq!(first.json()["status"], "ok", "{first:?}");
        assert_eq!(bench.broker.send_count(), 1);
        service.stop().await;
    });
}

/// A server that is killed with an order under way: nobody knows what became of it, and so it says.
#[test]
fn a_server_killed_during_its_send_leaves_a_failure_and_no_second_send() {
    on_both(async |mut bench| {
        bench.set(&[("outbox_enabled", "false")]);
        bench.broker.tell(|manner| manner.is_open = false).await;
        let mut victim = bench.serve().await;
        let body = order("key-kill", &[]);
        let head = format!(
            "POST /do/order HTTP/1.1\r\ncontent-type: application/json\r\n\
             idempotency-key: key-kill\r\ncontent-length: {}\r\n",
            body.len()
        );
        let unanswered = http::send(victim.address(), &head, &body);
        tokio::select! {
            answer = unanswered => panic!("answered: {answer:?}"),
            () = bench.broker.was_sent(1) => victim.child.kill9(),
        }
        let service = bench.serve().await;
        consign_testkit::eventually("it is given up", crate::service::SOON, async || {
            look(&service, "key-kill").await.json()["status"] == "failed"
        })
        .await;
        let replay = post(&service, "key-kill", &body).await;
        assert_eq!(replay.status, 504, "{replay:?}");
        assert_eq!(replay.json()["reason_code"], "BROKER_TIMEOUT", "{replay:?}");
        assert_eq!(bench.broker.send_count(), 1);
        service.stop().await;
    });
}
