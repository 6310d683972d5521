//! What a key is answered, first and again, in each of its states.

use std::time::Duration;

use consign_orders::{LedgerStatus, Reason};
use serde_json::json;

use crate::support::{
    Bench, SOON, client,
    fixture::{Fixture, fails},
    header, json as body_of, order, place, quick,
};

const REPLAYED: &str = "idempotency-replayed";
#[tokio::test]
async fn each_state_has_its_response_for_equal_and_other_bodies() {
    let fixture = Fixture::scripted([fails(Reason::BrokerRejected)]);
    let bench = Bench::with(quick(), fixture, None).await;
    let key = |name: &str| format!("key-{name}");
    let fresh = bench.place("key-failed", &[]).await;
    assert_eq!(fresh.status, 201, "{fresh:?}");
    assert_eq!(header(&fresh, REPLAYED), None);
    let answer_body = body_of(&fresh);
    assert_eq!(
        (&answer_body["status"], &answer_body["idempotency_key"]),
        (&json!("accepted"), &json!("key-failed"))
    );
    assert!(answer_body["outbox_id"].is_number(), "{answer_body}");
    bench.work_off("key-failed").await;
    bench.place("key-done", &[]).await;
    let done = bench.work_off("key-done").await;
    bench.place("key-open", &[]).await;

    let table = [("open", 200), ("done", 200), ("failed", 400)];
    for (name, status) in table {
        let key = key(name);
        let before = bench.entry(&key).await.unwrap();
        let same = bench.place(&key, &[]).await;
        assert_eq!(same.status, status, "{name}: {same:?}");
        assert_eq!(header(&same, REPLAYED), Some("true"), "{name}");
        assert_eq!(
            bench.place(&key, &[]).await.body,
            same.body,
            "{name}: the same bytes"
        );
        let other = bench
            .post(&key, &order(&key, &[]).replace("0.10", "0.20"))
            .await;
        assert_eq!(other.status, 409, "{name}");
        let answer_body = body_of(&other);
        assert_eq!(
            (&answer_body["error"], &answer_body["idempotency_key"]),
            (&json!("IDEMPOTENCY_CONFLICT"), &json!(key))
        );
        let after = bench.entry(&key).await.unwrap();
        assert_eq!(
            (after.status, after.response),
            (before.status, before.response),
            "{name}"
        );
        assert_eq!(after.conflicts, 1, "{name}");
    }
    let replay = bench.place("key-done", &[]).await;
    assert_eq!(Some(&replay.body), done.response.as_ref(), "byte for byte");
    assert_eq!(bench.count("message").await, 3);
    assert_eq!(bench.fixture.sent().len(), 2, "a repeat sends nothing");
    bench.is_sound().await;
}

#[tokio::test]
async fn a_read_returns_the_whole_ledger_entry() {
    let bench = Bench::new(quick()).await;
    bench.place("key-0001", &[]).await;
    let open = body_of(&bench.service.look(&client(), "key-0001").await);
    assert_eq!(
        (&open["status"], &open["exec_result"]),
        (&json!("accepted"), &json!(null))
    );
    let entry = bench.work_off("key-0001").await;
    let done = bench.service.look(&client(), "key-0001").await;
    assert_eq!(done.status, 200);
    assert!(
        done.body.contains(entry.response.as_deref().unwrap()),
        "as it is: {}",
        done.body
    );
    let done = body_of(&done);
    assert_eq!(
        (&done["status"], &done["http_status"]),
        (&json!("succeeded"), &json!(200))
    );
    assert_eq!(
        done["result_digest"].as_str(),
        entry.result_digest.as_deref()
    );
    assert_eq!(done["exec_result"]["status"], "ok");
}

#[tokio::test]
async fn a_preferred_wait_returns_the_result_or_the_accepted_order() {
    let bench = Bench::new(quick()).await;
    let worker = bench.work();
    let body = order("key-0001", &[]);
    let waited = place(&bench.service, "key-0001", &body, Some(SOON)).await;
    assert_eq!(waited.status, 201, "the first time: {waited:?}");
    assert_eq!(body_of(&waited)["status"], "ok");
    assert_eq!(header(&waited, "preference-applied"), Some("wait=20"));
    let again = place(&bench.service, "key-0001", &body, Some(SOON)).await;
    assert_eq!((again.status, &again.body), (200, &waited.body));
    bench.fixture.open(false);
    let body = order("key-0002", &[]);
    let short = Duration::from_millis(30);
    let in_vain = place(&bench.service, "key-0002", &body, Some(short)).await;
    assert_eq!(
        (in_vain.status, &body_of(&in_vain)["status"]),
        (201, &json!("accepted"))
    );
    // A ledger that does not answer for a moment is no reason to stop waiting.
    bench.ledger.fail("entry", 3);
    bench.fixture.open(true);
    let waited = place(&bench.service, "key-0002", &body, Some(SOON)).await;
    assert_eq!(
        (waited.status, header(&waited, REPLAYED)),
        (200, Some("true")),
        "{waited:?}"
    );
    assert_eq!(body_of(&waited)["status"], "ok");
    worker.drain();
    worker.finished().await;
}

#[tokio::test]
async fn a_wait_is_no_longer_than_the_server_allows() {
    let options = consign_orders::OrdersOptions {
        wait_max_sec: 0.05,
        ..quick()
    };
    let bench = Bench::new(options).await;
    let body = order("key-0001", &[]);
    let hour = Duration::from_secs(3_600);
    let call = place(&bench.service, "key-0001", &body, Some(hour));
    let answer = tokio::time::timeout(SOON, call).await.expect("not an hour");
    assert_eq!(answer.status, 201);
    assert_eq!(
        bench.entry("key-0001").await.unwrap().status,
        LedgerStatus::Accepted
    );
}
