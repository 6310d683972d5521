//! The write itself: audited before it is tried, and ended whatever comes of it.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Certainty, Error};
use consign_worker::park::park;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{error, warn};

use super::{Call, DEDUP_HIT, Stale, StoreAnswer, audit::Draft, context, decide::Grounds};
use crate::{
    Action, AuditEnd, AuditStatus, BackendError, Found, NewMemory, Opened, Opening, StoredMemory,
    audit_json::{StoreAudit, shown_error},
    consume::Errand,
    metrics,
};

/// The part of the budget that is kept for recording what came of it, at most.
const RESERVE_MAX: Duration = Duration::from_millis(400);
/// How much longer than its budget a backend may take before it is given up.
const OVERTIME: Duration = Duration::from_millis(20);

/// A write that the policy has nothing against.
pub(super) struct Write {
    pub(super) memory: NewMemory,
    pub(super) sha: String,
    /// What the policy made of it.
    pub(super) action: Action,
    /// Why.
    pub(super) reason: String,
    pub(super) draft: Draft,
}

impl Write {
    /// Its audit.
    pub(super) fn audit(&self) -> StoreAudit<'_> {
        self.draft.decided(self.action, &self.reason)
    }
}

impl Call {
    /// Stores what the policy has nothing against.
    pub(super) async fn write(
        self: &Arc<Self>,
        write: Write,
        grounds: Grounds,
    ) -> Result<StoreAnswer, Stale> {
        let backend = self.service.backend();
        if backend.is_in(self.service.logbook())
            && let Some(answer) = self.keep(&write, &grounds).await?
        {
            return Ok(answer);
        }
        let ends = self.backend_deadline();
        let turn = self.service.turns();
        let turn = turn.take(&write.memory.target_space, &write.sha);
        let turn = match timeout_at(ends, turn).await {
            Ok(Ok(turn)) => Some(turn),
            Ok(Err(error)) => return Ok(self.unread(&error)),
            // Whoever has the turn may hang; then this one is deferred like theirs.
            Err(_) => None,
        };
        let has_turn = turn.is_some();
        self.hold(turn);
        match self.open(&write, &grounds, false).await {
            Ok(Opened::Pending | Opened::Kept(_)) => {}
            Ok(Opened::Known(found)) => return Ok(self.known(&write, &found).await),
            Ok(Opened::Stale) => return Err(Stale),
            Err(error) => {
                return Ok(self.unaudited(&write.memory.target_space, &write.sha, &error));
            }
        }
        park("memory.after_pending_audit").await;
        let tried = match has_turn {
            true => self.try_backend(&write.memory, ends).await,
            false => {
                let why = "others are still writing; nothing was sent";
                Err(BackendError::Unreachable(why.to_owned()))
            }
        };
        park("memory.after_backend").await;
        Ok(match tried {
            Ok(stored) => self.stored(&write, &stored).await,
            Err(error) if error.is_refusal() && !self.is_kept(&error) => {
                self.refused(&write, &error).await
            }
            Err(error) => self.defer(write, &error).await,
        })
    }

    /// Begins the write, unless the backend has it.
    async fn open(&self, write: &Write, grounds: &Grounds, is_kept: bool) -> Result<Opened, Error> {
        let Grounds { settings, user_id } = grounds.clone();
        let mut opening = Opening {
            audit: write.audit().audit(AuditStatus::Pending),
            settings,
            user_id,
            is_deduplicated: true,
            kept: is_kept.then(|| write.memory.clone()),
        };
        let logbook = self.service.logbook();
        let opened = self.in_time("begin a write", logbook.open_write(&opening));
        match opened.await? {
            Opened::Known(found) if !self.service.backend().may_have(&found) => {
                opening.is_deduplicated = false;
                let opened = logbook.open_write(&opening);
                self.in_time("begin a write", opened).await
            }
            opened => Ok(opened),
        }
    }

    /// Stores a memory in the logbook itself, in one transaction with its audit. None: it takes two
    /// phases to say what is wrong with it.
    async fn keep(&self, write: &Write, grounds: &Grounds) -> Result<Option<StoreAnswer>, Stale> {
        let since = Instant::now();
        let opened = self.open(write, grounds, true).await;
        let kind = self.service.backend().kind();
        metrics::backend_call(kind, "store", since, opened.is_ok());
        park("memory.after_backend").await;
        let space = &write.memory.target_space;
        match opened {
            Ok(Opened::Kept(kept)) => Ok(Some(StoreAnswer {
                memory_id: Some(kept.memory_id),
                ..self.written(write.action, space)
            })),
            Ok(Opened::Known(found)) => Ok(Some(self.known(write, &found).await)),
            Ok(Opened::Stale) => Err(Stale),
            Err(error) if error.certainty() == Certainty::Unknown => {
                let message = format!(
                    "the logbook does not answer; the memory may be stored, with its audit: {error}"
                );
                Ok(Some(StoreAnswer {
                    message: Some(message),
                    ..self.unaudited(space, &write.sha, &error)
                }))
            }
            Err(error) if error.is_retryable() => {
                Ok(Some(self.unaudited(space, &write.sha, &error)))
            }
            Ok(Opened::Pending) | Err(_) => Ok(None),
        }
    }

    /// Until when the memory server may take. What is left of the budget is for the outbox.
    fn backend_deadline(&self) -> Instant {
        let budget = self.service.options().gateway_budget();
        self.since + budget - (budget / 8).min(RESERVE_MAX)
    }

    async fn try_backend(
        &self,
        memory: &NewMemory,
        ends: Instant,
    ) -> Result<StoredMemory, BackendError> {
        let budget = ends.saturating_duration_since(Instant::now());
        let backend = self.service.backend();
        if self.errand.as_ref().is_some_and(Errand::is_asked_first)
            && let Some(found) = backend.find(memory, budget).await.map_err(in_doubt)?
        {
            return Ok(found);
        }
        let budget = ends.saturating_duration_since(Instant::now());
        let since = Instant::now();
        let stored = timeout(budget + OVERTIME, backend.store(memory, budget)).await;
        let stored = stored.unwrap_or_else(|_| {
            let why = format!("no answer within {} ms", budget.as_millis());
            Err(BackendError::Unknown(why))
        });
        metrics::backend_call(backend.kind(), "store", since, stored.is_ok());
        stored
    }
}

impl Call {
    /// It was stored before, by this text's first request or by the outbox.
    async fn known(&self, write: &Write, found: &Found) -> StoreAnswer {
        let audit = write.draft.known(found).audit(AuditStatus::Success);
        let written = self.service.logbook().insert_audit(&audit);
        if let Err(error) = self.in_time("write an audit", written).await {
            return self.unaudited(&write.memory.target_space, &write.sha, &error);
        }
        StoreAnswer {
            memory_id: found.memory_id.clone(),
            message: Some(format!(
                "{DEDUP_HIT}: the same text is stored in this space already"
            )),
            ..self.written(Action::Allow, &write.memory.target_space)
        }
    }

    /// The memory server has it. That stands whatever becomes of its audit: should it not be
    /// ended now, reconciling ends it, and a repeated request finds the memory again.
    async fn stored(self: &Arc<Self>, write: &Write, stored: &StoredMemory) -> StoreAnswer {
        let end = write.audit().stored(&stored.memory_id);
        let message = match self.finalize(end).await {
            true => None,
            false => Some(format!(
                "stored, but its audit {} has not been ended; reconciling will do so",
                self.correlation
            )),
        };
        StoreAnswer {
            memory_id: Some(stored.memory_id.clone()),
            is_audit_open: message.is_some(),
            message,
            ..self.written(write.action, &write.memory.target_space)
        }
    }

    /// Whether a memory is kept although the memory server refuses it: nobody is there who could be
    /// told and write another one. It dies in the outbox, where it can be seen and redriven.
    fn is_kept(&self, error: &BackendError) -> bool {
        self.errand.is_some() && error.is_about_content()
    }

    /// The memory server will never take it. Trying again would not help, so nothing is kept.
    async fn refused(self: &Arc<Self>, write: &Write, error: &BackendError) -> StoreAnswer {
        self.finalize(write.audit().refused(error)).await;
        let who = match error.is_about_us() {
            true => "the memory server does not accept the gateway",
            false => "the memory server refuses this memory",
        };
        let shown = shown_error(&error.to_string());
        let message = format!("{who} ({shown}); trying again would not help, nothing was kept");
        StoreAnswer {
            context: Some(context(&write.memory.target_space, &write.sha)),
            ..self.error("OPENMEMORY_REFUSED", message, false)
        }
    }

    /// Ends the audit; whether it was pending and has ended now.
    pub(super) async fn finalize(self: &Arc<Self>, end: AuditEnd) -> bool {
        let call = Arc::clone(self);
        let ending = async move {
            let correlation_id = call.correlation.as_str();
            let ended = call.service.logbook().finalize_audit(correlation_id, &end);
            match ended.await {
                Ok(true) => true,
                Ok(false) => {
                    warn!(
                        correlation_id,
                        "an audit had been ended by somebody else, or is not there"
                    );
                    false
                }
                Err(error) => {
                    error!(correlation_id, %error, "an audit could not be ended; reconciling will do so");
                    false
                }
            }
        };
        self.written_in_time(ending).await.unwrap_or(false)
    }
}

/// What could not be asked for may be there all the same, even if nothing left now.
fn in_doubt(error: BackendError) -> BackendError {
    match error {
        BackendError::Unreachable(why) => BackendError::Unknown(why),
        error => error,
    }
}
