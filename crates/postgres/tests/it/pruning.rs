//! Statements that know their ids read no other range.

use consign_testkit::RangeSession;

use crate::harness::database;

/// As the store puts it together.
const PAGE: &str = concat!(
    "WITH found AS MATERIALIZED (",
    include_str!("../../sql/list_narrow.sql"),
    ") ",
    include_str!("../../sql/list.sql")
);

/// With 200 ranges and generic plans, no statement by ids reads a range other than theirs.
#[tokio::test]
async fn statements_by_ids_read_only_their_ranges() {
    let database = database().await;
    let mut session = RangeSession::open(database.url(), 200).await;
    let ten = "ARRAY(SELECT to_jsonb(n) FROM generate_series(1, 10) n)";
    let enqueue = format!("SELECT consign.enqueue_many('default', {ten})");
    session.run("enqueue", &enqueue).await;
    let keyed = "SELECT consign.enqueue_many('default', ARRAY['1', '1']::jsonb[], ARRAY['k', 'k'])";
    session.run("enqueue duplicates", keyed).await;
    let mixed = "SELECT consign.enqueue_mixed(ARRAY['default', 'default'], ARRAY['1', '2']::jsonb[], ARRAY['k', NULL], NULL, NULL,
                                              ARRAY['0', '0']::interval[])";
    session.run("enqueue into several queues", mixed).await;
    session
        .run("claim", "SELECT consign.claim('default', 'w', 5)")
        .await;
    let lease = session.text("SELECT quote_literal(token) || ', ' || quote_literal(ids[: 4]::text) FROM consign.lease").await;
    let outcomes = "ARRAY['delivered', 'retry', 'dead', 'uncertain']";
    let settle = format!("SELECT consign.settle({lease}, {outcomes})");
    session.run("settle", &settle).await;
    session.run("repeat a settle", &settle).await;
    let token = session
        .text("SELECT quote_literal(token) FROM consign.lease")
        .await;
    session
        .run("release", &format!("SELECT consign.release({token})"))
        .await;
    let packed = "SELECT consign.claim_packed('default', 'w', 4, NULL, '-infinity')";
    session.run("claim packed", packed).await;
    let lease = session
        .text("SELECT quote_literal(token) || ', ' || quote_literal(ids::text) FROM consign.lease")
        .await;
    let settle = format!("SELECT consign.settle_packed({lease}, NULL, NULL, NULL, NULL, NULL)");
    session.run("settle packed", &settle).await;
    operate(&mut session).await;
    lose(&mut session).await;
    read(&mut session).await;
    redrive(&mut session).await;
    order(&mut session).await;
    purge(&mut session).await;
    depart(&mut session).await;
}

/// What operators do to messages.
async fn operate(session: &mut RangeSession) {
    let dead = session
        .text("SELECT array_agg(message_id)::text FROM consign.dead")
        .await;
    let requeue = format!("SELECT consign.requeue('{dead}', 'a', 'b')");
    session.run("requeue", &requeue).await;
    let ready = session
        .text(
            "SELECT array_agg(u)::text FROM (SELECT unnest(ids) AS u FROM consign.ready LIMIT 2) r",
        )
        .await;
    for (what, action) in [
        ("hold", "hold"),
        ("unhold", "unhold"),
        ("hold again", "hold"),
    ] {
        session
            .run(
                what,
                &format!("SELECT consign.{action}('{ready}', 'a', 'b')"),
            )
            .await;
    }
    let resolve = format!("SELECT consign.resolve('{ready}', 'dead', 'a', 'b')");
    session.run("resolve", &resolve).await;
    let first = session
        .text("SELECT min(id)::text FROM consign.message")
        .await;
    session
        .run(
            "reveal",
            &format!("SELECT consign.reveal({first}, 'a', 'b')"),
        )
        .await;
    let finished = session
        .text("SELECT array_agg(message_id)::text FROM (SELECT message_id FROM consign.dead LIMIT 2) d")
        .await;
    session
        .run(
            "erase",
            &format!("SELECT consign.erase('{finished}', 'a', 'b')"),
        )
        .await;
}

/// A lease that is lost, and what its owner reports afterwards.
async fn lose(session: &mut RangeSession) {
    session
        .run(
            "claim for a moment",
            "SELECT consign.claim('default', 'w', 3, '1 millisecond')",
        )
        .await;
    let lost = session
        .text("SELECT quote_literal(token) || ', ' || quote_literal(ids::text) FROM consign.lease")
        .await;
    let expired = "SELECT pg_sleep(extract(epoch FROM max(expires_at) - clock_timestamp()) + 0.001) FROM consign.lease";
    session.run("wait for the end of the lease", expired).await;
    session
        .run(
            "record late results",
            &format!("SELECT consign.record_late({lost})"),
        )
        .await;
    session.run("expire", "SELECT consign.expire(10)").await;
    session
        .run(
            "record them again",
            &format!("SELECT consign.record_late({lost})"),
        )
        .await;
}

/// Everything recorded about messages.
async fn read(session: &mut RangeSession) {
    let first = session
        .text("SELECT min(id)::text FROM consign.message")
        .await;
    session
        .run("state", &format!("SELECT consign.state_of({first})"))
        .await;
    for (what, statement) in [
        ("explain", include_str!("../../sql/explain.sql")),
        ("history", include_str!("../../sql/history.sql")),
        ("late", include_str!("../../sql/late.sql")),
    ] {
        session.run_prepared(what, statement, &first).await;
    }
    let audit = include_str!("../../sql/audit_of_message.sql");
    let arguments = format!("9223372036854775807, 10, {first}");
    session
        .run_prepared("audit of a message", audit, &arguments)
        .await;
    let ids = session
        .text("SELECT quote_literal(array_agg(id)::text) FROM consign.message")
        .await;
    let some = "'{1, 2}', 1, 2, 10, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL";
    session.run_prepared("a page of a list", PAGE, some).await;
    for (what, statement) in [
        ("messages", include_str!("../../sql/record_messages.sql")),
        ("attempts", include_str!("../../sql/record_attempts.sql")),
        ("late of many", include_str!("../../sql/record_late.sql")),
        ("audit of many", include_str!("../../sql/record_audit.sql")),
        ("dead of many", include_str!("../../sql/record_dead.sql")),
        (
            "erasures of many",
            include_str!("../../sql/record_erasures.sql"),
        ),
    ] {
        session.run_prepared(what, statement, &ids).await;
    }
}

/// The dead messages of a queue return, step by step.
async fn redrive(session: &mut RangeSession) {
    let enqueue = "SELECT consign.enqueue_many('redriven', ARRAY['1', '2']::jsonb[])";
    session
        .execute("SELECT consign.put_queue('redriven', '{}', 'a', 'b')")
        .await;
    session.run("enqueue", enqueue).await;
    settle_all(session, "redriven", "dead").await;
    let start = "SELECT consign.start_redrive('a', 'b', 'redriven')";
    session.run("start a redrive", start).await;
    session
        .run("step a redrive", "SELECT consign.step_redrive(1)")
        .await;
    let moved = session
        .text("SELECT moved::text FROM consign.redrive")
        .await;
    assert_eq!(moved, "1");
    settle_all(session, "redriven", "delivered").await;
}

/// Groups in order: a message waits behind the head, is promoted, held, resolved, and dies.
async fn order(session: &mut RangeSession) {
    session
        .execute("SELECT consign.put_queue('ordered', '{\"ordered\": true}', 'a', 'b')")
        .await;
    let grouped =
        "SELECT consign.enqueue_many('ordered', ARRAY['1', '2', '3', '4', '5']::jsonb[], NULL,
                                               ARRAY['g', 'g', 'g', 'g', 'h'])";
    session.run("enqueue in groups", grouped).await;
    for outcome in ["delivered", "dead"] {
        settle_all(session, "ordered", outcome).await;
    }
    let head = session
        .text("SELECT message_id::text FROM consign.group_head WHERE \"group\" = 'g'")
        .await;
    let resolve = format!("SELECT consign.resolve('{{{head}}}', 'delivered', 'a', 'b')");
    let hold = format!("SELECT consign.hold('{{{head}}}', 'a', 'b')");
    let requeue = format!("SELECT consign.requeue('{{{head}}}', 'a', 'b')");
    for (what, sql) in [
        ("requeue a head", requeue),
        ("hold a head", hold),
        ("resolve a head", resolve),
    ] {
        session.run(what, &sql).await;
    }
    let waiting = session
        .text("SELECT message_id::text FROM consign.waiting WHERE queue = 'ordered' LIMIT 1")
        .await;
    for action in ["hold", "unhold"] {
        let sql = format!("SELECT consign.{action}('{{{waiting}}}', 'a', 'b')");
        session.run(&format!("{action} what waits"), &sql).await;
    }
    let unordered = "SELECT consign.put_queue('ordered', '{\"ordered\": false}', 'a', 'b')";
    for _ in 0..2 {
        settle_all(session, "ordered", "delivered").await;
    }
    session.run("end the order", unordered).await;
    let ordered = "SELECT consign.put_queue('ordered', '{\"ordered\": true}', 'a', 'b')";
    session.run("begin the order", ordered).await;
}

/// Settles what may be claimed of a queue.
async fn settle_all(session: &mut RangeSession, queue: &str, outcome: &str) {
    let claim = format!("SELECT consign.claim('{queue}', 'w', 10)");
    session.run(&format!("claim from {queue}"), &claim).await;
    let lease = format!(
        "SELECT quote_literal(token) || ', ' || quote_literal(ids::text) || ', array_fill(''{outcome}''::text, ARRAY[' || cardinality(ids) || '])'
             FROM consign.lease WHERE queue = '{queue}'"
    );
    let lease = session.text(&lease).await;
    let settle = format!("SELECT consign.settle({lease})");
    session
        .run(&format!("settle {queue} as {outcome}"), &settle)
        .await;
}

/// An app removes messages.
async fn purge(session: &mut RangeSession) {
    let dead = session
        .text("SELECT array_agg(message_id)::text FROM (SELECT message_id FROM consign.dead LIMIT 2) d")
        .await;
    let purge =
        format!("SELECT consign.purge_messages('default', '{dead}', 'a', 'b', consign.clock())");
    session.run("purge", &purge).await;
}

/// Messages that leave: the steps before their range is replaced.
async fn depart(session: &mut RangeSession) {
    let keep = "{\"keep_ms\": 0, \"keep_dead_ms\": 0}";
    session
        .execute(&format!(
            "SELECT consign.put_queue('default', '{keep}', 'a', 'b')"
        ))
        .await;
    let token = session
        .text("SELECT quote_literal(consign.lease_maintenance('w', NULL, '1 hour'))")
        .await;
    session
        .execute(&format!(
            "SELECT consign.prepare_ranges({token}, 1000, '0')"
        ))
        .await;
    let begin = format!("SELECT consign.begin_departure({token})");
    session.run("begin a departure", &begin).await;
    session.run("follow changes of its range", &begin).await;
    session.run("copy what stays", &begin).await;
    let id = session
        .text("SELECT id::text FROM consign.departure WHERE messages > 0")
        .await;
    let departing = "SELECT consign.departing($1, $2, $3)";
    let arguments = format!("{id}, -9223372036854775808, 1000");
    session
        .run_prepared("read what departs", departing, &arguments)
        .await;
    let record = format!("SELECT consign.record_archive({token}, {id}, 'archive')");
    session.run("record an archive", &record).await;
    let due = include_str!("../../sql/due_erasures.sql");
    session.run_prepared("due erasures", due, "10").await;
    let changed =
        "SELECT array_agg(message_id)::text FROM (SELECT message_id FROM consign.dead LIMIT 1) d";
    let changed = session.text(changed).await;
    let requeue = format!("SELECT consign.requeue('{changed}', 'a', 'b')");
    session.run("end a departure by a requeue", &requeue).await;
}
