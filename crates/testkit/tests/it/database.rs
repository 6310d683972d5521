use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use consign_testkit::{TestDatabase, fingerprint};
use sqlx::{Connection, PgConnection};

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

/// A template that no other test and no earlier run has made.
fn fresh_template(test: &str) -> String {
    let now = format!("{:?}", std::time::SystemTime::now());
    format!("{test}_{}", fingerprint([now.as_str()]))
}

/// Templates outlive tests on purpose; those made here are of no further use.
async fn drop_template(database: &TestDatabase, template: &str) {
    let mut connection = connect(database.url()).await;
    let sql = format!("DROP DATABASE {template}");
    sqlx::query(sqlx::AssertSqlSafe(sql))
        .execute(&mut connection)
        .await
        .unwrap();
}

async fn parcels(url: &str) -> i64 {
    let mut connection = connect(url).await;
    sqlx::query_scalar("SELECT count(*) FROM parcel")
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

async fn create_parcels(url: &str) {
    let mut connection = connect(url).await;
    sqlx::raw_sql("CREATE TABLE parcel (id int); INSERT INTO parcel VALUES (1)")
        .execute(&mut connection)
        .await
        .unwrap();
    // Left open on purpose: a template must be usable although its maker was careless.
    std::mem::forget(connection);
}

#[tokio::test]
async fn a_database_is_dropped_with_its_value_despite_connections() {
    let second = TestDatabase::create(async |_| {}).await;
    let database = TestDatabase::create(create_parcels).await;
    assert_eq!(parcels(database.url()).await, 1);
    let _connected = connect(database.url()).await;
    let name = database.name().to_owned();
    drop(database);

    let left: Option<i32> = sqlx::query_scalar("SELECT 1 FROM pg_database WHERE datname = $1")
        .bind(name)
        .fetch_optional(&mut connect(second.url()).await)
        .await
        .unwrap();
    assert_eq!(left, None);
}

/// Also shows that the future can be spawned, as test fixtures behind trait objects require.
#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_migrated_once_for_many_tests_at_once() {
    let template = fresh_template("once");
    let migrated = Arc::new(AtomicUsize::new(0));
    let tests: Vec<_> = (0..8)
        .map(|_| {
            let (template, migrated) = (template.clone(), migrated.clone());
            tokio::spawn(async move {
                TestDatabase::from_template(&template, async move |url| {
                    migrated.fetch_add(1, Ordering::SeqCst);
                    create_parcels(url).await;
                })
                .await
            })
        })
        .collect();
    let mut databases = Vec::new();
    for test in tests {
        databases.push(test.await.unwrap());
    }

    assert_eq!(migrated.load(Ordering::SeqCst), 1);
    for database in &databases {
        assert_eq!(parcels(database.url()).await, 1);
    }
    drop_template(&databases[0], &template).await;
}

#[tokio::test]
async fn databases_of_one_template_do_not_see_each_other() {
    let template = fresh_template("apart");
    let one = TestDatabase::from_template(&template, create_parcels).await;
    let two = TestDatabase::from_template(&template, create_parcels).await;
    let mut connection = connect(one.url()).await;
    sqlx::query("DELETE FROM parcel")
        .execute(&mut connection)
        .await
        .unwrap();
    assert_eq!(parcels(one.url()).await, 0);
    assert_eq!(parcels(two.url()).await, 1);
    drop_template(&one, &template).await;
}

#[tokio::test]
async fn a_template_abandoned_half_way_is_made_anew() {
    let template = fresh_template("abandoned");
    let name = template.clone();
    let crashed = tokio::spawn(async move {
        TestDatabase::from_template(&name, async |url| {
            create_parcels(url).await;
            panic!("the migration fails");
        })
        .await
    });
    assert!(crashed.await.unwrap_err().is_panic());

    let database = TestDatabase::from_template(&template, create_parcels).await;
    assert_eq!(parcels(database.url()).await, 1);
    drop_template(&database, &template).await;
}
