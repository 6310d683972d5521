//! What is done to several messages at once: selected in a list, previewed, confirmed with a reason.

use askama::Template;
use axum::{
    Extension, Json,
    extract::{RawQuery, State},
    response::Response,
};
use consign_kernel::{Explanation, MessageId, Move, MoveResult, StateKind};

use super::{
    form::Form,
    moves::Actions,
    query::Query,
    shell::{Shell, rendered},
    words::many,
};
use crate::{
    gate::access::Caller,
    problem::{Problem, codes},
    routes::messages::Action,
    state::AppState,
    wire::operate::MoveBody,
};

/// More than a list shows: so many messages are looked up for a preview.
const SELECTED_MAX: usize = 200;

/// The bar below a list: what can be done with selected rows.
pub(super) struct Bulk {
    /// The list, to come back to.
    pub(super) back: String,
    pub(super) actions: Vec<(&'static str, &'static str)>,
}

impl Bulk {
    /// Below the list at `path`, whose messages are in this state.
    pub(super) fn new(query: &Query, path: &str, state: Option<StateKind>) -> Self {
        let fits = |it: &&Change| state.is_none_or(|state| it.from.contains(&state));
        Self {
            back: query.link(path),
            actions: CHANGES
                .iter()
                .filter(fits)
                .map(|it| (it.name, it.word))
                .collect(),
        }
    }
}

/// An action on selected messages.
struct Change {
    name: &'static str,
    word: &'static str,
    action: Action,
    /// The states that it moves messages from.
    from: &'static [StateKind],
    /// What is true of a message afterwards.
    effect: &'static str,
    /// Of how many it is, in the preview.
    would: &'static str,
    /// And in the answer.
    done: &'static str,
    is_final: bool,
}

static CHANGES: [Change; 5] = [
    Change {
        name: "requeue",
        word: "Requeue",
        action: Action::Requeue,
        from: &[StateKind::Dead],
        effect: "gets a fresh set of tries",
        would: "would be requeued",
        done: "requeued",
        is_final: false,
    },
    Change {
        name: "hold",
        word: "Hold",
        action: Action::Hold,
        from: &[StateKind::Ready, StateKind::Waiting],
        effect: "is not delivered until it is put back; in an ordered queue later ones of its group wait",
        would: "would be held",
        done: "held",
        is_final: false,
    },
    Change {
        name: "unhold",
        word: "Put back",
        action: Action::Unhold,
        from: &[StateKind::Held],
        effect: "is delivered again, with the tries it had",
        would: "would be put back",
        done: "put back",
        is_final: false,
    },
    Change {
        name: "discard",
        word: "Discard",
        action: Action::Discard,
        from: &[StateKind::Dead, StateKind::Held],
        effect: "is never delivered; in an ordered queue its group goes on",
        would: "would be discarded",
        done: "discarded",
        is_final: true,
    },
    Change {
        name: "cancel",
        word: "Cancel",
        action: Action::Cancel,
        from: &[StateKind::Ready, StateKind::Waiting],
        effect: "is never sent; in an ordered queue its group goes on",
        would: "would be cancelled",
        done: "cancelled",
        is_final: true,
    },
];

fn change(form: &Form) -> Result<&'static Change, Problem> {
    let name = form.get("action").unwrap_or_default();
    let known = CHANGES.iter().find(|change| change.name == name);
    known.ok_or_else(|| {
        let bounds = "must be requeue, hold, unhold, discard or cancel";
        Problem::out_of_bounds("action", consign_kernel::quoted(name), bounds)
    })
}

/// The selected messages, each once.
fn selected(form: &Form) -> Result<Vec<MessageId>, Problem> {
    let mut ids = Vec::new();
    for text in form.all("id") {
        let id = text.parse().map(MessageId);
        ids.push(id.map_err(|_| {
            Problem::out_of_bounds("id", consign_kernel::quoted(text), "must be a whole number")
        })?);
    }
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > SELECTED_MAX {
        let detail = format!("{} messages are selected; {SELECTED_MAX} can be", ids.len());
        return Err(Problem::new(codes::BATCH_TOO_LARGE, detail));
    }
    Ok(ids)
}

/// The list that the messages were selected in: a page of the dashboard.
fn back(form: &Form) -> String {
    let back = form.get("back").filter(|back| back.starts_with("/ui/"));
    back.unwrap_or("/ui/messages").to_owned()
}

#[derive(Template)]
#[template(path = "bulk_preview.html")]
struct BulkPreview {
    shell: Shell,
    change: &'static Change,
    back: String,
    sentence: String,
    rows: Vec<Selected>,
    /// Whether none of them would be moved.
    is_none: bool,
}

/// A message that was selected, and what would become of it.
struct Selected {
    id: i64,
    state: Option<StateKind>,
    queue: String,
    key: String,
    group: String,
    moves: bool,
    effect: String,
}

/// What would happen. Nothing does yet.
pub(super) async fn preview(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let form = Form::parse(query.as_deref().unwrap_or_default())?;
    let change = change(&form)?;
    let mut rows = Vec::new();
    for id in selected(&form)? {
        let explanation = state.store.explain(id).await?;
        rows.push(Selected::new(&state, change, id, explanation));
    }
    let moves = rows.iter().filter(|row| row.moves).count();
    let all = many(rows.len() as u64, "selected message", "selected messages");
    let sentence = match (rows.len(), moves) {
        (0, _) => "No message is selected.".to_owned(),
        (_, 0) => format!("None of {all} {}.", change.would),
        (every, moved) if every == moved => format!("{all} {}.", change.would),
        (_, moved) => format!("{moved} of {all} {}.", change.would),
    };
    Ok(rendered(&BulkPreview {
        shell: Shell::new(format!("{}: preview", change.word), "/ui/messages", &caller),
        change,
        back: back(&form),
        sentence,
        rows,
        is_none: moves == 0,
    }))
}

impl Selected {
    fn new(
        state: &AppState,
        change: &Change,
        id: MessageId,
        explanation: Option<Explanation>,
    ) -> Self {
        let Some(it) = explanation else {
            return Self {
                id: id.0,
                state: None,
                queue: String::new(),
                key: String::new(),
                group: String::new(),
                moves: false,
                effect: "does not exist".to_owned(),
            };
        };
        let kind = it.state.kind();
        let can = Actions::new(&it, state.profile(&it.message.queue).as_ref());
        let moves = match change.action {
            Action::Requeue => can.requeue,
            Action::Hold => can.hold,
            Action::Unhold | Action::Resolve(_) => can.decide,
            Action::Discard => can.discard,
            Action::Cancel => can.cancel,
        };
        let effect = if moves {
            change.effect.to_owned()
        } else if change.from.contains(&kind) {
            match it.erased {
                Some(_) => "stays: its content was erased".to_owned(),
                None => "stays: the queue belongs to an app that does not permit this".to_owned(),
            }
        } else {
            format!("stays as it is: {kind}")
        };
        Self {
            id: id.0,
            state: Some(kind),
            queue: it.message.queue.to_string(),
            key: it.message.key.unwrap_or_default(),
            group: it.message.group.unwrap_or_default(),
            moves,
            effect,
        }
    }
}

#[derive(Template)]
#[template(path = "bulk_done.html")]
struct BulkDone {
    shell: Shell,
    change: &'static Change,
    back: String,
    sentence: String,
    is_whole: bool,
    rows: Vec<MoveRow>,
}

/// What became of a message.
struct MoveRow {
    id: i64,
    moved: bool,
    state: Option<StateKind>,
    answer: String,
}

/// Does it, and shows an answer for each message.
pub(super) async fn run(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    form: Form,
) -> Result<Response, Problem> {
    let change = change(&form)?;
    let body = MoveBody {
        ids: selected(&form)?,
        reason: form.reason(),
    };
    let Json(answer) = change.action.clone().many(&state, &caller, body).await?;
    let rows: Vec<MoveRow> = answer.messages.into_iter().map(MoveRow::new).collect();
    let moved = rows.iter().filter(|row| row.moved).count();
    let stays = rows.len() - moved;
    let mut sentence = format!(
        "{} {}.",
        many(moved as u64, "message", "messages"),
        change.done
    );
    if stays > 0 {
        sentence.push_str(&format!(" {stays} not: each shows why."));
    }
    Ok(rendered(&BulkDone {
        shell: Shell::new(change.word, "/ui/messages", &caller),
        change,
        back: back(&form),
        sentence,
        is_whole: stays == 0,
        rows,
    }))
}

impl MoveRow {
    fn new(result: MoveResult) -> Self {
        let stays = |state: StateKind, from: &str| (Some(state), format!("only {from} can be"));
        let (state, answer) = match result.answer {
            Move::Moved { state } => (Some(state), String::new()),
            Move::NoSuchMessage => (None, "does not exist".to_owned()),
            Move::NotDead { state } => stays(state, "dead messages"),
            Move::NotHeld { state } => stays(state, "held messages"),
            Move::NotHoldable { state } | Move::NotCancellable { state } => {
                stays(state, "ready and waiting messages")
            }
            Move::NotDiscardable { state } => stays(state, "dead and held messages"),
            Move::AppQueue => (
                None,
                "belongs to an app that does not permit this".to_owned(),
            ),
            Move::Erased => (None, "its content was erased".to_owned()),
        };
        Self {
            id: result.id.0,
            moved: matches!(result.answer, Move::Moved { .. }),
            state,
            answer,
        }
    }
}
