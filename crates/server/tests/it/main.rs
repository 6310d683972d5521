//! The HTTP API over real stores: in process where that is enough, over TCP where it matters.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod access;
mod bench;
mod budgets;
mod contract;
mod dashboard;
mod docs;
mod enqueue;
mod faults;
mod foreign;
mod health;
mod http;
mod leases;
mod limits;
mod logs;
mod mcp;
mod memory;
mod messages;
mod orders;
mod payment_work;
mod payments;
mod postgres;
mod queues;
mod redrives;
mod serve;
mod starting;
mod waits;
