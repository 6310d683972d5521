//! One walk through every command, the same on every database.

use std::sync::Arc;

use consign_kernel::{Claim, Outcome, Store};
use serde_json::{Value, json};

use crate::support::{Consign, queue, work};

/// Every command once, on an empty migrated database.
pub(crate) async fn walk(consign: &Consign, store: Arc<dyn Store>) {
    consign
        .run(["queues", "set", "mail", "--attempts", "1"])
        .expect(0);
    let first = consign.json(["enqueue", r#"{"to": "a"}"#, "--queue", "mail", "--key", "k"]);
    let id = first["id"].to_string();
    assert_eq!(first["duplicate"], false);
    let again = consign.json(["enqueue", r#"{"to": "a"}"#, "--queue", "mail", "--key", "k"]);
    assert_eq!(
        (&again["id"], &again["duplicate"]),
        (&first["id"], &json!(true))
    );
    consign
        .run(["enqueue", "2", "--queue", "mail", "--key", "k"])
        .expect(3);
    consign.run(["enqueue", "2", "--queue", "male"]).expect(3);

    assert_eq!(consign.json(["hold", &id])["moves"][0]["state"], "held");
    assert_eq!(consign.json(["unhold", &id])["moves"][0]["state"], "ready");
    consign.run(["pause", "mail"]).expect(0);
    let claim = Claim::new(queue("mail"), "worker-1", 10);
    assert_eq!(store.claim(&claim).await.unwrap(), None);
    consign.run(["resume", "mail"]).expect(0);

    let lease = store.claim(&claim).await.unwrap().unwrap();
    assert_eq!(consign.json(["leases"])["items"][0]["owner"], "worker-1");
    store.release(lease.token).await.unwrap();
    work(&*store, &queue("mail"), Outcome::Retry, "http_503").await;
    dead_letter(consign, &id);
    work(&*store, &queue("mail"), Outcome::Delivered, "http_200").await;
    let shown = consign.json(["show", &id]);
    assert_eq!(shown["state"]["state"], "delivered");
    let outcomes: Vec<&Value> = shown["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| &a["outcome"])
        .collect();
    assert_eq!(outcomes, ["retry", "delivered"]);
    let actions: Vec<&Value> = shown["audit"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["action"])
        .collect();
    assert_eq!(actions, ["requeue", "unhold", "hold"]);
    consign.run(["requeue", &id]).expect(1);
    consign.run(["show", "999999"]).expect(4);
    assert_eq!(consign.json(["doctor"]), json!({"findings": []}));
}

/// Looks at the dead message in every way, then requeues it.
fn dead_letter(consign: &Consign, id: &str) {
    let page = consign.json(["ls", "--queue", "mail", "--code", "http_503"]);
    assert_eq!(page["items"][0]["state"], "dead");
    let sentence = consign.json(["explain", id])["sentence"].to_string();
    assert!(
        sentence.contains("after 1 attempt(s): http_503"),
        "{sentence}"
    );
    assert_eq!(
        consign.json(["queues", "show", "mail"])["counts"]["dead"],
        1
    );
    assert_eq!(consign.json(["requeue", "--queue", "mail"])["total"], 1);
    assert_eq!(
        consign.json(["queues", "show", "mail"])["counts"]["dead"],
        1
    );
    assert_eq!(
        consign.json(["requeue", "--queue", "mail", "--yes"])["requeued"],
        1
    );
}

#[tokio::test]
async fn every_command_on_sqlite() {
    let consign = Consign::new();
    let store = consign.store().await;
    walk(&consign, store).await;
}
