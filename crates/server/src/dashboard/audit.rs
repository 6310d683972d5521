//! The audit page: the logs of operator actions and of apps, with filters and exports.

mod export;
mod log;
mod operators;

use std::sync::Arc;

use askama::Template;
use axum::{Extension, extract::State, response::Response};

pub(super) use self::export::export;
pub(super) use self::log::time;
pub use self::log::{
    AuditLog, AuditLogEntry, AuditLogFilter, AuditLogInfo, AuditLogReader, AuditQuery, Step, start,
};
use self::operators::OperatorLog;
use super::shell::{Shell, rendered};
use crate::{
    gate::access::Caller,
    problem::{Problem, codes},
    state::AppState,
};

const ROWS: usize = 50;
/// Pieces searched for one page; the next page continues there.
const STEPS_MAX: usize = 5;

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    shell: Shell,
    wanted: AuditQuery,
    tabs: Vec<Tab>,
    log: AuditLogInfo,
    is_first: bool,
    absence: Option<&'static str>,
    /// As HTML.
    rows: Vec<String>,
    older: Option<String>,
    /// The filter, for the links of the exports.
    query: String,
}

struct Tab {
    path: String,
    word: &'static str,
    is_current: bool,
}

/// The engine's own log, then those of apps.
fn logs(state: &AppState) -> Vec<Arc<dyn AuditLog>> {
    let own: Arc<dyn AuditLog> = Arc::new(OperatorLog(state.clone()));
    let apps = state.extensions.iter().filter_map(|it| it.audit_log());
    [own].into_iter().chain(apps).collect()
}

/// Which of the logs a query is about.
fn place(logs: &[Arc<dyn AuditLog>], wanted: &AuditQuery) -> Result<usize, Problem> {
    let of = wanted.fields.of.as_str();
    if of.is_empty() {
        return Ok(0);
    }
    let names: Vec<&str> = logs.iter().map(|log| log.info().name).collect();
    names.iter().position(|name| *name == of).ok_or_else(|| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let detail = format!(
            "of: unknown variant `{of}`, expected {}",
            names.join(" or ")
        );
        Problem::new(codes::BAD_QUERY, detail)
    })
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    wanted: AuditQuery,
) -> Result<Response, Problem> {
    let logs = logs(&state);
    let index = place(&logs, &wanted)?;
    let (log, absence) = (logs[index].info(), logs[index].absence());
    let (entries, next) = match absence {
        Some(_) => (Vec::new(), None),
        None => matching(logs[index].reader(&wanted)?.as_ref(), &wanted).await?,
    };
    let now = (state.clock)();
    let rows: Result<Vec<String>, Problem> = entries.iter().map(|entry| entry.row(now)).collect();
    let query = wanted.link(&log, index == 0);
    let tab = |(at, log): (usize, &Arc<dyn AuditLog>)| Tab {
        path: match at {
            0 => "/ui/audit".to_owned(),
            _ => format!("/ui/audit?of={}", log.info().name),
        },
        word: log.info().tab,
        is_current: at == index,
    };
    Ok(rendered(&Page {
        shell: Shell::new("Audit", "/ui/audit", &caller),
        tabs: logs.iter().enumerate().map(tab).collect(),
        log,
        is_first: index == 0,
        absence,
        rows: rows?,
        older: next.map(|next| format!("/ui/audit?before={next}{query}")),
        wanted,
        query,
    }))
}

/// A page of matching entries, and the start of the next.
async fn matching(
    reader: &dyn AuditLogReader,
    wanted: &AuditQuery,
) -> Result<(Vec<Box<dyn AuditLogEntry>>, Option<i64>), Problem> {
    let mut before = match wanted.fields.before {
        Some(before) => Some(before),
        None => start(reader).await?,
    };
    let mut found: Vec<Box<dyn AuditLogEntry>> = Vec::new();
    for _ in 0..STEPS_MAX {
        let step = reader.step(before).await?;
        for entry in step.entries {
            if found.len() == ROWS {
                let last = found.last().map(|entry| entry.id());
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
