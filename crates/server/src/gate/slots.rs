//! Limits of concurrent requests and waiting claims.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::{Problem, codes};

/// Slots for requests being worked on, and for claims that wait.
#[derive(Debug)]
pub(crate) struct Slots {
    work: Arc<Semaphore>,
    waits: Arc<Semaphore>,
}

/// A slot; released when the last clone is dropped, or before.
#[derive(Clone, Debug)]
pub struct Slot(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Slots {
    pub(crate) fn new(work: usize, waits: usize) -> Self {
        Self {
            work: Arc::new(Semaphore::new(work)),
            waits: Arc::new(Semaphore::new(waits)),
        }
    }

    /// A slot for a request, if there is one.
    pub(crate) fn take(&self) -> Result<Slot, Problem> {
        let permit = Arc::clone(&self.work).try_acquire_owned().map_err(|_| {
            let detail = "the server has reached its limit of concurrent requests";
            Problem::new(codes::OVERLOADED, detail)
                .with("outcome", "not_done")
                .retry_after(Duration::from_secs(1))
        })?;
        Ok(Slot(Arc::new(Mutex::new(Some(permit)))))
    }

    /// A slot to wait, if there is one.
    pub(crate) fn wait(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.waits).try_acquire_owned().ok()
    }
}

impl Slot {
    /// Releases the slot early: a claim that waits does no work.
    pub fn give_up(&self) {
        let permit = self
            .0
            .lock()
            .expect("invariant: no panic under this lock")
            .take();
        drop(permit);
    }
}
