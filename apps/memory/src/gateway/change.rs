//! `memory_update` and `memory_delete`.

mod earlier;

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};
use tracing::error;

use super::{MemoryService, RequestOutline, StoreRequest, read::unavailable, refused};
use crate::{
    Action, AuditEnd, AuditStatus, BackendError, Caller, Correlation, MemoryItem,
    UnknownActorPolicy,
    audit_json::{AuditFacts, Operation},
    policy::{Policy, explain},
    tools::{Arguments, Refusal, wrong},
};

/// In `extra`: the memory that a removal is about.
const DELETED_MEMORY_ID: &str = "deleted_memory_id";

/// A new version of a memory. Absent fields are taken from the old one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UpdateRequest {
    id: String,
    payload_md: String,
    kind: Option<String>,
    meta_json: Option<Map<String, Value>>,
    evidence_refs: Vec<String>,
    evidence: Vec<Value>,
    actor_user_id: Option<String>,
}

impl UpdateRequest {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        Ok(Self {
            id: arguments.named("id")?,
            payload_md: arguments.named("payload_md")?,
            kind: arguments.text("kind")?,
            meta_json: arguments.object("meta_json")?,
            evidence_refs: arguments.texts("evidence_refs")?,
            evidence: arguments.list("evidence")?,
            actor_user_id: arguments.text("actor_user_id")?,
        })
    }

    fn version_of(self, old: MemoryItem) -> StoreRequest {
        let is_given = !self.evidence.is_empty() || !self.evidence_refs.is_empty();
        let (evidence, evidence_refs) = if is_given {
            (self.evidence, self.evidence_refs)
        } else {
            carried(old.evidence)
        };
        StoreRequest {
            payload_md: Some(self.payload_md),
            target_space: Some(old.space),
            kind: self.kind.or(old.kind),
            meta_json: self.meta_json.unwrap_or(old.meta),
            evidence,
            evidence_refs,
            actor_user_id: self.actor_user_id,
            supersedes: Some(old.id),
            ..StoreRequest::default()
        }
    }
}

/// Evidence of the old version, in the form it was given in: references stay references.
fn carried(evidence: Vec<Value>) -> (Vec<Value>, Vec<String>) {
    let is_reference = |item: &Value| item.get("_source").is_some();
    if !evidence.is_empty() && evidence.iter().all(is_reference) {
        let uri = |item: &Value| item["uri"].as_str().map(str::to_owned);
        (Vec::new(), evidence.iter().filter_map(uri).collect())
    } else {
        (evidence, Vec::new())
    }
}

/// A memory to remove.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeleteRequest {
    id: String,
    actor_user_id: Option<String>,
}

impl DeleteRequest {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        Ok(Self {
            id: arguments.named("id")?,
            actor_user_id: arguments.text("actor_user_id")?,
        })
    }
}

/// Why a removal is rejected.
struct DeleteRejection {
    code: &'static str,
    reason: String,
    message: String,
}

impl MemoryService {
    /// Stores a new version of a memory, which replaces the old one.
    pub(crate) async fn update(
        &self,
        request: UpdateRequest,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let old = match self.readable(&request.id, caller).await {
            Ok(old) => old,
            Err(refusal) => {
                let outline = RequestOutline::by(request.actor_user_id);
                if refusal.code != "NOT_FOUND" {
                    let reason = "memory_update:unavailable";
                    return Err(self.refused_change(outline, reason, refusal, caller).await);
                }
                let refusal = refusal.with_details(json!({"parameter": "id"}));
                return Err(self.refused_store(outline, refusal, caller).await);
            }
        };
        let invalid = match &old.superseded_by {
            Some(newer) => Some(wrong(
                "id",
                &format!("was replaced by {newer}: update that one"),
            )),
            None if old.text == request.payload_md => {
                Some(wrong("payload_md", "is the text of this version already"))
            }
            None => None,
        };
        if let Some(refusal) = invalid {
            let outline = RequestOutline::in_space(old.space, request.actor_user_id);
            return Err(self.refused_store(outline, refusal, caller).await);
        }
        let id = old.id.clone();
        let mut answer = json!(self.store(request.version_of(old), caller).await);
        answer["supersedes"] = json!(id);
        Ok(answer)
    }

    /// Removes a memory, with one audit whatever the result.
    pub(crate) async fn delete(
        &self,
        request: DeleteRequest,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let given = caller.correlation_id.as_deref().unwrap_or_default();
        let claimed = request.actor_user_id.as_deref();
        let actor = self.acting(claimed, caller);
        let mut audit = AuditFacts {
            actor_user_id: actor.map(str::to_owned),
            backend: Some(self.backend().identity()),
            reason: "memory_delete:not_found".to_owned(),
            ..AuditFacts::new(
                Operation::MemoryDelete,
                &Correlation::parse_or_new(given),
                self.options().team_space(),
            )
        };
        // Not `memory_id`: the dedup check must not take this audit for that of a stored memory.
        audit.note(DELETED_MEMORY_ID, request.id.as_str());
        let (space, exists) = match self.readable(&request.id, caller).await {
            Ok(item) => (item.space, true),
            Err(refusal) if refusal.code == "NOT_FOUND" => {
                match self.may_be_removed(&request.id, caller).await? {
                    Some(space) => (space, false),
                    None => return Err(self.not_deleted(&audit, refusal).await),
                }
            }
            Err(refusal) => {
                audit.reason = "memory_delete:unavailable".to_owned();
                return Err(self.not_deleted(&audit, refusal).await);
            }
        };
        audit.requested_space.clone_from(&space);
        if let Some(rejection) = self.rejects_delete(&space, claimed, caller).await? {
            audit.reason = rejection.reason;
            let refusal = Refusal::new(rejection.code, rejection.message);
            return Err(self.not_deleted(&audit, refusal).await);
        }
        (audit.action, audit.reason) = (Action::Allow, "memory_delete".to_owned());
        let message = if exists {
            self.remove(&request.id, &audit).await?;
            None
        } else {
            self.insert_delete_audit(&audit, AuditStatus::Success)
                .await?;
            Some("an earlier request removed it, whose answer was lost")
        };
        Ok(json!({
            "ok": true, "action": "allow", "reason": audit.reason, "memory_id": request.id,
            "space": space, "message": message,
        }))
    }

    /// The acting user: the token's, else the claimed one.
    fn acting<'c>(&self, claimed: Option<&'c str>, caller: &'c Caller) -> Option<&'c str> {
        let bound = caller.actor.as_deref().filter(|_| caller.is_authenticated);
        bound.or(claimed).filter(|actor| !actor.is_empty())
    }

    /// Writes the audit of a removal that is refused.
    async fn not_deleted(&self, audit: &AuditFacts, refusal: Refusal) -> Refusal {
        if let Err(unaudited) = self.insert_delete_audit(audit, AuditStatus::Failed).await {
            return unaudited;
        }
        Refusal {
            reason: Some(audit.reason.clone()),
            ..refusal
        }
    }

    /// The rule against a removal. Removing needs the right to write to the space; the rules about
    /// texts and evidence do not apply.
    async fn rejects_delete(
        &self,
        space: &str,
        claimed: Option<&str>,
        caller: &Caller,
    ) -> Result<Option<DeleteRejection>, Refusal> {
        let rejection = |code, reason: &str| DeleteRejection {
            code,
            reason: reason.to_owned(),
            message: explain(reason),
        };
        if let Err(refusal) = self.check_actor(caller, claimed) {
            return Ok(Some(DeleteRejection {
                message: refusal.message,
                ..rejection(refusal.code, "actor_mismatch")
            }));
        }
        let actor = self.acting(claimed, caller);
        let is_bound = caller.is_bound();
        if let Some(actor) = actor.filter(|_| !is_bound)
            && !self.logbook().user_exists(actor).await.map_err(refused)?
        {
            // Unknown actors share a space: each of them may remove from it.
            let is_theirs = space == self.spaces()?.private_of(None);
            if is_theirs && self.options().unknown_actor_policy == UnknownActorPolicy::Degrade {
                return Ok(None);
            }
            return Ok(Some(rejection("ACTOR_UNKNOWN", "actor_unknown:reject")));
        }
        if self.private_owner(space).is_some() {
            return Ok(None);
        }
        let settings = self.logbook().settings(&self.options().project_key).await;
        let settings = settings.map_err(refused)?;
        let policy = Policy::read(&settings.policy_json);
        // Knowing a listed name is no credential where callers have tokens.
        let is_unproven = caller.is_authenticated && !is_bound;
        let is_listed =
            policy.admits_user(actor) && !(is_unproven && policy.allowlist_users.is_some());
        let rule = match (settings.team_write_enabled, is_listed) {
            (false, _) => "policy:team_write_disabled",
            (true, false) => "policy:user_not_in_allowlist",
            (true, true) => return Ok(None),
        };
        Ok(Some(rejection("POLICY_REJECT", rule)))
    }

    /// Removes a memory with its audit: in one transaction from the embedded backend, else after a
    /// pending audit.
    async fn remove(&self, id: &str, audit: &AuditFacts) -> Result<(), Refusal> {
        if self.backend().is_in(self.logbook()) {
            let audit = audit.audit(AuditStatus::Success);
            let deleted = self.logbook().delete_kept(id, Some(&audit)).await;
            if deleted.map_err(refused)? {
                return Ok(());
            }
            let why = format!("memory {id:?} was removed meanwhile");
            return Err(Refusal::new("NOT_FOUND", why));
        }
        self.insert_delete_audit(audit, AuditStatus::Pending)
            .await?;
        // In a task of its own: a client that disconnects must not leave a pending audit.
        let (service, id) = (self.clone(), id.to_owned());
        let correlation_id = audit.correlation_id.clone();
        let removing = async move {
            let removed = service.remove_locked(&id).await;
            let end = match &removed {
                Ok(_) => AuditEnd::deleted(),
                Err(error) => AuditEnd::delete_failed(error, is_unknown(error)),
            };
            service.end_delete(&correlation_id, &end).await;
            removed
        };
        match tokio::spawn(removing).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                let may_be_removed = is_unknown(&error);
                let mut refusal = unavailable(error);
                if may_be_removed {
                    let advice = "the memory may be removed: repeat the request to find out";
                    refusal.message = format!("{}; {advice}", refusal.message);
                }
                Err(refusal)
            }
            Err(panicked) => Err(Refusal::new("INTERNAL_ERROR", panicked.to_string()).retryable()),
        }
    }

    async fn remove_locked(&self, id: &str) -> Result<bool, BackendError> {
        let budget = self.options().gateway_budget();
        let _guard = self
            .write_lock()
            .take_server(Instant::now() + budget)
            .await?;
        let deleted = self.backend().delete(id, budget);
        self.call_backend("delete", deleted).await
    }

    /// Ends the audit of a removal; reconciliation ends it if this fails.
    async fn end_delete(&self, correlation_id: &str, end: &AuditEnd) {
        const END_TIMEOUT: Duration = Duration::from_secs(10);
        let ended = self.logbook().finalize_audit(correlation_id, end);
        match timeout(END_TIMEOUT, ended).await {
            Ok(Ok(true)) => {}
            other => error!(
                correlation_id,
                ?other,
                "the audit of a removal could not be ended; reconciling will do so"
            ),
        }
    }

    /// Without an audit nothing is removed.
    async fn insert_delete_audit(
        &self,
        audit: &AuditFacts,
        status: AuditStatus,
    ) -> Result<(), Refusal> {
        let audit = audit.audit(status);
        let budget = self.options().gateway_budget();
        let why = match timeout(budget, self.logbook().insert_audit(&audit)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        error!("the audit of a removal could not be written: {why}");
        let why = format!("the audit could not be written; nothing was removed: {why}");
        Err(Refusal::new("AUDIT_WRITE_FAILED", why).retryable())
    }
}

/// Whether a failed removal may have happened: it was sent, and not refused.
fn is_unknown(error: &BackendError) -> bool {
    match error {
        BackendError::Unreachable(_) => false,
        BackendError::Unknown(_) | BackendError::Protocol(_) => true,
        BackendError::Api { status, .. } => *status >= 500 || *status == 408,
    }
}
