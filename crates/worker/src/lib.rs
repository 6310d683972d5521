#![doc = include_str!("../README.md")]

mod attempt;
mod backoff;
mod breaker;
mod bucket;
mod budget;
mod chance;
mod concurrency;
mod context;
mod face;
mod handle;
mod held;
mod keeper;
mod local;
mod meters;
pub mod metrics;
mod ops;
mod options;
#[doc(hidden)]
pub mod park;
mod queue;
mod shared_read;
mod sink;
mod sizing;
mod status;
mod worker;

pub use attempt::codes;
pub use handle::{Summary, WorkerHandle};
pub use local::is_local;
pub use options::{BreakerOptions, QueueWork, SpanHook, WorkerOptions};
pub use shared_read::SharedRead;
pub use sink::{About, Delivery, Probe, Sink, Verdict};
pub use status::{BreakerState, QueueStatus, WorkerStatus};
pub use worker::Worker;
