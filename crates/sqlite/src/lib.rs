#![doc = include_str!("../README.md")]

mod alert;
mod claim;
mod close;
mod component;
mod doctor;
mod enqueue;
mod erase;
mod error;
mod expire;
mod groups;
mod job;
mod late;
mod list;
mod migrate;
mod operate;
mod options;
mod problems;
mod purge;
mod queues;
mod read;
mod redrive;
mod resolve;
mod retain;
#[doc(hidden)]
pub mod rows;
mod schedule;
mod settle;
mod slots;
mod store;
mod wait;
mod watch;
mod writer;

pub use component::{Component, Hook};
pub use migrate::{migrate, status};
pub use options::{Clock, SqliteOptions};
pub use store::SqliteStore;

/// What an app's own tables are read and written with, in the engine's transactions.
pub mod extension {
    pub use consign_failpoint::kill_at;
    pub use consign_kernel::plan::{DeadEntry, LeasePlan, NewAttempt, OperatorMove};

    pub use crate::{
        doctor::{Report as Findings, SHOWN_MAX},
        enqueue::Plan,
        error::{Failure, Result, from_database, is_refusal},
        job::{Work, WorkFuture, arguments, extend_work},
        late::{late, late_rows},
        queues::queue,
        read::{MessageState, explain, message},
        rows,
        store::{chance, snapshot, within, write, write_unopened},
    };
}

/// The text of a statement under `sql/`, or of several, to be run one after the other.
///
/// Every statement sent is a trip to SQLite's thread and back, so what needs no decision in
/// between is sent together. Numbered parameters then mean the same in all of them.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))
    };
    ($first:literal, $($next:literal),+) => {
        concat!($crate::sql!($first), $(";\n", $crate::sql!($next)),+)
    };
}
pub(crate) use sql;
