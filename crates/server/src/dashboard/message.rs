//! The page of one message: its state, its history, and the operator actions.

use askama::Template;
use axum::{Extension, Json, extract::State, response::Response};
use consign_kernel::{
    Attempt, AuditEntry, Explanation, LateResult, MessageId, Resolution, State as SourcePosition,
    StateKind,
};
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    beside::{self, RelatedRecord},
    form::Form,
    live::Topic,
    shell::{Shell, rendered, see_other, text},
    words::{Moment, json, pretty, took},
};
use crate::{
    extract::{InPath, Params},
    gate::access::Caller,
    problem::Problem,
    routes::{erase::erase_one, messages::Action},
    state::AppState,
    wire::operate::by,
};

/// Operator actions shown, at most.
const ENTRIES: u32 = 100;

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    shell: Shell,
    /// Absent where the payload shows: what is kept up to date has nothing that is masked.
    topic: Option<String>,
    id: i64,
    queue: String,
    key: Option<String>,
    group: Option<String>,
    /// Its correlation id.
    correlation: Option<String>,
    created: Moment,
    expires: Option<Moment>,
    headers: Vec<(String, String)>,
    beside: Vec<RelatedRecord>,
    can: Actions,
    /// HTML of what resolving it needs besides.
    resolve_fields: &'static str,
    resolves_unknown: bool,
    live: String,
    /// Its payload, once a reason was given.
    payload: Option<String>,
    /// What shows in place of its content, if that was erased.
    erased: Option<String>,
}

/// The actions for its state.
#[derive(Clone, Copy, Debug, Default)]
struct Actions {
    requeue: bool,
    hold: bool,
    decide: bool,
    discard: bool,
    cancel: bool,
    erase: bool,
}

#[derive(Template)]
#[template(path = "message_live.html")]
struct MessageLiveTemplate {
    state: StateKind,
    sentence: String,
    /// The message that comes first.
    behind: Option<i64>,
    attempts: Vec<Try>,
    late: Vec<LateRow>,
    audit: Vec<Entry>,
}

/// An attempt.
struct Try {
    no: u32,
    outcome: &'static str,
    owner: String,
    fence: i64,
    at: Moment,
    took: String,
    code: String,
    detail: String,
    /// Whether there is a result that shows with the payload only.
    is_masked: bool,
    result: Option<String>,
    next: Option<Moment>,
}

/// A result that came too late.
struct LateRow {
    fence: i64,
    owner: String,
    outcome: String,
    code: String,
    detail: String,
    at: Moment,
}

/// An operator action.
struct Entry {
    at: Moment,
    actor: String,
    action: String,
    reason: String,
    /// The redrive it was done by.
    redrive: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct DoneParams {
    done: Option<String>,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<MessageId>,
    Params(query): Params<DoneParams>,
) -> Result<Response, Problem> {
    let shell = Shell::new(format!("Message {id}"), "/ui/messages", &caller);
    page(&state, shell.with_done(query.done.as_deref()), id, None).await
}

/// Shows the payload; the store records the access in the audit.
pub(super) async fn reveal(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<MessageId>,
    form: Form,
) -> Result<Response, Problem> {
    let by = by(&caller, form.reason())?;
    let message = state.store.reveal(id, &by).await?;
    let message = message.ok_or_else(|| Problem::no_such_message(id))?;
    let shell = Shell::new(format!("Message {id}"), "/ui/messages", &caller);
    page(&state, shell, id, Some(pretty(&message.payload))).await
}

async fn page(
    state: &AppState,
    shell: Shell,
    id: MessageId,
    payload: Option<String>,
) -> Result<Response, Problem> {
    let explanation = explained(state, id).await?;
    let live = live_of(state, &explanation, payload.is_some()).await?;
    let kind = explanation.state.kind();
    let profile = state.profile(&explanation.message.queue);
    let can = Actions {
        requeue: kind == StateKind::Dead && explanation.erased.is_none(),
        hold: matches!(kind, StateKind::Ready | StateKind::Waiting),
        decide: kind == StateKind::Held,
        discard: matches!(kind, StateKind::Dead | StateKind::Held) && profile.is_none(),
        cancel: matches!(kind, StateKind::Ready | StateKind::Waiting) && profile.is_none(),
        erase: kind.is_finished()
            && explanation.erased.is_none()
            && profile.is_none_or(|profile| profile.can_erase),
    };
    let erased = explanation.erased.map(|erasure| erasure.sentence());
    let message = explanation.message;
    let beside = beside::look(state, &message, explanation.now, payload.is_some()).await?;
    let headers = message.headers.iter().map(|(name, value)| {
        let plain = value.as_str().map(str::to_owned);
        (name.clone(), plain.unwrap_or_else(|| value.to_string()))
    });
    Ok(rendered(&MessagePage {
        shell,
        topic: payload.is_none().then(|| Topic::Message(id).to_string()),
        id: id.0,
        headers: headers.collect(),
        queue: message.queue.to_string(),
        correlation: beside::correlation(&message),
        key: message.key,
        group: message.group,
        created: Moment::new(message.created_at, explanation.now),
        expires: message
            .expires_at
            .map(|at| Moment::new(at, explanation.now)),
        beside,
        can,
        resolve_fields: profile.map_or("", |profile| profile.resolve_fields),
        resolves_unknown: profile.is_none_or(|profile| profile.resolves_unknown),
        live,
        payload,
        erased,
    }))
}

/// The part that is kept up to date.
pub(super) async fn live(state: &AppState, id: MessageId) -> Result<String, Problem> {
    live_of(state, &explained(state, id).await?, false).await
}

async fn explained(state: &AppState, id: MessageId) -> Result<Explanation, Problem> {
    let explanation = state.store.explain(id).await?;
    explanation.ok_or_else(|| Problem::no_such_message(id))
}

/// A sink's answer may repeat the payload: it is shown only with the payload.
async fn live_of(
    state: &AppState,
    explanation: &Explanation,
    is_revealed: bool,
) -> Result<String, Problem> {
    let (store, now) = (&state.store, explanation.now);
    let id = explanation.message.id;
    let history = store.history(id).await?;
    let late = store.late(id).await?;
    let audit = store.audit(Some(id), None, ENTRIES).await?;
    let behind = match explanation.state {
        SourcePosition::Waiting { behind } => behind.map(|behind| behind.0),
        _ => None,
    };
    text(&MessageLiveTemplate {
        state: explanation.state.kind(),
        sentence: explanation.sentence(),
        behind,
        attempts: history
            .into_iter()
            .map(|attempt| Try::new(attempt, now, is_revealed))
            .collect(),
        late: late
            .into_iter()
            .map(|late| LateRow::new(late, now))
            .collect(),
        audit: audit
            .into_iter()
            .map(|entry| Entry::new(entry, now))
            .collect(),
    })
}

impl Try {
    fn new(attempt: Attempt, now: Timestamp, is_revealed: bool) -> Self {
        let result = attempt.result.as_ref();
        Self {
            no: attempt.attempt_no,
            outcome: attempt.outcome.as_str(),
            owner: attempt.owner,
            fence: attempt.fence.0,
            at: Moment::new(attempt.claimed_at, now),
            took: took(attempt.claimed_at, attempt.finished_at),
            code: attempt.code.unwrap_or_default(),
            detail: attempt.detail.unwrap_or_default(),
            is_masked: result.is_some() && !is_revealed,
            result: result.filter(|_| is_revealed).map(json),
            next: attempt.next_due_at.map(|at| Moment::new(at, now)),
        }
    }
}

impl LateRow {
    fn new(late: LateResult, now: Timestamp) -> Self {
        Self {
            fence: late.fence.0,
            owner: late.owner,
            outcome: format!("{:?}", late.outcome).to_lowercase(),
            code: late.code.unwrap_or_default(),
            detail: late.detail.unwrap_or_default(),
            at: Moment::new(late.at, now),
        }
    }
}

impl Entry {
    fn new(entry: AuditEntry, now: Timestamp) -> Self {
        Self {
            redrive: beside::redrive(&entry.action, &entry.reason),
            at: Moment::new(entry.at, now),
            actor: entry.actor,
            action: entry.action,
            reason: entry.reason,
        }
    }
}

pub(super) async fn requeue(
    state: State<AppState>,
    caller: Extension<Caller>,
    id: InPath<MessageId>,
    form: Form,
) -> Result<Response, Problem> {
    act(state, caller, id, &form, (Action::Requeue, "requeue")).await
}

pub(super) async fn hold(
    state: State<AppState>,
    caller: Extension<Caller>,
    id: InPath<MessageId>,
    form: Form,
) -> Result<Response, Problem> {
    act(state, caller, id, &form, (Action::Hold, "hold")).await
}

pub(super) async fn unhold(
    state: State<AppState>,
    caller: Extension<Caller>,
    id: InPath<MessageId>,
    form: Form,
) -> Result<Response, Problem> {
    act(state, caller, id, &form, (Action::Unhold, "unhold")).await
}

pub(super) async fn discard(
    state: State<AppState>,
    caller: Extension<Caller>,
    id: InPath<MessageId>,
    form: Form,
) -> Result<Response, Problem> {
    act(state, caller, id, &form, (Action::Discard, "discard")).await
}

pub(super) async fn cancel(
    state: State<AppState>,
    caller: Extension<Caller>,
    id: InPath<MessageId>,
    form: Form,
) -> Result<Response, Problem> {
    act(state, caller, id, &form, (Action::Cancel, "cancel")).await
}

/// Erases the content as the API does.
pub(super) async fn erase(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<MessageId>,
    form: Form,
) -> Result<Response, Problem> {
    erase_one(&state, id, &by(&caller, form.reason())?).await?;
    Ok(see_other(&format!("/ui/messages/{id}?done=erase")))
}

pub(super) async fn resolve(
    state: State<AppState>,
    caller: Extension<Caller>,
    id: InPath<MessageId>,
    form: Form,
) -> Result<Response, Problem> {
    let resolution = match form.get("outcome") {
        Some("delivered") => Resolution::Delivered {
            result: found(&state, &form)?,
        },
        Some("dead") => Resolution::Dead,
        Some("unknown") => Resolution::Unknown,
        other => {
            let (value, why) = (
                other.unwrap_or_default(),
                "must be delivered, dead or unknown",
            );
            return Err(Problem::out_of_bounds(
                "outcome",
                consign_kernel::quoted(value),
                why,
            ));
        }
    };
    let action = (Action::Resolve(resolution), "resolve");
    act(state, caller, id, &form, action).await
}

/// The form's fields of an app; the store rejects what is missing.
fn found(state: &AppState, form: &Form) -> Result<Option<String>, Problem> {
    for extension in state.extensions.iter() {
        let found = extension.resolution(form)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Performs the action as the API does, and shows the result.
async fn act(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<MessageId>,
    form: &Form,
    (action, word): (Action, &str),
) -> Result<Response, Problem> {
    let Json(moved) = action.one(&state, &caller, id, form.reason()).await?;
    Ok(see_other(&format!("/ui/messages/{}?done={word}", moved.id)))
}
