//! Reading messages, and operator actions on them.

use axum::{
    Extension, Json as Answer,
    extract::{RawQuery, State},
    http::{HeaderName, header},
    response::IntoResponse,
};
use consign_kernel::{
    By, DeadCause, Filter, MessageId, Move, MoveResult, PAGE_ENTRIES_MAX, QueueName, Resolution,
    StateKind, nearest,
};
use serde_json::json;

use super::{next_link, queues::unknown};
use crate::{
    extract::{InPath, Json, MaybeJson, Params},
    gate::access::Caller,
    problem::{Problem, codes},
    state::AppState,
    wire::{
        messages::{
            AttemptList, AttemptView, CauseList, CauseParams, CauseView, DeadPage, DeadParams,
            LateView, ListParams, MessagePage, MessageView, Selection,
        },
        operate::{
            MoveAnswer, MoveBody, ReasonBody, ResolveBody, ResolveManyBody, SkipBody, by,
            resolution,
        },
        shapes,
    },
};

const MOVES_MAX: usize = 1_000;
const AUDIT_ENTRIES_MAX: u32 = 1_000;

/// Why a message is where it is
///
/// The message, its state with an explanation, its attempts, late results, and the operator
/// actions on it.
#[utoipa::path(
    get, path = "/v1/messages/{id}", operation_id = "show_message", tag = "messages",
    params(("id" = i64, Path, description = "The message")),
    responses((status = 200, description = "The message", body = MessageView)),
)]
pub(crate) async fn show(
    State(state): State<AppState>,
    InPath(id): InPath<MessageId>,
) -> Result<Answer<MessageView>, Problem> {
    let store = &state.store;
    let explanation = store.explain(id).await?;
    let explanation = explanation.ok_or_else(|| Problem::no_such_message(id))?;
    let attempts = store.history(id).await?;
    let late_results = store.late(id).await?;
    let audit = store.audit(Some(id), None, AUDIT_ENTRIES_MAX).await?;
    Ok(Answer(MessageView {
        explanation: explanation.sentence(),
        message: explanation.message,
        state: explanation.state,
        erased: explanation.erased,
        attempts: attempts.into_iter().map(AttemptView::from).collect(),
        late_results: late_results.into_iter().map(LateView::from).collect(),
        audit,
        now: explanation.now,
    }))
}

/// The attempts of a message
#[utoipa::path(
    get, path = "/v1/messages/{id}/attempts", operation_id = "list_attempts", tag = "messages",
    params(("id" = i64, Path, description = "The message")),
    responses((status = 200, description = "Its attempts, first to last", body = AttemptList)),
)]
pub(crate) async fn attempts(
    State(state): State<AppState>,
    InPath(id): InPath<MessageId>,
) -> Result<Answer<AttemptList>, Problem> {
    let attempts = state.store.history(id).await?;
    if attempts.is_empty() && state.store.explain(id).await?.is_none() {
        return Err(Problem::no_such_message(id));
    }
    let attempts = attempts.into_iter().map(AttemptView::from).collect();
    Ok(Answer(AttemptList { attempts }))
}

/// List messages, newest first
#[utoipa::path(
    get, path = "/v1/messages", operation_id = "list_messages", tag = "messages",
    params(ListParams),
    responses((status = 200, description = "A page; the Link header leads to the next", body = MessagePage)),
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
    Params(params): Params<ListParams>,
) -> Result<impl IntoResponse, Problem> {
    let (filter, before, limit) = Selection::from(params);
    let page = state.store.list(&filter, before, limit).await?;
    if page.items.is_empty() {
        known_queue(&state, filter.queue.as_ref()).await?;
    }
    let link = link("/v1/messages", query, page.next);
    let (messages, next) = (page.items, page.next);
    Ok((link, Answer(MessagePage { messages, next })))
}

/// List dead messages, newest first
#[utoipa::path(
    get, path = "/v1/dead", operation_id = "list_dead", tag = "messages",
    params(DeadParams),
    responses((status = 200, description = "A page; the Link header leads to the next", body = DeadPage)),
)]
pub(crate) async fn dead(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
    Params(params): Params<DeadParams>,
) -> Result<impl IntoResponse, Problem> {
    let (filter, before, limit) = Selection::from(params);
    let page = state.store.dead(&filter, before, limit).await?;
    if page.items.is_empty() {
        known_queue(&state, filter.queue.as_ref()).await?;
    }
    let link = link("/v1/dead", query, page.next);
    let (dead, next) = (page.items, page.next);
    Ok((link, Answer(DeadPage { dead, next })))
}

/// How many dead messages are grouped at most.
const GROUPED_MAX: u64 = 100_000;

/// Group dead messages by queue and code
#[utoipa::path(
    get, path = "/v1/dead/causes", operation_id = "list_dead_causes", tag = "messages",
    params(CauseParams),
    responses((status = 200, description = "The causes, the largest first", body = CauseList)),
)]
pub(crate) async fn causes(
    State(state): State<AppState>,
    Params(params): Params<CauseParams>,
) -> Result<Answer<CauseList>, Problem> {
    let filter = Filter::from(params);
    let causes = state.store.dead_causes(&filter, GROUPED_MAX).await?;
    if causes.is_empty() {
        known_queue(&state, filter.queue.as_ref()).await?;
    }
    Ok(Answer(views(&state, causes)))
}

/// Causes with where this process's worker delivers to.
pub(crate) fn views(state: &AppState, causes: Vec<DeadCause>) -> CauseList {
    let messages: u64 = causes.iter().map(|cause| cause.messages).sum();
    let status = state.worker_status();
    let queues = status.as_ref().map_or(&[][..], |status| &status.queues[..]);
    let view = |cause: DeadCause| {
        let status = queues.iter().find(|status| status.queue == cause.queue);
        CauseView {
            destination: status.map(|status| status.destination.clone()),
            cause,
        }
    };
    CauseList {
        causes: causes.into_iter().map(view).collect(),
        is_whole: messages < GROUPED_MAX,
    }
}

/// Rejects a queue that does not exist: a list of nothing would hide a typing mistake.
async fn known_queue(state: &AppState, queue: Option<&QueueName>) -> Result<(), Problem> {
    let Some(name) = queue else {
        return Ok(());
    };
    if state.store.queue(name).await?.is_some() {
        return Ok(());
    }
    let queues = state.store.queues(None, PAGE_ENTRIES_MAX).await?;
    let names = queues.iter().map(|(queue, _)| queue.name.as_str());
    Err(unknown(name, nearest(name.as_str(), names)))
}

fn link(
    path: &str,
    query: Option<String>,
    next: Option<MessageId>,
) -> Option<[(HeaderName, String); 1]> {
    let MessageId(next) = next?;
    Some([(header::LINK, next_link(path, query.as_deref(), next))])
}

/// An operator action on messages.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Requeue,
    Hold,
    Unhold,
    Resolve(Resolution),
    Discard,
    Cancel,
}

impl Action {
    async fn run(
        self,
        state: &AppState,
        ids: &[MessageId],
        by: &By,
    ) -> Result<Vec<MoveResult>, Problem> {
        let store = &state.store;
        Ok(match self {
            Self::Requeue => store.requeue(ids, by).await?,
            Self::Hold => store.hold(ids, by).await?,
            Self::Unhold => store.unhold(ids, by).await?,
            Self::Resolve(resolution) => store.resolve(ids, &resolution, by).await?,
            Self::Discard => store.discard(ids, by).await?,
            Self::Cancel => store.cancel(ids, by).await?,
        })
    }

    pub(crate) async fn one(
        self,
        state: &AppState,
        caller: &Caller,
        id: MessageId,
        reason: Option<String>,
    ) -> Result<Answer<MoveResult>, Problem> {
        let by = by(caller, reason)?;
        let moved = self.run(state, &[id], &by).await?;
        let moved = moved.into_iter().next();
        answer(moved.expect("invariant: one message, one answer"))
    }

    pub(crate) async fn many(
        self,
        state: &AppState,
        caller: &Caller,
        body: MoveBody,
    ) -> Result<Answer<MoveAnswer>, Problem> {
        let by = by(caller, body.reason)?;
        if body.ids.len() > MOVES_MAX {
            let detail = format!("{} ids; one call moves {MOVES_MAX}", body.ids.len());
            return Err(Problem::new(codes::BATCH_TOO_LARGE, detail).with("batch_max", MOVES_MAX));
        }
        let messages = self.run(state, &body.ids, &by).await?;
        Ok(Answer(MoveAnswer { messages }))
    }
}

/// The answer for one message, or the problem that kept it where it is.
fn answer(moved: MoveResult) -> Result<Answer<MoveResult>, Problem> {
    let id = moved.id;
    match moved.answer {
        Move::Moved { .. } => Ok(Answer(moved)),
        Move::NoSuchMessage => Err(Problem::no_such_message(id)),
        Move::NotDead { state } => Err(elsewhere(codes::NOT_DEAD, id, state)),
        Move::NotHeld { state } => Err(elsewhere(codes::NOT_HELD, id, state)),
        Move::NotHoldable { state } => Err(elsewhere(codes::NOT_HOLDABLE, id, state)),
        Move::NotDiscardable { state } => Err(elsewhere(codes::NOT_DISCARDABLE, id, state)),
        Move::NotCancellable { state } => Err(elsewhere(codes::NOT_CANCELLABLE, id, state)),
        Move::AppQueue => Err(stays(codes::APP_QUEUE, id)),
        Move::Erased => Err(stays(codes::ERASED, id)),
    }
}

/// The problem of a message that is where it is for good.
pub(super) fn stays(meaning: &'static codes::Meaning, id: MessageId) -> Problem {
    Problem::new(meaning, format!("message {id}: {}", meaning.title)).with("id", json!(id))
}

pub(super) fn elsewhere(
    meaning: &'static codes::Meaning,
    id: MessageId,
    state: StateKind,
) -> Problem {
    Problem::new(
        meaning,
        format!("message {id} is {state}; {}", meaning.title),
    )
    .with("id", json!(id))
    .with("state", state.as_str())
}

/// The routes of one action: on a message, and on many.
macro_rules! action {
    ($action:ident: $one:ident $one_path:literal $one_does:literal,
     $many:ident $many_path:literal $many_does:literal) => {
        #[utoipa::path(
            post, path = $one_path, summary = $one_does, tag = "operate",
            params(("id" = i64, Path, description = "The message")),
            request_body = ReasonBody,
            responses((status = 200, description = "Done", body = shapes::MoveResultBody)),
        )]
        pub(crate) async fn $one(
            State(state): State<AppState>,
            Extension(caller): Extension<Caller>,
            InPath(id): InPath<MessageId>,
            MaybeJson(body): MaybeJson<ReasonBody>,
        ) -> Result<Answer<MoveResult>, Problem> {
            Action::$action.one(&state, &caller, id, body.reason).await
        }

        #[utoipa::path(
            post, path = $many_path, summary = $many_does, tag = "operate",
            description = "Returns a result per message; those that cannot be moved do not \
                           stop the others.",
            request_body = MoveBody,
            responses((status = 200, description = "A result per message", body = MoveAnswer)),
        )]
        pub(crate) async fn $many(
            State(state): State<AppState>,
            Extension(caller): Extension<Caller>,
            Json(body): Json<MoveBody>,
        ) -> Result<Answer<MoveAnswer>, Problem> {
            Action::$action.many(&state, &caller, body).await
        }
    };
}

action!(Requeue:
    requeue "/v1/messages/{id}/requeue" "Give a dead message a fresh set of tries",
    requeue_many "/v1/messages/requeue" "Give dead messages a fresh set of tries");
action!(Hold:
    hold "/v1/messages/{id}/hold" "Hold a ready or waiting message",
    hold_many "/v1/messages/hold" "Hold ready and waiting messages");
action!(Unhold:
    unhold "/v1/messages/{id}/unhold" "Put a held message back",
    unhold_many "/v1/messages/unhold" "Put held messages back");
action!(Discard:
    discard "/v1/messages/{id}/discard" "Discard a dead or held message: final, never delivered",
    discard_many "/v1/messages/discard" "Discard dead and held messages");
action!(Cancel:
    cancel "/v1/messages/{id}/cancel" "Cancel a ready or waiting message before it is sent",
    cancel_many "/v1/messages/cancel" "Cancel ready and waiting messages");

/// Skip the head of a group
///
/// Discards or cancels the message that the group waits for, so that the group goes on. For ordered queues.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/skip", tag = "operate",
    params(("queue" = String, Path, description = "The queue")),
    request_body = SkipBody,
    responses((status = 200, description = "Done", body = shapes::MoveResultBody)),
)]
pub(crate) async fn skip(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(queue): InPath<QueueName>,
    Json(body): Json<SkipBody>,
) -> Result<Answer<MoveResult>, Problem> {
    let by = by(&caller, body.reason)?;
    match state.store.skip(&queue, &body.group, &by).await? {
        Some(moved) => answer(moved),
        None => {
            let group = consign_kernel::quoted(&body.group);
            let detail = format!("group {group} of queue {queue} has no head");
            Err(Problem::new(codes::EMPTY_GROUP, detail))
        }
    }
}

/// Resolve a held message
///
/// For an uncertain delivery whose outcome an operator has determined. Recorded as an attempt with
/// the code `resolved`. The queue of an app may require the result of the delivery.
#[utoipa::path(
    post, path = "/v1/messages/{id}/resolve", tag = "operate",
    params(("id" = i64, Path, description = "The message")),
    request_body = ResolveBody,
    responses((status = 200, description = "Done", body = shapes::MoveResultBody)),
)]
pub(crate) async fn resolve(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<MessageId>,
    Json(body): Json<ResolveBody>,
) -> Result<Answer<MoveResult>, Problem> {
    let result = body.result.map(|result| result.get().to_owned());
    let action = Action::Resolve(resolution(body.outcome, result)?);
    action.one(&state, &caller, id, body.reason).await
}

/// Resolve held messages
///
/// Returns a result per message; those that cannot be moved do not stop the others.
#[utoipa::path(
    post, path = "/v1/messages/resolve", tag = "operate",
    request_body = ResolveManyBody,
    responses((status = 200, description = "A result per message", body = MoveAnswer)),
)]
pub(crate) async fn resolve_many(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<ResolveManyBody>,
) -> Result<Answer<MoveAnswer>, Problem> {
    let ResolveManyBody {
        ids,
        outcome,
        reason,
    } = body;
    let action = Action::Resolve(resolution(outcome, None)?);
    let body = MoveBody { ids, reason };
    action.many(&state, &caller, body).await
}
