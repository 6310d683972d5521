//! The schema: forward only, safe to bring up to date twice and from several processes at once.

use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt, path::Path};

use consign_kernel::{
    AppliedMigration, ENGINE, Error, Migration, Result, SchemaStatus, migrations,
};
use sqlx::{
    ConnectOptions, Connection, SqliteConnection,
    sqlite::{SqliteAutoVacuum, SqliteJournalMode},
};
use tokio::time::{Duration, Instant, sleep};

use crate::{
    error::{self, Failure, is_busy},
    options::SqliteOptions,
    rows, sql,
};

/// The engine's own migrations.
pub(crate) const ENGINE_MIGRATIONS: &[Migration] = migrations![ENGINE;
    (1, "tables", "../migrations/0001_tables.sql"),
    (2, "append_only", "../migrations/0002_append_only.sql"),
];

/// Creates the file if need be and brings its schema up to date.
pub async fn migrate(options: &SqliteOptions) -> Result<SchemaStatus> {
    let mut connection = connect_for_migration(options).await?;
    let status = apply(&mut connection, options).await;
    let status = status.map_err(|failure| failure.during("migrate"))?;
    let closed = connection.close().await;
    closed.map_err(|error| error::from_database("migrate", error))?;
    Ok(status)
}

/// The schema versions of a database; a missing file has none, and is not created.
pub async fn status(options: &SqliteOptions) -> Result<SchemaStatus> {
    if !options.path().exists() {
        return Ok(SchemaStatus {
            applied: Vec::new(),
            known: options.migrations(),
        });
    }
    let read = async {
        let opened = options.reading().connect().await;
        let mut connection = opened.map_err(|error| {
            error::from_opening("read the schema's version", options.path(), error)
        })?;
        let status = read_status(&mut connection, options).await?;
        connection.close().await?;
        Ok(status)
    };
    read.await
        .map_err(|failure: Failure| failure.during("read the schema's version"))
}

async fn apply(
    connection: &mut SqliteConnection,
    options: &SqliteOptions,
) -> error::Result<SchemaStatus> {
    // A process that waits here finds the migrations applied.
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(sql!("schema_version_create"))
        .execute(&mut *transaction)
        .await?;
    let before = read_status(&mut transaction, options).await?;
    before.check_known()?;
    for migration in before.pending() {
        sqlx::raw_sql(migration.sql)
            .execute(&mut *transaction)
            .await
            .map_err(|error| obstacle(&migration, error))?;
        sqlx::query(sql!("schema_version_add"))
            .bind(migration.component)
            .bind(migration.version)
            .bind(migration.name)
            .bind(migration.checksum())
            .bind(rows::micros(options.clock.now()))
            .execute(&mut *transaction)
            .await?;
    }
    for component in options.components.iter() {
        if let Some(hook) = component.hook() {
            sqlx::query(sql!("hook_put"))
                .bind(hook.queue())
                .bind(component.name())
                .execute(&mut *transaction)
                .await?;
            sqlx::query(sql!("queue_set_app"))
                .bind(hook.queue())
                .bind(component.name())
                .execute(&mut *transaction)
                .await?;
        }
    }
    let after = read_status(&mut transaction, options).await?;
    transaction.commit().await?;
    Ok(after)
}

/// The error of a step that fails in itself names the step; a busy or full disk is another error.
fn obstacle(step: &Migration, error: sqlx::Error) -> Failure {
    match error::statement_words(&error) {
        Some(words) => Failure::Refused(Error::Migration {
            component: step.component,
            version: step.version,
            name: step.name,
            why: format!("{words}; give consign a file of its own"),
        }),
        None => error.into(),
    }
}

async fn read_status(
    connection: &mut SqliteConnection,
    options: &SqliteOptions,
) -> error::Result<SchemaStatus> {
    let exists: bool = sqlx::query_scalar(sql!("schema_version_exists"))
        .fetch_one(&mut *connection)
        .await?;
    let mut applied = Vec::new();
    if exists {
        let rows: Vec<(String, i64, String, String, i64)> =
            sqlx::query_as(sql!("schema_version_list"))
                .fetch_all(&mut *connection)
                .await?;
        for (component, version, name, checksum, applied_at) in rows {
            applied.push(AppliedMigration {
                component,
                version,
                name,
                checksum,
                applied_at: rows::timestamp(applied_at)?,
            });
        }
    }
    Ok(SchemaStatus {
        applied,
        known: options.migrations(),
    })
}

/// Turning on the write-ahead log needs the file to itself for a moment, and SQLite does not wait
/// for that by itself.
/// Makes the file for its owner only; SQLite gives its log the same rights. SQLite returns
/// the reason when it cannot open it.
fn make_file(path: &Path) {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    drop(made);
}

async fn connect_for_migration(options: &SqliteOptions) -> Result<SqliteConnection> {
    make_file(options.path());
    let connect = options
        .writing()
        .create_if_missing(true)
        // Only a file without tables takes it; in an older file it would need a VACUUM of the whole.
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .journal_mode(SqliteJournalMode::Wal);
    let deadline = Instant::now() + options.busy_timeout;
    loop {
        match connect.connect().await {
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                sleep(Duration::from_millis(10)).await;
            }
            result => {
                let opened = |error| error::from_opening("migrate", options.path(), error);
                return result.map_err(opened);
            }
        }
    }
}
