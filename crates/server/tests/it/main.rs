//! The HTTP API over real stores: in process where that is enough, over TCP where it matters.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod access;
mod bench;
mod budgets;
mod contract;
mod dashboard;
mod enqueue;
mod erase;
mod extension;
mod faults;
mod health;
mod http {
    pub(crate) use consign_server::testing::{TestServer, answer, post, rest, send};
}
mod leases;
mod limits;
mod logs;
mod messages;
mod postgres;
mod queues;
mod redrives;
mod schedules;
mod serve;
mod waits;
