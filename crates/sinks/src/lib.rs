#![doc = include_str!("../README.md")]

#[cfg(any(feature = "nats", feature = "rabbitmq", feature = "redis"))]
mod broker;
#[cfg(any(feature = "http", feature = "nats", feature = "rabbitmq"))]
mod cloudevents;
mod config;
mod discard;
mod error;
#[cfg(feature = "exec")]
mod exec;
#[cfg(feature = "http")]
mod http;
#[cfg(any(
    feature = "exec",
    feature = "http",
    feature = "nats",
    feature = "rabbitmq",
    feature = "redis"
))]
mod limit;
#[cfg(feature = "log")]
mod log;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;
mod secret;

#[cfg(any(feature = "http", feature = "nats", feature = "rabbitmq"))]
pub use cloudevents::EventMode;
pub use config::SinkConfig;
pub use discard::DiscardConfig;
pub use error::SinkError;
#[cfg(feature = "exec")]
pub use exec::ExecConfig;
#[cfg(feature = "http")]
pub use http::{HttpConfig, HttpMethod};
#[cfg(feature = "log")]
pub use log::LogConfig;
#[cfg(feature = "nats")]
pub use nats::NatsConfig;
#[cfg(feature = "rabbitmq")]
pub use rabbitmq::RabbitmqConfig;
#[cfg(feature = "redis")]
pub use redis::RedisConfig;
pub use secret::SecretSource;
