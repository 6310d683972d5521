//! Fresh databases with the engine and the memory app, whose clocks tests can move.

mod postgres;
mod sqlite;

pub(crate) use consign_conformance::fixture::{postgres::execute, sqlite::SqliteFixture};

pub(crate) use postgres::{connect, database, options, postgres_fixture};
pub(crate) use sqlite::sqlite_fixture;
