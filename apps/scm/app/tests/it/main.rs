//! One binary for all tests of the ledger's stores.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod cases;
mod harness;
mod migrate;
mod postgres;
mod sqlite;
