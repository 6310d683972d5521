//! A database of the benchmark's own.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use consign_kernel::QueueName;
use consign_postgres::{PostgresOptions, PostgresStore};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, types::Json};
use tokio::time::{interval, timeout};

use crate::{control::ControlWorker, subject};

/// The server's word for a database that is there already.
const DUPLICATE_DATABASE: &str = "42P04";

/// A database made for one scenario, with both schemas in it.
#[derive(Debug)]
pub(crate) struct Scratch {
    server: String,
    name: String,
    url: String,
}

impl Scratch {
    /// Creates the database. An existing one is rejected, not reused.
    pub(crate) async fn create(server: &str, what: &str) -> Result<Self> {
        let name = format!("consign_bench_{what}_{}", std::process::id());
        let mut maintenance = connect(server).await?;
        let create = AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0"));
        match sqlx::raw_sql(create).execute(&mut maintenance).await {
            Err(sqlx::Error::Database(error))
                if error.code().as_deref() == Some(DUPLICATE_DATABASE) =>
            {
                bail!(
                    "database {name} exists and was not made by this run; drop it by hand if it is a leftover"
                )
            }
            created => created.with_context(|| format!("create database {name}"))?,
        };
        maintenance.close().await?;
        let separator = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{separator}dbname={name}");
        let server = server.to_owned();
        Ok(Self { server, name, url })
    }

    /// Creates the tables of both designs.
    pub(crate) async fn migrate(&self) -> Result<()> {
        let mut options = PostgresOptions::new(self.url.clone());
        // The binary under test has every app.
        options.components.extend([
            consign_memory::store::POSTGRES_COMPONENT,
            consign_orders::store::POSTGRES_COMPONENT,
            consign_payments::store::POSTGRES_COMPONENT,
            consign_scm_app::POSTGRES_COMPONENT,
        ]);
        consign_postgres::migrate(&options).await?;
        let mut connection = self.connect().await?;
        for sql in [
            include_str!("../sql/control_schema.sql"),
            include_str!("../sql/fill.sql"),
        ] {
            sqlx::raw_sql(sql).execute(&mut connection).await?;
        }
        Ok(connection.close().await?)
    }

    /// Drops the database, connections and all.
    pub(crate) async fn remove(self) -> Result<()> {
        let mut maintenance = connect(&self.server).await?;
        let drop = AssertSqlSafe(format!("DROP DATABASE {} WITH (FORCE)", self.name));
        sqlx::raw_sql(drop)
            .execute(&mut maintenance)
            .await
            .with_context(|| format!("drop database {}", self.name))?;
        Ok(maintenance.close().await?)
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A connection for looking and preparing.
    pub(crate) async fn connect(&self) -> Result<PgConnection> {
        connect(&self.url).await
    }

    /// A store as one worker has it: a connection at hand, and one left to the pool.
    pub(crate) async fn store(&self) -> Result<Arc<PostgresStore>> {
        let options = PostgresOptions {
            connections_max: 2,
            ..PostgresOptions::new(&self.url)
        };
        Ok(Arc::new(PostgresStore::connect(&options).await?))
    }

    /// A worker of the control.
    pub(crate) async fn control(&self) -> Result<ControlWorker> {
        ControlWorker::connect(&self.url).await
    }

    /// Fills a queue of consign from inside the server, `batch` messages per transaction.
    pub(crate) async fn fill(&self, queue: &QueueName, messages: u32, batch: u32) -> Result<()> {
        let call = sqlx::query("CALL consign_bench.fill($1, $2, $3, $4)");
        self.call(call, queue.as_str(), messages, batch).await
    }

    /// Fills a queue in one transaction: workers find all of it at the same moment.
    pub(crate) async fn fill_at_once(
        &self,
        queue: &QueueName,
        messages: u32,
        batch: u32,
    ) -> Result<()> {
        let call = sqlx::query("SELECT consign_bench.fill_at_once($1, $2, $3, $4)");
        self.call(call, queue.as_str(), messages, batch).await
    }

    /// Fills the control in the same way.
    pub(crate) async fn fill_control(&self, messages: u32, batch: u32) -> Result<()> {
        let call = sqlx::query("CALL consign_control.fill($1, $2, $3, $4)");
        self.call(call, crate::control::QUEUE, messages, batch)
            .await
    }

    async fn call(
        &self,
        call: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
        queue: &str,
        messages: u32,
        batch: u32,
    ) -> Result<()> {
        let mut connection = self.connect().await?;
        // Only preparation, never what is measured.
        sqlx::raw_sql("SET synchronous_commit = off")
            .execute(&mut connection)
            .await?;
        call.bind(queue.to_owned())
            .bind(i32::try_from(messages)?)
            .bind(i32::try_from(batch)?)
            .bind(Json(subject::payload()))
            .execute(&mut connection)
            .await
            .context("fill the queue")?;
        Ok(connection.close().await?)
    }

    /// Brings both designs to the same clean start: vacuumed, analysed, and everything on disk.
    pub(crate) async fn settle_down(&self) -> Result<()> {
        self.run(include_str!("../sql/settle_down.sql")).await?;
        self.checkpoint().await
    }

    /// After this, a page that is changed is written to the WAL whole, once.
    pub(crate) async fn checkpoint(&self) -> Result<()> {
        self.run("CHECKPOINT").await
    }

    pub(crate) async fn vacuum(&self) -> Result<()> {
        self.run(include_str!("../sql/vacuum.sql")).await
    }

    /// Dead rows of each table of a schema, most first.
    pub(crate) async fn dead_rows(&self, schema: &str) -> Result<Vec<(String, i64)>> {
        let mut connection = self.connect().await?;
        let rows = sqlx::query(include_str!("../sql/tables.sql"))
            .bind(schema)
            .fetch_all(&mut connection)
            .await?;
        rows.iter()
            .map(|row| Ok((row.try_get("table_name")?, row.try_get("dead")?)))
            .collect()
    }

    /// Waits until the sessions of every store that was dropped have ended.
    pub(crate) async fn until_no_store(&self) -> Result<()> {
        let mut connection = self.connect().await?;
        let mut looks = interval(Duration::from_millis(10));
        let ended = async {
            loop {
                looks.tick().await;
                let sessions = sqlx::query(include_str!("../sql/store_backends.sql"))
                    .fetch_all(&mut connection)
                    .await?;
                if sessions.is_empty() {
                    return anyhow::Ok(());
                }
            }
        };
        timeout(Duration::from_secs(30), ended)
            .await
            .context("a store's sessions did not end")?
    }

    /// Takes what was enqueued in a queue and not claimed out of it.
    pub(crate) async fn empty(&self, queue: &QueueName) -> Result<()> {
        let mut connection = self.connect().await?;
        sqlx::query(include_str!("../sql/empty.sql"))
            .bind(queue.as_str())
            .execute(&mut connection)
            .await
            .context("empty a queue")?;
        Ok(connection.close().await?)
    }

    /// Runs one statement on a connection of its own.
    pub(crate) async fn run(&self, sql: &'static str) -> Result<()> {
        let mut connection = self.connect().await?;
        sqlx::raw_sql(sql)
            .execute(&mut connection)
            .await
            .with_context(|| sql.to_owned())?;
        Ok(connection.close().await?)
    }
}

async fn connect(url: &str) -> Result<PgConnection> {
    PgConnection::connect(url)
        .await
        .context("connect to PostgreSQL")
}
