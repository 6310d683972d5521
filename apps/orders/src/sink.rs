//! The sink of the queue `orders`, and the brokers to which it sends.

pub mod broker;
pub(crate) mod dispatch;
mod handler;

pub use handler::{OrderSink, codes};
