//! Processes killed (SIGKILL) at the worst moments.

use std::collections::BTreeSet;

use consign_testkit::{Step, eventually};
use jiff::Timestamp;

use super::{
    accept::join_all,
    bench::{Bench, Kind, broker_key, metric, on_both, order, place, post},
};
use crate::{
    http,
    service::{SOON, Service},
};

const SERVE: &[&str] = &["serve", "--listen", "127.0.0.1:0"];
const WORK: &[&str] = &[
    "work",
    "--queue",
    "orders",
    "--health-listen",
    "127.0.0.1:0",
];

/// Accepts one order and lets a worker come to the point with it, then kills the worker.
pub(crate) async fn killed_at(bench: &Bench, key: &str, point: &str) {
    let server = bench.serve().await;
    bench.consign.run(["pause", "orders"]).expect(0);
    place(&server, key, &[]).await;
    server.stop().await;
    let (mut victim, failpoint) = bench.stopped_at(WORK, point).await;
    bench.consign.run(["resume", "orders"]).expect(0);
    failpoint.reached().await;
    let row = bench.outbox(key).await;
    assert_eq!(row["status"], "sending", "{point}: {row}");
    victim.child.kill9();
}

/// How often it was tried, sent and executed in the end.
async fn in_the_end(bench: &Bench, key: &str) -> (i64, usize, usize) {
    bench.becomes(key, "succeeded", "succeeded").await;
    let tally = bench.broker.journal().tally(&broker_key(key));
    let tried = format!(
        "SELECT count(*) FROM attempt WHERE message_id = \
         (SELECT outbox_id FROM idempo_ledger WHERE idempotency_key = '{key}')"
    );
    let tried = bench.eye().await.number(&tried).await;
    (tried, tally.sends, tally.executions)
}

/// When the only lease there is ends.
async fn lease_end(bench: &Bench) -> Timestamp {
    let sql = match bench.kind {
        Kind::Sqlite => "SELECT expires_at AS microseconds FROM lease",
        Kind::Postgres => {
            "SELECT (extract(epoch FROM expires_at) * 1000000)::bigint AS microseconds FROM lease"
        }
    };
    let microseconds = bench.eye().await.number(sql).await;
    Timestamp::from_microsecond(microseconds).unwrap()
}

#[test]
fn a_worker_killed_after_its_claim_is_replaced_after_its_lease() {
    on_both(async |mut bench| {
        bench.set(&[("outbox_lock_lease_sec", "2")]);
        killed_at(&bench, "key-0008", "orders.after_claim").await;
        let lease_ends = lease_end(&bench).await;
        let heir = bench.work().await;
        assert_eq!(in_the_end(&bench, "key-0008").await, (2, 1, 1));
        let sent = bench.broker.journal().sent_at(&broker_key("key-0008"))[0];
        assert!(
            sent >= lease_ends,
            "sent at {sent}, the lease ended at {lease_ends}"
        );
        let expired = metric(&heir, "outbox_lock_lease_expired_total", "").await;
        assert_eq!(expired, 1.0);
        heir.stop().await;
        bench.doctor();
    });
}

#[test]
fn a_worker_killed_before_it_sends_is_replaced_and_sends_once() {
    on_both(async |bench| {
        killed_at(&bench, "key-0008", "orders.before_send").await;
        assert_eq!(bench.broker.send_count(), 0);
        let heir = bench.work().await;
        assert_eq!(in_the_end(&bench, "key-0008").await, (2, 1, 1));
        heir.stop().await;
        bench.doctor();
    });
}

#[test]
fn a_worker_killed_after_its_send_leads_to_one_execution() {
    on_both(async |bench| {
        killed_at(&bench, "key-0008", "orders.after_send").await;
        let tally = bench.broker.journal().tally(&broker_key("key-0008"));
        assert_eq!((tally.sends, tally.executions), (1, 1), "it was sent");
        let heir = bench.work().await;
        assert_eq!(in_the_end(&bench, "key-0008").await, (2, 2, 1));
        heir.stop().await;
        bench.doctor();
    });
}

#[test]
fn a_broker_without_keys_is_queried_before_a_resend() {
    on_both(async |mut bench| {
        bench.set(&[("broker_takes_keys", "false")]);
        bench.broker.tell(|manner| manner.dedupes = false).await;
        killed_at(&bench, "key-asks", "orders.after_send").await;
        let heir = bench.work().await;
        assert_eq!(in_the_end(&bench, "key-asks").await, (2, 1, 1));
        let tally = bench.broker.journal().tally(&broker_key("key-asks"));
        assert!(tally.queries >= 1, "{tally:?}");
        heir.stop().await;
        bench.doctor();
    });
}

#[test]
fn without_keys_and_queries_the_order_is_held() {
    on_both(async |mut bench| {
        bench.set(&[("broker_takes_keys", "false")]);
        bench.unset("broker_status_url");
        bench.broker.tell(|manner| manner.dedupes = false).await;
        killed_at(&bench, "key-held", "orders.after_send").await;
        let heir = bench.work().await;
        bench.becomes("key-held", "accepted", "failed").await;
        let row = bench.outbox("key-held").await;
        assert!(row["next_run_at"].is_null(), "held: {row}");
        let id = row["id"].to_string();
        let shown = bench.consign.json(["show", &id]);
        assert_eq!(shown["state"]["state"], "held", "{shown}");
        let bare = bench.consign.run(["orders", "resolve", &id, "--delivered"]);
        let said = bare.expect(3).stderr;
        assert!(said.contains("only with its result"), "{said}");
        let fill = "--fill=0.1@146.125@2030-01-01T00:00:00Z";
        let found = [
            "orders",
            "resolve",
            &id,
            "--delivered",
            fill,
            "--order-ref",
            "B-17",
        ];
        bench.consign.run(found).expect(0);
        bench.becomes("key-held", "succeeded", "succeeded").await;
        let row = bench.ledger("key-held").await;
        let result = &row["response_payload_json"];
        let parsed = result
            .as_str()
            .map(|text| serde_json::from_str(text).unwrap());
        let result: serde_json::Value = parsed.unwrap_or_else(|| result.clone());
        assert_eq!(result["broker"]["order_ref"], "B-17", "{row}");
        assert_eq!(result["fills"].as_array().map(Vec::len), Some(1), "{row}");
        assert_eq!(bench.broker.send_count(), 1);
        heir.stop().await;
        bench.doctor();
    });
}

#[test]
fn a_server_killed_between_commit_and_reply_has_accepted_the_order_once() {
    on_both(async |bench| {
        let (mut victim, failpoint) = bench.stopped_at(SERVE, "orders.after_commit").await;
        // The killed server must not send it as well.
        bench.consign.run(["pause", "orders"]).expect(0);
        let (head, body) = request("key-reply");
        let unanswered = http::send(victim.address(), &head, &body);
        tokio::select! {
            answer = unanswered => panic!("answered: {answer:?}"),
            () = failpoint.reached() => victim.child.kill9(),
        }
        let server = bench.serve().await;
        let again = post(&server, "key-reply", &body).await;
        assert_eq!(again.status, 200, "the order was accepted: {again:?}");
        bench.consign.run(["resume", "orders"]).expect(0);
        assert_eq!(in_the_end(&bench, "key-reply").await, (1, 1, 1));
        let rows = "SELECT count(*) FROM idempo_ledger";
        assert_eq!(bench.eye().await.number(rows).await, 1);
        server.stop().await;
        bench.doctor();
    });
}

/// What was answered is there, and what is there is there as a whole.
#[test]
fn servers_killed_while_they_accept_lose_and_double_nothing() {
    const ORDERS: usize = 60;
    const KILLS: i64 = 3;
    on_both(async |bench| {
        let keys: Vec<String> = (0..ORDERS)
            .map(|number| format!("key-{number:04}"))
            .collect();
        let mut accepted: BTreeSet<&str> = BTreeSet::new();
        for kill in 1..=KILLS {
            let mut server = bench.serve().await;
            let at = server.address();
            let posts = keys.iter().map(async |key| {
                let (head, body) = request(key);
                let answer = http::send(at, &head, &body).await;
                answer.is_ok_and(|answer| matches!(answer.status, 200 | 201))
            });
            let killing = async {
                let goal = kill * i64::try_from(ORDERS).unwrap() / (KILLS + 1);
                eventually("some are accepted", SOON, async || {
                    rows(&bench).await >= goal
                })
                .await;
                server.child.kill9();
            };
            let (answers, ()) = tokio::join!(join_all(posts), killing);
            let answered = keys
                .iter()
                .zip(answers)
                .filter(|(_, is_accepted)| *is_accepted);
            accepted.extend(answered.map(|(key, _)| key.as_str()));
            let lonely = "SELECT l.idempotency_key FROM idempo_ledger l \
                          FULL JOIN outbox_orders o ON o.id = l.outbox_id \
                          WHERE l.outbox_id IS NULL OR o.id IS NULL";
            assert_eq!(
                bench.eye().await.rows(lonely).await,
                [] as [serde_json::Value; 0]
            );
            let known = bench
                .eye()
                .await
                .rows("SELECT idempotency_key AS key FROM idempo_ledger")
                .await;
            let known: BTreeSet<&str> = known
                .iter()
                .map(|row| row["key"].as_str().unwrap())
                .collect();
            assert!(
                accepted.is_subset(&known),
                "lost: {:?}",
                accepted.difference(&known)
            );
        }
        let server = bench.serve().await;
        for key in &keys {
            let again = post(&server, key, &order(key, &[])).await;
            assert!(matches!(again.status, 200 | 201), "{key}: {again:?}");
        }
        eventually("all are done", SOON, async || unfinished(&bench).await == 0).await;
        assert_eq!(rows(&bench).await, i64::try_from(ORDERS).unwrap());
        let tallies = bench.broker.journal().tallies();
        assert!(
            tallies.values().all(|tally| tally.executions == 1),
            "{tallies:?}"
        );
        server.stop().await;
        bench.doctor();
    });
}

async fn rows(bench: &Bench) -> i64 {
    bench
        .eye()
        .await
        .number("SELECT count(*) FROM idempo_ledger")
        .await
}

/// The head and the body of a request for an order.
fn request(key: &str) -> (String, String) {
    let body = order(key, &[]);
    let head = format!(
        "POST /do/order HTTP/1.1\r\ncontent-type: application/json\r\n\
         idempotency-key: {key}\r\ncontent-length: {}\r\n",
        body.len()
    );
    (head, body)
}

/// There is no moment between the ledger and the outbox to be killed at: at none of many kills in
/// the middle of recording do they disagree.
#[test]
fn ledger_and_outbox_agree_at_every_kill() {
    const ORDERS: usize = 90;
    const PER_KILL: usize = 9;
    on_both(async |mut bench| {
        bench.set(&[("outbox_concurrency", "8"), ("outbox_max_attempts", "50")]);
        let server = bench.serve().await;
        bench.consign.run(["pause", "orders"]).expect(0);
        for number in 0..ORDERS {
            let steps = if number % 3 == 0 {
                vec![Step::Reject]
            } else {
                vec![]
            };
            let steps: Vec<Step> = std::iter::repeat_n(steps, 8).flatten().collect();
            place(&server, &format!("key-{number:04}"), &steps).await;
        }
        server.stop().await;
        bench.consign.run(["resume", "orders"]).expect(0);
        let mut kills = 0;
        while unfinished(&bench).await > 0 {
            let before = bench.broker.send_count();
            let mut worker = bench.work().await;
            eventually("it has sent some more", SOON, async || {
                bench.broker.send_count() >= before + PER_KILL || unfinished(&bench).await == 0
            })
            .await;
            worker.child.kill9();
            kills += 1;
            assert_eq!(bench.disagreements().await, [] as [serde_json::Value; 0]);
        }
        assert!(kills >= 5, "{kills} kills");
        assert_executed_once(&bench, ORDERS);
        bench.doctor();
    });
}

async fn unfinished(bench: &Bench) -> i64 {
    let sql = "SELECT count(*) FROM outbox_orders WHERE status NOT IN ('succeeded', 'aborted')";
    bench.eye().await.number(sql).await
}

/// Every third was rejected; all others were executed once, however often they were sent.
fn assert_executed_once(bench: &Bench, orders: usize) {
    let tallies = bench.broker.journal().tallies();
    assert_eq!(tallies.len(), orders);
    for (number, (key, tally)) in tallies.iter().enumerate() {
        let expected = usize::from(number % 3 != 0);
        assert_eq!(tally.executions, expected, "{key}: {tally:?}");
    }
}

/// Not killed: both services end in good order.
#[test]
fn a_shutdown_finishes_orders_in_flight_and_claims_no_more() {
    on_both(async |mut bench| {
        bench.set(&[
            ("outbox_concurrency", "2"),
            ("broker_timeout_ms", "20000"),
            ("broker_timeout_fok_gtc_ms", "20000"),
        ]);
        bench.broker.tell(|manner| manner.is_open = false).await;
        let mut service = bench.serve().await;
        for number in 0..6 {
            place(&service, &format!("key-{number:04}"), &[]).await;
        }
        bench.broker.was_sent(2).await;
        service.signal("TERM");
        service.logs("no more claims").await;
        bench.broker.tell(|manner| manner.is_open = true).await;
        assert_eq!(service.ends().await, 0, "{}", service.log());
        assert_eq!(bench.broker.send_count(), 2);
        let count = |status: &'static str| {
            format!("SELECT count(*) FROM outbox_orders WHERE status = '{status}'")
        };
        let mut sql = bench.sql().await;
        assert_eq!(sql.number(&count("succeeded")).await, 2);
        assert_eq!(
            sql.number(&count("pending")).await,
            4,
            "given back, not lost"
        );
        assert_eq!(sql.number(&count("sending")).await, 0);
        let heir: Service = bench.serve().await;
        eventually("the rest is sent", SOON, async || {
            unfinished(&bench).await == 0
        })
        .await;
        assert_eq!(bench.broker.send_count(), 6);
        heir.stop().await;
        bench.doctor();
    });
}
