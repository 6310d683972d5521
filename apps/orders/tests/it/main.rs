//! The order protocol over a real store with a broker that does as it is told, and the ledger in both stores.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps nothing fails, as it should"
)]

mod acceptor;
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
