//! Migrations: forward only, embedded, checksummed, all in one transaction.

use consign_kernel::{
    AppliedMigration, ENGINE, Error, Migration, Result, SchemaStatus, migration_order, migrations,
};
use sqlx::{Connection, PgConnection};

use crate::{
    advice::advised,
    error::{sqlstate, state_of, store_error},
    options::PostgresOptions,
    rows,
    store::connect_options,
};

mod guard;
mod obstacle;

use guard::guard;
use obstacle::obstacle;

/// An app's part of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// Its migrations, first to last.
    pub migrations: &'static [Migration],
    /// What `doctor` checks of it: a topic, and a statement that answers with findings (code, what,
    /// remedy, ids).
    pub checks: &'static [(&'static str, &'static str)],
}

/// The engine's own migrations.
pub(crate) const ENGINE_MIGRATIONS: &[Migration] = migrations![ENGINE;
    (1, "tables", "../migrations/0001_tables.sql"),
    (2, "ranges", "../migrations/0002_ranges.sql"),
    (3, "queues", "../migrations/0003_queues.sql"),
    (4, "enqueue", "../migrations/0004_enqueue.sql"),
    (5, "groups", "../migrations/0005_groups.sql"),
    (6, "lease", "../migrations/0006_lease.sql"),
    (7, "settle", "../migrations/0007_settle.sql"),
    (8, "operate", "../migrations/0008_operate.sql"),
    (9, "redrive", "../migrations/0009_redrive.sql"),
    (10, "heartbeat", "../migrations/0010_heartbeat.sql"),
    (11, "wake", "../migrations/0011_wake.sql"),
    (12, "leaving", "../migrations/0012_leaving.sql"),
    (13, "retention", "../migrations/0013_retention.sql"),
    (14, "growth", "../migrations/0014_growth.sql"),
    (15, "erasure", "../migrations/0015_erasure.sql"),
    (16, "schedules", "../migrations/0016_schedules.sql"),
    (17, "alerts", "../migrations/0017_alerts.sql"),
    (18, "roles", "../migrations/0018_roles.sql"),
];

/// Every migration of the engine and of these components, in the order in which they are applied.
pub(crate) fn migrations(components: &[Component]) -> Vec<Migration> {
    let apps = components.iter().map(|component| component.migrations);
    let all: Vec<_> = [ENGINE_MIGRATIONS].into_iter().chain(apps).collect();
    migration_order(&all)
}

/// For so long a migration waits for a lock: whatever comes after it waits as well.
const LOCK_MAX: &str = "10s";

/// What the migrations are read with, whatever the database or the login is set to: names mean what they
/// mean in pg_catalog, and a backslash is a backslash.
fn reading() -> String {
    format!(
        "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL standard_conforming_strings = on; \
         SET LOCAL lock_timeout = '{LOCK_MAX}'"
    )
}

/// Held while migrating, so that programs that start together migrate one after the other. Only the
/// owner can take or block it; an advisory lock could be held by any login.
const LOCK: &str = "LOCK TABLE consign.schema_version IN SHARE ROW EXCLUSIVE MODE";

/// SQLSTATEs of two programs that made the version table at the same time: the second one looks again.
const RACES: [&str; 3] = ["23505", "42P06", "42P07"];
/// How often it retries; each time another program was faster.
const RACES_MAX: u32 = 20;

/// Where versions are kept. Run before the first migration, and harmless afterwards.
const VERSION_TABLE: &str = "
CREATE TABLE IF NOT EXISTS consign.schema_version (
    component  text NOT NULL,
    version    bigint NOT NULL,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (component, version)
);
";

/// Brings a database up to date and answers with the migrations that were applied.
///
/// Safe to run twice and concurrently: all in one transaction, under a lock that ends with it.
pub async fn migrate(options: &PostgresOptions) -> Result<Vec<Migration>> {
    let known = migrations(&options.components);
    let mut connection = connect(&options.url).await?;
    let mut applied = apply(&mut connection, &known).await;
    for _ in 0..RACES_MAX {
        match applied {
            Err(Failure::Race(_)) => applied = apply(&mut connection, &known).await,
            _ => break,
        }
    }
    match applied {
        Ok(applied) => Ok(applied),
        Err(Failure::Race(error)) => Err(store_error("migrate", error)),
        Err(Failure::Step(step, error)) => Err(obstacle(&mut connection, step, error).await),
        Err(Failure::Other(error)) => Err(error),
    }
}

async fn apply(
    connection: &mut PgConnection,
    known: &[Migration],
) -> Result<Vec<Migration>, Failure> {
    let mut tx = connection.begin().await.map_err(failed)?;
    run(&mut tx, reading()).await.map_err(failed)?;
    create_schemas(&mut tx, ENGINE_MIGRATIONS[0], &["consign"]).await?;
    run(&mut tx, format!("{VERSION_TABLE}{LOCK}"))
        .await
        .map_err(raced)?;
    let status = applied(&mut tx, known, "migrate").await?;
    status.check_known()?;
    let missing = status.pending();
    // Before anything is made or granted.
    for migration in &missing {
        let schemas = guard::schemas(migration.sql);
        if !schemas.is_empty() {
            create_schemas(&mut tx, *migration, &schemas).await?;
        }
    }
    for migration in &missing {
        sqlx::raw_sql(migration.sql)
            .execute(&mut *tx)
            .await
            .map_err(|error| Failure::Step(*migration, error))?;
        sqlx::query(
            "INSERT INTO consign.schema_version (component, version, name, checksum) \
             VALUES ($1, $2, $3, $4)",
        )
        .persistent(false)
        .bind(migration.component)
        .bind(migration.version)
        .bind(migration.name)
        .bind(migration.checksum())
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
    }
    tx.commit().await.map_err(failed)?;
    Ok(missing)
}

/// Creates the schemas of a migration and rejects those that are not this login's, also those that
/// another login made since it looked first.
async fn create_schemas(
    tx: &mut PgConnection,
    migration: Migration,
    schemas: &[&str],
) -> Result<(), Failure> {
    let step = |error| Failure::Step(migration, error);
    run(tx, guard(schemas)).await.map_err(step)?;
    let made = run(tx, create_statements(schemas)).await;
    made.map_err(|error| match state_of(&error) {
        Some(sqlstate::LOCK_TIMEOUT) => step(error),
        _ => raced(error),
    })?;
    run(tx, guard(schemas)).await.map_err(step)
}

fn create_statements(schemas: &[&str]) -> String {
    let made = schemas
        .iter()
        .map(|name| format!("CREATE SCHEMA IF NOT EXISTS {name};\n"));
    made.collect()
}

async fn run(tx: &mut PgConnection, sql: String) -> Result<(), sqlx::Error> {
    let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
    sql.execute(tx).await.map(drop)
}

/// The schema versions of a database, without changing it.
pub async fn status(options: &PostgresOptions) -> Result<SchemaStatus> {
    let known = migrations(&options.components);
    let mut connection = connect(&options.url).await?;
    match read_status(&mut connection, known).await {
        Ok(status) => Ok(status),
        Err(error) => Err(advised(&mut connection, error.of_read()).await),
    }
}

async fn read_status(connection: &mut PgConnection, known: Vec<Migration>) -> Result<SchemaStatus> {
    // A transaction keeps both queries on one server behind a pooler.
    let tx = connection.begin().await;
    let mut tx = tx.map_err(|error| store_error("connect", error))?;
    if has_version_table(&mut tx).await? {
        return applied(&mut tx, &known, "read schema version").await;
    }
    Ok(SchemaStatus {
        applied: Vec::new(),
        known,
    })
}

/// Everything `migrate` would run on an empty database, for operators who run the SQL themselves.
pub fn script(components: &[Component]) -> String {
    let known = migrations(components);
    let made = known.iter().flat_map(|m| guard::schemas(m.sql));
    let schemas: Vec<&str> = ["consign"].into_iter().chain(made).collect();
    let mut script = format!(
        "BEGIN;\n{};\n{}{}\n{VERSION_TABLE}{LOCK};\n",
        reading(),
        create_statements(&schemas),
        guard(&schemas)
    );
    for migration in &known {
        let checksum = migration.checksum();
        let Migration {
            component,
            version,
            name,
            sql,
            ..
        } = migration;
        script.push_str(&format!(
            "\n-- Migration {version} of {component}: {name}\n\n{sql}\n\
             INSERT INTO consign.schema_version (component, version, name, checksum)\n    \
             VALUES ('{component}', {version}, '{name}', '{checksum}');\n"
        ));
    }
    script.push_str("COMMIT;\n");
    script
}

/// Rejects a schema that does not fit this program: another version, or the same by other steps.
pub(crate) async fn require_current(options: &PostgresOptions) -> Result<()> {
    status(options).await?.check()
}

async fn connect(url: &str) -> Result<PgConnection> {
    PgConnection::connect_with(&connect_options(url)?)
        .await
        .map_err(|error| store_error("connect", error).of_read())
}

async fn has_version_table(connection: &mut PgConnection) -> Result<bool> {
    let exists = sqlx::query("SELECT to_regclass('consign.schema_version') IS NOT NULL AS known")
        .persistent(false)
        .fetch_one(connection)
        .await
        .map_err(|error| store_error("read schema version", error))?;
    rows::column(&exists, "known")
}

async fn applied(
    connection: &mut PgConnection,
    known: &[Migration],
    attempted: &'static str,
) -> Result<SchemaStatus> {
    let found = sqlx::query(include_str!("../sql/schema_versions.sql"))
        .persistent(false)
        .fetch_all(connection)
        .await
        .map_err(|error| store_error(attempted, error))?;
    let applied = found.iter().map(|row| {
        Ok(AppliedMigration {
            component: rows::column(row, "component")?,
            version: rows::column(row, "version")?,
            name: rows::column(row, "name")?,
            checksum: rows::column(row, "checksum")?,
            applied_at: rows::time(row, "applied_at")?,
        })
    });
    Ok(SchemaStatus {
        applied: applied.collect::<Result<_>>()?,
        known: known.to_vec(),
    })
}

/// Why a migration did not succeed.
enum Failure {
    /// One of its steps cannot be applied.
    Step(Migration, sqlx::Error),
    /// Another program made the version table in this very moment.
    Race(sqlx::Error),
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

fn failed(error: sqlx::Error) -> Failure {
    Failure::Other(match store_error("migrate", error) {
        Error::Forbidden { what } => Error::Forbidden {
            what: format!("{what}; {}", obstacle::RIGHTS),
        },
        error => error,
    })
}

fn raced(error: sqlx::Error) -> Failure {
    match state_of(&error) {
        Some(state) if RACES.contains(&state) => Failure::Race(error),
        _ => failed(error),
    }
}
