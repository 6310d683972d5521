//! Whose turn it is to write a memory.
//!
//! The same text for the same space is written by one task of this process at a time: whoever comes
//! second waits, and then finds it stored. Writes of different memories do not wait here.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

use crate::{Backend, message_key};

type Turns = HashMap<String, Arc<Queue<()>>>;

static TURNS: LazyLock<Mutex<Turns>> = LazyLock::new(Mutex::default);

/// A place in the queue for one memory; whoever drops it leaves.
#[derive(Debug)]
pub(crate) struct Turn {
    key: String,
    queue: Option<Arc<Queue<()>>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turn {
    /// Waits until nobody else writes this memory to this backend.
    pub(crate) async fn take(backend: &dyn Backend, space: &str, sha: &str) -> Self {
        let destination = backend.destination();
        let key = format!("{destination} {}", message_key(space, sha));
        let queue = Arc::clone(turns().entry(key.clone()).or_default());
        let mut turn = Self {
            key,
            queue: Some(Arc::clone(&queue)),
            guard: None,
        };
        turn.guard = Some(queue.lock_owned().await);
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.guard = None;
        let mut turns = turns();
        // Dropped under the lock, so that of several who leave at once the last one sees it.
        self.queue = None;
        let is_last = |queue: &Arc<Queue<()>>| Arc::strong_count(queue) == 1;
        if turns.get(&self.key).is_some_and(is_last) {
            turns.remove(&self.key);
        }
    }
}

fn turns() -> MutexGuard<'static, Turns> {
    // Nothing that holds it can panic halfway.
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;
    use tokio::time::timeout;

    use super::*;
    use crate::{BackendError, Hit, NewMemory, Search, StoredMemory};

    #[derive(Debug)]
    struct Nowhere;

    #[async_trait]
    impl Backend for Nowhere {
        fn kind(&self) -> &'static str {
            "nowhere"
        }
        fn destination(&self) -> &str {
            "nowhere"
        }
        async fn store(&self, _: &NewMemory, _: Duration) -> Result<StoredMemory, BackendError> {
            Err(BackendError::Unreachable("nobody stores".into()))
        }
        async fn find(
            &self,
            _: &NewMemory,
            _: Duration,
        ) -> Result<Option<StoredMemory>, BackendError> {
            Ok(None)
        }
        async fn search(&self, _: &Search, _: Duration) -> Result<Vec<Hit>, BackendError> {
            Ok(Vec::new())
        }
        async fn check(&self, _: Duration) -> Result<Vec<String>, BackendError> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn only_the_same_memory_waits_and_nothing_is_left_behind() {
        let soon = Duration::from_millis(20);
        let first = Turn::take(&Nowhere, "team:p", "a").await;
        let other = Turn::take(&Nowhere, "team:q", "a").await;
        let waits = timeout(soon, Turn::take(&Nowhere, "team:p", "a")).await;
        assert!(waits.is_err(), "it is the first one's turn");
        let second = tokio::spawn(Turn::take(&Nowhere, "team:p", "a"));
        drop(first);
        drop(second.await.unwrap());
        drop(other);
        assert!(turns().is_empty());
    }
}
