#![doc = include_str!("../README.md")]

mod advice;
mod at_hand;
mod builtin;
mod claim;
mod claimed;
mod doctor;
mod enqueue;
mod error;
mod list;
mod low_water;
mod memory;
mod migrate;
mod operate;
mod options;
mod pools;
mod pulse;
mod queues;
mod read;
mod redrive;
#[doc(hidden)]
pub mod rows;
mod settle;
mod store;
mod wait;
mod wakes;
mod witness;

pub use enqueue::enqueue_in;
pub use error::sqlstate_of;
pub use migrate::{Component, migrate, script, status};
pub use options::{Pooler, PostgresOptions};
pub use store::PostgresStore;

/// What an app's own functions are called with: statements on the connections of the store, by use.
pub mod extension {
    pub use crate::{
        error::{is_recorded_otherwise, sqlstate, state_of, store_error},
        list::holds_nul,
        pools::Use,
        rows,
        store::Statement,
        witness::late,
    };
}
