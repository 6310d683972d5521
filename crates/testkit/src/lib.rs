#![doc = include_str!("../README.md")]

mod broker;
mod browser;
mod daemon;
mod database;
mod disk;
mod file;
mod login;
mod pgbouncer;
mod process;
mod proxy;
mod ranges;
mod server;
mod servers;
mod template;
mod wait;

pub use broker::{BrokerEvent, BrokerJournal, BrokerManner, HonestBroker, Step, Tally};
pub use browser::Browser;
pub use database::TestDatabase;
pub use disk::SmallDisk;
pub use file::FileTemplate;
pub use login::Login;
pub use pgbouncer::PgBouncer;
pub use process::Child;
pub use proxy::ChaosProxy;
pub use ranges::RangeSession;
pub use servers::{NatsCluster, NatsServer, OpenMemory, RabbitmqServer, RedisServer};
pub use template::fingerprint;
pub use wait::{eventually, eventually_some};
