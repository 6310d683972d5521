//! The gateway and its backends, over a real store and a real memory server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod api;
mod cases;
mod conformance;
mod consume;
mod documented;
mod flush;
mod gateway;
mod harness;
mod migrate;
mod openmemory;
mod postgres;
mod remains;
mod sqlite;
mod support;
