#![doc = include_str!("../README.md")]

pub mod aliases;
mod app;
pub mod arguments;
pub mod attempts;
pub mod color;
pub mod config;
pub mod context;
pub mod database;
pub mod failure;
pub mod moves;
pub mod output;
pub mod progress;
pub mod queue;
pub mod when;

pub use app::{App, AppService, Background, Registry, ServiceBanner, ServiceKind, Task};
