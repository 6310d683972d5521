//! Changing and removing memories.

mod earlier;

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::timeout;
use tracing::error;

use super::{MemoryService, StoreRequest, read::unavailable, refused};
use crate::{
    Action, AuditEnd, AuditStatus, Caller, Correlation, MemoryItem, NewAudit, UnknownActorPolicy,
    audit_json::DeleteAudit,
    gateway::Sketch,
    policy::{Policy, explain},
    tools::{Arguments, Refusal, wrong},
};

/// A newer version of a memory, as it was asked for. What is absent is as in the old one.
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

    /// The newer version.
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

/// Evidence of the old version, in the form it was given in: mere references stay such.
fn carried(evidence: Vec<Value>) -> (Vec<Value>, Vec<String>) {
    let is_reference = |item: &Value| item.get("_source").is_some();
    if !evidence.is_empty() && evidence.iter().all(is_reference) {
        let uri = |item: &Value| item["uri"].as_str().map(str::to_owned);
        (Vec::new(), evidence.iter().filter_map(uri).collect())
    } else {
        (evidence, Vec::new())
    }
}

/// A memory to remove, as it was asked for.
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

/// Why a memory is not removed.
struct Objection {
    code: &'static str,
    reason: String,
    message: String,
}

impl MemoryService {
    /// Stores a newer version of a memory, which replaces the old one.
    pub(crate) async fn update(
        &self,
        request: UpdateRequest,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let old = match self.readable(&request.id, caller).await {
            Ok(old) => old,
            Err(refusal) if refusal.code == "NOT_FOUND" => {
                let refusal = Refusal {
                    details: Some(json!({"parameter": "id"})),
                    ..refusal
                };
                let sketch = Sketch::by(request.actor_user_id);
                return Err(self.refused_store(sketch, refusal, caller).await);
            }
            Err(refusal) => {
                let sketch = Sketch::by(request.actor_user_id);
                let reason = "memory_update:unavailable";
                return Err(self.refused_change(sketch, reason, refusal, caller).await);
            }
        };
        let unfit = match &old.superseded_by {
            Some(newer) => Some(wrong(
                "id",
                &format!("was replaced by {newer}: update that one"),
            )),
            None if old.text == request.payload_md => {
                Some(wrong("payload_md", "is the text of this version already"))
            }
            None => None,
        };
        if let Some(refusal) = unfit {
            let sketch = Sketch::in_space(old.space, request.actor_user_id);
            return Err(self.refused_store(sketch, refusal, caller).await);
        }
        let id = old.id.clone();
        let mut answer = json!(self.store(request.version_of(old), caller).await);
        answer["supersedes"] = json!(id);
        Ok(answer)
    }

    /// Removes a memory. Audited once, whatever becomes of it.
    pub(crate) async fn delete(
        &self,
        request: DeleteRequest,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let given = caller.correlation_id.as_deref().unwrap_or_default();
        let correlation = Correlation::parse_or_new(given);
        let bound = caller.actor.as_deref().filter(|_| caller.is_authenticated);
        let actor = bound.or(request.actor_user_id.as_deref());
        let (team, backend) = (self.options().team_space(), self.backend().identity());
        let mut audit = DeleteAudit {
            correlation: &correlation,
            actor_user_id: actor.filter(|actor| !actor.is_empty()),
            space: &team,
            memory_id: &request.id,
            backend: &backend,
            action: Action::Reject,
            reason: "memory_delete:not_found",
        };
        let (space, is_there) = match self.readable(&request.id, caller).await {
            Ok(item) => (item.space, true),
            Err(refusal) => {
                let earlier = match refusal.code {
                    "NOT_FOUND" => self.may_be_removed(&request.id, caller).await?,
                    _ => {
                        audit.reason = "memory_delete:unavailable";
                        None
                    }
                };
                match earlier {
                    Some(space) => (space, false),
                    None => return Err(self.not_deleted(&audit, refusal).await),
                }
            }
        };
        audit.space = &space;
        let claimed = request.actor_user_id.as_deref();
        if let Some(objection) = self.objects_to_delete(&space, claimed, caller).await? {
            audit.reason = &objection.reason;
            let refusal = Refusal::new(objection.code, objection.message);
            return Err(self.not_deleted(&audit, refusal).await);
        }
        (audit.action, audit.reason) = (Action::Allow, "memory_delete");
        let message = if is_there {
            self.remove(&audit).await?;
            None
        } else {
            self.audited(&audit.audit(AuditStatus::Success)).await?;
            Some("an earlier request removed it, whose answer was lost")
        };
        Ok(json!({
            "ok": true, "action": "allow", "reason": audit.reason, "memory_id": request.id,
            "space": space, "message": message,
        }))
    }

    /// Refuses to remove a memory, with the one audit of that.
    async fn not_deleted(&self, audit: &DeleteAudit<'_>, refusal: Refusal) -> Refusal {
        let audit = audit.audit(AuditStatus::Failed);
        let reason = audit.reason.clone();
        if let Err(refusal) = self.audited(&audit).await {
            return refusal;
        }
        Refusal { reason, ..refusal }
    }

    /// What speaks against it: whoever may not write to a space may not remove from it either. What a
    /// memory says, and on what evidence, does not matter any more.
    async fn objects_to_delete(
        &self,
        space: &str,
        claimed: Option<&str>,
        caller: &Caller,
    ) -> Result<Option<Objection>, Refusal> {
        let objection = |code, reason: &str| Objection {
            code,
            reason: reason.to_owned(),
            message: explain(reason),
        };
        if let Err(refusal) = self.check_actor(caller, claimed) {
            let message = refusal.message;
            return Ok(Some(Objection {
                message,
                ..objection(refusal.code, "actor_mismatch")
            }));
        }
        let bound = caller.actor.as_deref().filter(|_| caller.is_authenticated);
        let actor = bound.or(claimed).filter(|actor| !actor.is_empty());
        if let Some(actor) = actor.filter(|_| bound.is_none())
            && !self.logbook().user_exists(actor).await.map_err(refused)?
        {
            // What somebody stores whom nobody knows is nobody's in particular, and theirs as much.
            let is_nobodys = space == self.spaces()?.private_of(None);
            if is_nobodys && self.options().unknown_actor_policy == UnknownActorPolicy::Degrade {
                return Ok(None);
            }
            return Ok(Some(objection("ACTOR_UNKNOWN", "actor_unknown:reject")));
        }
        if self.private_owner(space).is_some() {
            return Ok(None);
        }
        let settings = self.logbook().settings(&self.options().project_key).await;
        let settings = settings.map_err(refused)?;
        let policy = Policy::read(&settings.policy_json);
        let is_unproven = caller.is_authenticated && bound.is_none();
        let is_admitted =
            policy.admits_user(actor) && !(is_unproven && policy.allowlist_users.is_some());
        Ok(match (settings.team_write_enabled, is_admitted) {
            (false, _) => Some(objection("POLICY_REJECT", "policy:team_write_disabled")),
            (true, false) => Some(objection("POLICY_REJECT", "policy:user_not_in_allowlist")),
            (true, true) => None,
        })
    }

    /// Removes it with its audit: at once where memories are kept in the logbook, else audited first.
    async fn remove(&self, audit: &DeleteAudit<'_>) -> Result<(), Refusal> {
        let id = audit.memory_id;
        if self.backend().is_in(self.logbook()) {
            let audit = audit.audit(AuditStatus::Success);
            let deleted = self.logbook().delete_kept(id, Some(&audit)).await;
            return match deleted.map_err(refused)? {
                true => Ok(()),
                false => Err(Refusal::new(
                    "NOT_FOUND",
                    format!("memory {id:?} was removed meanwhile"),
                )),
            };
        }
        self.audited(&audit.audit(AuditStatus::Pending)).await?;
        // In a task of its own: a client that hangs up must not leave an audit without an end.
        let (service, name) = (self.clone(), id.to_owned());
        let correlation_id = audit.correlation.to_string();
        let removing = async move {
            let removed = service.removed(&name).await;
            let end = match &removed {
                Ok(_) => DeleteAudit::deleted(),
                Err(error) => DeleteAudit::failed(error),
            };
            service.end_delete(&correlation_id, &end).await;
            removed
        };
        match tokio::spawn(removing).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                let may_be_removed = DeleteAudit::is_doubt(&error);
                let mut refusal = unavailable(error);
                if may_be_removed {
                    let advice = "the memory may be removed: repeat the request to find out";
                    refusal.message = format!("{}; {advice}", refusal.message);
                }
                Err(refusal)
            }
            Err(gone) => Err(Refusal::new("INTERNAL_ERROR", gone.to_string()).retryable()),
        }
    }

    /// Removes a memory from the memory server, in turn with those who write there.
    async fn removed(&self, id: &str) -> Result<bool, crate::BackendError> {
        let budget = self.options().gateway_budget();
        let turn = match timeout(budget, self.turns().take_all()).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(error)) => return Err(crate::BackendError::Unreachable(error.to_string())),
            Err(_) => {
                let why = "others are still writing".to_owned();
                return Err(crate::BackendError::Unreachable(why));
            }
        };
        let removed = self
            .asked("delete", self.backend().delete(id, budget))
            .await;
        drop(turn);
        removed
    }

    /// Ends the audit of a removal; reconciling ends it otherwise.
    async fn end_delete(&self, correlation_id: &str, end: &AuditEnd) {
        const PATIENCE: Duration = Duration::from_secs(10);
        let ended = self.logbook().finalize_audit(correlation_id, end);
        match timeout(PATIENCE, ended).await {
            Ok(Ok(true)) => {}
            other => error!(
                correlation_id,
                ?other,
                "the audit of a removal could not be ended; reconciling will do so"
            ),
        }
    }

    /// Writes an audit; what cannot be audited is not done.
    async fn audited(&self, audit: &NewAudit) -> Result<(), Refusal> {
        let budget = self.options().gateway_budget();
        let why = match timeout(budget, self.logbook().insert_audit(audit)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        error!("the audit of a removal could not be written: {why}");
        let why = format!("the audit could not be written; nothing was removed: {why}");
        Err(Refusal::new("AUDIT_WRITE_FAILED", why).retryable())
    }
}
