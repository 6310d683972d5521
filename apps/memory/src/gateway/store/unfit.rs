//! Requests that are none. They are refused, and audited like every other.

use serde_json::{Map, Value};
use tokio::time::timeout;
use tracing::error;

use super::{StoreRequest, decide::is_plain};
use crate::{Caller, Correlation, MemoryService, audit_json::UnfitAudit, tools::Refusal};

/// Longest name of an argument that is repeated in a reason.
const FIELD_CHARS_MAX: usize = 40;

/// Why a request could never be stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unfit {
    /// The audit's reason.
    pub(super) reason: String,
    /// The hash of the text, if there is one.
    pub(super) payload_sha: Option<String>,
}

impl Unfit {
    /// Something is not what it must be.
    pub(super) fn parameter(name: &str) -> Self {
        // Whoever makes up names of arguments does not write audits with them.
        let is_name = name.chars().count() <= FIELD_CHARS_MAX
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let name = if is_name { name } else { "unknown" };
        Self {
            reason: format!("invalid_parameter:{name}"),
            payload_sha: None,
        }
    }
}

/// What a request says about itself, whatever else is wrong with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sketch {
    space: Option<String>,
    actor: Option<String>,
}

impl Sketch {
    /// Of arguments that nobody has looked at.
    pub(crate) fn of_fields(fields: &Map<String, Value>) -> Self {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            space: text("target_space"),
            actor: text("actor_user_id"),
        }
    }

    /// Of a request by somebody that names no space.
    pub(crate) fn by(actor: Option<String>) -> Self {
        Self { space: None, actor }
    }

    /// Of a request by somebody about a space.
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

impl MemoryService {
    /// Audits arguments that are no request at all, and says so in the refusal.
    pub(crate) async fn refused_store(
        &self,
        sketch: Sketch,
        refusal: Refusal,
        caller: &Caller,
    ) -> Refusal {
        let details = refusal.details.as_ref();
        let name = details.and_then(|details| details["parameter"].as_str());
        let unfit = Unfit::parameter(name.unwrap_or("arguments"));
        self.refused_unfit(sketch, unfit, refusal, caller).await
    }

    /// The same for a request that could not be decided about, for a reason of its own.
    pub(crate) async fn refused_change(
        &self,
        sketch: Sketch,
        reason: &str,
        refusal: Refusal,
        caller: &Caller,
    ) -> Refusal {
        let unfit = Unfit {
            reason: reason.to_owned(),
            payload_sha: None,
        };
        self.refused_unfit(sketch, unfit, refusal, caller).await
    }

    async fn refused_unfit(
        &self,
        sketch: Sketch,
        unfit: Unfit,
        refusal: Refusal,
        caller: &Caller,
    ) -> Refusal {
        let given = caller.correlation_id.as_deref().unwrap_or_default();
        let correlation = Correlation::parse_or_new(given);
        let who = (caller, &correlation);
        self.audit_unfit(sketch, &unfit, &refusal.message, who)
            .await;
        Refusal {
            reason: Some(unfit.reason),
            ..refusal
        }
    }

    /// Writes the one audit of a request that could never be stored. Nothing was done and nothing
    /// will be, so the refusal stands even where the audit cannot be written.
    pub(super) async fn audit_unfit(
        &self,
        sketch: Sketch,
        unfit: &Unfit,
        message: &str,
        (caller, correlation): (&Caller, &Correlation),
    ) {
        let fits = |name: &String| is_plain(name) && !name.trim().is_empty();
        let space = sketch.space.filter(fits);
        let space = space.unwrap_or_else(|| self.options().team_space());
        let bound = caller.actor.clone().filter(|_| caller.is_authenticated);
        let actor = bound.or_else(|| sketch.actor.filter(fits));
        let backend = self.backend().identity();
        let audit = UnfitAudit {
            correlation,
            actor_user_id: actor.as_deref(),
            requested_space: &space,
            reason: &unfit.reason,
            message,
            payload_sha: unfit.payload_sha.as_deref(),
            backend: &backend,
        };
        let audit = audit.audit();
        let written = self.logbook().insert_audit(&audit);
        let why = match timeout(self.options().gateway_budget(), written).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        error!(correlation_id = %correlation, "the audit of a malformed request could not be written: {why}");
    }
}
