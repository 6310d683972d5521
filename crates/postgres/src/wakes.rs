//! The connection that listens for notifications, and the waits that they end.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use consign_kernel::QueueName;
use sqlx::postgres::{PgConnectOptions, PgListener, PgNotification, PgPoolOptions};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use uuid::Uuid;

/// The channel on which a commit names its queue: alone where something is due, or followed by
/// ` later` where something will be.
const CHANNEL: &str = "consign";
const LATER: &str = " later";
/// After this long without a notification, the connection is pinged.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long it may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long to rest before listening again after the connection broke: the first time, and at most.
const RECONNECT_MIN: Duration = Duration::from_millis(10);
const RECONNECT_MAX: Duration = Duration::from_secs(1);
/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long a wait blocks on the first connection. Afterwards it polls.
const FIRST_CONNECT_MAX: Duration = Duration::from_millis(100);

/// The waits of each queue, and the task that ends them on a notification.
#[derive(Debug)]
pub(crate) struct WakeUps {
    /// Where to listen; none behind a transaction pooler without a direct address.
    listen: Option<PgConnectOptions>,
    queues: Arc<Queues>,
    /// Transactions that were about to commit and have not ended for long.
    slow: Mutex<HashSet<String>>,
    /// Started by the first wait; ends with the store.
    listener: Mutex<Option<Listener>>,
}

#[derive(Debug)]
struct Listener {
    task: JoinHandle<()>,
    state: watch::Receiver<ListenerState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenerState {
    Untried,
    Yes,
    No,
}

/// Notifications of a queue so far: work that is due, and reasons to look again.
#[derive(Clone, Copy, Debug, Default)]
struct NotificationCounts {
    work: u64,
    looks: u64,
}

#[derive(Debug, Default)]
struct QueueChannel {
    counts: watch::Sender<NotificationCounts>,
    found_at: Mutex<Option<Instant>>,
    /// Ids in the registry of sleeping workers that no wait uses at the moment.
    free_ids: Mutex<Vec<Uuid>>,
}

#[derive(Debug, Default)]
struct Queues(Mutex<HashMap<String, Arc<QueueChannel>>>);

impl Queues {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<QueueChannel>>> {
        self.0.lock().expect("invariant: no panic under this lock")
    }

    fn get(&self, queue: &str) -> Arc<QueueChannel> {
        Arc::clone(self.lock().entry(queue.to_owned()).or_default())
    }

    /// Wakes the waits of a queue. Any login may send a notification: unknown names leave no
    /// trace.
    fn notify(&self, queue: &str, is_due: bool) {
        if let Some(channel) = self.lock().get(queue) {
            channel.counts.send_modify(|counts| {
                if is_due {
                    counts.work += 1
                } else {
                    counts.looks += 1
                }
            });
        }
    }

    /// Makes every wait poll again.
    fn notify_all(&self) {
        for channel in self.lock().values() {
            channel.counts.send_modify(|counts| counts.looks += 1);
        }
    }
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notification {
    /// Something is due.
    Work,
    /// A reason to look again.
    Look,
    Timeout,
}

/// Receives the notifications of a queue from when it was made.
#[derive(Debug)]
pub(crate) struct QueueListener {
    counts: watch::Receiver<NotificationCounts>,
    work: u64,
}

impl QueueListener {
    /// Waits for the next notification, or until `until`.
    pub(crate) async fn wait(&mut self, until: Instant) -> Notification {
        let changed = timeout_at(until, self.counts.changed()).await;
        match changed {
            Ok(Ok(())) if self.counts.borrow_and_update().work != self.work => Notification::Work,
            Ok(Ok(())) => Notification::Look,
            // The sender lives as long as the store.
            Ok(Err(_)) | Err(_) => Notification::Timeout,
        }
    }

    /// Listens until `until`, or for work that is due: other counts are left for the look afterwards.
    pub(crate) async fn wait_for_work(&mut self, until: Instant) -> Notification {
        loop {
            match self.wait(until).await {
                Notification::Look if Instant::now() < until => {}
                notification => return notification,
            }
        }
    }
}

impl WakeUps {
    pub(crate) fn new(listen: Option<PgConnectOptions>) -> Self {
        Self {
            listen,
            queues: Arc::default(),
            slow: Mutex::default(),
            listener: Mutex::default(),
        }
    }

    /// Whether there is an address at which notifications can be received.
    pub(crate) fn can_listen(&self) -> bool {
        self.listen.is_some()
    }

    /// An id for the registry of sleeping workers that no other wait uses: a registration replaces
    /// the earlier one of its id, and a wait must not lose its own to a shorter one.
    pub(crate) fn take_id(&self, queue: &QueueName) -> Uuid {
        let free = lock(&self.queues.get(queue.as_str()).free_ids).pop();
        free.unwrap_or_else(Uuid::new_v4)
    }

    /// Makes an id free for the next wait, whose registration then replaces what this one left. Not
    /// for a wait that was dropped: its last statement may still be under way.
    pub(crate) fn free_id(&self, queue: &QueueName, id: Uuid) {
        lock(&self.queues.get(queue.as_str()).free_ids).push(id);
    }

    /// Starts to listen, and returns whether notifications are received.
    pub(crate) async fn is_listening(&self) -> bool {
        let Some(options) = &self.listen else {
            return false;
        };
        let mut state = {
            let mut listener = lock(&self.listener);
            let listener = listener.get_or_insert_with(|| {
                let (sender, state) = watch::channel(ListenerState::Untried);
                let task = tokio::spawn(listen(options.clone(), Arc::clone(&self.queues), sender));
                Listener { task, state }
            });
            listener.state.clone()
        };
        let tried = state.wait_for(|state| *state != ListenerState::Untried);
        timeout(FIRST_CONNECT_MAX, tried)
            .await
            .is_ok_and(|state| state.is_ok_and(|state| *state == ListenerState::Yes))
    }

    pub(crate) fn listener(&self, queue: &QueueName) -> QueueListener {
        let counts = self.queues.get(queue.as_str()).counts.subscribe();
        let work = counts.borrow().work;
        QueueListener { counts, work }
    }

    /// Wakes the waits of a queue in this process.
    pub(crate) fn notify(&self, queue: &QueueName, is_due: bool) {
        self.queues.notify(queue.as_str(), is_due);
    }

    /// Remembers that a queue had work just now.
    pub(crate) fn found(&self, queue: &QueueName) {
        let channel = self.queues.get(queue.as_str());
        *lock(&channel.found_at) = Some(Instant::now());
    }

    /// When a queue last had work.
    pub(crate) fn found_at(&self, queue: &QueueName) -> Option<Instant> {
        *lock(&self.queues.get(queue.as_str()).found_at)
    }

    /// Of all transactions that are about to commit, those that are not known to be slow. Forgets
    /// the slow ones that have ended; also answers whether any is left.
    pub(crate) fn without_slow(&self, committing: Vec<String>) -> (Vec<String>, bool) {
        let mut slow = lock(&self.slow);
        slow.retain(|known| committing.contains(known));
        let rest = committing.into_iter().filter(|one| !slow.contains(one));
        (rest.collect(), !slow.is_empty())
    }

    pub(crate) fn add_slow(&self, committing: Vec<String>) {
        lock(&self.slow).extend(committing);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("invariant: no panic under this lock")
}

impl Drop for WakeUps {
    fn drop(&mut self) {
        if let Ok(Some(listener)) = self.listener.get_mut().map(Option::take) {
            listener.task.abort();
        }
    }
}

/// Listens for ever. Failures are not reported: polling is the safety net, and the database's
/// absence shows in every other operation.
async fn listen(
    options: PgConnectOptions,
    queues: Arc<Queues>,
    state: watch::Sender<ListenerState>,
) {
    let mut pause = RECONNECT_MIN;
    loop {
        let started = Instant::now();
        if let Ok(Ok(mut listener)) = timeout(CONNECT_MAX, connect(&options)).await {
            state.send_replace(ListenerState::Yes);
            // Whatever came while the connection was gone is not sent again.
            queues.notify_all();
            while let Ok(notification) = next(&mut listener).await {
                if let Some(notification) = notification {
                    let payload = notification.payload();
                    match payload.strip_suffix(LATER) {
                        Some(queue) => queues.notify(queue, false),
                        None => queues.notify(payload, true),
                    }
                }
            }
        }
        state.send_replace(ListenerState::No);
        queues.notify_all();
        if started.elapsed() > RECONNECT_MAX {
            pause = RECONNECT_MIN;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}

async fn connect(options: &PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    // A pool of its own each time: the slot of an unresponsive connection is not returned.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect_lazy_with(options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    // What a process that was killed left behind. A login that may not is one that does not work.
    drop(
        sqlx::query("SELECT consign.forget_idle()")
            .execute(&mut listener)
            .await,
    );
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// The next notification; none if there was none for a while and the connection still lives.
///
/// A connection whose peer vanished looks like one without notifications.
async fn next(listener: &mut PgListener) -> Result<Option<PgNotification>, sqlx::Error> {
    if let Ok(received) = timeout(SILENCE_MAX, listener.try_recv()).await {
        // Nothing where something was received: the connection was closed.
        let notification = received?.ok_or_else(unresponsive)?;
        return Ok(Some(notification));
    }
    let question = sqlx::query("SELECT 1").execute(&mut *listener);
    match timeout(ANSWER_MAX, question).await {
        Ok(answer) => answer.map(|_| None),
        Err(_) => Err(unresponsive()),
    }
}

fn unresponsive() -> sqlx::Error {
    sqlx::Error::Protocol("the connection for wake-ups is gone".to_owned())
}
