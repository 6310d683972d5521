//! Payments in both kinds of store: the port, the tables and the hooks of each.

mod postgres;
mod sqlite;

pub use postgres::{COMPONENT as POSTGRES_COMPONENT, enqueue_payments_in as enqueue_in_postgres};
pub use sqlite::{component as sqlite_component, enqueue_payments_in as enqueue_in_sqlite};
