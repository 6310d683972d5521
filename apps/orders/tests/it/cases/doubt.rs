//! An order that may have been executed is never reported as certainly failed.

use consign_conformance::stage::{s, settled};
use consign_kernel::{MessageId, Outcome, Report, StateKind};
use consign_orders::{LedgerStatus::Failed, NewOrder};
use serde_json::Value;

use super::LedgerHarness;
use super::fixture::{OrdersFixture, ended, order, report};

/// What happens to an order in one lease.
#[derive(Clone, Copy, Debug)]
enum AttemptScript {
    /// Its worker reports this, with an end of this status.
    Reports(Outcome, &'static str, u16),
    /// Its worker reports this, and nothing that could be read.
    ReportsNothing(Outcome),
    /// Its worker is lost before it begins to send.
    Lost,
    /// Its worker is lost after it began to send.
    LostSending,
}

use AttemptScript::{Lost, LostSending, Reports, ReportsNothing};

const UNSURE: AttemptScript = Reports(Outcome::Uncertain, "BROKER_TIMEOUT", 504);
/// A send that certainly did nothing, about an order that perhaps was executed before.
const STILL_UNSURE: AttemptScript = Reports(Outcome::Uncertain, "BROKER_DOWN", 503);
const DOWN: AttemptScript = Reports(Outcome::Retry, "BROKER_DOWN", 503);
const REJECTED: AttemptScript = Reports(Outcome::Dead, "BROKER_REJECTED", 400);

async fn play(fixture: &OrdersFixture<'_>, id: MessageId, turn: AttemptScript) {
    let lease = fixture.claim(id).await;
    match turn {
        Reports(outcome, code, http_status) => {
            let report = report(id, outcome, code, &ended(http_status, "error"));
            settled(fixture.stage.settle(&lease, &[report]).await);
        }
        ReportsNothing(outcome) => {
            let report = Report::new(id, outcome);
            settled(fixture.stage.settle(&lease, &[report]).await);
        }
        Lost => fixture.stage.crash().await,
        LostSending => {
            let begun = fixture.stage.store.begin(lease.token, &[id]).await;
            begun.expect("begin answers");
            fixture.stage.crash().await;
        }
    }
    // Longer than any rest of this queue.
    fixture.stage.advance(s(5)).await;
}

/// An order that died after these turns, and the status it ended with.
async fn died(fixture: &OrdersFixture<'_>, of: &str, turns: &[AttemptScript]) -> (NewOrder, u16) {
    let order = order(of);
    let id = fixture.enter(&order).await;
    for turn in turns {
        play(fixture, id, *turn).await;
    }
    assert_eq!(fixture.stage.kind(id).await, StateKind::Dead, "{turns:?}");
    let (status, http_status, _) = fixture.glance(&order).await;
    assert_eq!(status, Failed, "{turns:?}");
    (order, http_status)
}

pub(crate) async fn an_order_that_dies_in_doubt_may_have_been_executed(
    harness: &dyn LedgerHarness,
) {
    let fixture = OrdersFixture::new(harness).await;
    let table: [&[AttemptScript]; 7] = [
        &[UNSURE, STILL_UNSURE, STILL_UNSURE],
        &[DOWN, DOWN, STILL_UNSURE],
        &[
            UNSURE,
            ReportsNothing(Outcome::Uncertain),
            ReportsNothing(Outcome::Uncertain),
        ],
        &[DOWN, DOWN, LostSending],
        &[DOWN, LostSending, Lost],
        &[UNSURE, Lost, Lost],
        &[UNSURE, ReportsNothing(Outcome::Dead)],
    ];
    for (n, turns) in table.into_iter().enumerate() {
        let (order, http_status) = died(&fixture, &format!("key-{n:04}"), turns).await;
        assert_eq!(http_status, 504, "{turns:?}");
        let entry = fixture.entry(&order).await;
        assert_eq!(
            entry.result_digest, None,
            "{turns:?}: no adapter reported this"
        );
        let body: Value = serde_json::from_str(&entry.response.expect("an answer")).expect("JSON");
        for (field, value) in [
            ("status", "error"),
            ("error", "BROKER_TIMEOUT"),
            ("reason_code", "BROKER_TIMEOUT"),
            ("order_id", "ord-1"),
        ] {
            assert_eq!(body[field], value, "{turns:?}: {field}");
        }
        let message = body["message"].as_str().expect("words");
        assert!(message.contains("may have been executed"), "{message}");
    }
}

pub(crate) async fn a_doubt_that_the_sink_reports_is_stored_unchanged(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let (order, _) = died(&fixture, "key-0001", &[DOWN, DOWN, UNSURE]).await;
    let expected = ended(504, "error");
    let body = Some(expected.exec_result);
    assert_eq!(fixture.glance(&order).await, (Failed, 504, body));
    let digest = fixture.entry(&order).await.result_digest;
    assert_eq!(digest, Some(expected.result_digest));
}

/// A doubt ends when the sink reports a certain outcome.
pub(crate) async fn a_certain_end_replaces_an_earlier_doubt(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let table: [(&[AttemptScript], u16); 5] = [
        (&[UNSURE, REJECTED], 400),
        (&[LostSending, REJECTED], 400),
        (&[UNSURE, DOWN, DOWN], 503),
        (&[DOWN, DOWN, DOWN], 503),
        (&[ReportsNothing(Outcome::Dead)], 500),
    ];
    for (n, (turns, http_status)) in table.into_iter().enumerate() {
        let (_, found) = died(&fixture, &format!("key-{n:04}"), turns).await;
        assert_eq!(found, http_status, "{turns:?}");
    }
}
