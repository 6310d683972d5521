//! Audits come to their end, however long the logbook takes to hear of it.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Certainty, Error, Result};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{Instrument, Span, error, warn};

use super::{Call, StoreAnswer};
use crate::{Action, AuditEnd, AuditStatus, Opened, audit_json::MAY_BE_STORED};

/// How much longer than the budget a request may take to write down what came of it.
const GRACE: Duration = Duration::from_millis(30);
/// For how long after the answer others are kept from writing: as long as by a process that has died.
const TURN_KEPT: Duration = Duration::from_secs(2);
/// How long one try to write something down may take before another is made.
const TRY_MAX: Duration = Duration::from_secs(10);
/// How long to rest between two tries, at first and at most.
const REST: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

impl Call {
    /// Waits for the logbook to write down what has happened for as long as anybody waits for the
    /// answer. Should that end, it is written all the same. None: it is not known whether it is yet.
    pub(super) async fn written_in_time<T: Send + 'static>(
        self: &Arc<Self>,
        writing: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let mut writing = Box::pin(writing);
        let ends = self.since + self.service.options().gateway_budget() + GRACE;
        if let Ok(answer) = timeout_at(ends, &mut writing).await {
            return Some(answer);
        }
        self.linger(async move { drop(writing.await) });
        None
    }

    /// Waits for a write to begin for as long as the budget lasts. Should it begin later, or should
    /// nobody know whether it has, its audit ends as unwanted: nobody goes on with it.
    pub(super) async fn begun_in_time(
        self: &Arc<Self>,
        opening: impl Future<Output = Result<Opened>> + Send + 'static,
        unwanted: AuditEnd,
    ) -> Result<Opened> {
        let mut opening = Box::pin(opening);
        let budget = self.service.options().gateway_budget();
        let opened = match timeout_at(self.since + budget, &mut opening).await {
            Ok(Err(error)) if error.certainty() == Certainty::Unknown => error,
            Ok(opened) => return opened,
            Err(_) => Error::Unavailable {
                attempted: "begin a write",
                certainty: Certainty::Unknown,
                source: format!("no answer within {} ms", budget.as_millis()).into(),
            },
        };
        let call = Arc::clone(self);
        self.linger(async move {
            let late = timeout(TRY_MAX, opening).await;
            // What was kept has its audit, and what never began has none.
            let is_settled =
                matches!(late, Ok(Ok(opened)) if !matches!(opened, Opened::Pending { .. }));
            if !is_settled {
                call.end_audit(&unwanted).await;
            }
        });
        Err(opened)
    }

    /// Goes on after the answer.
    fn linger(self: &Arc<Self>, rest: impl Future<Output = ()> + Send + 'static) {
        let lingering = Arc::clone(&self.service.inner.lingering);
        let Ok(place) = lingering.try_acquire_owned() else {
            let correlation_id = self.correlation.as_str();
            error!(
                correlation_id,
                "too many wait for the database; reconciling ends the audit"
            );
            return;
        };
        let call = Arc::clone(self);
        let rest = async move {
            let _place = place;
            let mut rest = Box::pin(rest);
            if timeout(TURN_KEPT, &mut rest).await.is_err() {
                call.hold(None);
                rest.await;
            }
        };
        tokio::spawn(rest.instrument(Span::current()));
    }

    /// Ends the audit; whether it was pending and has ended now.
    pub(super) async fn finalize(self: &Arc<Self>, end: AuditEnd) -> bool {
        let call = Arc::clone(self);
        let ending = async move { call.end_audit(&end).await };
        self.written_in_time(ending).await.unwrap_or(false)
    }

    /// Ends the audit, trying until the logbook has answered or would end it by itself.
    async fn end_audit(&self, end: &AuditEnd) -> bool {
        let correlation_id = self.correlation.as_str();
        let most = self.service.options().pending_audit_timeout_seconds;
        let gives_up = Instant::now() + Duration::from_secs(most);
        let mut rest = REST.0;
        loop {
            let ended = self.service.logbook().finalize_audit(correlation_id, end);
            let error = match timeout(TRY_MAX, ended).await {
                Ok(Ok(true)) => return true,
                Ok(Ok(false)) => {
                    let why = "an audit had been ended by somebody else, or is not there";
                    warn!(correlation_id, "{why}");
                    return false;
                }
                Ok(Err(error)) if !error.is_retryable() => {
                    error!(correlation_id, %error, "an audit could not be ended; reconciling will do so");
                    return false;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            if Instant::now() + rest >= gives_up {
                error!(
                    correlation_id,
                    error, "an audit could not be ended; reconciling will do so"
                );
                return false;
            }
            warn!(
                correlation_id,
                error, "an audit could not be ended yet; trying again"
            );
            sleep(rest).await;
            rest = (rest * 2).min(REST.1);
        }
    }

    /// A defect ended the request. Its audit, if there is one, must not stay pending.
    pub(super) async fn broken(self: &Arc<Self>, why: &str) -> StoreAnswer {
        error!(correlation_id = %self.correlation, "storing a memory ended early: {why}");
        let end = AuditEnd {
            status: AuditStatus::Failed,
            action: Some(Action::Reject),
            reason: Some("internal_error".to_owned()),
            patch: json!({"extra": {MAY_BE_STORED: true}}),
        };
        self.finalize(end).await;
        let why = "storing the memory failed; it may have been stored";
        self.error("INTERNAL_ERROR", why, true)
    }
}
