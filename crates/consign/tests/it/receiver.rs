//! The receiver of an http sink: counts deliveries, answers as scripted.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, extract::State, http::HeaderMap, http::StatusCode};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// How requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    /// After this long, with 200.
    Takes(Duration),
    /// Not until the mood changes; then with 200.
    Hangs,
    /// With 500.
    Refuses,
    /// With 400, which is final.
    Rejects,
}

/// A server that takes messages.
#[derive(Debug)]
pub(crate) struct Receiver {
    address: SocketAddr,
    shared: Arc<ReceiverState>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct ReceiverState {
    /// Requests by idempotency key.
    seen: Mutex<BTreeMap<String, u32>>,
    /// When requests began.
    times: Mutex<Vec<Instant>>,
    /// Requests under way, and the most there ever were.
    under_way: Mutex<(usize, usize)>,
    mood: watch::Sender<ReplyMode>,
    started: watch::Sender<usize>,
}

impl Receiver {
    pub(crate) async fn start(mood: ReplyMode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(ReceiverState {
            seen: Mutex::default(),
            times: Mutex::default(),
            under_way: Mutex::default(),
            mood: watch::Sender::new(mood),
            started: watch::Sender::new(0),
        });
        let router = Router::new().fallback(take).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            shared,
            task,
        }
    }

    /// The lines of a sink that delivers here.
    pub(crate) fn sink(&self) -> String {
        let address = self.address;
        format!("kind = \"http\"\nurl = \"http://{address}/\"\nallow = [\"127.0.0.1\"]\n")
    }

    pub(crate) fn set(&self, mood: ReplyMode) {
        self.shared.mood.send_replace(mood);
    }

    /// Returns once this many requests have begun.
    pub(crate) async fn began(&self, count: usize) {
        let mut started = self.shared.started.subscribe();
        started.wait_for(|began| *began >= count).await.unwrap();
    }

    /// Requests by idempotency key.
    pub(crate) fn seen(&self) -> BTreeMap<String, u32> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// When requests began, in order.
    pub(crate) fn times(&self) -> Vec<Instant> {
        self.shared.times.lock().unwrap().clone()
    }

    /// The most requests that were under way at once.
    pub(crate) fn most_under_way(&self) -> usize {
        self.shared.under_way.lock().unwrap().1
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Counts a request until it is dropped: a client may hang up.
struct UnderWay(Arc<ReceiverState>);

impl UnderWay {
    fn count(shared: &Arc<ReceiverState>) -> Self {
        let mut under_way = shared.under_way.lock().unwrap();
        under_way.0 += 1;
        under_way.1 = under_way.1.max(under_way.0);
        Self(Arc::clone(shared))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.lock().unwrap().0 -= 1;
    }
}

async fn take(State(shared): State<Arc<ReceiverState>>, headers: HeaderMap) -> StatusCode {
    shared.times.lock().unwrap().push(Instant::now());
    let _counted = UnderWay::count(&shared);
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    *shared.seen.lock().unwrap().entry(key).or_default() += 1;
    shared.started.send_modify(|count| *count += 1);
    let mut moods = shared.mood.subscribe();
    let mood = *moods.borrow_and_update();
    match mood {
        ReplyMode::Takes(time) => {
            // Taking time is what it is there for; nothing is waited for.
            tokio::time::timeout(time, std::future::pending::<()>())
                .await
                .unwrap_or_default();
            StatusCode::OK
        }
        ReplyMode::Hangs => {
            moods
                .wait_for(|mood| *mood != ReplyMode::Hangs)
                .await
                .unwrap();
            StatusCode::OK
        }
        ReplyMode::Refuses => StatusCode::INTERNAL_SERVER_ERROR,
        ReplyMode::Rejects => StatusCode::BAD_REQUEST,
    }
}
