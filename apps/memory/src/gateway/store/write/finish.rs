//! Writes of the logbook that have to happen even if the caller's budget is used up.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Certainty, Result};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{Instrument, Span, error, warn};

use super::super::{StoreAnswer, StoreCall};
use crate::{AuditEnd, OpenResult};

/// How much longer than the budget a request may take to record its result.
const GRACE: Duration = Duration::from_millis(30);
/// How long the write lock is held after the answer: as long as a dead process would hold it.
const LOCK_HELD_MAX: Duration = Duration::from_secs(2);
/// Timeout of one attempt to end an audit.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);
/// Delay between two attempts, at first and at most.
const DELAY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

impl StoreCall {
    /// Waits for a write of the logbook until the answer is due, and lets it continue in the background
    /// after that. None: the result is not known yet.
    pub(super) async fn finished_in_time<T: Send + 'static>(
        self: &Arc<Self>,
        writing: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let mut writing = Box::pin(writing);
        let ends = self.started + self.service.options().gateway_budget() + GRACE;
        if let Ok(result) = timeout_at(ends, &mut writing).await {
            return Some(result);
        }
        self.continue_in_background(async move { drop(writing.await) });
        None
    }

    /// Waits for the opening of a write until the budget is used up. If it opens later, or if that is
    /// unknown, its audit ends as `abandoned`: no caller continues with it.
    pub(super) async fn opened_in_time(
        self: &Arc<Self>,
        opening: impl Future<Output = Result<OpenResult>> + Send + 'static,
        abandoned: AuditEnd,
    ) -> Result<OpenResult> {
        let mut opening = Box::pin(opening);
        let ends = self.started + self.service.options().gateway_budget();
        let error = match timeout_at(ends, &mut opening).await {
            Ok(Err(error)) if error.certainty() == Certainty::Unknown => error,
            Ok(opened) => return opened,
            Err(_) => self.out_of_budget("begin a write"),
        };
        let call = Arc::clone(self);
        self.continue_in_background(async move {
            let opened = timeout(ATTEMPT_MAX, opening).await;
            let is_settled =
                matches!(&opened, Ok(Ok(opened)) if !matches!(opened, OpenResult::Pending { .. }));
            if !is_settled {
                call.end_audit(&abandoned).await;
            }
        });
        Err(error)
    }

    fn continue_in_background(self: &Arc<Self>, rest: impl Future<Output = ()> + Send + 'static) {
        let slots = Arc::clone(&self.service.inner.background);
        let Ok(slot) = slots.try_acquire_owned() else {
            let correlation_id = self.correlation.as_str();
            error!(
                correlation_id,
                "too many requests wait for the database; reconciling ends the audit"
            );
            return;
        };
        let call = Arc::clone(self);
        let rest = async move {
            let _slot = slot;
            let mut rest = Box::pin(rest);
            if timeout(LOCK_HELD_MAX, &mut rest).await.is_err() {
                call.set_guard(None);
                rest.await;
            }
        };
        tokio::spawn(rest.instrument(Span::current()));
    }

    /// Ends the audit; returns whether it was pending and has ended by now.
    pub(super) async fn finish_audit(self: &Arc<Self>, end: AuditEnd) -> bool {
        let call = Arc::clone(self);
        let ending = async move { call.end_audit(&end).await };
        self.finished_in_time(ending).await.unwrap_or(false)
    }

    /// Ends the audit, with retries until reconciliation would end it.
    async fn end_audit(&self, end: &AuditEnd) -> bool {
        let correlation_id = self.correlation.as_str();
        let timeout_seconds = self.service.options().pending_audit_timeout_seconds;
        let gives_up = Instant::now() + Duration::from_secs(timeout_seconds);
        let mut delay = DELAY.0;
        loop {
            let ended = self.service.logbook().finalize_audit(correlation_id, end);
            let (error, is_retryable) = match timeout(ATTEMPT_MAX, ended).await {
                Ok(Ok(true)) => return true,
                Ok(Ok(false)) => {
                    warn!(correlation_id, "the audit is not pending or does not exist");
                    return false;
                }
                Ok(Err(error)) => (error.to_string(), error.is_retryable()),
                Err(_) => ("no answer".to_owned(), true),
            };
            if !is_retryable || Instant::now() + delay >= gives_up {
                error!(
                    correlation_id,
                    error, "the audit could not be ended; reconciling will do so"
                );
                return false;
            }
            warn!(
                correlation_id,
                error, "the audit could not be ended yet; trying again"
            );
            sleep(delay).await;
            delay = (delay * 2).min(DELAY.1);
        }
    }

    /// The task of the request panicked. Its audit, if there is one, must not stay pending.
    pub(in crate::gateway::store) async fn panicked(self: &Arc<Self>, why: &str) -> StoreAnswer {
        error!(correlation_id = %self.correlation, "storing a memory panicked: {why}");
        self.finish_audit(AuditEnd::internal_error()).await;
        let message = "storing the memory failed; it may have been stored";
        self.error("INTERNAL_ERROR", message, true)
    }
}
