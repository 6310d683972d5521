//! What people did and what became of memories, and why: looking through it, and taking it along.

mod book;
mod export;

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::AuditEntry;
use consign_memory::Audit;
use jiff::Timestamp;

use self::book::{Entry, Wanted};
pub(super) use self::export::export;
use super::{
    beside::redrive,
    form::encoded,
    shell::{Shell, rendered},
    words::Moment,
};
use crate::{extract::Params, gate::access::Caller, problem::Problem, state::AppState};

const ROWS: usize = 50;
/// Pieces looked through for one page; the next page goes on from there.
const STEPS_MAX: usize = 5;

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    shell: Shell,
    wanted: Wanted,
    /// Whether there can be write audits.
    has_memory: bool,
    actions: Vec<Action>,
    writes: Vec<Write>,
    older: Option<String>,
    /// The filter, for the links of the exports.
    query: String,
}

/// What a person did.
struct Action {
    id: i64,
    at: Moment,
    actor: String,
    action: String,
    queue: Option<String>,
    message_id: Option<i64>,
    reason: String,
    redrive: Option<i64>,
}

/// What became of a memory.
struct Write {
    id: i64,
    at: Moment,
    actor: String,
    action: &'static str,
    status: &'static str,
    space: String,
    message_id: Option<i64>,
    correlation: String,
    /// Where everything of the same request or batch is.
    same: String,
    reason: String,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(wanted): Params<Wanted>,
) -> Result<Response, Problem> {
    let has_memory = state.memory.is_some();
    let (entries, next) = match wanted.is_writes() && !has_memory {
        true => (Vec::new(), None),
        false => matching(&state, &wanted).await?,
    };
    let (now, query) = ((state.clock)(), wanted.query());
    let (mut actions, mut writes) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            Entry::Operator(entry) => actions.push(Action::new(entry, now)),
            Entry::Write(audit) => writes.push(Write::new(*audit, now)),
        }
    }
    Ok(rendered(&Page {
        shell: Shell::new("Audit", "/ui/audit", &caller),
        has_memory,
        actions,
        writes,
        older: next.map(|next| format!("/ui/audit?before={next}{query}")),
        wanted,
        query,
    }))
}

/// A page of entries that fit, and where to go on.
async fn matching(state: &AppState, wanted: &Wanted) -> Result<(Vec<Entry>, Option<i64>), Problem> {
    let reader = wanted.reader(state)?;
    let mut before = match wanted.before {
        Some(before) => Some(before),
        None => reader.start().await?,
    };
    let mut found = Vec::new();
    for _ in 0..STEPS_MAX {
        let step = reader.step(before).await?;
        for entry in step.entries {
            if found.len() == ROWS {
                let last = found.last().map(Entry::id);
                return Ok((found, last));
            }
            found.push(entry);
        }
        before = step.next;
        if before.is_none() || found.len() == ROWS {
            return Ok((found, before));
        }
    }
    Ok((found, before))
}

impl Action {
    fn new(entry: AuditEntry, now: Timestamp) -> Self {
        Self {
            redrive: redrive(&entry.action, &entry.reason),
            id: entry.id,
            at: Moment::new(entry.at, now),
            actor: entry.actor,
            action: entry.action,
            queue: entry.queue.map(String::from),
            message_id: entry.message_id.map(|id| id.0),
            reason: entry.reason,
        }
    }
}

impl Write {
    fn new(audit: Audit, now: Timestamp) -> Self {
        let message_id = export::outbox_id(&audit);
        let correlation = audit.correlation_id.unwrap_or_default();
        Self {
            id: audit.audit_id,
            at: Moment::new(audit.created_at, now),
            actor: audit.actor_user_id.unwrap_or_default(),
            action: audit.action.as_str(),
            status: audit.status.as_str(),
            space: audit.target_space,
            message_id,
            same: format!("/ui/audit?of=writes&correlation={}", encoded(&correlation)),
            correlation,
            reason: audit.reason.unwrap_or_default(),
        }
    }
}
