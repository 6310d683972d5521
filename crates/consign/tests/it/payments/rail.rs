//! A rail that is slow, refuses, breaks off, loses replies and forgets references.

use consign_testkit::Step;
use serde_json::json;

use super::fixture::{attempts, becomes, codes, pay, use_rail};
use crate::{
    orders::bench::{metric, on_one},
    service::Service,
};

/// What a rail does, what is recorded about it, and how often it was sent.
#[test]
fn every_rail_answer_maps_to_its_outcome() {
    type Case<'a> = (&'a [Step], &'a str, &'a [&'a str], usize, usize);
    let table: &[Case<'_>] = &[
        (&[], "DISPATCHED", &[""], 1, 1),
        (&[Step::Reject], "FAILED", &["INSUFFICIENT_FUNDS"], 1, 0),
        (&[Step::Refuse(422)], "FAILED", &["HTTP_422"], 1, 0),
        // Not the payment's fault: it rests and is sent again.
        (
            &[Step::Refuse(404)],
            "DISPATCHED",
            &["DISPATCH_ERROR", ""],
            2,
            1,
        ),
        (&[Step::Busy(1)], "DISPATCHED", &["RAIL_BUSY", ""], 2, 1),
        // In doubt: asked about first.
        (&[Step::Drop], "DISPATCHED", &["DISPATCH_ERROR", ""], 2, 1),
        (&[Step::Hang], "DISPATCHED", &["DISPATCH_TIMEOUT", ""], 2, 1),
        (
            &[Step::ExecuteDrop],
            "DISPATCHED",
            &["DISPATCH_ERROR", ""],
            1,
            1,
        ),
        (
            &[Step::ExecuteHang],
            "DISPATCHED",
            &["DISPATCH_TIMEOUT", ""],
            1,
            1,
        ),
        (
            &[Step::ExecuteGarbage],
            "DISPATCHED",
            &["DISPATCH_ERROR", ""],
            1,
            1,
        ),
        (
            &[Step::Refuse(500)],
            "DISPATCHED",
            &["DISPATCH_ERROR", ""],
            2,
            1,
        ),
    ];
    on_one(async |mut bench| {
        use_rail(&mut bench, "concurrency = 20");
        let service = Service::serve(&bench.consign).await;
        let mut ids = Vec::new();
        for (number, (steps, ..)) in (1..).zip(table) {
            ids.push(pay(&service, number, steps).await);
        }
        for (id, (steps, state, expected, sends, executions)) in ids.iter().zip(table) {
            let row = becomes(&bench, id, state).await;
            assert_eq!(codes(&row), *expected, "{steps:?}: {row}");
            let tally = bench.broker.journal().tally(id);
            assert_eq!(tally.sends, *sends, "{steps:?}: {tally:?}");
            assert_eq!(tally.executions, *executions, "{steps:?}: {tally:?}");
            let told = row.to_string();
            assert!(
                !told.contains("260971234567"),
                "an account is masked: {told}"
            );
        }
        service.stop().await;
        bench.consign.run(["payments", "reconcile"]).expect(0);
        bench.doctor();
    });
}

/// Paid under no reference, and under one that another payment has.
#[test]
fn a_missing_reference_holds_and_a_reused_one_raises_an_alarm() {
    on_one(async |mut bench| {
        use_rail(&mut bench, "");
        let service = Service::serve(&bench.consign).await;
        let nameless = pay(&service, 1, &[Step::Nothing]).await;
        let same = || [Step::Partial("R-7".into())];
        let first = pay(&service, 2, &same()).await;
        let second = pay(&service, 3, &same()).await;
        let row = becomes(&bench, &nameless, "HELD").await;
        assert_eq!(codes(&row), ["MISSING_RAIL_REFERENCE"], "{row}");
        assert_eq!(row["payment"]["reason"], "MISSING_RAIL_REFERENCE");
        for id in [&first, &second] {
            becomes(&bench, id, "DISPATCHED").await;
        }
        let alarms = metric(&service, "consign_payments_alarms_total", "").await;
        assert_eq!(alarms, 1.0);

        let ran = bench.consign.run(["payments", "reconcile", "--json"]);
        let found = ran.expect(1).json();
        assert_eq!(found["uncertain"][0]["outbox_id"], json!(nameless));
        let reused = &found["reused_references"][0];
        assert_eq!(reused["rail_reference"], "R-7");
        assert_eq!(reused["outbox_ids"], json!([first, second]));

        let arguments = ["payments", "resolve", &nameless, "--dispatched"];
        bench.consign.run(arguments).expect(2);
        let found = arguments.into_iter().chain(["--rail-reference", "R-8"]);
        bench.consign.run(found).expect(0);
        let row = becomes(&bench, &nameless, "DISPATCHED").await;
        assert_eq!(attempts(&row).len(), 2, "{row}");
        assert_eq!(
            bench.broker.journal().tally(&nameless).sends,
            1,
            "never again"
        );
        service.stop().await;
    });
}
