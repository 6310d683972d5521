//! Migrations: forward only, embedded, checksummed, all in one transaction.

use consign_kernel::{Error, Result};
use sqlx::{Connection, PgConnection, postgres::PgRow};

use crate::{
    advice::advised,
    error::{not_migrated, sqlstate, state_of, store_error},
    rows,
    store::connect_options,
};

mod guard;
mod obstacle;

use guard::guard;
use obstacle::obstacle;

/// One step of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// 1, 2, 3 …
    pub version: i64,
    /// What it is about.
    pub name: &'static str,
    /// What it does.
    pub sql: &'static str,
}

/// Where a database stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Version of the database, 0 for none.
    pub found: i64,
    /// Version this program brings it to.
    pub newest: i64,
}

macro_rules! migration {
    ($version:literal, $name:literal) => {
        migration!("000", $version, $name)
    };
    ($zeros:literal, $version:literal, $name:literal) => {
        Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!(
                "../migrations/",
                $zeros,
                $version,
                "_",
                $name,
                ".sql"
            )),
        }
    };
}

const MIGRATIONS: &[Migration] = &[
    migration!(1, "tables"),
    migration!(2, "queues"),
    migration!(3, "enqueue"),
    migration!(4, "groups"),
    migration!(5, "lease"),
    migration!(6, "settle"),
    migration!(7, "operate"),
    migration!(8, "roles"),
    migration!(9, "late_and_redrive"),
    migration!("00", 10, "orders"),
    migration!("00", 11, "orders_follow"),
    migration!("00", 12, "orders_view"),
    migration!("00", 13, "payments"),
    migration!("00", 14, "payments_enqueue"),
    migration!("00", 15, "payments_work"),
    migration!("00", 16, "payments_complete"),
    migration!("00", 17, "payments_views"),
    migration!("00", 18, "payments_import"),
    migration!("00", 19, "payments_roles"),
    migration!("00", 20, "logbook_tables"),
    migration!("00", 21, "logbook_outbox"),
    migration!("00", 22, "logbook_follow"),
    migration!("00", 23, "logbook_search"),
    migration!("00", 24, "logbook_reconcile"),
    migration!("00", 25, "logbook_roles"),
    migration!("00", 26, "scm"),
    migration!("00", 27, "scm_roles"),
    migration!("00", 28, "pulse"),
    migration!("00", 29, "wake"),
];

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

/// Held while migrating, so that programs that start together migrate one after the other. Nobody but the
/// owner can take it or be in its way; an advisory lock could be held by any login.
const LOCK: &str = "LOCK TABLE consign.schema_version IN SHARE ROW EXCLUSIVE MODE";

/// SQLSTATEs of two programs that made the version table at the same time: the second one looks again.
const RACES: [&str; 3] = ["23505", "42P06", "42P07"];
/// How often it looks again; each time somebody else was quicker.
const RACES_MAX: u32 = 20;

/// Where versions are kept. Run before the first migration, and harmless afterwards.
const VERSION_TABLE: &str = "
CREATE TABLE IF NOT EXISTS consign.schema_version (
    version    bigint PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
";

/// Every migration, oldest first.
pub fn migrations() -> &'static [Migration] {
    MIGRATIONS
}

pub(crate) fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// Brings a database up to date and answers with the migrations that were applied.
///
/// Safe to run twice and concurrently: all in one transaction, under a lock that ends with it.
pub async fn migrate(url: &str) -> Result<Vec<Migration>> {
    let mut connection = connect(url).await?;
    let mut applied = apply(&mut connection).await;
    for _ in 0..RACES_MAX {
        match applied {
            Err(Failure::Race(_)) => applied = apply(&mut connection).await,
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

async fn apply(connection: &mut PgConnection) -> Result<Vec<Migration>, Failure> {
    let mut tx = connection.begin().await.map_err(failed)?;
    run(&mut tx, reading()).await.map_err(failed)?;
    create_schemas(&mut tx, MIGRATIONS[0], &["consign"]).await?;
    run(&mut tx, format!("{VERSION_TABLE}{LOCK}"))
        .await
        .map_err(raced)?;
    let applied = applied(&mut tx, "migrate").await?;
    check(&applied)?;
    let missing: Vec<Migration> = MIGRATIONS
        .iter()
        .copied()
        .filter(|m| m.version > applied.len() as i64)
        .collect();
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
            "INSERT INTO consign.schema_version (version, name, checksum) VALUES ($1, $2, $3)",
        )
        .persistent(false)
        .bind(migration.version)
        .bind(migration.name)
        .bind(checksum(migration.sql))
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
    }
    tx.commit().await.map_err(failed)?;
    Ok(missing)
}

/// Makes the schemas of a migration and refuses those that are not this login's, also those that
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

/// Where a database stands, without changing it.
pub async fn status(url: &str) -> Result<Status> {
    let mut connection = connect(url).await?;
    let found = match found(&mut connection).await {
        Ok((found, _)) => found,
        Err(error) => return Err(advised(&mut connection, error.of_read()).await),
    };
    Ok(Status {
        found,
        newest: newest(),
    })
}

/// The version of a database, and what was applied to it.
async fn found(connection: &mut PgConnection) -> Result<(i64, Vec<PgRow>)> {
    // A transaction keeps both questions on one server behind a pooler.
    let tx = connection.begin().await;
    let mut tx = tx.map_err(|error| store_error("connect", error))?;
    match version(&mut tx).await? {
        0 => Ok((0, Vec::new())),
        found => Ok((found, applied(&mut tx, "read schema version").await?)),
    }
}

/// Everything `migrate` would run on an empty database, for those who run SQL by hand.
pub fn script() -> String {
    let made = MIGRATIONS.iter().flat_map(|m| guard::schemas(m.sql));
    let schemas: Vec<&str> = ["consign"].into_iter().chain(made).collect();
    let mut script = format!(
        "BEGIN;\n{};\n{}{}\n{VERSION_TABLE}{LOCK};\n",
        reading(),
        create_statements(&schemas),
        guard(&schemas)
    );
    for Migration { version, name, sql } in MIGRATIONS {
        let checksum = checksum(sql);
        script.push_str(&format!(
            "\n-- Migration {version}: {name}\n\n{sql}\n\
             INSERT INTO consign.schema_version (version, name, checksum)\n    \
             VALUES ({version}, '{name}', '{checksum}');\n"
        ));
    }
    script.push_str("COMMIT;\n");
    script
}

/// Refuses a schema this program does not fit: another version, or the same by other steps.
pub(crate) async fn require_current(url: &str) -> Result<()> {
    let mut connection = connect(url).await?;
    let (found, applied) = match found(&mut connection).await {
        Ok(found) => found,
        Err(error) => return Err(advised(&mut connection, error.of_read()).await),
    };
    if found > newest() {
        return Err(too_new(found));
    }
    check(&applied)?;
    if found == newest() {
        Ok(())
    } else {
        Err(not_migrated(found))
    }
}

async fn connect(url: &str) -> Result<PgConnection> {
    PgConnection::connect_with(&connect_options(url)?)
        .await
        .map_err(|error| store_error("connect", error).of_read())
}

async fn version(connection: &mut PgConnection) -> Result<i64> {
    let exists = sqlx::query("SELECT to_regclass('consign.schema_version') IS NOT NULL AS known")
        .persistent(false)
        .fetch_one(&mut *connection)
        .await
        .map_err(|error| store_error("read schema version", error))?;
    if !rows::column::<bool>(&exists, "known")? {
        return Ok(0);
    }
    let row =
        sqlx::query("SELECT coalesce(max(version), 0) AS version FROM consign.schema_version")
            .persistent(false)
            .fetch_one(connection)
            .await
            .map_err(|error| store_error("read schema version", error))?;
    rows::column(&row, "version")
}

async fn applied(connection: &mut PgConnection, attempted: &'static str) -> Result<Vec<PgRow>> {
    sqlx::query(include_str!("../sql/schema_versions.sql"))
        .persistent(false)
        .fetch_all(connection)
        .await
        .map_err(|error| store_error(attempted, error))
}

/// Refuses a database that is newer than this program, or was migrated by something else.
fn check(applied: &[PgRow]) -> Result<()> {
    if let Some(row) = applied.get(MIGRATIONS.len()) {
        return Err(too_new(rows::column(row, "version")?));
    }
    for (row, migration) in applied.iter().zip(MIGRATIONS) {
        let known: (i64, String) = (
            rows::column(row, "version")?,
            rows::column(row, "checksum")?,
        );
        if known != (migration.version, checksum(migration.sql)) {
            let what = format!(
                "migration {} ({}) in the database is not the one this program has; use the \
                 consign that applied it",
                migration.version, migration.name
            );
            return Err(Error::Corrupt { what });
        }
    }
    Ok(())
}

/// FNV-1a: it guards against edited files, not against adversaries, and needs no text sent to the
/// server whenever a store is opened.
fn checksum(sql: &str) -> String {
    let hash = sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn too_new(found: i64) -> Error {
    Error::Schema {
        found,
        needed: newest(),
        remedy: "use a newer consign; nothing was changed",
    }
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
