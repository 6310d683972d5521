//! Where http sinks deliver to: it counts what it gets, by message.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

use crate::http::receive;

/// An HTTP server that answers every delivery with 200, or with nothing while it hangs.
#[derive(Debug)]
pub(crate) struct Receiver {
    address: SocketAddr,
    state: Arc<State>,
    _listening: JoinSet<()>,
}

#[derive(Debug)]
struct State {
    /// How long it takes over each delivery.
    pause: Duration,
    hangs: AtomicBool,
    seen: watch::Sender<u64>,
    by_key: Mutex<HashMap<String, u32>>,
    last: Mutex<Option<Instant>>,
    begun: Mutex<Begun>,
}

/// When deliveries began.
#[derive(Debug, Default)]
struct Begun {
    times: Vec<Instant>,
    under_way: usize,
    most: usize,
}

impl Receiver {
    pub(crate) async fn start(pause: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            pause,
            hangs: AtomicBool::new(false),
            seen: watch::Sender::new(0),
            by_key: Mutex::default(),
            last: Mutex::default(),
            begun: Mutex::default(),
        });
        let mut listening = JoinSet::new();
        listening.spawn(accept(listener, Arc::clone(&state)));
        Ok(Self {
            address,
            state,
            _listening: listening,
        })
    }

    /// A queue whose sink delivers here, as TOML.
    pub(crate) fn queue(&self, name: &str, settings: &str) -> String {
        format!(
            "[queues.{name}]\n{settings}\n[queues.{name}.sink]\nkind = \"http\"\n\
             url = \"http://{}/\"\nallow = [\"127.0.0.1\"]\n",
            self.address
        )
    }

    /// From now on deliveries get no answer, or get one.
    pub(crate) fn hang(&self, hangs: bool) {
        self.state.hangs.store(hangs, Relaxed);
    }

    /// How many deliveries were answered.
    pub(crate) fn seen(&self) -> u64 {
        *self.state.seen.borrow()
    }

    /// Waits until so many deliveries were answered.
    pub(crate) async fn wait_for(&self, count: u64, patience: Duration) -> Result<()> {
        let mut seen = self.state.seen.subscribe();
        let reached = timeout(patience, seen.wait_for(|seen| *seen >= count)).await;
        let what = || format!("{} of {count} deliveries came in time", self.seen());
        reached.with_context(what)?.with_context(what)?;
        Ok(())
    }

    /// When the last delivery was answered.
    pub(crate) fn last(&self) -> Option<Instant> {
        *lock(&self.state.last)
    }

    /// When deliveries began, in order, and the most that were under way at once.
    pub(crate) fn begun(&self) -> (Vec<Instant>, usize) {
        let begun = lock(&self.state.begun);
        (begun.times.clone(), begun.most)
    }

    /// How many messages came at all, and how many deliveries were one too many.
    pub(crate) fn messages_and_repeats(&self) -> (u64, u64) {
        let by_key = lock(&self.state.by_key);
        let deliveries: u64 = by_key.values().map(|count| u64::from(*count)).sum();
        let messages = by_key.len() as u64;
        (messages, deliveries - messages)
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        // A worker that is killed leaves broken connections behind, as it should.
        let state = Arc::clone(&state);
        connections.spawn(async move { drop(answer(stream, &state).await) });
    }
}

async fn answer(stream: TcpStream, state: &State) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = receive(&mut stream).await? {
        if state.hangs.load(Relaxed) {
            // Never answered.
            return std::future::pending().await;
        }
        {
            let mut begun = lock(&state.begun);
            begun.times.push(Instant::now());
            begun.under_way += 1;
            begun.most = begun.most.max(begun.under_way);
        }
        if !state.pause.is_zero() {
            drop(timeout(state.pause, std::future::pending::<()>()).await);
        }
        lock(&state.begun).under_way -= 1;
        let key = request.header("idempotency-key").context("no key")?;
        // Counted before it is answered: a delivery counts even if its answer is lost.
        *lock(&state.by_key).entry(key.to_owned()).or_default() += 1;
        *lock(&state.last) = Some(Instant::now());
        state.seen.send_modify(|seen| *seen += 1);
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        stream.get_mut().write_all(answer).await?;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
