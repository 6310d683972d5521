//! Heartbeats: records in the database that this process is alive, and what it did.

use std::{collections::HashMap, sync::Arc, time::Duration};

use consign_kernel::{
    BreakerReport, BreakerState, DESTINATION_BYTES_MAX, Error, HEARTBEAT_BREAKERS_MAX,
    HEARTBEAT_QUEUES_MAX, Heartbeat, OutcomeCounts, QueueName, QueueStats, Store, with_causes,
};
use consign_server::AppState;
use consign_worker::{QueueStatus, WorkerHandle};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

/// How often.
const EVERY: Duration = Duration::from_secs(10);
/// How soon after one that failed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long the last one may take: nothing depends on it.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The task that sends heartbeats.
#[derive(Debug)]
pub(super) struct Heartbeats {
    task: JoinHandle<()>,
    end: oneshot::Sender<()>,
}

/// What a heartbeat is made of.
struct Reporter {
    store: Arc<dyn Store>,
    /// Counts what it delivers.
    worker: WorkerHandle,
    /// Counts what others deliver and record by HTTP.
    state: AppState,
    since: Instant,
    unsent: Vec<QueueStats>,
    /// Since when breakers keep deliveries back, as far as was seen here.
    open: HashMap<QueueName, Instant>,
}

impl Heartbeats {
    pub(super) fn start(store: &Arc<dyn Store>, worker: &WorkerHandle, state: &AppState) -> Self {
        let reporter = Reporter {
            store: Arc::clone(store),
            worker: worker.clone(),
            state: state.clone(),
            since: Instant::now(),
            unsent: Vec::new(),
            open: HashMap::new(),
        };
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(reporter.run(ended));
        Self { task, end }
    }

    /// Sends one last heartbeat with what was done since the one before.
    pub(super) async fn end(mut self) {
        // A task that has ended has nothing to send.
        self.end.send(()).unwrap_or_default();
        if timeout(LAST_WORDS, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Reporter {
    async fn run(mut self, mut ended: oneshot::Receiver<()>) {
        let mut beats = interval(EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                biased;
                _ = &mut ended => true,
                _ = beats.tick() => false,
            };
            let is_recorded = self.send(is_last).await;
            if is_last {
                return;
            }
            // For charts: the next minute has another sample.
            if let Err(error) = self.store.sample_backlog().await {
                tracing::debug!(%error, "the backlog of this minute was not sampled");
            }
            if !is_recorded {
                beats.reset_after(AGAIN_AFTER);
            }
        }
    }

    /// What could not be recorded is sent the next time. Returns whether the next one can wait.
    async fn send(&mut self, is_last: bool) -> bool {
        add(&mut self.unsent, self.worker.take_done());
        add(&mut self.unsent, self.state.take_done());
        let count = self.unsent.len().min(HEARTBEAT_QUEUES_MAX);
        let status = self.worker.status();
        let heartbeat = Heartbeat {
            breakers: self.breakers(&status.queues),
            is_last,
            process: status.owner,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            running_for: self.since.elapsed(),
            queues: self.unsent[..count].to_vec(),
        };
        match self.store.heartbeat(&heartbeat).await {
            Ok(()) => {
                self.unsent.drain(..count);
                self.state.note_write(None);
                true
            }
            // A login without the right to this write may have that to every other.
            Err(error @ Error::Forbidden { .. }) => {
                tracing::debug!(%error, "the heartbeat of this process could not be recorded");
                true
            }
            // Nothing depends on it, but other writes will fail as well: `/readyz` reports it.
            Err(error) => {
                let cause = with_causes(&error);
                tracing::warn!(%cause, "the database rejects writes; retrying every second");
                // Probes come without a token: the log has the cause.
                self.state.note_write(Some(error.to_string()));
                false
            }
        }
    }
}

impl Reporter {
    /// The breakers that keep deliveries back, and for how long.
    fn breakers(&mut self, queues: &[QueueStatus]) -> Vec<BreakerReport> {
        let open = queues
            .iter()
            .filter(|queue| queue.breaker != BreakerState::Closed);
        let open: Vec<&QueueStatus> = open.take(HEARTBEAT_BREAKERS_MAX).collect();
        self.open
            .retain(|name, _| open.iter().any(|queue| queue.queue == *name));
        let report = |queue: &QueueStatus| BreakerReport {
            queue: queue.queue.clone(),
            destination: destination(&queue.destination),
            state: queue.breaker,
            lasts: self
                .open
                .entry(queue.queue.clone())
                .or_insert_with(Instant::now)
                .elapsed(),
        };
        open.into_iter().map(report).collect()
    }
}

/// A destination as a heartbeat takes it.
fn destination(text: &str) -> String {
    let text = text.replace(char::is_control, " ");
    let end = text.floor_char_boundary(DESTINATION_BYTES_MAX);
    match text[..end].trim() {
        "" => "unknown".to_owned(),
        text => text.to_owned(),
    }
}

fn add(unsent: &mut Vec<QueueStats>, queues: Vec<QueueStats>) {
    if unsent.is_empty() {
        *unsent = queues;
        return;
    }
    for queue in queues {
        let known = unsent.iter_mut().find(|known| known.queue == queue.queue);
        match known {
            Some(known) => OutcomeCounts::add(&mut known.done, queue.done),
            None => unsent.push(queue),
        }
    }
}
