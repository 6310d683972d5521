#![doc = include_str!("../README.md")]

mod cron;
pub mod metrics;
mod overdue;
mod plan;
mod put;
mod runner;

pub use cron::Cron;
pub use overdue::{OVERDUE_AFTER, overdue};
pub use plan::{MISSED_COUNT_MAX, plan};
pub use put::{PREVIEW_TICKS, preview, put};
pub use runner::{Runner, run};
