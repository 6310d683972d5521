//! Statements about orders that know their ids read no other range of messages.

use consign_testkit::RangeSession;

use super::harness::database;

/// A payload that the ledger accepts.
const PAYLOAD: &str = r#"jsonb_build_object('client', 'desk-1', 'idempotency_key', 'key-000' || n, 'request_digest', 'sha256:' || n,
    'order', '{"order_id": "ord-1", "instrument": "USDJPY", "side": "BUY"}'::jsonb, 'body', '{"qty": 0.10}')"#;

/// Accepts the orders from `first` to `last`.
fn accept(first: u32, last: u32) -> String {
    let many = |what: &str| format!("ARRAY(SELECT {what} FROM generate_series({first}, {last}) n)");
    format!(
        "SELECT consign.accept_orders({}, {}, {}, {}, NULL, {}, NULL)",
        many("'desk-1'::text"),
        many("'key-000' || n"),
        many("'sha256:' || n"),
        many(PAYLOAD),
        many("interval '48 hours'"),
    )
}

#[tokio::test]
async fn statements_about_orders_by_ids_read_only_their_ranges() {
    let database = database().await;
    let mut session = RangeSession::open(database.url(), 20).await;
    session
        .execute("SELECT consign.put_queue('orders', '{}', 'a', 'b')")
        .await;
    session.run("accept", &accept(1, 6)).await;
    session.run("accept known orders", &accept(5, 8)).await;
    settle(&mut session).await;
    expire(&mut session).await;
    operate(&mut session).await;
    read(&mut session).await;
    leave(&mut session).await;
}

async fn settle(session: &mut RangeSession) {
    let claim = "SELECT consign.claim('orders', 'w', 4)";
    session.run("claim", claim).await;
    let lease = session
        .text("SELECT quote_literal(token) || ', ' || quote_literal(ids::text) FROM consign.lease")
        .await;
    let outcomes =
        "ARRAY['delivered', 'retry', 'dead', 'uncertain'], ARRAY['EXECUTED', 'A', 'B', 'C']";
    let settle = format!("SELECT consign.settle({lease}, {outcomes})");
    session.run("settle", &settle).await;
}

/// A lease that expires, with a message that is dead then.
async fn expire(session: &mut RangeSession) {
    let claim = "SELECT consign.claim('orders', 'w', 2, '1 millisecond')";
    session.run("claim for a moment", claim).await;
    let ended = "SELECT pg_sleep(extract(epoch FROM max(expires_at) - clock_timestamp()) + 0.001) FROM consign.lease";
    session.execute(ended).await;
    session.run("expire", "SELECT consign.expire(10)").await;
}

async fn operate(session: &mut RangeSession) {
    let dead = session
        .text("SELECT array_agg(message_id)::text FROM consign.dead")
        .await;
    let requeue = format!("SELECT consign.requeue('{dead}', 'a', 'b')");
    session.run("requeue", &requeue).await;
    let hold = format!("SELECT consign.hold('{dead}', 'a', 'b')");
    session.run("hold", &hold).await;
    let resolve = format!("SELECT consign.resolve('{dead}', 'dead', 'a', 'b')");
    session.run("resolve", &resolve).await;
    let again = "UPDATE consign.outbox_orders SET status = 'pending' WHERE id = ";
    let one = session
        .text("SELECT min(message_id)::text FROM consign.dead")
        .await;
    session
        .run("requeue by the view", &format!("{again}{one}"))
        .await;
}

async fn read(session: &mut RangeSession) {
    let id = session
        .text("SELECT min(id)::text FROM consign.message")
        .await;
    let by_id = "SELECT * FROM consign.outbox_orders WHERE id = $1";
    session.run_prepared("the view by id", by_id, &id).await;
    for (what, sql) in [
        (
            "an entry",
            "SELECT consign.order_entry('desk-1', 'key-0001')",
        ),
        (
            "an entry that is open",
            "SELECT consign.order_entry('desk-1', 'key-0007')",
        ),
        (
            "verify",
            "SELECT consign.verify_order('desk-1', 'key-0007')",
        ),
    ] {
        session.run(what, sql).await;
    }
    let list = include_str!("../../../src/store/postgres/sql/orders_list.sql");
    session
        .run_prepared("the ledger", list, "NULL, NULL, NULL, NULL, NULL, 100")
        .await;
}

/// How orders leave: by their departure, and by a purge.
async fn leave(session: &mut RangeSession) {
    session
        .execute("UPDATE consign.idempo_ledger SET expires_at = first_seen_at WHERE status <> 'accepted'")
        .await;
    let needed = "SELECT consign.needed_orders('orders', 1, 1000001, consign.clock())";
    session.run("what is needed", needed).await;
    let purge = "SELECT consign.purge_orders('a', 'b')";
    session.run("purge", purge).await;
    let departed = "SELECT consign.depart_orders('orders', 1, 1000001, 1000)";
    session.run("follow a departure", departed).await;
}
