//! A request ends in time, and keeps its slot until then; what it has begun in the database is never cut off half
//! way.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{extract::Request, http::Method, middleware::Next, response::Response};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use tracing::Instrument;

use super::body::Share;
use crate::problem::{Problem, codes, internal};

/// Signals a handler that its client no longer waits.
#[derive(Clone, Debug)]
pub struct Client(watch::Receiver<()>);

impl Client {
    /// Whether the client has hung up, or the time is over.
    pub fn is_gone(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Returns once it has.
    pub async fn gone(&self) {
        let mut waiting = self.0.clone();
        while waiting.changed().await.is_ok() {}
    }
}

/// Runs a handler in a task of its own.
///
/// When the client hangs up or the time is over, a request that only reads is dropped; one that
/// writes goes on by itself to its end, so that no transaction is left half way, and the client is
/// answered that the outcome is unknown. Its slot is taken until then.
///
/// A large request gets a thread of its own: reading and writing its JSON would keep one of the
/// runtime's threads from other requests.
pub(crate) async fn run(
    mut request: Request,
    next: Next,
    (slot, share): (Option<Slot>, Share),
    limit: Duration,
) -> Result<Response, Problem> {
    let (waits, client) = watch::channel(());
    request.extensions_mut().insert(Client(client));
    let only_reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_large = share.is_large();
    let work = async move {
        let response = next.run(request).await;
        drop((slot, share));
        response
    }
    .in_current_span();
    let mut task = if is_large {
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || runtime.block_on(work))
    } else {
        tokio::spawn(work)
    };
    let _reader = only_reads.then(|| Abort(task.abort_handle()));
    let ended = timeout(limit, &mut task).await;
    drop(waits);
    match ended {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(internal(panic_text(error))),
        Err(_) => Err(too_late(limit, only_reads)),
    }
}

fn too_late(limit: Duration, only_reads: bool) -> Problem {
    let limit = limit.as_millis();
    let problem = |more: &str| {
        let detail = format!("no answer within {limit} ms{more}");
        Problem::new(codes::REQUEST_TIMEOUT, detail)
    };
    if only_reads {
        return problem("");
    }
    problem("; it may still happen. Repeat it with the same key or token to find out")
        .with("outcome", "unknown")
}

/// Ends a task when dropped.
struct Abort(tokio::task::AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("a handler panicked: {}", text.unwrap_or("no message"))
        }
        Err(error) => format!("a handler ended: {error}"),
    }
}

/// Slots for requests being worked on, and for claims that wait.
#[derive(Debug)]
pub(crate) struct Slots {
    work: Arc<Semaphore>,
    waits: Arc<Semaphore>,
}

/// A slot; released when the last clone is dropped, or before.
#[derive(Clone, Debug)]
pub struct Slot(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Slots {
    pub(crate) fn new(work: usize, waits: usize) -> Self {
        Self {
            work: Arc::new(Semaphore::new(work)),
            waits: Arc::new(Semaphore::new(waits)),
        }
    }

    /// A slot for a request, if there is one.
    pub(crate) fn take(&self) -> Result<Slot, Problem> {
        let permit = Arc::clone(&self.work).try_acquire_owned().map_err(|_| {
            let detail = "the server has reached its limit of concurrent requests";
            Problem::new(codes::OVERLOADED, detail)
                .with("outcome", "not_done")
                .retry_after(Duration::from_secs(1))
        })?;
        Ok(Slot(Arc::new(Mutex::new(Some(permit)))))
    }

    /// A slot to wait, if there is one.
    pub(crate) fn wait(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.waits).try_acquire_owned().ok()
    }
}

impl Slot {
    /// Releases the slot early: a claim that waits does no work.
    pub fn give_up(&self) {
        let permit = self
            .0
            .lock()
            .expect("invariant: no panic under this lock")
            .take();
        drop(permit);
    }
}
