//! What is stored already, and how a write begins.

use std::sync::Arc;

use consign_kernel::{Certainty, Error};
use consign_worker::park::park;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{Call, DEDUP_HIT, Stale, StoreAnswer, decide::Grounds, write::Write};
use crate::{
    AuditStatus, BackendError, Found, NewMemory, Opened, Opening, StoredMemory,
    audit_json::shown_error, metrics,
};

impl Write {
    /// The beginning of it.
    pub(super) fn opening(
        &self,
        grounds: &Grounds,
        is_deduplicated: bool,
        is_kept: bool,
    ) -> Opening {
        let Grounds { settings, user_id } = grounds.clone();
        Opening {
            audit: self.audit().audit(AuditStatus::Pending),
            settings,
            user_id,
            is_deduplicated,
            kept: is_kept.then(|| self.memory.clone()),
        }
    }
}

impl Call {
    /// Begins the write, unless it is stored already.
    pub(super) async fn open(
        self: &Arc<Self>,
        write: &Write,
        opening: Opening,
    ) -> Result<Opened, Error> {
        let call = Arc::clone(self);
        let opening = async move { call.service.logbook().open_write(&opening).await };
        let code = "AUDIT_WRITE_FAILED";
        // Nobody goes on with what is begun too late.
        let unwanted = write.audit().failed(code, "it was begun too late", false);
        self.begun_in_time(opening, unwanted).await
    }

    /// Stores a memory in the logbook itself, in one transaction with its audit. None: it takes two
    /// phases to say what is wrong with it.
    pub(super) async fn keep(
        self: &Arc<Self>,
        write: &Write,
        grounds: &Grounds,
    ) -> Result<Option<StoreAnswer>, Stale> {
        let since = Instant::now();
        let opening = write.opening(grounds, true, true);
        let opened = self.open(write, opening).await;
        let kind = self.service.backend().kind();
        metrics::backend_call(kind, "store", since, opened.is_ok());
        park("memory.after_backend").await;
        let space = &write.memory.target_space;
        match opened {
            Ok(Opened::Kept(kept)) => Ok(Some(StoreAnswer {
                memory_id: Some(kept.memory_id),
                ..self.written(write, None)
            })),
            Ok(Opened::Known(found)) => {
                let memory_id = found.memory_id.as_deref();
                Ok(Some(self.known(write, &found, memory_id).await))
            }
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
            Ok(Opened::Pending { .. }) | Err(_) => Ok(None),
        }
    }

    /// Asks the backend whether it has what the logbook says it stored.
    pub(super) async fn confirm(
        &self,
        memory: &NewMemory,
        found: &Found,
        ends: Instant,
    ) -> Result<Option<StoredMemory>, BackendError> {
        let backend = self.service.backend();
        let budget = ends.saturating_duration_since(Instant::now());
        let since = Instant::now();
        let has = backend.has(memory, found.memory_id.as_deref(), budget);
        let has = timeout(budget, has).await.unwrap_or_else(|_| {
            let why = format!("no answer within {} ms", budget.as_millis());
            Err(BackendError::Unknown(why))
        });
        metrics::backend_call(backend.kind(), "find", since, has.is_ok());
        has
    }

    /// It was stored before, by this text's first request or by the outbox, and the backend has it.
    pub(super) async fn known(
        &self,
        write: &Write,
        found: &Found,
        memory_id: Option<&str>,
    ) -> StoreAnswer {
        if let Some(name) = memory_id
            && let Err(error) = self
                .replace(&write.memory, name, self.backend_deadline())
                .await
        {
            let why = shown_error(&error.to_string());
            return self.error("OPENMEMORY_UNAVAILABLE", why, true);
        }
        let mut audit = write.draft.known(found, memory_id);
        // The answer is that of the first request; the audit tells both.
        let decided = json!({"action": write.action, "reason": write.reason});
        audit.extra.insert("policy_decision".to_owned(), decided);
        let audit = audit.audit(AuditStatus::Success);
        let written = self.service.logbook().insert_audit(&audit);
        if let Err(error) = self.in_time("write an audit", written).await {
            return self.unaudited(&write.memory.target_space, &write.sha, &error);
        }
        let told = format!("{DEDUP_HIT}: the same text is stored in this space already");
        StoreAnswer {
            memory_id: memory_id.map(str::to_owned),
            ..self.written(write, Some(told))
        }
    }
}
