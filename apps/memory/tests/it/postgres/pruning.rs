//! Statements about memories that know their ids read no other range of messages.

use consign_testkit::RangeSession;

use crate::harness::database;

#[tokio::test]
async fn statements_about_memories_by_ids_read_only_their_ranges() {
    let database = database().await;
    let mut session = RangeSession::open(database.url(), 20).await;
    enqueue(&mut session).await;
    flush(&mut session).await;
    lose(&mut session).await;
    read(&mut session).await;
    leave(&mut session).await;
}

async fn enqueue(session: &mut RangeSession) {
    let put = "SELECT logbook.enqueue_memory('text ' || n, 'space', NULL, NULL, 'backend') FROM generate_series(1, 6) n";
    session.run("enqueue", put).await;
    session.run("enqueue again", put).await;
    let open = "SELECT logbook.open_write('u', 'space', 'allow', 'r', logbook.payload_sha('text 9'), '{\"backend\": \"backend\"}', 'corr-1')";
    session.run("open a write", open).await;
    let defer = "SELECT logbook.defer_memory('space', 'text 9', '{\"correlation_id\": \"corr-1\", \"backend\": \"backend\"}', 'corr-1',
                     'redirected', 'redirect', 'openmemory_write_failed:down')";
    session.run("defer a write", defer).await;
}

/// A memory each is sent, retried, and dead; the dead one comes again.
async fn flush(session: &mut RangeSession) {
    let claim = "SELECT * FROM logbook.claim_outbox('w', 3)";
    session.run("claim", claim).await;
    for (id, what, call) in [
        (1, "acknowledge", "ack_sent(1, 'w', 'mem-1')"),
        (2, "retry", "fail_retry(2, 'w', 'down', consign.clock())"),
        (3, "bury", "mark_dead_by_worker(3, 'w', 'no')"),
    ] {
        session
            .run("renew", &format!("SELECT logbook.renew_lease({id}, 'w')"))
            .await;
        session.run(what, &format!("SELECT logbook.{call}")).await;
        session
            .run("report without a lease", &format!("SELECT logbook.{call}"))
            .await;
    }
    let again = "SELECT logbook.enqueue_memory('text 3', 'space', NULL, NULL, 'backend')";
    session.run("enqueue what is dead", again).await;
}

/// A lease that expires, and what its worker reports afterwards.
async fn lose(session: &mut RangeSession) {
    let claim = "SELECT * FROM logbook.claim_outbox('v', 1, 0)";
    session.run("claim for a moment", claim).await;
    let ended = "SELECT pg_sleep(extract(epoch FROM max(expires_at) - clock_timestamp()) + 0.001) FROM consign.lease";
    session.execute(ended).await;
    let lost = session
        .text("SELECT ids[1]::text FROM consign.lease WHERE owner = 'v'")
        .await;
    let late = format!("SELECT logbook.ack_sent({lost}, 'v', 'mem-2')");
    session.run("a late result", &late).await;
    session.run("expire", "SELECT consign.expire(10)").await;
    session.run("a late result again", &late).await;
}

async fn read(session: &mut RangeSession) {
    for id in ["1", "2", "3", "5"] {
        let by_id = "SELECT * FROM logbook.outbox_memory WHERE outbox_id = $1";
        session.run_prepared("the view by id", by_id, id).await;
    }
    for (what, call) in [
        (
            "deduplicate",
            "check_dedup('space', logbook.payload_sha('text 1'))",
        ),
        (
            "deduplicate what waits",
            "check_dedup('space', logbook.payload_sha('text 5'))",
        ),
        (
            "look for a row",
            "has_unsent_row('space', logbook.payload_sha('text 5'), 'backend')",
        ),
        (
            "look for a write",
            "may_be_stored('space', logbook.payload_sha('text 1'), 'backend')",
        ),
    ] {
        session.run(what, &format!("SELECT logbook.{call}")).await;
    }
}

async fn leave(session: &mut RangeSession) {
    let needed = "SELECT logbook.needed_memories('memory', 1, 1000001, consign.clock())";
    session.run("what is needed", needed).await;
    let departed = "SELECT logbook.depart_memories('memory', 1, 1000001, 1000)";
    session.run("follow a departure", departed).await;
}
