//! Status of the app: the gate, judged by recorded data. The memory server is not called for a
//! page.

use consign_kernel::Store;
use consign_worker::{BreakerState, WorkerStatus};
use jiff::Timestamp;

use crate::{
    Audit, AuditFilter, AuditStatus, Logbook, MemoryService, OutboxCounts,
    gate::{self, Capability, GateMode, Skips},
};

/// Required capabilities, named as in `consign verify`.
const REQUIRED: [&str; 3] = ["audit", "openmemory", "outbox"];
/// Maximum audits scanned for the last use of the memory server.
const LOOKED_THROUGH: i64 = 100_000;

/// Status of the app.
#[derive(Debug)]
pub(crate) struct MemoryStatus {
    /// `FULL` or `DEGRADED`.
    pub(super) mode: &'static str,
    /// The gate's reason, if it does not pass.
    pub(super) reason: Option<String>,
    /// Failures, with their reason and time if known.
    pub(super) faults: Vec<Fault>,
    pub(super) counts: OutboxCounts,
    pub(super) at: Timestamp,
}

#[derive(Debug)]
pub(super) struct Fault {
    pub(super) capability: &'static str,
    pub(super) why: String,
    pub(super) since: Option<Timestamp>,
}

/// Reads the recorded data.
pub(super) async fn look(
    service: &MemoryService,
    store: &dyn Store,
    worker: Option<WorkerStatus>,
    now: Timestamp,
) -> MemoryStatus {
    let logbook = service.logbook();
    let mut faults = Vec::new();
    let counts = match logbook.outbox_counts().await {
        Ok(counts) => counts,
        Err(error) => {
            faults.push(Fault::new("audit", error.to_string()));
            OutboxCounts::default()
        }
    };
    match refused(logbook).await {
        Ok(fault) => faults.extend(fault),
        Err(error) => faults.push(Fault::new("audit", error.to_string())),
    }
    faults.extend(outbox(store, worker).await);
    let reported: Vec<(&str, Capability)> = REQUIRED
        .iter()
        .map(|name| {
            if faults.iter().any(|it| it.capability == *name) {
                (*name, Capability::Failed)
            } else {
                (*name, Capability::Ok)
            }
        })
        .collect();
    let skips = Skips::none().with_request(service.options().skipped());
    let gate = gate::check(GateMode::Full, &REQUIRED, &reported, &skips);
    MemoryStatus {
        mode: if gate.passed { "FULL" } else { "DEGRADED" },
        reason: gate.reason,
        faults,
        counts,
        at: now,
    }
}

/// Whether the memory server failed at the last write.
async fn refused(logbook: &dyn Logbook) -> consign_kernel::Result<Option<Fault>> {
    let newest = logbook.audits(&AuditFilter::default(), 1).await?;
    let Some(newest) = newest.first() else {
        return Ok(None);
    };
    let after = Some(newest.audit_id - LOOKED_THROUGH).filter(|after| *after > 0);
    let last = async |status, prefix: &str, after: Option<i64>| {
        let filter = AuditFilter {
            status: Some(status),
            reason_prefix: Some(prefix.to_owned()),
            after,
            ..AuditFilter::default()
        };
        let found: Vec<Audit> = logbook.audits(&filter, 1).await?;
        consign_kernel::Result::Ok(found.into_iter().next())
    };
    let failed = "openmemory_write_failed";
    let Some(refusal) = last(AuditStatus::Redirected, failed, after).await? else {
        return Ok(None);
    };
    for stored in ["outbox_flush_success", "policy:"] {
        let later = last(AuditStatus::Success, stored, Some(refusal.audit_id)).await?;
        if later.is_some() {
            return Ok(None);
        }
    }
    let why = refusal.reason.unwrap_or_default();
    Ok(Some(Fault {
        since: Some(refusal.created_at),
        ..Fault::new("openmemory", format!("the last memory was deferred: {why}"))
    }))
}

/// Whether deferred memories are being delivered.
async fn outbox(store: &dyn Store, worker: Option<WorkerStatus>) -> Option<Fault> {
    let queue = crate::queue();
    let paused_at = match store.queue(&queue).await {
        Ok(found) => found.and_then(|queue| queue.paused_at),
        Err(error) => return Some(Fault::new("outbox", error.to_string())),
    };
    if paused_at.is_some() {
        return Some(Fault {
            since: paused_at,
            ..Fault::new("outbox", "the queue of memories is paused".to_owned())
        });
    }
    let mut queues = worker.into_iter().flat_map(|worker| worker.queues);
    let here = queues.find(|status| status.queue == queue)?;
    let is_open = matches!(here.breaker, BreakerState::Open);
    is_open.then(|| {
        Fault::new(
            "openmemory",
            "the circuit breaker of the memory server is open".into(),
        )
    })
}

impl Fault {
    fn new(capability: &'static str, why: String) -> Self {
        Self {
            capability,
            why,
            since: None,
        }
    }
}
