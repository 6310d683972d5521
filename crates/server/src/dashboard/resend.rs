//! Sending a message again as a new one, with another payload if need be.

use std::sync::Arc;

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::{Explanation, MessageId, Payload};

use super::{
    form::Form,
    message::may_reveal,
    moves::Actions,
    shell::{Shell, rendered, see_other},
    words::pretty,
};
use crate::{
    extract::InPath,
    gate::{GateState, access::Caller},
    problem::{Problem, codes},
    state::AppState,
    wire::operate::by,
};

/// A payload that is larger would not fit into a form: every byte may take three there.
const EDITED_BYTES_MAX: usize = 16 * 1024;

#[derive(Template)]
#[template(path = "resend.html")]
struct ResendPage {
    shell: Shell,
    id: i64,
    queue: String,
    group: Option<String>,
    headers: Vec<String>,
    /// Why the visitor may not edit the payload.
    refusal: Option<&'static str>,
    /// The payload, to be edited, once a reason was given.
    payload: Option<String>,
    reason: String,
}

/// The message and what the page shows of it; a problem where it cannot be sent again.
async fn asked(
    state: &AppState,
    gate: &GateState,
    shell: Shell,
    id: MessageId,
) -> Result<(Explanation, ResendPage), Problem> {
    let explanation = state.store.explain(id).await?;
    let explanation = explanation.ok_or_else(|| Problem::no_such_message(id))?;
    let message = &explanation.message;
    let profile = state.profile(&message.queue);
    if !Actions::new(&explanation, profile.as_ref()).resend {
        let code = if explanation.erased.is_some() {
            codes::ERASED
        } else {
            codes::APP_QUEUE
        };
        return Err(Problem::new(code, format!("message {id}: {}", code.title)));
    }
    let access = gate.options.dashboard_payloads;
    let page = ResendPage {
        refusal: access.refusal(shell.may_operate),
        shell,
        id: id.0,
        queue: message.queue.to_string(),
        group: message.group.clone(),
        headers: message.headers.keys().cloned().collect(),
        payload: None,
        reason: String::new(),
    };
    Ok((explanation, page))
}

fn shell(id: MessageId, caller: &Caller) -> Shell {
    Shell::new(format!("Send message {id} again"), "/ui/messages", caller)
}

pub(super) async fn ask(
    State(state): State<AppState>,
    Extension(gate): Extension<Arc<GateState>>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<MessageId>,
) -> Result<Response, Problem> {
    let (_, page) = asked(&state, &gate, shell(id, &caller), id).await?;
    Ok(rendered(&page))
}

/// Shows the payload in a field; the store records the access in the audit.
pub(super) async fn edit(
    State(state): State<AppState>,
    Extension(gate): Extension<Arc<GateState>>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<MessageId>,
    form: Form,
) -> Result<Response, Problem> {
    let by = by(&caller, form.reason())?;
    let (explanation, page) = asked(&state, &gate, shell(id, &caller), id).await?;
    may_reveal(&gate, &page.shell)?;
    let bytes = explanation.message.payload.as_str().len();
    if bytes > EDITED_BYTES_MAX {
        let detail = format!(
            "the payload has {bytes} bytes; a form takes {EDITED_BYTES_MAX}. Enqueue a copy over the API"
        );
        return Err(Problem::new(codes::PAYLOAD_TOO_LARGE, detail));
    }
    let message = state.store.reveal(id, &by).await?;
    let message = message.ok_or_else(|| Problem::no_such_message(id))?;
    Ok(rendered(&ResendPage {
        payload: Some(pretty(&message.payload)),
        reason: by.reason,
        ..page
    }))
}

/// Enqueues the copy, and shows it.
pub(super) async fn send(
    State(state): State<AppState>,
    Extension(gate): Extension<Arc<GateState>>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<MessageId>,
    form: Form,
) -> Result<Response, Problem> {
    let by = by(&caller, form.reason())?;
    let (explanation, page) = asked(&state, &gate, shell(id, &caller), id).await?;
    let payload = match form.get("payload") {
        Some(text) => {
            may_reveal(&gate, &page.shell)?;
            let payload = Payload::parse_within(text, gate.options.body_max_bytes);
            Some(payload.map_err(|error| error.named("payload"))?)
        }
        None => None,
    };
    let copy = explanation.message.copy(payload.as_ref());
    for extension in state.extensions.iter() {
        extension.check_enqueue(&copy)?;
    }
    let copy = state.store.resend(id, payload.as_ref(), &by).await?;
    let copy = copy.ok_or_else(|| Problem::no_such_message(id))?;
    Ok(see_other(&format!("/ui/messages/{copy}?done=resend")))
}
