//! The write lock of a memory server: the one place where writers exclude each other.
//!
//! Gateway and flush sink take it through [`WriteLock`] before they call the backend. A memory server
//! has no transaction that spans our audit and its write, and OpenMemory's own transactions interfere
//! with each other, so three things have to be exclusive, each for its own time:
//!
//! | what | among | held for | why |
//! |---|---|---|---|
//! | the server | processes | as long as a process has writes, see [`process`] | a row in the database, [`WriteLockStore`]; without it two processes would pass the dedup check with the same text |
//! | one text | tasks of this process | the request, until its audit has ended | the second request with the same text has to find the first one's result |
//! | one call | tasks of this process | one write call of OpenMemory | its write transactions interfere; audits of other texts are written meanwhile |
//!
//! The last two are one mechanism, [`LocalLock`], with different keys. They are not one lock with the
//! first: a single lock for whole requests would also serialize their audits, and the database lock
//! cannot be taken per call, since a round trip for each would cost more than the call. The embedded
//! backend takes only the text: the database itself keeps a text once.

mod process;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use consign_kernel::{Error, Result};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::{Instant, timeout_at},
};

pub use self::process::release_write_locks;
use self::process::{ProcessGuard, ProcessLock};
use crate::{Backend, BackendError, Logbook, message_key};

/// How long a holder that found the lock taken stays next in line, unless it asks again.
pub const NEXT_HOLDER_TTL: Duration = Duration::from_millis(500);

/// The result of renewing a write lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRenewal {
    /// Renewed.
    Held,
    /// Renewed, and another holder is next in line.
    Wanted,
    /// Not held by this holder: expired, released or taken over.
    Lost,
}

/// The port to the lock that processes share. Unlike everything else in the logbook it need not survive
/// a crash of the database.
#[async_trait]
pub trait WriteLockStore: Send + Sync {
    /// Takes the lock of a destination if it is free, expired or already this holder's, and no other
    /// holder is next in line. Otherwise the holder becomes next, if nobody is, for
    /// [`NEXT_HOLDER_TTL`].
    async fn take_write_lock(&self, destination: &str, holder: &str, ttl: Duration)
    -> Result<bool>;

    /// Extends the lock to `ttl` from now, if it is this holder's.
    async fn renew_write_lock(
        &self,
        destination: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<LockRenewal>;

    /// Releases the lock, if it is this holder's.
    async fn release_write_lock(&self, destination: &str, holder: &str) -> Result<()>;
}

/// Why the write lock was not taken. Nothing was sent.
#[derive(Debug)]
pub(crate) enum LockError {
    /// The database failed.
    Unavailable(Error),
    /// Other writers held it until the deadline.
    TimedOut,
}

impl From<LockError> for BackendError {
    fn from(error: LockError) -> Self {
        Self::Unreachable(match error {
            LockError::Unavailable(error) => error.to_string(),
            LockError::TimedOut => {
                "another process holds the write lock; nothing was sent".to_owned()
            }
        })
    }
}

/// The write lock of one memory server.
pub(crate) struct WriteLock {
    destination: String,
    /// None if the database itself prevents double writes.
    process: Option<Arc<ProcessLock>>,
}

impl WriteLock {
    /// Shared by all writers to that server with this logbook.
    pub(crate) fn new(backend: &dyn Backend, logbook: &Arc<dyn Logbook>) -> Self {
        Self {
            destination: backend.destination().to_owned(),
            process: ProcessLock::of(logbook, backend),
        }
    }

    /// Locks the server for this process and the text for the caller.
    pub(crate) async fn take(
        &self,
        space: &str,
        sha: &str,
        deadline: Instant,
    ) -> Result<WriteGuard, LockError> {
        let key = format!("{} {}", self.destination, message_key(space, sha));
        let text = timeout_at(deadline, LocalLock::take(key)).await;
        let text = text.map_err(|_| LockError::TimedOut)?;
        Ok(WriteGuard {
            _text: Some(text),
            ..self.take_server(deadline).await?
        })
    }

    /// Locks the server for this process.
    pub(crate) async fn take_server(&self, deadline: Instant) -> Result<WriteGuard, LockError> {
        let process = match &self.process {
            Some(process) => match timeout_at(deadline, process.acquire()).await {
                Ok(guard) => Some(guard.map_err(LockError::Unavailable)?),
                Err(_) => return Err(LockError::TimedOut),
            },
            None => None,
        };
        Ok(WriteGuard {
            _process: process,
            _text: None,
        })
    }
}

impl fmt::Debug for WriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteLock")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

/// Releases on drop.
pub(crate) struct WriteGuard {
    _process: Option<ProcessGuard>,
    _text: Option<LocalLock>,
}

type LocalLocks = HashMap<String, Arc<AsyncMutex<()>>>;

static LOCAL_LOCKS: LazyLock<Mutex<LocalLocks>> = LazyLock::new(Mutex::default);

/// A first-in-first-out lock of this process, by key; released on drop.
#[derive(Debug)]
pub(crate) struct LocalLock {
    key: String,
    mutex: Option<Arc<AsyncMutex<()>>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl LocalLock {
    pub(crate) async fn take(key: String) -> Self {
        let mutex = Arc::clone(local_locks().entry(key.clone()).or_default());
        // Constructed before the wait, so that a cancelled wait cleans up as well.
        let mut lock = Self {
            key,
            mutex: Some(Arc::clone(&mutex)),
            guard: None,
        };
        lock.guard = Some(mutex.lock_owned().await);
        lock
    }
}

impl Drop for LocalLock {
    fn drop(&mut self) {
        self.guard = None;
        let mut locks = local_locks();
        // Dropped while the map is locked, so that the last of several sees a count of one.
        self.mutex = None;
        let is_unused = |mutex: &Arc<AsyncMutex<()>>| Arc::strong_count(mutex) == 1;
        if locks.get(&self.key).is_some_and(is_unused) {
            locks.remove(&self.key);
        }
    }
}

fn local_locks() -> MutexGuard<'static, LocalLocks> {
    LOCAL_LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn only_equal_keys_exclude_each_other_and_no_key_is_left_behind() {
        let take = |key: &str| LocalLock::take(key.to_owned());
        let soon = Duration::from_millis(20);
        let first = take("test a").await;
        let other = take("test b").await;
        let waits = timeout(soon, take("test a")).await;
        assert!(waits.is_err(), "the first one holds the lock");
        let second = tokio::spawn(take("test a"));
        drop(first);
        drop(second.await.unwrap());
        drop(other);
        assert!(local_locks().keys().all(|key| !key.starts_with("test ")));
    }
}
