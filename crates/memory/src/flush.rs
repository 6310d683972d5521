//! The sink of the lane `memory`: brings to the memory server what could not be stored at once.
//!
//! It asks the logbook whether the same text is stored already, asks the memory server about what
//! may have arrived, and only then stores. It never settles and never retries by itself: that is
//! the worker's, and the audits are the database's.

mod message;
mod verdict;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Outcome, PAGE_ENTRIES_MAX, Result};
use consign_worker::{About, Delivery, Sink, Verdict, park::park};
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout_at};

pub use self::verdict::codes;
use self::{
    message::read,
    verdict::{
        database_failed, database_timed_out, deduplicated, failed, found, still_in_doubt, stored,
    },
};
use crate::{
    Audit, AuditFilter, Backend, BackendError, Logbook, MemoryOptions, NewMemory, StoredMemory,
    metrics, turn::Turns,
};

/// In `extra` of the audit of a request that was deferred: whether it may have been stored.
pub(crate) const MAY_BE_STORED: &str = "may_be_stored";

/// Stores what waits in the outbox.
pub struct FlushSink {
    logbook: Arc<dyn Logbook>,
    backend: Arc<dyn Backend>,
    /// How long one call of the memory server may take.
    call_max: Duration,
    /// How often one delivery tries again by itself, before the lane does.
    client_retries: u32,
    turns: Turns,
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
        let twin = self.logbook.check_dedup(&memory.target_space, &sha);
        match timeout_at(ends, twin).await {
            Ok(Ok(Some(found))) if self.backend.may_have(&found) => return deduplicated(&found),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return database_failed(&error),
            Err(_) => return database_timed_out("the logbook did not answer"),
        }
        let doubt = timeout_at(ends, self.is_in_doubt(delivery, memory)).await;
        let mut in_doubt = match doubt {
            Ok(Ok(in_doubt)) => in_doubt,
            Ok(Err(error)) => return database_failed(&error),
            Err(_) => return database_timed_out("the logbook did not answer"),
        };
        for retry in 0..self.client_retries {
            let verdict = self.attempt(memory, in_doubt, ends).await;
            let next = Instant::now() + rest(retry);
            let is_over = matches!(verdict.outcome, Outcome::Delivered | Outcome::Dead);
            if is_over || verdict.about != About::Sink || next >= ends {
                return verdict;
            }
            in_doubt = verdict.outcome == Outcome::Uncertain;
            sleep_until(next).await;
        }
        self.attempt(memory, in_doubt, ends).await
    }

    /// Whether it may have arrived: by an earlier delivery, by the request it came with, or by a
    /// later one for the same memory, of which only the audit knows.
    async fn is_in_doubt(&self, delivery: &Delivery, memory: &NewMemory) -> Result<bool> {
        if delivery.in_doubt || memory.may_be_stored {
            return Ok(true);
        }
        let filter = AuditFilter {
            outbox_id: Some(delivery.message.id.0),
            reason_prefix: Some("openmemory_write_failed:".to_owned()),
            ..AuditFilter::default()
        };
        let audits = self.logbook.audits(&filter, PAGE_ENTRIES_MAX).await?;
        let may_be = |audit: &Audit| {
            let extra = audit.evidence_refs_json.get("extra");
            extra.and_then(|extra| extra.get(MAY_BE_STORED)) == Some(&Value::Bool(true))
        };
        Ok(audits.iter().any(may_be))
    }

    /// Asks if it may be there, then sends it.
    async fn attempt(&self, memory: &NewMemory, in_doubt: bool, ends: Instant) -> Verdict {
        if in_doubt {
            match self.find(memory, ends).await {
                Ok(Some(memory)) => return found(&memory),
                Ok(None) => {}
                // Nothing was sent, and it is as uncertain as before.
                Err(error) => return still_in_doubt(&error),
            }
        }
        match self.store(memory, ends).await {
            Ok(kept) => {
                park("memory.flush_after_store").await;
                stored(&kept)
            }
            Err(error) => failed(&error),
        }
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
            Ok(memory) => self.flush(delivery, &memory).await,
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
