//! What is SQLite's own about the ledger of orders; the rules of every store are in `cases`.

mod broken;
mod bypass;
mod conformance;
mod crash;
mod doctor;
mod harness;
mod install;
mod killed;
mod outcomes;
mod view;

use std::time::Duration;

use consign_conformance::fixture::sqlite::SqliteFixture;
use consign_kernel::{By, Claim, Lease, MessageId, Outcome, QueuePolicy, Report, prelude::*};
use consign_orders::{
    AcceptResult, Client, FinalResult, Ledger, LedgerEntry, NewOrder, OrderKey,
    store::sqlite_component,
};
use consign_sqlite::SqliteStore;
use serde_json::json;
use sqlx::SqliteConnection;

use self::harness::fixture;

/// A store with the queue `orders`, whose messages die at the second failure.
async fn bench() -> SqliteFixture {
    bench_of(fixture(sqlite_component()).await).await
}

async fn bench_of(bench: SqliteFixture) -> SqliteFixture {
    let policy = QueuePolicy {
        attempts_max: 2,
        ..QueuePolicy::default()
    };
    let queue = "orders".parse().unwrap();
    bench.store.put_queue(&queue, &policy, &by()).await.unwrap();
    bench
}

fn by() -> By {
    By::new("ada", "a test")
}

fn client() -> Client {
    "desk-1".parse().unwrap()
}

fn key(n: usize) -> OrderKey {
    format!("order-{n:04}").parse().unwrap()
}

/// An order; `digest` represents the request.
fn order(n: usize, digest: &str) -> NewOrder {
    let digest = format!("sha256:{digest}");
    NewOrder {
        client: client(),
        key: key(n),
        payload: json!({
            "client": "desk-1",
            "idempotency_key": key(n),
            "request_digest": digest,
            "order": {"order_id": format!("ord-{n}"), "instrument": "USDJPY", "side": "BUY",
                      "requested_at": "2026-11-16T00:00:00Z", "trace_id": "t-1"},
            "body": "{\"qty\": 0.10}",
        }),
        request_digest: digest,
        headers: Default::default(),
        ttl: Duration::from_secs(48 * 3600),
        max_age: Some(Duration::from_secs(600)),
    }
}

/// Accepts one order; answers with its message.
async fn accept(bench: &SqliteFixture, n: usize) -> MessageId {
    let accepted = bench.store.accept(&[order(n, "a")]).await.unwrap();
    let [AcceptResult::New(entry)] = &accepted[..] else {
        panic!("{accepted:?}");
    };
    entry.outbox_id.unwrap()
}

async fn claim(store: &SqliteStore) -> Lease {
    let claim = Claim::new("orders".parse().unwrap(), "worker-1", 1);
    store.claim(&claim).await.unwrap().unwrap()
}

/// Claims one order and reports this about it.
async fn report(
    bench: &SqliteFixture,
    outcome: Outcome,
    code: Option<&str>,
    ended: Option<FinalResult>,
) {
    let lease = claim(&bench.store).await;
    let report = Report {
        code: code.map(str::to_owned),
        result: ended.map(|ended| serde_json::to_value(ended).unwrap()),
        ..Report::new(lease.messages[0].message.id, outcome)
    };
    bench.store.settle(lease.token, &[report]).await.unwrap();
}

/// A result whose numbers no floating point could carry.
fn ended(http_status: u16) -> FinalResult {
    FinalResult {
        http_status,
        result_digest: "sha256:r".to_owned(),
        exec_result: "{\"avg_price\": 146.12520000000000000001,  \"executed_qty\":0.10}".to_owned(),
    }
}

async fn entry(bench: &SqliteFixture, n: usize) -> LedgerEntry {
    bench
        .store
        .entry(&client(), &key(n))
        .await
        .unwrap()
        .unwrap()
}

async fn execute(connection: &mut SqliteConnection, statements: &str) -> sqlx::Result<()> {
    let statements = sqlx::AssertSqlSafe(statements.to_owned());
    sqlx::raw_sql(statements)
        .execute(connection)
        .await
        .map(drop)
}
