//! The write itself: audited before it is tried, and ended whatever comes of it.

use std::{sync::Arc, time::Duration};

use consign_worker::park::park;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Call, Stale, StoreAnswer, audit::Draft, context, decide::Grounds};
use crate::{
    Action, BackendError, NewMemory, Opened, StoredMemory,
    audit_json::{StoreAudit, shown_error},
    metrics,
    policy::explain,
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
    /// Where it goes in place of where it was meant to, and why, for people.
    pub(super) fn redirected(&self) -> Option<String> {
        let (space, asked) = (&self.memory.target_space, &self.draft.requested_space);
        let is_elsewhere = self.action == Action::Redirect;
        is_elsewhere.then(|| {
            format!(
                "stored in {space} instead of {asked}: {}",
                explain(&self.reason)
            )
        })
    }

    /// Its audit.
    pub(super) fn audit(&self) -> StoreAudit<'_> {
        self.draft.decided(self.action, &self.reason)
    }
}

/// What is known of a memory before it is sent.
enum Before {
    /// It is stored, or cannot be audited: this is the answer.
    Answered(Box<StoreAnswer>),
    /// Nobody has tried to store it there.
    Unheard,
    /// It may be stored: ask.
    InDoubt,
    /// It was stored, and the backend does not have it any more.
    Gone,
    /// It was stored, and the backend cannot be asked whether it still has it.
    Unconfirmed(BackendError),
}

impl Call {
    /// Stores what the policy has nothing against.
    pub(super) async fn write(
        self: &Arc<Self>,
        mut write: Write,
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
        let before = match self.begin(&mut write, &grounds, ends).await? {
            Before::Answered(answer) => return Ok(*answer),
            before => before,
        };
        park("memory.after_pending_audit").await;
        let tried = match (has_turn, before) {
            (_, Before::Unconfirmed(error)) => Err(in_doubt(error)),
            (true, before) => {
                let is_asked = matches!(before, Before::InDoubt);
                self.try_backend(&write.memory, is_asked, ends).await
            }
            (false, before) => {
                let why = "others are still writing; nothing was sent".to_owned();
                Err(match before {
                    Before::InDoubt => BackendError::Unknown(why),
                    _ => BackendError::Unreachable(why),
                })
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

    /// Writes the pending audit, unless the backend has the memory.
    async fn begin(
        self: &Arc<Self>,
        write: &mut Write,
        grounds: &Grounds,
        ends: Instant,
    ) -> Result<Before, Stale> {
        let space = write.memory.target_space.clone();
        let (mut before, mut is_deduplicated) = (Before::Unheard, true);
        loop {
            let opening = write.opening(grounds, is_deduplicated, false);
            let found = match self.open(write, opening).await {
                Ok(Opened::Pending { in_doubt: true }) if is_deduplicated => {
                    return Ok(Before::InDoubt);
                }
                Ok(Opened::Pending { .. } | Opened::Kept(_)) => return Ok(before),
                Ok(Opened::Known(found)) => found,
                Ok(Opened::Stale) => return Err(Stale),
                Err(error) => {
                    let answer = self.unaudited(&space, &write.sha, &error);
                    return Ok(Before::Answered(Box::new(answer)));
                }
            };
            before = match self.confirm(&write.memory, &found, ends).await {
                Ok(Some(stored)) => {
                    let answer = self.known(write, &found, Some(&stored.memory_id)).await;
                    return Ok(Before::Answered(Box::new(answer)));
                }
                Ok(None) => {
                    write.draft.note("stored_again", true);
                    Before::Gone
                }
                Err(error) => Before::Unconfirmed(error),
            };
            is_deduplicated = false;
        }
    }

    /// Until when the memory server may take. What is left of the budget is for the outbox.
    pub(super) fn backend_deadline(&self) -> Instant {
        let budget = self.service.options().gateway_budget();
        self.since + budget - (budget / 8).min(RESERVE_MAX)
    }

    async fn try_backend(
        &self,
        memory: &NewMemory,
        is_asked: bool,
        ends: Instant,
    ) -> Result<StoredMemory, BackendError> {
        let budget = ends.saturating_duration_since(Instant::now());
        let backend = self.service.backend();
        if is_asked && let Some(found) = backend.find(memory, budget).await.map_err(in_doubt)? {
            self.replace(memory, &found.memory_id, ends).await?;
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
        let stored = stored?;
        self.replace(memory, &stored.memory_id, ends).await?;
        Ok(stored)
    }

    /// Sees to it that the version which a memory replaces is replaced. Should that fail, the memory is
    /// stored all the same, and whoever delivers it finds that out and tries again.
    pub(super) async fn replace(
        &self,
        memory: &NewMemory,
        stored_as: &str,
        ends: Instant,
    ) -> Result<(), BackendError> {
        let Some(old) = memory.supersedes.as_deref() else {
            return Ok(());
        };
        let budget = ends.saturating_duration_since(Instant::now());
        let replaced = self.service.backend().supersede(old, stored_as, budget);
        replaced.await.map_err(|error| {
            let why = format!("stored as {stored_as}, but {old} could not be replaced: {error}");
            BackendError::Unknown(why)
        })
    }

    /// The memory server has it. That stands whatever becomes of its audit: should it not be
    /// ended now, it is ended later, and a repeated request finds the memory again.
    async fn stored(self: &Arc<Self>, write: &Write, stored: &StoredMemory) -> StoreAnswer {
        let end = write.audit().stored(&stored.memory_id);
        let is_ended = self.finalize(end).await;
        let again = write.draft.extra.get("stored_again");
        let message = match (is_ended, again) {
            (true, None) => None,
            (true, Some(_)) => {
                Some("stored again: the memory server did not have it any more".to_owned())
            }
            (false, _) => Some(format!(
                "stored, but its audit {} has not been ended; reconciling will do so",
                self.correlation
            )),
        };
        StoreAnswer {
            memory_id: Some(stored.memory_id.clone()),
            is_audit_open: !is_ended,
            ..self.written(write, message)
        }
    }

    /// Whether a memory is kept although the memory server refuses it: nobody is there who could be
    /// told and write another one. It dies in the outbox, where it can be seen and redriven.
    fn is_kept(&self, error: &BackendError) -> bool {
        self.errand.is_some() && error.is_about_content()
    }

    /// The memory server will never take it. Trying again would not help, so nothing is kept.
    async fn refused(self: &Arc<Self>, write: &Write, error: &BackendError) -> StoreAnswer {
        let end = write.audit().refused(error);
        let reason = end.reason.clone();
        self.finalize(end).await;
        let who = match error.is_about_us() {
            true => "the memory server does not accept the gateway",
            false => "the memory server refuses this memory",
        };
        let shown = shown_error(&error.to_string());
        let message = format!("{who} ({shown}); trying again would not help, nothing was kept");
        StoreAnswer {
            reason,
            context: Some(context(&write.memory.target_space, &write.sha)),
            ..self.error("OPENMEMORY_REFUSED", message, false)
        }
    }
}

/// What could not be asked for may be there all the same, even if nothing left now.
fn in_doubt(error: BackendError) -> BackendError {
    match error {
        BackendError::Unreachable(why) => BackendError::Unknown(why),
        error => error,
    }
}
