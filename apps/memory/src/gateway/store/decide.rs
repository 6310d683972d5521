//! Step 3: where the memory goes, or why it does not. Pure: no clock, no I/O.

use consign_kernel::Error;
use serde_json::{Map, Value};

use super::{
    StoreError,
    authorize::{ActorStatus, Facts},
    parse::{InvalidRequest, StoreInput},
    reject::Rejection,
};
use crate::{
    Action, MemoryOptions, NewMemory,
    audit_json::{AuditFacts, EvidenceChecks},
    evidence::{check_strict, classify, resolve_validate_refs},
    policy::{self, Decision, EvidenceMode, Policy, PolicyInput, explain},
    queue_policy,
    uri::check_evidence_refs_json,
};

/// The code of a memory that could not be enqueued.
pub(super) const NOT_ENQUEUEABLE: &str = "OUTBOX_VALIDATION_FAILED";

/// An allowed or redirected write.
#[derive(Clone, Debug)]
pub(super) struct WritePlan {
    pub(super) memory: NewMemory,
    pub(super) sha: String,
    /// The facts of its audit; `action` and `reason` are the decision.
    pub(super) audit: AuditFacts,
}

impl WritePlan {
    /// The answer's note about a redirected memory.
    pub(super) fn redirect_note(&self) -> Option<String> {
        let (space, requested) = (&self.memory.target_space, &self.audit.requested_space);
        let why = || explain(&self.audit.reason);
        (self.audit.action == Action::Redirect)
            .then(|| format!("stored in {space} instead of {requested}: {}", why()))
    }
}

/// Decides about a request. `audit` has the facts of the request.
pub(super) fn decide(
    input: &StoreInput,
    facts: &Facts,
    options: &MemoryOptions,
    mut audit: AuditFacts,
) -> Result<WritePlan, StoreError> {
    let requester = &facts.requester;
    audit.actor_user_id.clone_from(&requester.actor);
    match requester.actor_status {
        ActorStatus::Known => {}
        ActorStatus::Created => audit.note("actor", "actor_autocreated"),
        ActorStatus::Unknown => audit.note("actor", "actor_unknown:degrade"),
    }
    let policy = Policy::read(&facts.settings.policy_json);
    let checks = evidence_checks(input, &policy, options);
    let violation = evidence_violation(input, &checks);
    audit.checks = Some(checks);
    if let Some((reason, message)) = violation {
        return Err(Rejection::refused(audit, reason, message));
    }
    let decision = apply_policy(input, facts, &policy, options)?;
    let reason = decision.reason;
    let Some(space) = decision.final_space else {
        let rule = reason.strip_prefix("policy:").unwrap_or(&reason);
        let message = format!("rejected by policy rule {rule}");
        return Err(Rejection::refused(audit, reason, message));
    };
    if input.supersedes.is_some() && space != input.space {
        let why = explain(&reason);
        let message = format!(
            "a newer version must be in the space of the old one, which the \
            policy rejects: {why}"
        );
        return Err(Rejection::refused(audit, reason, message));
    }
    let memory = NewMemory {
        target_space: space.clone(),
        payload_md: input.text.clone(),
        backend: audit.backend.clone(),
        item_id: input.item_id,
        last_error: None,
        may_be_stored: false,
        correlation_id: Some(audit.correlation_id.clone()),
        actor_user_id: requester.actor.clone(),
        kind: input.kind.clone(),
        meta_json: input.meta_json.clone(),
        evidence: input.evidence.to_values(),
        supersedes: input.supersedes.clone(),
    };
    let sha = memory.payload_sha();
    check_enqueueable(&memory, &sha, options)?;
    audit.final_space = Some(space);
    audit.action = decision.action;
    audit.reason = reason;
    Ok(WritePlan { memory, sha, audit })
}

fn evidence_checks(input: &StoreInput, policy: &Policy, options: &MemoryOptions) -> EvidenceChecks {
    let mode = policy.evidence_mode;
    let is_strict = mode == EvidenceMode::Strict && input.evidence.is_present();
    EvidenceChecks {
        mode,
        validate_refs: resolve_validate_refs(
            mode,
            options.strict_mode_enforce_validate_refs,
            options.validate_evidence_refs,
            None,
        ),
        strict: is_strict.then(|| check_strict(&input.evidence)),
    }
}

/// The reason and message of evidence that the settings do not accept, or that an audit could not
/// reference later.
fn evidence_violation(input: &StoreInput, checks: &EvidenceChecks) -> Option<(String, String)> {
    if let Some(report) = &checks.strict
        && let Some(reason) = report.reason()
    {
        let message = format!("the evidence is not enough: {}", report.errors.join(", "));
        return Some((reason, message));
    }
    if !checks.validate_refs.is_on {
        return None;
    }
    let lists = Value::Object(classify(&input.evidence).lists());
    let problems = check_evidence_refs_json(&lists).err()?;
    let reason = "EVIDENCE_VALIDATION_FAILED:EVIDENCE_INVALID_REF";
    let message = format!("the evidence cannot be resolved: {}", problems.join(", "));
    Some((reason.to_owned(), message))
}

/// The decision of the policy, with the reason as audits write it.
fn apply_policy(
    input: &StoreInput,
    facts: &Facts,
    policy: &Policy,
    options: &MemoryOptions,
) -> Result<Decision, InvalidRequest> {
    let requester = &facts.requester;
    let spaces = options.spaces();
    let spaces = spaces.map_err(|why| InvalidRequest::parameter("target_space", why))?;
    let is_unknown = requester.actor_status == ActorStatus::Unknown;
    let shared_by_unknown = spaces.private_of(None);
    let decision = policy::decide(&PolicyInput {
        target_space: if is_unknown {
            &shared_by_unknown
        } else {
            &input.space
        },
        actor: requester.actor.as_deref(),
        is_actor_bound: requester.is_bound,
        is_authenticated: requester.is_authenticated,
        kind: input.kind.as_deref(),
        has_evidence: input.evidence.is_present(),
        payload_md: &input.text,
        is_bulk: input.is_bulk,
        team_write_enabled: facts.settings.team_write_enabled,
        policy,
        spaces: &spaces,
    });
    if is_unknown {
        return Ok(Decision {
            action: Action::Redirect,
            reason: "actor_unknown:degrade".to_owned(),
            ..decision
        });
    }
    Ok(Decision {
        reason: format!("policy:{}", decision.reason),
        ..decision
    })
}

/// Refuses a memory that could not be deferred: the caller learns it now, not during an outage.
fn check_enqueueable(
    memory: &NewMemory,
    sha: &str,
    options: &MemoryOptions,
) -> Result<(), InvalidRequest> {
    let Err(error) = validate_message(memory, options) else {
        return Ok(());
    };
    let (field, message) = oversized_field(memory, &error, options);
    Err(InvalidRequest {
        code: NOT_ENQUEUEABLE,
        reason: NOT_ENQUEUEABLE.to_owned(),
        message,
        field: Some(Box::new((field, memory.target_space.clone()))),
        payload_sha: Some(sha.to_owned()),
    })
}

/// The request field that the outbox rejects, and the message about it.
pub(super) fn oversized_field(
    memory: &NewMemory,
    error: &Error,
    options: &MemoryOptions,
) -> (&'static str, String) {
    let (field, why) = match error {
        Error::InvalidInput { what, why } if what.ends_with("headers") => {
            let without_meta = NewMemory {
                meta_json: Map::new(),
                ..memory.clone()
            };
            let is_meta = validate_message(&without_meta, options).is_ok();
            let field = if is_meta { "meta_json" } else { "evidence" };
            (field, format!("the message's headers {why}"))
        }
        Error::InvalidInput { what, why } if what.ends_with("key") => {
            ("target_space", format!("the message's key {why}"))
        }
        Error::InvalidInput { why, .. } => ("payload_md", why.clone()),
        Error::PayloadTooLarge {
            bytes, bytes_max, ..
        } => (
            "payload_md",
            format!("is {bytes} bytes as JSON; {bytes_max} are allowed"),
        ),
        error => ("payload_md", error.to_string()),
    };
    (field, format!("{field}: {why}"))
}

fn validate_message(memory: &NewMemory, options: &MemoryOptions) -> Result<(), Error> {
    memory.message().validate(0, &queue_policy(options))
}
