//! `hold`, `unhold`, `resolve`, `pause`, `resume`, and requeueing by id.

use consign_kernel::{Claim, Outcome};
use serde_json::json;

use crate::support::{Consign, assert_stable, queue, work};

#[test]
fn a_message_is_held_and_put_back() {
    let consign = Consign::new();
    consign.enqueue_one();
    assert_eq!(consign.run(["hold", "1"]).expect(0).stdout, "1: now held\n");
    let ran = consign.run(["hold", "1"]).expect(1);
    assert_eq!(
        ran.stdout,
        "1: not changed: held; only ready and waiting ones can be held\n"
    );
    let moves = consign.json(["unhold", "1"]);
    assert_eq!(
        moves,
        json!({"moves": [{"id": 1, "answer": "moved", "state": "ready"}]})
    );
    let ran = consign.run(["unhold", "1", "--json"]).expect(1);
    assert_eq!(
        ran.json(),
        json!({"moves": [{"id": 1, "answer": "not_held", "state": "ready"}]})
    );
    let audit = consign.json(["show", "1"])["audit"].clone();
    let told: Vec<_> = audit
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (&e["action"], &e["actor"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("unhold"), &json!("tess")),
            (&json!("hold"), &json!("tess"))
        ]
    );
}

#[test]
fn an_operator_resolves_a_held_message() {
    let consign = Consign::new();
    consign.enqueue_one();
    consign.enqueue_one();
    consign.run(["resolve", "1"]).expect(2);
    consign
        .run(["resolve", "1", "--delivered", "--dead"])
        .expect(2);
    let ran = consign.run(["resolve", "1", "--delivered"]).expect(1);
    assert_eq!(
        ran.stdout,
        "1: not changed: ready; only held ones can be put back or resolved\n"
    );
    consign.run(["hold", "1", "2"]).expect(0);
    let reason = ["--reason", "it is in their books"];
    let said = ["resolve", "1", "--delivered"].into_iter().chain(reason);
    assert_eq!(consign.run(said).expect(0).stdout, "1: now delivered\n");
    consign.run(["resolve", "2", "--dead"]).expect(0);
    let shown = consign.json(["show", "1"]);
    assert_eq!(shown["attempts"][0]["code"], "resolved", "{shown}");
    assert_eq!(shown["attempts"][0]["owner"], "tess");
    assert_eq!(shown["attempts"][0]["detail"], "it is in their books");
    assert_eq!(consign.json(["show", "2"])["state"]["state"], "dead");
}

#[test]
fn reports_an_unknown_id_and_moves_the_rest() {
    let consign = Consign::new();
    consign.enqueue_one();
    for command in ["hold", "unhold", "requeue"] {
        let ran = consign.run([command, "1", "99"]).expect(4);
        assert!(
            ran.stdout.contains("99: the message does not exist"),
            "{ran:#?}"
        );
    }
    assert_eq!(consign.json(["show", "1"])["state"]["state"], "ready");
    consign.run(["hold"]).expect(2);
    consign.run(["hold", "x"]).expect(2);
}

#[tokio::test]
async fn messages_are_discarded_and_cancelled_with_a_reason() {
    let consign = Consign::new();
    for _ in 0..3 {
        consign.enqueue_one();
    }
    let store = consign.store().await;
    let ran = consign.run(["cancel", "1"]).expect(2);
    assert!(ran.stderr.contains("--reason: is missing"), "{ran:#?}");
    let reason = ["--reason", "not wanted"];
    let cancel = ["cancel", "1", "99"].into_iter().chain(reason);
    assert_eq!(
        consign.run(cancel).expect(4).stdout,
        "1: now discarded\n99: the message does not exist\n"
    );
    let discard = ["discard", "2"].into_iter().chain(reason);
    assert_eq!(
        consign.run(discard.clone()).expect(1).stdout,
        "2: not changed: ready; only dead and held ones can be discarded; use `consign cancel`\n"
    );
    work(&*store, &queue("default"), Outcome::Dead, "http_404").await;
    assert_eq!(consign.run(discard).expect(0).stdout, "2: now discarded\n");
    let explained = consign.run(["explain", "2"]).expect(0).stdout;
    let sentence = "by tess after 1 attempt(s), never delivered: not wanted. This is final.";
    assert!(explained.contains(sentence), "{explained}");
    let listed = consign.json(["ls", "--state", "discarded"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");
}

#[tokio::test]
async fn messages_are_closed_by_filter() {
    let consign = Consign::new();
    consign.enqueue_one();
    let store = consign.store().await;
    work(&*store, &queue("default"), Outcome::Dead, "http_404").await;
    for _ in 0..2 {
        consign.enqueue_one();
    }
    let reason = ["--reason", "not wanted"];
    consign.run(["cancel"]).expect(2);
    let discard = ["discard", "--code", "http_404"];
    let preview = consign.run(discard).expect(0);
    assert_stable("discard_preview", &preview.stdout);
    let preview = consign.json(discard);
    let of = |kind: &str, word: &str, count: u64| json!([{"queue": "default", kind: word, "count": count}]);
    assert_eq!(
        (&preview["counts"], &preview["first"][0]["message_id"]),
        (&of("code", "http_404", 1), &json!(1))
    );
    consign
        .run(["discard", "--queue", "default", "--yes"])
        .expect(2);
    let discard = ["discard", "--code", "http_404", "--yes", "--json"];
    let done = consign.run(discard.into_iter().chain(reason)).expect(0);
    let done = done.json();
    assert_eq!(
        (&done["state"], &done["moved"]),
        (&json!("done"), &json!(1))
    );
    let cancel = ["cancel", "--queue", "default"];
    let preview = consign.run(cancel).expect(0).stdout;
    assert_stable("cancel_preview", &preview);
    let preview = consign.json(cancel.into_iter().chain(["--limit", "1"]));
    assert_eq!(
        (&preview["total"], &preview["counts"]),
        (&json!(1), &of("state", "ready", 2))
    );
    let first = preview["first"].as_array().unwrap();
    assert_eq!((first.len(), &first[0]["id"]), (1, &json!(2)), "the oldest");
    let yes = ["--yes", "--json"].into_iter().chain(reason);
    let done = consign.run(cancel.into_iter().chain(yes)).expect(0).json();
    assert_eq!(
        (&done["plan"]["action"], &done["moved"]),
        (&json!("cancel"), &json!(2))
    );
}

#[test]
fn the_head_of_a_group_is_skipped() {
    let consign = Consign::new();
    consign
        .run(["queues", "set", "ordered", "--ordered"])
        .expect(0);
    for payload in ["1", "2"] {
        consign
            .run(["enqueue", payload, "--queue", "ordered", "--group", "a"])
            .expect(0);
    }
    let skip = |group| ["skip", "ordered", group, "--reason", "it never works"];
    assert_eq!(
        consign.run(skip("a")).expect(0).stdout,
        "1: now discarded\n"
    );
    assert_eq!(consign.json(["show", "2"])["state"]["state"], "ready");
    let ran = consign.run(skip("b")).expect(4);
    assert!(ran.stderr.contains("has no head"), "{ran:#?}");
    consign.run(["skip", "ordered", "a"]).expect(2);
}

#[test]
fn a_nameless_actor_is_refused() {
    let consign = Consign::new();
    consign.enqueue_one();
    let ran = consign.run(["hold", "1", "--actor", " "]).expect(3);
    assert!(ran.stderr.contains("actor"), "{ran:#?}");
}

#[tokio::test]
async fn a_paused_queue_is_not_claimed_from_until_it_is_resumed() {
    let consign = Consign::new();
    consign.enqueue_one();
    let store = consign.store().await;
    let claim = Claim::new(queue("default"), "worker-1", 1);
    let ran = consign.run(["pause", "default"]).expect(0);
    assert!(
        ran.stdout.starts_with("queue default is paused"),
        "{ran:#?}"
    );
    assert_eq!(store.claim(&claim).await.unwrap(), None);
    let queue = consign.json(["resume", "default"]);
    assert_eq!(queue["paused_at"], json!(null));
    assert!(store.claim(&claim).await.unwrap().is_some());
    let (code, message) = consign.run(["pause", "defalt", "--json"]).expect(3).error();
    assert_eq!(code, "unknown_queue");
    assert!(message.contains(r#"did you mean "default"?"#), "{message}");
}

#[tokio::test]
async fn only_a_dead_message_is_requeued_by_id() {
    let consign = Consign::new();
    consign.enqueue_one();
    let store = consign.store().await;
    let ran = consign.run(["requeue", "1"]).expect(1);
    assert_eq!(
        ran.stdout,
        "1: not changed: ready; only dead ones can be requeued\n"
    );
    work(&*store, &queue("default"), Outcome::Dead, "http_404").await;
    assert_eq!(
        consign.run(["requeue", "1"]).expect(0).stdout,
        "1: now ready\n"
    );
    let audit = &consign.json(["show", "1"])["audit"][0];
    assert_eq!(audit["actor"], "tess");
    assert_eq!(audit["reason"], "requeued by hand");
}
