//! `clients/vectors.json`: requests that the clients verify are those that the http sink sends.

use std::collections::BTreeMap;

use consign_kernel::{Fence, MessageId, Payload};
use consign_outbound::Signer;
use serde::Deserialize;

use crate::{
    fixture::{delivery_of, http_sink},
    server::{Server, status},
};

const FILE: &str = include_str!("../../../../clients/vectors.json");

#[derive(Deserialize)]
struct Vectors {
    keys: Vec<KeyVector>,
    webhooks: Vec<WebhookVector>,
}

#[derive(Deserialize)]
struct KeyVector {
    queue: String,
    key: Option<String>,
    id: i64,
    idempotency_key: String,
}

#[derive(Deserialize)]
struct WebhookVector {
    name: String,
    /// What the request delivers; absent where it was altered on its way.
    delivery: Option<DeliveryVector>,
    headers: BTreeMap<String, String>,
    body: String,
}

#[derive(Deserialize)]
struct DeliveryVector {
    queue: String,
    key: Option<String>,
    id: i64,
    attempt_no: u32,
    fence: i64,
    signing_secret: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(FILE).unwrap()
}

#[tokio::test]
async fn the_sink_sends_what_the_vectors_hold() {
    let mut sent = 0;
    for vector in vectors().webhooks {
        let Some(expected) = vector.delivery else {
            continue;
        };
        let payload = Payload::parse(&vector.body).unwrap();
        let mut delivery = delivery_of(payload, |message| {
            message.id = MessageId(expected.id);
            message.queue = expected.queue.parse().unwrap();
            message.key = expected.key;
        });
        delivery.attempt_no = expected.attempt_no;
        delivery.fence = Fence(expected.fence);
        let server = Server::start(|_, _| status(200)).await;
        let options = format!("signing_secret = \"{}\"", expected.signing_secret);
        http_sink(&server.url(), &options)
            .await
            .deliver(&delivery)
            .await;
        let request = server.request();
        assert_eq!(request.body, vector.body.as_bytes(), "{}", vector.name);
        for (name, value) in &vector.headers {
            // Those depend on the time.
            if !["webhook-timestamp", "webhook-signature"].contains(&name.as_str()) {
                assert_eq!(request.header(name), value, "{}: {name}", vector.name);
            }
        }
        let id = &vector.headers["webhook-id"];
        let timestamp = vector.headers["webhook-timestamp"].parse().unwrap();
        let signer = Signer::parse(&expected.signing_secret).unwrap();
        for (name, value) in &signer.headers(id, timestamp, vector.body.as_bytes()) {
            let expected = vector.headers[name.as_str()].as_str();
            assert_eq!(value, expected, "{}: {name}", vector.name);
        }
        sent += 1;
    }
    assert!(sent >= 8, "{sent}");
}

#[test]
fn idempotency_keys_are_those_of_the_vectors() {
    for vector in vectors().keys {
        let delivery = delivery_of(Payload::parse("1").unwrap(), |message| {
            message.id = MessageId(vector.id);
            message.queue = vector.queue.parse().unwrap();
            message.key = vector.key;
        });
        assert_eq!(delivery.idempotency_key(), vector.idempotency_key);
    }
}
