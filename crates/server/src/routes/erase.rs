//! Erasing the content of messages.

use axum::{Extension, Json as Answer, extract::State};
use consign_kernel::{
    By, ErasureAnswer, ErasureResult, ErasureTarget, MessageId, PAGE_ENTRIES_MAX,
};

use super::messages::{elsewhere, stays};
use crate::{
    extract::{InPath, Json, MaybeJson},
    gate::access::Caller,
    problem::{Problem, codes},
    state::AppState,
    wire::{
        erase::{EraseAnswer, EraseBody},
        operate::{ReasonBody, by},
        shapes,
    },
};

/// Erase the content of a delivered or dead message
///
/// Payload, headers, results and details go for ever; the history stays. Erasing it again changes
/// nothing. An archive is erased with `consign erase`.
#[utoipa::path(
    post, path = "/v1/messages/{id}/erase", operation_id = "erase_message", tag = "operate",
    params(("id" = i64, Path, description = "The message")),
    request_body = ReasonBody,
    responses((status = 200, description = "Erased, now or before", body = shapes::ErasureResultBody)),
)]
pub(crate) async fn one(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<MessageId>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<ErasureResult>, Problem> {
    erase_one(&state, id, &by(&caller, body.reason)?)
        .await
        .map(Answer)
}

/// Erases one message; what cannot be erased is a problem.
pub(crate) async fn erase_one(
    state: &AppState,
    id: MessageId,
    by: &By,
) -> Result<ErasureResult, Problem> {
    let target = ErasureTarget::Ids(vec![id]);
    let results = state.store.erase(&target, by).await?;
    let result = results.into_iter().next();
    let result = result.expect("invariant: one message, one answer");
    match result.answer {
        ErasureAnswer::Erased | ErasureAnswer::AlreadyErased => Ok(result),
        ErasureAnswer::NotFinal { state } => Err(elsewhere(codes::NOT_FINAL, id, state)),
        ErasureAnswer::BlocksGroup => Err(stays(codes::BLOCKS_GROUP, id)),
        ErasureAnswer::Needed => Err(stays(codes::NEEDED, id)),
        ErasureAnswer::AppQueue => Err(stays(codes::APP_QUEUE, id)),
        ErasureAnswer::Departed | ErasureAnswer::NoSuchMessage => Err(Problem::no_such_message(id)),
    }
}

/// Erase the content of delivered, dead and discarded messages
///
/// By ids, by queue and key, or by correlation id. Returns a result per message; those that cannot
/// be erased do not stop the others.
#[utoipa::path(
    post, path = "/v1/messages/erase", operation_id = "erase_messages", tag = "operate",
    request_body = EraseBody,
    responses((status = 200, description = "A result per message", body = EraseAnswer)),
)]
pub(crate) async fn many(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<EraseBody>,
) -> Result<Answer<EraseAnswer>, Problem> {
    let by = by(&caller, body.reason.clone())?;
    let target = body.target()?;
    let messages = state.store.erase(&target, &by).await?;
    let has_more = messages.len() == PAGE_ENTRIES_MAX as usize
        && matches!(target, ErasureTarget::Correlation { .. });
    let next = messages.last().filter(|_| has_more).map(|last| last.id);
    Ok(Answer(EraseAnswer { messages, next }))
}
