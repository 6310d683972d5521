//! Wake-ups: LISTEN where a connection can carry it, polling always.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use consign_kernel::{LaneName, Result};
use sqlx::postgres::{
    PgConnectOptions, PgListener, PgNotification, PgPoolOptions, types::PgInterval,
};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::timeout,
};

use crate::{PostgresStore, rows};

/// The channel on which an enqueue names its lane.
const CHANNEL: &str = "consign";
/// After this long without a notification, the connection is asked whether it lives.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long it may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long to rest before listening again after the connection broke.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// Who waits for which lane, and the task that wakes them.
#[derive(Debug)]
pub(crate) struct Wakes {
    /// Where to listen; none behind a transaction pooler without a direct address.
    listen: Option<PgConnectOptions>,
    lanes: Arc<Lanes>,
    /// Started by the first wait; ends with the store.
    listener: Mutex<Option<Listener>>,
}

#[derive(Debug)]
struct Listener {
    task: JoinHandle<()>,
    /// Whether listening was tried: from then on, wake-ups either come or cannot come.
    tried: watch::Receiver<bool>,
}

#[derive(Debug, Default)]
struct Lanes(Mutex<HashMap<String, Arc<Notify>>>);

impl Lanes {
    fn get(&self, lane: &str) -> Arc<Notify> {
        let mut lanes = self.0.lock().expect("invariant: no panic under this lock");
        Arc::clone(lanes.entry(lane.to_owned()).or_default())
    }

    /// Wakes those who wait for a lane. Anybody may send a notification: unknown names leave no trace.
    fn wake(&self, lane: &str) {
        let lanes = self.0.lock().expect("invariant: no panic under this lock");
        if let Some(lane) = lanes.get(lane) {
            lane.notify_waiters();
        }
    }

    fn wake_all(&self) {
        let lanes = self.0.lock().expect("invariant: no panic under this lock");
        lanes.values().for_each(|lane| lane.notify_waiters());
    }
}

impl Wakes {
    pub(crate) fn new(listen: Option<PgConnectOptions>) -> Self {
        Self {
            listen,
            lanes: Arc::default(),
            listener: Mutex::default(),
        }
    }

    /// Starts to listen, and returns once that has been tried, or after `limit`.
    async fn ensure_listening(&self, limit: Duration) {
        let Some(options) = &self.listen else { return };
        let mut tried = {
            let mut listener = self
                .listener
                .lock()
                .expect("invariant: no panic under this lock");
            let listener = listener.get_or_insert_with(|| {
                let (sender, tried) = watch::channel(false);
                let task = tokio::spawn(listen(options.clone(), Arc::clone(&self.lanes), sender));
                Listener { task, tried }
            });
            listener.tried.clone()
        };
        // A time-out here only means that this wait relies on polling.
        drop(timeout(limit, tried.wait_for(|tried| *tried)).await);
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        if let Ok(Some(listener)) = self.listener.get_mut().map(Option::take) {
            listener.task.abort();
        }
    }
}

/// Listens for ever. Failures are not reported: polling is the safety net, and the database's
/// absence shows in every other operation.
async fn listen(options: PgConnectOptions, lanes: Arc<Lanes>, tried: watch::Sender<bool>) {
    loop {
        // A pool of its own each time: the place of a connection that fell silent is not given back.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .connect_lazy_with(options.clone());
        if let Ok(mut listener) = PgListener::connect_with(&pool).await
            && listener.listen(CHANNEL).await.is_ok()
        {
            if tried.send_replace(true) {
                // Whatever came while the connection was gone is not told again.
                lanes.wake_all();
            }
            while let Ok(notification) = next(&mut listener).await {
                if let Some(notification) = notification {
                    lanes.wake(notification.payload());
                }
            }
        }
        tried.send_replace(true);
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

/// The next notification; none if the connection was silent for a while and still lives.
///
/// A connection whose far side vanished without a word looks like one on which nothing happens.
async fn next(
    listener: &mut PgListener,
) -> std::result::Result<Option<PgNotification>, sqlx::Error> {
    if let Ok(received) = timeout(SILENCE_MAX, listener.try_recv()).await {
        // Nothing where something was received: the connection was closed.
        let notification = received?.ok_or_else(silent)?;
        return Ok(Some(notification));
    }
    let question = sqlx::query("SELECT 1").execute(&mut *listener);
    match timeout(ANSWER_MAX, question).await {
        Ok(answer) => answer.map(|_| None),
        Err(_) => Err(silent()),
    }
}

fn silent() -> sqlx::Error {
    sqlx::Error::Protocol("the connection for wake-ups is gone".to_owned())
}

impl PostgresStore {
    pub(crate) async fn wait_impl(&self, lane: &LaneName, limit: Duration) -> Result<bool> {
        self.wakes.ensure_listening(limit).await;
        let notify = self.wakes.lanes.get(lane.as_str());
        let woken = notify.notified();
        tokio::pin!(woken);
        // Interest comes before the look: what is enqueued in between is not missed.
        woken.as_mut().enable();
        let due = self.until_due(lane).await?;
        if due == Some(Duration::ZERO) {
            return Ok(true);
        }
        let pause = due.map_or(limit, |due| due.min(limit));
        let woken = timeout(pause, woken).await.is_ok();
        Ok(woken || pause < limit)
    }

    /// How long until the lane has something to claim, if anything is in sight.
    async fn until_due(&self, lane: &LaneName) -> Result<Option<Duration>> {
        let statement = sqlx::query("SELECT consign.until_due($1) AS until").bind(lane.as_str());
        let rows = self.read("look for work", statement).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let until: Option<PgInterval> = rows::column(row, "until")?;
        Ok(until.map(|until| {
            let days_us = i64::from(until.days).saturating_mul(86_400_000_000);
            let until_us = days_us.saturating_add(until.microseconds);
            Duration::from_micros(until_us.max(0).unsigned_abs())
        }))
    }
}
