//! PostgreSQL: migrated only when asked to, because others may be using it.

use std::time::Duration;

use consign_kernel::{Error, Migration, SchemaStatus};
use consign_postgres::{Pooler, PostgresOptions, PostgresStore, sqlstate_of};

use super::Opened;
use crate::failure::{Exit, Failure};

/// How to reach a server.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub(crate) pooler: Pooler,
    /// A direct address for wake-ups.
    pub(crate) listen_url: Option<String>,
    pub(crate) connections_max: u32,
    pub(crate) report_timeout: Duration,
}

impl Reach {
    /// For one command: right with and without a pooler in between; it needs no speed beyond that.
    pub(crate) fn for_a_command() -> Self {
        Self {
            pooler: Pooler::Transaction,
            listen_url: None,
            connections_max: 6,
            // Whoever waits for a command can end it.
            report_timeout: Duration::from_secs(24 * 3600),
        }
    }

    /// Whether an enqueue can wake those who wait.
    pub(crate) fn wakes(&self) -> bool {
        self.pooler == Pooler::Session || self.listen_url.is_some()
    }
}

/// A database with every app.
fn options(url: &str) -> PostgresOptions {
    let mut options = PostgresOptions::new(url);
    options.components.extend([
        consign_orders::store::POSTGRES_COMPONENT,
        consign_payments::store::POSTGRES_COMPONENT,
    ]);
    options
        .components
        .push(consign_scm_store::POSTGRES_COMPONENT);
    options
}

pub(super) async fn open(url: &str, reach: &Reach) -> Result<Opened, Failure> {
    let options = PostgresOptions {
        pooler: reach.pooler,
        listen_url: reach.listen_url.clone(),
        connections_max: reach.connections_max,
        report_timeout: reach.report_timeout,
        ..options(url)
    };
    let store = PostgresStore::connect(&options).await.map_err(refused)?;
    Ok(Opened::new(store))
}

/// Tells a server that does not let us in from one that is not there: only the second may come.
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

pub(super) async fn migrate(url: &str) -> Result<(), Failure> {
    consign_postgres::migrate(&options(url))
        .await
        .map_err(refused)?;
    Ok(())
}

pub(super) async fn status(url: &str) -> Result<SchemaStatus, Error> {
    consign_postgres::status(&options(url)).await
}

pub(super) fn migrations(url: &str) -> Vec<Migration> {
    options(url).migrations()
}

pub(super) fn script(url: &str) -> String {
    consign_postgres::script(&options(url).components)
}
