//! The schema: forward only, safe to bring up to date twice and from several processes at once.

use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt, path::Path};

use consign_kernel::{Error, Result};
use jiff::Timestamp;
use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteJournalMode};
use tokio::time::{Duration, Instant, sleep};

use crate::{
    error::{self, Failure, is_busy},
    options::SqliteOptions,
    rows, sql,
};

/// One step of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its number, from 1.
    pub version: i64,
    /// What it is about.
    pub name: &'static str,
    /// Its statements.
    pub sql: &'static str,
}

/// A migration the database remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Its number.
    pub version: i64,
    /// What it was about.
    pub name: String,
    /// Of its statements.
    pub checksum: String,
    /// When, by the machine's clock.
    pub applied_at: Timestamp,
}

/// How far a database has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What was applied, first to last.
    pub applied: Vec<Applied>,
    /// The version this program needs.
    pub needed: i64,
}

impl Status {
    /// The newest version applied, 0 for none.
    pub fn version(&self) -> i64 {
        self.applied.last().map_or(0, |last| last.version)
    }

    /// What is still to be applied.
    pub fn pending(&self) -> impl Iterator<Item = &'static Migration> {
        let version = self.version();
        MIGRATIONS
            .iter()
            .filter(move |migration| migration.version > version)
    }

    /// Refuses a schema this program does not fit.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_known()?;
        if self.version() < self.needed {
            return Err(self.mismatch("run `consign migrate`"));
        }
        Ok(())
    }

    /// Refuses a newer schema, and one whose history is not ours.
    fn check_known(&self) -> Result<()> {
        if self.version() > self.needed {
            return Err(self.mismatch("use a newer consign with this database"));
        }
        let ours = |applied: &Applied| {
            MIGRATIONS.iter().any(|migration| {
                migration.version == applied.version && checksum(migration.sql) == applied.checksum
            })
        };
        match self.applied.iter().find(|applied| !ours(applied)) {
            None => Ok(()),
            Some(Applied { version, name, .. }) => Err(Error::Corrupt {
                what: format!(
                    "migration {version} ({name}) in the database is not the one this program has; \
                     use the consign that applied it"
                ),
            }),
        }
    }

    fn mismatch(&self, remedy: &'static str) -> Error {
        Error::Schema {
            found: self.version(),
            needed: self.needed,
            remedy,
        }
    }
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "tables",
        sql: include_str!("../migrations/0001_tables.sql"),
    },
    Migration {
        version: 2,
        name: "append_only",
        sql: include_str!("../migrations/0002_append_only.sql"),
    },
    Migration {
        version: 3,
        name: "late_and_redrive",
        sql: include_str!("../migrations/0003_late_and_redrive.sql"),
    },
    Migration {
        version: 4,
        name: "orders",
        sql: include_str!("../migrations/0004_orders.sql"),
    },
    Migration {
        version: 5,
        name: "payments",
        sql: include_str!("../migrations/0005_payments.sql"),
    },
    Migration {
        version: 6,
        name: "logbook",
        sql: include_str!("../migrations/0006_logbook.sql"),
    },
    Migration {
        version: 7,
        name: "logbook_search",
        sql: include_str!("../migrations/0007_logbook_search.sql"),
    },
    Migration {
        version: 8,
        name: "scm",
        sql: include_str!("../migrations/0008_scm.sql"),
    },
    Migration {
        version: 9,
        name: "pulse",
        sql: include_str!("../migrations/0009_pulse.sql"),
    },
];

/// Every migration, first to last.
pub fn migrations() -> &'static [Migration] {
    MIGRATIONS
}

/// Creates the file if need be and brings its schema up to date.
pub async fn migrate(options: &SqliteOptions) -> Result<Status> {
    let mut connection = connect_for_migration(options).await?;
    let status = apply(&mut connection, options).await;
    let status = status.map_err(|failure| failure.during("migrate"))?;
    let closed = connection.close().await;
    closed.map_err(|error| error::from_database("migrate", error))?;
    Ok(status)
}

/// How far a database has come; a missing file has come nowhere, and stays missing.
pub async fn status(options: &SqliteOptions) -> Result<Status> {
    if !options.path().exists() {
        return Ok(Status {
            applied: Vec::new(),
            needed: needed(),
        });
    }
    let read = async {
        let opened = options.reading().connect().await;
        let mut connection = opened.map_err(|error| {
            error::from_opening("read the schema's version", options.path(), error)
        })?;
        let status = read_status(&mut connection).await?;
        connection.close().await?;
        Ok(status)
    };
    read.await
        .map_err(|failure: Failure| failure.during("read the schema's version"))
}

pub(crate) fn needed() -> i64 {
    MIGRATIONS.last().map_or(0, |last| last.version)
}

async fn apply(
    connection: &mut SqliteConnection,
    options: &SqliteOptions,
) -> error::Result<Status> {
    // Whoever waits here finds the work done when it is let in.
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(sql!("schema_version_create"))
        .execute(&mut *transaction)
        .await?;
    let before = read_status(&mut transaction).await?;
    before.check_known()?;
    for migration in before.pending() {
        sqlx::raw_sql(migration.sql)
            .execute(&mut *transaction)
            .await
            .map_err(|error| obstacle(migration, error))?;
        sqlx::query(sql!("schema_version_add"))
            .bind(migration.version)
            .bind(migration.name)
            .bind(checksum(migration.sql))
            .bind(rows::micros(options.clock.now()))
            .execute(&mut *transaction)
            .await?;
    }
    let after = read_status(&mut transaction).await?;
    transaction.commit().await?;
    Ok(after)
}

/// A step that fails in itself says which it is; a busy or full disk is none of its business.
fn obstacle(step: &Migration, error: sqlx::Error) -> Failure {
    match error::statement_words(&error) {
        Some(words) => Failure::Refused(Error::Migration {
            version: step.version,
            name: step.name,
            why: format!("{words}; give consign a file of its own"),
        }),
        None => error.into(),
    }
}

pub(crate) async fn read_status(connection: &mut SqliteConnection) -> error::Result<Status> {
    let exists: bool = sqlx::query_scalar(sql!("schema_version_exists"))
        .fetch_one(&mut *connection)
        .await?;
    let mut applied = Vec::new();
    if exists {
        let rows: Vec<(i64, String, String, i64)> = sqlx::query_as(sql!("schema_version_list"))
            .fetch_all(&mut *connection)
            .await?;
        for (version, name, checksum, applied_at) in rows {
            applied.push(Applied {
                version,
                name,
                checksum,
                applied_at: rows::timestamp(applied_at)?,
            });
        }
    }
    Ok(Status {
        applied,
        needed: needed(),
    })
}

/// Turning on the write-ahead log needs the file to itself for a moment, and SQLite does not wait
/// for that by itself.
/// Makes the file for its owner only; SQLite gives its log the same rights. What cannot be made, SQLite
/// says why when it opens it.
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

/// FNV-1a: it guards against edited files, not against adversaries.
fn checksum(sql: &str) -> String {
    let hash = sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
