//! The lock of a memory server that processes share through the database.
//!
//! A process holds it while it has writes and no other process is next in line, so a busy process that
//! is alone renews it ten times a second instead of taking it for each write. A background task takes,
//! renews and releases it, and ends when there are no more writers: a caller that is cancelled leaves
//! nothing behind.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use consign_kernel::{Error, Result, hex};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep, timeout_at},
};
use tracing::{debug, warn};

use crate::{Backend, LockRenewal, Logbook};

/// How long a dead process blocks the others. Shorter than a request's budget.
const TTL: Duration = Duration::from_secs(2);
/// How often the lock is renewed, which also shows whether another process is next in line.
const RENEW_EVERY: Duration = Duration::from_millis(100);
/// How long the lock is held without writers: the next write may follow soon.
const IDLE_MAX: Duration = Duration::from_secs(1);
/// The same while other processes write there too.
const IDLE_MAX_CONTENDED: Duration = Duration::from_millis(20);
/// How long the lock counts as contended after another process was seen.
const CONTENDED_FOR: Duration = Duration::from_secs(30);
/// Delay between two attempts to take the lock, at first and at most.
const RETRY_FIRST: Duration = Duration::from_millis(1);
const RETRY_LAST: Duration = Duration::from_millis(10);
/// Concurrent writers of a process: they write audits in parallel while one of them calls the server.
/// More would keep other processes waiting.
const WRITERS_MAX: usize = 8;

type ProcessLocks = HashMap<(usize, String), Weak<ProcessLock>>;

static PROCESS_LOCKS: LazyLock<Mutex<ProcessLocks>> = LazyLock::new(Mutex::default);

/// The lock of one memory server, shared by all tasks of this process that use one logbook.
pub(crate) struct ProcessLock {
    logbook: Arc<dyn Logbook>,
    destination: String,
    /// Identifies this process in the database.
    holder: String,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
    /// Incremented when the state changes.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The lock is this process's until then; none: it is not held.
    held_until: Option<Instant>,
    /// The lock will be released; no writer is admitted.
    is_releasing: bool,
    /// The process is shutting down: the lock is not held without writers.
    is_shutting_down: bool,
    /// When the last writer finished.
    idle_since: Option<Instant>,
    /// When another process last held the lock or was next in line.
    contended_at: Option<Instant>,
    /// Admitted writers.
    writing: usize,
    /// Writers that wait for admission.
    waiting: usize,
    /// Whether the [`Keeper`] task runs.
    has_keeper: bool,
    /// Why the lock could not be taken.
    failure: Option<String>,
    failures: u64,
}

impl State {
    /// When to release the lock; none: there are writers.
    fn release_at(&self) -> Option<Instant> {
        let is_contended = self
            .contended_at
            .is_some_and(|at| at.elapsed() < CONTENDED_FOR);
        let idle_max = if self.is_releasing || self.is_shutting_down {
            Duration::ZERO
        } else if is_contended {
            IDLE_MAX_CONTENDED
        } else {
            IDLE_MAX
        };
        let since = self.idle_since.filter(|_| self.writing == 0)?;
        Some(since + idle_max)
    }
}

/// An admitted writer; leaves on drop.
pub(crate) struct ProcessGuard {
    lock: Arc<ProcessLock>,
    _permit: OwnedSemaphorePermit,
}

impl ProcessLock {
    /// The lock shared by all writers of this process; none if the backend needs no lock.
    pub(crate) fn of(logbook: &Arc<dyn Logbook>, backend: &dyn Backend) -> Option<Arc<Self>> {
        if !backend.needs_write_lock() {
            return None;
        }
        // The lock owns its logbook, so the address stays unique while the lock exists.
        let address = Arc::as_ptr(logbook).cast::<()>() as usize;
        let key = (address, backend.destination().to_owned());
        let mut locks = PROCESS_LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(&key).and_then(Weak::upgrade) {
            return Some(lock);
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(Self {
            logbook: Arc::clone(logbook),
            destination: key.1.clone(),
            holder: new_holder(),
            permits: Arc::new(Semaphore::new(WRITERS_MAX)),
            state: Mutex::default(),
            changes: watch::Sender::new(0),
        });
        locks.insert(key, Arc::downgrade(&lock));
        Some(lock)
    }

    /// Waits until this process holds the lock and admits the caller.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Result<ProcessGuard> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.expect("invariant: the semaphore is never closed");
        let mut changes = self.changes.subscribe();
        let waiter = Waiter::new(self);
        let failures = self.state().failures;
        loop {
            changes.mark_unchanged();
            if self.admits() {
                break;
            }
            if let Some(error) = self.failure_since(failures) {
                return Err(error);
            }
            self.start_keeper();
            // The sender lives as long as this lock.
            drop(changes.changed().await);
        }
        drop(waiter);
        Ok(ProcessGuard {
            lock: Arc::clone(self),
            _permit: permit,
        })
    }

    /// Admits a writer, if this process holds the lock.
    fn admits(&self) -> bool {
        let mut state = self.state();
        let is_held = state.held_until.is_some_and(|until| until > Instant::now());
        let is_admitted = is_held && !state.is_releasing;
        state.writing += usize::from(is_admitted);
        is_admitted
    }

    fn failure_since(&self, failures: u64) -> Option<Error> {
        let state = self.state();
        let why = state
            .failure
            .clone()
            .filter(|_| state.failures > failures)?;
        Some(Error::Unavailable {
            attempted: "take the write lock",
            certainty: consign_kernel::Certainty::Definite,
            source: why.into(),
        })
    }

    /// Starts the [`Keeper`] task, unless it runs.
    fn start_keeper(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.state().has_keeper, true) {
            let keeper = Keeper {
                lock: Arc::clone(self),
                has_ended: false,
            };
            tokio::spawn(keeper.run());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        let mut state = self.lock.state();
        state.writing -= 1;
        state.idle_since = Some(Instant::now());
        drop(state);
        self.lock.changed();
    }
}

/// Counts a waiting writer until it is admitted, fails or is cancelled.
struct Waiter<'l>(&'l ProcessLock);

impl<'l> Waiter<'l> {
    fn new(lock: &'l ProcessLock) -> Self {
        lock.state().waiting += 1;
        Self(lock)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// The task that takes, renews and releases the lock.
struct Keeper {
    lock: Arc<ProcessLock>,
    has_ended: bool,
}

/// If the runtime drops the task, the next writer starts another one.
impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut state = self.lock.state();
            (state.has_keeper, state.is_releasing, state.held_until) = (false, false, None);
            drop(state);
            self.lock.changed();
        }
    }
}

impl Keeper {
    async fn run(mut self) {
        while !self.has_ended {
            let taken = self.take().await;
            match &taken {
                Ok(true) => self.hold().await,
                Ok(false) => {}
                Err(error) => self.fail(error),
            }
            let mut state = self.lock.state();
            // Checked and cleared under one lock: a writer that arrived in between would wait forever.
            if state.waiting == 0 || taken.is_err() {
                state.has_keeper = false;
                drop(state);
                self.has_ended = true;
                self.lock.changed();
            }
        }
    }

    /// Retries until the lock is taken, or no writer waits any more.
    async fn take(&self) -> Result<bool> {
        let ProcessLock {
            logbook,
            destination,
            holder,
            ..
        } = &*self.lock;
        let mut delay = RETRY_FIRST;
        while self.lock.state().waiting > 0 {
            let since = Instant::now();
            if logbook.take_write_lock(destination, holder, TTL).await? {
                let mut state = self.lock.state();
                state.held_until = Some(since + TTL);
                // If the waiting writers are cancelled, the lock is released like any idle one.
                state.idle_since = Some(Instant::now());
                drop(state);
                self.lock.changed();
                return Ok(true);
            }
            self.lock.state().contended_at = Some(Instant::now());
            sleep(delay).await;
            delay = (delay * 2).min(RETRY_LAST);
        }
        Ok(false)
    }

    /// Renews the lock while there are writers and no other process is next in line.
    async fn hold(&self) {
        let mut renew_at = Instant::now() + RENEW_EVERY;
        loop {
            self.wait_until(renew_at).await;
            let (is_idle, is_releasing) = {
                let mut state = self.lock.state();
                let is_due = state.release_at().is_some_and(|at| at <= Instant::now());
                // From here on new writers wait until the lock is taken again.
                state.is_releasing |= is_due && state.waiting == 0;
                (state.writing == 0, state.is_releasing)
            };
            if is_idle && is_releasing {
                return self.release().await;
            }
            if !self.renew().await {
                return self.lose();
            }
            renew_at = Instant::now() + RENEW_EVERY;
        }
    }

    /// Waits until the lock has to be renewed or released.
    async fn wait_until(&self, renew_at: Instant) {
        let mut changes = self.lock.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let release_at = self.lock.state().release_at();
            let ends = release_at.map_or(renew_at, |at| at.min(renew_at));
            if timeout_at(ends, changes.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Whether this process still holds the lock.
    async fn renew(&self) -> bool {
        let ProcessLock {
            logbook,
            destination,
            holder,
            ..
        } = &*self.lock;
        let since = Instant::now();
        match logbook.renew_write_lock(destination, holder, TTL).await {
            Ok(LockRenewal::Lost) => false,
            Ok(renewal) => {
                let mut state = self.lock.state();
                state.held_until = Some(since + TTL);
                if renewal == LockRenewal::Wanted {
                    state.is_releasing = true;
                    state.contended_at = Some(Instant::now());
                }
                drop(state);
                // Writers that arrived after `held_until` had passed wait for this.
                self.lock.changed();
                true
            }
            Err(error) => {
                debug!(%error, "the write lock could not be renewed");
                let held_until = self.lock.state().held_until;
                held_until.is_some_and(|until| until > Instant::now())
            }
        }
    }

    async fn release(&self) {
        let ProcessLock {
            logbook,
            destination,
            holder,
            ..
        } = &*self.lock;
        if let Err(error) = logbook.release_write_lock(destination, holder).await {
            debug!(%error, "the write lock could not be released; it expires");
        }
        self.lose();
    }

    fn lose(&self) {
        let mut state = self.lock.state();
        (state.held_until, state.is_releasing) = (None, false);
        drop(state);
        self.lock.changed();
    }

    /// Fails every waiting writer.
    fn fail(&self, error: &Error) {
        warn!(%error, "the write lock could not be taken");
        let mut state = self.lock.state();
        state.failure = Some(error.to_string());
        state.failures += 1;
        drop(state);
        self.lock.changed();
    }
}

/// Releases every write lock of this process that has no writers, so that other processes need not wait
/// for its expiry. For the shutdown of a process.
pub async fn release_write_locks() {
    let locks: Vec<_> = {
        let locks = PROCESS_LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        locks.values().filter_map(Weak::upgrade).collect()
    };
    let ends = Instant::now() + TTL;
    for lock in locks {
        let mut changes = lock.changes.subscribe();
        lock.state().is_shutting_down = true;
        lock.changed();
        let is_released =
            async { while lock.state().has_keeper && changes.changed().await.is_ok() {} };
        // A lock that is not released in time expires.
        drop(timeout_at(ends, is_released).await);
    }
}

fn new_holder() -> String {
    let mut bytes = [0; 8];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("invariant: the system has random numbers");
    format!("{}-{}", std::process::id(), hex(&bytes))
}
