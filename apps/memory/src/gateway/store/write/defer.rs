//! A memory that the memory server cannot take now: enqueued in one transaction with the end of its
//! audit.

use std::sync::Arc;

use consign_kernel::{Certainty, Error};
use consign_worker::failpoint::failpoint;
use serde_json::Value;
use tracing::{error, warn};

use super::super::{
    StoreAnswer, StoreCall, context,
    decide::{NOT_ENQUEUEABLE, WritePlan, oversized_field},
    field_context,
};
use crate::{
    AuditFilter, AuditStatus, BackendError, DeferResult, NewMemory, Twin, audit_json::shown_error,
};

const ENQUEUE_FAILED: &str = "OUTBOX_ENQUEUE_FAILED";

impl StoreCall {
    pub(super) async fn defer(
        self: &Arc<Self>,
        plan: WritePlan,
        failure: &BackendError,
    ) -> StoreAnswer {
        let shown = shown_error(&failure.to_string());
        // Only what never left is certain not to have arrived.
        let may_be_stored = !matches!(failure, BackendError::Unreachable(_));
        let end = plan.audit.end_deferred(failure, may_be_stored);
        let reason = end.reason.clone().unwrap_or_default();
        let memory = NewMemory {
            last_error: Some(shown.clone()),
            may_be_stored,
            ..plan.memory.clone()
        };
        let call = Arc::clone(self);
        let deferring = async move {
            let correlation_id = call.correlation.as_str();
            let logbook = call.service.logbook();
            logbook.defer(&memory, correlation_id, &end).await
        };
        match self.finished_in_time(deferring).await {
            Some(Ok(deferred)) => {
                failpoint("memory.after_enqueue").await;
                self.deferred(&deferred, &reason, &shown)
            }
            Some(Err(error)) => {
                self.not_deferred(&plan, &shown, may_be_stored, &error)
                    .await
            }
            None => self.maybe_deferred(&plan, &shown),
        }
    }

    fn deferred(&self, deferred: &DeferResult, reason: &str, shown: &str) -> StoreAnswer {
        let outbox_id = deferred.enqueued.outbox_id.0;
        let row = match &deferred.enqueued.twin {
            None => format!("it is kept as row {outbox_id} of the outbox and will be delivered"),
            Some(Twin::Pending) => format!("the same memory waits already as row {outbox_id}"),
            // `Logbook::defer` never returns a sent twin.
            Some(Twin::Sent(_)) => format!("row {outbox_id} of the outbox was delivered"),
            Some(Twin::Requeued) => {
                format!("the same memory had been given up as row {outbox_id} and is tried again")
            }
        };
        let is_hit = matches!(deferred.enqueued.twin, Some(Twin::Pending | Twin::Sent(_)));
        StoreAnswer {
            reason: Some(format!("{reason}:outbox:{outbox_id}")),
            outbox_id: Some(outbox_id),
            message: Some(format!("memory server unavailable ({shown}); {row}")),
            error_code: is_hit.then_some("OUTBOX_DEDUP_HIT"),
            ..self.answer("deferred")
        }
    }

    /// The logbook has not answered in time. The row may still be written; a repeated request does not
    /// write it twice.
    fn maybe_deferred(&self, plan: &WritePlan, shown: &str) -> StoreAnswer {
        let correlation_id = self.correlation.as_str();
        warn!(
            correlation_id,
            code = ENQUEUE_FAILED,
            "the logbook did not answer in time; the memory may be enqueued later"
        );
        let message = format!(
            "memory server unavailable ({shown}), and the logbook does not answer: it \
             may or may not be enqueued; repeat the request"
        );
        StoreAnswer {
            context: Some(context(&plan.memory.target_space, &plan.sha)),
            ..self.error(ENQUEUE_FAILED, message, true)
        }
    }

    /// The memory is neither stored nor enqueued, unless only the answer of the transaction was lost.
    async fn not_deferred(
        self: &Arc<Self>,
        plan: &WritePlan,
        shown: &str,
        may_be_stored: bool,
        failure: &Error,
    ) -> StoreAnswer {
        if failure.certainty() == Certainty::Unknown
            && let Some(outbox_id) = self.committed_row().await
        {
            let message = format!("memory server unavailable ({shown}); it is kept");
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
        let (space, sha) = (&plan.memory.target_space, &plan.sha);
        let (code, why, context) = if is_invalid {
            let options = self.service.options();
            let (field, why) = oversized_field(&plan.memory, failure, options);
            (NOT_ENQUEUEABLE, why, field_context(space, sha, field))
        } else {
            (ENQUEUE_FAILED, failure.to_string(), context(space, sha))
        };
        error!(
            correlation_id = %self.correlation, code, error = %failure,
            "a memory could be neither stored nor enqueued"
        );
        let end = plan
            .audit
            .end_failed(code, &format!("{shown}; {why}"), may_be_stored);
        self.finish_audit(end).await;
        let message =
            format!("memory server unavailable ({shown}), and it could not be kept: {why}");
        StoreAnswer {
            context: Some(context),
            ..self.error(code, message, failure.is_retryable())
        }
    }

    /// The outbox row of this request, if the transaction committed and its answer was lost.
    async fn committed_row(&self) -> Option<i64> {
        let filter = AuditFilter {
            correlation_id: Some(self.correlation.to_string()),
            status: Some(AuditStatus::Redirected),
            ..AuditFilter::default()
        };
        let audits = self.service.logbook().audits(&filter, 1);
        let audits = self.within_budget("read an audit", audits).await.ok()?;
        let audit = audits.into_iter().next()?;
        let outbox_id = audit.evidence_refs_json.get("outbox_id");
        outbox_id.and_then(Value::as_i64)
    }
}
