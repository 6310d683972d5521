//! The real brokers that sinks deliver to.

mod nats;
mod rabbitmq;
mod redis;

pub use nats::{NatsCluster, NatsServer};
pub use rabbitmq::RabbitmqServer;
pub use redis::RedisServer;
