//! The database under a gateway: a file, or a PostgreSQL database where a test needs it.

use std::{cell::Cell, path::Path, sync::Arc};

use consign_postgres::{PostgresOptions, PostgresStore, migrate};
use consign_scm::ScmLedger;
use consign_scm_app::ScmStore;
use consign_sqlite::{SqliteOptions, SqliteStore};
use consign_testkit::{FileTemplate, TestDatabase, fingerprint};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, PgConnection, SqliteConnection,
    sqlite::SqliteConnectOptions,
};

use super::TestStore;

thread_local! {
    /// Tests have their runtime on their own thread.
    static IS_POSTGRES: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test that makes its fixture by itself, over PostgreSQL.
pub(crate) fn on_postgres(test: fn()) {
    IS_POSTGRES.set(true);
    test();
}

pub(crate) enum Database {
    Sqlite(SqliteStore, SqliteConnectOptions),
    Postgres(Arc<PostgresStore>, TestDatabase),
}

impl Database {
    pub(super) async fn fresh(folder: &Path) -> Self {
        if !IS_POSTGRES.get() {
            let file = folder.join("queue.db");
            let options = SqliteOptions::new(file.to_str().unwrap()).unwrap();
            let options = options
                .component(consign_memory::store::sqlite_component())
                .component(consign_scm_app::sqlite_component());
            let template = FileTemplate::new(options.migrations().iter().map(|m| m.sql));
            if !template.copy_to(&file) {
                consign_sqlite::migrate(&options).await.unwrap();
                template.keep(&file);
            }
            let store = SqliteStore::open(&options).await;
            let file = SqliteConnectOptions::new().filename(file);
            return Self::Sqlite(store.unwrap(), file);
        }
        let database = database().await;
        let store = connect(database.url()).await;
        Self::Postgres(store, database)
    }

    pub(super) async fn another_store(&self) -> Arc<dyn TestStore> {
        match self {
            Self::Sqlite(store, _) => Arc::new(store.clone()),
            Self::Postgres(_, database) => connect(database.url()).await,
        }
    }

    pub(super) fn store(&self) -> Arc<dyn TestStore> {
        match self {
            Self::Sqlite(store, _) => Arc::new(store.clone()),
            Self::Postgres(store, _) => Arc::<PostgresStore>::clone(store),
        }
    }

    pub(super) fn scm(&self) -> Arc<dyn ScmLedger> {
        match self {
            Self::Sqlite(store, _) => Arc::new(ScmStore::new(Arc::new(store.clone()))),
            Self::Postgres(store, _) => Arc::new(ScmStore::new(Arc::clone(store))),
        }
    }

    /// What makes every change of a kind to a table fail.
    pub(super) fn forbidding(&self, what: &str, table: &str) -> String {
        let (name, table) = (trigger(what, table), self.table(table));
        match self {
            Self::Sqlite(..) => format!(
                "CREATE TRIGGER {name} BEFORE {what} ON {table}
                 BEGIN SELECT RAISE(ABORT, 'broken by a test'); END"
            ),
            Self::Postgres(..) => format!(
                "CREATE OR REPLACE FUNCTION public.broken() RETURNS trigger LANGUAGE plpgsql
                     AS $$ BEGIN RAISE EXCEPTION 'broken by a test'; END $$;
                 CREATE TRIGGER {name} BEFORE {what} ON {table}
                     FOR EACH ROW EXECUTE FUNCTION public.broken()"
            ),
        }
    }

    /// What ends that.
    pub(super) fn allowing(&self, what: &str, table: &str) -> String {
        let name = trigger(what, table);
        match self {
            Self::Sqlite(..) => format!("DROP TRIGGER IF EXISTS {name}"),
            Self::Postgres(..) => {
                format!("DROP TRIGGER IF EXISTS {name} ON {}", self.table(table))
            }
        }
    }

    pub(super) async fn execute(&self, statement: &str) {
        let statement = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()));
        match self {
            Self::Sqlite(_, file) => {
                let mut connection = file.connect().await.unwrap();
                statement.execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
            Self::Postgres(_, database) => {
                let mut connection = PgConnection::connect(database.url()).await.unwrap();
                statement.execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }

    /// Rows of any table that hold a text, as texts.
    pub(super) async fn rows_with(&self, text: &str) -> Vec<String> {
        match self {
            Self::Sqlite(_, file) => {
                let mut connection = file.connect().await.unwrap();
                let columns =
                    "SELECT t.name, x.name FROM sqlite_master t, pragma_table_info(t.name) x
                               WHERE t.type = 'table'";
                let columns: Vec<(String, String)> = sqlx::query_as(columns)
                    .fetch_all(&mut connection)
                    .await
                    .unwrap();
                let mut found = Vec::new();
                for (table, column) in columns {
                    let values = format!(
                        "SELECT '{table}.{column}: ' || CAST({column} AS TEXT) FROM {table}
                         WHERE instr(CAST({column} AS TEXT), '{text}')"
                    );
                    // Some tables of the full-text index cannot be read so.
                    let values = sqlx::query_scalar(AssertSqlSafe(values))
                        .fetch_all(&mut connection)
                        .await;
                    found.extend(values.unwrap_or_default());
                }
                connection.close().await.unwrap();
                found
            }
            Self::Postgres(_, database) => {
                let mut connection = PgConnection::connect(database.url()).await.unwrap();
                let tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
                              WHERE schemaname NOT IN ('pg_catalog', 'information_schema')";
                let tables: Vec<String> = sqlx::query_scalar(tables)
                    .fetch_all(&mut connection)
                    .await
                    .unwrap();
                let mut found: Vec<String> = Vec::new();
                for table in tables {
                    let rows = format!(
                        "SELECT '{table}: ' || r::text FROM {table} r
                         WHERE position('{text}' IN r::text) > 0"
                    );
                    let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(rows))
                        .fetch_all(&mut connection)
                        .await
                        .unwrap();
                    found.extend(rows);
                }
                connection.close().await.unwrap();
                found
            }
        }
    }

    /// On SQLite no other write runs meanwhile; on PostgreSQL only the audits are locked.
    pub(super) async fn lock(&self) -> WriteBlock {
        match self {
            Self::Sqlite(_, file) => {
                let mut connection = file.connect().await.unwrap();
                let begin = sqlx::raw_sql("BEGIN IMMEDIATE");
                begin.execute(&mut connection).await.unwrap();
                WriteBlock::Sqlite(connection)
            }
            Self::Postgres(_, database) => {
                let mut connection = PgConnection::connect(database.url()).await.unwrap();
                let begin = "BEGIN; SELECT FROM governance.write_audit FOR UPDATE";
                let begin = sqlx::raw_sql(begin);
                begin.execute(&mut connection).await.unwrap();
                WriteBlock::Postgres(connection)
            }
        }
    }

    fn table(&self, table: &str) -> String {
        match (self, table) {
            (Self::Postgres(..), "write_audit") => "governance.write_audit".to_owned(),
            (Self::Postgres(..), "message") => "consign.message".to_owned(),
            (Self::Postgres(..), "attachments") => "logbook.attachments".to_owned(),
            _ => table.to_owned(),
        }
    }
}

/// With the repositories that the gateway consumes.
fn options(url: &str) -> PostgresOptions {
    let mut options = crate::harness::options(url);
    options.components.push(consign_scm_app::POSTGRES_COMPONENT);
    options
}

async fn database() -> TestDatabase {
    let migrations = options("").migrations();
    let template = format!(
        "consign_memory_scm_{}",
        fingerprint(migrations.into_iter().map(|m| m.sql))
    );
    TestDatabase::from_template(&template, async |url: &str| {
        migrate(&options(url)).await.unwrap();
    })
    .await
}

async fn connect(url: &str) -> Arc<PostgresStore> {
    let store = PostgresStore::connect(&options(url)).await;
    Arc::new(store.unwrap())
}

/// What keeps others from writing.
pub(crate) enum WriteBlock {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl WriteBlock {
    pub(crate) async fn end(self) {
        match self {
            Self::Sqlite(connection) => connection.close().await.unwrap(),
            Self::Postgres(connection) => connection.close().await.unwrap(),
        }
    }
}

fn trigger(what: &str, table: &str) -> String {
    format!("broken_{what}_{table}").to_lowercase()
}
