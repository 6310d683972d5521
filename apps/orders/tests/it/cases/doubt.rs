//! An order that may have been executed is never told to have failed for certain (O-08, CO-33).

use consign_conformance::stage::{s, settled};
use consign_kernel::{MessageId, Outcome, Report, StateKind};
use consign_orders::{LedgerStatus::Failed, NewOrder};
use serde_json::Value;

use super::LedgerHarness;
use super::desk::{Desk, ended, order, report};

/// What happens to an order in one lease.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// Its worker reports this, with an end of this status.
    Says(Outcome, &'static str, u16),
    /// Its worker reports this, and nothing that could be read.
    Mumbles(Outcome),
    /// Its worker is lost before it begins to send.
    Lost,
    /// Its worker is lost after it began to send.
    LostSending,
}

use Turn::{Lost, LostSending, Mumbles, Says};

const UNSURE: Turn = Says(Outcome::Uncertain, "BROKER_TIMEOUT", 504);
/// A send that certainly did nothing, about an order that perhaps was executed before.
const STILL_UNSURE: Turn = Says(Outcome::Uncertain, "BROKER_DOWN", 503);
const DOWN: Turn = Says(Outcome::Retry, "BROKER_DOWN", 503);
const REJECTED: Turn = Says(Outcome::Dead, "BROKER_REJECTED", 400);

async fn play(desk: &Desk<'_>, id: MessageId, turn: Turn) {
    let lease = desk.claim(id).await;
    match turn {
        Says(outcome, code, http_status) => {
            let report = report(id, outcome, code, &ended(http_status, "error"));
            settled(desk.stage.settle(&lease, &[report]).await);
        }
        Mumbles(outcome) => {
            let report = Report::new(id, outcome);
            settled(desk.stage.settle(&lease, &[report]).await);
        }
        Lost => desk.stage.crash().await,
        LostSending => {
            let begun = desk.stage.store.begin(lease.token, &[id]).await;
            begun.expect("begin answers");
            desk.stage.crash().await;
        }
    }
    // Longer than any rest of this queue.
    desk.stage.advance(s(5)).await;
}

/// An order that died after these turns, and the status it ended with.
async fn died(desk: &Desk<'_>, of: &str, turns: &[Turn]) -> (NewOrder, u16) {
    let order = order(of);
    let id = desk.enter(&order).await;
    for turn in turns {
        play(desk, id, *turn).await;
    }
    assert_eq!(desk.stage.kind(id).await, StateKind::Dead, "{turns:?}");
    let (status, http_status, _) = desk.glance(&order).await;
    assert_eq!(status, Failed, "{turns:?}");
    (order, http_status)
}

pub(crate) async fn an_order_that_dies_in_doubt_may_have_been_executed(
    harness: &dyn LedgerHarness,
) {
    let desk = Desk::new(harness).await;
    let table: [&[Turn]; 7] = [
        &[UNSURE, STILL_UNSURE, STILL_UNSURE],
        &[DOWN, DOWN, STILL_UNSURE],
        &[
            UNSURE,
            Mumbles(Outcome::Uncertain),
            Mumbles(Outcome::Uncertain),
        ],
        &[DOWN, DOWN, LostSending],
        &[DOWN, LostSending, Lost],
        &[UNSURE, Lost, Lost],
        &[UNSURE, Mumbles(Outcome::Dead)],
    ];
    for (n, turns) in table.into_iter().enumerate() {
        let (order, http_status) = died(&desk, &format!("key-{n:04}"), turns).await;
        assert_eq!(http_status, 504, "{turns:?}");
        let entry = desk.entry(&order).await;
        assert_eq!(entry.result_digest, None, "{turns:?}: no adapter said this");
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

pub(crate) async fn a_doubt_in_the_sinks_own_words_is_kept_as_it_is(harness: &dyn LedgerHarness) {
    let desk = Desk::new(harness).await;
    let (order, _) = died(&desk, "key-0001", &[DOWN, DOWN, UNSURE]).await;
    let said = ended(504, "error");
    let body = Some(said.exec_result);
    assert_eq!(desk.glance(&order).await, (Failed, 504, body));
    let digest = desk.entry(&order).await.result_digest;
    assert_eq!(digest, Some(said.result_digest));
}

/// A doubt is over where the sink has found out, and says so.
pub(crate) async fn a_certain_end_is_told_as_it_is_whatever_was_in_doubt_before(
    harness: &dyn LedgerHarness,
) {
    let desk = Desk::new(harness).await;
    let table: [(&[Turn], u16); 5] = [
        (&[UNSURE, REJECTED], 400),
        (&[LostSending, REJECTED], 400),
        (&[UNSURE, DOWN, DOWN], 503),
        (&[DOWN, DOWN, DOWN], 503),
        (&[Mumbles(Outcome::Dead)], 500),
    ];
    for (n, (turns, http_status)) in table.into_iter().enumerate() {
        let (_, found) = died(&desk, &format!("key-{n:04}"), turns).await;
        assert_eq!(found, http_status, "{turns:?}");
    }
}
