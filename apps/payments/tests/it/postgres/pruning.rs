//! Statements about payments that know their ids read no other range of messages.

use consign_testkit::RangeSession;

use super::harness::database;

#[tokio::test]
async fn statements_about_payments_by_ids_read_only_their_ranges() {
    let database = database().await;
    let mut session = RangeSession::open(database.url(), 20).await;
    enqueue(&mut session).await;
    complete(&mut session).await;
    lose(&mut session).await;
    operate(&mut session).await;
    read(&mut session).await;
    leave(&mut session).await;
}

async fn enqueue(session: &mut RangeSession) {
    let one = "SELECT consign.enqueue_payment_outbox('i-' || n, 'p', 'k', 'PAYMENT', jsonb_build_object('amount_minor', n))
                   FROM generate_series(1, 8) n";
    session.run("enqueue", one).await;
    session.run("enqueue again", one).await;
}

/// A quarter of a lease each is dispatched, failed, held without a reference, and in doubt.
async fn complete(session: &mut RangeSession) {
    let claim = "SELECT * FROM consign.claim_outbox_batch(4, 'w', 60, false)";
    session.run("claim", claim).await;
    let lease = lease(session).await;
    let begin = format!("SELECT consign.begin_outbox_attempts({lease})");
    session.run("begin", &begin).await;
    let statement = include_str!("../../../src/store/postgres/sql/complete_payments.sql");
    let results = "ARRAY['DISPATCHED', 'FAILED', 'DISPATCHED', 'RETRYABLE'], ARRAY['rail-1', NULL, NULL, NULL], NULL,
                   ARRAY[NULL, 'RAIL_DOWN', NULL, 'DISPATCH_TIMEOUT'], NULL, NULL, NULL, NULL";
    for what in ["complete", "complete again"] {
        let arguments = format!("{lease}, {results}");
        session.run_prepared(what, statement, &arguments).await;
    }
    let whole = "SELECT * FROM consign.claim_outbox_batch(1, 'w', 60)";
    session.run("claim one", whole).await;
    let lease = self::lease(session).await;
    let results = "ARRAY['DISPATCHED'], ARRAY['rail-2'], NULL, NULL, NULL, NULL, NULL, NULL";
    let arguments = format!("{lease}, {results}");
    session
        .run_prepared("complete a whole lease", statement, &arguments)
        .await;
    session.run("claim another", whole).await;
    let token = session
        .text("SELECT quote_literal(token) FROM consign.lease")
        .await;
    let release = format!("SELECT consign.release_outbox_lease({token}, 'w')");
    session.run("release", &release).await;
}

/// Token, worker and payments of the lease.
async fn lease(session: &mut RangeSession) -> String {
    session
        .text(
            "SELECT quote_literal(l.token) || ', ''w'', ' || quote_literal(array_agg(p.outbox_id ORDER BY u.ord)::text)
                 FROM consign.lease l, unnest(l.ids) WITH ORDINALITY AS u (id, ord), consign.payment p
                 WHERE p.message_id = u.id GROUP BY l.token",
        )
        .await
}

/// A lease that expires, and what its worker records afterwards.
async fn lose(session: &mut RangeSession) {
    let claim = "SELECT * FROM consign.claim_outbox_batch(1, 'w', 1)";
    session.run("claim for a second", claim).await;
    let lost = lease(session).await;
    session
        .execute("UPDATE consign.lease SET expires_at = claimed_at")
        .await;
    let repair = "SELECT * FROM consign.repair_expired_leases(10, 'w')";
    session.run("repair", repair).await;
    let late = include_str!("../../../src/store/postgres/sql/record_late_payments.sql");
    for reference in ["rail-3", "rail-4"] {
        let arguments =
            format!("{lost}, ARRAY['DISPATCHED'], ARRAY['{reference}'], NULL, NULL, NULL, NULL");
        session
            .run_prepared("record a late result", late, &arguments)
            .await;
    }
}

async fn operate(session: &mut RangeSession) {
    let dead = session
        .text("SELECT array_agg(message_id)::text FROM consign.dead")
        .await;
    let held = session
        .text("SELECT array_agg(message_id)::text FROM consign.held")
        .await;
    for (what, sql) in [
        (
            "requeue",
            format!("SELECT consign.requeue('{dead}', 'a', 'b')"),
        ),
        ("hold", format!("SELECT consign.hold('{dead}', 'a', 'b')")),
        (
            "resolve",
            format!(
                "SELECT consign.resolve('{held}', 'delivered', 'a', 'b', '{{\"rail_reference\": \"rail-5\"}}')"
            ),
        ),
        (
            "resolve as failed",
            format!("SELECT consign.resolve('{dead}', 'dead', 'a', 'b')"),
        ),
    ] {
        session.run(what, &sql).await;
    }
}

async fn read(session: &mut RangeSession) {
    let some = [
        "SELECT quote_literal(p.outbox_id) FROM consign.payment p ORDER BY p.sequence_id LIMIT 1",
        "SELECT quote_literal(p.outbox_id) FROM consign.payment p ORDER BY p.sequence_id DESC LIMIT 1",
    ];
    for id in some {
        let id = session.text(id).await;
        let get = include_str!("../../../src/store/postgres/sql/payment_get.sql");
        session.run_prepared("a payment", get, &id).await;
        for view in [
            "payment_outbox_attempts",
            "payment_outbox_pending",
            "payment_outbox_reconcile",
        ] {
            // The reports about all dispatches read all of them.
            let kind = match view {
                "payment_outbox_reconcile" => {
                    "AND kind NOT IN ('MISSING_REFERENCE', 'REUSED_REFERENCE')"
                }
                _ => "",
            };
            let sql = format!("SELECT * FROM consign.{view} WHERE outbox_id = $1 {kind}");
            session.run_prepared(view, &sql, &id).await;
        }
    }
    for (what, statement) in [
        (
            "payments",
            include_str!("../../../src/store/postgres/sql/payment_list.sql"),
        ),
        (
            "payments of an instruction",
            include_str!("../../../src/store/postgres/sql/payment_list_instruction.sql"),
        ),
    ] {
        let instruction = if what == "payments" { "NULL" } else { "'i-1'" };
        let arguments = format!("9223372036854775807, 10, NULL, NULL, {instruction}, NULL");
        session.run_prepared(what, statement, &arguments).await;
    }
    for (what, statement) in [
        (
            "in flight",
            include_str!("../../../src/store/postgres/sql/payment_in_flight.sql"),
        ),
        (
            "uncertain",
            include_str!("../../../src/store/postgres/sql/payment_uncertain.sql"),
        ),
    ] {
        session.run_prepared(what, statement, "10").await;
    }
}

async fn leave(session: &mut RangeSession) {
    let needed = "SELECT consign.needed_payments('payments', 1, 1000001, consign.clock())";
    session.run("what is needed", needed).await;
}
