//! The audit log of operator actions.

use axum::{
    Json as Answer,
    extract::{RawQuery, State},
    http::header,
    response::IntoResponse,
};
use consign_kernel::MessageId;

use super::next_link;
use crate::{
    extract::Params,
    problem::Problem,
    state::AppState,
    wire::{
        messages::page_size,
        operate::{AuditPage, AuditParams},
    },
};

/// List operator actions, newest first
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "list_audit", tag = "operate",
    params(AuditParams),
    responses((status = 200, description = "A page; the Link header leads to the next", body = AuditPage)),
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
    Params(params): Params<AuditParams>,
) -> Result<impl IntoResponse, Problem> {
    let limit = page_size(params.limit);
    let id = params.message_id.map(MessageId);
    let audit = state.store.audit(id, params.before, limit).await?;
    // A full page may be the last one; the next is then empty and has no link.
    let next = audit.last().map(|entry| entry.id);
    let next = next.filter(|_| audit.len() == limit as usize);
    let link = next.map(|next| [(header::LINK, next_link("/v1/audit", query.as_deref(), next))]);
    Ok((link, Answer(AuditPage { audit, next })))
}
