#![doc = include_str!("../README.md")]

mod daemon;
mod database;
mod pgbouncer;
mod process;
mod proxy;
mod server;
mod servers;
mod template;
mod wait;

pub use database::TestDatabase;
pub use pgbouncer::PgBouncer;
pub use process::Child;
pub use proxy::ChaosProxy;
pub use servers::{NatsCluster, NatsServer, RabbitmqServer, RedisServer};
pub use template::fingerprint;
pub use wait::{eventually, eventually_some};
