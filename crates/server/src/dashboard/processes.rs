//! The page of processes and leases.

use std::collections::BTreeMap;

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::LeaseView;
use jiff::{SignedDuration, Timestamp};

use super::{
    live::Topic,
    shell::{Shell, rendered, see_other, text},
    words::{Moment, count, span},
};
use crate::{gate::access::Caller, problem::Problem, state::AppState};

const ROWS: u32 = 200;
/// A process without a heartbeat for this long may be gone; they are sent every few seconds.
const SILENT: SignedDuration = SignedDuration::from_mins(2);
/// Messages of a lease that are named; the rest is counted.
const NAMED: usize = 5;

#[derive(Template)]
#[template(path = "processes.html")]
struct ProcessesPage {
    shell: Shell,
    topic: String,
    live: String,
}

#[derive(Template)]
#[template(path = "processes_live.html")]
struct ProcessesLiveTemplate {
    /// Those with a heartbeat, and those that may be gone.
    seen: usize,
    silent: usize,
    /// Messages in leases.
    leased: usize,
    workers: Vec<Worker>,
    leases: Vec<LeaseRow>,
    is_cut: bool,
}

/// A worker: seen by its leases, its heartbeats, or both.
#[derive(Default)]
struct Worker {
    name: String,
    version: String,
    queues: String,
    started: Option<Moment>,
    seen: Option<Moment>,
    /// Without a heartbeat for so long that it may be gone.
    is_silent: bool,
    leases: usize,
    messages: usize,
    is_here: bool,
}

/// A lease.
struct LeaseRow {
    fence: i64,
    queue: String,
    owner: String,
    ids: Vec<i64>,
    more: usize,
    begun: String,
    claimed: Moment,
    expires: Moment,
    has_ended: bool,
    /// What is left of it, in percent of its time.
    left: i64,
    left_words: String,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    Ok(rendered(&ProcessesPage {
        shell: Shell::new("Processes", "/ui/processes", &caller),
        topic: Topic::Processes.to_string(),
        live: live(&state).await?,
    }))
}

/// The address that the page had before.
pub(super) async fn former() -> Response {
    see_other("/ui/processes")
}

/// The part that is kept up to date.
pub(super) async fn live(state: &AppState) -> Result<String, Problem> {
    let leases = state.store.leases(ROWS).await?;
    let status = state.worker.as_ref().map(|worker| worker.status());
    let here = status.map(|status| status.owner);
    let now = (state.clock)();
    let mut workers: BTreeMap<String, Worker> = BTreeMap::new();
    for process in state.store.processes().await? {
        let worker = workers.entry(process.name.clone()).or_default();
        let queues: Vec<&str> = process.queues.iter().map(|queue| queue.as_str()).collect();
        worker.queues = queues.join(", ");
        worker.version = process.version;
        worker.started = Some(Moment::new(process.started_at, now));
        worker.seen = Some(Moment::new(process.seen_at, now));
        worker.is_silent = now.duration_since(process.seen_at) > SILENT;
    }
    for lease in &leases {
        let worker = workers.entry(lease.owner.clone()).or_default();
        worker.leases += 1;
        worker.messages += lease.ids.len();
    }
    let workers = workers.into_iter().map(|(name, worker)| Worker {
        is_here: here.as_deref() == Some(name.as_str()),
        name,
        ..worker
    });
    let workers: Vec<Worker> = workers.collect();
    let silent = workers.iter().filter(|worker| worker.is_silent).count();
    let leased = leases.iter().map(|lease| lease.ids.len()).sum();
    text(&ProcessesLiveTemplate {
        seen: workers.len() - silent,
        silent,
        leased,
        workers,
        is_cut: leases.len() == ROWS as usize,
        leases: leases
            .into_iter()
            .map(|lease| LeaseRow::new(lease, now))
            .collect(),
    })
}

impl LeaseRow {
    fn new(lease: LeaseView, now: Timestamp) -> Self {
        let whole = lease
            .expires_at
            .duration_since(lease.claimed_at)
            .as_millis();
        let left = lease.expires_at.duration_since(now);
        let percent = (left.as_millis() * 100).checked_div(whole).unwrap_or(0);
        Self {
            fence: lease.fence.0,
            queue: lease.queue.to_string(),
            owner: lease.owner,
            more: lease.ids.len().saturating_sub(NAMED),
            ids: lease.ids.iter().take(NAMED).map(|id| id.0).collect(),
            begun: count(lease.begun.len() as u64),
            claimed: Moment::new(lease.claimed_at, now),
            expires: Moment::new(lease.expires_at, now),
            has_ended: lease.expires_at <= now,
            left: percent.clamp(0, 100) as i64,
            left_words: span(left),
        }
    }
}
