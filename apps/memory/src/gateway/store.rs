//! Storing a memory.

mod audit;
mod decide;
mod defer;
mod ending;
mod fit;
mod known;
mod unfit;
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
use tracing::{Instrument, Span, error, warn};

pub(crate) use self::unfit::Sketch;
use self::{decide::Grounds, unfit::Unfit, write::Write};
use super::MemoryService;
use crate::{
    Caller, Correlation,
    consume::Errand,
    metrics,
    tools::{Arguments, Refusal, missing},
    turn::Turn,
    uri::mask_credentials,
};

/// What the message of a memory begins with that is stored already.
pub(crate) const DEDUP_HIT: &str = "dedup_hit";

/// A memory to store, as it was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreRequest {
    /// The text; absent if there is a card.
    pub payload_md: Option<String>,
    /// The fields of a memory card, instead of a text.
    pub card: Option<Map<String, Value>>,
    /// Where it should go; absent: to the team.
    pub target_space: Option<String>,
    /// Kept with it.
    pub meta_json: Map<String, Value>,
    /// `PROCEDURE`, `DECISION` and so on.
    pub kind: Option<String>,
    /// References to evidence, version 1.
    pub evidence_refs: Vec<String>,
    /// Evidence, version 2.
    pub evidence: Vec<Value>,
    /// Whether it is one of very many.
    pub is_bulk: bool,
    /// The item it is about.
    pub item_id: Option<i64>,
    /// Who stores it.
    pub actor_user_id: Option<String>,
    /// The memory that this one is a newer version of: it stays in the same space.
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

/// What became of it. Every field is always there, but for those of errors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreAnswer {
    /// Whether it is stored.
    pub ok: bool,
    /// `allow`, `redirect`, `deferred`, `reject` or `error`.
    pub action: &'static str,
    /// Why, as the audit has it: `policy:team_write_disabled` and its like. A repeated request is
    /// answered as the first one was.
    pub reason: Option<String>,
    /// Where it is stored.
    pub space_written: Option<String>,
    /// Under what.
    pub memory_id: Option<String>,
    /// The row of the outbox it waits in.
    pub outbox_id: Option<i64>,
    /// The request's name.
    pub correlation_id: String,
    /// The references that came with it.
    pub evidence_refs: Vec<String>,
    /// For people.
    pub message: Option<String>,
    /// What went wrong, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<&'static str>,
    /// Whether the same request may go well later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// What it was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// Whether it is stored and its audit has not been ended.
    #[serde(skip)]
    pub(crate) is_audit_open: bool,
    /// Why it could never be stored, while that is not audited.
    #[serde(skip)]
    pub(crate) unfit: Option<Unfit>,
}

/// What a decision was made by does not hold any more.
struct Stale;

/// One request on its way. Owns what it needs: it goes on when its client is gone.
struct Call {
    service: MemoryService,
    caller: Caller,
    correlation: Correlation,
    /// The references that came with it, for the answer.
    evidence_refs: Vec<String>,
    /// When it came.
    since: Instant,
    /// Whoever ends the process waits until it is given back.
    _place: Option<OwnedSemaphorePermit>,
    /// The change of a repository that it is made of, if it is.
    errand: Option<Errand>,
    /// Its turn to write, once it has come. Given back with the last of the request: whoever is next
    /// sees what became of this one. Should writing that down take long, they see that its audit is
    /// pending, and ask.
    turn: Mutex<Option<Turn>>,
}

impl MemoryService {
    /// Stores a memory: audited first, then stored, deferred or refused, and audited to its end.
    pub async fn store(&self, request: StoreRequest, caller: &Caller) -> StoreAnswer {
        self.store_for(request, caller, None).await
    }

    /// The same for a change of a repository: the cursor moves with the end of its audit.
    pub(crate) async fn store_for(
        &self,
        request: StoreRequest,
        caller: &Caller,
        errand: Option<Errand>,
    ) -> StoreAnswer {
        let given = caller.correlation_id.as_deref().unwrap_or_default();
        let place = Arc::clone(&self.inner.places).acquire_owned().await;
        let call = Arc::new(Call {
            _place: place.ok(),
            service: self.clone(),
            caller: caller.clone(),
            correlation: Correlation::parse_or_new(given),
            evidence_refs: masked(&request.evidence_refs),
            since: Instant::now(),
            errand,
            turn: Mutex::default(),
        });
        // In a task of its own: a client that hangs up must not leave an audit without an end.
        let running = Arc::clone(&call);
        let task = async move { running.run(request).await };
        let answer = match tokio::spawn(task.instrument(Span::current())).await {
            Ok(answer) => answer,
            Err(gone) => call.broken(&gone.to_string()).await,
        };
        metrics::stored(answer.action, call.since);
        answer
    }
}

impl Call {
    async fn run(self: &Arc<Self>, request: StoreRequest) -> StoreAnswer {
        let sketch = Sketch::of(&request);
        let mut answer = self.answered(request).await;
        if let Some(unfit) = answer.unfit.take() {
            let message = answer.message.as_deref().unwrap_or_default();
            let who = (&self.caller, &self.correlation);
            let audited = self.service.audit_unfit(sketch, &unfit, message, who);
            audited.await;
        }
        answer
    }

    async fn answered(self: &Arc<Self>, request: StoreRequest) -> StoreAnswer {
        let asked = match self.read(request) {
            Ok(asked) => asked,
            Err(answer) => return *answer,
        };
        // Nearly always everything is as it was, and the database says so with the first audit.
        if let Some((write, grounds)) = self.presume(&asked) {
            match self.write(write, grounds).await {
                Ok(answer) => return answer,
                Err(Stale) => {
                    self.hold(None);
                    self.service.forget_settings();
                }
            }
        }
        let write = match self.decide(&asked).await {
            Ok(write) => write,
            Err(answer) => return *answer,
        };
        match self.write(write, Grounds::default()).await {
            Ok(answer) => answer,
            Err(Stale) => unreachable!("invariant: nothing was taken for granted"),
        }
    }

    /// Keeps a turn until the request has come to its end, or gives it back.
    fn hold(&self, turn: Option<Turn>) {
        // Nothing that holds it can panic halfway.
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
    }

    /// Waits for the logbook for as long as the budget lasts. What was asked of it is not wanted
    /// any more then, but may have been done.
    async fn in_time<T>(
        &self,
        attempted: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let budget = self.service.options().gateway_budget();
        match timeout_at(self.since + budget, call).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Unavailable {
                attempted,
                certainty: Certainty::Unknown,
                source: format!("no answer within {} ms", budget.as_millis()).into(),
            }),
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
            unfit: None,
        }
    }

    /// It is stored, with whatever there is to say about that.
    fn written(&self, write: &Write, notes: Option<String>) -> StoreAnswer {
        let notes: Vec<String> = notes.into_iter().chain(write.redirected()).collect();
        StoreAnswer {
            ok: true,
            reason: Some(write.reason.clone()),
            space_written: Some(write.memory.target_space.clone()),
            message: (!notes.is_empty()).then(|| notes.join("; ")),
            ..self.answer(write.action.as_str())
        }
    }

    /// It is not, and somebody has to do something about that.
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

    /// The logbook could not be asked; nothing has happened.
    fn unread(&self, error: &Error) -> StoreAnswer {
        warn!(%error, "the logbook could not be asked about a memory");
        let message = format!("the logbook could not be asked; nothing was stored: {error}");
        self.error("LOGBOOK_UNAVAILABLE", message, error.is_retryable())
    }

    /// What cannot be audited is not done.
    fn unaudited(&self, space: &str, sha: &str, error: &Error) -> StoreAnswer {
        error!(correlation_id = %self.correlation, %error, "an audit could not be written");
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

/// References as they may be repeated.
fn masked(evidence_refs: &[String]) -> Vec<String> {
    let masked = evidence_refs.iter().map(|uri| mask_credentials(uri));
    masked.map(Cow::into_owned).collect()
}

/// What an error was about.
fn context(space: &str, sha: &str) -> Value {
    json!({"target_space": space, "payload_sha": sha, "timestamp": Timestamp::now()})
}
