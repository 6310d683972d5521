//! Memories of agents: how reliably they are kept, and comparing the outbox with its audits.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_memory::{MemoryService, ReconcileDetail, ReconcileReport, reconcile};
use serde_json::Value;

use super::shell::{Shell, rendered};
use crate::{
    gate::access::Caller,
    problem::{Problem, codes},
    state::AppState,
};

#[derive(Template)]
#[template(path = "memory.html")]
struct Memory {
    shell: Shell,
    /// Absent where there is no gateway.
    facts: Option<Vec<Part>>,
}

/// Facts that belong together.
struct Part {
    title: String,
    facts: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "reconcile.html")]
struct Reconcile {
    shell: Shell,
    /// Whether this is what was done, or what would be.
    is_done: bool,
    summary: String,
    has_more: bool,
    details: Vec<Detail>,
}

struct Detail {
    issue: &'static str,
    status: &'static str,
    outbox_id: Option<i64>,
    audit_id: Option<i64>,
    locked_by: String,
    fixed: bool,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let facts = match &state.memory {
        Some(gateway) => Some(parts(&gateway.here.service.report().await)),
        None => None,
    };
    Ok(rendered(&Memory {
        shell: Shell::new("Memory", "/ui/memory", &caller),
        facts,
    }))
}

/// What comparing would find; nothing is changed.
pub(super) async fn preview(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let shell = Shell::new("Reconcile: preview", "/ui/memory", &caller);
    compared(&state, shell, false).await
}

/// Compares, and repairs what does not fit; each repair leaves an audit.
pub(super) async fn run(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    tracing::info!(actor = %caller.actor, "somebody has the outbox compared with its audits");
    let shell = Shell::new("Reconcile", "/ui/memory", &caller);
    compared(&state, shell, true).await
}

async fn compared(state: &AppState, shell: Shell, is_done: bool) -> Result<Response, Problem> {
    let service = served(state)?;
    let mut options = service.options().reconcile();
    options.is_repairing = is_done;
    options.is_rescheduling = options.is_rescheduling && is_done;
    let report: ReconcileReport = reconcile(service.logbook(), &options).await?;
    Ok(rendered(&Reconcile {
        shell,
        is_done,
        summary: report.to_string(),
        has_more: report.has_more,
        details: report.details.into_iter().map(Detail::from).collect(),
    }))
}

fn served(state: &AppState) -> Result<&MemoryService, Problem> {
    let gateway = state.memory.as_ref();
    let none = || Problem::new(codes::NOT_FOUND, "there is no gateway of memories here");
    Ok(gateway.ok_or_else(none)?.here.service.as_ref())
}

impl From<ReconcileDetail> for Detail {
    fn from(detail: ReconcileDetail) -> Self {
        Self {
            issue: detail.issue,
            status: detail.status.unwrap_or("–"),
            outbox_id: detail.outbox_id,
            audit_id: detail.audit_id,
            locked_by: detail.locked_by.unwrap_or_default(),
            fixed: detail.fixed,
        }
    }
}

/// The report, part by part: a document within it is a part of its own.
fn parts(report: &Value) -> Vec<Part> {
    let mut parts = vec![Part {
        title: "Writes".to_owned(),
        facts: Vec::new(),
    }];
    for (name, value) in report.as_object().into_iter().flatten() {
        match value {
            Value::Null => {}
            Value::Object(_) => {
                let mut facts = Vec::new();
                flatten("", value, &mut facts);
                let title = spoken(name);
                parts.push(Part { title, facts });
            }
            plain => parts[0].facts.push((spoken(name), said(plain))),
        }
    }
    parts
}

fn flatten(prefix: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = match prefix {
                    "" => spoken(name),
                    prefix => format!("{prefix}: {}", spoken(name)),
                };
                flatten(&name, value, facts);
            }
        }
        plain => facts.push((prefix.to_owned(), said(plain))),
    }
}

fn spoken(name: &str) -> String {
    name.replace('_', " ")
}

fn said(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_told_part_by_part() {
        let report = json!({
            "ok": true, "message": null, "total_writes": 3,
            "outbox_stats": {"total": 2, "by_status": {"pending": 1, "sent": 1}, "age": null},
        });
        let parts = parts(&report);
        let facts = |part: &Part| {
            let lines = part
                .facts
                .iter()
                .map(|(name, value)| format!("{name} = {value}"));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(facts(&parts[0]), ["ok = true", "total writes = 3"]);
        assert_eq!(parts[1].title, "outbox stats");
        let expected = [
            "age = –",
            "by status: pending = 1",
            "by status: sent = 1",
            "total = 2",
        ];
        assert_eq!(facts(&parts[1]), expected);
    }
}
