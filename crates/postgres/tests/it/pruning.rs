//! Statements that know their ids read no other range.

use consign_testkit::TestDatabase;
use sqlx::{Connection as _, PgConnection};

use crate::harness::{database, execute};

/// With 200 ranges and generic plans, no statement by ids reads a range other than theirs.
#[tokio::test]
async fn statements_by_ids_read_only_their_ranges() {
    let database = database().await;
    execute(
        database.url(),
        "DO $$ DECLARE v_last consign.range; BEGIN FOR i IN 1 .. 198 LOOP
             SELECT * INTO v_last FROM consign.range WHERE until = 9223372036854775807;
             PERFORM consign.end_last_range(v_last, v_last.first + 1000);
         END LOOP; END $$",
    )
    .await;
    let mut session = Session::open(&database).await;
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
}

/// What operators do to messages.
async fn operate(session: &mut Session) {
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
async fn lose(session: &mut Session) {
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
async fn read(session: &mut Session) {
    let first = session
        .text("SELECT min(id)::text FROM consign.message")
        .await;
    session
        .run("state", &format!("SELECT consign.state_of({first})"))
        .await;
    for (name, statement) in [
        ("explain", include_str!("../../sql/explain.sql")),
        ("history", include_str!("../../sql/history.sql")),
        ("late", include_str!("../../sql/late.sql")),
    ] {
        let prepare = format!("PREPARE {name} AS {statement}");
        session.execute(&prepare).await;
        session
            .run(name, &format!("EXECUTE {name} ({first})"))
            .await;
    }
    let audit = include_str!("../../sql/audit_of_message.sql");
    session
        .execute(&format!("PREPARE audit_of_message AS {audit}"))
        .await;
    let audit = format!("EXECUTE audit_of_message (9223372036854775807, 10, {first})");
    session.run("audit of a message", &audit).await;
    for (name, statement) in [
        ("messages", include_str!("../../sql/record_messages.sql")),
        ("attempts", include_str!("../../sql/record_attempts.sql")),
        ("late_of_many", include_str!("../../sql/record_late.sql")),
        ("audit_of_many", include_str!("../../sql/record_audit.sql")),
    ] {
        let prepare = format!("PREPARE {name} AS {statement}");
        session.execute(&prepare).await;
        session
            .run(name, &format!("EXECUTE {name} ('{{1, 2, 3}}')"))
            .await;
    }
}

/// A session with generic plans that sees which ranges its transactions read.
struct Session {
    connection: PgConnection,
}

impl Session {
    async fn open(database: &TestDatabase) -> Self {
        let mut session = Self {
            connection: PgConnection::connect(database.url()).await.unwrap(),
        };
        session
            .execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off")
            .await;
        session
    }

    async fn execute(&mut self, sql: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))
            .execute(&mut self.connection)
            .await
            .unwrap();
    }

    async fn text(&mut self, sql: &'static str) -> String {
        sqlx::query_scalar(sql)
            .fetch_one(&mut self.connection)
            .await
            .unwrap()
    }

    /// Runs a statement in a transaction, and fails if it read a range other than the first, or than
    /// the audit entries about no message.
    async fn run(&mut self, what: &str, sql: &str) {
        self.execute("BEGIN").await;
        self.execute(sql).await;
        let read: Vec<String> = sqlx::query_scalar(
            "SELECT s.relname::text FROM pg_stat_xact_user_tables s JOIN pg_inherits i ON i.inhrelid = s.relid
                 WHERE s.schemaname = 'consign' AND s.relname !~ '_[01]$' AND coalesce(s.idx_scan, 0) + s.seq_scan > 0",
        )
        .fetch_all(&mut self.connection)
        .await
        .unwrap();
        self.execute("COMMIT").await;
        assert!(
            read.is_empty(),
            "{what} reads {} ranges: {:?}",
            read.len(),
            &read[..read.len().min(4)]
        );
    }
}
