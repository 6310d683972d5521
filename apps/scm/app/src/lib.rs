#![doc = include_str!("../README.md")]

mod app;
mod cli;
mod settings;
mod store;

pub use app::ScmApp;
pub use store::{POSTGRES_COMPONENT, ScmStore, sqlite_component};
