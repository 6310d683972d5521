//! The ledger in the stores: its tables beside the engine's, and the hooks that keep it consistent
//! with the messages.

mod postgres;
mod sqlite;

pub use postgres::POSTGRES_COMPONENT;
pub use sqlite::sqlite_component;
#[doc(hidden)]
pub use sqlite::{Statements, sqlite_component_with};
