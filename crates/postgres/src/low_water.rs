//! Where to start looking for due batches.
//!
//! While a session holds a snapshot open, vacuum cannot remove the index entries of batches that were
//! claimed long ago, and every claim would walk over all of them: after 120,000 single messages
//! claims become many times slower. Starting at the due time of the claim before avoids that.
//! A transaction that commits late may leave batches below the mark, so the whole queue is looked at
//! again regularly, and always when nothing was found.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use consign_kernel::QueueName;
use jiff::Timestamp;

/// A batch that became visible late is found within this time, if looking is cheap.
const FULL_SCAN_EVERY: Duration = Duration::from_secs(1);
/// Looking at everything may take at most this part of the time: one twentieth.
const FULL_SCAN_SHARE: u32 = 20;

/// The marks of all queues, in memory: a hint, not a fact, and worthless after a restart.
#[derive(Debug)]
pub(crate) struct LowWater {
    enabled: bool,
    marks: Mutex<HashMap<QueueName, Mark>>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    from: Timestamp,
    /// When everything was looked at last, and how long that took.
    full_scan_at: Instant,
    full_scan_took: Duration,
}

impl LowWater {
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            marks: Mutex::default(),
        }
    }

    /// Where the next claim of a queue may start; `None` to look at everything.
    pub(crate) fn start(&self, queue: &QueueName) -> Option<Timestamp> {
        let marks = self
            .marks
            .lock()
            .expect("invariant: no panic under this lock");
        let mark = marks.get(queue)?;
        let pause = FULL_SCAN_EVERY.max(mark.full_scan_took * FULL_SCAN_SHARE);
        (mark.full_scan_at.elapsed() < pause).then_some(mark.from)
    }

    /// Remembers where a claim found its first batch.
    pub(crate) fn found(&self, queue: &QueueName, from: Timestamp, full_scan: Option<Duration>) {
        if !self.enabled {
            return;
        }
        let mut marks = self
            .marks
            .lock()
            .expect("invariant: no panic under this lock");
        match (marks.get_mut(queue), full_scan) {
            (Some(mark), None) => mark.from = from,
            (_, full_scan) => {
                let full_scan_took = full_scan.unwrap_or_default();
                let full_scan_at = Instant::now();
                marks.insert(
                    queue.clone(),
                    Mark {
                        from,
                        full_scan_at,
                        full_scan_took,
                    },
                );
            }
        }
    }

    /// Forgets a queue whose short look found nothing.
    pub(crate) fn forget(&self, queue: &QueueName) {
        self.marks
            .lock()
            .expect("invariant: no panic under this lock")
            .remove(queue);
    }
}
