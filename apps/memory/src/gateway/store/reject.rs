//! Requests that are not written: the one audit of each, and the answer.

use consign_kernel::Error;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use tracing::{error, warn};

use super::{
    StoreAnswer, StoreCall, StoreRequest, field_context,
    parse::{InvalidRequest, invalid_parameter, is_plain},
};
use crate::{
    AuditStatus, Caller, Correlation, MemoryService,
    audit_json::{AuditFacts, Operation, shown_error},
    tools::Refusal,
};

/// Why a request is not written.
#[derive(Debug)]
pub(super) enum StoreError {
    /// Malformed, or too large for the outbox.
    Invalid(InvalidRequest),
    /// Rejected by authorization, evidence checks or policy.
    Rejected(Box<Rejection>),
    /// The logbook could not be read. Nothing happened, and there is no audit.
    Unavailable(Error),
}

impl From<InvalidRequest> for StoreError {
    fn from(invalid: InvalidRequest) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        Self::Unavailable(error)
    }
}

/// A well-formed request that is rejected.
#[derive(Debug)]
pub(super) struct Rejection {
    audit: AuditFacts,
    message: String,
}

impl Rejection {
    pub(super) fn refused(
        mut audit: AuditFacts,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> StoreError {
        audit.reason = reason.into();
        let message = message.into();
        StoreError::Rejected(Box::new(Self { audit, message }))
    }

    /// The error code of the reason.
    fn code(&self) -> &'static str {
        match self.audit.reason.split(':').next() {
            Some("EVIDENCE_VALIDATION_FAILED") => "EVIDENCE_VALIDATION_FAILED",
            Some("actor_unknown" | "actor_autocreate_failed") => "ACTOR_UNKNOWN",
            Some("actor_mismatch") => "ACTOR_MISMATCH",
            _ => "POLICY_REJECT",
        }
    }
}

/// The actor and space of a request, readable even if the rest is invalid.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestOutline {
    space: Option<String>,
    actor: Option<String>,
}

impl RequestOutline {
    /// Of unchecked arguments.
    pub(crate) fn of_fields(fields: &Map<String, Value>) -> Self {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            space: text("target_space"),
            actor: text("actor_user_id"),
        }
    }

    /// Of a request without a space.
    pub(crate) fn by(actor: Option<String>) -> Self {
        Self { space: None, actor }
    }

    /// Of a request about a space.
    pub(crate) fn in_space(space: String, actor: Option<String>) -> Self {
        let space = Some(space);
        Self { space, actor }
    }

    pub(super) fn of(request: &StoreRequest) -> Self {
        Self {
            space: request.target_space.clone(),
            actor: request.actor_user_id.clone(),
        }
    }
}

impl StoreCall {
    /// Writes the audit of a request that is not written, and makes its answer.
    pub(super) async fn refuse(&self, outline: RequestOutline, refused: StoreError) -> StoreAnswer {
        match refused {
            StoreError::Invalid(invalid) => {
                let request = (&self.caller, &self.correlation);
                self.service.audit_invalid(outline, &invalid, request).await;
                let sha = invalid.payload_sha.as_deref().unwrap_or_default();
                let field = invalid.field.as_deref();
                StoreAnswer {
                    action: "reject",
                    context: field.map(|(field, space)| field_context(space, sha, field)),
                    reason: Some(invalid.reason),
                    ..self.error(invalid.code, invalid.message, false)
                }
            }
            StoreError::Rejected(rejection) => self.reject(&rejection).await,
            StoreError::Unavailable(error) => self.unavailable(&error),
        }
    }

    async fn reject(&self, rejection: &Rejection) -> StoreAnswer {
        let Rejection { audit, message } = rejection;
        let written = audit.audit(AuditStatus::Failed);
        let written = self.service.logbook().insert_audit(&written);
        if let Err(error) = self.within_budget("write an audit", written).await {
            let sha = audit.payload_sha.as_deref().unwrap_or_default();
            return self.unaudited(&audit.requested_space, sha, &error);
        }
        StoreAnswer {
            message: Some(message.clone()),
            error_code: Some(rejection.code()),
            retryable: Some(false),
            reason: Some(audit.reason.clone()),
            context: Some(json!({"reason": audit.reason})),
            ..self.answer("reject")
        }
    }

    /// The logbook could not be read; nothing happened.
    pub(super) fn unavailable(&self, error: &Error) -> StoreAnswer {
        warn!(%error, "the logbook could not be read; the memory was not stored");
        let message = format!("the logbook could not be read; nothing was stored: {error}");
        self.error("LOGBOOK_UNAVAILABLE", message, error.is_retryable())
    }
}

impl MemoryService {
    /// Audits arguments that are no store request, and adds the reason to the refusal.
    pub(crate) async fn refused_store(
        &self,
        outline: RequestOutline,
        refusal: Refusal,
        caller: &Caller,
    ) -> Refusal {
        let details = refusal.details.as_ref();
        let name = details.and_then(|details| details["parameter"].as_str());
        let reason = invalid_parameter(name.unwrap_or("arguments"));
        self.refused_change(outline, &reason, refusal, caller).await
    }

    /// The same with a given reason.
    pub(crate) async fn refused_change(
        &self,
        outline: RequestOutline,
        reason: &str,
        refusal: Refusal,
        caller: &Caller,
    ) -> Refusal {
        let given = caller.correlation_id.as_deref().unwrap_or_default();
        let correlation = Correlation::parse_or_new(given);
        let invalid = InvalidRequest {
            code: refusal.code,
            reason: reason.to_owned(),
            message: refusal.message.clone(),
            payload_sha: None,
            field: None,
        };
        let request = (caller, &correlation);
        self.audit_invalid(outline, &invalid, request).await;
        Refusal {
            reason: Some(invalid.reason),
            ..refusal
        }
    }

    /// Writes the audit of an invalid request. The refusal stands if that fails: nothing was done.
    async fn audit_invalid(
        &self,
        outline: RequestOutline,
        invalid: &InvalidRequest,
        (caller, correlation): (&Caller, &Correlation),
    ) {
        let is_usable = |name: &String| is_plain(name) && !name.trim().is_empty();
        let space = outline.space.filter(is_usable);
        let space = space.unwrap_or_else(|| self.options().team_space());
        let bound = caller.actor.clone().filter(|_| caller.is_authenticated);
        let mut audit = AuditFacts {
            actor_user_id: bound.or_else(|| outline.actor.filter(is_usable)),
            reason: invalid.reason.clone(),
            payload_sha: invalid.payload_sha.clone(),
            backend: Some(self.backend().identity()),
            ..AuditFacts::new(Operation::MemoryStore, correlation, space)
        };
        // The message repeats names that the caller made up, and no store takes NUL.
        let message = shown_error(&invalid.message).replace('\0', "\u{fffd}");
        audit.note("last_error", message);
        let audit = audit.audit(AuditStatus::Failed);
        let written = self.logbook().insert_audit(&audit);
        let why = match timeout(self.options().gateway_budget(), written).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        error!(correlation_id = %correlation, "the audit of an invalid request could not be written: {why}");
    }
}
