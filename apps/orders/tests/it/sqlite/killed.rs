//! Processes killed around an acceptance and around the end of an order.

use std::{os::unix::process::ExitStatusExt, process::Command, time::Duration};

use consign_conformance::fixture::sqlite::SqliteFixture;
use consign_kernel::{Filter, MessageId, StateKind, prelude::*};
use consign_orders::{AcceptResult, Ledger, LedgerStatus};
use consign_sqlite::{Clock, SqliteOptions, SqliteStore};
use consign_testkit::Child;

use super::{bench, claim, client, ended, entry, key, order};

/// The name of a variable that turns a test of this binary into a victim.
const FILE: &str = "CONSIGN_TEST_ORDERS_VICTIM_FILE";

async fn die_at(bench: &SqliteFixture, point: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let victim = "sqlite::killed::a_victim_with_orders";
    command.args(["--exact", victim, "--nocapture"]);
    command.env(FILE, bench.path());
    command.env("CONSIGN_FAILPOINT", format!("{point}:kill"));
    let status = Child::start(command).wait(Duration::from_secs(60)).await;
    assert_eq!(status.signal(), Some(9), "killed at {point}: {status}");
}

/// Not a test by itself: accepts two orders and executes the first.
#[tokio::test]
async fn a_victim_with_orders() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    let options = SqliteOptions::new(path).unwrap().clock(Clock::System);
    let options = options.component(consign_orders::store::sqlite_component());
    let store = SqliteStore::open(&options).await.unwrap();
    let orders = [order(1, "a"), order(2, "a")];
    store.accept(&orders).await.unwrap();
    let lease = claim(&store).await;
    let mut report = consign_kernel::Report::delivered(lease.messages[0].message.id);
    report.code = Some("EXECUTED".to_owned());
    report.result = Some(serde_json::to_value(ended(200)).unwrap());
    store.settle(lease.token, &[report]).await.unwrap();
}

async fn state(bench: &SqliteFixture, n: i64) -> StateKind {
    let explained = bench.store.explain(MessageId(n)).await.unwrap();
    explained.unwrap().state.kind()
}

#[tokio::test]
async fn an_acceptance_that_did_not_commit_left_neither_row_nor_message() {
    let bench = bench().await;
    die_at(&bench, "before_commit:accept orders").await;
    assert_eq!(bench.store.entry(&client(), &key(1)).await.unwrap(), None);
    let page = bench.store.list(&Filter::default(), None, 10).await;
    assert_eq!(page.unwrap().items, []);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn an_acceptance_whose_reply_was_lost_is_the_same_when_repeated() {
    let bench = bench().await;
    die_at(&bench, "accept_committed").await;
    let again = bench.store.accept(&[order(1, "a")]).await.unwrap();
    assert!(matches!(again[0], AcceptResult::Same(_)), "{again:?}");
    assert_eq!(state(&bench, 1).await, StateKind::Ready);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn ledger_and_outbox_end_together_or_not_at_all() {
    for (point, status, kind) in [
        (
            "settle_before_commit",
            LedgerStatus::Accepted,
            StateKind::Leased,
        ),
        (
            "settle_committed",
            LedgerStatus::Succeeded,
            StateKind::Delivered,
        ),
    ] {
        let bench = bench().await;
        die_at(&bench, point).await;
        assert_eq!(entry(&bench, 1).await.status, status, "{point}");
        assert_eq!(state(&bench, 1).await, kind, "{point}");
        assert_eq!(bench.store.doctor().await.unwrap(), [], "{point}");
    }
}
