//! Leases of orders: who may settle, and for how long.

use std::time::Duration;

use consign_testkit::{Step, eventually};

use super::bench::{Kind, LEASE, broker_key, metric, on_both, place};
use crate::{http, service::SOON};

const PATIENT: &[(&str, &str)] = &[
    ("broker_timeout_ms", "20000"),
    ("broker_timeout_fok_gtc_ms", "20000"),
];

/// Also with two workers of the same name: a name is no proof of anything.
#[test]
fn a_worker_that_slept_past_its_lease_changes_nothing() {
    on_both(async |mut bench| {
        bench.set(PATIENT);
        bench.configure("[worker]\nowner = \"twin\"\n");
        let server = bench.serve().await;
        bench.consign.run(["pause", "orders"]).expect(0);
        // The first send is rejected, which would be final; the second is executed.
        let slow = Step::Slow(Duration::from_millis(1_500));
        let id = place(&server, "key-0013", &[Step::Reject, slow])
            .await
            .json()["outbox_id"]
            .to_string();
        server.stop().await;
        bench.broker.tell(|manner| manner.is_open = false).await;
        let stale = bench.work().await;
        bench.consign.run(["resume", "orders"]).expect(0);
        bench.broker.was_sent(1).await;
        stale.child.pause();
        let heir = bench.work().await;
        bench.broker.was_sent(2).await;
        bench.broker.tell(|manner| manner.is_open = true).await;
        // The rejection waits for it; the heir's order is still under way.
        stale.child.resume();
        eventually("it finds its lease lost", SOON, async || {
            metric(&stale, "consign_leases_lost_total", "").await >= 1.0
        })
        .await;
        bench.becomes("key-0013", "succeeded", "succeeded").await;
        let outcomes = bench.consign.json(["show", &id]);
        let outcomes: Vec<&str> = outcomes["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|attempt| attempt["outcome"].as_str().unwrap())
            .collect();
        assert_eq!(outcomes, ["uncertain", "delivered"]);
        let tally = bench.broker.journal().tally(&broker_key("key-0013"));
        assert_eq!((tally.sends, tally.executions), (2, 1));
        stale.stop().await;
        assert_eq!(
            bench.states("key-0013").await,
            ("succeeded".into(), "succeeded".into()),
            "also after its last words"
        );
        heir.stop().await;
        bench.doctor();
    });
}

#[test]
fn a_result_that_could_not_be_recorded_is_recorded_later_and_not_sent_again() {
    on_both(async |mut bench| {
        bench.set(PATIENT);
        bench.set(&[("outbox_lock_lease_sec", "30")]);
        let service = bench.serve().await;
        bench.broker.tell(|manner| manner.is_open = false).await;
        place(&service, "key-0014", &[]).await;
        bench.broker.was_sent(1).await;
        let outage = bench.take_database().await;
        bench.broker.tell(|manner| manner.is_open = true).await;
        bench.broker.has_executed(&broker_key("key-0014")).await;
        match bench.kind {
            Kind::Sqlite => service.logs("settle: the database is not available").await,
            // Claims have found out before; it is said once. Recording goes on at every moment.
            Kind::Postgres => {
                service.logs("order 1 was processed").await;
                let at = service.address();
                eventually("it is not ready", SOON, async || {
                    http::get(at, "/readyz").await.status == 503
                })
                .await;
            }
        }
        outage.end().await;
        bench.becomes("key-0014", "succeeded", "succeeded").await;
        let row = bench.outbox("key-0014").await;
        assert_eq!(row["attempts"], 0, "no send failed: {row}");
        assert_eq!(bench.broker.send_count(), 1);
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn an_order_that_kills_its_workers_is_aborted_in_the_end() {
    const ATTEMPTS: usize = 3;
    on_both(async |mut bench| {
        bench.set(&[("outbox_max_attempts", "3")]);
        let server = bench.serve().await;
        bench.consign.run(["pause", "orders"]).expect(0);
        place(&server, "key-0016", &[]).await;
        server.stop().await;
        bench.consign.run(["resume", "orders"]).expect(0);
        let work = [
            "work",
            "--queue",
            "orders",
            "--health-listen",
            "127.0.0.1:0",
        ];
        for _ in 0..ATTEMPTS {
            let (mut victim, failpoint) = bench.stopped_at(&work, "orders.after_claim").await;
            failpoint.reached().await;
            victim.child.kill9();
        }
        let heir = bench.work().await;
        bench.becomes("key-0016", "failed", "aborted").await;
        let ledger = bench.ledger("key-0016").await;
        // Its sends had been recorded as begun: only the broker knows that none came.
        assert_eq!(ledger["http_status"], 504, "{ledger}");
        assert_eq!(bench.broker.send_count(), 0);
        heir.stop().await;
        bench.doctor();
    });
}

#[test]
fn an_order_that_takes_three_leases_keeps_its_owner() {
    on_both(async |mut bench| {
        bench.set(PATIENT);
        let owner = bench.serve().await;
        let rival = bench.work().await;
        place(&owner, "key-0017", &[Step::Slow(LEASE * 3)]).await;
        bench.becomes("key-0017", "succeeded", "succeeded").await;
        let row = bench.outbox("key-0017").await;
        assert_eq!(row["attempts"], 0, "no send failed: {row}");
        assert_eq!(bench.broker.send_count(), 1);
        rival.stop().await;
        owner.stop().await;
    });
}

#[test]
fn claims_no_more_than_its_free_slots() {
    on_both(async |mut bench| {
        bench.set(PATIENT);
        let slow = Step::Slow(LEASE / 4);
        bench.broker.tell(|manner| manner.otherwise = slow).await;
        let service = bench.serve().await;
        for number in 0..32 {
            place(&service, &format!("key-{number:04}"), &[]).await;
        }
        let done = "SELECT count(*) FROM outbox_orders WHERE status = 'succeeded'";
        let sending = "SELECT count(*) FROM outbox_orders WHERE status = 'sending'";
        eventually("all are done", SOON, async || {
            let mut sql = bench.eye().await;
            // Four are sent; what was sent may still be on its way into the ledger.
            assert!(sql.number(sending).await <= 8, "claimed ahead of the slots");
            sql.number(done).await == 32
        })
        .await;
        let journal = bench.broker.journal();
        assert_eq!(journal.send_count(), 32);
        assert_eq!(journal.in_flight_max(), 4);
        let lost = "SELECT count(*) FROM attempt WHERE outcome <> 'delivered'";
        assert_eq!(bench.eye().await.number(lost).await, 0);
        service.stop().await;
    });
}
