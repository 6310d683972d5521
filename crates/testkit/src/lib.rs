#![doc = include_str!("../README.md")]

mod database;
mod pgbouncer;
mod process;
mod proxy;
mod server;
mod template;
mod wait;

pub use database::TestDatabase;
pub use pgbouncer::PgBouncer;
pub use process::Child;
pub use proxy::ChaosProxy;
pub use template::fingerprint;
pub use wait::{eventually, eventually_some};
