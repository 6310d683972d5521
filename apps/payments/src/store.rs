//! The port in both stores: tables, statements and hooks.

mod postgres;
mod sqlite;

pub use postgres::{COMPONENT as POSTGRES_COMPONENT, enqueue_payments_in as enqueue_in_postgres};
pub use sqlite::{component as sqlite_component, enqueue_payments_in as enqueue_in_sqlite};
