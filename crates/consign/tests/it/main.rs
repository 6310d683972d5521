//! The real binary, as people and scripts run it.

#![expect(clippy::unwrap_used, reason = "a broken test bench is a failed test")]

mod bench;
mod database;
mod demo;
mod enqueue;
mod help;
mod lanes;
mod operate;
mod postgres;
mod read;
mod requeue;
mod scenario;
mod support;
mod tour;
