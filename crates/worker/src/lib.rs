#![doc = include_str!("../README.md")]

mod handle;
pub mod metrics;
mod options;
mod sink;
mod status;
mod worker;

pub use handle::{Summary, WorkerHandle};
pub use options::{BreakerOptions, LaneWork, SpanHook, WorkerOptions};
pub use sink::{About, Delivery, Probe, Sink, Verdict};
pub use status::{BreakerState, LaneStatus, WorkerStatus};
pub use worker::Worker;
