//! The status of a queue, readable without a message to its loop.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use consign_kernel::OutcomeCounts;
use tokio::time::Instant;

/// Written by the queue, read by handles.
#[derive(Debug)]
pub(crate) struct QueueState {
    epoch: Instant,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) prefetched: AtomicUsize,
    /// Cleared after what was claimed shows in the two above.
    pub(crate) claiming: AtomicBool,
    pub(crate) concurrency: AtomicU32,
    pub(crate) concurrency_now: AtomicU32,
    pub(crate) paused: AtomicBool,
    pub(crate) unrecorded: AtomicUsize,
    /// Results since the last read, and how long they took.
    done: Mutex<(OutcomeCounts, Duration)>,
    tick_us: AtomicU64,
    /// Whether there is an error, so that the lock is rarely taken.
    has_error: AtomicBool,
    error: Mutex<Option<String>>,
}

impl QueueState {
    pub(crate) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            in_flight: AtomicUsize::new(0),
            prefetched: AtomicUsize::new(0),
            claiming: AtomicBool::new(false),
            concurrency: AtomicU32::new(0),
            concurrency_now: AtomicU32::new(0),
            paused: AtomicBool::new(false),
            unrecorded: AtomicUsize::new(0),
            done: Mutex::default(),
            tick_us: AtomicU64::new(0),
            has_error: AtomicBool::new(false),
            error: Mutex::default(),
        }
    }

    /// Adds recorded results.
    pub(crate) fn count(&self, done: OutcomeCounts) {
        self.done().0.add(done);
    }

    /// Adds the duration of a delivery.
    pub(crate) fn took(&self, took: Duration) {
        let mut done = self.done();
        done.0.count_latency(took, 1);
        done.1 += took;
    }

    /// What was recorded since the last call.
    pub(crate) fn take_done(&self) -> OutcomeCounts {
        let mut slot = self.done();
        let took_ms = slot.1.as_millis() as u64;
        slot.1 -= Duration::from_millis(took_ms);
        OutcomeCounts {
            took_ms,
            ..std::mem::take(&mut slot.0)
        }
    }

    fn done(&self) -> MutexGuard<'_, (OutcomeCounts, Duration)> {
        // Numbers are whole at any moment.
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tick(&self, now: Instant) {
        let age = now.saturating_duration_since(self.epoch);
        self.tick_us.store(age.as_micros() as u64, Relaxed);
    }

    pub(crate) fn last_tick_age(&self) -> Duration {
        let ticked = Duration::from_micros(self.tick_us.load(Relaxed));
        self.epoch.elapsed().saturating_sub(ticked)
    }

    /// The last failure to reach the database, unless it has been reached since.
    pub(crate) fn error(&self) -> Option<String> {
        self.slot().clone()
    }

    /// Records a failure; returns whether it is the first since the database was last reached.
    pub(crate) fn set_error(&self, text: String) -> bool {
        *self.slot() = Some(text);
        !self.has_error.swap(true, Relaxed)
    }

    /// Records that the database was reached; returns whether it had not been before.
    pub(crate) fn clear_error(&self) -> bool {
        if !self.has_error.load(Relaxed) {
            return false;
        }
        *self.slot() = None;
        self.has_error.swap(false, Relaxed)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.error
            .lock()
            .expect("invariant: no panic under this lock")
    }
}
