use consign_testkit::{PgBouncer, TestDatabase};
use sqlx::{Connection, Executor, PgConnection, Row};

async fn backend(connection: &mut PgConnection) -> String {
    // The simple protocol: this PgBouncer may not keep track of prepared statements.
    let row = connection
        .fetch_one(sqlx::raw_sql("SELECT pg_backend_pid()::text"))
        .await
        .unwrap();
    row.get(0)
}

#[tokio::test]
async fn a_server_connection_belongs_to_a_client_for_one_transaction_only() {
    let database = TestDatabase::create(async |_| {}).await;
    let pgbouncer = PgBouncer::start(database.url()).await;
    let url = pgbouncer.url(database.name());
    let mut one = PgConnection::connect(&url).await.unwrap();
    let mut two = PgConnection::connect(&url).await.unwrap();

    let shared = backend(&mut one).await;
    assert_eq!(
        backend(&mut two).await,
        shared,
        "an idle client lends its connection"
    );

    one.execute(sqlx::raw_sql("BEGIN")).await.unwrap();
    let held = backend(&mut one).await;
    assert_ne!(
        backend(&mut two).await,
        held,
        "a transaction keeps its connection"
    );
    one.execute(sqlx::raw_sql("ROLLBACK")).await.unwrap();
}

#[tokio::test]
async fn a_dropped_pgbouncer_no_longer_accepts() {
    let database = TestDatabase::create(async |_| {}).await;
    let pgbouncer = PgBouncer::start(database.url()).await;
    let address = pgbouncer.address();
    drop(pgbouncer);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
