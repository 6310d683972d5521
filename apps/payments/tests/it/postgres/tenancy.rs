//! Tenants, and holds.

use sqlx::{PgConnection, Row};

use super::{Fixture, refusal};

const A: &str = "'aaaaaaaa-0000-4000-8000-000000000001'";
const B: &str = "'bbbbbbbb-0000-4000-8000-000000000002'";

/// Becomes a reader of tenant B.
const BOUND: &str = "INSERT INTO consign.tenant_login VALUES ('symphony_tenant', 'bbbbbbbb-0000-4000-8000-000000000002');
     SET ROLE symphony_tenant";

const IN_WORKERS: &str =
    "SELECT count(*) FROM consign.payment WHERE tenant_id = consign.current_tenant_id()";

/// One payment of tenant A, one of tenant B, one without a tenant; each dispatched once.
async fn tenants() -> Fixture {
    let mut fixture = Fixture::open().await;
    fixture.run(
        "SELECT consign.enqueue_payment_outbox('i' || t, 'p', 'k' || n, 'PAYMENT', '{}', t)
         FROM (VALUES ('aaaaaaaa-0000-4000-8000-000000000001'::uuid), ('bbbbbbbb-0000-4000-8000-000000000002'), (NULL)) AS v (t),
              generate_series(1, 2) n WHERE t IS NOT NULL;
         SELECT consign.enqueue_payment_outbox('i', 'p', 'k' || n, 'PAYMENT', '{}') FROM generate_series(1, 2) n",
    )
    .await;
    let firsts: Vec<uuid::Uuid> =
        sqlx::query_scalar("SELECT outbox_id FROM consign.payment WHERE idempotency_key = 'k1'")
            .fetch_all(&mut fixture.connection)
            .await
            .unwrap();
    for payment in fixture.claim(1000, "w", 600).await {
        if firsts.contains(&payment.outbox_id) {
            fixture.complete(&payment, "w", "DISPATCHED").await.unwrap();
        }
    }
    fixture
}

async fn seen(connection: &mut PgConnection) -> [i64; 3] {
    let row = sqlx::query(
        "SELECT (SELECT count(*) FROM consign.tenant_payment_outbox_pending),
                (SELECT count(*) FROM consign.tenant_payment_outbox_attempts),
                (SELECT count(*) FROM consign.payment)",
    )
    .fetch_one(connection)
    .await
    .unwrap();
    [row.get(0), row.get(1), row.get(2)]
}

#[tokio::test]
async fn a_tenants_reader_sees_its_own_rows_only() {
    let mut fixture = tenants().await;
    let all = "SELECT (SELECT count(tenant_id) FROM consign.payment_outbox_pending) * 10
                    + (SELECT count(tenant_id) FROM consign.payment_outbox_attempts)";
    assert_eq!(
        fixture.count(all).await,
        22,
        "the tenant is on the pending and on every attempt"
    );
    fixture.run("SET ROLE symphony_tenant; SET app.current_tenant_id = 'aaaaaaaa-0000-4000-8000-000000000001'")
        .await;
    assert_eq!(
        seen(&mut fixture.connection).await,
        [0, 0, 0],
        "without a tenant"
    );
    fixture.run("RESET app.current_tenant_id; RESET ROLE").await;
    fixture.run(BOUND).await;
    assert_eq!(seen(&mut fixture.connection).await, [1, 1, 2], "unset");
    // The session narrows the table's restriction and never widens it.
    for (tenant, figures) in [
        ("''", [1, 1, 2]),
        (B, [1, 1, 2]),
        ("'BBBBBBBB-0000-4000-8000-000000000002'", [1, 1, 2]),
        (A, [0, 0, 0]),
        ("'nonsense'", [0, 0, 0]),
    ] {
        let set = sqlx::AssertSqlSafe(format!("SET app.current_tenant_id = {tenant}"));
        sqlx::raw_sql(set)
            .execute(&mut fixture.connection)
            .await
            .unwrap();
        assert_eq!(seen(&mut fixture.connection).await, figures, "{tenant}");
    }
    fixture.run("RESET app.current_tenant_id").await;
    for sql in [
        "SELECT * FROM consign.payment_outbox_pending",
        "SELECT * FROM consign.payment_outbox_attempts",
        "SELECT * FROM consign.message",
        "SELECT * FROM consign.attempt",
        "SELECT consign.claim_outbox_batch(1, 'w', 60)",
    ] {
        assert_eq!(
            refusal(&mut fixture.connection, sql).await,
            "42501",
            "{sql}"
        );
    }
    // A condition of the reader is not evaluated on rows of other tenants.
    fixture.run(
        "CREATE FUNCTION pg_temp.peek(t uuid) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS
             $$ BEGIN IF t::text NOT LIKE 'bbbbbbbb%' THEN RAISE EXCEPTION 'saw %', t; END IF; RETURN true; END $$;
         SELECT * FROM consign.tenant_payment_outbox_pending WHERE pg_temp.peek(tenant_id);
         SELECT * FROM consign.tenant_payment_outbox_attempts WHERE pg_temp.peek(tenant_id);
         SELECT * FROM consign.payment WHERE pg_temp.peek(tenant_id);",
    )
    .await;
}

/// What a tenant's reader sees does not depend on the plan; parallel workers have the tenant too.
#[tokio::test]
async fn a_tenants_reader_may_be_parallel() {
    let mut fixture = tenants().await;
    fixture.run(
        "ANALYZE; SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
         SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0;
         SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off",
    )
    .await;
    fixture.run(BOUND).await;
    let mut parallel = 0;
    for view in [
        "SELECT count(*) FROM consign.tenant_payment_outbox_pending",
        "SELECT count(*) FROM consign.tenant_payment_outbox_attempts",
        "SELECT count(*) FROM consign.payment",
        // Here the function itself runs in the workers.
        IN_WORKERS,
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN {view}"));
        let plan: Vec<String> = sqlx::query_scalar(explain)
            .fetch_all(&mut fixture.connection)
            .await
            .unwrap();
        parallel += usize::from(plan.iter().any(|line| line.contains("Gather")));
    }
    assert_eq!(parallel, 4, "the plan is parallel");
    for (tenant, figures) in [
        ("", [1, 1, 2]),
        ("nonsense", [0, 0, 0]),
        ("bbbbbbbb-0000-4000-8000-000000000002", [1, 1, 2]),
    ] {
        let set = sqlx::AssertSqlSafe(format!("SET app.current_tenant_id = '{tenant}'"));
        sqlx::raw_sql(set)
            .execute(&mut fixture.connection)
            .await
            .unwrap();
        assert_eq!(seen(&mut fixture.connection).await, figures, "{tenant}");
        assert_eq!(fixture.count(IN_WORKERS).await, figures[2], "{tenant}");
    }
}

/// Workers work for every tenant, for any owner of the schema and any session.
#[tokio::test]
async fn a_worker_sees_all_tenants() {
    let mut fixture = Fixture::open().await;
    fixture.run(
        "SET app.current_tenant_id = 'aaaaaaaa-0000-4000-8000-000000000001';
         SET ROLE symphony_ingest;
         SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'PAYMENT', '{}', 'bbbbbbbb-0000-4000-8000-000000000002');
         RESET ROLE; SET ROLE symphony_executor",
    )
    .await;
    let claimed = fixture.claim_one("w", 60).await;
    fixture.complete(&claimed, "w", "DISPATCHED").await.unwrap();
}

#[tokio::test]
async fn a_held_payment_is_never_claimed_until_it_is_released() {
    let mut fixture = Fixture::frozen().await;
    fixture.run(
        "SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'PAYMENT', '{}', p_kyc_hold => true)",
    )
    .await;
    fixture.pass(1_000_000.0).await;
    assert_eq!(fixture.claim(10, "w", 60).await.len(), 0);
    let held = "SELECT count(*) FROM consign.payment_outbox_pending WHERE kyc_hold AND hold_reason = 'kyc_hold' AND next_attempt_at IS NULL";
    assert_eq!(fixture.count(held).await, 1);
    fixture.run("SET ROLE symphony_executor").await;
    let release = "SELECT consign.unhold(ARRAY[1], 'w', 'because I can')";
    assert_eq!(refusal(&mut fixture.connection, release).await, "42501");
    fixture.run("RESET ROLE; SET ROLE consign_operator").await;
    fixture.run("SELECT consign.unhold(ARRAY(SELECT message_id FROM consign.payment), 'compliance', 'cleared')")
        .await;
    fixture.run("RESET ROLE").await;
    assert_eq!(fixture.claim(10, "w", 60).await.len(), 1);
    assert_eq!(
        fixture.count(
            "SELECT count(*) FROM consign.audit WHERE action = 'unhold' AND actor = 'compliance'"
        )
        .await,
        1
    );
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}
