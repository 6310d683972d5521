//! One binary for all tests of the SQLite store.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod append_only;
mod apps;
mod busy;
mod cancel;
mod conformance;
mod doctor;
mod enqueue_in;
mod erase;
mod failpoints;
mod harness;
mod hooks;
mod limits;
mod migrate;
mod plans;
mod processes;
mod retention;
mod wait;
