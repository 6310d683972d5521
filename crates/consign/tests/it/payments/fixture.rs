//! Handing payments in, and looking at what becomes of them.

use consign_testkit::{Step, eventually};
use serde_json::{Value, json};

use crate::{
    http,
    orders::bench::Bench,
    service::{SOON, Service},
};

pub(crate) const TENANT: &str = "0190f3a2-7b1c-7000-8000-00000000000a";

/// The shortest lease there may be: a dispatch of a second, and five to record it.
pub(crate) const LEASE_SEC: u64 = 6;

/// Sends payments to the bench's broker, which is a rail as well.
pub(crate) fn use_rail(bench: &mut Bench, more: &str) {
    let url = bench.broker.payments_url();
    bench.configure(&format!(
        "[payments]\nrail = \"http\"\nrail_url = {url:?}\nrail_status_url = \"{url}/{{reference}}\"\n\
         lease_sec = {LEASE_SEC}\ndispatch_timeout_sec = 1\n{more}\n"
    ));
}

/// A payment as a caller writes it.
pub(crate) fn payment(number: u32, steps: &[Step]) -> Value {
    let steps: Vec<String> = steps.iter().map(Step::tag).collect();
    json!({
        "instruction_id": format!("0190f3a2-7b1c-7000-8000-{number:012}"),
        "idempotency_key": format!("key-{number}"),
        "tenant_id": TENANT,
        "participant_id": "bank-a",
        "rail_type": "PAYMENT",
        "amount_minor": 1250,
        "currency_code": "ZMW",
        "beneficiary_ref_hash": "9f2c",
        "submitted_at_utc": "2026-11-16T03:00:00Z",
        "details": {"steps": steps},
    })
}

/// Hands a payment in and answers with its outbox_id.
pub(crate) async fn pay(service: &Service, number: u32, steps: &[Step]) -> String {
    let body = payment(number, steps).to_string();
    let answer = http::post(service.address(), "/v1/payments", &body).await;
    assert_eq!(answer.status, 202, "{answer:?}\n{}", service.log());
    answer.json()["outbox_id"].as_str().unwrap().to_owned()
}

/// A payment as the database has it.
pub(crate) fn shown(bench: &Bench, id: &str) -> Value {
    bench.consign.json(["payments", "show", id])
}

/// Waits until a payment stands so, and answers with it.
pub(crate) async fn becomes(bench: &Bench, id: &str, state: &str) -> Value {
    let what = format!("{id} is {state} on {:?}", bench.kind);
    eventually(&what, SOON, async || {
        shown(bench, id)["payment"]["state"] == state
    })
    .await;
    shown(bench, id)
}

/// The states of a payment's attempts.
pub(crate) fn attempts(shown: &Value) -> Vec<&str> {
    let attempts = shown["attempts"].as_array().unwrap().iter();
    let states = attempts.map(|attempt| attempt["state"].as_str().unwrap());
    states.collect()
}

/// The codes of a payment's attempts; empty where there is none.
pub(crate) fn codes(shown: &Value) -> Vec<&str> {
    let attempts = shown["attempts"].as_array().unwrap().iter();
    let codes = attempts.map(|attempt| attempt["error_code"].as_str().unwrap_or_default());
    codes.collect()
}
