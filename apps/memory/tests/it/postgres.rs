//! The logbook where PostgreSQL is special: the seed's SQL, roles, failures, damage.

mod doctor;
mod erase;
mod evidence;
mod failures;
mod hangs;
mod pruning;
mod retention;
mod roles;
mod sql;

use sqlx::{Connection, PgConnection};

use crate::harness::database;

/// A migrated database with a connection to it.
struct Fixture {
    database: consign_testkit::TestDatabase,
    connection: PgConnection,
}

impl Fixture {
    async fn open() -> Self {
        let database = database().await;
        let connection = PgConnection::connect(database.url()).await.unwrap();
        Self {
            database,
            connection,
        }
    }

    async fn run(&mut self, sql: &'static str) {
        let done = sqlx::raw_sql(sql).execute(&mut self.connection).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The only value of the only row, as text.
    async fn value(&mut self, sql: &'static str) -> Option<String> {
        let value = sqlx::query_scalar(sql).fetch_one(&mut self.connection);
        value.await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The SQLSTATE of a refusal.
    async fn refusal(&mut self, sql: &'static str) -> String {
        let error = sqlx::raw_sql(sql).execute(&mut self.connection).await;
        let error = error.expect_err(sql);
        let database = error.as_database_error();
        let database = database.unwrap_or_else(|| panic!("{error}"));
        database.code().unwrap().into_owned()
    }
}
