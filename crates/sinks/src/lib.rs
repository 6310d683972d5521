#![doc = include_str!("../README.md")]

#[cfg(feature = "http")]
mod cloudevents;
mod config;
mod discard;
mod error;
#[cfg(feature = "http")]
mod http;
mod secret;
#[cfg(feature = "http")]
mod text;

#[cfg(feature = "http")]
pub use cloudevents::EventMode;
pub use config::SinkConfig;
pub use discard::DiscardConfig;
pub use error::SinkError;
#[cfg(feature = "http")]
pub use http::{HttpConfig, HttpMethod};
pub use secret::Secret;
