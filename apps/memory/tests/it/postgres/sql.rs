//! The seed's own SQL works as printed, by position and by the seed's names.

use std::time::Duration;

use consign_testkit::eventually;
use sqlx::{Connection, PgConnection};

use super::Fixture;

const SOON: Duration = Duration::from_secs(15);

#[tokio::test]
async fn the_seeds_sql_works_as_printed() {
    let mut fixture = Fixture::open().await;
    let enqueue = "SELECT logbook.enqueue_memory('# Test', 'team:p')::text";
    let id = fixture.value(enqueue).await;
    fixture.run(
        "SELECT logbook.enqueue_memory(payload_md => 'two', target_space => 'team:p', item_id => 7, last_error => 'boom')",
    )
    .await;
    assert_eq!(fixture.value(enqueue).await, id, "the twin");
    for (sql, expected) in [
        ("SELECT count(*)::text FROM logbook.outbox_memory WHERE status = 'pending'", "2"),
        ("SELECT string_agg(last_error, ',') FROM logbook.outbox_memory WHERE item_id = 7", "boom"),
        ("SELECT count(*)::text FROM logbook.claim_outbox('w1', 1)", "1"),
        ("SELECT count(*)::text FROM logbook.claim_outbox(worker_id => 'w2', lease_seconds => 120)", "1"),
        ("SELECT count(*)::text FROM logbook.outbox_memory WHERE locked_by IS NOT NULL", "2"),
        ("SELECT logbook.renew_lease(1, 'w1')::text", "true"),
        ("SELECT logbook.renew_lease_batch('{1,2}', 'w2')::text", "1"),
        ("SELECT logbook.fail_retry(1, 'w1', 'connection_error: x', now() + interval '2 minutes')::text", "true"),
        ("SELECT retry_count::text FROM logbook.outbox_memory WHERE outbox_id = 1", "1"),
        ("SELECT logbook.ack_sent(outbox_id => 2, worker_id => 'w2', memory_id => 'mem-1')::text", "true"),
        ("SELECT last_error FROM logbook.outbox_memory WHERE outbox_id = 2", "memory_id=mem-1"),
        ("SELECT logbook.mark_dead_by_worker(2, 'w2', 'x')::text", "false"),
        (
            "SELECT outbox_id || ' ' || status || ' ' || memory_id FROM logbook.check_dedup('team:p', (SELECT payload_sha FROM logbook.outbox_memory WHERE outbox_id = 2))",
            "2 sent mem-1",
        ),
        // The paths that queries over audits use.
        (
            "SELECT count(*)::text FROM governance.write_audit WHERE (evidence_refs_json->>'outbox_id')::int = 2
                 AND evidence_refs_json->>'source' = 'outbox_worker' AND evidence_refs_json->>'memory_id' = 'mem-1'
                 AND evidence_refs_json->>'payload_sha' = payload_sha AND evidence_refs_json->'extra'->>'correlation_id' = correlation_id",
            "1",
        ),
        ("SELECT team_write_enabled::text FROM governance.get_or_create_settings('p')", "false"),
        ("SELECT logbook.upsert_settings('p', true, '{\"max_chars\": 9}', 'alice')::text", "true"),
        ("SELECT (policy_json->>'max_chars') || updated_by FROM logbook.get_or_create_settings('p')", "9alice"),
        ("SELECT (logbook.insert_write_audit('bob', 'team:p', 'reject', 'policy:x') > 0)::text", "true"),
        ("SELECT status || coalesce(correlation_id, '-') FROM logbook.query_write_audit(actor => 'bob')", "success-"),
        ("SELECT count(*)::text FROM governance.query_write_audit(since => NULL, \"limit\" => 1)", "1"),
        ("SELECT (sent_count + dead_count + stale_count)::text FROM logbook.reconcile_outbox()", "1"),
        ("SELECT logbook.memory_counts()->'outbox'->>'sent'", "1"),
    ] {
        assert_eq!(fixture.value(sql).await.as_deref(), Some(expected), "{sql}");
    }
}

/// Without a transaction around it, a delivery that names nothing is audited when it commits.
#[tokio::test]
async fn a_worker_in_sql_is_audited() {
    let mut fixture = Fixture::open().await;
    fixture.run(
        "SELECT logbook.enqueue_memory('one', 'team:p'), logbook.enqueue_memory('two', 'team:p');
         BEGIN;
         CREATE TEMP TABLE mine AS SELECT * FROM consign.claim('memory', 'w', 10);
         SELECT consign.settle((SELECT token FROM mine LIMIT 1), ARRAY[1]);
         SELECT consign.settle((SELECT token FROM mine LIMIT 1), ARRAY[2]);
         COMMIT",
    )
    .await;
    let audits = "SELECT string_agg(outbox_id || ' ' || reason, ', ' ORDER BY outbox_id) FROM governance.write_audit";
    let audits = fixture.value(audits).await;
    assert_eq!(
        audits.as_deref(),
        Some("1 outbox_flush_success, 2 outbox_flush_success")
    );
}

/// Append-only for the owner too, but for the end of what is pending.
#[tokio::test]
async fn audits_stay_as_they_are() {
    let mut fixture = Fixture::open().await;
    fixture.run(
        "SELECT governance.insert_write_audit('a', 'team:p', 'allow', 'x', NULL, '{}', 'corr-1', 'pending');
         SELECT governance.insert_write_audit('a', 'team:p', 'allow', 'x')",
    )
    .await;
    for sql in [
        "DELETE FROM governance.write_audit",
        "TRUNCATE governance.write_audit",
        "UPDATE governance.write_audit SET reason = 'y' WHERE status = 'success'",
        "UPDATE governance.write_audit SET reason = 'y' WHERE status = 'pending'",
        "UPDATE governance.write_audit SET status = 'failed', target_space = 'team:q' WHERE status = 'pending'",
    ] {
        assert_eq!(fixture.refusal(sql).await, "CN009", "{sql}");
    }
    for sql in [
        "INSERT INTO governance.write_audit (target_space, action) VALUES ('team:p', 'maybe')",
        "INSERT INTO governance.write_audit (target_space, action, status) VALUES ('team:p', 'allow', 'done')",
        "INSERT INTO governance.write_audit (target_space, action, status) VALUES ('team:p', 'allow', 'pending')",
    ] {
        let code = fixture.refusal(sql).await;
        assert!(["23514", "23502"].contains(&&*code), "{sql}: {code}");
    }
    let again = "INSERT INTO governance.write_audit (target_space, action, status, correlation_id) VALUES ('team:p', 'allow', 'pending', 'corr-1')";
    assert_eq!(fixture.refusal(again).await, "23505");
    fixture
        .run("SELECT governance.update_write_audit('corr-1', 'success')")
        .await;
}

/// A JSON null beside a value that is masked stays what it is.
#[tokio::test]
async fn masking_changes_only_what_holds_credentials() {
    let mut fixture = Fixture::open().await;
    fixture.run(
        r#"SELECT logbook.keep_memory('team:p', 'x', p_meta_json => 'null', p_evidence => '[{"uri": "https://u:p@h/x"}]')"#,
    )
    .await;
    let kept =
        "SELECT meta_json::text || ' ' || (evidence::text !~ 'u:p@')::text FROM logbook.memory";
    assert_eq!(fixture.value(kept).await.as_deref(), Some("null true"));
}

/// Two agents give each memory the other's text at the same moment.
#[tokio::test]
async fn of_two_memories_that_replace_each_other_one_stays() {
    let mut fixture = Fixture::open().await;
    fixture
        .run(
            "SELECT logbook.keep_memory('team:p', 'a'), logbook.keep_memory('team:p', 'b');
         CREATE VIEW public.kept AS SELECT min(memory_id) FILTER (WHERE payload_md = 'a') AS a,
             min(memory_id) FILTER (WHERE payload_md = 'b') AS b FROM logbook.memory",
        )
        .await;
    fixture
        .run(
            "BEGIN;
         SELECT logbook.supersede_memory(k.a, k.b) FROM public.kept k",
        )
        .await;
    let mut other = PgConnection::connect(fixture.database.url()).await.unwrap();
    let second = tokio::spawn(async move {
        let replace = "SELECT logbook.supersede_memory(k.b, k.a) FROM public.kept k";
        sqlx::raw_sql(replace).execute(&mut other).await.unwrap();
    });
    let fixture = tokio::sync::Mutex::new(fixture);
    eventually("the second waits for the first", SOON, || async {
        let waits = "SELECT count(*)::text FROM pg_locks WHERE NOT granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            OR NOT granted AND locktype = 'transactionid'";
        fixture.lock().await.value(waits).await.as_deref() != Some("0")
    })
    .await;
    let mut fixture = fixture.into_inner();
    fixture.run("COMMIT").await;
    second.await.unwrap();
    let left = "SELECT string_agg(payload_md, ',') FROM logbook.memory WHERE superseded_by IS NULL";
    assert_eq!(fixture.value(left).await.as_deref(), Some("b"));
}
