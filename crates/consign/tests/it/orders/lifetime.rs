//! How long orders may wait and keys are remembered.

use consign_testkit::{Step, eventually};
use serde_json::json;

use super::bench::{Bench, Kind, look, on_both, order, place, post};
use crate::service::SOON;

/// Lets the rows of the ledger grow old.
async fn age(bench: &Bench, column: &str, hours: i64) {
    let by = match bench.kind {
        Kind::Sqlite => format!("{}", hours * 3_600_000_000),
        Kind::Postgres => format!("interval '{hours} hours'"),
    };
    let sql = format!("UPDATE idempo_ledger SET {column} = {column} - {by}");
    bench.sql().await.run(&sql).await;
}

#[test]
fn an_order_that_waited_too_long_is_not_sent() {
    on_both(async |mut bench| {
        bench.set(&[("order_max_age_sec", "60")]);
        let service = bench.serve().await;
        bench.consign.run(["pause", "orders"]).expect(0);
        place(&service, "key-late", &[]).await;
        age(&bench, "order_expires_at", 1).await;
        bench.consign.run(["resume", "orders"]).expect(0);
        bench.becomes("key-late", "failed", "aborted").await;
        assert_eq!(bench.broker.send_count(), 0);
        let row = bench.outbox("key-late").await;
        assert_eq!(row["last_error_code"], "ORDER_EXPIRED", "{row}");
        let replay = post(&service, "key-late", &order("key-late", &[])).await;
        assert_eq!(replay.status, 410, "{replay:?}");
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn a_purge_removes_expired_keys_and_no_live_ones() {
    on_both(async |bench| {
        let service = bench.serve().await;
        place(&service, "key-done", &[]).await;
        place(&service, "key-gone", &[Step::Reject]).await;
        bench.becomes("key-done", "succeeded", "succeeded").await;
        bench.becomes("key-gone", "failed", "aborted").await;
        bench.consign.run(["pause", "orders"]).expect(0);
        place(&service, "key-live", &[]).await;
        let purge = || bench.consign.run(["orders", "purge", "--yes"]).expect(0);
        purge();
        assert_eq!(
            look(&service, "key-done").await.status,
            200,
            "it is not time yet"
        );
        age(&bench, "expires_at", 49).await;
        purge();
        let statuses = async |bench: &Bench| {
            let sql = "SELECT idempotency_key FROM idempo_ledger ORDER BY 1";
            let ledger = bench.eye().await.rows(sql).await;
            let sql = "SELECT idempotency_key FROM outbox_orders ORDER BY 1";
            (ledger, bench.eye().await.rows(sql).await)
        };
        let live = vec![json!({"idempotency_key": "key-live"})];
        assert_eq!(
            statuses(&bench).await,
            (live.clone(), live),
            "row and message together"
        );
        assert_eq!(look(&service, "key-done").await.status, 404);
        bench.consign.run(["resume", "orders"]).expect(0);
        bench.becomes("key-live", "succeeded", "succeeded").await;

        // A key that was forgotten is new, also with another body.
        let other = order("key-done", &[]).replace("0.1", "0.2");
        let again = post(&service, "key-done", &other).await;
        assert_eq!(again.status, 201, "{again:?}");
        // The broker remembers it: two bodies under one key are a conflict there.
        eventually("it comes to an end", SOON, async || {
            bench.states("key-done").await.0 != "accepted"
        })
        .await;
        service.stop().await;
        bench.doctor();
    });
}
