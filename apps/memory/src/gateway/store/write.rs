//! Step 4: the write. Its audit is pending before the memory server is called, and ends whatever the
//! result: the memory is stored, refused or deferred.

mod defer;
mod finish;

use std::{sync::Arc, time::Duration};

use consign_kernel::{Certainty, Error};
use consign_worker::failpoint::failpoint;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{StaleFacts, StoreAnswer, StoreCall, WritePlan, authorize::Facts, context};
use crate::{
    Action, AuditEnd, AuditStatus, BackendError, KnownMemory, NewMemory, OpenResult, Opening,
    StoredMemory, audit_json::shown_error, gateway::DEDUP_HIT, metrics, write_lock::LockError,
};

/// The part of the budget reserved for recording the result, at most.
const RESERVE_MAX: Duration = Duration::from_millis(400);
/// How much longer than its budget a backend call may take before it is abandoned.
const OVERTIME: Duration = Duration::from_millis(20);

/// What the logbook and the backend know about the memory before it is sent.
enum PriorState {
    /// Nothing more to do: it is stored, or cannot be audited.
    Answered(Box<StoreAnswer>),
    /// Never sent to this backend.
    New,
    /// An earlier request or row may have stored it.
    InDoubt,
    /// Stored before, and lost by the backend since.
    Lost,
    /// Stored before, and the backend does not answer whether it still has it.
    Unconfirmed(BackendError),
}

impl StoreCall {
    /// Executes a plan. Fails if its facts were cached and are out of date.
    pub(super) async fn write(
        self: &Arc<Self>,
        mut plan: WritePlan,
        facts: &Facts,
    ) -> Result<StoreAnswer, StaleFacts> {
        let backend = self.service.backend();
        if backend.is_in(self.service.logbook())
            && let Some(answer) = self.keep(&plan, facts).await?
        {
            return Ok(answer);
        }
        let ends = self.backend_deadline();
        let lock = self.service.write_lock();
        let guard = match lock.take(&plan.memory.target_space, &plan.sha, ends).await {
            Ok(guard) => Some(guard),
            Err(LockError::Unavailable(error)) => return Ok(self.unavailable(&error)),
            // The holder may hang; then this memory is deferred like the holder's.
            Err(LockError::TimedOut) => None,
        };
        let is_locked = guard.is_some();
        self.set_guard(guard);
        let prior = match self.begin(&mut plan, facts, ends).await? {
            PriorState::Answered(answer) => return Ok(*answer),
            prior => prior,
        };
        failpoint("memory.after_pending_audit").await;
        let result = match prior {
            PriorState::Unconfirmed(error) => Err(unknown_result(error)),
            prior if is_locked => {
                let in_doubt = matches!(prior, PriorState::InDoubt);
                self.send(&plan.memory, in_doubt, ends).await
            }
            PriorState::InDoubt => Err(unknown_result(LockError::TimedOut.into())),
            _ => Err(LockError::TimedOut.into()),
        };
        failpoint("memory.after_backend").await;
        Ok(match result {
            Ok(stored) => self.stored(&plan, &stored).await,
            Err(error) if error.is_refusal() && !self.is_deferred_anyway(&error) => {
                self.refused(&plan, &error).await
            }
            Err(error) => self.defer(plan, &error).await,
        })
    }

    /// Stores a memory of the embedded backend in one transaction with its audit. None: storing it in
    /// two phases gives the precise error.
    async fn keep(
        self: &Arc<Self>,
        plan: &WritePlan,
        facts: &Facts,
    ) -> Result<Option<StoreAnswer>, StaleFacts> {
        let since = Instant::now();
        let opening = Opening {
            kept: Some(plan.memory.clone()),
            ..opening(plan, facts, true)
        };
        let opened = self.open(plan, opening).await;
        let kind = self.service.backend().kind();
        metrics::backend_call(kind, "store", since, opened.is_ok());
        failpoint("memory.after_backend").await;
        let unaudited = |error: &Error| self.unaudited(&plan.memory.target_space, &plan.sha, error);
        Ok(match opened {
            Ok(OpenResult::Kept(kept)) => Some(self.written(plan, Some(&kept.memory_id), None)),
            Ok(OpenResult::Known(found)) => {
                let memory_id = found.memory_id.as_deref();
                Some(self.deduplicated(plan, &found, memory_id).await)
            }
            Ok(OpenResult::Stale) => return Err(StaleFacts),
            Err(error) if error.certainty() == Certainty::Unknown => {
                let message = format!(
                    "the logbook does not answer; the memory may be stored, with its audit: {error}"
                );
                Some(StoreAnswer {
                    message: Some(message),
                    ..unaudited(&error)
                })
            }
            Err(error) if error.is_retryable() => Some(unaudited(&error)),
            Ok(OpenResult::Pending { .. }) | Err(_) => None,
        })
    }

    /// Writes the pending audit, unless the backend confirms that it has the memory.
    async fn begin(
        self: &Arc<Self>,
        plan: &mut WritePlan,
        facts: &Facts,
        ends: Instant,
    ) -> Result<PriorState, StaleFacts> {
        let (mut prior, mut is_deduplicated) = (PriorState::New, true);
        loop {
            let opening = opening(plan, facts, is_deduplicated);
            let found = match self.open(plan, opening).await {
                Ok(OpenResult::Pending { in_doubt: true }) if is_deduplicated => {
                    return Ok(PriorState::InDoubt);
                }
                Ok(OpenResult::Pending { .. } | OpenResult::Kept(_)) => return Ok(prior),
                Ok(OpenResult::Known(found)) => found,
                Ok(OpenResult::Stale) => return Err(StaleFacts),
                Err(error) => {
                    let answer = self.unaudited(&plan.memory.target_space, &plan.sha, &error);
                    return Ok(PriorState::Answered(Box::new(answer)));
                }
            };
            prior = match self.confirm(&plan.memory, &found, ends).await {
                Ok(Some(stored)) => {
                    let memory_id = Some(stored.memory_id.as_str());
                    let answer = self.deduplicated(plan, &found, memory_id).await;
                    return Ok(PriorState::Answered(Box::new(answer)));
                }
                Ok(None) => {
                    plan.audit.note("stored_again", true);
                    PriorState::Lost
                }
                Err(error) => PriorState::Unconfirmed(error),
            };
            is_deduplicated = false;
        }
    }

    async fn open(
        self: &Arc<Self>,
        plan: &WritePlan,
        opening: Opening,
    ) -> Result<OpenResult, Error> {
        let call = Arc::clone(self);
        let opening = async move { call.service.logbook().open_write(&opening).await };
        let too_late = "the deadline of the request had passed";
        let abandoned = plan.audit.end_failed("AUDIT_WRITE_FAILED", too_late, false);
        self.opened_in_time(opening, abandoned).await
    }

    /// Asks the backend whether it still has what the logbook records as stored.
    async fn confirm(
        &self,
        memory: &NewMemory,
        found: &KnownMemory,
        ends: Instant,
    ) -> Result<Option<StoredMemory>, BackendError> {
        let backend = self.service.backend();
        let budget = ends.saturating_duration_since(Instant::now());
        let since = Instant::now();
        let has = backend.has(memory, found.memory_id.as_deref(), budget);
        let has = timeout(budget, has).await;
        let has = has.unwrap_or_else(|_| Err(no_answer(budget)));
        metrics::backend_call(backend.kind(), "find", since, has.is_ok());
        has
    }

    /// When the backend has to have answered. The rest of the budget is for the outbox.
    fn backend_deadline(&self) -> Instant {
        let budget = self.service.options().gateway_budget();
        self.started + budget - (budget / 8).min(RESERVE_MAX)
    }

    async fn send(
        &self,
        memory: &NewMemory,
        in_doubt: bool,
        ends: Instant,
    ) -> Result<StoredMemory, BackendError> {
        let budget = || ends.saturating_duration_since(Instant::now());
        let backend = self.service.backend();
        if in_doubt
            && let Some(found) = backend
                .find(memory, budget())
                .await
                .map_err(unknown_result)?
        {
            self.supersede(memory, &found.memory_id, ends).await?;
            return Ok(found);
        }
        let (since, budget) = (Instant::now(), budget());
        let stored = timeout(budget + OVERTIME, backend.store(memory, budget)).await;
        let stored = stored.unwrap_or_else(|_| Err(no_answer(budget)));
        metrics::backend_call(backend.kind(), "store", since, stored.is_ok());
        let stored = stored?;
        self.supersede(memory, &stored.memory_id, ends).await?;
        Ok(stored)
    }

    /// Replaces the version that a stored memory supersedes. If that fails, the memory is deferred: the
    /// delivery finds it stored and repeats the replacement.
    async fn supersede(
        &self,
        memory: &NewMemory,
        memory_id: &str,
        ends: Instant,
    ) -> Result<(), BackendError> {
        let Some(old) = memory.supersedes.as_deref() else {
            return Ok(());
        };
        let budget = ends.saturating_duration_since(Instant::now());
        let superseded = self.service.backend().supersede(old, memory_id, budget);
        superseded.await.map_err(|error| {
            let why = format!("stored as {memory_id}, but {old} could not be replaced: {error}");
            BackendError::Unknown(why)
        })
    }

    /// The backend has the memory, even if its audit cannot be ended now: reconciliation ends it, and
    /// a repeated request finds the memory.
    async fn stored(self: &Arc<Self>, plan: &WritePlan, stored: &StoredMemory) -> StoreAnswer {
        let is_ended = self
            .finish_audit(AuditEnd::stored(&stored.memory_id, false))
            .await;
        let is_again = plan.audit.extra.contains_key("stored_again");
        let note = match (is_ended, is_again) {
            (true, false) => None,
            (true, true) => {
                Some("stored again: the memory server did not have it any more".to_owned())
            }
            (false, _) => Some(format!(
                "stored, but its audit {} has not been ended; reconciling will do so",
                self.correlation
            )),
        };
        StoreAnswer {
            is_audit_open: !is_ended,
            ..self.written(plan, Some(&stored.memory_id), note)
        }
    }

    /// The memory was stored before, and the backend has it.
    async fn deduplicated(
        &self,
        plan: &WritePlan,
        found: &KnownMemory,
        memory_id: Option<&str>,
    ) -> StoreAnswer {
        if let Some(memory_id) = memory_id {
            let ends = self.backend_deadline();
            if let Err(error) = self.supersede(&plan.memory, memory_id, ends).await {
                let shown = shown_error(&error.to_string());
                return self.error("OPENMEMORY_UNAVAILABLE", shown, true);
            }
        }
        let mut audit = plan.audit.clone();
        // The answer repeats the first request's decision; the audit states both.
        let decided = json!({"action": audit.action, "reason": audit.reason});
        audit.note("policy_decision", decided);
        if let Some(outbox_id) = found.outbox_id {
            audit.note("original_outbox_id", outbox_id.0);
        }
        (audit.action, audit.reason) = (Action::Allow, DEDUP_HIT.to_owned());
        audit.memory_id = memory_id.map(str::to_owned);
        let audit = audit.audit(AuditStatus::Success);
        let written = self.service.logbook().insert_audit(&audit);
        if let Err(error) = self.within_budget("write an audit", written).await {
            return self.unaudited(&plan.memory.target_space, &plan.sha, &error);
        }
        let note = format!("{DEDUP_HIT}: the same text is stored in this space already");
        self.written(plan, memory_id, Some(note))
    }

    /// Whether a refused memory is deferred all the same: a repository change has no caller who could
    /// correct it, so it ends dead in the outbox, where it can be seen and requeued.
    fn is_deferred_anyway(&self, error: &BackendError) -> bool {
        self.origin.is_some() && error.is_about_content()
    }

    /// The memory server rejects the memory for good, so nothing is deferred.
    async fn refused(self: &Arc<Self>, plan: &WritePlan, error: &BackendError) -> StoreAnswer {
        let end = plan.audit.end_refused(error);
        let reason = end.reason.clone();
        self.finish_audit(end).await;
        let what = if error.is_about_us() {
            "the memory server rejected the gateway's credentials"
        } else {
            "the memory server rejected this memory"
        };
        let shown = shown_error(&error.to_string());
        let message = format!("{what} ({shown}); a retry would fail too; nothing was enqueued");
        StoreAnswer {
            reason,
            context: Some(context(&plan.memory.target_space, &plan.sha)),
            ..self.error("OPENMEMORY_REFUSED", message, false)
        }
    }
}

fn opening(plan: &WritePlan, facts: &Facts, is_deduplicated: bool) -> Opening {
    let (settings, user_id) = facts.assumptions();
    Opening {
        audit: plan.audit.audit(AuditStatus::Pending),
        settings,
        user_id,
        is_deduplicated,
        kept: None,
    }
}

fn no_answer(budget: Duration) -> BackendError {
    BackendError::Unknown(format!("no answer within {} ms", budget.as_millis()))
}

/// The failure of a call about a memory that may be stored already: nothing was sent now, and yet the
/// backend may have it.
fn unknown_result(error: BackendError) -> BackendError {
    match error {
        BackendError::Unreachable(why) => BackendError::Unknown(why),
        error => error,
    }
}
