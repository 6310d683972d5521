//! What the memory server cannot take now is kept, with its audit, in one transaction.

use std::sync::Arc;

use consign_kernel::{Certainty, Error};
use consign_worker::park::park;
use serde_json::Value;
use tracing::{error, warn};

use super::{Call, StoreAnswer, context, fit, write::Write};
use crate::{
    AuditFilter, AuditStatus, BackendError, Deferred, NewMemory, Twin, audit_json::shown_error,
};

impl Call {
    /// Keeps a memory for later.
    pub(super) async fn defer(
        self: &Arc<Self>,
        write: Write,
        failure: &BackendError,
    ) -> StoreAnswer {
        let shown = shown_error(&failure.to_string());
        // Only what never left is certain not to have arrived.
        let may_be_stored = !matches!(failure, BackendError::Unreachable(_));
        let end = write.audit().deferred(failure, may_be_stored);
        let reason = end.reason.clone().unwrap_or_default();
        let memory = NewMemory {
            last_error: Some(shown.clone()),
            may_be_stored,
            ..write.memory.clone()
        };
        let call = Arc::clone(self);
        let deferring = async move {
            let correlation_id = call.correlation.as_str();
            let logbook = call.service.logbook();
            logbook.defer(&memory, correlation_id, &end).await
        };
        match self.written_in_time(deferring).await {
            Some(Ok(deferred)) => {
                park("memory.after_enqueue").await;
                self.deferred(&deferred, &reason, &shown)
            }
            Some(Err(error)) => {
                let told = (shown.as_str(), may_be_stored);
                self.not_deferred(&write, told, &error).await
            }
            None => self.maybe_deferred(&write, &shown),
        }
    }

    fn deferred(&self, deferred: &Deferred, reason: &str, shown: &str) -> StoreAnswer {
        let outbox_id = deferred.enqueued.outbox_id.0;
        let kept = match &deferred.enqueued.twin {
            None => format!("it is kept as row {outbox_id} of the outbox and will be delivered"),
            Some(Twin::Pending) => format!("the same memory waits already as row {outbox_id}"),
            // A deferral answers no row that was sent.
            Some(Twin::Sent(_)) => format!("row {outbox_id} of the outbox was delivered"),
            Some(Twin::Requeued) => {
                format!("the same memory had been given up as row {outbox_id} and is tried again")
            }
        };
        let is_hit = matches!(deferred.enqueued.twin, Some(Twin::Pending | Twin::Sent(_)));
        StoreAnswer {
            reason: Some(format!("{reason}:outbox:{outbox_id}")),
            outbox_id: Some(outbox_id),
            message: Some(format!(
                "the memory server cannot take it now ({shown}); {kept}"
            )),
            error_code: is_hit.then_some("OUTBOX_DEDUP_HIT"),
            ..self.answer("deferred")
        }
    }

    /// The logbook does not answer. It may be kept yet, and asking again does not keep it twice.
    fn maybe_deferred(&self, write: &Write, shown: &str) -> StoreAnswer {
        let code = "OUTBOX_ENQUEUE_FAILED";
        warn!(correlation_id = %self.correlation, code, "the logbook does not answer");
        let message = format!(
            "the memory server cannot take it now ({shown}), and the logbook does not answer: \
             whether it is kept is not known; ask again"
        );
        StoreAnswer {
            context: Some(context(&write.memory.target_space, &write.sha)),
            ..self.error(code, message, true)
        }
    }

    /// It could be neither stored nor kept, and the caller must know.
    async fn not_deferred(
        self: &Arc<Self>,
        write: &Write,
        (shown, may_be_stored): (&str, bool),
        failure: &Error,
    ) -> StoreAnswer {
        // The answer was lost, not necessarily the memory.
        if failure.certainty() == Certainty::Unknown
            && let Some(outbox_id) = self.deferred_after_all().await
        {
            let message = format!("the memory server cannot take it now ({shown}); it is kept");
            return StoreAnswer {
                outbox_id: Some(outbox_id),
                message: Some(message),
                ..self.answer("deferred")
            };
        }
        let is_invalid = matches!(
            failure,
            Error::InvalidInput { .. } | Error::PayloadTooLarge { .. } | Error::KeyConflict { .. }
        );
        let (space, sha) = (&write.memory.target_space, &write.sha);
        let (code, why, context) = if is_invalid {
            let (field, why) = self.unfit_field(&write.memory, failure);
            (fit::INVALID, why, fit::context_of(space, sha, field))
        } else {
            let code = "OUTBOX_ENQUEUE_FAILED";
            (code, failure.to_string(), context(space, sha))
        };
        error!(
            correlation_id = %self.correlation, code, error = %failure,
            "a memory could be neither stored nor kept"
        );
        let told = format!("{shown}; {why}");
        let end = write.audit().failed(code, &told, may_be_stored);
        self.finalize(end).await;
        let message = format!(
            "the memory server cannot take it now ({shown}), and it could not be kept: {why}"
        );
        StoreAnswer {
            context: Some(context),
            ..self.error(code, message, failure.is_retryable())
        }
    }

    /// The row, if the transaction whose answer was lost went through.
    async fn deferred_after_all(&self) -> Option<i64> {
        let filter = AuditFilter {
            correlation_id: Some(self.correlation.to_string()),
            status: Some(AuditStatus::Redirected),
            ..AuditFilter::default()
        };
        let audits = self.service.logbook().audits(&filter, 1);
        let audits = self.in_time("read an audit", audits).await.ok()?;
        let audit = audits.into_iter().next()?;
        audit
            .evidence_refs_json
            .get("outbox_id")
            .and_then(Value::as_i64)
    }
}
