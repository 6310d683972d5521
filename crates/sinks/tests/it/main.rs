//! Every kind of sink against something real that is honest about its faults.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[cfg(any(feature = "nats", feature = "rabbitmq", feature = "redis"))]
mod brokers;
#[cfg(all(feature = "nats", feature = "redis"))]
mod brokers_worker;
mod config;
mod exec;
mod fixture;
mod http_event;
mod http_failure;
mod http_guard;
mod http_outcome;
mod http_probe;
mod http_request;
mod http_signature;
mod http_tls;
mod log;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "nats")]
mod nats_cluster;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;
mod server;
mod vectors;
