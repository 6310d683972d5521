//! What must not be seen, and what must.

use consign_testkit::{Step, eventually};
use serde_json::Value;

use super::bench::{Bench, on_both, on_one, post_with};
use crate::{http, service::SOON};

/// Every secret: each contains this.
const SECRET: &str = "s3cret";

const KEY: &str = "s3cret-key-0022";

pub(super) fn order(key: &str, steps: &[Step]) -> String {
    let tags: Vec<String> = steps.iter().map(Step::tag).collect();
    format!(
        r#"{{"instrument":"USDJPY","side":"BUY","qty":0.10,"order_id":"s3cret-order",
            "tags":{tags:?},"trace_id":"s3cret-trace","idempotency_key":"{key}"}}"#
    )
}

/// Configures secrets, and a log that tells all it can; the client's token.
pub(super) fn settings(bench: &mut Bench) -> String {
    let arguments = ["token", "new", "--name", "till", "--scope", "producer"];
    let made = bench.consign.run(arguments).expect(0);
    let (_, lines) = made.stderr.split_once("\n\n[").unwrap();
    bench.configure(&format!("[log]\nfilter = \"trace,sqlx=info\"\n[{lines}\n"));
    bench.set(&[
        ("broker_api_key", "\"s3cret-api-key\""),
        ("broker_api_secret", "\"s3cret-api-secret\""),
        ("idempo_secret", "\"s3cret-idempo\""),
        ("outbox_max_attempts", "3"),
    ]);
    made.stdout.trim().to_owned()
}

#[test]
fn keys_bodies_and_secrets_are_in_no_log_metric_or_error() {
    on_both(async |mut bench| {
        let token = settings(&mut bench);
        let service = bench.serve().await;
        let more = format!("authorization: Bearer {token}\r\nprefer: wait=15\r\n");
        let blab = Step::Blab(500);
        let scripts = [
            (KEY, vec![blab.clone(), Step::ExecuteGarbage]),
            ("s3cret-key-0023", vec![Step::Reject]),
            ("s3cret-key-0024", vec![blab.clone(), blab.clone(), blab]),
        ];
        for (key, steps) in &scripts {
            let body = order(key, steps);
            post_with(&service, key, &more, &body).await;
            post_with(&service, key, &more, &body.replace("0.10", "0.20")).await;
            post_with(&service, key, &more, &body.replace("BUY", "s3cret-side")).await;
        }
        for key in [KEY, "s3cret-key-none"] {
            let head = format!("GET /do/order/{key} HTTP/1.1\r\nauthorization: Bearer {token}\r\n");
            http::send(service.address(), &head, "").await.unwrap();
        }
        let wrong = "authorization: Bearer s3cret-token\r\n";
        assert_eq!(post_with(&service, KEY, wrong, "{}").await.status, 401);
        let long = "SELECT last_error_msg FROM outbox_orders WHERE last_error_msg IS NOT NULL";
        let messages = bench.eye().await.rows(long).await;
        assert!(!messages.is_empty());
        for message in messages {
            let message = message["last_error_msg"].as_str().unwrap().to_owned();
            assert!(message.chars().count() <= 512, "{message}");
            assert!(!message.contains("s3cret-api"), "{message}");
        }
        let metrics = http::get(service.address(), "/metrics").await.body;
        assert_no_secrets("metrics", &metrics, &token);
        let doctor = bench.consign.run(["doctor"]);
        assert_no_secrets("doctor", &doctor.stdout, &token);
        let config = bench.consign.run(["config", "show"]).expect(0);
        assert_no_secrets("config show", &config.stdout, &token);
        let log = service.log();
        assert_no_secrets("log", &log, &token);
        for field in [
            "idempotency_key",
            "outbox_id",
            "attempts",
            "reason_code",
            "adapter",
            "latency_ms",
        ] {
            assert!(log.contains(field), "no field {field} in the log:\n{log}");
        }
        service.stop().await;
    });
}

/// The key is part of the address that is asked, and addresses are what errors of HTTP clients tell.
#[test]
fn a_failed_status_query_does_not_log_the_key() {
    on_one(async |mut bench| {
        bench.configure("[log]\nfilter = \"trace,sqlx=info\"\n");
        bench.set(&[("broker_takes_keys", "false")]);
        let service = bench.serve().await;
        bench
            .broker
            .tell(|manner| manner.otherwise = Step::ExecuteHang)
            .await;
        super::bench::post(&service, KEY, &order(KEY, &[])).await;
        bench.broker.was_sent(1).await;
        bench.broker.kill9();
        eventually("the doubt stays", SOON, async || {
            bench.outbox(KEY).await["last_error_code"] != Value::Null
        })
        .await;
        let id = bench.outbox(KEY).await["id"].to_string();
        eventually("it was asked about", SOON, async || {
            let attempts = bench.consign.json(["show", &id])["attempts"].clone();
            attempts
                .as_array()
                .is_some_and(|attempts| attempts.len() >= 2)
                || bench.outbox(KEY).await["next_run_at"].is_null()
        })
        .await;
        assert_no_secrets("log", &service.log(), "s3cret");
        for attempt in bench.consign.json(["show", &id])["attempts"]
            .as_array()
            .unwrap()
        {
            assert_no_secrets("an attempt", &attempt["detail"].to_string(), "s3cret");
        }
        service.stop().await;
    });
}

#[track_caller]
pub(super) fn assert_no_secrets(what: &str, text: &str, token: &str) {
    for word in [SECRET, token] {
        let found: Vec<&str> = text.lines().filter(|line| line.contains(word)).collect();
        assert!(found.is_empty(), "{what} holds {word}: {found:#?}");
    }
}

/// With underscores for dots and seconds for milliseconds.
const NAMES: &[&str] = &[
    "outbox_claimed_total",
    "outbox_processed_total",
    "outbox_retry_total",
    "outbox_lock_lease_expired_total",
    "outbox_latency_seconds",
];

#[test]
fn every_metric_of_the_specification_is_exported() {
    on_one(async |bench| {
        let service = bench.serve().await;
        super::bench::place(&service, "key-0022", &[Step::Refuse(503)]).await;
        bench.becomes("key-0022", "succeeded", "succeeded").await;
        let metrics = http::get(service.address(), "/metrics").await.body;
        for name in NAMES {
            assert!(
                metrics.contains(&format!("# TYPE {name} ")),
                "no {name}:\n{metrics}"
            );
        }
        for sample in [
            "outbox_processed_total{",
            "outbox_retry_total{",
            "outbox_latency_seconds_bucket{",
            "order_requests_total{",
            "broker_requests_total{",
        ] {
            assert!(
                metrics.contains(&format!("\n{sample}")),
                "no {sample}:\n{metrics}"
            );
        }
        service.stop().await;
    });
}
