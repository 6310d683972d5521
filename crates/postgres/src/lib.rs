#![doc = include_str!("../README.md")]

mod advice;
mod at_hand;
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
mod orders;
mod payments;
mod pools;
mod pulse;
mod queues;
mod read;
mod redrive;
mod rows;
mod scm;
mod settle;
mod store;
mod wait;
mod wakes;
mod witness;

pub use enqueue::enqueue_in;
pub use error::sqlstate_of;
pub use migrate::{Migration, Status, migrate, migrations, script, status};
pub use options::{Pooler, PostgresOptions};
pub use payments::enqueue_payments_in;
pub use store::PostgresStore;
