//! The page of one message: its state and its history.

use std::sync::Arc;

use askama::Template;
use axum::{Extension, extract::State, http::HeaderMap, response::Response};
use consign_kernel::{
    Attempt, AuditEntry, Explanation, LateResult, MessageId, RESENT_HEADER,
    State as SourcePosition, StateKind,
};
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    beside::{self, RelatedRecord},
    commands::{self, Command},
    form::Form,
    live::Topic,
    moves::Actions,
    neighbours::{self, Neighbours},
    shell::{Shell, rendered, text},
    timeline::Timeline,
    words::{Moment, json, pretty, took},
};
use crate::{
    extract::{InPath, Params},
    gate::{GateState, access::Caller},
    problem::{Problem, codes},
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
    /// Why the visitor may not see the payload.
    refusal: Option<&'static str>,
    /// The message that this one is a copy of.
    copy_of: Option<i64>,
    neighbours: Option<Neighbours>,
    commands: Vec<Command>,
}

#[derive(Template)]
#[template(path = "message_live.html")]
struct MessageLiveTemplate {
    state: StateKind,
    sentence: String,
    /// The message that comes first.
    behind: Option<i64>,
    timeline: Timeline,
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
    /// The message that it made of this one.
    copy: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct DoneParams {
    done: Option<String>,
}

/// A request for the page, as far as what it shows depends on it.
pub(super) struct PageRequest {
    pub(super) gate: Arc<GateState>,
    pub(super) headers: HeaderMap,
    pub(super) shell: Shell,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(gate): Extension<Arc<GateState>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    InPath(id): InPath<MessageId>,
    Params(query): Params<DoneParams>,
) -> Result<Response, Problem> {
    let shell = Shell::new(format!("Message {id}"), "/ui/messages", &caller);
    let request = PageRequest {
        gate,
        headers,
        shell: shell.with_done(query.done.as_deref()),
    };
    page(&state, request, id, None).await
}

/// Shows the payload; the store records the access in the audit.
pub(super) async fn reveal(
    State(state): State<AppState>,
    Extension(gate): Extension<Arc<GateState>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    InPath(id): InPath<MessageId>,
    form: Form,
) -> Result<Response, Problem> {
    let by = by(&caller, form.reason())?;
    let shell = Shell::new(format!("Message {id}"), "/ui/messages", &caller);
    may_reveal(&gate, &shell)?;
    let message = state.store.reveal(id, &by).await?;
    let message = message.ok_or_else(|| Problem::no_such_message(id))?;
    let payload = pretty(&message.payload);
    let request = PageRequest {
        gate,
        headers,
        shell,
    };
    page(&state, request, id, Some(payload)).await
}

/// Rejects a visitor who may not see payloads.
pub(super) fn may_reveal(gate: &GateState, shell: &Shell) -> Result<(), Problem> {
    let access = gate.options.dashboard_payloads;
    match access.refusal(shell.may_operate) {
        Some(why) => Err(Problem::new(codes::PAYLOAD_HIDDEN, why)),
        None => Ok(()),
    }
}

async fn page(
    state: &AppState,
    request: PageRequest,
    id: MessageId,
    payload: Option<String>,
) -> Result<Response, Problem> {
    let PageRequest {
        gate,
        headers,
        shell,
    } = request;
    let explanation = explained(state, id).await?;
    let live = live_of(state, &explanation, payload.is_some()).await?;
    let kind = explanation.state.kind();
    let profile = state.profile(&explanation.message.queue);
    let can = Actions::new(&explanation, profile.as_ref());
    let erased = explanation.erased.map(|erasure| erasure.sentence());
    let message = explanation.message;
    let beside = beside::look(state, &message, explanation.now, payload.is_some()).await?;
    let copy_of = message.headers.get(RESENT_HEADER);
    let copy_of = copy_of.and_then(|id| id.as_str()?.parse().ok());
    let refusal = gate.options.dashboard_payloads.refusal(shell.may_operate);
    let is_revealed = payload.is_some();
    let commands = commands::of((&gate.options, &headers), &message, kind, is_revealed);
    let neighbours = neighbours::look(state, &message).await?;
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
        refusal,
        copy_of,
        neighbours,
        commands,
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
        timeline: Timeline::new(explanation, &history),
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
            copy: beside::copy(&entry.action, &entry.reason),
            at: Moment::new(entry.at, now),
            actor: entry.actor,
            action: entry.action,
            reason: entry.reason,
        }
    }
}
