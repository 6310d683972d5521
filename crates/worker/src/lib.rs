#![doc = include_str!("../README.md")]

mod sink;
mod status;

pub use sink::{About, Delivery, Probe, Sink, Verdict};
pub use status::{BreakerState, LaneStatus, WorkerStatus};
