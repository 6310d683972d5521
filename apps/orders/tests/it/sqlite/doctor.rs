//! What can be wrong between ledger and messages is found and named.

use consign_conformance::fixture::sqlite::SqliteFixture;
use consign_kernel::{Outcome, Report, prelude::*};

use super::{accept, bench, claim, ended, execute, report};

/// Order 1 succeeded, 2 failed, 3 is on its way; then these statements.
async fn after(statements: &str) -> String {
    let bench = bench().await;
    accept(&bench, 1).await;
    report(
        &bench,
        Outcome::Delivered,
        Some("EXECUTED"),
        Some(ended(200)),
    )
    .await;
    accept(&bench, 2).await;
    report(
        &bench,
        Outcome::Dead,
        Some("BROKER_REJECTED"),
        Some(ended(400)),
    )
    .await;
    accept(&bench, 3).await;
    assert_eq!(
        bench.store.doctor().await.unwrap(),
        [],
        "all is well so far"
    );
    execute(&mut bench.connect().await, statements)
        .await
        .unwrap();
    let findings = bench.store.doctor().await.unwrap();
    assert!(findings.iter().all(|finding| !finding.remedy.is_empty()));
    let line = |f: &consign_kernel::Finding| format!("{}: {}", f.code, f.what);
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_ledger_that_is_behind_is_found() {
    let by_hand = [
        (
            "UPDATE idempo_ledger SET status = 'accepted', response_payload_json = NULL \
             WHERE outbox_id = 2",
            "order_disagrees: the ledger has the order of message 2 as accepted; expected failed",
        ),
        (
            "UPDATE idempo_ledger SET status = 'failed', response_payload_json = '{}' \
             WHERE outbox_id = 3",
            "order_disagrees: the ledger has the order of message 3 as failed; expected accepted",
        ),
        (
            "DELETE FROM idempo_ledger WHERE outbox_id = 3",
            "order_not_in_ledger: message 3 of queue orders has no row in the ledger",
        ),
        (
            "UPDATE idempo_ledger SET outbox_id = 99 WHERE outbox_id = 3",
            "order_message_missing: the ledger row of desk-1/order-0003 refers to message 99, which does \
             not exist\norder_not_in_ledger: message 3 of queue orders has no row in the ledger",
        ),
    ];
    for (statements, expected) in by_hand {
        assert_eq!(after(statements).await, expected);
    }
    let dead_without_a_row = "DELETE FROM idempo_ledger WHERE outbox_id = 2";
    assert_eq!(after(dead_without_a_row).await, "", "that has been seen to");
    let another_request = "UPDATE idempo_ledger SET request_digest = 'x' WHERE outbox_id = 3";
    assert_eq!(after(another_request).await, "", "not this message's row");
}

#[tokio::test]
async fn an_order_delivered_without_a_code_is_found() {
    without_a_code_nothing_follows(&bench().await).await;
}

/// Queues that give no codes pay nothing, and an order that was settled like them is found.
pub(super) async fn without_a_code_nothing_follows(bench: &SqliteFixture) {
    let id = accept(bench, 1).await;
    let lease = claim(&bench.store).await;
    let reports = [Report::delivered(id)];
    bench.store.settle(lease.token, &reports).await.unwrap();
    let findings = bench.store.doctor().await.unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(
        (&*findings[0].code, &findings[0].ids[..]),
        ("order_disagrees", &[id][..])
    );
}

#[tokio::test]
async fn a_missing_trigger_and_an_open_purge_are_found() {
    let found = after("DROP TRIGGER idempo_ledger_final; DROP TRIGGER message_delete").await;
    let expected = "trigger_missing: the trigger idempo_ledger_final is missing\n\
                    trigger_missing: the trigger message_delete is missing";
    assert_eq!(found, expected);
    let opened = "INSERT INTO audit (at, actor, action, reason) VALUES (0, 'eve', 'purge', 'why'); \
                  INSERT INTO purging (audit_id) SELECT max(id) FROM audit";
    let found = after(opened).await;
    assert!(
        found.starts_with("purge_open: a purge was left open"),
        "{found}"
    );
}
