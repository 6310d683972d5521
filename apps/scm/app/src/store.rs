//! The tables of repositories, and the port `ScmLedger` over them, for both stores.

mod postgres;
mod sqlite;

use std::sync::Arc;

pub use postgres::POSTGRES_COMPONENT;

/// `ScmLedger` over the tables of a store.
#[derive(Debug)]
pub struct ScmStore<S>(Arc<S>);

impl<S> ScmStore<S> {
    /// The ledger in the database of a store.
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
            "/src/store/sqlite/sql/",
            $name,
            ".sql"
        ))
    };
}
pub(crate) use sql;
