#![doc = include_str!("../README.md")]

mod claim;
mod doctor;
mod enqueue;
mod error;
mod expire;
mod fail;
mod groups;
mod lanes;
mod migrate;
mod operate;
mod options;
mod read;
mod rows;
mod settle;
mod store;
mod wait;
mod writer;

pub use migrate::{Applied, Migration, Status, migrate, migrations, status};
pub use options::{Clock, SqliteOptions};
pub use store::SqliteStore;

/// The text of a statement under `sql/`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))
    };
}
pub(crate) use sql;
