//! Steps without an outage.

use consign_kernel::Finding;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::time::{Duration, Instant};

use super::{
    outcome::{StepFailure, StepResult},
    stack::{Stack, rest},
};
use crate::{Audit, AuditFilter, AuditStatus, ReliabilityReport};

/// How long a stored memory may take to be found.
const FOUND_MAX: Duration = Duration::from_secs(20);
/// How long the gateway may take to be ready.
const READY_MAX: Duration = Duration::from_secs(20);

/// Facts of a step.
pub(super) fn facts(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

fn unasked(error: &consign_kernel::Error) -> StepFailure {
    StepFailure::new("query_failed", error.to_string())
}

/// The gateway is ready, and so is the memory server, if there is one.
pub(super) async fn health(stack: &Stack, looks_at_server: bool) -> StepResult {
    let ends = Instant::now() + READY_MAX.min(stack.patience);
    loop {
        let reply = stack.gateway.ask(Method::GET, "/readyz", None).await?;
        if reply.status == 200 && reply.body["status"] == "ready" {
            break;
        }
        if Instant::now() >= ends {
            let why = format!("/readyz answered {}: {}", reply.status, reply.body);
            return Err(StepFailure::new("request_failed", why));
        }
        rest().await;
    }
    let reply = stack.gateway.ask(Method::GET, "/health", None).await?;
    let expected = json!({"ok": true, "status": "ok", "service": "memory-gateway"});
    if reply.status != 200 || reply.body != expected {
        return Err(unfit("/health", &reply.body));
    }
    if !looks_at_server {
        return Ok(facts(
            json!({"gateway_ok": true, "openmemory_ok": Value::Null}),
        ));
    }
    let warnings = stack.is_up().await;
    let warnings =
        warnings.map_err(|error| StepFailure::new("request_failed", error.to_string()))?;
    Ok(facts(
        json!({"gateway_ok": true, "openmemory_ok": true, "warnings": warnings}),
    ))
}

/// The failure for an unexpected answer.
pub(super) fn unfit(what: &str, answer: &Value) -> StepFailure {
    StepFailure::new("response_check_failed", format!("{what}: {answer}"))
}

/// A memory is stored at once, and audited once.
pub(super) async fn store(stack: &mut Stack) -> StepResult {
    let text = format!("{}: a memory that is stored at once", stack.mark);
    let arguments = json!({"payload_md": text, "target_space": stack.space()});
    let answer = stack.gateway.post("/memory/store", &arguments).await?;
    let memory_id = answer["memory_id"].as_str();
    let (true, Some(memory_id)) = (answer["ok"] == true, memory_id) else {
        return Err(unfit("memory_store", &answer));
    };
    let audit = only_audit(stack, &answer).await?;
    let is_told = audit.evidence_refs_json["memory_id"] == memory_id;
    if audit.status != AuditStatus::Success || !is_told {
        let why = format!("the audit of the request is {}", json!(audit));
        return Err(StepFailure::new("response_check_failed", why));
    }
    stack.stored = Some(memory_id.to_owned());
    let action = &answer["action"];
    Ok(facts(
        json!({"action": action, "memory_id": memory_id, "has_outbox_id": false}),
    ))
}

/// The one audit of a request.
pub(super) async fn only_audit(stack: &Stack, answer: &Value) -> Result<Audit, StepFailure> {
    let correlation_id = answer["correlation_id"].as_str().unwrap_or_default();
    let filter = AuditFilter {
        correlation_id: Some(correlation_id.to_owned()),
        ..AuditFilter::default()
    };
    let audits = stack.logbook().audits(&filter, 10).await;
    let mut audits = audits.map_err(|error| unasked(&error))?;
    match (audits.pop(), audits.is_empty()) {
        (Some(audit), true) => Ok(audit),
        _ => {
            let why = format!("the request {correlation_id} has not exactly one audit");
            Err(StepFailure::new("response_check_failed", why))
        }
    }
}

/// The stored memory is found.
pub(super) async fn query(stack: &Stack) -> StepResult {
    let Some(memory_id) = &stack.stored else {
        return Err(StepFailure::new(
            "query_failed",
            "no memory was stored before",
        ));
    };
    let count = finds(stack, "stored at once", memory_id).await?;
    Ok(facts(
        json!({"results_count": count, "memory_id": memory_id}),
    ))
}

/// Searches until a memory is found; how many results there were.
pub(super) async fn finds(
    stack: &Stack,
    words: &str,
    memory_id: &str,
) -> Result<usize, StepFailure> {
    let arguments = json!({
        "query": format!("{} {words}", stack.mark), "spaces": [stack.space()], "top_k": 50,
    });
    let ends = Instant::now() + FOUND_MAX.min(stack.patience);
    loop {
        let answer = stack.gateway.post("/memory/query", &arguments).await?;
        let results = answer["results"].as_array();
        let results = results.map(Vec::as_slice).unwrap_or_default();
        let is_found = results.iter().any(|hit| hit["id"] == memory_id);
        if answer["ok"] == true && is_found && answer["degraded"] == false {
            return Ok(results.len());
        }
        if Instant::now() >= ends {
            let why = format!("{memory_id} is not found: {answer}");
            return Err(StepFailure::new("query_failed", why));
        }
        rest().await;
    }
}

/// The outbox agrees with its audits, or is repaired.
pub(super) async fn reconcile(stack: &Stack) -> StepResult {
    let options = stack.options().reconcile();
    let report = crate::reconcile(stack.logbook(), &options).await;
    let report = report.map_err(|error| unasked(&error))?;
    if report.is_repaired() {
        Ok(facts(json!({"total_scanned": report.total_scanned})))
    } else {
        Err(StepFailure::new(
            "response_check_failed",
            json!(report).to_string(),
        ))
    }
}

/// Invariants and counts of the database.
pub(super) async fn invariants(stack: &Stack) -> StepResult {
    let findings = stack.opened.store.doctor().await;
    let findings = findings.map_err(|error| unasked(&error))?;
    if let Some(Finding { code, what, .. }) = findings.first() {
        return Err(StepFailure::new(
            "response_check_failed",
            format!("{code}: {what}"),
        ));
    }
    let counts = stack.logbook().memory_counts().await;
    let counts = counts.map_err(|error| unasked(&error))?;
    let report = ReliabilityReport::new(&counts, &stack.identity(), Timestamp::now());
    let (audits, outbox) = (&report.audit_stats, &report.outbox_stats);
    let mut found = facts(json!({"audit_total": audits.total, "outbox_total": outbox.total}));
    let named = audits
        .by_action
        .iter()
        .map(|(name, count)| (format!("audit_{name}"), count));
    let rows = outbox
        .by_status
        .iter()
        .map(|(name, count)| (format!("outbox_{name}"), count));
    found.extend(named.chain(rows).map(|(name, count)| (name, json!(count))));
    Ok(found)
}
