//! Memories of agents: whether they are stored as they should be, how reliably they are kept, and
//! comparing the outbox with its audits.

mod shelf;
mod standing;

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::By;
use consign_memory::{
    Action, AuditEnd, AuditStatus, Correlation, MemoryService, NewAudit, ReconcileDetail,
    ReconcileReport, reconcile,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::{shelf::Shelf, standing::Standing};
use super::{
    form::Form,
    shell::{Shell, rendered},
    words::{Moment, count},
};
use crate::{
    gate::access::Caller,
    problem::{Problem, codes},
    state::AppState,
    wire::operate::by,
};

/// How long a report serves everybody who looks: it walks all audits there are.
const REPORT_LASTS: Duration = Duration::from_secs(60);
/// How long the gate's answer does.
const STANDING_LASTS: Duration = Duration::from_secs(5);

/// What is found out once for all who look.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    report: Arc<Shelf<Reported>>,
    standing: Arc<Shelf<Standing>>,
}

/// A report, and when it was made.
#[derive(Debug)]
pub(crate) struct Reported {
    report: Value,
    at: Timestamp,
}

#[derive(Template)]
#[template(path = "memory.html")]
struct Memory {
    shell: Shell,
    /// Whether there is a gateway.
    is_here: bool,
    gate: Option<Gate>,
    report: Option<Told>,
}

/// How it stands, in words.
struct Gate {
    mode: &'static str,
    reason: String,
    faults: Vec<(&'static str, String, Option<Moment>)>,
    counts: Vec<(&'static str, String)>,
    at: Moment,
}

/// The report, in words.
struct Told {
    parts: Vec<Part>,
    at: Moment,
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
    let now = (state.clock)();
    let (gate, report) = tokio::join!(standing(&state), report(&state));
    Ok(rendered(&Memory {
        shell: Shell::new("Memory", "/ui/memory", &caller),
        is_here: state.memory.is_some(),
        gate: gate.map(|standing| Gate::new(&standing, now)),
        report: report.map(|reported| Told {
            parts: parts(&reported.report),
            at: Moment::new(reported.at, now),
        }),
    }))
}

async fn standing(state: &AppState) -> Option<Arc<Standing>> {
    let gateway = state.memory.as_ref()?;
    let seek = || {
        let (service, store) = (Arc::clone(&gateway.here.service), Arc::clone(&state.store));
        let worker = state.worker.as_ref().map(|worker| worker.status());
        let now = (state.clock)();
        async move { standing::look(&service, store.as_ref(), worker, now).await }
    };
    gateway.watch.standing.look(STANDING_LASTS, seek).await
}

async fn report(state: &AppState) -> Option<Arc<Reported>> {
    let gateway = state.memory.as_ref()?;
    let seek = || {
        let (service, clock) = (Arc::clone(&gateway.here.service), Arc::clone(&state.clock));
        async move {
            let report = service.report().await;
            Reported {
                report,
                at: clock(),
            }
        }
    };
    gateway.watch.report.look(REPORT_LASTS, seek).await
}

/// What comparing would find; nothing is changed.
pub(super) async fn preview(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let shell = Shell::new("Reconcile: preview", "/ui/memory", &caller);
    let report = compared(served(&state)?, false).await?;
    Ok(told(shell, false, report))
}

/// Compares, and repairs what does not fit; each repair leaves an audit, and so does the person.
pub(super) async fn run(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    form: Form,
) -> Result<Response, Problem> {
    let by = by(&caller, form.reason())?;
    by.validate()?;
    let service = served(&state)?;
    let correlation = Correlation::new().to_string();
    // On record before anything is changed; one that is left pending is ended by the next pass.
    let audit = asked(service, &by, &correlation);
    service.logbook().insert_audit(&audit).await?;
    let compared = compared(service, true).await;
    let end = ended(&compared);
    if let Err(error) = service.logbook().finalize_audit(&correlation, &end).await {
        tracing::warn!(%error, "what came of comparing the outbox could not be put on record");
    }
    let shell = Shell::new("Reconcile", "/ui/memory", &caller);
    Ok(told(shell, true, compared?))
}

/// The record of a person who has the outbox compared.
fn asked(service: &MemoryService, by: &By, correlation: &str) -> NewAudit {
    NewAudit {
        actor_user_id: Some(by.actor.clone()),
        target_space: format!("governance:{}", service.options().project_key),
        action: Action::Allow,
        reason: Some(format!("reconcile: {}", by.reason)),
        payload_sha: None,
        evidence_refs_json: json!({
            "source": "operator", "operation": "reconcile", "correlation_id": correlation,
        }),
        correlation_id: Some(correlation.to_owned()),
        status: AuditStatus::Pending,
    }
}

fn ended(compared: &Result<ReconcileReport, Problem>) -> AuditEnd {
    let (status, found) = match compared {
        Ok(report) => {
            let found = json!({
                "scanned": report.total_scanned, "found": report.details.len(),
                "fixed": report.details.iter().filter(|detail| detail.fixed).count(),
            });
            (AuditStatus::Success, found)
        }
        Err(problem) => (AuditStatus::Failed, json!({"error": problem.detail})),
    };
    AuditEnd {
        status,
        action: None,
        reason: None,
        patch: json!({ "reconciled": found }),
    }
}

async fn compared(service: &MemoryService, is_done: bool) -> Result<ReconcileReport, Problem> {
    let mut options = service.options().reconcile();
    options.is_repairing = is_done;
    options.is_rescheduling = options.is_rescheduling && is_done;
    Ok(reconcile(service.logbook(), &options).await?)
}

fn told(shell: Shell, is_done: bool, report: ReconcileReport) -> Response {
    rendered(&Reconcile {
        shell,
        is_done,
        summary: report.to_string(),
        has_more: report.has_more,
        details: report.details.into_iter().map(Detail::from).collect(),
    })
}

impl Gate {
    fn new(standing: &Standing, now: Timestamp) -> Self {
        let faults = standing.faults.iter().map(|fault| {
            let since = fault.since.map(|at| Moment::new(at, now));
            (fault.capability, fault.why.clone(), since)
        });
        let counts = &standing.counts;
        Self {
            mode: standing.mode,
            reason: standing.reason.clone().unwrap_or_default(),
            faults: faults.collect(),
            counts: vec![
                ("Waiting or under way", count(counts.pending)),
                ("Stored from the outbox", count(counts.sent)),
                ("Given up", count(counts.dead)),
                ("Audits not ended", count(counts.pending_audits)),
            ],
            at: Moment::new(standing.at, now),
        }
    }
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
