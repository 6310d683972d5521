//! Printers that work on reports over HTTP, as programs that cannot reach the database do: they jam,
//! and at times one is switched off with paper in it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    caller::{Call, Caller},
    chance::Chance,
};

/// How long a printer may send nothing before others get its reports.
const LEASE_MS: u64 = 12_000;
/// How long it waits for something to do.
const WAIT_MS: u64 = 5_000;
/// How long one that was switched off stays off: beyond its lease.
const OFF: Duration = Duration::from_secs(20);
/// The pause before the next claim after a failure.
const REST: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
enum PrinterAction {
    Prints,
    Jams,
    HasNoTemplate,
    IsSwitchedOff,
}

const ACTIONS: &[(u64, PrinterAction)] = &[
    (78, PrinterAction::Prints),
    (12, PrinterAction::Jams),
    (4, PrinterAction::HasNoTemplate),
    (6, PrinterAction::IsSwitchedOff),
];

/// Prints until it is dropped.
pub(crate) async fn print(caller: Caller, number: u64, seed: u64) {
    let mut chance = Chance::new(seed.wrapping_add(number));
    let owner = format!("printer-{number}");
    let claim = Call::new(
        "/v1/claims",
        json!({
            "queue": "reports", "owner": owner, "limit": 2,
            "ttl_ms": LEASE_MS, "wait_ms": WAIT_MS,
        }),
    );
    loop {
        let Some(lease) = caller.post(&claim).await else {
            sleep(REST).await;
            continue;
        };
        sleep(Duration::from_millis(1_500 + chance.below(4_000))).await;
        let report = match chance.weigh(ACTIONS) {
            PrinterAction::Prints => json!({"outcome": "delivered"}),
            PrinterAction::Jams => {
                json!({"outcome": "retry", "code": "paper_jam", "detail": "paper in the fuser"})
            }
            PrinterAction::HasNoTemplate => {
                json!({"outcome": "dead", "code": "no_template", "detail": "no such form"})
            }
            PrinterAction::IsSwitchedOff => {
                sleep(OFF).await;
                continue;
            }
        };
        if let Some(settle) = settle(&lease, &report) {
            caller.post(&settle).await;
        }
    }
}

/// The same for every report in the lease.
fn settle(lease: &Value, report: &Value) -> Option<Call> {
    let token = lease["token"].as_str()?;
    let messages = lease["messages"].as_array()?.iter();
    let reports: Vec<Value> = messages
        .map(|message| {
            let mut report = report.clone();
            report["id"] = message["id"].clone();
            report
        })
        .collect();
    let path = format!("/v1/leases/{token}/settle");
    Some(Call::new(path, json!({"reports": reports})))
}
