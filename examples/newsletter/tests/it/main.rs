//! The example app on real stores: its table and the outcome of its messages change together.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps nothing fails, as it should"
)]

mod binary;
mod cases;
mod http;
mod postgres;
mod sqlite;
