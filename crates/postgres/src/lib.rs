#![doc = include_str!("../README.md")]

mod advice;
mod alert;
mod claim;
mod claimed;
mod connection_pool;
mod doctor;
mod enqueue;
mod erase;
mod error;
mod growth;
mod list;
mod low_water;
mod migrate;
mod operate;
mod options;
mod pools;
mod problems;
mod queues;
mod read;
mod redrive;
mod retention;
#[doc(hidden)]
pub mod rows;
mod schedule;
mod settle;
mod store;
mod wait;
mod wakes;
mod watch;

pub use enqueue::enqueue_in;
pub use error::sqlstate_of;
pub use migrate::{Component, migrate, script, status};
pub use options::{Pooler, PostgresOptions};
pub use store::PostgresStore;

/// For the stores of apps: statements on the store's connections, by use.
pub mod extension {
    pub use crate::{
        error::{is_recorded_otherwise, sqlstate, state_of, store_error},
        list::holds_nul,
        pools::Use,
        read::late,
        rows,
        store::Statement,
    };
}
