#![doc = include_str!("../README.md")]

mod postgres;
mod sqlite;

use std::sync::Arc;

pub use postgres::POSTGRES_COMPONENT;

/// The ledger of repositories in a store: `ScmLedger` over its tables.
#[derive(Debug)]
pub struct ScmStore<S>(Arc<S>);

impl<S> ScmStore<S> {
    /// The ledger in the same database as a store.
    pub fn new(store: Arc<S>) -> Self {
        Self(store)
    }
}

/// The component `scm` of an SQLite file.
pub fn sqlite_component() -> Arc<dyn consign_sqlite::Component> {
    Arc::new(sqlite::ScmComponent)
}

/// The text of a statement under `sqlite/sql/`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/sqlite/sql/",
            $name,
            ".sql"
        ))
    };
}
pub(crate) use sql;
