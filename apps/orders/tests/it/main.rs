//! The order protocol over a real store with a scripted broker, and the ledger in both stores.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps nothing fails, as it should"
)]

mod acceptor;
mod api;
mod cases;
mod direct;
mod doubt;
mod http;
mod limits;
mod postgres;
mod probe;
mod purge;
mod refuse;
mod replay;
mod send;
mod shim;
mod sqlite;
mod support;
mod unsent;
