//! PostgreSQL: migrated only on request, because other programs may be using it.

use std::time::Duration;

use consign_kernel::{Error, Migration, SchemaStatus};
use consign_postgres::{Pooler, PostgresOptions, PostgresStore, sqlstate_of};

use super::{Apps, Database};
use crate::App;
use crate::failure::{Exit, Failure};

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The pooler between this process and the server.
    pub pooler: Pooler,
    /// A direct address for wake-ups.
    pub listen_url: Option<String>,
    /// Most connections of this process.
    pub connections_max: u32,
    /// How long a report may walk the tables.
    pub report_timeout: Duration,
}

impl Reach {
    /// For one command: right with and without a pooler in between; it needs no speed beyond that.
    pub fn for_a_command() -> Self {
        Self {
            pooler: Pooler::Transaction,
            listen_url: None,
            connections_max: 6,
            // The user can interrupt a command.
            report_timeout: Duration::from_secs(24 * 3600),
        }
    }

    /// Whether an enqueue can wake waiting workers.
    pub fn wakes(&self) -> bool {
        self.pooler == Pooler::Session || self.listen_url.is_some()
    }
}

/// With the apps that are on, and those that the database has tables of.
async fn install_options(url: &str, apps: &Apps) -> Result<PostgresOptions, Error> {
    let status = consign_postgres::status(&options(url, &[])).await?;
    Ok(options(url, &apps.to_install(&status)))
}

fn options(url: &str, apps: &[&'static dyn App]) -> PostgresOptions {
    let mut options = PostgresOptions::new(url);
    let components = apps.iter().map(|app| app.postgres());
    options.components.extend(components);
    options
}

pub(super) async fn open(url: &str, apps: &Apps, reach: &Reach) -> Result<Database, Failure> {
    let status = consign_postgres::status(&options(url, &[])).await;
    let status = status.map_err(refused)?;
    let apps = apps.to_open(&status);
    let options = PostgresOptions {
        pooler: reach.pooler,
        listen_url: reach.listen_url.clone(),
        connections_max: reach.connections_max,
        report_timeout: reach.report_timeout,
        ..options(url, &apps)
    };
    let store = PostgresStore::connect(&options).await.map_err(refused)?;
    Ok(Database::postgres(store, apps))
}

/// Distinguishes a server that rejects the login from one that is not reachable: only the second may recover.
pub(super) fn refused(error: Error) -> Failure {
    let remedy = match sqlstate_of(&error) {
        Some("3D000") => "create it, or name another",
        Some(code) if code.starts_with("28") => {
            "check the user and the password in the address, and the server's pg_hba.conf"
        }
        _ => return error.into(),
    };
    let why = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
    Failure::new(Exit::Unavailable, "forbidden", format!("{why}; {remedy}"))
}

pub(super) async fn migrate(url: &str, apps: &Apps) -> Result<(), Failure> {
    let options = install_options(url, apps).await.map_err(refused)?;
    consign_postgres::migrate(&options).await.map_err(refused)?;
    Ok(())
}

pub(super) async fn status(url: &str, apps: &Apps) -> Result<SchemaStatus, Error> {
    consign_postgres::status(&install_options(url, apps).await?).await
}

pub(super) fn migrations(url: &str, apps: &Apps) -> Vec<Migration> {
    options(url, &apps.on).migrations()
}

pub(super) fn script(url: &str, apps: &Apps) -> String {
    consign_postgres::script(&options(url, &apps.on).components)
}
