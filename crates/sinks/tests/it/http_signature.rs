//! Signatures, verified as a receiver would: from the bytes that came in and its own key.

use base64::{Engine, prelude::BASE64_STANDARD};
use ring::{
    hmac,
    signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};
use serde_json::json;

use crate::{
    fixture::{EXACT, delivery_of, exact, http_sink},
    server::{Request, Server, status},
};

/// Whether one of the request's signatures of a version is right.
fn verified(request: &Request, version: &str, check: impl Fn(&[u8], &[u8]) -> bool) -> bool {
    let id = request.header("webhook-id");
    let timestamp = request.header("webhook-timestamp");
    let signed = [format!("{id}.{timestamp}.").as_bytes(), &request.body].concat();
    let signatures = request.header("webhook-signature").split(' ');
    signatures
        .filter_map(|signature| signature.split_once(','))
        .filter(|(found, _)| *found == version)
        .any(|(_, signature)| check(&signed, &BASE64_STANDARD.decode(signature).unwrap()))
}

fn verified_by_secret(request: &Request, secret: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    verified(request, "v1", |signed, tag| {
        hmac::verify(&key, signed, tag).is_ok()
    })
}

fn shared(secret: &[u8]) -> String {
    format!("whsec_{}", BASE64_STANDARD.encode(secret))
}

#[tokio::test]
async fn each_key_signs_what_was_sent_byte_for_byte() {
    let (old, new) = ([1; 24], [2; 32]);
    let seed = [3; 32];
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let public = pair.public_key().as_ref().to_vec();
    let whole = [&seed[..], &public].concat();
    let keys = format!(
        "{}\\n{} whsk_{}",
        shared(&new),
        shared(&old),
        BASE64_STANDARD.encode(whole)
    );
    let server = Server::start(|_, _| status(200)).await;
    let sink = http_sink(&server.url(), &format!("signing_secret = \"{keys}\"")).await;
    sink.deliver(&exact(|_| ())).await;
    let request = server.request();
    assert_eq!(request.body, EXACT.as_bytes());
    assert_eq!(request.header("webhook-signature").split(' ').count(), 3);
    assert!(verified_by_secret(&request, &old));
    assert!(verified_by_secret(&request, &new));
    assert!(
        !verified_by_secret(&request, &[9; 24]),
        "any other secret fails"
    );
    let public = UnparsedPublicKey::new(&ED25519, public);
    assert!(verified(&request, "v1a", |signed, signature| {
        public.verify(signed, signature).is_ok()
    }));
    let mut altered = request.clone();
    altered.body[0] ^= 1;
    assert!(!verified_by_secret(&altered, &old), "another body fails");
}

#[tokio::test]
async fn the_id_is_the_same_for_every_attempt_and_the_time_is_now() {
    let server = Server::start(|_, _| status(500)).await;
    let options = format!("signing_secret = \"{}\"", shared(&[1; 24]));
    let sink = http_sink(&server.url(), &options).await;
    for attempt_no in 1..=2 {
        let mut delivery = delivery_of(json!(1), |message| message.key = Some("a.b".into()));
        delivery.attempt_no = attempt_no;
        sink.deliver(&delivery).await;
    }
    let requests = server.requests();
    let now = jiff::Timestamp::now().as_second();
    for request in &requests {
        assert_eq!(
            request.header("webhook-id"),
            "orders:a%2Eb",
            "no dot that would separate"
        );
        let timestamp: i64 = request.header("webhook-timestamp").parse().unwrap();
        assert!(
            (now - 60..=now).contains(&timestamp),
            "{timestamp} is not {now}"
        );
    }
    assert_eq!(requests[1].header("consign-attempt"), "2");
}
