#![doc = include_str!("../README.md")]

mod config;
mod discard;
mod error;
mod secret;

pub use config::SinkConfig;
pub use discard::DiscardConfig;
pub use error::SinkError;
pub use secret::Secret;
