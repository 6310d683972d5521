//! The race of two workers for one payment, over HTTP and real processes on both stores.

use std::net::SocketAddr;

use consign_testkit::eventually_some;
use serde_json::{Value, json};

use super::fixture::{attempts, becomes, pay, shown};
use crate::{
    http::{self, Answer},
    orders::bench::on_both,
    service::{SOON, Service},
};

async fn claim(at: SocketAddr, lease_seconds: u32) -> Option<Value> {
    let body = json!({"worker_id": "worker", "lease_seconds": lease_seconds});
    let answer = http::post(at, "/v1/payments/claims", &body.to_string()).await;
    assert!(matches!(answer.status, 200 | 204), "{answer:?}");
    (answer.status == 200).then(|| answer.json())
}

async fn complete(at: SocketAddr, lease: &Value, id: &str, reference: &str) -> Answer {
    let token = lease["lease_token"].as_str().unwrap();
    let completion = json!({
        "outbox_id": id, "state": "DISPATCHED", "rail_reference": reference, "latency_ms": 12,
    });
    let body = json!({"worker_id": "worker", "completions": [completion]});
    let path = format!("/v1/payments/leases/{token}/complete");
    http::post(at, &path, &body.to_string()).await
}

/// A stalls, B claims, A wakes up, all under the same name and each at a server of its own.
/// A is refused and its word kept; B is told to ask; the payment has one dispatch.
#[test]
fn a_lost_lease_is_refused_and_its_late_result_is_recorded() {
    on_both(async |mut bench| {
        bench.configure("[payments]\nrail = \"none\"\n");
        let first = Service::serve(&bench.consign).await;
        let second = Service::serve(&bench.consign).await;
        let id = pay(&first, 1, &[]).await;
        let a = claim(first.address(), 1).await.expect("it is due");
        assert_eq!(a["payments"][0]["outbox_id"], json!(id));
        assert_eq!(a["payments"][0]["in_doubt"], false, "{a}");
        let claim_b = async || claim(second.address(), 60).await;
        let b = eventually_some("the lease of A is over", SOON, claim_b).await;
        assert_ne!(a["lease_token"], b["lease_token"]);
        assert_eq!(b["payments"][0]["in_doubt"], true, "A may have paid: {b}");

        let late = complete(first.address(), &a, &id, "rail-a").await;
        assert_eq!(late.status, 409, "{late:?}");
        assert_eq!(late.json()["error"], "LEASE_LOST");
        assert_eq!(late.json()["kept_as_evidence"], json!([id]));
        assert_eq!(attempts(&shown(&bench, &id)), ["ZOMBIE_REQUEUE"]);

        // B asked the rail, which knows what A sent.
        let done = complete(second.address(), &b, &id, "rail-a").await;
        assert_eq!(done.status, 200, "{done:?}");
        let again = complete(first.address(), &b, &id, "rail-a").await;
        assert_eq!(again.json(), done.json(), "a lost reply is answered again");
        let row = becomes(&bench, &id, "DISPATCHED").await;
        assert_eq!(attempts(&row), ["ZOMBIE_REQUEUE", "DISPATCHED"], "{row}");
        let other = complete(first.address(), &b, &id, "rail-b").await;
        assert_eq!(other.status, 409, "{other:?}");
        assert_eq!(other.json()["reason"], "recorded_otherwise");
        let found = http::get(first.address(), "/v1/payments/reconcile").await;
        let late = found.json()["late_successes"].clone();
        let references: Vec<&Value> = late
            .as_array()
            .unwrap()
            .iter()
            .map(|late| &late["late"]["result"]["rail_reference"])
            .collect();
        assert!(references.contains(&&json!("rail-b")), "{late}");
        first.stop().await;
        second.stop().await;
    });
}

/// A success that came too late is on record, so whoever claims next is told to ask, also after
/// a lease that presumed nothing.
#[test]
fn a_late_success_puts_the_next_claim_in_doubt() {
    on_both(async |mut bench| {
        bench.configure("[payments]\nrail = \"none\"\n");
        let service = Service::serve(&bench.consign).await;
        let at = service.address();
        let id = pay(&service, 1, &[]).await;
        let quiet = json!({"worker_id": "worker", "lease_seconds": 1, "begin": false});
        let a = http::post(at, "/v1/payments/claims", &quiet.to_string()).await;
        let a = a.json();
        let claim_b = async || claim(at, 1).await;
        let b = eventually_some("the lease of A is over", SOON, claim_b).await;
        assert_eq!(b["payments"][0]["in_doubt"], false, "nothing presumed: {b}");
        let token = b["lease_token"].as_str().unwrap();
        let release = format!("/v1/payments/leases/{token}/release");
        let late = complete(at, &a, &id, "rail-a").await;
        assert_eq!(late.json()["kept_as_evidence"], json!([id]), "{late:?}");
        http::post(at, &release, "{}").await;
        let c = eventually_some("it is due", SOON, async || claim(at, 60).await).await;
        assert_eq!(c["payments"][0]["in_doubt"], true, "{c}");
        service.stop().await;
    });
}
