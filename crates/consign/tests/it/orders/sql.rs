//! Looking at a database directly, whichever it is, and meddling with it.

use serde_json::{Map, Value};
use sqlx::{
    AssertSqlSafe, Column, Connection, Executor, PgConnection, Row, SqliteConnection, TypeInfo,
    ValueRef,
};

/// A connection on which the names of tables are the same for both stores.
pub(crate) enum Sql {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Sql {
    pub(crate) async fn connect(url: &str) -> Self {
        if url.starts_with("sqlite:") {
            let mut connection = SqliteConnection::connect(url).await.unwrap();
            let patient = "PRAGMA busy_timeout = 20000";
            connection.execute(patient).await.unwrap();
            return Self::Sqlite(connection);
        }
        let mut connection = PgConnection::connect(url).await.unwrap();
        let path = "SET search_path = consign, public";
        connection.execute(path).await.unwrap();
        Self::Postgres(connection)
    }

    /// Runs one or more statements; how many rows the last one touched.
    pub(crate) async fn try_run(&mut self, sql: &str) -> sqlx::Result<u64> {
        let sql = AssertSqlSafe(sql.to_owned());
        Ok(match self {
            Self::Sqlite(connection) => sqlx::raw_sql(sql)
                .execute(connection)
                .await?
                .rows_affected(),
            Self::Postgres(connection) => sqlx::raw_sql(sql)
                .execute(connection)
                .await?
                .rows_affected(),
        })
    }

    pub(crate) async fn run(&mut self, sql: &str) -> u64 {
        let ran = self.try_run(sql).await;
        ran.unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    /// The rows of a query as JSON objects.
    pub(crate) async fn rows(&mut self, sql: &str) -> Vec<Value> {
        let answered = match self {
            Self::Sqlite(connection) => {
                let query = sqlx::query(AssertSqlSafe(sql.to_owned()));
                let rows = query.fetch_all(connection).await;
                rows.map(|rows| rows.iter().map(object).collect())
            }
            Self::Postgres(connection) => {
                let sql = format!("SELECT pg_catalog.row_to_json(t)::text FROM ({sql}) t");
                let query = sqlx::query_scalar::<_, String>(AssertSqlSafe(sql));
                let rows = query.fetch_all(connection).await;
                let parse = |row: &String| serde_json::from_str(row).unwrap();
                rows.map(|rows| rows.iter().map(parse).collect())
            }
        };
        answered.unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    /// The only row of a query.
    pub(crate) async fn row(&mut self, sql: &str) -> Value {
        let rows = self.rows(sql).await;
        assert_eq!(rows.len(), 1, "{sql}: {rows:#?}");
        rows.into_iter().next().unwrap()
    }

    /// The only number of a query.
    pub(crate) async fn number(&mut self, sql: &str) -> i64 {
        let row = self.row(sql).await;
        let value = row.as_object().unwrap().values().next().unwrap();
        value.as_i64().unwrap_or_else(|| panic!("{sql}: {row}"))
    }
}

fn object(row: &sqlx::sqlite::SqliteRow) -> Value {
    let value = |column: &sqlx::sqlite::SqliteColumn| {
        let raw = row.try_get_raw(column.ordinal()).unwrap();
        if raw.is_null() {
            return Value::Null;
        }
        match raw.type_info().name() {
            "INTEGER" => row.get::<i64, _>(column.ordinal()).into(),
            "REAL" => row.get::<f64, _>(column.ordinal()).into(),
            _ => row.get::<String, _>(column.ordinal()).into(),
        }
    };
    let named = |column| (Column::name(column).to_owned(), value(column));
    Value::Object(row.columns().iter().map(named).collect::<Map<_, _>>())
}
