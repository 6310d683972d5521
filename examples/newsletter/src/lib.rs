#![doc = include_str!("../README.md")]

mod app;
mod cli;
mod http;
mod settings;
mod sink;
pub mod store;
mod subscriber;

pub use app::Newsletter;
pub use http::NewsletterHttp;
pub use sink::WelcomeSink;
pub use subscriber::{Address, QUEUE, Status, Subscriber, Subscribers, queue};
