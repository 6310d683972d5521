//! What a broker's failures lead to.

use std::time::Duration;

use consign_testkit::{Step, eventually};
use serde_json::{Value, json};

use super::bench::{Bench, broker_key, look, on_both, on_one, order, place, post};
use crate::{
    http,
    service::{SOON, Service},
};

/// How far in the future a time of the view is, by the database's clock.
async fn until(bench: &Bench, key: &str, column: &str) -> Duration {
    let now = match bench.kind {
        super::bench::Kind::Sqlite => "(julianday('now') - 2440587.5) * 86400000000.0",
        super::bench::Kind::Postgres => "extract(epoch FROM clock_timestamp()) * 1000000",
    };
    let then = match bench.kind {
        super::bench::Kind::Sqlite => column.to_owned(),
        super::bench::Kind::Postgres => format!("extract(epoch FROM {column}) * 1000000"),
    };
    let sql = format!(
        "SELECT CAST({then} - {now} AS bigint) AS microseconds FROM outbox_orders \
         WHERE idempotency_key = '{key}'"
    );
    let microseconds = bench.eye().await.number(&sql).await;
    Duration::from_micros(u64::try_from(microseconds).unwrap_or_default())
}

#[test]
fn a_timeout_waits_for_its_backoff_and_the_second_send_succeeds() {
    on_both(async |mut bench| {
        bench.set(&[("outbox_backoff_sec", "[2.5]")]);
        let service = bench.serve().await;
        place(&service, "key-0007", &[Step::Hang]).await;
        bench.becomes("key-0007", "accepted", "failed").await;
        let left = until(&bench, "key-0007", "next_run_at").await;
        assert!(
            (1..=2_500).contains(&left.as_millis()),
            "the backoff: {left:?}"
        );
        let row = bench.outbox("key-0007").await;
        assert_eq!(row["attempts"], 1, "{row}");
        assert_eq!(row["last_error_code"], "BROKER_TIMEOUT", "{row}");
        assert_eq!(
            (&row["locked_by"], &row["locked_at"]),
            (&Value::Null, &Value::Null)
        );
        bench.becomes("key-0007", "succeeded", "succeeded").await;
        assert_eq!(bench.outbox("key-0007").await["attempts"], 1, "one failed");
        let metrics = http::get(service.address(), "/metrics").await.body;
        assert!(
            metrics.contains("\noutbox_retry_total{queue=\"orders\"} 1\n"),
            "{metrics}"
        );
        let journal = bench.broker.journal();
        let sends = journal.sends(&broker_key("key-0007"));
        assert_eq!(sends.len(), 2, "under the same key");
        assert_eq!(sends[0].1, sends[1].1, "and the same body");
        let times = journal.sent_at(&broker_key("key-0007"));
        let between = times[1].duration_since(times[0]).unsigned_abs();
        // The broker's time to answer, then the backoff; the broker may note the first one late.
        assert!(between >= Duration::from_millis(200 + 2_500), "{between:?}");
        service.stop().await;
    });
}

#[test]
fn the_last_attempt_aborts_until_a_requeue() {
    on_both(async |mut bench| {
        bench.set(&[
            ("outbox_backoff_sec", "[0.05]"),
            ("broker_timeout_ms", "100"),
            ("outbox_max_attempts", "6"),
        ]);
        bench
            .broker
            .tell(|manner| manner.otherwise = Step::Hang)
            .await;
        let service = bench.serve().await;
        let id = place(&service, "key-0010", &[]).await.json()["outbox_id"].to_string();
        bench.becomes("key-0010", "failed", "aborted").await;
        let ledger = bench.ledger("key-0010").await;
        assert_eq!(ledger["http_status"], 504, "{ledger}");
        let row = bench.outbox("key-0010").await;
        assert_eq!(row["attempts"], 6, "{row}");
        assert_eq!(bench.broker.send_count(), 6, "no seventh");
        let replay = post(&service, "key-0010", &order("key-0010", &[])).await;
        assert_eq!(replay.status, 504, "{replay:?}");
        let said = replay.json();
        assert_eq!(said["status"], "error", "{said}");
        assert_eq!(said["reason_code"], "BROKER_TIMEOUT", "{said}");

        bench
            .broker
            .tell(|manner| manner.otherwise = Step::Fill)
            .await;
        bench.consign.run(["pause", "orders"]).expect(0);
        bench.consign.run(["requeue", &id]).expect(0);
        assert_eq!(
            bench.states("key-0010").await,
            ("accepted".into(), "pending".into())
        );
        let row = bench.outbox("key-0010").await;
        assert_eq!(
            (&row["attempts"], &row["last_error_code"]),
            (&json!(0), &Value::Null)
        );
        let open = look(&service, "key-0010").await.json();
        assert_eq!(open["status"], "accepted", "{open}");
        bench.consign.run(["requeue", &id]).expect(1);
        bench.consign.run(["resume", "orders"]).expect(0);
        bench.becomes("key-0010", "succeeded", "succeeded").await;
        bench.consign.run(["requeue", &id]).expect(1);
        let tally = bench.broker.journal().tally(&broker_key("key-0010"));
        assert_eq!((tally.sends, tally.executions), (7, 1));
        service.stop().await;
        bench.doctor();
    });
}

/// A broker's answer, and what it leads to.
struct Case {
    key: &'static str,
    steps: &'static [Step],
    /// Ledger, outbox, status and reason of a replay.
    ends: (&'static str, &'static str, u16, Option<&'static str>),
    sends: usize,
    executions: usize,
}

const CASES: &[Case] = &[
    Case {
        key: "case-reject",
        steps: &[Step::Reject],
        ends: ("failed", "aborted", 400, Some("BROKER_REJECTED")),
        sends: 1,
        executions: 0,
    },
    Case {
        key: "case-400",
        steps: &[Step::Refuse(400)],
        ends: ("failed", "aborted", 400, Some("BROKER_REJECTED")),
        sends: 1,
        executions: 0,
    },
    Case {
        key: "case-422",
        steps: &[Step::Refuse(422)],
        ends: ("failed", "aborted", 422, Some("VALIDATION_ERROR")),
        sends: 1,
        executions: 0,
    },
    Case {
        key: "case-503",
        steps: &[Step::Refuse(503)],
        ends: ("succeeded", "succeeded", 200, None),
        sends: 2,
        executions: 1,
    },
    Case {
        key: "case-500",
        steps: &[Step::Refuse(500), Step::Refuse(502)],
        ends: ("succeeded", "succeeded", 200, None),
        sends: 3,
        executions: 1,
    },
    Case {
        key: "case-drop",
        steps: &[Step::Drop],
        ends: ("succeeded", "succeeded", 200, None),
        sends: 2,
        executions: 1,
    },
    Case {
        key: "case-lost-reply",
        steps: &[Step::ExecuteDrop],
        ends: ("succeeded", "succeeded", 200, None),
        sends: 2,
        executions: 1,
    },
    Case {
        key: "case-late-reply",
        steps: &[Step::ExecuteHang],
        ends: ("succeeded", "succeeded", 200, None),
        sends: 2,
        executions: 1,
    },
    Case {
        key: "case-garbage",
        steps: &[Step::ExecuteGarbage],
        ends: ("succeeded", "succeeded", 200, None),
        sends: 2,
        executions: 1,
    },
];

async fn ends_as(bench: &Bench, service: &Service, case: &Case) {
    let (ledger, outbox, status, reason) = case.ends;
    bench.becomes(case.key, ledger, outbox).await;
    let replay = post(service, case.key, &order(case.key, case.steps)).await;
    assert_eq!(replay.status, status, "{}: {replay:?}", case.key);
    let said = replay.json();
    assert_eq!(said["reason_code"].as_str(), reason, "{}: {said}", case.key);
    let tally = bench.broker.journal().tally(&broker_key(case.key));
    assert_eq!(
        (tally.sends, tally.executions),
        (case.sends, case.executions),
        "{}",
        case.key
    );
}

#[test]
fn each_answer_of_the_broker_ends_or_is_retried() {
    on_one(async |bench| {
        let service = bench.serve().await;
        for case in CASES {
            place(&service, case.key, case.steps).await;
        }
        for case in CASES {
            ends_as(&bench, &service, case).await;
        }
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn retry_after_of_a_busy_broker_is_kept() {
    on_one(async |bench| {
        let service = bench.serve().await;
        place(&service, "key-busy", &[Step::Busy(2)]).await;
        bench.becomes("key-busy", "accepted", "failed").await;
        let row = bench.outbox("key-busy").await;
        assert_eq!(row["last_error_code"], "RATE_LIMITED", "{row}");
        bench.becomes("key-busy", "succeeded", "succeeded").await;
        let times = bench.broker.journal().sent_at(&broker_key("key-busy"));
        let between = times[1].duration_since(times[0]).unsigned_abs();
        assert!(between >= Duration::from_secs(2), "{between:?}");
        service.stop().await;
    });
}

#[test]
fn a_broker_killed_and_restarted_executes_once() {
    on_one(async |mut bench| {
        bench
            .broker
            .tell(|manner| manner.otherwise = Step::ExecuteHang)
            .await;
        let service = bench.serve().await;
        place(&service, "key-kill", &[]).await;
        bench.broker.has_executed(&broker_key("key-kill")).await;
        bench.broker.kill9();
        eventually("the broker is found to be down", SOON, async || {
            bench.outbox("key-kill").await["last_error_code"] == "BROKER_DOWN"
        })
        .await;
        bench.broker.start_again().await;
        bench
            .broker
            .tell(|manner| manner.otherwise = Step::Fill)
            .await;
        bench.becomes("key-kill", "succeeded", "succeeded").await;
        let tally = bench.broker.journal().tally(&broker_key("key-kill"));
        assert_eq!(tally.executions, 1, "{tally:?}");
        service.stop().await;
    });
}

/// Such a broker would execute a repeat: it is asked first, and sent to again only if it knows nothing.
#[test]
fn a_broker_without_keys_is_queried_after_every_uncertain_outcome() {
    on_one(async |mut bench| {
        bench.set(&[("broker_takes_keys", "false")]);
        bench.broker.tell(|manner| manner.dedupes = false).await;
        let service = bench.serve().await;
        let cases = [
            ("doubt-late", Step::ExecuteHang, 1),
            ("doubt-lost", Step::ExecuteDrop, 1),
            ("doubt-garbage", Step::ExecuteGarbage, 1),
            ("doubt-none", Step::Hang, 2),
        ];
        for (key, step, _) in &cases {
            place(&service, key, std::slice::from_ref(step)).await;
        }
        for (key, _, sends) in cases {
            bench.becomes(key, "succeeded", "succeeded").await;
            let tally = bench.broker.journal().tally(&broker_key(key));
            assert_eq!(
                (tally.sends, tally.executions),
                (sends, 1),
                "{key}: {tally:?}"
            );
            assert!(tally.queries >= 1, "{key}: {tally:?}");
        }
        service.stop().await;
        bench.doctor();
    });
}

/// Most of the last calls failed, so the broker is left alone for a while.
#[test]
fn a_broker_that_is_down_is_left_alone_and_then_tried_again() {
    const OPEN: Duration = Duration::from_millis(1_500);
    on_one(async |mut bench| {
        bench.set(&[
            ("breaker_calls", "4"),
            ("breaker_open_sec", "1.5"),
            ("outbox_backoff_sec", "[0.05]"),
            ("outbox_max_attempts", "1000"),
        ]);
        bench
            .broker
            .tell(|manner| manner.otherwise = Step::Refuse(503))
            .await;
        let service = bench.serve().await;
        for number in 0..8 {
            place(&service, &format!("key-{number:04}"), &[]).await;
        }
        let rested = async || {
            let mut times = bench.broker.journal().all_sent_at();
            times.sort();
            let gaps = times.windows(2).map(|two| two[1].duration_since(two[0]));
            gaps.map(|gap| gap.unsigned_abs()).max().unwrap_or_default() >= OPEN
        };
        eventually("it is left alone", SOON, rested).await;
        let sent = bench.broker.send_count();
        assert!(sent < 60, "{sent} sends to a broker that is down");
        bench
            .broker
            .tell(|manner| manner.otherwise = Step::Fill)
            .await;
        for number in 0..8 {
            bench
                .becomes(&format!("key-{number:04}"), "succeeded", "succeeded")
                .await;
        }
        service.stop().await;
    });
}

#[test]
fn inconsistent_fills_are_rejected() {
    on_one(async |bench| {
        let service = bench.serve().await;
        let partial = [Step::Partial("0.04".into())];
        let body = |key: &str, tif: &str, steps: &[Step]| {
            let order = order(key, steps);
            order.replacen('{', &format!(r#"{{"time_in_force":"{tif}","#), 1)
        };
        let cases = [
            ("fill-ioc", "IOC", &partial[..], "succeeded", 0.04),
            // What was traded is reported, although it is less than ordered.
            ("fill-fok", "FOK", &partial[..], "failed", 0.04),
            ("fill-zero", "IOC", &[Step::Nothing][..], "failed", 0.0),
        ];
        for (key, tif, steps, _, _) in cases {
            let answer = post(&service, key, &body(key, tif, steps)).await;
            assert_eq!(answer.status, 201, "{key}: {answer:?}");
        }
        for (key, tif, steps, ledger, executed) in cases {
            eventually(key, SOON, async || bench.states(key).await.0 == ledger).await;
            let result = post(&service, key, &body(key, tif, steps)).await.json();
            let fills = result["fills"].as_array().unwrap();
            let is_ok = ledger == "succeeded";
            assert_eq!(
                result["status"],
                if is_ok { "ok" } else { "error" },
                "{result}"
            );
            assert_eq!(fills.is_empty(), executed == 0.0, "{result}");
            assert_eq!(result["executed_qty"], executed, "{result}");
            let time = |name: &str| result[name].as_str().unwrap().parse::<jiff::Timestamp>();
            assert!(
                time("completed_at").unwrap() >= time("requested_at").unwrap(),
                "{result}"
            );
        }
        service.stop().await;
    });
}
