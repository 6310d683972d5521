//! The payment protocol over a real store, a real worker and a real HTTP server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod api;
mod cases;
mod http_rail;
mod ingress;
mod postgres;
mod relayer;
mod shim;
mod sqlite;
mod support;
