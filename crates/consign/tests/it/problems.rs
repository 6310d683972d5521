//! `consign problems`.

use consign_kernel::Outcome;
use serde_json::json;

use crate::support::{Consign, queue, work};

#[tokio::test]
async fn problems_are_listed_acknowledged_and_reopened() {
    let consign = Consign::new();
    consign.run(["queues", "set", "mail"]).expect(0);
    assert_eq!(consign.json(["problems"])["problems"], json!([]));
    consign.run(["enqueue", "1", "--queue", "mail"]).expect(0);
    let store = consign.store().await;
    work(&*store, &queue("mail"), Outcome::Dead, "http_500").await;
    drop(store);
    let ran = consign.run(["problems"]).expect(0);
    assert!(
        ran.stdout.contains("1 message dead with http_500"),
        "{ran:#?}"
    );
    let key = "deaths:mail:http_500";
    let args = [
        "problems",
        "acknowledge",
        key,
        "--hours",
        "2",
        "--reason",
        "known",
    ];
    let known = consign.json(args);
    assert_eq!(
        (&known["problem"], &known["reason"]),
        (&json!(key), &json!("known"))
    );
    let listed = consign.json(["problems"]);
    assert_eq!(listed["problems"][0]["acknowledged"], known, "{listed}");
    let reopen = ["problems", "reopen", key, "--reason", "it did not help"];
    assert_eq!(consign.json(reopen), json!({"reopened": true}));
    assert_eq!(consign.json(reopen), json!({"reopened": false}));
    let unknown = [
        "problems",
        "acknowledge",
        "deaths:mail:x",
        "--reason",
        "known",
        "--json",
    ];
    let ran = consign.run(unknown).expect(3);
    assert!(ran.stderr.contains("no problem"), "{ran:#?}");
}
