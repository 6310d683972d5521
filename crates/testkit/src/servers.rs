//! The real brokers that sinks deliver to.

mod nats;
mod openmemory;
mod rabbitmq;
mod redis;

pub use nats::{NatsCluster, NatsServer};
pub use openmemory::OpenMemory;
pub use rabbitmq::RabbitmqServer;
pub use redis::RedisServer;
