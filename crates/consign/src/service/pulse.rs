//! Telling the database that this process lives, and what was done through it.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Done, Error, PULSE_QUEUES_MAX, Pulse, QueuePulse, Store, with_causes};
use consign_server::AppState;
use consign_worker::WorkerHandle;
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

/// Somebody who tells, until the end.
#[derive(Debug)]
pub(super) struct Pulses {
    task: JoinHandle<()>,
    end: oneshot::Sender<()>,
}

/// Whoever tells, and of what.
struct Teller {
    store: Arc<dyn Store>,
    /// Counts what it delivers.
    worker: WorkerHandle,
    /// Counts what others deliver and record by HTTP.
    state: AppState,
    since: Instant,
    untold: Vec<QueuePulse>,
}

impl Pulses {
    pub(super) fn start(store: &Arc<dyn Store>, worker: &WorkerHandle, state: &AppState) -> Self {
        let teller = Teller {
            store: Arc::clone(store),
            worker: worker.clone(),
            state: state.clone(),
            since: Instant::now(),
            untold: Vec::new(),
        };
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(teller.run(ended));
        Self { task, end }
    }

    /// Tells what has been done since the last time, and no more.
    pub(super) async fn end(mut self) {
        // One who has ended already has nothing more to tell.
        self.end.send(()).unwrap_or_default();
        if timeout(LAST_WORDS, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Teller {
    async fn run(mut self, mut ended: oneshot::Receiver<()>) {
        let mut beats = interval(EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                biased;
                _ = &mut ended => true,
                _ = beats.tick() => false,
            };
            let is_told = self.tell().await;
            if is_last {
                return;
            }
            if !is_told {
                beats.reset_after(AGAIN_AFTER);
            }
        }
    }

    /// What could not be told is told the next time. Answers whether the next one can wait.
    async fn tell(&mut self) -> bool {
        add(&mut self.untold, self.worker.take_done());
        add(&mut self.untold, self.state.take_done());
        let told = self.untold.len().min(PULSE_QUEUES_MAX);
        let pulse = Pulse {
            process: self.worker.status().owner,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            running_for: self.since.elapsed(),
            queues: self.untold[..told].to_vec(),
        };
        match self.store.pulse(&pulse).await {
            Ok(()) => {
                self.untold.drain(..told);
                self.state.note_write(None);
                true
            }
            // A login without the right to this write may have that to every other.
            Err(error @ Error::Forbidden { .. }) => {
                tracing::debug!(%error, "this process could not tell of itself");
                true
            }
            // Nothing depends on it, but other writes will fail as well: `/readyz` says so.
            Err(error) => {
                let cause = with_causes(&error);
                tracing::warn!(%cause, "the database takes no writes; trying again every second");
                // Probes come without a token: the log has the cause.
                self.state.note_write(Some(error.to_string()));
                false
            }
        }
    }
}

fn add(untold: &mut Vec<QueuePulse>, queues: Vec<QueuePulse>) {
    if untold.is_empty() {
        *untold = queues;
        return;
    }
    for queue in queues {
        let known = untold.iter_mut().find(|known| known.queue == queue.queue);
        match known {
            Some(known) => Done::add(&mut known.done, queue.done),
            None => untold.push(queue),
        }
    }
}
