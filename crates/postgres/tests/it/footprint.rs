//! What migrations create: little without an app, and of an app only its own.

use std::collections::BTreeSet;

use consign_postgres::{Component, PostgresOptions, migrate};
use consign_testkit::TestDatabase;
use sqlx::{Connection, PgConnection};

use crate::{advice::Login, harness::execute};

const ORDERS: Component = consign_orders::store::POSTGRES_COMPONENT;
const MEMORY: Component = consign_memory::store::POSTGRES_COMPONENT;
const PAYMENTS: Component = consign_payments::store::POSTGRES_COMPONENT;
const SCM: Component = consign_scm_app::POSTGRES_COMPONENT;

/// Every column, function with its body, trigger and right, one line each.
const OBJECTS: &str = "
WITH own AS (SELECT oid, nspname, nspacl, nspowner FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema')
SELECT 'schema ' || nspname FROM own
UNION ALL SELECT format('column %s.%s.%s %s', n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod))
    FROM own n JOIN pg_class c ON c.relnamespace = n.oid JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relkind IN ('r', 'v', 'p') AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT format('function %s %s', p.oid::regprocedure, md5(pg_get_functiondef(p.oid)))
    FROM own n JOIN pg_proc p ON p.pronamespace = n.oid
UNION ALL SELECT format('trigger %s.%s.%s', n.nspname, c.relname, t.tgname)
    FROM own n JOIN pg_class c ON c.relnamespace = n.oid JOIN pg_trigger t ON t.tgrelid = c.oid WHERE NOT t.tgisinternal
UNION ALL SELECT DISTINCT 'role ' || pg_get_userbyid(acl.grantee)
    FROM (SELECT n.nspowner AS owner, n.nspacl AS acl FROM own n
          UNION ALL SELECT c.relowner, c.relacl FROM own n JOIN pg_class c ON c.relnamespace = n.oid
          UNION ALL SELECT p.proowner, p.proacl FROM own n JOIN pg_proc p ON p.pronamespace = n.oid) o, aclexplode(o.acl) acl
    WHERE acl.grantee <> 0 AND acl.grantee <> o.owner";

async fn empty() -> TestDatabase {
    TestDatabase::create(async |_: &str| {}).await
}

async fn install(database: &TestDatabase, apps: &[Component]) {
    let mut options = PostgresOptions::new(database.url());
    options.components.extend(apps);
    migrate(&options).await.unwrap();
}

async fn objects(database: &TestDatabase) -> BTreeSet<String> {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let objects = sqlx::query_scalar(OBJECTS).fetch_all(&mut connection).await;
    connection.close().await.unwrap();
    objects.unwrap().into_iter().collect()
}

fn of_kind<'a>(objects: &'a BTreeSet<String>, kind: &str) -> Vec<&'a str> {
    let named = objects.iter().filter_map(|it| it.strip_prefix(kind));
    named.collect()
}

#[tokio::test]
async fn without_an_app_there_is_little() {
    let database = empty().await;
    install(&database, &[]).await;
    let objects = objects(&database).await;
    assert_eq!(of_kind(&objects, "schema "), ["consign", "public"]);
    assert_eq!(
        of_kind(&objects, "role "),
        [
            "consign_auditor",
            "consign_operator",
            "consign_producer",
            "consign_worker"
        ]
    );
    let functions = of_kind(&objects, "function ").len();
    assert!(functions <= 170, "{functions} functions");
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'consign'::regnamespace
                      AND relkind IN ('r', 'p') AND NOT relispartition";
    let tables: i64 = sqlx::query_scalar(tables)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert!(tables <= 31, "{tables} tables");
}

#[tokio::test]
async fn migrates_beside_foreign_tables_and_roles() {
    let database = empty().await;
    let login = Login::create(&database).await;
    execute(
        database.url(),
        "CREATE SCHEMA identity; CREATE TABLE identity.users (id int);
         CREATE TABLE public.events (id int); CREATE TABLE public.message (id int)",
    )
    .await;
    login
        .run(format!(
            "GRANT SELECT ON identity.users TO {}",
            login.name()
        ))
        .await;
    let before = objects(&database).await;
    install(&database, &[]).await;
    install(&database, &[ORDERS]).await;
    let after = objects(&database).await;
    let lost: Vec<_> = before.difference(&after).collect();
    assert_eq!(lost, Vec::<&String>::new());
    let foreign = |it: &&String| it.contains("identity.") || it.contains("public.");
    let changed: Vec<_> = after.difference(&before).filter(foreign).collect();
    assert_eq!(changed, Vec::<&String>::new());
    login
        .run(format!(
            "REVOKE SELECT ON identity.users FROM {}",
            login.name()
        ))
        .await;
    login.remove().await;
}

#[tokio::test]
async fn an_app_adds_only_its_own_in_any_order() {
    let at_once = empty().await;
    install(&at_once, &[]).await;
    let engine = objects(&at_once).await;
    install(&at_once, &[SCM, PAYMENTS, ORDERS, MEMORY]).await;
    let all = objects(&at_once).await;
    let changed: Vec<_> = engine.difference(&all).collect();
    assert_eq!(
        changed,
        Vec::<&String>::new(),
        "an app changes what the engine created"
    );
    let mut tables = of_kind(&engine, "column ");
    tables.dedup_by_key(|column| column.rsplit_once('.').map(|(table, _)| table.to_owned()));
    for column in tables {
        let (table, _) = column.rsplit_once('.').unwrap();
        let triggers = |objects| of_kind(objects, &format!("trigger {table}.")).len();
        assert_eq!(
            triggers(&all),
            triggers(&engine),
            "an app has a trigger on {table}"
        );
    }
    // Every app is once the first and once the last, but for scm, which needs memory.
    for order in [
        [ORDERS, MEMORY, PAYMENTS, SCM],
        [PAYMENTS, MEMORY, ORDERS, SCM],
        [MEMORY, SCM, ORDERS, PAYMENTS],
        [MEMORY, PAYMENTS, SCM, ORDERS],
    ] {
        let database = empty().await;
        install(&database, &[]).await;
        for count in 1..=order.len() {
            let before = objects(&database).await;
            install(&database, &order[..count]).await;
            let after = objects(&database).await;
            let changed: Vec<_> = before.difference(&after).collect();
            assert_eq!(
                changed,
                Vec::<&String>::new(),
                "app {count} changes what was there"
            );
        }
        let differing: Vec<_> = objects(&database)
            .await
            .symmetric_difference(&all)
            .cloned()
            .collect();
        assert_eq!(differing, Vec::<String>::new());
    }
}
