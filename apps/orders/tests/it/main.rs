//! The order protocol over a real store: SQLite, with a broker that does as it is told.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps nothing fails, as it should"
)]

mod acceptor;
mod direct;
mod doubt;
mod http;
mod limits;
mod probe;
mod purge;
mod refuse;
mod replay;
mod send;
mod shim;
mod support;
mod unsent;
