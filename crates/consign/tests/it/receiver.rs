//! The receiver of an http sink: counts deliveries, answers as scripted.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
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
    mood: watch::Sender<ReplyMode>,
    started: watch::Sender<usize>,
}

impl Receiver {
    pub(crate) async fn start(mood: ReplyMode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(ReceiverState {
            seen: Mutex::default(),
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
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(shared): State<Arc<ReceiverState>>, headers: HeaderMap) -> StatusCode {
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
