#![doc = include_str!("../README.md")]

mod archive;
mod error;
mod maintenance;
pub mod metrics;
mod pass;

pub use error::{Error, Result};
pub use maintenance::{Maintenance, Options, pause_after};
pub use pass::{End, Pass};
