//! One binary for all tests of the SQLite store.

mod conformance;
mod harness;
