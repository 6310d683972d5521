//! What a key is answered, first and again, in each of its states.

use std::time::Duration;

use consign_orders::{LedgerStatus, Reason};
use serde_json::json;

use crate::support::{
    Bench, SOON, client,
    desk::{Desk, fails},
    header, json as body_of, order, place, quick,
};

const REPLAYED: &str = "idempotency-replayed";

/// O-02, O-03, O-04, O-10: the matrix.
#[tokio::test]
async fn o02_the_matrix_of_answers() {
    let desk = Desk::told([fails(Reason::BrokerRejected)]);
    let bench = Bench::with(quick(), desk, None).await;
    let key = |name: &str| format!("key-{name}");
    let fresh = bench.place("key-failed", &[]).await;
    assert_eq!(fresh.status, 201, "{fresh:?}");
    assert_eq!(header(&fresh, REPLAYED), None);
    let said = body_of(&fresh);
    assert_eq!(
        (&said["status"], &said["idempotency_key"]),
        (&json!("accepted"), &json!("key-failed"))
    );
    assert!(said["outbox_id"].is_number(), "{said}");
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
        let said = body_of(&other);
        assert_eq!(
            (&said["error"], &said["idempotency_key"]),
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
    assert_eq!(bench.desk.sent().len(), 2, "a repeat sends nothing");
    bench.is_sound().await;
}

#[tokio::test]
async fn a_look_tells_all_the_ledger_knows() {
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
async fn who_prefers_to_wait_gets_the_result_and_who_waits_in_vain_is_told_so() {
    let bench = Bench::new(quick()).await;
    let worker = bench.work();
    let body = order("key-0001", &[]);
    let waited = place(&bench.service, "key-0001", &body, Some(SOON)).await;
    assert_eq!(waited.status, 201, "the first time: {waited:?}");
    assert_eq!(body_of(&waited)["status"], "ok");
    assert_eq!(header(&waited, "preference-applied"), Some("wait=20"));
    let again = place(&bench.service, "key-0001", &body, Some(SOON)).await;
    assert_eq!((again.status, &again.body), (200, &waited.body));
    bench.desk.open(false);
    let body = order("key-0002", &[]);
    let short = Duration::from_millis(30);
    let in_vain = place(&bench.service, "key-0002", &body, Some(short)).await;
    assert_eq!(
        (in_vain.status, &body_of(&in_vain)["status"]),
        (201, &json!("accepted"))
    );
    // A ledger that does not answer for a moment is no reason to stop waiting.
    bench.ledger.fail("entry", 3);
    bench.desk.open(true);
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
