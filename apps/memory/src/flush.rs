//! The sink of the queue `memory`: brings to the memory server what could not be stored at once.
//!
//! It asks the logbook whether the same text was stored already, asks the memory server whether it
//! still has it and about what may have arrived, and only then stores. A memory that is meant for
//! another backend is left to whoever delivers there. It never settles and never retries by itself:
//! that is the worker's, and the audits are the database's.

mod message;
mod verdict;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Outcome, Result};
use consign_worker::{About, Delivery, Sink, Verdict, park::park};
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
    Backend, BackendError, Found, Logbook, MemoryOptions, NewMemory, StoredMemory, metrics,
    turn::Turns,
};

/// Stores what waits in the outbox.
pub struct FlushSink {
    logbook: Arc<dyn Logbook>,
    backend: Arc<dyn Backend>,
    /// Which one it is.
    identity: String,
    /// How long one call of the memory server may take.
    call_max: Duration,
    /// How often one delivery tries again by itself, before the queue does.
    client_retries: u32,
    turns: Turns,
}

/// What became of a memory before.
enum Earlier {
    Nothing,
    /// It may have arrived.
    InDoubt,
    /// It was stored here.
    Stored(Found),
}

impl FlushSink {
    /// A sink that stores into this backend. Gateway and sink of one process should share it.
    pub fn new(
        logbook: Arc<dyn Logbook>,
        backend: Arc<dyn Backend>,
        options: &MemoryOptions,
    ) -> Self {
        Self {
            turns: Turns::at(backend.as_ref(), &logbook),
            identity: backend.identity(),
            logbook,
            backend,
            call_max: Duration::from_secs(options.openmemory_timeout_seconds),
            client_retries: options.openmemory_max_client_retries,
        }
    }

    async fn flush(&self, delivery: &Delivery, memory: &NewMemory) -> Verdict {
        let ends = Instant::now() + own_limit(delivery.timeout);
        let sha = memory.payload_sha();
        // Nobody else stores it meanwhile, neither a request nor a twin.
        let turn = self.turns.take(&memory.target_space, &sha);
        let _turn = match timeout_at(ends, turn).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(error)) => return database_failed(&error),
            Err(_) => {
                let why = "others are still writing; nothing was sent";
                return failed(&BackendError::Unreachable(why.to_owned()));
            }
        };
        let earlier = match timeout_at(ends, self.earlier(delivery, memory, &sha)).await {
            Ok(Ok(earlier)) => earlier,
            Ok(Err(error)) => return database_failed(&error),
            Err(_) => return database_timed_out("the logbook did not answer"),
        };
        let (mut in_doubt, mut is_again) = (false, false);
        match earlier {
            Earlier::Nothing => {}
            Earlier::InDoubt => in_doubt = true,
            Earlier::Stored(found) => match self.has(memory, &found, ends).await {
                Ok(Some(stored)) => {
                    let verdict = deduplicated(&found, &stored);
                    return self.replaced(memory, &stored, verdict, ends).await;
                }
                Ok(None) => is_again = true,
                // Nothing was sent, and it may be there.
                Err(error) => return still_in_doubt(&error),
            },
        }
        for retry in 0..self.client_retries {
            let verdict = self.attempt(memory, (in_doubt, is_again), ends).await;
            let next = Instant::now() + rest(retry);
            let is_over = matches!(verdict.outcome, Outcome::Delivered | Outcome::Dead);
            if is_over || verdict.about != About::Sink || next >= ends {
                return verdict;
            }
            in_doubt = verdict.outcome == Outcome::Uncertain;
            sleep_until(next).await;
        }
        self.attempt(memory, (in_doubt, is_again), ends).await
    }

    /// What became of the same memory before: of an earlier delivery, of the request it came with, or
    /// of another one for the same memory, of which only the audit knows.
    async fn earlier(&self, delivery: &Delivery, memory: &NewMemory, sha: &str) -> Result<Earlier> {
        let (space, here) = (memory.target_space.as_str(), self.identity.as_str());
        let logbook = &self.logbook;
        if let Some(found) = logbook.check_dedup(space, sha, Some(here)).await? {
            return Ok(Earlier::Stored(found));
        }
        let in_doubt = delivery.in_doubt
            || memory.may_be_stored
            || logbook.may_be_stored(space, sha, here).await?;
        Ok(match in_doubt {
            true => Earlier::InDoubt,
            false => Earlier::Nothing,
        })
    }

    /// Asks if it may be there, then sends it. `is_again`: it was stored before, and is gone.
    async fn attempt(
        &self,
        memory: &NewMemory,
        (in_doubt, is_again): (bool, bool),
        ends: Instant,
    ) -> Verdict {
        if in_doubt {
            match self.find(memory, ends).await {
                Ok(Some(stored)) => {
                    return self.replaced(memory, &stored, found(&stored), ends).await;
                }
                Ok(None) => {}
                // Nothing was sent, and it is as uncertain as before.
                Err(error) => return still_in_doubt(&error),
            }
        }
        match self.store(memory, ends).await {
            Ok(kept) => {
                park("memory.flush_after_store").await;
                let verdict = stored(&kept, is_again);
                self.replaced(memory, &kept, verdict, ends).await
            }
            Err(error) => failed(&error),
        }
    }

    /// It is stored, and delivered once the version that it replaces is replaced.
    async fn replaced(
        &self,
        memory: &NewMemory,
        stored: &StoredMemory,
        verdict: Verdict,
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
        self.of_here(verdict)
    }

    /// What was delivered here says so.
    fn of_here(&self, mut verdict: Verdict) -> Verdict {
        if let Some(Value::Object(result)) = &mut verdict.result {
            result.insert("backend".to_owned(), json!(self.identity));
        }
        verdict
    }

    async fn has(
        &self,
        memory: &NewMemory,
        found: &Found,
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
                Some(meant) if meant != self.identity => {
                    misdirected(delivery, meant, &self.identity)
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
fn rest(retry: u32) -> Duration {
    Duration::from_millis(500)
        .saturating_mul(2_u32.saturating_pow(retry))
        .min(Duration::from_secs(10))
}

/// A little less than the worker allows: a verdict of our own tells more than being cut off.
fn own_limit(limit: Duration) -> Duration {
    limit - (limit / 20).min(Duration::from_millis(500))
}
