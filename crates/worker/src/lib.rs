#![doc = include_str!("../README.md")]

mod attempt;
mod backoff;
mod breaker;
mod budget;
mod concurrency;
mod context;
mod encoding;
mod handle;
mod keeper;
mod local;
mod meters;
pub mod metrics;
mod ops;
mod options;
mod owned_lease;
mod queue;
mod queue_state;
mod shared_read;
mod sink;
mod sizing;
mod status;
mod worker;

pub use attempt::codes;
pub use encoding::{printable, url_component};
pub use handle::{Summary, WorkerHandle};
pub use local::is_local;
pub use options::{BreakerOptions, QueueWork, SpanHook, WorkerOptions};
pub use shared_read::SharedRead;
pub use sink::{About, Delivery, Probe, Sink, Verdict};
pub use status::{BreakerState, QueueStatus, WorkerStatus};
pub use worker::Worker;

#[doc(hidden)]
pub mod failpoint {
    pub use consign_failpoint::stop_at as failpoint;
}
