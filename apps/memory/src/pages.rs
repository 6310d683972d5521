//! Dashboard pages of memories: status, reliability report, and reconciliation of the outbox with
//! its audits.

mod cache;
mod related;
mod status;
mod writes;

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    Extension,
    extract::{FromRef, State},
    response::Response,
};
use consign_kernel::By;
use consign_server::apps::{
    Access, AppState, Caller, Form, GET, Moment, POST, Problem, Routes, Shell, by, codes, count,
    page,
};
use jiff::Timestamp;
use serde_json::Value;

use self::{cache::AnswerCache, status::MemoryStatus};
pub(crate) use self::{related::related, writes::WriteAudits};
use crate::{
    MemoryService, ReconcileDetail, ReconcileReport, http::MemoryHttp, reconcile, reconcile_by,
};

/// How long a report is cached: it scans all audits.
const REPORT_LASTS: Duration = Duration::from_secs(60);
/// How long the status is cached.
const STATUS_LASTS: Duration = Duration::from_secs(5);

/// Cached results, shared by all requests.
#[derive(Debug, Default)]
pub(crate) struct PageCaches {
    report: Arc<AnswerCache<CachedReport>>,
    status: Arc<AnswerCache<MemoryStatus>>,
}

/// A report and its time.
#[derive(Debug)]
pub(crate) struct CachedReport {
    report: Value,
    at: Timestamp,
}

/// State of the handlers.
#[derive(Clone)]
struct Handlers {
    http: MemoryHttp,
    server: AppState,
}

impl FromRef<Handlers> for MemoryHttp {
    fn from_ref(handlers: &Handlers) -> Self {
        handlers.http.clone()
    }
}

impl FromRef<Handlers> for AppState {
    fn from_ref(handlers: &Handlers) -> Self {
        handlers.server.clone()
    }
}

/// Adds the pages.
pub(crate) fn add(http: &MemoryHttp, routes: &mut Routes) {
    let handlers = Handlers {
        http: http.clone(),
        server: routes.server().clone(),
    };
    let (look, act) = (Access::PAGES, Access::PAGES_OPERATE);
    routes.page_with(GET, "/ui/memory", look, show, handlers.clone());
    let reconcile = "/ui/memory/reconcile";
    routes.page_with(GET, reconcile, act, preview, handlers.clone());
    routes.page_with(POST, reconcile, act, run, handlers);
}

#[derive(Template)]
#[template(path = "memory.html")]
struct Memory {
    may_operate: bool,
    /// Whether the app is on.
    is_here: bool,
    gate: Option<Gate>,
    report: Option<ReportWords>,
}

/// The status in words.
struct Gate {
    mode: &'static str,
    reason: String,
    faults: Vec<(&'static str, String, Option<Moment>)>,
    counts: Vec<(&'static str, String)>,
    at: Moment,
}

/// The report in words.
struct ReportWords {
    parts: Vec<Part>,
    at: Moment,
}

/// A group of facts.
struct Part {
    title: String,
    facts: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "reconcile.html")]
struct Reconcile {
    csrf: String,
    /// Whether the repairs were made, or are a preview.
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

async fn show(
    State(http): State<MemoryHttp>,
    State(server): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let now = server.now();
    let (gate, report) = tokio::join!(status(&http, &server), report(&http, &server));
    let shell = Shell::new("Memory", "/ui/memory", &caller);
    let main = Memory {
        may_operate: shell.may_operate,
        is_here: http.gateway.is_some(),
        gate: gate.map(|status| Gate::new(&status, now)),
        report: report.map(|reported| ReportWords {
            parts: parts(&reported.report),
            at: Moment::new(reported.at, now),
        }),
    };
    Ok(page(shell, &main))
}

async fn status(http: &MemoryHttp, server: &AppState) -> Option<Arc<MemoryStatus>> {
    let gateway = http.gateway.as_ref()?;
    let seek = || {
        let (service, store) = (Arc::clone(&gateway.service), Arc::clone(server.store()));
        let (worker, now) = (server.worker_status(), server.now());
        async move { status::look(&service, store.as_ref(), worker, now).await }
    };
    gateway.caches.status.look(STATUS_LASTS, seek).await
}

async fn report(http: &MemoryHttp, server: &AppState) -> Option<Arc<CachedReport>> {
    let gateway = http.gateway.as_ref()?;
    let seek = || {
        let (service, server) = (Arc::clone(&gateway.service), server.clone());
        async move {
            let report = service.report().await;
            CachedReport {
                report,
                at: server.now(),
            }
        }
    };
    gateway.caches.report.look(REPORT_LASTS, seek).await
}

/// Previews a reconciliation; changes nothing.
async fn preview(
    State(http): State<MemoryHttp>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let shell = Shell::new("Reconcile: preview", "/ui/memory", &caller);
    let report = compared(served(&http)?, None).await?;
    Ok(reconcile_page(shell, false, report))
}

/// Reconciles and repairs; each repair writes an audit, and so does the operator's request.
async fn run(
    State(http): State<MemoryHttp>,
    Extension(caller): Extension<Caller>,
    form: Form,
) -> Result<Response, Problem> {
    let by = by(&caller, form.reason())?;
    let report = compared(served(&http)?, Some(&by)).await?;
    let shell = Shell::new("Reconcile", "/ui/memory", &caller);
    Ok(reconcile_page(shell, true, report))
}

/// Compares the outbox with its audits; for an operator, also repairs.
async fn compared(service: &MemoryService, by: Option<&By>) -> Result<ReconcileReport, Problem> {
    let mut options = service.options().reconcile();
    options.is_repairing = by.is_some();
    options.is_rescheduling = options.is_rescheduling && options.is_repairing;
    let logbook = service.logbook();
    let report = match by {
        Some(by) => reconcile_by(logbook, &options, &service.options().project_key, by).await?,
        None => reconcile(logbook, &options).await?,
    };
    Ok(report)
}

fn reconcile_page(shell: Shell, is_done: bool, report: ReconcileReport) -> Response {
    let main = Reconcile {
        csrf: shell.csrf.clone(),
        is_done,
        summary: report.to_string(),
        has_more: report.has_more,
        details: report.details.into_iter().map(Detail::from).collect(),
    };
    page(shell, &main)
}

impl Gate {
    fn new(status: &MemoryStatus, now: Timestamp) -> Self {
        let faults = status.faults.iter().map(|fault| {
            let since = fault.since.map(|at| Moment::new(at, now));
            (fault.capability, fault.why.clone(), since)
        });
        let counts = &status.counts;
        Self {
            mode: status.mode,
            reason: status.reason.clone().unwrap_or_default(),
            faults: faults.collect(),
            counts: vec![
                ("Pending", count(counts.pending)),
                ("Sent", count(counts.sent)),
                ("Dead", count(counts.dead)),
                ("Pending audits", count(counts.pending_audits)),
            ],
            at: Moment::new(status.at, now),
        }
    }
}

fn served(http: &MemoryHttp) -> Result<&MemoryService, Problem> {
    let gateway = http.gateway.as_ref();
    let none = || Problem::new(codes::NOT_FOUND, "the app memory is off on this server");
    Ok(gateway.ok_or_else(none)?.service.as_ref())
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

/// The report in groups: a nested document is its own group.
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
                let title = label(name);
                parts.push(Part { title, facts });
            }
            plain => parts[0].facts.push((label(name), display(plain))),
        }
    }
    parts
}

fn flatten(prefix: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = match prefix {
                    "" => label(name),
                    prefix => format!("{prefix}: {}", label(name)),
                };
                flatten(&name, value, facts);
            }
        }
        plain => facts.push((prefix.to_owned(), display(plain))),
    }
}

fn label(name: &str) -> String {
    name.replace('_', " ")
}

fn display(value: &Value) -> String {
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
    fn a_report_is_split_into_parts() {
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
