//! Whether memories are stored as they should be: the gate, judged by what is on record. The memory
//! server itself is not called for a page.

use consign_kernel::Store;
use consign_memory::{
    Audit, AuditFilter, AuditStatus, Logbook, MemoryService, OutboxCounts,
    gate::{self, Capability, GateMode, Skips},
};
use consign_worker::{BreakerState, WorkerStatus};
use jiff::Timestamp;

/// What must work. The names are those of `consign verify`.
const REQUIRED: [&str; 3] = ["audit", "openmemory", "outbox"];
/// How many audits are looked through for the last that tells of the memory server.
const LOOKED_THROUGH: i64 = 100_000;

/// How it stands.
#[derive(Debug)]
pub(crate) struct Standing {
    /// `FULL` or `DEGRADED`.
    pub(super) mode: &'static str,
    /// The gate's own word, where it does not pass.
    pub(super) reason: Option<String>,
    /// What does not work, why, and since when if that is known.
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

/// Looks at the records.
pub(super) async fn look(
    service: &MemoryService,
    store: &dyn Store,
    worker: Option<WorkerStatus>,
    now: Timestamp,
) -> Standing {
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
        .map(
            |name| match faults.iter().any(|it| it.capability == *name) {
                true => (*name, Capability::Failed),
                false => (*name, Capability::Ok),
            },
        )
        .collect();
    let skips = Skips::none().with_request(service.options().skipped());
    let gate = gate::check(GateMode::Full, &REQUIRED, &reported, &skips);
    Standing {
        mode: if gate.passed { "FULL" } else { "DEGRADED" },
        reason: gate.reason,
        faults,
        counts,
        at: now,
    }
}

/// Whether the memory server could not take the last memory that it was asked to.
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
        ..Fault::new("openmemory", format!("the last memory was put off: {why}"))
    }))
}

/// Whether what was put off is on its way.
async fn outbox(store: &dyn Store, worker: Option<WorkerStatus>) -> Option<Fault> {
    let queue = consign_memory::queue();
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
            "it is left alone for now: its breaker is open".into(),
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
