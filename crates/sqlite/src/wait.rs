//! Waiting for work: woken by this process, found by polling when another one wrote.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use consign_kernel::QueueName;
use sqlx::SqlitePool;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{error::Result, options::Clock, rows::micros, sql};

/// Who waits for which queue in this process.
#[derive(Debug)]
pub(crate) struct Waiters {
    bells: Mutex<HashMap<QueueName, Arc<Notify>>>,
    /// How often they look for what other processes wrote.
    poll_interval: Duration,
}

impl Waiters {
    pub(crate) fn new(poll_interval: Duration) -> Self {
        Self {
            bells: Mutex::default(),
            poll_interval,
        }
    }

    /// Wakes everybody who waits for one of these queues.
    pub(crate) fn wake(&self, queues: &BTreeSet<QueueName>) {
        if queues.is_empty() {
            return;
        }
        let bells = self.bells.lock().expect("invariant: no panic while waking");
        for queue in queues {
            if let Some(bell) = bells.get(queue) {
                bell.notify_waiters();
            }
        }
    }

    fn bell(&self, queue: &QueueName) -> Arc<Notify> {
        let mut bells = self.bells.lock().expect("invariant: no panic while waking");
        Arc::clone(bells.entry(queue.clone()).or_default())
    }

    /// Returns `true` once the queue may have work, `false` after `timeout`.
    pub(crate) async fn wait(
        &self,
        readers: &SqlitePool,
        clock: &Clock,
        queue: &QueueName,
        timeout: Duration,
    ) -> Result<bool> {
        let deadline = Instant::now() + timeout.min(Duration::from_secs(24 * 3600));
        let bell = self.bell(queue);
        loop {
            // Listening begins before looking: what is enqueued in between rings the bell.
            let mut ring = std::pin::pin!(bell.notified());
            ring.as_mut().enable();
            let next: Option<i64> = sqlx::query_scalar(sql!("due_next"))
                .bind(queue.as_str())
                .fetch_one(readers)
                .await?;
            let now = micros(clock.now());
            if next.is_some_and(|next| next <= now) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            let until_due = next.map(|next| Duration::from_micros(next.abs_diff(now)));
            let pause = until_due.map_or(self.poll_interval, |until| until.min(self.poll_interval));
            let next_look = Instant::now() + pause;
            tokio::select! {
                // Somebody else may have been faster, or it is not due yet: look again.
                () = ring => {}
                () = sleep_until(next_look.min(deadline)) => {}
            }
        }
    }
}
