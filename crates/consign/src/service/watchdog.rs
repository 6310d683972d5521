//! Feeds the service manager's watchdog while the claim loops run.

use std::{sync::Arc, time::Duration};

use consign_worker::{WorkerHandle, WorkerStatus};
use tokio::{task::JoinHandle, time::interval};

use super::systemd::Systemd;

/// Feeds it until it is dropped.
#[derive(Debug)]
pub(crate) struct Watchdog {
    systemd: Arc<Systemd>,
    task: Option<JoinHandle<()>>,
    patience: Duration,
}

impl Watchdog {
    pub(crate) fn start(
        systemd: Systemd,
        worker: WorkerHandle,
        tick_age_max: Duration,
        patience: Duration,
    ) -> Self {
        let systemd = Arc::new(systemd);
        let task = systemd.watchdog_interval().map(|every| {
            let systemd = Arc::clone(&systemd);
            tokio::spawn(async move {
                let mut ticks = interval(every);
                loop {
                    ticks.tick().await;
                    if is_alive(&worker.status(), tick_age_max) {
                        systemd.alive();
                    } else {
                        tracing::error!("a claim loop is stuck; the watchdog is not fed");
                    }
                }
            })
        });
        Self {
            systemd,
            task,
            patience,
        }
    }

    /// On the way out.
    pub(crate) fn stopping(&self) {
        self.systemd.stopping(self.patience);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Whether every claim loop was seen lately. A worker that drains has none to be seen.
fn is_alive(status: &WorkerStatus, tick_age_max: Duration) -> bool {
    let ticks = |queue: &consign_worker::QueueStatus| queue.last_tick_age <= tick_age_max;
    status.draining || status.queues.iter().all(ticks)
}

#[cfg(test)]
mod tests {
    use consign_worker::{BreakerState, QueueStatus};

    use super::*;

    fn status(ages_s: &[u64], draining: bool) -> WorkerStatus {
        let queue = |age: &u64| QueueStatus {
            queue: "a".parse().unwrap(),
            sink: "log",
            destination: String::new(),
            in_flight: 0,
            prefetched: 0,
            concurrency: 1,
            concurrency_now: 1,
            paused: false,
            claiming: false,
            breaker: BreakerState::Closed,
            last_tick_age: Duration::from_secs(*age),
            unrecorded: 0,
            database_error: None,
        };
        WorkerStatus {
            owner: "w".into(),
            draining,
            queues: ages_s.iter().map(queue).collect(),
        }
    }

    #[test]
    fn one_stuck_queue_is_enough_to_be_restarted() {
        let max = Duration::from_secs(30);
        assert!(is_alive(&status(&[], false), max));
        assert!(is_alive(&status(&[1, 30], false), max));
        assert!(!is_alive(&status(&[1, 31], false), max));
        assert!(is_alive(&status(&[31], true), max), "it is ending");
    }
}
