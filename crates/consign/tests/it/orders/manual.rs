//! Databases that were changed by hand.

use consign_testkit::{Step, eventually};
use serde_json::{Value, json};

use super::{
    bench::{Bench, Kind, broker_key, on_both, order, place, post},
    sql::Sql,
};
use crate::service::{SOON, Service};

const WORK: &[&str] = &[
    "work",
    "--queue",
    "orders",
    "--health-listen",
    "127.0.0.1:0",
];

/// An order that is accepted while no worker may send it.
async fn waiting(bench: &Bench, key: &str) -> Service {
    let service = bench.serve().await;
    bench.consign.run(["pause", "orders"]).expect(0);
    place(&service, key, &[]).await;
    service
}

#[test]
fn an_order_recorded_as_succeeded_is_not_sent() {
    on_both(async |bench| {
        let service = waiting(&bench, "key-0105").await;
        let confirm = r#"UPDATE idempo_ledger SET status = 'succeeded', http_status = 200,
            result_digest = 'sha256:by-hand', response_payload_json = '{"status":"ok","by":"hand"}'"#;
        assert_eq!(bench.sql().await.run(confirm).await, 1);
        let row = bench.ledger("key-0105").await;
        bench.consign.run(["resume", "orders"]).expect(0);
        bench.becomes("key-0105", "succeeded", "succeeded").await;
        assert_eq!(bench.broker.send_count(), 0);
        assert_eq!(
            bench.ledger("key-0105").await,
            row,
            "and the ledger is as it was"
        );
        let replay = post(&service, "key-0105", &order("key-0105", &[])).await;
        assert_eq!((replay.status, &replay.json()["by"]), (200, &json!("hand")));
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn an_order_recorded_as_failed_is_not_sent() {
    on_both(async |bench| {
        let service = waiting(&bench, "key-fail").await;
        let fail = r#"UPDATE idempo_ledger SET status = 'failed', http_status = 503,
            response_payload_json = '{"status":"error","by":"hand"}'"#;
        assert_eq!(bench.sql().await.run(fail).await, 1);
        let row = bench.ledger("key-fail").await;
        bench.consign.run(["resume", "orders"]).expect(0);
        bench.becomes("key-fail", "failed", "aborted").await;
        assert_eq!(bench.broker.send_count(), 0);
        assert_eq!(bench.ledger("key-fail").await, row);
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn an_order_whose_key_belongs_to_another_is_not_sent() {
    on_both(async |bench| {
        let service = waiting(&bench, "key-0012").await;
        let change = "UPDATE idempo_ledger SET request_digest = 'sha256:another'";
        assert_eq!(bench.sql().await.run(change).await, 1);
        let row = bench.ledger("key-0012").await;
        bench.consign.run(["resume", "orders"]).expect(0);
        bench.becomes("key-0012", "accepted", "aborted").await;
        assert_eq!(bench.broker.send_count(), 0);
        assert_eq!(bench.ledger("key-0012").await, row);
        // The one way in which they may differ; and proof that it would be noticed elsewhere.
        assert_eq!(bench.disagreements().await.len(), 1);
        let outbox = bench.outbox("key-0012").await;
        assert_eq!(
            outbox["last_error_code"], "IDEMPOTENCY_CONFLICT",
            "{outbox}"
        );
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn an_order_without_a_ledger_is_not_sent() {
    on_both(async |bench| {
        let service = waiting(&bench, "key-gone").await;
        assert_eq!(bench.sql().await.run("DELETE FROM idempo_ledger").await, 1);
        bench.consign.run(["resume", "orders"]).expect(0);
        eventually("it is aborted", SOON, async || {
            bench.outbox("key-gone").await["status"] == "aborted"
        })
        .await;
        assert_eq!(bench.broker.send_count(), 0);
        service.logs("LEDGER_MISSING").await;
        service.stop().await;
    });
}

/// Changes a stored message, which the database prevents by triggers.
async fn corrupt(bench: &Bench, sql: &mut Sql) {
    let how = match bench.kind {
        Kind::Postgres => {
            "SET session_replication_role = replica;
             UPDATE message SET payload = jsonb_set(payload, '{body}', '\"{\"')"
        }
        Kind::Sqlite => {
            "DROP TRIGGER message_update;
             UPDATE message SET payload = json_set(payload, '$.body', '{')"
        }
    };
    sql.run(how).await;
}

#[test]
fn a_stored_request_that_cannot_be_read_is_aborted_at_once() {
    on_both(async |bench| {
        let service = waiting(&bench, "key-0011").await;
        corrupt(&bench, &mut bench.sql().await).await;
        bench.consign.run(["resume", "orders"]).expect(0);
        bench.becomes("key-0011", "failed", "aborted").await;
        let ledger = bench.ledger("key-0011").await;
        assert_eq!(ledger["http_status"], 422, "{ledger}");
        assert_eq!(bench.broker.send_count(), 0);
        let row = bench.outbox("key-0011").await;
        assert_eq!(
            (&row["attempts"], &row["last_error_code"]),
            (&json!(1), &json!("VALIDATION_ERROR"))
        );
        service.stop().await;
    });
}

/// The specification's manual statements, as printed.
const COUNT: &str = "SELECT status, count(*) FROM outbox_orders GROUP BY 1";
const RELEASE: &str = "UPDATE outbox_orders
   SET status='pending', locked_by=NULL, locked_at=NULL
 WHERE status='sending' AND locked_at < now() - interval '120 seconds';";
const REQUEUE: &str = "UPDATE outbox_orders
   SET status='pending', attempts=0, last_error_code=NULL, last_error_msg=NULL,
       next_run_at=NULL, updated_at=now()
 WHERE id = $id;";

#[test]
fn the_orders_by_status_are_counted_as_printed() {
    on_both(async |bench| {
        let service = bench.serve().await;
        place(&service, "key-good", &[]).await;
        place(&service, "key-bad1", &[Step::Reject]).await;
        bench.becomes("key-good", "succeeded", "succeeded").await;
        bench.becomes("key-bad1", "failed", "aborted").await;
        bench.consign.run(["pause", "orders"]).expect(0);
        place(&service, "key-open", &[]).await;
        let rows = bench.eye().await.rows(COUNT).await;
        let mut counted: Vec<(String, i64)> = rows.iter().map(status_and_count).collect();
        counted.sort();
        let expected = [("aborted", 1), ("pending", 1), ("succeeded", 1)];
        assert_eq!(
            counted,
            expected.map(|(status, count)| (status.to_owned(), count))
        );
        service.stop().await;
    });
}

fn status_and_count(row: &Value) -> (String, i64) {
    let mut count = row.as_object().unwrap().values().filter_map(Value::as_i64);
    (
        row["status"].as_str().unwrap().to_owned(),
        count.next().unwrap(),
    )
}

/// SQLite understands neither `now()` nor `interval`; there it is `consign requeue`, and leases that
/// need no release.
#[test]
fn an_aborted_order_is_requeued_as_printed() {
    on_both(async |bench| {
        if bench.kind == Kind::Sqlite {
            return;
        }
        let service = bench.serve().await;
        let id = place(&service, "key-0104", &[Step::Reject]).await.json()["outbox_id"].to_string();
        bench.becomes("key-0104", "failed", "aborted").await;
        let requeue = REQUEUE.replace("$id", &id);
        let mut sql = bench.sql().await;
        assert_eq!(sql.run(&requeue).await, 1);
        bench.becomes("key-0104", "succeeded", "succeeded").await;
        let refused = sql.try_run(&requeue).await;
        assert!(
            !matches!(refused, Ok(1..)),
            "what succeeded is not requeued: {refused:?}"
        );
        assert_eq!(
            bench.states("key-0104").await,
            ("succeeded".into(), "succeeded".into())
        );
        let audited = "SELECT count(*) FROM audit WHERE action = 'requeue'";
        assert_eq!(sql.number(audited).await, 1);
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn void_locks_are_released_as_printed_and_live_ones_are_not() {
    on_both(async |mut bench| {
        if bench.kind == Kind::Sqlite {
            return;
        }
        bench.set(&[("outbox_lock_lease_sec", "120")]);
        let server = bench.serve().await;
        bench.consign.run(["pause", "orders"]).expect(0);
        // Everything up to the claim happens five minutes ago, by the database's clock.
        let mut sql = bench.sql().await;
        let clock = sql
            .row("SELECT pg_get_functiondef('consign.clock()'::regprocedure) AS clock")
            .await;
        let clock = clock["clock"].as_str().unwrap().to_owned();
        let past = "CREATE OR REPLACE FUNCTION consign.clock() RETURNS timestamptz \
                    LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp() - interval ''300 seconds'''";
        sql.run(past).await;
        place(&server, "key-void", &[]).await;
        server.stop().await;
        let (mut victim, failpoint) = bench.stopped_at(WORK, "orders.after_claim").await;
        bench.consign.run(["resume", "orders"]).expect(0);
        failpoint.reached().await;
        victim.child.kill9();
        sql.run(&clock).await;

        assert_eq!(bench.outbox("key-void").await["status"], "sending");
        assert_eq!(sql.run(RELEASE).await, 1);
        let row = bench.outbox("key-void").await;
        assert_eq!(
            (&row["status"], &row["locked_by"]),
            (&json!("pending"), &Value::Null),
            "{row}"
        );
        bench.broker.tell(|manner| manner.is_open = false).await;
        bench.set(&[("broker_timeout_ms", "20000")]);
        let service = bench.serve().await;
        bench.broker.was_sent(1).await;
        assert_eq!(sql.run(RELEASE).await, 0, "a live lease is not void");
        bench.broker.tell(|manner| manner.is_open = true).await;
        bench.becomes("key-void", "succeeded", "succeeded").await;
        assert_eq!(
            bench.broker.journal().tally(&broker_key("key-void")).sends,
            1
        );
        service.stop().await;
        bench.doctor();
    });
}
