//! `memory_store` in four steps, a file each:
//!
//! 1. [`parse`]: the request becomes a validated `StoreInput`.
//! 2. [`authorize`]: the requester, and the settings that apply.
//! 3. [`decide`]: a pure function of both; gives a `WritePlan` or a rejection.
//! 4. [`write`]: the audit first, then the memory is stored or deferred, then the audit ends.
//!
//! A request that is not written is answered by [`reject`], with its audit. Every request has exactly
//! one audit.

mod authorize;
mod decide;
mod parse;
mod reject;
mod write;

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
};

use consign_kernel::{Certainty, Error, Result};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};
use tracing::{Instrument, Span, error};

pub(crate) use self::reject::RequestOutline;
use self::{
    authorize::FactSource,
    decide::{WritePlan, decide},
    parse::{StoreInput, parse},
    reject::StoreError,
};
use super::MemoryService;
use crate::{
    Caller, Correlation,
    audit_json::{AuditFacts, Operation},
    consume::ChangeOrigin,
    metrics, payload_sha,
    tools::{Arguments, Refusal, missing},
    uri::mask_credentials,
    write_lock::WriteGuard,
};

/// The first word of the message about a memory that was stored before.
pub(crate) const DEDUP_HIT: &str = "dedup_hit";

/// A memory to store, as requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreRequest {
    /// The text; absent if there is a card.
    pub payload_md: Option<String>,
    /// The fields of a memory card, instead of a text.
    pub card: Option<Map<String, Value>>,
    /// The space; absent: the team's.
    pub target_space: Option<String>,
    /// The caller's own fields, stored with the memory.
    pub meta_json: Map<String, Value>,
    /// `PROCEDURE`, `DECISION` and so on.
    pub kind: Option<String>,
    /// References to evidence, version 1.
    pub evidence_refs: Vec<String>,
    /// Evidence, version 2.
    pub evidence: Vec<Value>,
    /// Whether it is one of a bulk write.
    pub is_bulk: bool,
    /// The logbook item it is about.
    pub item_id: Option<i64>,
    /// The acting user.
    pub actor_user_id: Option<String>,
    /// The memory that this one replaces, in the same space.
    pub supersedes: Option<String>,
}

impl StoreRequest {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        let request = Self {
            payload_md: arguments.text("payload_md")?,
            card: arguments.object("card")?,
            target_space: arguments.text("target_space")?,
            meta_json: arguments.object("meta_json")?.unwrap_or_default(),
            kind: arguments.text("kind")?,
            evidence_refs: arguments.texts("evidence_refs")?,
            evidence: arguments.list("evidence")?,
            is_bulk: arguments.flag("is_bulk")?.unwrap_or(false),
            item_id: arguments.whole("item_id")?,
            actor_user_id: arguments.text("actor_user_id")?,
            supersedes: None,
        };
        if request.payload_md.is_none() && request.card.is_none() {
            return Err(missing("payload_md"));
        }
        Ok(request)
    }
}

/// The result of a store request. Every field is always serialized, except those of errors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreAnswer {
    /// Whether the memory is stored.
    pub ok: bool,
    /// `allow`, `redirect`, `deferred`, `reject` or `error`.
    pub action: &'static str,
    /// The audit's reason, such as `policy:team_write_disabled`. A repeated request gets the same one.
    pub reason: Option<String>,
    /// The space it is stored in.
    pub space_written: Option<String>,
    /// The backend's id.
    pub memory_id: Option<String>,
    /// The outbox row of a deferred memory.
    pub outbox_id: Option<i64>,
    /// The id of the request.
    pub correlation_id: String,
    /// The request's references, credentials masked.
    pub evidence_refs: Vec<String>,
    /// The result in words.
    pub message: Option<String>,
    /// The error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<&'static str>,
    /// Whether repeating the request may succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// Space, hash and time of a failed request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// Whether the memory is stored and its audit is still pending.
    #[serde(skip)]
    pub(crate) is_audit_open: bool,
}

/// The cached facts of a decision differ from the database; nothing was written.
struct StaleFacts;

/// One store request. Owns what it needs, because it continues after its client has disconnected.
struct StoreCall {
    service: MemoryService,
    caller: Caller,
    correlation: Correlation,
    /// The request's references, for the answer.
    evidence_refs: Vec<String>,
    started: Instant,
    /// Delays the end of the process until the request is finished.
    _in_flight: Option<OwnedSemaphorePermit>,
    /// The repository change that the memory is made of, if any.
    origin: Option<ChangeOrigin>,
    /// The write lock, once taken. It is released with the request, so that the next writer of the
    /// same text sees the ended audit; if ending it takes long, the next writer sees it pending and
    /// asks the backend.
    guard: Mutex<Option<WriteGuard>>,
}

impl MemoryService {
    /// Stores a memory: audited first, then stored, deferred or rejected.
    pub async fn store(&self, request: StoreRequest, caller: &Caller) -> StoreAnswer {
        self.store_for(request, caller, None).await
    }

    /// The same for a repository change: the consume cursor moves with the end of the audit.
    pub(crate) async fn store_for(
        &self,
        request: StoreRequest,
        caller: &Caller,
        origin: Option<ChangeOrigin>,
    ) -> StoreAnswer {
        let given = caller.correlation_id.as_deref().unwrap_or_default();
        let in_flight = Arc::clone(&self.inner.in_flight).acquire_owned().await;
        let call = Arc::new(StoreCall {
            _in_flight: in_flight.ok(),
            service: self.clone(),
            caller: caller.clone(),
            correlation: Correlation::parse_or_new(given),
            evidence_refs: masked(&request.evidence_refs),
            started: Instant::now(),
            origin,
            guard: Mutex::default(),
        });
        // In a task of its own: a client that disconnects must not leave a pending audit.
        let running = Arc::clone(&call);
        let task = async move { running.run(request).await };
        let answer = match tokio::spawn(task.instrument(Span::current())).await {
            Ok(answer) => answer,
            Err(panicked) => call.panicked(&panicked.to_string()).await,
        };
        metrics::stored(answer.action, call.started);
        answer
    }
}

impl StoreCall {
    async fn run(self: &Arc<Self>, request: StoreRequest) -> StoreAnswer {
        let outline = RequestOutline::of(&request);
        match self.store(request).await {
            Ok(answer) => answer,
            Err(refused) => self.refuse(outline, refused).await,
        }
    }

    async fn store(self: &Arc<Self>, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        let options = self.service.options();
        let input = parse(request, options)?;
        let mut source = FactSource::Cache;
        loop {
            let facts = self.authorize(&input, source).await?;
            let decision = decide(&input, &facts, options, self.audit_facts(&input));
            let plan = match decision {
                // Cached facts are verified by writing, so they cannot reject a request.
                Err(_) if facts.source == FactSource::Cache => {
                    source = FactSource::Database;
                    continue;
                }
                decision => decision?,
            };
            match self.write(plan, &facts).await {
                Ok(answer) => return Ok(answer),
                // Only cached facts can be stale, so this happens once at most.
                Err(StaleFacts) => source = FactSource::Database,
            }
            self.set_guard(None);
        }
    }

    /// The facts of the audit before anything is decided.
    fn audit_facts(&self, input: &StoreInput) -> AuditFacts {
        let origin = self.origin.as_ref();
        let mut audit = AuditFacts {
            payload_sha: Some(payload_sha(&input.text)),
            payload_len: Some(input.text.chars().count()),
            evidence: input.evidence.clone(),
            trim: input.trim.clone(),
            backend: Some(self.service.backend().identity()),
            extra: origin.map(ChangeOrigin::noted).unwrap_or_default(),
            ..AuditFacts::new(
                Operation::MemoryStore,
                &self.correlation,
                input.space.as_str(),
            )
        };
        audit.note("evidence_source", input.evidence.source.as_str());
        if let Some(old) = &input.supersedes {
            audit.note("supersedes", old.as_str());
        }
        audit
    }

    /// Holds a write lock until the request is finished, or releases it.
    fn set_guard(&self, guard: Option<WriteGuard>) {
        *self.guard.lock().unwrap_or_else(PoisonError::into_inner) = guard;
    }

    /// Waits for the logbook until the budget is used up; what was sent may still be executed then.
    async fn within_budget<T>(
        &self,
        attempted: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let ends = self.started + self.service.options().gateway_budget();
        let answer = timeout_at(ends, call).await;
        answer.unwrap_or_else(|_| Err(self.out_of_budget(attempted)))
    }

    fn out_of_budget(&self, attempted: &'static str) -> Error {
        let budget = self.service.options().gateway_budget();
        Error::Unavailable {
            attempted,
            certainty: Certainty::Unknown,
            source: format!("no answer within {} ms", budget.as_millis()).into(),
        }
    }

    fn answer(&self, action: &'static str) -> StoreAnswer {
        StoreAnswer {
            ok: false,
            action,
            reason: None,
            space_written: None,
            memory_id: None,
            outbox_id: None,
            correlation_id: self.correlation.to_string(),
            evidence_refs: self.evidence_refs.clone(),
            message: None,
            error_code: None,
            retryable: None,
            context: None,
            is_audit_open: false,
        }
    }

    /// The answer of a stored memory.
    fn written(
        &self,
        plan: &WritePlan,
        memory_id: Option<&str>,
        note: Option<String>,
    ) -> StoreAnswer {
        let notes: Vec<String> = note.into_iter().chain(plan.redirect_note()).collect();
        StoreAnswer {
            ok: true,
            reason: Some(plan.audit.reason.clone()),
            space_written: Some(plan.memory.target_space.clone()),
            memory_id: memory_id.map(str::to_owned),
            message: (!notes.is_empty()).then(|| notes.join("; ")),
            ..self.answer(plan.audit.action.as_str())
        }
    }

    fn error(
        &self,
        code: &'static str,
        message: impl Into<String>,
        is_retryable: bool,
    ) -> StoreAnswer {
        StoreAnswer {
            message: Some(message.into()),
            error_code: Some(code),
            retryable: Some(is_retryable),
            ..self.answer("error")
        }
    }

    /// Without an audit nothing is stored.
    fn unaudited(&self, space: &str, sha: &str, error: &Error) -> StoreAnswer {
        error!(correlation_id = %self.correlation, %error, "the audit of a memory could not be written");
        let message = match error.certainty() {
            Certainty::Definite => {
                format!("the audit could not be written; nothing was stored: {error}")
            }
            Certainty::Unknown => {
                format!("the audit may not have been written; nothing was stored: {error}")
            }
        };
        StoreAnswer {
            context: Some(context(space, sha)),
            ..self.error("AUDIT_WRITE_FAILED", message, error.is_retryable())
        }
    }
}

fn masked(evidence_refs: &[String]) -> Vec<String> {
    let masked = evidence_refs.iter().map(|uri| mask_credentials(uri));
    masked.map(Cow::into_owned).collect()
}

/// The context of an error.
fn context(space: &str, sha: &str) -> Value {
    json!({"target_space": space, "payload_sha": sha, "timestamp": Timestamp::now()})
}

/// The context of an error about one field.
fn field_context(space: &str, sha: &str, field: &str) -> Value {
    let mut context = context(space, sha);
    context["field"] = json!(field);
    context
}
