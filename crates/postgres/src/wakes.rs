//! The connection that hears wake-ups, and who is woken by them.

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
/// After this long without a notification, the connection is asked whether it lives.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long it may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long to rest before listening again after the connection broke: the first time, and at most.
const RECONNECT_MIN: Duration = Duration::from_millis(10);
const RECONNECT_MAX: Duration = Duration::from_secs(1);
/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long a wait stands still for the first connection. Afterwards it looks by itself.
const FIRST_CONNECT_MAX: Duration = Duration::from_millis(100);

/// Who waits for which queue, and the task that wakes them.
#[derive(Debug)]
pub(crate) struct Wakes {
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
    state: watch::Receiver<Listening>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listening {
    Untried,
    Yes,
    No,
}

/// How often a queue was rung for: work that is due, and reasons to look again.
#[derive(Clone, Copy, Debug, Default)]
struct Rings {
    work: u64,
    looks: u64,
}

#[derive(Debug, Default)]
struct QueueBell {
    rings: watch::Sender<Rings>,
    found_at: Mutex<Option<Instant>>,
    /// Ids in the registry of sleeping workers that no wait uses at the moment.
    free_ids: Mutex<Vec<Uuid>>,
}

#[derive(Debug, Default)]
struct Queues(Mutex<HashMap<String, Arc<QueueBell>>>);

impl Queues {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<QueueBell>>> {
        self.0.lock().expect("invariant: no panic under this lock")
    }

    fn get(&self, queue: &str) -> Arc<QueueBell> {
        Arc::clone(self.lock().entry(queue.to_owned()).or_default())
    }

    /// Wakes those who wait for a queue. Any login may send a notification: unknown names leave no
    /// trace.
    fn ring(&self, queue: &str, is_due: bool) {
        if let Some(bell) = self.lock().get(queue) {
            bell.rings.send_modify(|rings| match is_due {
                true => rings.work += 1,
                false => rings.looks += 1,
            });
        }
    }

    /// Has everybody look again.
    fn ring_all(&self) {
        for bell in self.lock().values() {
            bell.rings.send_modify(|rings| rings.looks += 1);
        }
    }
}

/// What a waiter heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Something is due.
    Work,
    /// A reason to look again.
    Look,
    Nothing,
}

/// Hears the rings for a queue since it was made.
#[derive(Debug)]
pub(crate) struct Ears {
    rings: watch::Receiver<Rings>,
    work: u64,
}

impl Ears {
    /// Listens until `until`, or the next ring.
    pub(crate) async fn hear(&mut self, until: Instant) -> Heard {
        let rung = timeout_at(until, self.rings.changed()).await;
        match rung {
            Ok(Ok(())) if self.rings.borrow_and_update().work != self.work => Heard::Work,
            Ok(Ok(())) => Heard::Look,
            // The sender lives as long as the store.
            Ok(Err(_)) | Err(_) => Heard::Nothing,
        }
    }

    /// Listens until `until`, or for work that is due: other rings are left for the look afterwards.
    pub(crate) async fn hear_work(&mut self, until: Instant) -> Heard {
        loop {
            match self.hear(until).await {
                Heard::Look if Instant::now() < until => {}
                heard => return heard,
            }
        }
    }
}

impl Wakes {
    pub(crate) fn new(listen: Option<PgConnectOptions>) -> Self {
        Self {
            listen,
            queues: Arc::default(),
            slow: Mutex::default(),
            listener: Mutex::default(),
        }
    }

    /// Whether there is an address at which wake-ups can be heard.
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

    /// Starts to listen, and returns whether wake-ups are heard.
    pub(crate) async fn is_listening(&self) -> bool {
        let Some(options) = &self.listen else {
            return false;
        };
        let mut state = {
            let mut listener = lock(&self.listener);
            let listener = listener.get_or_insert_with(|| {
                let (sender, state) = watch::channel(Listening::Untried);
                let task = tokio::spawn(listen(options.clone(), Arc::clone(&self.queues), sender));
                Listener { task, state }
            });
            listener.state.clone()
        };
        let tried = state.wait_for(|state| *state != Listening::Untried);
        timeout(FIRST_CONNECT_MAX, tried)
            .await
            .is_ok_and(|state| state.is_ok_and(|state| *state == Listening::Yes))
    }

    pub(crate) fn ears(&self, queue: &QueueName) -> Ears {
        let rings = self.queues.get(queue.as_str()).rings.subscribe();
        let work = rings.borrow().work;
        Ears { rings, work }
    }

    /// Wakes who waits for a queue in this process.
    pub(crate) fn ring(&self, queue: &QueueName, is_due: bool) {
        self.queues.ring(queue.as_str(), is_due);
    }

    /// Remembers that a queue had work just now.
    pub(crate) fn found(&self, queue: &QueueName) {
        let bell = self.queues.get(queue.as_str());
        *lock(&bell.found_at) = Some(Instant::now());
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

impl Drop for Wakes {
    fn drop(&mut self) {
        if let Ok(Some(listener)) = self.listener.get_mut().map(Option::take) {
            listener.task.abort();
        }
    }
}

/// Listens for ever. Failures are not reported: polling is the safety net, and the database's
/// absence shows in every other operation.
async fn listen(options: PgConnectOptions, queues: Arc<Queues>, state: watch::Sender<Listening>) {
    let mut pause = RECONNECT_MIN;
    loop {
        let started = Instant::now();
        if let Ok(Ok(mut listener)) = timeout(CONNECT_MAX, connect(&options)).await {
            state.send_replace(Listening::Yes);
            // Whatever came while the connection was gone is not sent again.
            queues.ring_all();
            while let Ok(notification) = next(&mut listener).await {
                if let Some(notification) = notification {
                    let payload = notification.payload();
                    match payload.strip_suffix(LATER) {
                        Some(queue) => queues.ring(queue, false),
                        None => queues.ring(payload, true),
                    }
                }
            }
        }
        state.send_replace(Listening::No);
        queues.ring_all();
        if started.elapsed() > RECONNECT_MAX {
            pause = RECONNECT_MIN;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}

async fn connect(options: &PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    // A pool of its own each time: the place of a connection that fell silent is not given back.
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

/// The next notification; none if the connection was silent for a while and still lives.
///
/// A connection whose far side vanished without a word looks like one on which nothing happens.
async fn next(listener: &mut PgListener) -> Result<Option<PgNotification>, sqlx::Error> {
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
