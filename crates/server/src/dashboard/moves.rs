//! What an operator does to one message, from its page.

use axum::{Extension, Json, extract::State, response::Response};
use consign_kernel::{Explanation, MessageId, Resolution, StateKind};

use super::{form::Form, shell::see_other};
use crate::{
    extension::QueueProfile,
    extract::InPath,
    gate::access::Caller,
    problem::Problem,
    routes::{erase::erase_one, messages::Action},
    state::AppState,
    wire::operate::by,
};

/// The actions for the state of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Actions {
    pub(super) requeue: bool,
    pub(super) hold: bool,
    pub(super) decide: bool,
    pub(super) discard: bool,
    pub(super) cancel: bool,
    pub(super) resend: bool,
    pub(super) erase: bool,
}

impl Actions {
    /// Those for a message in the queue of this app, if it is of one.
    pub(super) fn new(explanation: &Explanation, profile: Option<&QueueProfile>) -> Self {
        let kind = explanation.state.kind();
        let is_open = matches!(kind, StateKind::Ready | StateKind::Waiting);
        let is_whole = explanation.erased.is_none();
        Self {
            requeue: kind == StateKind::Dead && is_whole,
            hold: is_open,
            decide: kind == StateKind::Held,
            discard: matches!(kind, StateKind::Dead | StateKind::Held) && profile.is_none(),
            cancel: is_open && profile.is_none(),
            resend: is_whole && profile.is_none(),
            erase: kind.is_finished()
                && is_whole
                && profile.is_none_or(|profile| profile.can_erase),
        }
    }

    /// Whether there is one.
    pub(super) fn any(&self) -> bool {
        let Self {
            requeue,
            hold,
            decide,
            discard,
            cancel,
            resend,
            erase,
        } = *self;
        [requeue, hold, decide, discard, cancel, resend, erase].contains(&true)
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
