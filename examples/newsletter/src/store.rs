//! The port over both stores: tables beside the engine's, and the hook that follows the messages.

mod postgres;
mod sqlite;

pub use postgres::POSTGRES_COMPONENT;
pub use sqlite::sqlite_component;
