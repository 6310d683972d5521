//! `clients/vectors.json`: what a verifier answers to each request.

use std::collections::BTreeMap;

use consign_receiver::{KeyError, Receipt, Verifier};
use serde::Deserialize;
use serde_json::{Value, json};

const FILE: &str = include_str!("../../../../clients/vectors.json");

#[derive(Deserialize)]
struct Vectors {
    webhooks: Vec<WebhookVector>,
    bad_keys: Vec<String>,
}

#[derive(Deserialize)]
struct WebhookVector {
    name: String,
    keys: Vec<String>,
    headers: BTreeMap<String, String>,
    body: String,
    now: u64,
    expect: Value,
}

fn vectors() -> Vectors {
    serde_json::from_str(FILE).unwrap()
}

#[test]
fn every_request_is_verified_as_its_vector_expects() {
    for vector in vectors().webhooks {
        let verifier = Verifier::new(&vector.keys.join(" ")).unwrap();
        let header = |name: &str| vector.headers.get(name).map(String::as_str);
        let found = match verifier.verify(header, vector.body.as_bytes(), vector.now) {
            Ok(webhook) => json!({
                "id": webhook.id,
                "timestamp": webhook.timestamp,
                "message_id": webhook.message_id,
                "attempt_no": webhook.attempt_no,
                "fence": webhook.fence,
            }),
            Err(rejection) => json!({ "rejected": rejection.code() }),
        };
        assert_eq!(found, vector.expect, "{}", vector.name);
    }
}

#[test]
fn bad_keys_are_rejected_without_being_named() {
    for key in vectors().bad_keys {
        let error = Verifier::new(&key).unwrap_err();
        assert!(
            key.is_empty() || !error.to_string().contains(&key),
            "{error}"
        );
    }
    assert_eq!(Verifier::new(" ").unwrap_err(), KeyError::Missing);
}

#[test]
fn a_tolerance_may_be_set() {
    let vectors = vectors();
    let old = vectors.webhooks.iter();
    let old = old.filter(|it| it.expect["rejected"] == "timestamp_out_of_tolerance");
    for vector in old {
        let verifier = Verifier::new(&vector.keys.join(" ")).unwrap();
        let header = |name: &str| vector.headers.get(name).map(String::as_str);
        let patient = verifier.tolerating(1_000);
        let found = patient.verify(header, vector.body.as_bytes(), vector.now);
        assert!(found.is_ok(), "{}: {found:?}", vector.name);
    }
}

#[test]
fn a_row_shows_what_a_request_is() {
    assert_eq!(Receipt::from_times(Some(1)), Receipt::First);
    assert_eq!(Receipt::from_times(Some(2)), Receipt::Repeated);
    assert_eq!(Receipt::from_times(None), Receipt::Stale);
}
