//! The queue `memory`.

use std::sync::Arc;

use consign_kernel::{OnUncertain, QueuePolicy, RetrySchedule};
use consign_worker::{QueueWork, Sink};

use super::MemoryOptions;
use crate::queue;

/// Time of a delivery beyond the memory server's limit: the logbook reads and writes around it.
const BESIDE_MS: u64 = 5_000;
/// JSON escapes and the fields beside the text.
const ENVELOPE_BYTES: usize = 4_096;

/// The policy of the queue `memory`.
pub fn queue_policy(options: &MemoryOptions) -> QueuePolicy {
    // The seed counts retries from 0, so its first delay is already `base * 2`.
    let base_seconds = options.base_backoff_seconds.saturating_mul(2);
    QueuePolicy {
        lease_ttl_ms: options.lease_seconds * 1_000,
        attempts_max: options.max_retries,
        retry: RetrySchedule::Exponential {
            base_ms: base_seconds.min(options.max_backoff_seconds) * 1_000,
            factor: 2.0,
            max_ms: options.max_backoff_seconds * 1_000,
            jitter: options.jitter_factor,
        },
        // The sink queries the memory server before it resends what may have arrived.
        on_uncertain: OnUncertain::Resend,
        record_begin: true,
        // One write at a time per memory server.
        concurrency: 1,
        timeout_ms: options.openmemory_timeout_seconds * 1_000 + BESIDE_MS,
        // A control character takes six bytes as JSON.
        payload_max_bytes: options.payload_max_bytes * 6 + ENVELOPE_BYTES,
        ..QueuePolicy::default()
    }
}

/// Worker configuration of the queue `memory`.
pub fn queue_work(sink: Arc<dyn Sink>, options: &MemoryOptions) -> QueueWork {
    QueueWork {
        claim_max: Some(options.batch_size),
        whole_batches: true,
        ..QueueWork::new(queue(), sink)
    }
}
