//! Accepting orders that come at the same time in one transaction.
//!
//! While one call of the ledger is under way, whatever else comes in waits and is then accepted
//! together: a commit costs the same for one order and for many. Nobody waits for company: an order
//! that comes alone goes alone. Once enough wait, they do not wait for the first call to end either:
//! a second one prepares its rows while the first is written to disk.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use consign_kernel::{Certainty, Error, Result};
use tokio::{sync::oneshot, time::timeout};

use crate::{Accepted, Ledger, NewOrder};

/// Most orders of one transaction,
const TOGETHER_MAX: usize = 64;
/// and about the most text: an order alone may be longer.
const TOGETHER_BYTES_MAX: usize = 512 * 1024;

/// Most calls of the ledger at once,
const CALLS_MAX: usize = 2;
/// the second for at least this many orders.
const SECOND_CALL_MIN: usize = 6;

/// How long the next orders wait for a call of the ledger to end: one that waits for the lock of an
/// open transaction keeps no others waiting.
const CALL_WAITED_FOR: Duration = Duration::from_millis(500);

/// What an order is waited for with. The error is shared by all that were in its transaction.
type Reply = oneshot::Sender<Result<Accepted, Arc<Error>>>;

struct Waiting {
    order: NewOrder,
    reply: Reply,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// Tasks at work on the queue; they take along what comes meanwhile.
    servers: usize,
}

impl Queue {
    /// Whether the queue wants one server more than it has.
    fn wants_another(&self) -> bool {
        match self.servers {
            0 => !self.waiting.is_empty(),
            CALLS_MAX.. => false,
            _ => self.waiting.len() >= SECOND_CALL_MIN,
        }
    }
}

/// Hands orders to the ledger, several at once where several wait.
pub(crate) struct Acceptor {
    ledger: Arc<dyn Ledger>,
    queue: Mutex<Queue>,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

impl Acceptor {
    pub(crate) fn new(ledger: Arc<dyn Ledger>) -> Arc<Self> {
        Arc::new(Self {
            ledger,
            queue: Mutex::default(),
        })
    }

    /// Accepts an order. Whoever stops waiting does not stop what was begun: the order may be
    /// accepted all the same, and the others are.
    pub(crate) async fn accept(self: &Arc<Self>, order: NewOrder) -> Result<Accepted, Arc<Error>> {
        let (reply, answer) = oneshot::channel();
        let is_needed = {
            let mut queue = self.queue();
            queue.waiting.push(Waiting { order, reply });
            let is_needed = queue.wants_another();
            queue.servers += usize::from(is_needed);
            is_needed
        };
        if is_needed {
            tokio::spawn(serve(Server(Arc::clone(self))));
        }
        // The task that held the other end panicked.
        let gone = |_| Err(Arc::new(unavailable("the ledger panicked")));
        answer.await.unwrap_or_else(gone)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue
            .lock()
            .expect("invariant: no panic under this lock")
    }
}

/// One that serves the queue. Should it panic, the next order starts another.
struct Server(Arc<Acceptor>);

impl Server {
    /// What is to be accepted next; none ends the service.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.0.queue();
        // Those nobody waits for any more have not been sent to the database: they need not be.
        queue.waiting.retain(|waiting| !waiting.reply.is_closed());
        // It is one of the servers, and stays only if the queue would start it now.
        queue.servers -= 1;
        if !queue.wants_another() {
            return None;
        }
        queue.servers += 1;
        let mut bytes = 0;
        let is_within = |waiting: &&Waiting| {
            bytes += waiting.order.body_bytes();
            bytes <= TOGETHER_BYTES_MAX
        };
        let first = queue.waiting.iter().take(TOGETHER_MAX);
        let count = first.take_while(is_within).count().max(1);
        Some(queue.waiting.drain(..count).collect())
    }
}

impl NewOrder {
    /// How long the request was.
    fn body_bytes(&self) -> usize {
        self.payload["body"].as_str().map_or(0, str::len)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut queue = self.0.queue();
            queue.servers -= 1;
            // Dropping them answers them; another server would take them along.
            if queue.servers == 0 {
                queue.waiting.clear();
            }
        }
    }
}

async fn serve(server: Server) {
    while let Some(together) = server.next() {
        let ledger = Arc::clone(&server.0.ledger);
        let call = tokio::spawn(async move { accept_together(ledger, together).await });
        // It goes on by itself if it takes longer. A panic in it drops the replies, which answers.
        drop(timeout(CALL_WAITED_FOR, call).await);
    }
}

async fn accept_together(ledger: Arc<dyn Ledger>, together: Vec<Waiting>) {
    let (orders, replies): (Vec<NewOrder>, Vec<Reply>) = together
        .into_iter()
        .map(|waiting| (waiting.order, waiting.reply))
        .unzip();
    let error = match ledger.accept(&orders).await {
        Ok(answers) if answers.len() == orders.len() => {
            for (reply, answer) in replies.into_iter().zip(answers) {
                tell(reply, Ok(answer));
            }
            return;
        }
        Ok(_) => unavailable("the ledger answered about other orders than it was asked about"),
        Err(error) => error,
    };
    // One that the store refuses, or that waits for another transaction, must not take its neighbours
    // along.
    let is_about_one = !error.is_retryable() || matches!(error, Error::Locked { .. });
    if orders.len() > 1 && is_about_one {
        for (order, reply) in orders.into_iter().zip(replies) {
            let ledger = Arc::clone(&ledger);
            let call = tokio::spawn(async move { accept_alone(&*ledger, order, reply).await });
            drop(timeout(CALL_WAITED_FOR, call).await);
        }
        return;
    }
    let error = Arc::new(error);
    for reply in replies {
        tell(reply, Err(Arc::clone(&error)));
    }
}

async fn accept_alone(ledger: &dyn Ledger, order: NewOrder, reply: Reply) {
    let alone = ledger.accept(std::slice::from_ref(&order)).await;
    let answer = alone.and_then(|mut answers| {
        let none = || unavailable("the ledger did not answer about an order");
        answers.pop().ok_or_else(none)
    });
    tell(reply, answer.map_err(Arc::new));
}

fn tell(reply: Reply, answer: Result<Accepted, Arc<Error>>) {
    // Nobody waits any more: the order is in the ledger, where a repeat finds it.
    drop(reply.send(answer));
}

fn unavailable(why: &'static str) -> Error {
    Error::Unavailable {
        attempted: "accept an order",
        certainty: Certainty::Unknown,
        source: why.into(),
    }
}
