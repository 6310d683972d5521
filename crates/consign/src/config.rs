//! The engine's settings: their declarations, and their types.

#[cfg(test)]
mod foreign_tests;
mod queues;
#[cfg(test)]
mod secrets_tests;
mod sections;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use consign_app::config::*;

pub(crate) use self::{
    queues::QueueConfig,
    sections::SECTIONS,
    settings::{LogFormat, Retention, Settings, check},
};

/// A queue to try things with, while there is no file.
pub(crate) const EXAMPLE: &str = if cfg!(feature = "log") {
    include_str!("../config/example.toml")
} else {
    ""
};
