//! `consign requeue` by filter: preview first.

use consign_kernel::Outcome;
use serde_json::{Value, json};

use crate::support::{Consign, assert_stable, queue, work};

/// 1,203 dead messages: 1,201 and 1 in `default` with two codes, 1 in `mail`.
async fn graveyard() -> Consign {
    let consign = Consign::new();
    consign.run(["queues", "set", "mail"]).expect(0);
    let store = consign.store().await;
    let lines: String = (0..1_201)
        .map(|n| format!("{{\"payload\": {n}}}\n"))
        .collect();
    consign.run_with(["enqueue"], lines.as_bytes()).expect(0);
    work(&*store, &queue("default"), Outcome::Dead, "http_404").await;
    work(&*store, &queue("default"), Outcome::Dead, "http_404").await;
    consign.run(["enqueue", "1"]).expect(0);
    work(&*store, &queue("default"), Outcome::Dead, "http_410").await;
    consign.run(["enqueue", "1", "--queue", "mail"]).expect(0);
    work(&*store, &queue("mail"), Outcome::Dead, "http_404").await;
    consign
}

fn dead_counts(consign: &Consign) -> Vec<Value> {
    let queues = consign.json(["queues"]);
    let queues = queues["items"].as_array().unwrap();
    queues
        .iter()
        .map(|queue| queue["counts"]["dead"].clone())
        .collect()
}

#[tokio::test]
async fn a_preview_changes_nothing() {
    let consign = graveyard().await;
    assert_stable(
        "requeue_preview",
        &consign
            .run(["requeue", "--code", "http_404"])
            .expect(0)
            .stdout,
    );
    let preview = consign.json(["requeue", "--queue", "default"]);
    assert_eq!(preview["preview"], true);
    assert_eq!(preview["total"], 1_202);
    let counts = json!([
        {"queue": "default", "code": "http_404", "count": 1_201},
        {"queue": "default", "code": "http_410", "count": 1},
    ]);
    assert_eq!(preview["counts"], counts);
    assert_eq!(preview["first"].as_array().unwrap().len(), 10);
    assert_eq!(dead_counts(&consign), [1_202, 1]);
    assert_eq!(
        consign
            .store()
            .await
            .audit(None, None, 10)
            .await
            .unwrap()
            .len(),
        1,
        "only the queue"
    );
}

#[tokio::test]
async fn with_yes_exactly_what_matches_is_requeued() {
    let consign = graveyard().await;
    let arguments = [
        "requeue", "--queue", "default", "--code", "http_404", "--yes",
    ];
    let ran = consign
        .run(arguments.into_iter().chain(["--reason", "fixed"]))
        .expect(0);
    assert_eq!(ran.stdout, "1201 messages requeued\n");
    assert_eq!(dead_counts(&consign), [1, 1]);
    assert_eq!(
        consign.json(["queues", "show", "default"])["counts"]["ready"],
        1_201
    );
    assert_eq!(
        consign.json(["show", "1201"])["audit"][0]["reason"],
        "fixed"
    );
    let again = consign.json(arguments);
    assert_eq!(again, json!({"preview": false, "requeued": 0, "left": 0}));
    let ran = consign.run(["requeue", "--code", "no_such"]).expect(0);
    assert_eq!(
        ran.stdout,
        "no dead messages match; there is nothing to requeue\n"
    );
    consign.run(["doctor"]).expect(0);
}

#[tokio::test]
async fn requeue_needs_exactly_one_selection() {
    let consign = Consign::new();
    consign.run(["requeue"]).expect(2);
    consign.run(["requeue", "--yes"]).expect(2);
    consign
        .run(["requeue", "1", "--queue", "default"])
        .expect(2);
    let ran = consign
        .run(["requeue", "--queue", "defolt", "--yes"])
        .expect(3);
    assert!(
        ran.stderr.contains(r#"did you mean "default"?"#),
        "{ran:#?}"
    );
}
