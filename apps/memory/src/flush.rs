//! The sink of the queue `memory`: stores deferred memories in the memory server.
//!
//! A delivery first checks the logbook for the same text, asks the memory server to confirm a hit or an
//! earlier attempt with an unknown result, and only then stores. A message for another backend is left
//! to a worker of that backend. The worker settles and retries; the database writes the audits, in the
//! transaction of the outcome.

mod message;
mod verdict;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Outcome, Result};
use consign_worker::{About, Delivery, Sink, Verdict, failpoint::failpoint};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout_at};

pub use self::verdict::codes;
use self::{
    message::read,
    verdict::{
        database_failed, database_timed_out, deduplicated, failed, found, misdirected,
        still_in_doubt, stored,
    },
};
use crate::{
    Backend, BackendError, KnownMemory, Logbook, MemoryOptions, NewMemory, StoredMemory, metrics,
    write_lock::{LockError, WriteLock},
};

/// Delivers the messages of the queue `memory`.
pub struct FlushSink {
    logbook: Arc<dyn Logbook>,
    backend: Arc<dyn Backend>,
    /// The backend's identity, which messages and audits name.
    identity: String,
    /// Timeout of one call of the memory server.
    call_max: Duration,
    /// Retries within one delivery, before those of the queue.
    client_retries: u32,
    write_lock: WriteLock,
}

/// The result of earlier writes of the same text to this backend.
enum PriorOutcome {
    None,
    /// Unknown: the backend may have it.
    InDoubt,
    Stored(KnownMemory),
}

impl FlushSink {
    /// A sink for a backend. Gateway and sink of one process should share it.
    pub fn new(
        logbook: Arc<dyn Logbook>,
        backend: Arc<dyn Backend>,
        options: &MemoryOptions,
    ) -> Self {
        Self {
            write_lock: WriteLock::new(backend.as_ref(), &logbook),
            identity: backend.identity(),
            logbook,
            backend,
            call_max: Duration::from_secs(options.openmemory_timeout_seconds),
            client_retries: options.openmemory_max_client_retries,
        }
    }

    async fn flush(&self, delivery: &Delivery, memory: &NewMemory) -> Verdict {
        let ends = Instant::now() + deadline_within(delivery.timeout);
        let sha = memory.payload_sha();
        let lock = self.write_lock.take(&memory.target_space, &sha, ends);
        let _guard = match lock.await {
            Ok(guard) => guard,
            Err(LockError::Unavailable(error)) => return database_failed(&error),
            Err(error @ LockError::TimedOut) => return failed(&error.into()),
        };
        let prior = match timeout_at(ends, self.prior_outcome(delivery, memory, &sha)).await {
            Ok(Ok(prior)) => prior,
            Ok(Err(error)) => return database_failed(&error),
            Err(_) => return database_timed_out("the logbook did not answer"),
        };
        let (mut in_doubt, mut is_again) = (false, false);
        match prior {
            PriorOutcome::None => {}
            PriorOutcome::InDoubt => in_doubt = true,
            PriorOutcome::Stored(found) => match self.has(memory, &found, ends).await {
                Ok(Some(stored)) => {
                    let verdict = deduplicated(&found, &stored);
                    return self.complete(memory, &stored, verdict, ends).await;
                }
                Ok(None) => is_again = true,
                Err(error) => return still_in_doubt(&error),
            },
        }
        for retry in 0..self.client_retries {
            let verdict = self.attempt(memory, (in_doubt, is_again), ends).await;
            let next = Instant::now() + retry_delay(retry);
            let is_over = matches!(verdict.outcome, Outcome::Delivered | Outcome::Dead);
            if is_over || verdict.about != About::Sink || next >= ends {
                return verdict;
            }
            in_doubt = verdict.outcome == Outcome::Uncertain;
            sleep_until(next).await;
        }
        self.attempt(memory, (in_doubt, is_again), ends).await
    }

    /// The result of an earlier delivery, of the request that deferred the memory, or of another request
    /// with the same text, which only its audit records.
    async fn prior_outcome(
        &self,
        delivery: &Delivery,
        memory: &NewMemory,
        sha: &str,
    ) -> Result<PriorOutcome> {
        let (space, here) = (memory.target_space.as_str(), self.identity.as_str());
        let logbook = &self.logbook;
        if let Some(found) = logbook.check_dedup(space, sha, Some(here)).await? {
            return Ok(PriorOutcome::Stored(found));
        }
        let in_doubt = delivery.in_doubt
            || memory.may_be_stored
            || logbook.may_be_stored(space, sha, here).await?;
        Ok(if in_doubt {
            PriorOutcome::InDoubt
        } else {
            PriorOutcome::None
        })
    }

    /// Stores the memory, unless it is in doubt and found. `is_again`: the backend has lost it.
    async fn attempt(
        &self,
        memory: &NewMemory,
        (in_doubt, is_again): (bool, bool),
        ends: Instant,
    ) -> Verdict {
        if in_doubt {
            match self.find(memory, ends).await {
                Ok(Some(stored)) => {
                    return self.complete(memory, &stored, found(&stored), ends).await;
                }
                Ok(None) => {}
                Err(error) => return still_in_doubt(&error),
            }
        }
        match self.store(memory, ends).await {
            Ok(kept) => {
                failpoint("memory.flush_after_store").await;
                let verdict = stored(&kept, is_again);
                self.complete(memory, &kept, verdict, ends).await
            }
            Err(error) => failed(&error),
        }
    }

    /// Completes a delivery: replaces the superseded version and names the backend in the result.
    async fn complete(
        &self,
        memory: &NewMemory,
        stored: &StoredMemory,
        mut verdict: Verdict,
        ends: Instant,
    ) -> Verdict {
        if let Some(old) = memory.supersedes.as_deref() {
            let replaced = self
                .backend
                .supersede(old, &stored.memory_id, self.budget(ends));
            if let Err(error) = replaced.await {
                return still_in_doubt(&error);
            }
        }
        if let Some(Value::Object(result)) = &mut verdict.result {
            result.insert("backend".to_owned(), json!(self.identity));
        }
        verdict
    }

    async fn has(
        &self,
        memory: &NewMemory,
        found: &KnownMemory,
        ends: Instant,
    ) -> Result<Option<StoredMemory>, BackendError> {
        let since = Instant::now();
        let memory_id = found.memory_id.as_deref();
        let has = self.backend.has(memory, memory_id, self.budget(ends)).await;
        metrics::backend_call(self.backend.kind(), "find", since, has.is_ok());
        has
    }

    async fn find(
        &self,
        memory: &NewMemory,
        ends: Instant,
    ) -> Result<Option<StoredMemory>, BackendError> {
        let budget = self.budget(ends);
        let since = Instant::now();
        let found = self.backend.find(memory, budget).await;
        metrics::backend_call(self.backend.kind(), "find", since, found.is_ok());
        found
    }

    async fn store(&self, memory: &NewMemory, ends: Instant) -> Result<StoredMemory, BackendError> {
        let budget = self.budget(ends);
        let since = Instant::now();
        let stored = self.backend.store(memory, budget).await;
        metrics::backend_call(self.backend.kind(), "store", since, stored.is_ok());
        stored
    }

    fn budget(&self, ends: Instant) -> Duration {
        let left = ends.saturating_duration_since(Instant::now());
        left.min(self.call_max)
    }
}

impl fmt::Debug for FlushSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlushSink")
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for FlushSink {
    fn kind(&self) -> &'static str {
        self.backend.kind()
    }

    fn destination(&self) -> &str {
        self.backend.destination()
    }

    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        let verdict = match read(&delivery.message) {
            Ok(memory) => match memory.backend.as_deref() {
                Some(backend) if backend != self.identity => {
                    misdirected(delivery, backend, &self.identity)
                }
                _ => self.flush(delivery, &memory).await,
            },
            Err(why) => Verdict::failed(Outcome::Dead, About::Message, codes::MALFORMED, why),
        };
        metrics::flushed(&verdict);
        verdict
    }
}

/// Half a second, doubling to ten.
fn retry_delay(retry: u32) -> Duration {
    Duration::from_millis(500)
        .saturating_mul(2_u32.saturating_pow(retry))
        .min(Duration::from_secs(10))
}

/// Slightly less than the worker's timeout: a verdict of the sink is more precise than a timeout.
fn deadline_within(limit: Duration) -> Duration {
    limit - (limit / 20).min(Duration::from_millis(500))
}
