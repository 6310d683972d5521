//! How much is worked on at once.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::{Problem, codes};

/// Places for requests being worked on, and for claims that wait.
#[derive(Debug)]
pub(crate) struct Slots {
    work: Arc<Semaphore>,
    waits: Arc<Semaphore>,
}

/// A place; given back when the last clone is dropped, or before.
#[derive(Clone, Debug)]
pub(crate) struct Slot(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Slots {
    pub(crate) fn new(work: usize, waits: usize) -> Self {
        Self {
            work: Arc::new(Semaphore::new(work)),
            waits: Arc::new(Semaphore::new(waits)),
        }
    }

    /// A place for a request, if there is one.
    pub(crate) fn take(&self) -> Result<Slot, Problem> {
        let permit = Arc::clone(&self.work).try_acquire_owned().map_err(|_| {
            let detail = "the server is working on as many requests as it may";
            Problem::new(codes::OVERLOADED, detail)
                .with("outcome", "not_done")
                .retry_after(Duration::from_secs(1))
        })?;
        Ok(Slot(Arc::new(Mutex::new(Some(permit)))))
    }

    /// A place to wait, if there is one.
    pub(crate) fn wait(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.waits).try_acquire_owned().ok()
    }
}

impl Slot {
    /// Gives the place back early: a claim that waits does no work.
    pub(crate) fn give_up(&self) {
        let permit = self
            .0
            .lock()
            .expect("invariant: no panic under this lock")
            .take();
        drop(permit);
    }
}
