//! A store in a file, and a scripted rail.

use std::{collections::VecDeque, path::Path, sync::Arc, time::Duration};

use consign_kernel::{By, QueuePolicy, prelude::*};
use consign_payments::{
    EnqueueAnswer, NewPayment, OutboxId, Payments, PaymentsOptions, RailKind, queue, queue_policy,
    store,
};
use consign_sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
};

/// Generous: a busy machine must not fail a test.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A store with the queue `payments`, quick to try again.
pub(crate) struct Fixture {
    directory: TempDir,
    pub(crate) store: Arc<SqliteStore>,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("queue.db");
        let options = SqliteOptions::new(file.to_str().unwrap()).unwrap();
        let options = options.component(store::sqlite_component());
        let store = SqliteStore::open(&options.migrate_on_open(true))
            .await
            .unwrap();
        let policy = QueuePolicy {
            retry: consign_kernel::RetrySchedule::Fixed { delay_ms: 1 },
            timeout_ms: 400,
            attempts_max: 4,
            ..queue_policy(&PaymentsOptions::default())
        };
        let by = By::new("test", "test");
        store.put_queue(&queue(), &policy, &by).await.unwrap();
        Self {
            directory,
            store: Arc::new(store),
        }
    }

    /// Where its file is.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) async fn enqueue(&self, n: usize, payload: Value) -> OutboxId {
        let new = NewPayment {
            instruction_id: format!("ins-{n}"),
            idempotency_key: format!("key-{n}"),
            participant_id: "bank-a".to_owned(),
            rail_type: "PAYMENT".to_owned(),
            tenant_id: None,
            correlation_id: None,
            payload: payload.into(),
            headers: Default::default(),
            kyc_hold: false,
        };
        match self.store.enqueue_payments(&[new]).await.unwrap()[0] {
            EnqueueAnswer::Enqueued(enqueued) => enqueued.outbox_id,
            EnqueueAnswer::Conflict { .. } => panic!("payment {n} is new"),
        }
    }
}

pub(crate) fn payload(scenario: &str) -> Value {
    json!({"amount_minor": 1250, "currency_code": "ZMW", "destination": "a", "scenario": scenario})
}

/// What a rail does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers with a status, more headers and a body.
    Answer(u16, &'static str, String),
    /// Takes the request and does not answer.
    Silence,
    /// Takes the request and hangs up.
    HangUp,
}

pub(crate) fn answer(status: u16, body: Value) -> Act {
    Act::Answer(status, "", body.to_string())
}

/// A scripted HTTP server, one act per request; records the requests.
pub(crate) struct FakeRail {
    pub(crate) address: String,
    acts: Arc<Mutex<VecDeque<Act>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FakeRail {
    pub(crate) async fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let rail = Self {
            address: format!("http://{}", listener.local_addr().unwrap()),
            acts: Arc::new(Mutex::new(acts.into_iter().collect())),
            requests: Arc::default(),
        };
        let (acts, requests) = (Arc::clone(&rail.acts), Arc::clone(&rail.requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acts, requests) = (Arc::clone(&acts), Arc::clone(&requests));
                tokio::spawn(async move { serve(stream, &acts, &requests).await });
            }
        });
        rail
    }

    pub(crate) async fn requests(&self) -> Vec<String> {
        self.requests.lock().await.clone()
    }

    pub(crate) fn options(&self) -> PaymentsOptions {
        PaymentsOptions {
            rail: RailKind::Http,
            rail_url: Some(format!("{}/pay", self.address)),
            rail_status_url: Some(format!("{}/pay/{{reference}}", self.address)),
            ..PaymentsOptions::default()
        }
    }
}

/// One request per connection.
async fn serve(mut stream: TcpStream, acts: &Mutex<VecDeque<Act>>, requests: &Mutex<Vec<String>>) {
    let Some(request) = read_request(&mut stream).await else {
        return;
    };
    requests.lock().await.push(request);
    let act = acts.lock().await.pop_front();
    match act.expect("an unexpected request") {
        Act::Answer(status, headers, body) => {
            let length = body.len();
            let text = format!(
                "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            // The client may have disconnected.
            drop(stream.write_all(text.as_bytes()).await);
        }
        Act::Silence => std::future::pending().await,
        Act::HangUp => {}
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                let is_length = name.eq_ignore_ascii_case("content-length");
                is_length.then(|| value.trim().parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}
