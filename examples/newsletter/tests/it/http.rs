//! Its routes; every answer is held to the OpenAPI document.

use std::sync::Arc;

use consign_kernel::QueuePolicy;
use consign_server::testing::Bench;
use newsletter::{NewsletterHttp, queue, store::sqlite_component};
use serde_json::json;

const PATH: &str = "/v1/newsletter/subscribers";

async fn bench(is_on: bool) -> Bench {
    let (bench, store) = Bench::sqlite_with(vec![sqlite_component()]).await;
    let http = if is_on {
        NewsletterHttp::new(store)
    } else {
        NewsletterHttp::off()
    };
    let policy = QueuePolicy::default();
    bench
        .with_extension(Arc::new(http), &queue(), &policy)
        .await
}

#[tokio::test]
async fn subscribes_and_shows_a_subscriber() {
    let bench = bench(true).await;
    let answer = bench
        .post(PATH, json!({"address": "ada@example.org"}))
        .await;
    let expected = json!({"address": "ada@example.org", "status": "pending", "message_id": 1});
    assert_eq!(answer.is(200).json, expected);
    let answer = bench.get(&format!("{PATH}/ada@example.org")).await;
    assert_eq!(answer.is(200).json, expected);
    let answer = bench.get(&format!("{PATH}/bob@example.org")).await;
    answer.is_problem(404, "not_found");
}

#[tokio::test]
async fn rejects_what_is_no_address() {
    let bench = bench(true).await;
    for text in ["ada", "@example.org", "ada@", "a b@example.org", "a@b@c"] {
        let answer = bench.post(PATH, json!({"address": text})).await;
        answer.is_problem(400, "invalid_input");
    }
}

#[tokio::test]
async fn answers_404_while_the_app_is_off() {
    let bench = bench(false).await;
    let answer = bench
        .post(PATH, json!({"address": "ada@example.org"}))
        .await;
    answer.is_problem(404, "not_found");
}
