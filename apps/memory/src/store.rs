//! The logbook in a database: the port `Logbook` over the tables of the component `memory`.

mod postgres;
mod sqlite;

use std::sync::Arc;

pub use sqlite::LogbookWork;

/// The component `memory` of a store in PostgreSQL.
pub const POSTGRES_COMPONENT: consign_postgres::Component = postgres::COMPONENT;

/// The component `memory` of a store in SQLite.
pub fn sqlite_component() -> Arc<dyn consign_sqlite::Component> {
    Arc::new(sqlite::MemoryComponent)
}
