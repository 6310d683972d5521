//! Workers that are killed (SIGKILL) while a rail has their payments, databases that go away then,
//! and an end in good order.

use consign_testkit::{Step, eventually};
use serde_json::json;

use super::fixture::{attempts, becomes, pay, shown, use_rail};
use crate::{
    orders::bench::on_both,
    service::{SOON, Service},
};

const WORK: &[&str] = &["--queue", "payments"];

/// The worker that takes over probes the rail first. What it has is not sent again, what it
/// has not is; and the rail sees one reference throughout.
#[test]
fn after_a_kill_the_rail_is_queried_and_nothing_is_paid_twice() {
    on_both(async |mut bench| {
        use_rail(&mut bench, "");
        let server = Service::serve(&bench.consign).await;
        bench.consign.run(["pause", "payments"]).expect(0);
        let paid = pay(&server, 1, &[Step::ExecuteHang]).await;
        let lost = pay(&server, 2, &[Step::Hang]).await;
        server.stop().await;
        let mut victim = Service::work(&bench.consign, WORK).await;
        bench.consign.run(["resume", "payments"]).expect(0);
        bench.broker.was_sent(2).await;
        bench.broker.has_executed(&paid).await;
        victim.child.kill9();
        let row = shown(&bench, &paid);
        assert!(row["payment"]["claimed_by"].is_string(), "{row}");

        let heir = Service::work(&bench.consign, WORK).await;
        for (id, sends) in [(&paid, 1), (&lost, 2)] {
            let row = becomes(&bench, id, "DISPATCHED").await;
            assert_eq!(attempts(&row), ["ZOMBIE_REQUEUE", "DISPATCHED"], "{row}");
            let tally = bench.broker.journal().tally(id);
            assert_eq!((tally.sends, tally.executions), (sends, 1), "{tally:?}");
            assert!(tally.queries >= 1, "asked first: {tally:?}");
        }
        for (_, body) in bench.broker.journal().sends(&lost) {
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["reference"], json!(lost));
        }
        heir.stop().await;
        bench.consign.run(["payments", "reconcile"]).expect(0);
        bench.doctor();
    });
}

/// The rail has it, and the database is away. What the rail said is kept until it can be
/// recorded; the payment is neither sent nor asked about again.
#[test]
fn a_database_outage_after_rail_success_causes_no_second_dispatch() {
    on_both(async |mut bench| {
        use_rail(&mut bench, "");
        let service = Service::serve(&bench.consign).await;
        bench.broker.tell(|manner| manner.is_open = false).await;
        let id = pay(&service, 1, &[]).await;
        bench.broker.was_sent(1).await;
        let outage = bench.take_database().await;
        bench.broker.tell(|manner| manner.is_open = true).await;
        bench.broker.has_executed(&id).await;
        outage.end().await;
        let row = becomes(&bench, &id, "DISPATCHED").await;
        assert_eq!(attempts(&row), ["DISPATCHED"], "{row}");
        let tally = bench.broker.journal().tally(&id);
        assert_eq!((tally.sends, tally.executions, tally.queries), (1, 1, 0));
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn the_end_finishes_what_a_rail_has_and_claims_no_more() {
    on_both(async |mut bench| {
        use_rail(&mut bench, "concurrency = 2");
        bench.broker.tell(|manner| manner.is_open = false).await;
        let mut service = Service::serve(&bench.consign).await;
        let mut ids = Vec::new();
        for number in 1..=4 {
            ids.push(pay(&service, number, &[]).await);
        }
        bench.broker.was_sent(2).await;
        service.signal("TERM");
        service.logs("no more claims").await;
        bench.broker.tell(|manner| manner.is_open = true).await;
        assert_eq!(service.ends().await, 0, "{}", service.log());
        assert_eq!(bench.broker.send_count(), 2);
        let status = bench.consign.json(["payments", "status"])["status"].clone();
        assert_eq!(
            (&status["pending"], &status["leased"], &status["due"]),
            (&json!(2), &json!(0), &json!(2)),
            "given back, not lost: {status}"
        );
        let heir = Service::work(&bench.consign, WORK).await;
        for id in &ids {
            becomes(&bench, id, "DISPATCHED").await;
        }
        assert_eq!(bench.broker.execution_count(), 4);
        heir.stop().await;
        bench.doctor();
    });
}

/// The worker is gone and no other worker claims.
#[test]
fn repair_by_command_requeues_payments_of_a_dead_worker() {
    on_both(async |mut bench| {
        use_rail(&mut bench, "");
        let mut server = Service::serve(&bench.consign).await;
        let id = pay(&server, 1, &[Step::Hang]).await;
        bench.broker.was_sent(1).await;
        server.child.kill9();
        let repair = |more: &[&str]| {
            let arguments = ["payments", "repair"].iter().chain(more).copied();
            bench.consign.json(arguments)
        };
        assert_eq!(
            repair(&[])["repaired"],
            json!([]),
            "a live lease is left alone"
        );
        eventually("its lease is over", SOON, async || {
            repair(&["--dry-run"])["expired"] != json!([])
        })
        .await;
        assert_eq!(attempts(&shown(&bench, &id)), [""; 0], "only shown");
        let done = repair(&[]);
        let expected = json!([{"outbox_id": id, "attempt_no": 1, "state": "ZOMBIE_REQUEUE"}]);
        assert_eq!(done["repaired"], expected);
        assert_eq!(repair(&[])["repaired"], json!([]), "once");
        bench.doctor();
    });
}
