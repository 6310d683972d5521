//! Ledger and outbox change together or not at all, and what is answered is on the disk.

use consign_kernel::{Filter, Outcome, StateKind, prelude::*};
use consign_orders::{AcceptResult, Ledger, LedgerStatus};

use super::{accept, bench, client, ended, entry, execute, key, order, report};

/// Statements after which writing one of the tables fails, and how to repair it.
fn broken(table: &str, event: &str) -> (String, String) {
    let break_it = format!(
        "CREATE TRIGGER injected BEFORE {event} ON {table} \
         BEGIN SELECT raise(ABORT, 'the disk is full'); END"
    );
    (break_it, "DROP TRIGGER injected".to_owned())
}

#[tokio::test]
async fn an_acceptance_that_fails_anywhere_leaves_nothing() {
    let bench = bench().await;
    let mut connection = bench.connect().await;
    for table in ["message", "ready", "idempo_ledger"] {
        let (break_it, mend_it) = broken(table, "INSERT");
        execute(&mut connection, &break_it).await.unwrap();
        let orders = [order(1, "a"), order(2, "a")];
        bench.store.accept(&orders).await.expect_err(table);
        execute(&mut connection, &mend_it).await.unwrap();
        assert_eq!(
            bench.store.entry(&client(), &key(1)).await.unwrap(),
            None,
            "{table}"
        );
        let page = bench
            .store
            .list(&Filter::default(), None, 10)
            .await
            .unwrap();
        assert_eq!(page.items, [], "{table}");
    }
    assert_eq!(accept(&bench, 1).await.0, 1, "nothing is left of them");
}

#[tokio::test]
async fn a_settle_that_fails_anywhere_leaves_neither_ledger_nor_outbox_changed() {
    let bench = bench().await;
    let mut connection = bench.connect().await;
    accept(&bench, 1).await;
    let cases = [
        ("attempt", "INSERT", Outcome::Delivered),
        ("lease", "DELETE", Outcome::Delivered),
        ("idempo_ledger", "UPDATE", Outcome::Delivered),
        ("dead", "INSERT", Outcome::Dead),
        ("idempo_ledger", "UPDATE", Outcome::Dead),
    ];
    for (table, event, outcome) in cases {
        let lease = super::claim(&bench.store).await;
        let id = lease.messages[0].message.id;
        let (break_it, mend_it) = broken(table, event);
        execute(&mut connection, &break_it).await.unwrap();
        let mut report = consign_kernel::Report::new(id, outcome);
        report.code = Some("EXECUTED".to_owned());
        report.result = Some(serde_json::to_value(ended(200)).unwrap());
        let settled = bench.store.settle(lease.token, &[report]).await;
        settled.expect_err(table);
        execute(&mut connection, &mend_it).await.unwrap();
        assert_eq!(
            entry(&bench, 1).await.status,
            LedgerStatus::Accepted,
            "{table}"
        );
        let explained = bench.store.explain(id).await.unwrap().unwrap();
        assert_eq!(explained.state.kind(), StateKind::Leased, "{table}");
        assert_eq!(explained.attempts, 0, "{table}");
        bench.store.release(lease.token).await.unwrap();
    }
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_purge_that_fails_halfway_leaves_everything() {
    let bench = bench().await;
    let mut connection = bench.connect().await;
    let id = accept(&bench, 1).await;
    report(
        &bench,
        Outcome::Dead,
        Some("BROKER_REJECTED"),
        Some(ended(400)),
    )
    .await;
    bench.clock.advance(jiff::SignedDuration::from_hours(49));
    for table in ["idempo_ledger", "dead", "attempt", "message", "purging"] {
        let (break_it, mend_it) = broken(table, "DELETE");
        execute(&mut connection, &break_it).await.unwrap();
        let purged = bench.store.purge(10, 1, false, &super::by()).await;
        purged.expect_err(table);
        execute(&mut connection, &mend_it).await.unwrap();
        assert_eq!(
            entry(&bench, 1).await.status,
            LedgerStatus::Failed,
            "{table}"
        );
        assert_eq!(bench.store.history(id).await.unwrap().len(), 1, "{table}");
        let audit = bench.store.audit(None, None, 10).await.unwrap();
        assert!(audit.iter().all(|entry| entry.action != "purge"), "{table}");
        assert_eq!(bench.store.doctor().await.unwrap(), [], "{table}");
    }
}

#[tokio::test]
async fn what_was_answered_is_there_after_the_store_is_opened_again() {
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
    let before = (entry(&bench, 1).await, entry(&bench, 2).await);
    bench.store.close().await.unwrap();
    let store = bench.open().await;
    let orders = [order(1, "a"), order(2, "a"), order(2, "b")];
    let answers = store.accept(&orders).await.unwrap();
    assert_eq!(answers[0], AcceptResult::Same(before.0));
    assert_eq!(answers[1], AcceptResult::Same(before.1));
    assert!(
        matches!(answers[2], AcceptResult::Conflict(_)),
        "{answers:?}"
    );
}
