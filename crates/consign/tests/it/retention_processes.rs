//! Several real processes that run the maintenance of one database at once.

use std::process::Stdio;

use consign_kernel::{By, NewMessage, Outcome, QueuePolicy};
use consign_testkit::eventually;
use serde_json::{Value, json};

use crate::{
    leaving_kills::{BY_HAND, archived, counts},
    orders::bench::{Bench, metric, on_both},
    service::{SOON, Service},
    support::{queue, work},
};

/// Lets the processes take turns many times.
const TURNS: &str = "[retention]\narchive = \"archive\"\ninterval_ms = 100\nrange_age_ms = 0\n";
const ROUNDS: usize = 3;
const PER_ROUND: usize = 50;

/// Makes a queue whose messages leave at once.
async fn keep_nothing(bench: &Bench) {
    let policy = QueuePolicy {
        keep_ms: Some(0),
        ..QueuePolicy::default()
    };
    let store = bench.consign.store().await;
    let by = By::new("tess", "test");
    store.put_queue(&queue("mail"), &policy, &by).await.unwrap();
}

/// Delivers messages that may leave.
async fn deliver(bench: &Bench, count: usize) {
    let store = bench.consign.store().await;
    let mail = queue("mail");
    let letters: Vec<_> = (0..count)
        .map(|n| NewMessage::new(mail.clone(), json!(n)))
        .collect();
    store.enqueue(&letters).await.unwrap();
    work(&*store, &mail, Outcome::Delivered, "http_200").await;
}

/// How many messages the archive has; each must be there once.
fn archived_once(bench: &Bench) -> usize {
    let mut ids: Vec<i64> = archived(bench)
        .iter()
        .map(|item| item["id"].as_i64().unwrap())
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "some are archived twice");
    all
}

#[test]
fn of_several_runs_at_once_one_does_it() {
    on_both(async |mut bench| {
        bench.configure(BY_HAND);
        keep_nothing(&bench).await;
        deliver(&bench, PER_ROUND).await;
        let consign = &bench.consign;
        let start = |_| {
            let mut command = consign.command();
            command.arg("--database").arg(consign.database());
            command.args(["retention", "run", "--json"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let runs: Vec<_> = (0..4).map(start).collect();
        let mut departed = 0;
        for run in runs {
            let output = run.wait_with_output().unwrap();
            let pass: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|error| panic!("{error}: {output:#?}"));
            let expected = match pass["end"].as_str() {
                Some("done") => 0,
                Some("elsewhere") => 3,
                end => panic!("{end:?}: {output:#?}"),
            };
            assert_eq!(output.status.code(), Some(expected), "{output:#?}");
            departed += pass["departed"].as_u64().unwrap();
        }
        assert_eq!(departed, PER_ROUND as u64, "by one of them");
        assert_eq!(archived_once(&bench), PER_ROUND);
        assert_eq!(counts(&bench, "mail"), (json!(PER_ROUND), json!(0)));
        bench.doctor();
    });
}

#[test]
fn services_that_take_turns_let_each_message_leave_once() {
    on_both(async |mut bench| {
        bench.configure(TURNS);
        keep_nothing(&bench).await;
        deliver(&bench, PER_ROUND).await;
        let services = [
            Service::serve(&bench.consign).await,
            Service::work(&bench.consign, &["--queue", "orders"]).await,
        ];
        for round in 1..=ROUNDS {
            let sql = "SELECT coalesce(sum(messages), 0) AS n FROM departed WHERE queue = 'mail'";
            let expected = (round * PER_ROUND) as i64;
            eventually("they have left", SOON, async || {
                bench.eye().await.number(sql).await == expected
            })
            .await;
            if round < ROUNDS {
                deliver(&bench, PER_ROUND).await;
            }
        }
        // They are counted after the commit.
        eventually(
            "the metrics of both have them all, once",
            SOON,
            async || {
                let departed = metric(&services[0], "consign_departed_total", "").await
                    + metric(&services[1], "consign_departed_total", "").await;
                departed as usize == ROUNDS * PER_ROUND
            },
        )
        .await;
        for service in services {
            let failures = metric(&service, "consign_retention_failures_total", "").await;
            assert_eq!(failures, 0.0, "{}", service.log());
            // A lock may be in the way of a step; nothing else may.
            for reason in ["changed", "lease_lost", "no_archive"] {
                let label = format!("reason=\"{reason}\"");
                let refusals = metric(&service, "consign_retention_refusals_total", &label).await;
                assert_eq!(refusals, 0.0, "{reason}: {}", service.log());
            }
            service.stop().await;
        }
        assert_eq!(archived_once(&bench), ROUNDS * PER_ROUND);
        assert_eq!(
            counts(&bench, "mail"),
            (json!(ROUNDS * PER_ROUND), json!(0))
        );
        bench.doctor();
    });
}
