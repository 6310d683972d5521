//! An outage of the memory server.

use std::time::Duration;

use consign_kernel::MessageId;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use super::{
    checks::{facts, finds, only_audit, unfit},
    outcome::{StepFailure, StepResult, millis},
    stack::{Stack, rest},
};
use crate::{Audit, AuditFilter, AuditStatus, OutboxStatus};

/// Time limit of a worker.
const WORK_MAX: Duration = Duration::from_secs(120);

/// Phases with their durations.
#[derive(Default)]
struct Phases(Vec<Value>);

impl Phases {
    fn add(&mut self, name: &str, since: Instant) {
        self.0
            .push(json!({"name": name, "duration_ms": millis(since)}));
    }
}

/// Stops the server, stores, starts it, delivers, and finds what was stored meanwhile.
pub(super) async fn play(stack: &mut Stack) -> StepResult {
    let mut phases = Phases::default();
    let since = Instant::now();
    let stopped = stack.server.stop().await;
    stopped.map_err(|why| StepFailure::new("cannot_stop_container", why))?;
    phases.add("stop", since);
    let deferred = while_down(stack, &mut phases).await;
    // In every case: a configured server is not left stopped.
    let since = Instant::now();
    let started = stack.server.start().await;
    started.map_err(|why| StepFailure::new("cannot_restart_container", why))?;
    let recovered = stack.is_up().await;
    recovered.map_err(|error| StepFailure::new("recovery_timeout", error.to_string()))?;
    phases.add("start", since);
    let outbox_id = deferred?;
    let since = Instant::now();
    let memory_id = deliver(stack, outbox_id).await?;
    phases.add("deliver", since);
    let since = Instant::now();
    let count = finds(stack, "put off", &memory_id).await?;
    phases.add("find", since);
    let mut found: Map<String, Value> = facts(json!({
        "action": "deferred", "has_outbox_id": true, "outbox_id": outbox_id,
        "memory_id": memory_id, "results_count": count,
    }));
    found.insert("phases".to_owned(), phases.0.into());
    Ok(found)
}

/// A memory is deferred: it is in the outbox with one audit.
async fn while_down(stack: &Stack, phases: &mut Phases) -> Result<MessageId, StepFailure> {
    if stack.look().await.is_ok() {
        let why = "the memory server did not stop";
        return Err(StepFailure::new("container_still_running", why));
    }
    let since = Instant::now();
    let text = format!("{}: a memory that is put off", stack.mark);
    let arguments = json!({"payload_md": text, "target_space": stack.space()});
    let answer = stack.gateway.post("/memory/store", &arguments).await?;
    let outbox_id = answer["outbox_id"].as_i64().map(MessageId);
    let (true, Some(outbox_id)) = (answer["action"] == "deferred", outbox_id) else {
        return Err(unfit("memory_store was not deferred", &answer));
    };
    phases.add("store, deferred", since);
    let since = Instant::now();
    let row = stack.logbook().outbox_row(outbox_id).await;
    let row = row.map_err(|error| StepFailure::new("query_failed", error.to_string()))?;
    if row.is_none_or(|row| row.status != OutboxStatus::Pending || row.payload_md != text) {
        let why = format!("row {outbox_id} of the outbox is not the memory");
        return Err(StepFailure::new("response_check_failed", why));
    }
    let audit = only_audit(stack, &answer).await?;
    let reason = audit.reason.as_deref().unwrap_or_default();
    let is_told = reason.starts_with("openmemory_write_failed:")
        && audit.evidence_refs_json["outbox_id"] == outbox_id.0;
    if audit.status != AuditStatus::Redirected || !is_told {
        let why = format!("the audit of the request is {}", json!(audit));
        return Err(StepFailure::new("response_check_failed", why));
    }
    phases.add("check outbox and audit", since);
    Ok(outbox_id)
}

/// Delivers by `consign work --queue memory --once`; returns the memory's id.
async fn deliver(stack: &Stack, outbox_id: MessageId) -> Result<String, StepFailure> {
    let memory_id = is_sent(stack, outbox_id).await?;
    let filter = AuditFilter {
        outbox_id: Some(outbox_id.0),
        reason_prefix: Some("outbox_flush_success".to_owned()),
        ..AuditFilter::default()
    };
    let audits = stack.logbook().audits(&filter, 10).await;
    let audits = audits.map_err(|error| StepFailure::new("query_failed", error.to_string()))?;
    let is_told = |json: &Value| json["memory_id"] == memory_id.as_str();
    match audits.as_slice() {
        [audit] if is_told(&audit.evidence_refs_json) => Ok(memory_id),
        _ => {
            let why = format!("row {outbox_id} has not exactly one audit of its delivery");
            Err(StepFailure::new("response_check_failed", why))
        }
    }
}

/// Delivers until a row is sent. Another worker may have failed during the outage: then the row is
/// delayed.
async fn is_sent(stack: &Stack, outbox_id: MessageId) -> Result<String, StepFailure> {
    let patience = stack.patience;
    let ends = Instant::now() + patience;
    loop {
        let row = stack.logbook().outbox_row(outbox_id).await;
        let row = row.map_err(|error| StepFailure::new("query_failed", error.to_string()))?;
        if row.is_none()
            && let Some(memory_id) = sent_as(stack, outbox_id).await?
        {
            return Ok(memory_id);
        }
        if let Some(row) = row
            && row.status != OutboxStatus::Pending
        {
            let is_sent = row.status == OutboxStatus::Sent;
            return row.memory_id.filter(|_| is_sent).ok_or_else(|| {
                let why = format!("row {outbox_id} is dead: {:?}", row.last_error);
                StepFailure::new("response_check_failed", why)
            });
        }
        if Instant::now() >= ends {
            let why = format!("row {outbox_id} was not delivered within {patience:?}");
            return Err(StepFailure::new("recovery_timeout", why));
        }
        work_once(stack).await?;
        rest().await;
    }
}

/// The id that the audit of a delivery has: a queue that keeps rows for seconds may have let it leave.
async fn sent_as(stack: &Stack, outbox_id: MessageId) -> Result<Option<String>, StepFailure> {
    let filter = AuditFilter {
        outbox_id: Some(outbox_id.0),
        status: Some(AuditStatus::Success),
        ..AuditFilter::default()
    };
    let audits = stack.logbook().audits(&filter, 1).await;
    let audits = audits.map_err(|error| StepFailure::new("query_failed", error.to_string()))?;
    let memory_id =
        |audit: &Audit| Some(audit.evidence_refs_json["memory_id"].as_str()?.to_owned());
    Ok(audits.first().and_then(memory_id))
}

/// Runs a worker once. Failures are visible in the row.
async fn work_once(stack: &Stack) -> Result<(), StepFailure> {
    let once = ["work", "--queue", "memory", "--once", "--keep-policies"];
    let mut work = stack.files.command(&once);
    let ended = timeout(WORK_MAX, work.status()).await;
    let code = match ended {
        Ok(Ok(status)) => status.code(),
        Ok(Err(_)) | Err(_) => None,
    };
    match code {
        Some(0 | 1) => Ok(()),
        _ => {
            let why = format!("the worker ended with {code:?}: {}", stack.files.log_tail());
            Err(StepFailure::new("request_failed", why))
        }
    }
}
