//! PostgreSQL: migrated only when asked to, because others may be using it.

use std::sync::Arc;

use consign_kernel::Store;
use consign_postgres::{Pooler, PostgresOptions, PostgresStore};

use super::{Schema, Step};
use crate::failure::Failure;

pub(super) async fn open(url: &str) -> Result<Arc<dyn Store>, Failure> {
    let options = PostgresOptions {
        // Right with and without a pooler in between; one command needs no speed beyond that.
        pooler: Pooler::Transaction,
        connections_max: 2,
        ..PostgresOptions::new(url)
    };
    Ok(Arc::new(PostgresStore::connect(&options).await?))
}

pub(super) async fn migrate(url: &str) -> Result<(), Failure> {
    consign_postgres::migrate(url).await?;
    Ok(())
}

pub(super) async fn status(url: &str) -> Result<Schema, Failure> {
    let status = consign_postgres::status(url).await?;
    Ok(Schema {
        version: status.found,
        needed: status.newest,
    })
}

pub(super) fn steps() -> Vec<Step> {
    let step = |migration: &consign_postgres::Migration| Step {
        version: migration.version,
        name: migration.name,
        sql: migration.sql,
    };
    consign_postgres::migrations().iter().map(step).collect()
}
