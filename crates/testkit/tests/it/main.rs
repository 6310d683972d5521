//! The test bench itself, against real servers and processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod broker;
mod database;
mod file;
mod pgbouncer;
mod process;
mod proxy;
mod servers;
