//! Accepts concurrent orders in one transaction.
//!
//! While a ledger call runs, further orders queue up and are accepted together by the next call: a
//! commit costs the same for one order as for many. A single order never waits for others. Above a
//! threshold a second call runs in parallel: it prepares its rows while the first is flushed to
//! disk.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use consign_kernel::{Certainty, Error, Result};
use tokio::{sync::oneshot, time::timeout};

use crate::{AcceptResult, Ledger, NewOrder};

/// Maximum orders in one transaction.
const TOGETHER_MAX: usize = 64;
/// Approximate maximum text in one transaction. A single order may be longer.
const TOGETHER_BYTES_MAX: usize = 512 * 1024;

/// Maximum concurrent ledger calls.
const CALLS_MAX: usize = 2;
/// The second call starts only with at least this many queued orders.
const SECOND_CALL_MIN: usize = 6;

/// How long queued orders wait for the running ledger call. A call that waits for a row lock of an
/// open transaction must not delay other orders.
const CALL_WAITED_FOR: Duration = Duration::from_millis(500);

/// Channel for the result of one order. All orders of a failed transaction share the error.
type Reply = oneshot::Sender<Result<AcceptResult, Arc<Error>>>;

struct PendingOrder {
    order: NewOrder,
    reply: Reply,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<PendingOrder>,
    /// Running server tasks; each also takes orders that arrive while it runs.
    servers: usize,
}

impl Queue {
    /// Whether the queue length justifies one more server task.
    fn needs_another(&self) -> bool {
        match self.servers {
            0 => !self.waiting.is_empty(),
            CALLS_MAX.. => false,
            _ => self.waiting.len() >= SECOND_CALL_MIN,
        }
    }
}

/// Passes orders to the ledger, in batches when several are queued.
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

    /// Accepts an order. Dropping the future does not cancel a running ledger call: the order may
    /// be accepted anyway, and other orders of the call are unaffected.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        order: NewOrder,
    ) -> Result<AcceptResult, Arc<Error>> {
        let (reply, answer) = oneshot::channel();
        let is_needed = {
            let mut queue = self.queue();
            queue.waiting.push(PendingOrder { order, reply });
            let is_needed = queue.needs_another();
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

/// A task that serves the queue. If it panics, the next order starts another.
struct Server(Arc<Acceptor>);

impl Server {
    /// The next batch to accept; `None` ends the task.
    fn next(&self) -> Option<Vec<PendingOrder>> {
        let mut queue = self.0.queue();
        // Orders whose caller stopped waiting were not sent to the database and are dropped.
        queue.waiting.retain(|waiting| !waiting.reply.is_closed());
        // This task counts as a server; it continues only if the queue would start it now.
        queue.servers -= 1;
        if !queue.needs_another() {
            return None;
        }
        queue.servers += 1;
        let mut bytes = 0;
        let is_within = |waiting: &&PendingOrder| {
            bytes += waiting.order.body_bytes();
            bytes <= TOGETHER_BYTES_MAX
        };
        let first = queue.waiting.iter().take(TOGETHER_MAX);
        let count = first.take_while(is_within).count().max(1);
        Some(queue.waiting.drain(..count).collect())
    }
}

impl NewOrder {
    /// Length of the request body.
    fn body_bytes(&self) -> usize {
        self.payload["body"].as_str().map_or(0, str::len)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut queue = self.0.queue();
            queue.servers -= 1;
            // Dropping the senders fails their receivers; another server would take the orders
            // instead.
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
        // A slower call continues in its own task. If it panics, the dropped senders fail their
        // receivers.
        drop(timeout(CALL_WAITED_FOR, call).await);
    }
}

async fn accept_together(ledger: Arc<dyn Ledger>, together: Vec<PendingOrder>) {
    let (orders, replies): (Vec<NewOrder>, Vec<Reply>) = together
        .into_iter()
        .map(|waiting| (waiting.order, waiting.reply))
        .unzip();
    let error = match ledger.accept(&orders).await {
        Ok(answers) if answers.len() == orders.len() => {
            for (reply, answer) in replies.into_iter().zip(answers) {
                send_reply(reply, Ok(answer));
            }
            return;
        }
        Ok(_) => unavailable("the ledger returned another number of results than orders"),
        Err(error) => error,
    };
    // An order that the store rejects, or that waits for a row lock, must not fail the other
    // orders.
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
        send_reply(reply, Err(Arc::clone(&error)));
    }
}

async fn accept_alone(ledger: &dyn Ledger, order: NewOrder, reply: Reply) {
    let alone = ledger.accept(std::slice::from_ref(&order)).await;
    let answer = alone.and_then(|mut answers| {
        let none = || unavailable("the ledger returned no result for an order");
        answers.pop().ok_or_else(none)
    });
    send_reply(reply, answer.map_err(Arc::new));
}

fn send_reply(reply: Reply, answer: Result<AcceptResult, Arc<Error>>) {
    // The caller stopped waiting; a repeated request finds the order in the ledger.
    drop(reply.send(answer));
}

fn unavailable(why: &'static str) -> Error {
    Error::Unavailable {
        attempted: "accept an order",
        certainty: Certainty::Unknown,
        source: why.into(),
    }
}
