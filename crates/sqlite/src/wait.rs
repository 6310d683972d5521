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

/// The waits of this process, by queue.
#[derive(Debug)]
pub(crate) struct Waiters {
    channels: Mutex<HashMap<QueueName, Arc<Notify>>>,
    /// How often they look for what other processes wrote.
    poll_interval: Duration,
}

impl Waiters {
    pub(crate) fn new(poll_interval: Duration) -> Self {
        Self {
            channels: Mutex::default(),
            poll_interval,
        }
    }

    /// Wakes every wait for one of these queues.
    pub(crate) fn wake(&self, queues: &BTreeSet<QueueName>) {
        if queues.is_empty() {
            return;
        }
        let channels = self
            .channels
            .lock()
            .expect("invariant: no panic while waking");
        for queue in queues {
            if let Some(channel) = channels.get(queue) {
                channel.notify_waiters();
            }
        }
    }

    fn channel(&self, queue: &QueueName) -> Arc<Notify> {
        let mut channels = self
            .channels
            .lock()
            .expect("invariant: no panic while waking");
        Arc::clone(channels.entry(queue.clone()).or_default())
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
        let channel = self.channel(queue);
        loop {
            // Subscribe before polling: what is enqueued in between notifies the channel.
            let mut notified = std::pin::pin!(channel.notified());
            notified.as_mut().enable();
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
                // Another worker may have been faster, or it is not due yet: poll again.
                () = notified => {}
                () = sleep_until(next_look.min(deadline)) => {}
            }
        }
    }
}
