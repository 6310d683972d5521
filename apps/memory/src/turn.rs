//! Whose turn it is to write a memory.
//!
//! The same text for the same space is written by one task at a time: whoever comes second waits, and
//! then finds it stored. Among the tasks of this process that is so for each text by itself; among
//! processes it is so because one of them at a time writes to a memory server at all, see [`house`].

mod house;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use consign_kernel::Result;
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

pub use self::house::leave_turns;
use self::house::{House, Place};
use crate::{Backend, Logbook, message_key};

type Queues = HashMap<String, Arc<Queue<()>>>;

static QUEUES: LazyLock<Mutex<Queues>> = LazyLock::new(Mutex::default);

/// Turns at one memory server.
pub(crate) struct Turns {
    destination: String,
    /// None: no others have to be kept out.
    house: Option<Arc<House>>,
}

impl Turns {
    /// Turns of everybody who writes there and has this logbook.
    pub(crate) fn at(backend: &dyn Backend, logbook: &Arc<dyn Logbook>) -> Self {
        Self {
            destination: backend.destination().to_owned(),
            house: House::of(logbook, backend),
        }
    }

    /// Waits until nobody else writes this memory.
    pub(crate) async fn take(&self, space: &str, sha: &str) -> Result<Turn> {
        let queued = Queued::take(&self.destination, space, sha).await;
        let place = match &self.house {
            Some(house) => Some(house.enter().await?),
            None => None,
        };
        Ok(Turn {
            _place: place,
            _queued: queued,
        })
    }

    /// Waits until no other process writes anything.
    pub(crate) async fn take_all(&self) -> Result<Option<Place>> {
        match &self.house {
            Some(house) => house.enter().await.map(Some),
            None => Ok(None),
        }
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

/// The turn to write one memory, until it is dropped.
pub(crate) struct Turn {
    _place: Option<Place>,
    _queued: Queued,
}

/// A place in the queue for one memory; whoever drops it leaves.
#[derive(Debug)]
struct Queued {
    key: String,
    queue: Option<Arc<Queue<()>>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Queued {
    async fn take(destination: &str, space: &str, sha: &str) -> Self {
        let key = format!("{destination} {}", message_key(space, sha));
        let queue = Arc::clone(queues().entry(key.clone()).or_default());
        let mut queued = Self {
            key,
            queue: Some(Arc::clone(&queue)),
            guard: None,
        };
        queued.guard = Some(queue.lock_owned().await);
        queued
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.guard = None;
        let mut queues = queues();
        // Dropped under the lock, so that of several who leave at once the last one sees it.
        self.queue = None;
        let is_last = |queue: &Arc<Queue<()>>| Arc::strong_count(queue) == 1;
        if queues.get(&self.key).is_some_and(is_last) {
            queues.remove(&self.key);
        }
    }
}

fn queues() -> MutexGuard<'static, Queues> {
    // Nothing that holds it can panic halfway.
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn only_the_same_memory_waits_and_nothing_is_left_behind() {
        let take = |space, sha| Queued::take("nowhere", space, sha);
        let soon = Duration::from_millis(20);
        let first = take("team:p", "a").await;
        let other = take("team:q", "a").await;
        let waits = timeout(soon, take("team:p", "a")).await;
        assert!(waits.is_err(), "it is the first one's turn");
        let second = tokio::spawn(take("team:p", "a"));
        drop(first);
        drop(second.await.unwrap());
        drop(other);
        assert!(queues().is_empty());
    }
}
